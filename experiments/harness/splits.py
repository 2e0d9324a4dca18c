"""Which split of EMNLP the published numbers are of.

The published standard errors are too small for more than one split, and the released program stops
with an error before it reads these data, so that it does not say which. The base models, which are
quick, are trained on the first ten splits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import prose
from .models import run_model
from .problems import load
from .stats import Published, by_seed
from .trials import Trial

COLUMN, SPLITS = "emnlp", range(10)
ROWS = ("MLP", "GCN", "SAGE")
#: Both, as in the paper: validation chooses.
RATES = (0.01, 0.001)

Records = Sequence[Mapping[str, Any]]


def trials(*, smoke: bool = False, seeds: Sequence[int] | None = None) -> list[Trial]:
    """The trials; the seed is the split.

    Args:
        smoke: One of them, with few steps.
        seeds: These splits, in place of the first ten.
    """
    if smoke:
        return [Trial("splits", COLUMN, ROWS[0], 0, (("lr", RATES[:1]), ("max_epochs", 20)))]
    wanted = SPLITS if seeds is None else seeds
    return [Trial("splits", COLUMN, row, k, (("lr", RATES),)) for k in wanted for row in ROWS]


def execute(trial: Trial) -> dict[str, Any]:
    """The metrics of a trial."""
    return run_model(trial, load(trial.dataset, trial.seed))


def section(records: Records, published: Mapping[tuple[str, str, str], Published]) -> str:
    """The section, empty without records.

    Args:
        records: Those of the study.
        published: The numbers in the paper.
    """
    known = [published["table3_counts", row, COLUMN] for row in ROWS]
    scores = [by_seed(records, row, COLUMN, "published") for row in ROWS]
    common = sorted(set.intersection(*map(set, scores)))
    if not common:
        return ""
    lines = []
    for split in common:
        values = np.array([score[split] for score in scores])
        off = math.sqrt(float(np.mean(np.square(values - [cell.mean for cell in known]))))
        lines.append([str(split), *(f"{value:.3f}" for value in values), f"{off:.3f}"])
    lines.append(["published", *(str(cell) for cell in known), ""])
    heads = ["split", *ROWS, "root mean square difference"]
    return f"{prose.EMNLP_SPLIT.strip()}\n\n{prose.markdown(heads, lines)}"
