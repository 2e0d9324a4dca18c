"""The notebooks run, in fast mode, and what is committed is what their scripts give."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from unmeasured import environment

import pyro_copula as pc

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
SCRIPTS = sorted(FOLDER.glob("[0-9][0-9]_*.py"))

#: Seconds of one core that a notebook may take in fast mode, and seconds in which it must end on a
#: machine that is busy with other things.
FAST_LIMIT, PATIENCE = 120, 900

#: An absolute path on Unix or Windows; `a/b` and the address of a page are none.
ABSOLUTE_PATH = re.compile(
    r"(?<![\w.:/])/(?:home|root|work|tmp|Users|usr|opt|var|mnt|private)/|\b[A-Z]:\\\\?\w"
)

#: Calls that may end a cell without showing anything.
QUIET = ("pyro.set_rng_seed(", "torch.set_default_dtype(")

each_script = pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)


def _cells(script: Path) -> list[tuple[str, str]]:
    """Kind and text of the cells of a script, read without the tool that made the notebook."""
    parts = re.split(r"^# %%(.*)\n", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert not parts[0].strip(), "the script begins with a cell"
    cells = []
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        kind = "markdown" if title.strip() == "[markdown]" else "code"
        if kind == "markdown":
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.split("\n"))
        cells.append((kind, text.strip()))
    return cells


def _notebook(script: Path) -> dict[str, Any]:
    path = script.with_suffix(".ipynb")
    assert path.exists(), f"run: python notebooks/execute.py {script.stem}"
    return json.loads(path.read_text(encoding="utf-8"))


def _shows(source: str) -> bool:
    """Whether a cell prints, shows a figure, or ends in a value."""
    body = ast.parse(source).body
    if not body:
        return False
    last = body[-1]
    ends_in_value = isinstance(last, ast.Expr) and not ast.unparse(last).startswith(QUIET)
    outside = [node for node in body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    called = {
        ast.unparse(node.func)
        for part in outside
        for node in ast.walk(part)
        if isinstance(node, ast.Call)
    }
    return ends_in_value or bool(called & {"print", "plt.show"})


def test_there_are_notebooks():
    found = {script.stem for script in SCRIPTS}
    assert {"01_quickstart", "02_copulas_from_scratch", "03_prior_predictive"} <= found
    assert "06_swapping_the_marginal" in found


@each_script
def test_runs_in_fast_mode(script, tmp_path):
    added = {"PYRO_COPULA_FAST": "1", "MPLBACKEND": "Agg", "MPLCONFIGDIR": str(tmp_path)}
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-W", "ignore:FigureCanvasAgg is non-interactive", str(script)],
        env=environment(**added),
        cwd=tmp_path,  # whatever it needs, it does not find it beside itself
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    after = os.times()
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip()
    assert after.children_user - before.children_user < FAST_LIMIT


@each_script
def test_committed_notebook_has_the_cells_of_the_script(script):
    committed = [
        (cell["cell_type"], "".join(cell["source"]).strip()) for cell in _notebook(script)["cells"]
    ]
    assert committed == _cells(script), f"run: python notebooks/execute.py {script.stem}"


@each_script
def test_committed_notebook_was_executed_without_error(script):
    code = [cell for cell in _notebook(script)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    pictures = 0
    for cell in code:
        source, outputs = "".join(cell["source"]), cell["outputs"]
        assert not [o for o in outputs if o["output_type"] == "error"], source
        assert not [o for o in outputs if o.get("name") == "stderr"], f"a warning from:\n{source}"
        if _shows(source):
            assert outputs, f"nothing shown by:\n{source}"
        if "plt.show()" in source:
            shown = [o for o in outputs if "image/png" in o.get("data", {})]
            assert shown, f"no picture from:\n{source}"
            pictures += len(shown)
    assert pictures


def test_a_notebook_on_simulated_data_is_not_written(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for name, value in (
        ("PYRO_COPULA_FAST", "0"),
        ("OMP_NUM_THREADS", "1"),
        ("PYTHONWARNINGS", ""),
    ):
        monkeypatch.setenv(name, value)  # it changes them, and they are put back
    execute = importlib.import_module("execute")
    scale = (FOLDER / "07_gnn_marginals_at_scale.py").read_text(encoding="utf-8")
    assert execute.NOT_AT_HAND in scale  # what it prints where the data are missing
    script = tmp_path / "01_some.py"
    script.write_text(f'# %%\nprint("The election {execute.NOT_AT_HAND}: on a grid.")\n')
    with pytest.raises(SystemExit, match="PYRO_COPULA_DATA"):
        execute.execute(script)
    assert not script.with_suffix(".ipynb").exists()
    script.write_text('# %%\nprint("3234 counties")\n')
    execute.execute(script)
    assert script.with_suffix(".ipynb").exists()


@each_script
def test_no_absolute_path(script):
    notebook = _notebook(script)
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop("image/png", None)
    for text in (script.read_text(encoding="utf-8"), json.dumps(notebook, ensure_ascii=False)):
        assert str(ROOT) not in text
        assert not ABSOLUTE_PATH.search(text)


def test_absolute_paths_are_recognised():
    assert ABSOLUTE_PATH.search("File /home/me/x.py")
    assert ABSOLUTE_PATH.search("(/tmp/a)")
    assert ABSOLUTE_PATH.search("C:\\\\Users")
    assert not ABSOLUTE_PATH.search("and/or, a/tmp/b, https://example.org/home/")


@each_script
def test_public_names_only(script):
    tree = ast.parse(script.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("pyro_copula"), ast.unparse(node)
        if isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("pyro_copula"):
                    assert (name.name, name.asname) == ("pyro_copula", "pc")
        if isinstance(node, ast.Attribute):
            private = node.attr.startswith("_") and not node.attr.endswith("__")
            assert not private, ast.unparse(node)
            if isinstance(node.value, ast.Name) and node.value.id == "pc":
                assert node.attr in pc.__all__, f"pc.{node.attr} is not public"


@each_script
def test_ends_with_something_to_do(script):
    kind, text = _cells(script)[-1]
    assert kind == "markdown"
    assert re.search(r"^## (Exercises|Next steps)", text, flags=re.MULTILINE)
