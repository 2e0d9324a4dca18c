"""The published simulated data sets with other noise: how much of Table 1 is that of ten draws.

Features, graphs and weights of the ten published data sets are known number by number. Their noise
depends on the linear algebra library that made it, so it may be another draw than the published
one. Here it is drawn again and again, and the mean over the ten data sets is looked at each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import prose
from .models import run_model
from .problems import problem_of, short
from .stats import Published, by_seed, mean_p, paired_gains
from .trials import Trial

#: The gains of these over their base models are looked at too.
GAINS = ("R-C-GCN", "R-C-SAGE")
#: The columns, with their rows.
CELLS = {
    "c:tau=0.5": ("MLP", "GCN", "SAGE", *GAINS),
    "c:tau=5.0": ("MLP", "GCN", "ab-C-GCN", "R-C-GCN", "SAGE", "ab-C-SAGE", "R-C-SAGE"),
}
DATA_SETS, DRAWS = 10, 20
#: Seeds of the noise start here, away from those of the data sets.
FIRST = 1000

Records = Sequence[Mapping[str, Any]]


def trials(*, smoke: bool = False, seeds: Sequence[int] | None = None) -> list[Trial]:
    """The trials: seed ``k`` is data set ``1 + (k - 1) % 10`` in draw ``1 + (k - 1) // 10``.

    Args:
        smoke: One of them, with few steps.
        seeds: These, in place of all.
    """
    wanted = range(1, DATA_SETS * DRAWS + 1) if seeds is None else seeds
    made = []
    for seed in [1] if smoke else wanted:
        options: dict[str, Any] = {"lr": (0.01,), "noise": FIRST + seed}
        options["split"] = 1 + (seed - 1) % DATA_SETS
        if smoke:
            options["max_epochs"] = 20
        for column, row in _cells()[:1] if smoke else _cells():
            made.append(Trial("noise", column, row, seed, tuple(sorted(options.items()))))
    return made


def execute(trial: Trial) -> dict[str, Any]:
    """The metrics of a trial."""
    return run_model(trial, problem_of(trial))


def _cells() -> list[tuple[str, str]]:
    return [(column, row) for column, rows in CELLS.items() for row in rows]


def section(
    records: Records, as_run: Records, published: Mapping[tuple[str, str, str], Published]
) -> str:
    """The section, empty without records.

    Args:
        records: Those of the study.
        as_run: Those of Table 1 as the published code ran it.
        published: The numbers in the paper.
    """
    lines = []
    for column, row in _cells():
        here = by_seed(as_run, row, column, "published")
        known = published["table1_synthetic_c", row, short(column)]
        values = by_seed(records, row, column, "published")
        lines += _line([short(column), row, str(known)], list(here.values()), draw_means(values))
    if not lines:
        return ""
    text = f"{prose.NOISE.strip()}\n\n{prose.markdown(_HEADS, lines)}"
    lines = []
    for column, row in ((column, row) for column in CELLS for row in GAINS):
        base = row.removeprefix("R-C-")
        known, under = (published["table1_synthetic_c", r, short(column)] for r in (row, base))
        here, drawn = (
            [by_seed(some, one, column, "published") for one in (row, base)]
            for some in (as_run, records)
        )
        names = [short(column), f"{row} over {base}", f"{known.mean - under.mean:+.3f}"]
        p = mean_p(list(by_data_set(paired_gains(*drawn)).values()))
        gains = list(paired_gains(*here).values())
        for line in _line(names, gains, draw_means(paired_gains(*drawn)), sign="+"):
            lines.append([*line, "" if p is None else f"{p:.1g}"])
    if not lines:
        return text
    table = prose.markdown([*_HEADS, "p, data sets"], lines)
    return f"{text}\n\n{prose.NOISE_GAINS.strip()}\n\n{table}"


_HEADS = ["column", "model", "published", "as run here", "draws", "mean over draws"]
_HEADS += ["sd between draws", "range"]


def _line(
    names: Sequence[str], here: Sequence[float], means: np.ndarray, sign: str = ""
) -> list[list[str]]:
    """A line of the table; none without trials."""
    if len(means) < 2 or not here:
        return []
    spread = f"{means.std(ddof=1):.3f}"
    low, high = (f"{value:{sign}.3f}" for value in (means.min(), means.max()))
    ours, mean = (f"{value:{sign}.3f}" for value in (np.mean(here), means.mean()))
    return [[*names, ours, str(len(means)), mean, spread, f"{low} to {high}"]]


def by_data_set(values: Mapping[int, float]) -> dict[int, float]:
    """The mean over the draws of every data set: its trials are not independent."""
    sets: dict[int, list[float]] = {}
    for seed, value in values.items():
        sets.setdefault((seed - 1) % DATA_SETS, []).append(value)
    return {key: float(np.mean(found)) for key, found in sets.items()}


def draw_means(values: Mapping[int, float]) -> np.ndarray:
    """The mean over the data sets of every draw that has all of them."""
    draws: dict[int, list[float]] = {}
    for seed, value in values.items():
        draws.setdefault((seed - 1) // DATA_SETS, []).append(value)
    return np.array([np.mean(draw) for draw in draws.values() if len(draw) == DATA_SETS])
