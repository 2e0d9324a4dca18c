"""Several processes: the numbers of one, and a clear end when one of them is lost."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import crew_program
import numpy as np
import pytest
import torch

import pyro_copula as pc
from pyro_copula.crew import Crew, present_crew
from pyro_copula.errors import DistributedError, InvalidArgumentError

PROGRAM = Path(crew_program.__file__)
#: Relative to the largest entry. Columns of a block do not mix, and the sums over probes, always
#: double, are in another order.
SAME = 1e-11
#: In single precision a block of few columns may be worked on by instructions of another width,
#: which round otherwise. Either solution is one of a matrix that differs by a rounding, 2^-24, and
#: solving takes that times the condition number, (1 + 0.95) / (1 - 0.95) of this graph's matrix.
SAME_SINGLE = 2 * 39 * 2.0**-24
#: What has been subtracted from each other has the rounding errors of what it was subtracted from.
SCALE_OF = {
    "logdet_error": "log_density",
    "inverse_diagonal_error": "inverse_diagonal",
    "inverse_diagonal_spread": "inverse_diagonal",
}
#: The same after 20 steps of 0.01, each of the same relative accuracy and carried on by the others.
SAME_FIT = 20 * 0.01 * SAME_SINGLE


class Processes:
    """The processes of a crew, started as ``torchrun`` would."""

    def __init__(self, size: int, task: str, directory: Path, timeout: float) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        shared = {
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "WORLD_SIZE": str(size),
        }
        arguments = [sys.executable, str(PROGRAM), task, str(directory), str(timeout)]
        self.all = [
            subprocess.Popen(
                arguments,
                env={**shared, "RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(size)
        ]

    def __enter__(self) -> Processes:
        return self

    def ended(self, rank: int) -> tuple[int, str, str]:
        """The code with which one ended, and what it wrote to both places."""
        out, err = self.all[rank].communicate(timeout=300)
        return self.all[rank].returncode, out, err

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.communicate()


def check_together(size: int, directory: Path, outputs: list[str]) -> None:
    """All processes have the same numbers, those of one process, and heard of every mistake."""
    found = [torch.load(directory / f"{rank}.pt") for rank in range(size)]
    alone = crew_program.estimates()
    for name, value in alone.items():
        for other in found:
            assert torch.equal(other["estimates"][name], found[0]["estimates"][name]), name
        precision, what = name.split(": ")
        scale = alone[f"{precision}: {SCALE_OF.get(what, what)}"].abs().max()
        tolerance = float(scale) * (SAME_SINGLE if precision == "float32" else SAME)
        torch.testing.assert_close(
            found[0]["estimates"][name], value, rtol=0, atol=tolerance, msg=lambda m, n=name: n + m
        )
    (directory / "alone").mkdir()
    alone = crew_program.state(crew_program.fitted(directory / "alone", crew_program.judge))
    for name, value in alone.items():
        assert all(torch.equal(other["fit"][name], found[0]["fit"][name]) for other in found)
        torch.testing.assert_close(found[0]["fit"][name], value, rtol=SAME_FIT, atol=SAME_FIT)
    assert all("12 iterations" in other["error"] for other in found)
    for rank, other in enumerate(found):
        assert f"Process {rank} of {size}" in other["difference"]
        assert "different data" in other["difference"]
    # only the first shows progress and writes
    assert ["it/s" in err for err in outputs] == [rank == 0 for rank in range(size)]
    assert [p.name for p in directory.glob("saved by*")] == ["saved by 0.fit"]
    saved = pc.load_fit(directory / "saved by 0.fit").model
    assert saved.arguments["backend"] == pc.Iterative(rank=3, num_probes=6)


def run_together(size: int, directory: Path) -> None:
    with Processes(size, "together", directory, 120) as processes:
        results = [processes.ended(rank) for rank in range(size)]
    assert [code for code, _, _ in results] == [0] * size, results
    check_together(size, directory, [err for _, _, err in results])


def test_two_processes_are_one(tmp_path):
    run_together(2, tmp_path)


@pytest.mark.slow
def test_four_processes_are_one(tmp_path):
    run_together(4, tmp_path)


@pytest.mark.slow
def test_torchrun(tmp_path):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", "2", str(PROGRAM), "together", str(tmp_path), "120"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    found = [torch.load(tmp_path / f"{rank}.pt")["fit"] for rank in range(2)]
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("task", "timeout"), [("killed", 120.0), ("frozen", 8.0)])
def test_a_lost_process_is_an_error_in_the_others_and_the_fit_goes_on_later(
    task, timeout, size, tmp_path, tally
):
    start = time.monotonic()
    with Processes(size, task, tmp_path, timeout) as processes:
        left = [processes.ended(rank) for rank in range(size - 1)]
    for rank, (code, out, err) in enumerate(left):
        assert code == 3, out + err
        assert f"Process {rank} of {size} cannot go on without the others" in out
        assert "DistributedError" in out
        seconds = float(re.search(r"([\d.]+) s: ", out).group(1))
        if task == "killed":  # known at once, long before the time is over
            assert seconds < timeout / 2
    assert time.monotonic() - start < 120 + timeout
    # the third look was at step 10: the second one saved the state at step 5
    assert (tmp_path / "fit.checkpoint").exists()
    resumed = crew_program.state(crew_program.fitted(tmp_path, crew_program.Looks()))
    (tmp_path / "alone").mkdir()
    alone = crew_program.state(crew_program.fitted(tmp_path / "alone", crew_program.Looks()))
    for name, value in alone.items():
        torch.testing.assert_close(resumed[name], value, rtol=SAME_FIT, atol=SAME_FIT)
    tally("ranks lost and fits resumed", 1)


# ---------------------------------------------------------------- without other processes


@pytest.mark.parametrize(("count", "size"), [(16, 2), (21, 4), (3, 5), (64, 1)])
def test_shares_are_all_there_is_and_differ_by_one_at_most(count, size):
    shares = [Crew(rank, size).share(count) for rank in range(size)]
    assert np.concatenate([np.arange(count)[s] for s in shares]).tolist() == list(range(count))
    lengths = [s.stop - s.start for s in shares]
    assert max(lengths) - min(lengths) <= 1


def test_processes_that_went_different_ways(monkeypatch):
    """As if the other one had called once more."""

    def all_reduce(state, op=None):
        state[1] += 1

    monkeypatch.setattr("torch.distributed.all_reduce", all_reduce)
    with pytest.raises(DistributedError, match="do not run the same program on the same data"):
        Crew(0, 2).sum(lambda: [np.ones(2)])


def test_what_the_first_process_could_not_make(monkeypatch):
    """Every process has the error, the first one too."""
    monkeypatch.setattr("torch.distributed.broadcast_object_list", lambda *_, **__: None)

    def work():
        raise pc.errors.FitFileError("fit.checkpoint", "is damaged", "Delete it.")

    with pytest.raises(pc.errors.FitFileError, match="is damaged"):
        Crew(0, 2).first(work)


def test_alone_nothing_changes():
    with pc.distributed() as crew:
        assert (crew.rank, crew.size, crew.leads) == (0, 1, True)
        assert present_crew() is crew
    assert crew.first(lambda: 3) == 3
    assert crew.agree(4.0) == 4.0


@pytest.mark.parametrize("options", [{"backend": "mpi"}, {"timeout": 0}, {"timeout": True}])
def test_bad_options_are_named(options):
    with pytest.raises(InvalidArgumentError, match=next(iter(options))), pc.distributed(**options):
        pass


def test_processes_that_do_not_find_each_other_are_an_error(monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(free.getsockname()[1]))
    with pytest.raises(DistributedError, match="did not find each other"):  # noqa: SIM117
        with pc.distributed(timeout=1.0):
            pass
    assert present_crew().size == 1
