"""The targets of the recommended model: better than every other row and the paper; its coverage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from .gains import Gain, Records, gain, probability
from .models import ABLATIONS, DENSITIES
from .problems import COUNTS, short
from .stats import Published, by_seed
from .summary import RECOMMENDED, best_published
from .tables import Table
from .target import Target

#: What the targets are of, on the planned tables and on fresh splits.
PLANNED, FRESH = "Recommended model", "Recommended model, fresh splits"
COVERAGE = (0.87, 0.93)

Numbers = Mapping[tuple[str, str, str], Published]


def targets(
    table: Table, column: str, records: Records, as_run: Records, published: Numbers
) -> Iterator[Target]:
    """The targets of a column; none without trials of the model and of another row.

    Args:
        table: The table.
        column: The data set.
        records: Of the table.
        as_run: Those of the trials of the published code.
        published: The numbers in the paper.
    """
    counts = column in COUNTS
    r2 = ("R2-deviance", "r2_deviance") if counts else ("R2", "r2")
    words, nearest = [], []
    for title, metric, sign in ((*r2, 1.0), ("log score", "log_score", 1.0), ("CRPS", "crps", -1)):
        if not by_seed(records, RECOMMENDED, column, metric):
            return
        smallest = _nearest(table, column, records, metric, sign)
        nearest += [] if smallest is None else [smallest]
        said = "" if smallest is None else _said(smallest)
        words.append(f"{title} {_mean(records, column, metric):.3f}{said}")
    if not nearest:
        return
    met = all(found.mean > 0 for found in nearest)
    sure = all(found.is_significant for found in nearest)
    name, against = FRESH if "fresh" in table.name else PLANNED, "every other row"
    if name == PLANNED and table.published and short(column) == column:
        against += " and the paper"
        margin, said = _over_paper(table, column, records, as_run, published)
        words.append(said)
        met = met and margin > 0
    asked = f"{short(column)}: better than {against} in {r2[0]}, log score and CRPS"
    yield Target(name, asked, "; ".join(words), met, sure=sure)
    kind, by = ("pit_coverage", ", by the randomised PIT") if counts else ("coverage", "")
    covers = _mean(records, column, kind)
    asked = f"{short(column)}: 90% intervals cover {COVERAGE[0]} to {COVERAGE[1]}{by}"
    yield Target(name, asked, f"{covers:.3f}", COVERAGE[0] <= covers <= COVERAGE[1])


def _nearest(table: Table, column: str, records: Records, metric: str, sign: float) -> Gain | None:
    """The gain over the row that is nearest, or above."""
    found = []
    for row in table.rows:
        if row == RECOMMENDED or row in ABLATIONS:
            continue
        if metric == "log_score" and row in DENSITIES:
            continue
        # The paper's rows have an R2 with their clamp and one without: like is held against like.
        both = (metric, "published") if metric[:2] == "r2" and row in table.paper else (metric,)
        options = {"sign": sign, "overlap": table.overlap}
        over = [gain(records, RECOMMENDED, row, column, one, **options) for one in both]
        found += [one for one in over if one is not None]
    return min(found, key=lambda one: one.mean, default=None)


def _said(nearest: Gain) -> str:
    word = "better" if nearest.mean > 0 else "worse"
    p = "" if nearest.p is None else f", p = {probability(nearest.p)}"
    wins = f"{nearest.wins} of {nearest.count}"
    return f" ({abs(nearest.mean):.3f} {word} than {nearest.over}; on {wins} seeds{p})"


def _over_paper(
    table: Table, column: str, records: Records, as_run: Records, published: Numbers
) -> tuple[float, str]:
    """By how much the clamped R2 is above the best published one, which is clamped too.

    Where the trials of the published code have been run, they decide: splits differ.
    """
    best, known = best_published(table.name, column, published)
    ours = _mean(records, column, "published")
    words = f"clamped {ours:.3f}"
    if by_seed(as_run, RECOMMENDED, column, "published"):
        ours = _mean(as_run, column, "published")
        words += f", in the trials of the published code {ours:.3f}"
    return ours - known.mean, f"{words} ({best} as published {known.mean:.3f})"


def _mean(records: Records, column: str, metric: str) -> float:
    return float(np.mean(list(by_seed(records, RECOMMENDED, column, metric).values())))
