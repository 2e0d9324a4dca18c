"""How much the EMNLP column of Table 3 depends on the split.

The published standard errors are too small for more than one split, and which one is not known. The
trials of Table 3 have many, and show what a single one may give.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import prose
from .models import PAPER
from .stats import Published, by_seed

COLUMN = "emnlp"
#: The split of the published reader of this data set, if it is given no seed.
DEFAULT = 1

Records = Sequence[Mapping[str, Any]]


def section(records: Records, published: Mapping[tuple[str, str, str], Published]) -> str:
    """The section, empty without two splits that have all models.

    Args:
        records: Those of Table 3.
        published: The numbers in the paper.
    """
    rows = [row for row in PAPER if ("table3_counts", row, COLUMN) in published]
    known = [published["table3_counts", row, COLUMN] for row in rows]
    scores = [by_seed(records, row, COLUMN, "published") for row in rows]
    common = sorted(set.intersection(*map(set, scores)))
    if len(common) < 2:
        return ""
    values = np.array([[score[split] for split in common] for score in scores])  # (rows, splits)
    lines = [
        [
            row,
            str(cell),
            f"{own.mean():.3f}",
            f"{own.std(ddof=1):.3f}",
            f"{own.min():.3f} to {own.max():.3f}",
            str(int((own >= cell.least).sum())),
        ]
        for row, cell, own in zip(rows, known, values)
    ]
    off = np.sqrt(np.square(values - [[cell.mean] for cell in known]).mean(0))
    closest = int(off.argmin())
    text = prose.EMNLP_SPLIT.format(
        count=len(common), split=common[closest], off=off[closest], usual=math.sqrt((off**2).mean())
    )
    if DEFAULT in common:
        text += prose.EMNLP_DEFAULT.format(split=DEFAULT, off=off[common.index(DEFAULT)])
    heads = ["model", "published", "mean over splits", "sd between splits", "range"]
    heads += ["splits at or above published - 2 s.e."]
    return f"{text.strip()}\n\n{prose.markdown(heads, lines)}"
