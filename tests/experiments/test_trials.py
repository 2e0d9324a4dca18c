"""The runner: nothing finished is lost, nothing runs twice, a failure stops nothing."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from harness import backends, committed, trials
from harness.committed import read, read_trials, write
from harness.trials import Runner, Together, Trial

from pyro_copula.errors import InvalidArgumentError, MissingFileError

EXPERIMENTS = Path(trials.__file__).parents[1]


def some(count: int) -> list[Trial]:
    return [Trial("t", "d", "m", seed, (("lr", (0.01, 0.1)),)) for seed in range(count)]


def squared(trial: Trial) -> dict[str, float]:
    return {"square": float(trial.seed**2), "pid": float(os.getpid())}


def odd_fails(trial: Trial) -> dict[str, float]:
    if trial.seed % 2:
        raise ValueError(f"seed {trial.seed} is odd")
    return squared(trial)


def test_key_is_the_same_in_another_process_and_differs_between_trials():
    program = (
        f"import sys; sys.path.insert(0, {str(EXPERIMENTS)!r})\n"
        "from harness.trials import Trial\n"
        "print(Trial('t', 'd', 'm', 3, (('lr', (0.01, 0.1)),)).key)"
    )
    other = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout.strip() == some(4)[3].key
    others = [Trial("t", "d", "m", 0), Trial("t", "d", "n", 0), Trial("u", "d", "m", 0)]
    variations = [*some(4), *others]
    assert len({trial.key for trial in variations}) == len(variations)


def test_finished_trials_are_skipped(tmp_path):
    runner = Runner(tmp_path, progress=False)
    assert runner.run(some(3), squared).finished == 3
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.json")}
    outcome = runner.run(some(5), squared)
    assert (outcome.finished, outcome.skipped) == (2, 3)
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in before.items())
    squares = {r["seed"]: r["metrics"]["square"] for r in runner.records("t")}
    assert squares == {seed: float(seed**2) for seed in range(5)}


def test_a_record_says_what_ran(tmp_path):
    runner = Runner(tmp_path, progress=False)
    runner.run(some(1), squared)
    (record,) = runner.records("t")
    assert (record["table"], record["model"], record["seed"]) == ("t", "m", 0)
    assert record["options"] == {"lr": [0.01, 0.1]}
    assert {"torch", "pyro-copula", "python"} <= record["versions"].keys()
    assert record["seconds"] >= 0


def test_a_failure_is_kept_reported_and_tried_again(tmp_path):
    runner = Runner(tmp_path, progress=False)
    outcome = runner.run(some(4), odd_fails)
    assert (outcome.finished, len(outcome.failed)) == (2, 2)
    assert "t d m seed 1:\n    ValueError: seed 1 is odd" in str(outcome)
    assert "seed 3 is odd" in str(outcome)
    assert str(outcome).endswith(f"the .error files in {tmp_path / 't'}")
    assert len(list(tmp_path.rglob("*.error"))) == 2
    again = runner.run(some(4), squared)
    assert (again.finished, again.skipped) == (2, 2)
    assert not list(tmp_path.rglob("*.error"))


def no_data(trial: Trial) -> dict[str, float]:
    raise MissingFileError("a.csv", "is not there", "Copy it there.")


def test_equal_failures_are_told_once_and_as_a_whole(tmp_path):
    outcome = Runner(tmp_path, progress=False).run(some(4), no_data)
    lines = str(outcome).splitlines()
    assert lines[1:4] == [
        "  failed: t d m seed 0 and 3 more:",
        "    The file `a.csv` is not there.",
        "      Copy it there.",
    ]
    assert len(lines) == 5


def test_several_processes(tmp_path):
    runner = Runner(tmp_path, jobs=2, progress=False)
    outcome = runner.run(some(6), squared)
    assert outcome.finished == 6
    pids = {record["metrics"]["pid"] for record in runner.records("t")}
    assert os.getpid() not in pids


def slowly(trial: Trial) -> dict[str, float]:
    time.sleep(0.15)  # longer than it takes for the bar to be drawn again
    return squared(trial)


def test_a_bar_counts_trials_and_has_the_time_left(tmp_path, capsys):
    Runner(tmp_path).run(some(3), slowly)
    shown = capsys.readouterr().err.split("\r")
    time_left = r"\[\d\d:\d\d<\d\d:\d\d, "
    assert any(re.match(rf"trials:  33%\|.+\| 1/3 {time_left}", line) for line in shown)
    assert re.match(rf"trials: 100%\|.+\| 3/3 {time_left}", shown[-1])
    Runner(tmp_path, progress=False).run(some(5), squared)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("option", "value"), [("backend", "threads"), ("jobs", 0)])
def test_bad_options_are_named(tmp_path, option, value):
    with pytest.raises(InvalidArgumentError, match=option):
        Runner(tmp_path, **{option: value})


def test_an_address_is_of_a_cluster(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"`address` .*'tcp://x:1'.\n.*\"dask\""):
        Runner(tmp_path, address="tcp://x:1")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense://x"])
def test_a_scheduler_that_does_not_answer_is_named(tmp_path, address):
    dask = pytest.importorskip("dask")
    pytest.importorskip("distributed")
    runner = Runner(tmp_path, backend="dask", address=address, progress=False)
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}),
        pytest.raises(InvalidArgumentError, match="`address` must be that of a running scheduler"),
    ):
        runner.run(some(1), squared)
    assert runner.run([], squared).finished == 0  # nothing to do, and nobody asked


def test_a_missing_cluster_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(backends._PACKAGES, "ray", ("no_such_package", "ray"))
    with pytest.raises(InvalidArgumentError, match=r"pip install -c constraints\.txt ray"):
        Runner(tmp_path, backend="ray")


SLOW_RUN = """
import sys, time
sys.path.insert(0, sys.argv[1])
from harness.trials import Runner, Trial
folder, log = sys.argv[2:]

