"""Files are data: nothing in them is run, and nothing is written where it was not asked for."""

from __future__ import annotations

import ast
import csv
import hashlib
import itertools
import pickle
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch
from harness import trials
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import pyro_copula as pc
from pyro_copula import datasets
from pyro_copula.cli import fit_files, graph_tables, outputs
from pyro_copula.cli.main import app
from pyro_copula.datasets import sources
from pyro_copula.errors import ChecksumError, FitFileError

PACKAGE = Path(pc.__file__).parent
EXPERIMENTS = Path(trials.__file__).parents[1]

#: Calls that run what is in a file or a string, by the last parts of their names.
RUNS = {
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "marshal.load",
    "marshal.loads",
    "shelve.open",
    "dill.load",
    "cloudpickle.load",
    "joblib.load",
    "pd.read_pickle",
    "pandas.read_pickle",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "os.system",
    "os.popen",
    "torch.jit.load",
    "torch.hub.load",
    "eval",
    "exec",
    "compile",
    "__import__",
}

#: What is allowed, by file, and why.
ALLOWED = {
    (
        "crew.py",
        "pickle.loads",
    ): "reads what it has just dumped itself",
}

#: Calls that write what an archive names, wherever it says.
UNPACKS = {"extract", "extractall", "unpack_archive", "Unzip", "Untar"}


def calls(path):
    """Every call in a file: its name with dots, and its keywords."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            keywords = {k.arg: getattr(k.value, "value", None) for k in node.keywords}
            yield ast.unparse(node.func), keywords


def faults(path):
    """What a file does that it must not do with what it reads."""
    for name, keywords in calls(path):
        last = name.rsplit(".", 1)[-1]
        if name in RUNS:
            yield name
        if name == "torch.load" and keywords.get("weights_only") is not True:
            yield "torch.load without weights_only=True"
        if name in ("np.load", "numpy.load") and keywords.get("allow_pickle") is not False:
            yield f"{name} without allow_pickle=False"
        if keywords.get("shell"):
            yield f"{name} with a shell"
        if keywords.get("verify") is False:
            yield f"{name} without checking certificates"
        if last in UNPACKS:
            yield f"{name}, which writes what an archive names"


def sources_of(folder):
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


def test_nothing_that_is_read_is_run():
    files = [*sources_of(PACKAGE), *sources_of(EXPERIMENTS)]
    assert len(files) > 100
    found = {(path.name, fault) for path in files for fault in faults(path)}
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "line",
    [
        "pickle.load(f)",
        "torch.load(f)",
        "torch.load(f, weights_only=False)",
        "np.load(f)",
        "np.load(f, allow_pickle=True)",
        "joblib.load(f)",
        "yaml.load(f)",
        "eval(text)",
        "exec(text)",
        "archive.extractall(folder)",
        "subprocess.run(text, shell=True)",
        "requests.get(url, verify=False)",
    ],
)
def test_the_search_finds_what_it_looks_for(line, tmp_path):
    path = tmp_path / "a.py"
    path.write_text(f"def f():\n    {line}\n")
    assert len(list(faults(path))) == 1


# ---------------------------------------------------------------- files that would run something


class Bomb:
    """Makes a file if it is unpickled."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return open, (self.marker, "w")


@pytest.mark.parametrize("how", ["pickle", "torch", "old torch"])
def test_a_fit_file_with_code_in_it_is_refused(how, tmp_path):
    from pyro_copula.inference.files import header

    marker, path, inner = tmp_path / "executed", tmp_path / "a.fit", tmp_path / "inner"
    if how == "pickle":
        inner.write_bytes(pickle.dumps(Bomb(marker)))
    else:
        torch.save(Bomb(marker), inner, _use_new_zipfile_serialization=how == "torch")
    body = inner.read_bytes()
    path.write_bytes(header("fit", body) + body)
    with pytest.raises(FitFileError, match="cannot be decoded"):
        pc.load_fit(path)
    assert not marker.exists()


def test_files_that_unfold_are_refused(tmp_path):
    from pyro_copula.inference.files import header

    path, inner = tmp_path / "a.fit", tmp_path / "inner"
    torch.save({"y": torch.zeros(()).expand(10**12)}, inner)
    body = inner.read_bytes()
    path.write_bytes(header("fit", body) + body)
    with pytest.raises(FitFileError, match="cannot be decoded") as caught:
        pc.load_fit(path)
    assert "larger than the file" in str(caught.value.__cause__)
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(10**7))
    body = inner.read_bytes()
    path.write_bytes(header("fit", body) + body)
    with pytest.raises(FitFileError, match="cannot be decoded") as caught:
        pc.load_fit(path)
    assert "compressed" in str(caught.value.__cause__)


@pytest.mark.parametrize("name", ["/dev/zero", "a directory", "a\0b"])
def test_a_fit_that_is_no_file(name, tmp_path):
    (tmp_path / "a directory").mkdir()
    with pytest.raises(FitFileError, match=r"is not a file|cannot be read"):
        pc.load_fit(tmp_path / name)


