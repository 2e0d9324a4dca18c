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
from .problems import problem_of
from .stats import Published, by_seed
from .trials import Trial

COLUMNS = ("c:tau=0.5", "c:tau=5.0")
ROWS = ("MLP", "GCN", "SAGE")
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
        for column in COLUMNS[:1] if smoke else COLUMNS:
            for row in ROWS[:1] if smoke else ROWS:
                made.append(Trial("noise", column, row, seed, tuple(sorted(options.items()))))
    return made


def execute(trial: Trial) -> dict[str, Any]:
    """The metrics of a trial."""
    return run_model(trial, problem_of(trial))


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
    for column in COLUMNS:
        for row in ROWS:
            means = draw_means(by_seed(records, row, column, "published"))
            here = by_seed(as_run, row, column, "published")
            if len(means) < 2 or not here:
                continue
            known = published["table1_synthetic_c", row, column.removeprefix("c:")]
            lines.append(
                [
                    column.removeprefix("c:"),
                    row,
                    str(known),
                    f"{np.mean(list(here.values())):.3f}",
                    f"{means.mean():.3f}",
                    f"{means.std(ddof=1):.3f}",
                    f"{means.min():.3f} to {means.max():.3f}",
                ]
            )
    if not lines:
        return ""
    heads = ["column", "model", "published", "as run here", "mean over draws"]
    heads += ["sd between draws", "range"]
    return f"{prose.NOISE.format(draws=DRAWS).strip()}\n\n{prose.markdown(heads, lines)}"


def draw_means(values: Mapping[int, float]) -> np.ndarray:
    """The mean over the data sets of every draw that has all of them."""
    draws: dict[int, list[float]] = {}
    for seed, value in values.items():
        draws.setdefault((seed - 1) // DATA_SETS, []).append(value)
    return np.array([np.mean(draw) for draw in draws.values() if len(draw) == DATA_SETS])
