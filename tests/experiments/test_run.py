"""The command: what it keeps, what it refuses before it runs, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import run
import torch
from harness import committed, problems, tables, trials
from harness.stopping import Stopped, stoppable

import pyro_copula as pc


def record(table, dataset, model, seed, **options):
    trial = trials.Trial(table, dataset, model, seed, tuple(sorted(options.items())))
    return trials.run_trial(trial, lambda trial: {"r2": 0.5, "published": 0.5})


@pytest.fixture
def quick(monkeypatch):
    """Trials that take no time: what is tested here is what is around them."""
    monkeypatch.setattr(tables, "execute", lambda trial: {"published": 0.5, "r2": 0.5})
    monkeypatch.setattr(tables, "TOGETHER", None)


def test_smoke_run_of_one_table(tmp_path, capsys):
    rows = ["MLP", "R-C-MLP", "linear + CAR"]
    arguments = ["figure1", "--smoke", "--quiet", "--out", str(tmp_path), "--models", *rows]
    assert run.main(arguments) == 0
    out = tmp_path / "smoke"
    found = committed.read(out / "results" / "figure1.jsonl")
    assert {row["model"]: row["dataset"][0] for row in found} == dict(zip(rows, "abb"))
    expected = {"published", "r2", "coverage", "log_score", "crps", "width"}
    assert expected <= found[0]["metrics"].keys()
    assert "Figure 1" in (out / "README.md").read_text()
    assert f"report: {out / 'README.md'}\n" in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_smoke_runs_stay_away_from_the_committed_records(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(run, "HERE", tmp_path)
    kept = tmp_path / "results" / "figure1.jsonl"
    committed.write([record("figure1", "b:tau=0.5", "linear + CAR", k) for k in (1, 2)], kept)
    (tmp_path / "README.md").write_text("the report")
    before = kept.read_bytes()
    for more, place in (([], "work/smoke"), (["--out", str(tmp_path)], "smoke")):
        assert run.main(["figure1", "--smoke", "--quiet", "--models", "MLP", *more]) == 0
        assert kept.read_bytes() == before
        assert (tmp_path / "README.md").read_text() == "the report"
        assert (tmp_path / place / "README.md").is_file()
        assert f"smoke: everything is in {tmp_path / place}\n" in capsys.readouterr().err


@pytest.mark.usefixtures("quick")
def test_records_of_smoke_runs_and_of_others_do_not_mix(tmp_path, capsys):
    path = tmp_path / "results" / "figure1.jsonl"
    committed.write([record("figure1", "b:tau=0.5", "linear + CAR", 1, max_epochs=20)], path)
    before = path.read_bytes()
    arguments = ["figure1", "--quiet", "--trials", "1", "--models", "linear + CAR"]
    assert run.main([*arguments, "--out", str(tmp_path)]) == 2
    assert "`out` must be a folder with records of full runs only" in capsys.readouterr().err
    assert path.read_bytes() == before


@pytest.mark.usefixtures("quick")
def test_a_run_keeps_what_others_wrote_meanwhile_and_says_what_it_leaves_out(
    tmp_path, monkeypatch, capsys
):
    path = tmp_path / "results" / "table1.jsonl"
    cell = ("table1", "c:tau=0.5", "linear + CAR")

    def meanwhile(trial):
        others = [record(*cell, 50), record("table1", "c:tau=0.5", "a row of the past", 1)]
        committed.write(others, path)
        return {"r2": 0.5}

    monkeypatch.setattr(tables, "execute", meanwhile)
    arguments = ["table1", "--quiet", "--no-report", "--seeds", "7", "--out", str(tmp_path)]
    assert run.main([*arguments, "--datasets", "tau=0.5", "--models", "linear + CAR"]) == 0
    assert [row["seed"] for row in committed.read(path)] == [7, 50]
    assert "table1: 1 records are left out" in capsys.readouterr().err


def test_a_report_needs_records(tmp_path, capsys):
    assert run.main(["table2", "--report-only", "--out", str(tmp_path / "new")]) == 2
    assert "Run a table there first" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_picture_alone_is_no_report(tmp_path, capsys):
    assert run.main(["figure3", "--out", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.rglob("*.*")] == ["figure3.png"]
    said = capsys.readouterr().err
    assert f"picture: {tmp_path / 'results' / 'figure3.png'}\n" in said
    assert "report" not in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table2", "--models", "RCSAGE"], "Did you mean 'R-C-SAGE'?"),
        (["table2", "--seeds", "abc"], "`seeds` must be"),
        (["table2", "--seeds", "-3"], "`seeds` must be"),
        (["pilot", "--trials", "0"], "`trials` must be one or more"),
        (["calibration", "--models", "MLP"], "`models` must be left away"),
        (["figure1", "--address", "tcp://x:1"], "`address` must be left away"),
    ],
)
def test_what_is_refused_leaves_nothing(tmp_path, capsys, words, message):
    out = tmp_path / "out"
    assert run.main([*words, "--quiet", "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_place_that_is_a_file_is_refused_before_the_first_trial(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tables, "execute", None)
    (tmp_path / "file").write_text("of the user")
    for place in ("file", "file/below"):
        assert run.main(["figure1", "--quiet", "--out", str(tmp_path / place)]) == 2
        assert "`out` must be a folder that is there or can be made" in capsys.readouterr().err


def test_missing_data_are_one_error_before_the_first_trial(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYRO_COPULA_DATA", str(tmp_path))
    monkeypatch.setattr(tables, "execute", None)
    problems._read.cache_clear()
    for words in (["table2"], ["discrete"], ["ceiling"], ["all"]):
        assert run.main([*words, "--quiet", "--out", str(tmp_path / "out")]) == 2
        assert "is not in the data directory" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.error"))


@pytest.mark.skipif(not os.environ.get("PYRO_COPULA_DATA"), reason="needs the data sets")
def test_data_that_were_read_before_the_first_trial_are_its_own(tmp_path):
    """The command starts in float32, and its trials are in float64."""
    torch.set_default_dtype(torch.float32)
    problems._read.cache_clear()
    arguments = ["table2", "--smoke", "--quiet", "--no-report", "--out", str(tmp_path)]
    assert run.main([*arguments, "--models", "MLP", "--datasets", "income"]) == 0
    (found,) = committed.read(tmp_path / "smoke" / "results" / "table2.jsonl")
    assert found["dataset"] == "income"


@pytest.mark.usefixtures("quick")
def test_what_needs_no_data_runs_without(tmp_path, monkeypatch):
    monkeypatch.setenv("PYRO_COPULA_DATA", str(tmp_path))
    problems._read.cache_clear()
    arguments = ["--quiet", "--no-report", "--trials", "1", "--out", str(tmp_path / "out")]
    assert run.main(["figure1", *arguments]) == 0
    (path,) = (tmp_path / "out" / "results").iterdir()
    assert len(committed.read(path)) == 6 * 8 + 3 * 4


# ---------------------------------------------------------------- stopping

RUN = """
import sys, time
sys.path.insert(0, sys.argv[1])
import run
from harness import tables
import pyro_copula as pc

