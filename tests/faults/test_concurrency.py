"""Several processes at one place at once: nothing is damaged, and all have the same numbers."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from harness import committed, trials
from mortals import EXPERIMENTS

from pyro_copula import atomic
from pyro_copula.calibration.records import Records
from pyro_copula.errors import InvalidArgumentError


def at_once(programs, environment=None):
    """Runs programs at the same time; what each prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for program in programs
    ]
    said = [process.communicate(timeout=600) for process in running]
    for process, (_, errors) in zip(running, said):
        assert process.returncode == 0, errors
    return [output for output, _ in said]


def test_leftovers_of_the_living_stay(tmp_path):
    path = tmp_path / "a.txt"
    mine = atomic.leftover_name(path)
    mine.write_text("being written")
    gone = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    dead = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{gone}-"))
    assert dead != mine
    dead.write_text("left by a process that was killed")
    elsewhere = mine.with_name(f".a.txt.00000000-{gone}-abcd.part")
    elsewhere.write_text("of another machine")
    foreign = tmp_path / ".a.txt.backup"
    foreign.write_text("of the user")
    atomic.write_whole(path, b"new")
    assert {p.name for p in tmp_path.iterdir()} == {
        "a.txt",
        mine.name,
        elsewhere.name,
        foreign.name,
    }


WRITER = """
import sys
from pyro_copula.atomic import write_whole
for k in range(150):
    write_whole({path!r}, bytes([{mark}]) * 50_000)
"""


def test_writers_of_one_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(bytes(50_000))
    over, seen = threading.Event(), set()

    def look():
        while not over.is_set():
            content = path.read_bytes()
            seen.add((len(content), len(set(content))))

    reader = threading.Thread(target=look)
    reader.start()
    at_once([WRITER.format(path=str(path), mark=mark) for mark in (1, 2)])
    over.set()
    reader.join()
    assert seen == {(50_000, 1)}  # always whole, and of one writer
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


def test_records_are_of_one_run_at_a_time(tmp_path):
    pytest.importorskip("fcntl")
    path = tmp_path / "ranks.jsonl"
    first = Records(path, {"seed": 0})
    with pytest.raises(InvalidArgumentError, match="that no other run is using"):
        Records(path, {"seed": 0})
    first.close()
    second = Records(path, {"seed": 0})
    second.close()
    assert path.read_text() == '{"seed": 0}\n'


def test_records_in_a_file_of_the_user_are_refused(tmp_path):
    path = tmp_path / "thesis.txt"
    for content in ("years of work", '{"seed": 1}', '["a"]\n'):
        path.write_text(content)
        with pytest.raises(InvalidArgumentError, match="`records` must be a file"):
            Records(path, {"seed": 0})
        assert path.read_text() == content


RUN = """
import sys
sys.path.insert(0, {experiments!r})
import torch
torch.set_num_threads(1)
import run
sys.exit(run.main(["figure1", "--smoke", "--quiet", "--out", {out!r}]))
"""


@pytest.mark.slow
def test_two_runs_of_the_same_experiment(tmp_path):
    program = RUN.format(experiments=str(EXPERIMENTS), out=str(tmp_path / "shared"))
    at_once([program, program])
    at_once([program.replace("shared", "alone")])
    found = [metrics_of(tmp_path / name) for name in ("shared", "alone")]
    assert found[0] == found[1]
    assert len(found[0]) == 9
    assert not list(tmp_path.rglob(".*"))
    rows = committed.read(tmp_path / "shared" / "smoke" / "results" / "figure1.jsonl")
    assert len(rows) == 9


def metrics_of(folder):
    records = [trials.read_trial(path) for path in folder.rglob("work/**/*.json")]
    return {record["key"]: json.dumps(record["metrics"]) for record in records}


class Handler(BaseHTTPRequestHandler):
    """Serves slowly, so that downloads overlap."""

    def do_GET(self) -> None:
        content = self.server.content
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        for k in range(0, len(content), len(content) // 20):
            self.wfile.write(content[k : k + len(content) // 20])
            self.wfile.flush()
            self.server.pause.wait(0.02)

    def log_message(self, *arguments) -> None:
        pass


DOWNLOAD = """
import hashlib
from pathlib import Path
from pyro_copula.datasets import sources
sources.cache_directory = lambda: Path({cache!r})
name = "election/2012_xy.csv"
sources.FILES[name] = sources.Source("table.csv", {digest!r})
print(hashlib.sha256(sources.locate(name).read_bytes()).hexdigest())
"""


@pytest.mark.slow
def test_downloads_into_one_cache(tmp_path):
    content = b"1,2,3,4,5,6,7\n" * 40_000
    digest = hashlib.sha256(content).hexdigest()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content, server.pause = content, threading.Event()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        environment = {
            "PYRO_COPULA_DATA_URL": f"http://127.0.0.1:{server.server_port}",
            "PYRO_COPULA_DATA": "",
            "NO_PROXY": "127.0.0.1",
        }
        program = DOWNLOAD.format(cache=str(tmp_path), digest=digest)
        try:
            said = at_once([program] * 3, environment)
        finally:
            server.shutdown()
            thread.join()
    assert [output.strip() for output in said] == [digest] * 3
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["2012_xy.csv"]


KERNELS = """
import torch
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
import pyro_copula as pc
from pyro_copula import marginals
K = pc.CARPrecision(pc.simulate.grid_graph(5, 5), backend="sparse")(rho=0.9, tau=1.0)
law = torch.distributions.Beta(torch.full((5,), 2.3), torch.ones(5))
print(float(K.logdet()).hex(), float(marginals.cdf(law, torch.linspace(0.1, 0.9, 5)).sum()).hex())
"""


@pytest.mark.slow
def test_processes_that_compile_into_one_cache(tmp_path):
    """numba keeps compiled kernels on disk: four processes fill one empty folder, a fifth reads."""
    environment = {"NUMBA_CACHE_DIR": str(tmp_path)}
    said = at_once([KERNELS] * 4, environment)
    assert list(tmp_path.rglob("*.nbi")), "nothing was cached there"
    said += at_once([KERNELS], environment)
    assert len(set(said)) == 1
    assert said[0].strip()
