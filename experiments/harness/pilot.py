"""The pilot that fixes a learning rate for every published model and real data set.

The paper chose between two rates by validation score. Here one trial of each rate decides for all
trials of a cell: half of the work. It is on a split that no table uses or, for the tables as the
published code ran them, on the split that they have. The tables read the decision from the
committed records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .committed import read
from .models import run_model
from .problems import COUNTS, ELECTION, load, published_split
from .trials import Trial

ROWS = ("MLP", "GCN", "ab-C-GCN", "R-C-GCN", "SAGE", "ab-C-SAGE", "R-C-SAGE")
RATES = (0.01, 0.001)
#: A split that no table has.
SEED = 101
#: Data sets of the tables as run.
AS_RUN = (*ELECTION, "wiki-chameleon")
RECORDS = Path(__file__).resolve().parents[1] / "results" / "pilot.jsonl"


def trials(*, smoke: bool = False, seeds: Sequence[int] | None = None) -> list[Trial]:
    """The trials.

    Args:
        smoke: One cell with few steps.
        seeds: Not read: they are fixed.
    """
    if smoke:
        options: tuple[tuple[str, Any], ...] = (("lr", (RATES[0],)), ("max_epochs", 20))
        return [Trial("pilot", ELECTION[0], ROWS[0], SEED, options)]
    return [
        Trial("pilot", column, row, split_of(as_run=as_run), (("lr", (rate,)),))
        for as_run, columns in ((False, (*ELECTION, *COUNTS)), (True, AS_RUN))
        for column in columns
        for row in ROWS
        for rate in RATES
    ]


def split_of(*, as_run: bool) -> int:
    """The split of the pilot: the first one of the published code, or one that no table has."""
    return published_split(1) if as_run else SEED


def execute(trial: Trial) -> dict[str, Any]:
    """The metrics of a trial."""
    return run_model(trial, load(trial.dataset, trial.seed))


def chosen(
    records: Sequence[Mapping[str, Any]], *, as_run: bool = False
) -> dict[str, tuple[float, ...]]:
    """The rate of every cell for which each of the two was tried.

    Args:
        records: Those of the pilot.
        as_run: For the trials of the published code.

    Returns:
        By data set and row, the rate with the better validation score.
    """
    scores = _scores(records, as_run=as_run)
    return {name: (max(cell, key=cell.__getitem__),) for name, cell in scores.items()}


def margins(records: Sequence[Mapping[str, Any]]) -> list[float]:
    """By how much the better validation score is better, in every cell of the pilot."""
    return [max(cell.values()) - min(cell.values()) for cell in _scores(records).values()]


def _scores(
    records: Sequence[Mapping[str, Any]], *, as_run: bool = False
) -> dict[str, dict[float, float]]:
    """The validation scores by cell and rate, of the cells that have both rates."""
    scores: dict[str, dict[float, float]] = {}
    for record in records:
        if record["seed"] != split_of(as_run=as_run):
            continue
        metrics = record["metrics"]
        cell = scores.setdefault(f"{record['dataset']} {record['model']}", {})
        cell[metrics["lr"]] = metrics["validation"]
    return {name: cell for name, cell in scores.items() if set(cell) == set(RATES)}


def committed(*, as_run: bool = False) -> dict[str, tuple[float, ...]]:
    """The rates that the committed records decide; none without them."""
    return chosen(read(RECORDS), as_run=as_run)
