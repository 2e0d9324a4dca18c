"""By how much one row of a table is above another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .problems import short
from .stats import by_seed, mean_p, paired_gains

Records = Sequence[Mapping[str, Any]]

LEVEL = 0.05


@dataclass(frozen=True)
class Gain:
    """By how much a row is better than another in a column, over the seeds that both have.

    Attributes:
        row: The row.
        over: The other one.
        column: The column.
        mean: The mean gain.
        p: The p-value of a paired t-test; None without one.
        wins: On how many seeds the row is better.
        count: On how many seeds both have been run.
    """

    row: str
    over: str
    column: str
    mean: float
    p: float | None
    wins: int
    count: int

    def __str__(self) -> str:
        p = "" if self.p is None else f", p = {probability(self.p)}"
        return f"{self.mean:+.3f} ({self.row} over {self.over}, {short(self.column)}{p})"

    @property
    def is_significant(self) -> bool:
        """Whether the paired t-test says so at the usual level."""
        return self.mean > 0 and self.p is not None and self.p < LEVEL


def gain(
    records: Records,
    row: str,
    over: str,
    column: str,
    metric: str = "published",
    *,
    sign: float = 1.0,
    overlap: float = 0.0,
) -> Gain | None:
    """The gain of a row over another; None where no seed has both.

    Args:
        records: Of the table.
        row: The row.
        over: The other one.
        column: The column.
        metric: By default the paper's.
        sign: Minus one for scores of which less is better.
        overlap: That of the seeds' splits; see :func:`harness.stats.mean_p`.
    """
    ours, theirs = (by_seed(records, one, column, metric) for one in (row, over))
    values = [sign * value for value in paired_gains(ours, theirs).values()]
    if not values:
        return None
    wins = sum(value > 0 for value in values)
    p = mean_p(values, overlap)
    return Gain(row, over, column, float(np.mean(values)), p, wins, len(values))


def gains(
    records: Records,
    pairs: Iterable[tuple[str, str, str]],
    metric: str = "published",
    **options: Any,
) -> Iterator[Gain]:
    """The gains of pairs of rows, each with a column, where both have been run."""
    for row, over, column in pairs:
        found = gain(records, row, over, column, metric, **options)
        if found is not None:
            yield found


def probability(p: float) -> str:
    """A p-value in words."""
    return f"{p:.2f}" if p >= 0.01 else f"{p:.1g}"