def slow(trial):
    time.sleep(0.15)
    with open(log, "a") as file:
        file.write(f"{trial.seed}\\n")
    return {"square": float(trial.seed**2)}

todo = [Trial("t", "d", "m", seed) for seed in range(12)]
print(Runner(folder, progress=False).run(todo, slow))
"""


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    folder, log = tmp_path / "work", tmp_path / "log"
    command = [sys.executable, "-c", SLOW_RUN, str(EXPERIMENTS), str(folder), str(log)]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(list(folder.rglob("*.json"))) < 3:
        assert time.monotonic() < deadline, "no trial finished"
        assert process.poll() is None, "the run ended by itself"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = {path: path.read_bytes() for path in folder.rglob("*.json")}
    assert 3 <= len(finished) < 12
    for content in finished.values():
        json.loads(content)  # whole, whatever the moment

    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert len(list(folder.rglob("*.json"))) == 12
    assert all(path.read_bytes() == content for path, content in finished.items())
    runs = [int(line) for line in log.read_text().split()]
    # Only the trial under way at the kill may have run twice.
    assert set(runs) == set(range(12))
    assert len(runs) <= 13


def test_compact_keeps_what_matters(tmp_path):
    runner = Runner(tmp_path, progress=False)
    runner.run(some(3), squared)
    path = tmp_path / "t.jsonl"
    assert write(runner.records("t"), path) == 3
    rows = read(path)
    assert [row["seed"] for row in rows] == [0, 1, 2]
    assert [row["metrics"]["square"] for row in rows] == [0.0, 1.0, 4.0]
    assert json.loads(path.read_text().splitlines()[0])["versions"][0]["torch"]
    first = path.read_bytes()
    write(reversed(list(runner.records("t"))), path)
    assert path.read_bytes() == first


def test_a_run_goes_on_from_committed_records(tmp_path):
    runner = Runner(tmp_path / "one machine", progress=False)
    runner.run(some(3), squared)
    path = tmp_path / "t.jsonl"
    write(runner.records("t"), path)
    known = {record["key"]: record for record in read_trials("t", path)}
    assert known == {record["key"]: record for record in runner.records("t")} | known
    assert [known[trial.key]["metrics"]["square"] for trial in some(3)] == [0.0, 1.0, 4.0]
    other = Runner(tmp_path / "another machine", progress=False)
    outcome = other.run(some(5), squared, known=known)
    assert (outcome.finished, outcome.skipped) == (2, 3)
    before = path.read_bytes()
    write(known.values(), path)
    assert path.read_bytes() == before
    assert read_trials("t", tmp_path / "none.jsonl") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("versions", "version"), ('"seed":1', '"seed":"1"'), ('"lr"', '"lr'), ("}\n", "\n")],
)
def test_damaged_committed_records_are_refused(tmp_path, old, new):
    runner = Runner(tmp_path, progress=False)
    runner.run(some(3), squared)
    path = tmp_path / "t.jsonl"
    write(runner.records("t"), path)
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InvalidArgumentError, match=r"`out` .*damaged in line \d\.\n.*delete it"):
        read_trials("t", path)


def test_committed_records_that_were_cut_are_refused(tmp_path):
    runner = Runner(tmp_path, progress=False)
    runner.run(some(3), squared)
    path = tmp_path / "t.jsonl"
    write(runner.records("t"), path)
    whole = path.read_bytes()
    last = whole[:-1].rfind(b"\n") + 1
    for length, line in ((0, 1), (20, 1), (last + 1, 4), (len(whole) - 2, 4)):
        path.write_bytes(whole[:length])
        with pytest.raises(InvalidArgumentError, match=f"damaged in line {line}"):
            read(path)
    path.write_bytes(whole[:-1])  # no record has lost anything
    assert len(read(path)) == 3


def test_committed_records_of_another_protocol_are_refused(tmp_path, monkeypatch):
    runner = Runner(tmp_path, progress=False)
    runner.run(some(3), squared)
    path = tmp_path / "t.jsonl"
    write(runner.records("t"), path)
    monkeypatch.setattr(committed, "PROTOCOL", 2)
    for reader in (read, lambda path: read_trials("t", path)):
        with pytest.raises(InvalidArgumentError, match=r"protocol 2, .*of protocol 1\.\n.*another"):
            reader(path)


def pairs(todo):
    return [todo[k : k + 2] for k in range(0, len(todo), 2)]


def both(group):
    if any(trial.seed == 5 for trial in group):
        raise ArithmeticError("one of them")
    return [{**squared(trial), "together": float(len(group))} for trial in group]


def test_trials_of_a_group_run_together_or_else_one_by_one(tmp_path):
    runner = Runner(tmp_path, progress=False)
    outcome = runner.run(some(7), odd_fails, together=Together(pairs, both))
    kept = {record["seed"]: record["metrics"] for record in runner.records("t")}
    assert {seed for seed in kept if "together" in kept[seed]} == {0, 1, 2, 3}
    assert {seed for seed in kept if "together" not in kept[seed]} == {4, 6}
    assert [record["seed"] for record in outcome.failed] == [5]
    assert "seed 5 is odd" in str(outcome)


def test_dask_cluster(tmp_path):
    pytest.importorskip("distributed")
    program = (
        "import sys, warnings\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from harness.trials import Runner, Trial\n"
        "warnings.simplefilter('error')\n"
        "def execute(trial):\n"
        "    import distributed\n"
        "    return {'name': distributed.get_worker().name, 'square': trial.seed ** 2}\n"
        "if __name__ == '__main__':\n"
        "    todo = [Trial('t', 'd', 'm', seed) for seed in range(5)]\n"
        "    runner = Runner(sys.argv[2], jobs=2, backend='dask', progress=False)\n"
        "    print(runner.run(todo, execute))\n"
    )
    script = tmp_path / "script.py"
    script.write_text(program)
    done = subprocess.run(
        [sys.executable, str(script), str(EXPERIMENTS), str(tmp_path / "work")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "5 trials finished" in done.stdout
    assert "Warning" not in done.stderr
    records = list(Runner(tmp_path / "work").records("t"))
    assert sorted(record["metrics"]["square"] for record in records) == [0, 1, 4, 9, 16]
