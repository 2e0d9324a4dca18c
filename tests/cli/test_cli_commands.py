"""The commands, from the words on the command line to the files and exit codes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import pyro_copula as pc
from pyro_copula.cli import clone, fit_files
from pyro_copula.cli.main import app

runner = CliRunner()

SIDE = 6
MISSING = (3, 7, 20, 33)


@pytest.fixture
def files(tmp_path):
    """Counts on a grid, drawn from a copula; the id of node 3 is a formula."""
    graph = pc.simulate.grid_graph(SIDE, SIDE)
    n = graph.num_nodes
    x = torch.randn(n)
    exposure = torch.rand(n) + 0.5
    rate = 8 * exposure * (0.3 * x).exp()
    K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
    y = pc.GaussianCopula(torch.distributions.Poisson(rate), precision=K).sample()
    ids = [f"county {k}" for k in range(n)]
    ids[3] = "=SUM(A1)"
    places = np.stack(np.divmod(np.arange(n), SIDE), axis=1)
    table = pd.DataFrame(
        {
            "name": ids,
            "deaths": ["" if k in MISSING else f"{v:g}" for k, v in enumerate(y.tolist())],
            "x": x.numpy(),
            "births": exposure.numpy(),
            "east": places[:, 1],
            "north": places[:, 0],
            "state": "NC",
        }
    )
    table.to_csv(tmp_path / "nodes.csv", index=False)
    ends = [[ids[a], ids[b]] for a, b in graph.edges.tolist()]
    pd.DataFrame(ends, columns=["a", "b"]).to_csv(tmp_path / "edges.csv", index=False)
    return tmp_path


@pytest.fixture
def quick(monkeypatch):
    """Short fits: what is tested here is what is around them."""
    fit = pc.fit
    schedule = pc.Schedule(max_epochs=20, check_every=5, patience=2)
    monkeypatch.setattr(pc, "fit", lambda *a, **o: fit(*a, **{"schedule": schedule, **o}))


def run_fit(files, *more, out="out", target="deaths"):
    words = ["fit", "--nodes", files / "nodes.csv", "--edges", files / "edges.csv"]
    words += ["--target", target, "--out", files / out, "--backbone", "linear", *more]
    return runner.invoke(app, [str(word) for word in words])


def names(directory):
    return sorted(path.name for path in directory.iterdir())


# ---------------------------------------------------------------- fit and predict


@pytest.mark.usefixtures("quick")
def test_fit_writes_everything_and_predict_reads_it(files):
    result = run_fit(files, "--exposure", "births", "--position", "east,north", "--restarts", "2")
    assert result.exit_code == 0, result.output
    out = files / "out"
    assert names(out) == ["fit.pyrocopula", "picture.png", "predictions.csv", "summary.txt"]
    table = pd.read_csv(out / "predictions.csv")
    assert list(table.columns) == [
        *("id", "mean", "median", "sd"),
        *("lower_50", "upper_50", "lower_90", "upper_90"),
    ]
    assert table["id"].tolist() == ["'=SUM(A1)", "county 7", "county 20", "county 33"]
    assert (table["lower_90"] <= table["lower_50"]).all()
    assert (table["upper_50"] <= table["upper_90"]).all()
    assert (table["mean"] > 0).all()
    summary = (out / "summary.txt").read_text()
    assert "36 nodes, 60 edges, 4 missing nodes predicted" in summary
    assert "features: x\n" in summary
    assert 'marginal="auto" chose' in summary  # and why
    assert "column 'state' is not used" in summary
    assert "Note: --nodes nodes.csv: column 'state' is not used" in result.stderr
    assert (out / "picture.png").read_bytes().startswith(b"\x89PNG")

    # The saved fit gives the same predictions, at these levels and at others.
    again = runner.invoke(app, ["predict", "--fit", str(out), "--out", str(files / "p.csv")])
    assert again.exit_code == 0, again.output
    pd.testing.assert_frame_equal(pd.read_csv(files / "p.csv"), table)
    words = ["predict", "--fit", str(out / "fit.pyrocopula"), "--out", str(files / "p.csv")]
    refused = runner.invoke(app, words)
    assert refused.exit_code == 2
    assert "a new file" in refused.stderr
    words += ["--overwrite", "--given", "none", "--level", "0.8"]
    assert runner.invoke(app, words).exit_code == 0
    alone = pd.read_csv(files / "p.csv")
    assert list(alone.columns)[4:] == ["lower_80", "upper_80"]
    assert len(alone) == 36
    found = pc.load_fit(out / "fit.pyrocopula")
    lower, _ = found.predict(given="none").interval(0.8)
    np.testing.assert_allclose(alone["lower_80"], lower.numpy(), rtol=1e-5)


@pytest.mark.usefixtures("quick")
def test_the_same_seed_gives_the_same_predictions(files):
    tables = []
    for seed, out in ((1, "a"), (1, "b"), (2, "c")):
        result = run_fit(files, "--seed", seed, "--backbone", "mlp", out=out)
        assert result.exit_code == 0, result.output
        tables.append((files / out / "predictions.csv").read_text())
    assert tables[0] == tables[1]
    assert tables[0] != tables[2]


@pytest.mark.usefixtures("quick")
def test_observed_nodes_can_have_rows(files):
    assert run_fit(files, "--observed").exit_code == 0
    table = pd.read_csv(files / "out/predictions.csv", dtype={"id": str})
    source = pd.read_csv(files / "nodes.csv")
    assert len(table) == 36
    np.testing.assert_array_equal(table["value"], source["deaths"])
    assert table["mean"].notna().to_numpy().nonzero()[0].tolist() == list(MISSING)


@pytest.mark.usefixtures("quick")
def test_no_features(files):
    result = run_fit(files, "--features", "")
    assert result.exit_code == 0, result.output
    assert "features: none" in (files / "out/summary.txt").read_text()


@pytest.mark.usefixtures("quick")
def test_a_dollar_in_the_target_is_no_mathematics(files):
    text = (files / "nodes.csv").read_text().replace("deaths", "cost $_{")
    (files / "nodes.csv").write_text(text)
    assert run_fit(files, target="cost $_{").exit_code == 0


def test_options_reach_the_model(files, monkeypatch):
    seen = {}

    def stop(model, data, **options):
        seen.update(options, model=model, data=data)
        raise pc.errors.TrainingError("Stopped", "It is a test.")

    monkeypatch.setattr(pc, "fit", stop)
    more = ["--method", "nuts", "--seed", 7, "--restarts", 3, "--exposure", "births"]
    result = run_fit(files, *more, "--marginal", "poisson", "--precision", "car")
    assert result.exit_code == 2
    assert "Stopped" in result.stderr
    assert names(files) == ["edges.csv", "nodes.csv"]
    assert (seen["method"], seen["seed"], seen["restarts"]) == ("nuts", 7, 3)
    assert "'linear'" in repr(seen["model"])
    assert "'poisson'" in repr(seen["model"])
    assert "'car'" in repr(seen["model"])
    assert seen["data"].x.dtype == torch.float64
    assert seen["data"].x.shape == (36, 3)
    assert seen["data"].edge_index.shape == (2, 120)
    assert seen["data"].y.isnan().nonzero().flatten().tolist() == list(MISSING)
    assert torch.get_default_dtype() == torch.float64  # as the tests have it


def test_a_bug_is_no_mistake_of_the_user(files, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a bug")

    monkeypatch.setattr(pc, "fit", broken)
    result = run_fit(files)
    assert result.exit_code == 1
    assert isinstance(result.exception, RuntimeError)
    assert names(files) == ["edges.csv", "nodes.csv"]


def test_warnings_become_notes_each_once():
    notes = ["known"]
    with pytest.raises(RuntimeError), fit_files.computing(notes):
        _warn_and_fail()
    assert notes == ["known", "poor"]


def _warn_and_fail():
    for text in ("poor", "poor", "known"):
        warnings.warn(text, pc.errors.MidpointWarning, stacklevel=1)
    warnings.warn("of another package", UserWarning, stacklevel=1)
    raise RuntimeError


# ---------------------------------------------------------------- malformed input


def change(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("spoil", "more", "parts"),
    [
        (lambda d: None, ["--exposure", "people"], ["`--exposure`", "'people'", "The columns are"]),
        (lambda d: None, ["--features", "x,deaths"], ["`--features`", "'deaths'"]),
        (lambda d: None, ["--delimiter", "::"], ["`--delimiter`", "'::'"]),
        (lambda d: None, ["--marginal", "gauss"], ["`marginal`", "'gauss'"]),
        (lambda d: None, ["--method", "guess"], ["`method`", "'guess'"]),
        (lambda d: None, ["--precision", "dense"], ["`precision`", "'dense'"]),
        (lambda d: None, ["--recipe", "soup"], ["`recipe`", "'soup'"]),
        (lambda d: None, ["--restarts", "0"], ["`restarts`", "0"]),
        (lambda d: None, ["--edges", "nowhere.csv"], ["`--edges`", "'nowhere.csv'", "No such"]),
        (lambda d: change(d / "nodes.csv", "name,deaths", "name,death"), [], ["`--target`"]),
        (lambda d: change(d / "edges.csv", "county 35", "Oz"), [], ["'Oz'", "of column 'b'"]),
        (lambda d: change(d / "nodes.csv", "county 7,,", "county 7,few,"), [], ["'few' in row 9"]),
        (lambda d: change(d / "nodes.csv", "county 8", "county 7"), [], ["in rows 9 and 10"]),
        (lambda d: (d / "nodes.csv").write_text(""), [], ["an empty file"]),
        (lambda d: (d / "edges.csv").write_text("a,b\n"), [], ["nothing below it"]),
        (lambda d: (d / "edges.csv").write_bytes(b"a,b\n\xff,1\n"), [], ["UTF-8", "0xff"]),
    ],
)
def test_malformed_input_is_explained_and_nothing_is_written(files, spoil, more, parts):
    spoil(files)
    result = run_fit(files, *more)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("Error: `")
    assert "Traceback" not in result.output
    for part in parts:
        assert part in result.stderr, result.stderr
    assert result.stdout == ""
    assert names(files) == ["edges.csv", "nodes.csv"]


def test_an_existing_directory_is_refused_before_the_fit(files, monkeypatch):
    monkeypatch.setattr(fit_files, "fit_files", None)
    (files / "out").mkdir()
    (files / "out/thesis.doc").write_text("years of work")
    for more in ([], ["--overwrite"]):
        result = run_fit(files, *more)
        assert result.exit_code == 2
        assert "'thesis.doc'" in result.stderr


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--fit", "nowhere"], ["`nowhere` cannot be read"]),
        (["--fit", "nodes.csv"], ["not a file of this package"]),
        (["--fit", "nodes.csv", "--level", "90"], ["`--level`", "90", "0.9 for 90%"]),
    ],
)
def test_what_predict_refuses(files, monkeypatch, words, parts):
    monkeypatch.chdir(files)
    result = runner.invoke(app, ["predict", "--out", "p.csv", *words])
    assert result.exit_code == 2, result.output
    for part in parts:
        assert part in result.stderr
    assert names(files) == ["edges.csv", "nodes.csv"]


# ---------------------------------------------------------------- the others


def test_experiments_need_a_clone(tmp_path, monkeypatch):
    monkeypatch.setattr(clone, "experiments_folder", lambda: tmp_path)
    result = runner.invoke(app, ["experiment", "table2", "--jobs", "2"])
    assert result.exit_code == 2
    assert "the folder of a clone, with 'run.py' in it" in result.stderr


IN_A_CLONE = """
import sys
from pathlib import Path
from pyro_copula.cli import clone, main
folder = Path(sys.argv.pop(1))
clone.experiments_folder = lambda: folder
main.main()
"""
SCRIPTS = pytest.mark.parametrize(
    ("word", "script"), [("experiment", "run.py"), ("benchmark", "scaling.py")]
)
SEEN = "import pathlib, sys; pathlib.Path(__file__).with_name('seen').write_text"


@SCRIPTS
def test_scripts_get_the_words_and_give_their_exit_code(tmp_path, word, script):
    (tmp_path / script).write_text(SEEN + "(' '.join(sys.argv[1:])); sys.exit(3)")
    command = [sys.executable, "-c", IN_A_CLONE, str(tmp_path), word]
    found = subprocess.run([*command, "table2", "--jobs", "2", "--help"], check=False)
    assert found.returncode == 3
    assert (tmp_path / "seen").read_text() == "table2 --jobs 2 --help"


@SCRIPTS
def test_scripts_run_below_where_a_process_cannot_become_another(
    tmp_path, monkeypatch, word, script
):
    (tmp_path / script).write_text(SEEN + "(' '.join(sys.argv[1:])); sys.exit(3)")
    monkeypatch.setattr(clone, "experiments_folder", lambda: tmp_path)
    monkeypatch.setattr(clone, "CAN_BECOME_ANOTHER", False)
    assert runner.invoke(app, [word, "table2", "--help"]).exit_code == 3
    assert (tmp_path / "seen").read_text() == "table2 --help"


@pytest.mark.skipif(os.name != "posix", reason="signals of Unix")
def test_a_request_to_end_reaches_the_script(tmp_path):
    (tmp_path / "run.py").write_text(
        "import os, pathlib, time\n"
        "part = pathlib.Path(__file__).with_name('part')\n"
        "part.write_text(str(os.getpid()))\n"
        "part.rename(part.with_name('pid'))\n"
        "time.sleep(60)\n"
    )
    command = [sys.executable, "-c", IN_A_CLONE, str(tmp_path), "experiment", "table2"]
    with subprocess.Popen(command) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "pid").exists():
            assert time.monotonic() < deadline, "the script did not start"
            time.sleep(0.02)
        process.terminate()
    assert process.returncode == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_this_clone_has_the_scripts():
    folder = clone.experiments_folder()
    assert (folder / "scaling.py").is_file()
    assert (folder / "run.py").is_file()


def test_help_names_every_command():
    result = runner.invoke(app, ["--help"])
    assert result.exit_code == 0
    for word in ("demo", "fit", "predict", "experiment", "benchmark"):
        assert f"\n  {word} " in result.output
    assert runner.invoke(app, ["--version"]).output == f"pyro-copula {pc.__version__}\n"


def test_the_entry_point_and_the_module(files):
    """Installed as a command, and with ``-m``; a mistake ends without a traceback."""
    command = Path(sys.executable).with_name("pyro-copula")
    words = ["fit", "--nodes", "nodes.csv", "--edges", "edges.csv", "--target", "births2"]
    for start in ([str(command)], [sys.executable, "-m", "pyro_copula"]):
        result = subprocess.run(
            [*start, *words, "--out", "out"],
            cwd=files,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )
        assert result.returncode == 2, result.stderr
        assert result.stderr.startswith("Error: `--target` must be a column")
        assert "Traceback" not in result.stderr
    assert names(files) == ["edges.csv", "nodes.csv"]