def execute(trial):
    if trial.seed > 2:
        data = pc.simulate.paper_setting("c", tau=1.0, seed=1)
        schedule = pc.Schedule(max_epochs=10**6, patience=10**6)
        pc.fit(pc.CopulaGNN("linear"), data, data.train_mask, schedule=schedule, progress=False)
    return {"r2": 0.5}

tables.execute, tables.TOGETHER = execute, None
words = ["table1", "--datasets", "tau=1.0", "--models", "linear + CAR", "--quiet"]
sys.exit(run.main([*words, "--jobs", sys.argv[3], "--out", sys.argv[2]]))
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
@pytest.mark.parametrize(
    ("number", "jobs"), [(signal.SIGINT, 1), (signal.SIGINT, 2), (signal.SIGTERM, 1)]
)
def test_a_run_that_is_stopped_says_what_is_kept_and_keeps_no_fit_cut_short(tmp_path, number, jobs):
    """Ctrl-C goes to all processes. A fit that gets it would end its training and return."""
    experiments = str(Path(run.__file__).parent)
    command = [sys.executable, "-c", RUN, experiments, str(tmp_path), str(jobs)]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 200
        while len(list(tmp_path.rglob("*.json"))) < 2:
            assert time.monotonic() < deadline, "no trial finished"
            assert process.poll() is None, "the run ended by itself"
            time.sleep(0.05)
        time.sleep(1.0)  # the third one trains
        if number == signal.SIGINT:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "Interrupted: 2 of 100 trials of table1 are kept; the same command goes on" in said
    assert "Traceback" not in said
    kept = [json.loads(path.read_bytes()) for path in tmp_path.rglob("*.json")]
    assert sorted(found["seed"] for found in kept) == [1, 2]
    assert not list(tmp_path.rglob("*.error"))


def test_a_fit_does_not_take_a_request_to_stop_for_its_own():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    class Judge:
        def __call__(self, *_):
            signal.raise_signal(signal.SIGINT)

    data = pc.simulate.paper_setting("c", tau=1.0, seed=1)
    with pytest.raises(Stopped) as found, stoppable():
        pc.fit(pc.CopulaGNN("linear"), data, data.train_mask, judge=Judge(), progress=False)
    assert found.value.number == signal.SIGINT
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


# ---------------------------------------------------------------- everything


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("PYRO_COPULA_DATA"), reason="needs the data sets")
def test_smoke_run_of_everything(tmp_path):
    assert run.main(["all", "--smoke", "--quiet", "--jobs", "2", "--out", str(tmp_path)]) == 0
    for name in tables.all_names():
        assert committed.read(tmp_path / "smoke" / "results" / f"{name}.jsonl")
    assert (tmp_path / "smoke" / "results" / "figure3.png").exists()


def test_help_names_the_experiments(capsys):
    with pytest.raises(SystemExit):
        run.main(["--help"])
    words = capsys.readouterr().out
    assert all(name in words for name in ("table1", "figure3", "calibration", "--backend"))
