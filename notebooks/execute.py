"""Executes the notebooks in full and writes them, with their outputs, beside their scripts.

    python notebooks/execute.py                      # all of them
    python notebooks/execute.py 01_quickstart        # some of them
    python notebooks/execute.py --text 01_quickstart # only takes over text, if no code changed

A notebook is written as text, ``NN_name.py`` (jupytext's percent format), and read as
``NN_name.ipynb``. Nothing is written if a cell fails, the time is up, or a notebook says that its
data are not at hand.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent

#: Seconds that one cell may take, and that one notebook may take.
CELL_LIMIT, NOTEBOOK_LIMIT = 600, 1200

#: What a notebook prints before it goes on with simulated data.
NOT_AT_HAND = "data are not at hand"

#: What a reader needs to open the notebook; the rest differs from machine to machine.
METADATA = {
    "jupytext": {"formats": "ipynb,py:percent"},
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def scripts() -> list[Path]:
    """The notebooks as scripts, in their order."""
    return sorted(HERE.glob("[0-9][0-9]_*.py"))


def cells(script: Path) -> Any:
    """The notebook of a script, without outputs. The same text gives the same notebook."""
    notebook = jupytext.read(script, fmt="py:percent")
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = {}
    notebook.metadata = METADATA
    return notebook


def execute(script: Path) -> float:
    """Runs a script as a notebook in a new kernel, writes it, and returns the seconds it took."""
    notebook = cells(script)
    os.environ.pop("PYRO_COPULA_FAST", None)  # the kernel inherits the environment
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the arrays are small: threads would only wait
    # tqdm warns, with a path, where there are no widgets; nothing here shows a progress bar.
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
    client = NotebookClient(
        notebook,
        timeout=CELL_LIMIT,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # else a cell's output is cut differently each time
        resources={"metadata": {"path": str(HERE)}},
    )
    start = time.perf_counter()
    client.execute()
    seconds = time.perf_counter() - start
    if seconds > NOTEBOOK_LIMIT:
        raise TimeoutError(f"{script.name} took {seconds:.0f} s, more than {NOTEBOOK_LIMIT}")
    if has_stand_in(notebook):
        raise SystemExit(
            f"{script.name} ran on simulated data, since those that it is about could not be had, "
            "and was not written. Set PYRO_COPULA_DATA to the folder that has them."
        )
    write(notebook, script)
    return seconds


def has_stand_in(notebook: Any) -> bool:
    """Whether a notebook says that it ran on other data than those that it is about."""
    printed = [out.get("text", "") for cell in notebook.cells for out in cell.get("outputs", [])]
    return any(NOT_AT_HAND in text for text in printed)


def take_over_text(script: Path) -> None:
    """Writes the text of a script into its executed notebook, whose outputs stay."""
    notebook = cells(script)
    executed = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    before = [cell for cell in executed.cells if cell.cell_type == "code"]
    after = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.source for cell in before] != [cell.source for cell in after]:
        raise SystemExit(f"{script.name}: the code has changed; execute it, without --text")
    for old, new in zip(before, after, strict=True):
        new.outputs, new.execution_count = old.outputs, old.execution_count
    write(notebook, script)


def write(notebook: Any, script: Path) -> None:
    """Writes a notebook beside its script, without what differs from machine to machine."""
    notebook.metadata = METADATA
    nbformat.validate(notebook)
    nbformat.write(notebook, script.with_suffix(".ipynb"))


def main() -> None:
    """Executes the notebooks named on the command line, or all."""
    known = {script.stem: script for script in scripts()}
    parser = argparse.ArgumentParser(description="Executes the notebooks in full.")
    parser.add_argument("names", nargs="*", choices=[*known, []], metavar="name")
    parser.add_argument("--text", action="store_true", help="take over text, execute nothing")
    arguments = parser.parse_args()
    for name in arguments.names or known:
        if arguments.text:
            take_over_text(known[name])
            continue
        print(f"{name}: {execute(known[name]):.0f} s", flush=True)


if __name__ == "__main__":
    main()
