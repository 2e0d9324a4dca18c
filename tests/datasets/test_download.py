"""The download path, against a server on this machine."""

from __future__ import annotations

import hashlib
import pickle
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pyro_copula import datasets, errors
from pyro_copula.datasets import sources

TABLE = b"x1,x2,x3,x4,x5,x6,x7\n" + b"1,2,3,4,5,6,7\n" * 3
EDGES = b"x1,x2\n1,2\n2,1\n2,3\n"
FILES = {"/data/election/2012_xy.csv": TABLE, "/data/election/2012_adj.csv": EDGES}


class Handler(BaseHTTPRequestHandler):
    """Serves :data:`FILES` in the way that ``server.mode`` says, and counts requests."""

    def do_GET(self) -> None:
        self.server.requests += 1
        content = FILES[self.path]
        if self.server.mode == "missing":
            self.send_error(404)
            return
        if self.server.mode == "altered":
            content = content.replace(b"1", b"9")
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        # An interrupted download: the announced length, half of the bytes, and a closed door.
        half = self.server.mode in ("interrupted", "stalled")
        self.wfile.write(content[: len(content) // 2] if half else content)
        if self.server.mode == "stalled":  # an open door, and nobody behind it
            self.server.over.wait(10)

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A running server, with the loaders pointed at it and an empty cache in ``tmp_path``."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.mode, server.requests, server.over = "good", 0, threading.Event()
        monkeypatch.setenv(sources.URL_VARIABLE, f"http://127.0.0.1:{server.server_port}/data")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv(sources.ROOT_VARIABLE, raising=False)
        monkeypatch.setattr(sources, "cache_directory", lambda: tmp_path / "cache")
        for name, content in (("2012_xy.csv", TABLE), ("2012_adj.csv", EDGES)):
            name = f"election/{name}"
            digest = hashlib.sha256(content).hexdigest()
            monkeypatch.setitem(sources.FILES, name, sources.Source(name, digest))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.over.set()
        server.shutdown()
        thread.join()


def cached_files(tmp_path):
    return sorted(path.name for path in tmp_path.rglob("*") if path.is_file())


def test_a_good_download_is_kept_and_not_repeated(server, tmp_path):
    data = datasets.election("income")
    assert data.num_nodes == 3
    assert data.edge_index.shape == (2, 4)
    assert cached_files(tmp_path) == ["2012_adj.csv", "2012_xy.csv"]
    assert server.requests == 2
    datasets.election("education")
    assert server.requests == 2


@pytest.mark.parametrize(
    ("mode", "error", "message"),
    [
        ("interrupted", errors.DownloadError, "broke off in the middle"),
        ("altered", errors.ChecksumError, "its SHA-256 differs"),
        ("missing", errors.DownloadError, "status 404"),
    ],
)
def test_a_bad_download_leaves_nothing_and_can_be_repeated(server, tmp_path, mode, error, message):
    server.mode = mode
    with pytest.raises(error, match=message) as caught:
        datasets.election()
    assert isinstance(caught.value, errors.DatasetError)
    assert "2012_xy.csv" in str(caught.value)
    assert "PYRO_COPULA_DATA" in str(caught.value)
    assert cached_files(tmp_path) == []
    server.mode = "good"
    assert datasets.election().num_nodes == 3


def test_no_server(server, tmp_path, monkeypatch):
    monkeypatch.setenv(sources.URL_VARIABLE, "http://127.0.0.1:9/data")
    with pytest.raises(errors.DownloadError, match="cannot be reached"):
        datasets.election()
    assert cached_files(tmp_path) == []


def test_a_silent_server(server, tmp_path, monkeypatch):
    import socket

    monkeypatch.setattr(sources, "TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/data"
        monkeypatch.setenv(sources.URL_VARIABLE, url)
        with pytest.raises(errors.DownloadError, match=r"no answer in 0\.2 seconds"):
            datasets.election()
    assert cached_files(tmp_path) == []


def test_a_server_that_falls_silent_in_the_middle(server, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "TIMEOUT", 0.3)
    server.mode = "stalled"
    with pytest.raises(errors.DownloadError, match="broke off in the middle"):
        datasets.election()
    assert cached_files(tmp_path) == []


def test_a_user_who_interrupts(server, tmp_path, monkeypatch):
    import requests

    def interrupted(self, chunk_size):
        yield b"x1,x2"
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(requests.Response, "iter_content", interrupted)
        with pytest.raises(KeyboardInterrupt):
            datasets.election()
    assert cached_files(tmp_path) == []
    assert datasets.election().num_nodes == 3


def test_a_damaged_cache_is_repaired(server, tmp_path):
    datasets.election()
    path = tmp_path / "cache/election/2012_xy.csv"
    path.write_bytes(path.read_bytes()[:10])
    assert datasets.election().num_nodes == 3
    assert path.read_bytes() == TABLE
    assert server.requests == 3


def test_a_cache_that_cannot_be_written(server, tmp_path):
    (tmp_path / "cache").write_text("a file where the directory should be")
    with pytest.raises(errors.DownloadError, match="could not be written to the cache"):
        datasets.election()


def test_root_never_downloads(server, tmp_path):
    with pytest.raises(errors.MissingFileError):
        datasets.election(root=tmp_path)
    assert server.requests == 0


def test_the_default_source_is_pinned_and_complete():
    assert sources.BASE_URL.startswith("https://raw.githubusercontent.com/jiaqima/CopulaGNN/")
    for name, source in sources.FILES.items():
        assert len(source.sha256) == 64
        assert source.remote.split("/")[-1] == name.split("/")[-1]


def test_errors_survive_pickling():
    error = errors.ChecksumError("election/2012_xy.csv", "is not there", "Try again.")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.hint) == (type(error), str(error), "Try again.")
