"""A full disk and a directory that is read only: a clear error, and nothing half-written."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import limits
import pyro
import pyro.distributions as dist
import pytest
import torch
from harness import committed, figures, report, trials
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula import atomic, datasets
from pyro_copula.calibration import simulation_based_calibration
from pyro_copula.cli import outputs
from pyro_copula.datasets import sources
from pyro_copula.errors import DownloadError, InvalidArgumentError, OutputError

FULL = "No space left on device"

#: Where a program of its own finds the helpers.
PATHS = f"sys.path[:0] = [{str(limits.HERE)!r}, {str(limits.HERE.parents[1] / 'experiments')!r}]\n"


def small_fit(**options):
    graph = pc.Graph.from_edges([(k, k + 1) for k in range(11)])
    y = torch.arange(12.0).sin()
    y[3] = torch.nan
    data = Data(x=torch.arange(12.0).cos()[:, None], edge_index=graph.edge_index, y=y)
    schedule = pc.Schedule(max_epochs=4, check_every=1, save_every=1)
    return pc.fit(pc.CopulaGNN("linear", "normal", "car"), data, schedule=schedule, **options)


def names(folder):
    return sorted(path.name for path in folder.rglob("*"))


@pytest.fixture
def full(monkeypatch):
    """A disk that takes no more bytes."""

    def fill():
        monkeypatch.setattr(os, "fsync", limits.full_disk)
        monkeypatch.setattr(os, "write", limits.full_disk)

    fill.undo = monkeypatch.undo
    return fill


def test_a_fit_is_saved_whole_or_not_at_all(tmp_path, full):
    found, path = small_fit(), tmp_path / "a.fit"
    found.save(path)
    before = path.read_bytes()
    full()
    with pytest.raises(OutputError, match=rf"a\.fit` cannot be written \({FULL}\)\.\n  Check"):
        found.save(path)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["a.fit"]
    assert pc.load_fit(path).scalars == found.scalars


def test_a_checkpoint_stays_at_the_last_whole_state(tmp_path, monkeypatch):
    path, fsync, calls = tmp_path / "state", os.fsync, []

    def filling(handle):
        calls.append(1)
        if len(calls) == 3:
            limits.full_disk()
        fsync(handle)

    expected = small_fit()
    monkeypatch.setattr(os, "fsync", filling)
    with pytest.raises(OutputError, match=FULL):
        small_fit(checkpoint=path)
    assert names(tmp_path) == ["state"]
    monkeypatch.undo()
    found = small_fit(checkpoint=path)  # space was made: it goes on from the second state
    assert found.history == expected.history
    assert torch.equal(found.predict().mean, expected.predict().mean)


def calibrate(path):
    def model(y=None):
        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        pyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    def exact(model, y, seed):
        return {"mu": y / 2 + 0.5**0.5 * torch.randn(9)}

    return simulation_based_calibration(
        model, sampler=exact, num_draws=9, num_simulations=6, records=path
    )


def test_records_of_a_calibration_end_with_a_whole_line(tmp_path, monkeypatch):
    path, write, calls = tmp_path / "ranks.jsonl", os.write, []

    def filling(handle, content):
        calls.append(1)
        if len(calls) == 4:  # a part of the third record still finds a place
            return write(handle, content[:20])
        return write(handle, content) if len(calls) < 4 else limits.full_disk()

    monkeypatch.setattr(os, "write", filling)
    with pytest.raises(OutputError, match=rf"ranks\.jsonl` cannot be written \({FULL}"):
        calibrate(path)
    monkeypatch.undo()
    lines = path.read_bytes().split(b"\n")
    assert lines[-1] == b""
    assert [json.loads(line)["replication"] for line in lines[1:-1]] == [0, 1]
    again = calibrate(path)
    assert (again.ranks["mu"] == calibrate(None).ranks["mu"]).all()


def squared(trial):
    return {"square": float(trial.seed**2)}


def test_trials_stop_with_what_is_finished(tmp_path, full):
    runner = trials.Runner(tmp_path, progress=False)
    todo = [trials.Trial("t", "d", "m", seed) for seed in range(3)]
    runner.run(todo[:1], squared)
    before = names(tmp_path)
    full()
    with pytest.raises(OutputError, match=FULL):
        runner.run(todo, squared)
    for write in (
        lambda: committed.write(runner.records("t"), tmp_path / "t.jsonl"),
        lambda: report.write(tmp_path, tmp_path / "README.md"),
        lambda: figures.copula_densities(tmp_path / "figure3.png"),
    ):
        with pytest.raises(OutputError, match=FULL):
            write()
    full.undo()
    assert names(tmp_path) == before
    assert runner.run(todo, squared).skipped == 1


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_device_is_no_place_for_a_file():
    with pytest.raises(OutputError, match="it is no regular file"):
        atomic.write_whole("/dev/full", b"content")
    assert not os.path.isfile("/dev/full")


def test_results_of_a_command(tmp_path):
    earlier = tmp_path / "out"
    with outputs.new_directory(earlier) as work:
        (work / "summary.txt").write_text("earlier")

    def fail():
        with outputs.new_directory(earlier) as work:
            (work / "predictions.csv").write_text("half")
            raise OutputError(str(work / "fit.pyrocopula"), f"cannot be written ({FULL})", "")

    with pytest.raises(InvalidArgumentError, match=rf"`--out` must be a place .*out'.*{FULL}"):
        fail()
    assert names(tmp_path) == ["out", "summary.txt"]


def test_a_cache_without_space(tmp_path, monkeypatch):
    def body(url, output_file, _):
        with open(output_file, "wb") as file:
            file.write(b"half")
            limits.full_disk()

    monkeypatch.setattr(sources, "_write_body", body)
    monkeypatch.setattr(sources, "cache_directory", lambda: tmp_path / "cache")
    monkeypatch.delenv(sources.ROOT_VARIABLE, raising=False)
    with pytest.raises(DownloadError, match=rf"to the cache .*{FULL}(.|\n)*PYRO_COPULA_DATA"):
        datasets.election()
    assert names(tmp_path) == ["cache", "election"]


REAL = """
from contextlib import suppress
from test_no_space import small_fit, calibrate, names
from harness import trials
from pyro_copula.cli import fit_files, main
from pyro_copula.datasets import sources
from typer.testing import CliRunner
import victims

