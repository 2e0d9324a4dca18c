"""Executes the notebooks in full and writes them, with their outputs, beside their scripts.

    python notebooks/execute.py                      # all of them
    python notebooks/execute.py 01_quickstart        # some of them

A notebook is written as text, ``NN_name.py`` (jupytext's percent format), and read as
``NN_name.ipynb``. Nothing is written if a cell fails or the time is up.
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
        resources={"metadata": {"path": str(HERE)}},
    )
    start = time.perf_counter()
    client.execute()
    seconds = time.perf_counter() - start
    if seconds > NOTEBOOK_LIMIT:
        raise TimeoutError(f"{script.name} took {seconds:.0f} s, more than {NOTEBOOK_LIMIT}")
    notebook.metadata = METADATA
    nbformat.validate(notebook)
    nbformat.write(notebook, script.with_suffix(".ipynb"))
    return seconds


def main() -> None:
    """Executes the notebooks named on the command line, or all."""
    known = {script.stem: script for script in scripts()}
    parser = argparse.ArgumentParser(description="Executes the notebooks in full.")
    parser.add_argument("names", nargs="*", choices=[*known, []], metavar="name")
    for name in parser.parse_args().names or known:
        print(f"{name}: {execute(known[name]):.0f} s", flush=True)


if __name__ == "__main__":
    main()
