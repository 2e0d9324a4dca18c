"""A process that runs work in children of its own, and kills them.

It reads one job a line (JSON: ``kind``, ``folder``, ``out``, and when to kill: ``kill_after`` in
seconds, ``kill_at_write`` or neither), forks, sends the child SIGKILL at that moment unless it has
ended, and writes its exit code. Forking saves the seconds that importing takes.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"

import matplotlib.pyplot  # noqa: F401  (imported before the fork, as the rest)
import numpy as np
import pandas  # noqa: F401
import pyro
import pyro.distributions as dist
import run as experiments
import torch
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.calibration import simulation_based_calibration
from pyro_copula.cli import fit_files, main

SCHEDULE = pc.Schedule(max_epochs=40, check_every=2, patience=100, save_every=1)
REPLICATIONS = 60


def small_data(n: int = 24) -> Data:
    """A grid with one feature; every fourth node is missing."""
    generator = torch.Generator().manual_seed(5)
    graph = pc.simulate.grid_graph(4, n // 4)
    x = torch.randn(n, 1, generator=generator, dtype=torch.float64)
    y = x[:, 0] + torch.randn(n, generator=generator, dtype=torch.float64)
    data = Data(x=x, edge_index=graph.edge_index, y=y)
    data.observed = torch.arange(n) % 4 != 1
    return data


def checkpoint(folder: Path, out: Path) -> None:
    """Two restarts of a small model, with a checkpoint at every look."""
    data = small_data()
    pyro.set_rng_seed(int.from_bytes(os.urandom(3), "big"))  # what comes before must not matter
    found = pc.fit(
        pc.CopulaGNN("mlp", "normal", "car", dropout=0.3),
        data,
        data.observed,
        restarts=2,
        seed=3,
        schedule=SCHEDULE,
        checkpoint=folder / "state",
        progress=False,
    )
    torch.save([[f.model.state_dict(), f.history.losses] for f in found.fits], out)


def normal_model(y=None):
    mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
    pyro.sample("y", dist.Normal(mu, 1.0).expand([4]).to_event(1), obs=y)


def conjugate(model, y, seed):
    """Draws of the posterior, which is known; some milliseconds of work make the run longer."""
    deadline = time.process_time() + 0.003
    while time.process_time() < deadline:
        pass
    return {"mu": y.sum() / 5 + 5**-0.5 * torch.randn(9)}


def calibration(folder: Path, out: Path) -> None:
    """Simulation-based calibration with records."""
    found = simulation_based_calibration(
        normal_model,
        sampler=conjugate,
        num_draws=9,
        num_simulations=REPLICATIONS,
        seed=2,
        records=folder / "ranks.jsonl",
        progress=False,
    )
    torch.save({name: torch.from_numpy(ranks) for name, ranks in found.ranks.items()}, out)


def trials(folder: Path, out: Path) -> None:
    """A few trials of a table on simulated data."""
    arguments = ["figure1", "--smoke", "--quiet", "--no-report", "--out", str(folder)]
    code = experiments.main(arguments)
    out.write_text(str(code))
    if code:
        raise RuntimeError(f"the run ended with {code}")


def write_tables(folder: Path) -> None:
    """The two files that the command line reads."""
    data = small_data()
    with open(folder / "nodes.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "x", "y"])
        for k in range(len(data.y)):
            value = repr(float(data.y[k])) if data.observed[k] else ""
            writer.writerow([f"n{k}", repr(float(data.x[k, 0])), value])
    with open(folder / "edges.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b"])
        writer.writerows([f"n{i}", f"n{j}"] for i, j in data.edge_index.T.tolist() if i < j)


def command(folder: Path, out: Path) -> None:
    """``pyro-copula fit``, which writes four files."""
    if not (folder / "edges.csv").exists():
        write_tables(folder)
    fit, short = pc.fit, pc.Schedule(max_epochs=30)
    fit_files.pc.fit = lambda *a, **k: fit(*a, schedule=short, **k)  # in this child only
    words = ["fit", "--nodes", str(folder / "nodes.csv"), "--edges", str(folder / "edges.csv")]
    words += ["--target", "y", "--backbone", "linear", "--marginal", "normal", "--overwrite"]
    main.app([*words, "--out", str(folder / "results")], standalone_mode=False)
    out.write_text("done")


KINDS = {
    "checkpoint": checkpoint,
    "calibration": calibration,
    "trials": trials,
    "command": command,
}


def work(job: dict) -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    np.random.seed(0)  # noqa: NPY002
    folder = Path(job["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    KINDS[job["kind"]](folder, Path(job["out"]))


def looks(folder: Path) -> tuple:
    """What is being written in a folder: hidden files, and the sizes of files that grow."""
    hidden = [str(path) for path in folder.rglob(".*.part*")]
    grown = [path.stat().st_size for path in folder.glob("*.jsonl")]
    return (*sorted(hidden), *grown)


def wait(pid: int, job: dict) -> int:
    """The exit code of a child, which is killed at its moment."""
    began, folder = time.monotonic(), Path(job["folder"])
    if job.get("kill_at_write"):
        before, left = looks(folder), job["kill_at_write"]
    while job.get("kill_after") is not None or job.get("kill_at_write"):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if job.get("kill_at_write"):
            try:
                now = looks(folder)
            except OSError:  # a file went while it was looked at
                continue
            left -= now != before
            before = now
            moment = left <= 0
        else:
            moment = time.monotonic() - began > job["kill_after"]
            time.sleep(0.001)
        if moment:
            os.kill(pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
            break
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def serve() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                os.dup2(2, 1)  # what a command prints is no answer
                random.seed(os.urandom(4))
                work(job)
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        print(wait(pid, job), flush=True)


if __name__ == "__main__":
    print("ready", flush=True)
    serve()