os.environ.pop("PYRO_COPULA_DATA", None)
found, fit = small_fit(), pc.fit
short = {"schedule": pc.Schedule(max_epochs=5)}
fit_files.pc.fit = lambda *a, **k: fit(*a, **{**short, **k})
(folder / "tables").mkdir()
victims.write_tables(folder / "tables")

def body(url, output_file, _):
    with open(output_file, "wb") as file:
        file.write(b"0" * 5000)
sources._write_body = body

def attempt(there, check):
    sources.cache_directory = lambda: there / "cache"
    runner = trials.Runner(there / "work", progress=False)
    trial = trials.Trial("t", "d", "m", 0)

    def command():
        words = ["fit", "--nodes", str(folder / "tables/nodes.csv"), "--target", "y"]
        words += ["--edges", str(folder / "tables/edges.csv"), "--out", str(there / "results")]
        result = CliRunner().invoke(main.app, [*words, "--backbone", "linear"])
        assert result.exit_code in (0, 2), result.exception
        raise errors.OutputError("results", result.output.strip(), "")

    check("save", lambda: found.save(there / "a.fit"), errors.OutputError)
    check("checkpoint", lambda: small_fit(checkpoint=there / "state"), errors.OutputError)
    check("records", lambda: calibrate(there / "ranks.jsonl"), errors.OutputError)
    big = {"x": "0" * 5000}
    check("trials", lambda: runner.run([trial], lambda t: big), errors.OutputError)
    check("cache", pc.datasets.election, errors.DownloadError)
    check("command", command, errors.OutputError)

def quietly(name, work, *kinds):
    with suppress(errors.PyroCopulaError):
        work()

for name in ("before", "there"):
    (folder / name).mkdir()
attempt(folder / "before", quietly)  # nothing is imported later, which another user might not read
%s
attempt(folder / "there", check)
left = set(names(folder / "there")) - {"cache", "election", "work", "t"}
print("left", sorted(left))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_limit_of_the_kernel(tmp_path):
    """Files of at most 300 bytes: the kernel takes a part of each and refuses the rest."""
    said = limits.run(PATHS + REAL % "limits.small_files(300)", tmp_path)
    for name in ("save", "checkpoint", "records", "trials", "cache", "command"):
        assert "File too large" in said[name], said[name]
    assert said["left"] in ("[]", "['ranks.jsonl']")  # which has its first line, whole
    rows = tmp_path / "there" / "ranks.jsonl"
    assert not rows.exists() or rows.read_bytes().endswith(b"\n") or not rows.read_bytes()


def everyone_reads(path):
    return all(part.stat().st_mode & 0o005 == 0o005 for part in (path, *path.parents))


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs another user")
def test_a_directory_of_someone_else():
    """As a user who may read everything here and write nothing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if not everyone_reads(folder):
            pytest.skip("the other user could not see the folder")
        said = limits.run(PATHS + REAL % "limits.become_nobody()", folder)
    for name in ("save", "checkpoint", "records", "trials", "cache"):
        assert "Permission denied" in said[name], said[name]
    assert "`--out` must be in a directory that can be written" in said["command"]
    assert said["left"] == "[]"