# ---------------------------------------------------------------- downloads


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        try:
            for _ in range(self.server.repeat):
                self.wfile.write(self.server.content)
        except ConnectionError:
            self.server.refused.set()

    def log_message(self, *arguments) -> None:
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content, server.repeat = b"something else", 1
        server.refused = threading.Event()
        monkeypatch.setenv(sources.URL_VARIABLE, f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.delenv(sources.ROOT_VARIABLE, raising=False)
        monkeypatch.setattr(sources, "cache_directory", lambda: tmp_path / "cache")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def kept(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_wrong_checksum_is_refused_and_nothing_is_kept(server, tmp_path):
    for load in (datasets.election, datasets.emnlp, datasets.wikipedia):
        with pytest.raises(ChecksumError, match="Nothing was kept"):
            load()
    assert kept(tmp_path) == []


def test_a_server_without_end_is_cut_off(server, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_BYTES", 10**6)
    server.content, server.repeat = bytes(10**5), 10**4  # a gigabyte, if it were taken
    with pytest.raises(ChecksumError):
        datasets.election()
    assert kept(tmp_path) == []
    assert server.refused.wait(timeout=60)  # its thread learns of it a moment later


def test_every_published_file_is_below_the_largest_size():
    assert sources.MAX_BYTES > 10 * 3_500_000  # the largest, wiki-squirrel-edge.npy


@pytest.mark.parametrize("member", ["../../evil.npy", "/evil.npy", "shape.npy"])
def test_an_archive_writes_nothing(member, tmp_path, monkeypatch):
    """EMNLP's graph is a zip archive: it is read in memory, whatever its members are called."""
    good, folder = tmp_path / "good.npz", tmp_path / "a" / "b" / "emnlp"
    folder.mkdir(parents=True)
    scipy.sparse.save_npz(good, scipy.sparse.csr_array(np.eye(3)))
    bad = folder / "emnlp-adj.npz"
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            new.writestr(member if name == "shape.npy" else name, old.read(name))
    digest = hashlib.sha256(bad.read_bytes()).hexdigest()
    monkeypatch.setitem(sources.FILES, "emnlp/emnlp-adj.npz", sources.Source("x", digest))
    with pytest.raises(pc.errors.DatasetError):  # the other files are not there, or it is bad
        datasets.emnlp(root=tmp_path / "a" / "b")
    assert sorted(path.name for path in kept(tmp_path)) == ["emnlp-adj.npz", "good.npz"]


# ---------------------------------------------------------------- tables and spreadsheets

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12) | st.builds(
    lambda first, rest: first + rest,
    st.sampled_from(["=", "+", "-", "@", "\t", "\r", "\n", "'", "'=", "''+", "-1", "-1+"]),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=5),
)


@given(TEXTS)
def test_a_cell_is_disarmed_and_can_be_had_back(text):
    cell = outputs.harmless(text)
    assert outputs.original(cell) == text
    number = cell.lstrip("-").replace(".", "", 1).isdecimal() and cell.isascii()
    assert cell[:1] not in ("=", "+", "@", "\t", "\r", "\n")
    assert not cell.startswith("-") or number


@given(st.lists(TEXTS, min_size=1, max_size=6))
def test_a_table_is_read_back_as_it_was(tmp_path_factory, ids):
    path = tmp_path_factory.getbasetemp() / "table.csv"
    numbers = [-1.5, 2.0, -1e-7, 3e10, 0.0, -4.0][: len(ids)]
    fit_files.write_table(pd.DataFrame({"id": ids, "mean": numbers}), path)
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert [outputs.original(row[0]) for row in rows[1:]] == ids
    assert [float(row[1]) for row in rows[1:]] == numbers  # numbers stay numbers
    assert all(not row[1].startswith("'") for row in rows[1:])
    # what a program that splits at bare returns sees is disarmed, too
    assert all(len(row) == 2 for row in rows)


#: Commands, paths and formulas.
EVIL = ["=cmd|' /C calc'!A0", "$(touch executed)", "`touch executed`", "../../etc/passwd"]
EVIL += ["__import__('os').system('touch executed')", "{0.__class__}", "%s%n", "<script>"]
EVIL += ["/evil", "..", "+1+1", "@SUM(A1)"]


def write_tables(folder, ids, column="x"):
    """The two tables of a graph; the nodes with an evil name have no value yet."""
    path, edges = folder / "nodes.csv", folder / "edges.csv"
    rows = [[name, k % 5, "" if name in EVIL else k % 3] for k, name in enumerate(ids)]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["id", column, "y"], *rows])
    with open(edges, "w", newline="") as file:
        csv.writer(file).writerows([["a", "b"], *itertools.pairwise(ids)])
    return path, edges


def test_cells_are_data(tmp_path):
    """A cell with a command, a path or a formula is an id, and nothing else."""
    ids = [*EVIL, *(f"n{k}" for k in range(12))]
    path, edges = write_tables(tmp_path, ids)
    found = graph_tables.read_nodes(path, "y")
    assert found.ids == ids
    assert len(graph_tables.read_edges(edges, ids).pairs) == len(ids) - 1
    assert sorted(p.name for p in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_a_command_over_such_cells_writes_its_results_and_nothing_else(tmp_path, monkeypatch):
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    fit, short = pc.fit, pc.Schedule(max_epochs=5)
    monkeypatch.setattr(pc, "fit", lambda *a, **k: fit(*a, **{**k, "schedule": short}))
    ids = [*EVIL, *(f"n{k}" for k in range(20))]
    path, edges = write_tables(folder, ids, column="=../../evil")
    words = ["fit", "--nodes", path, "--edges", edges, "--target", "y", "--out", folder / "out"]
    words += ["--backbone", "linear", "--marginal", "normal"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    there = sorted(str(file.relative_to(folder)) for file in kept(tmp_path))
    results = ["fit.pyrocopula", "picture.png", "predictions.csv", "summary.txt"]
    assert there == ["edges.csv", "nodes.csv", *(f"out/{name}" for name in results)]
    with open(folder / "out" / "predictions.csv", newline="", encoding="utf-8") as file:
        cells = [row[0] for row in csv.reader(file)][1:]
    assert [outputs.original(cell) for cell in cells] == EVIL
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    assert pc.load_fit(folder / "out" / "fit.pyrocopula").predict().mean.isfinite().all()
