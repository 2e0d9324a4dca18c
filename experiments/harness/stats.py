"""Means, standard errors, paired tests, and the comparison with published numbers."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats

#: The paper's asterisks: one for each level that the p-value is below.
LEVELS = (0.1, 0.05, 0.01)


@dataclass(frozen=True)
class Cell:
    """One cell of a table.

    Attributes:
        mean: The mean over trials.
        error: Its standard error; NaN for a single trial.
        count: The number of trials.
        p: The p-value of the paired test against the base model, or None.
    """

    mean: float
    error: float
    count: int
    p: float | None = None

    def __str__(self) -> str:
        error = "" if math.isnan(self.error) else f" ± {self.error:.3f}"
        return f"{self.mean:.3f}{error}{asterisks(self.p)}"


@dataclass(frozen=True)
class Published:
    """A published mean with its standard error."""

    mean: float
    error: float

    @property
    def least(self) -> float:
        """Two standard errors below the mean."""
        return self.mean - 2 * self.error

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.error:.3f}"


def summarise(values: Sequence[float], p: float | None = None) -> Cell:
    """The cell of some trials."""
    array = np.asarray(values, dtype=float)
    error = float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else math.nan
    return Cell(float(array.mean()), error, len(array), p)


def paired_gains(values: Mapping[int, float], base: Mapping[int, float]) -> dict[int, float]:
    """By how much a model is above another, by seed, where both have been run."""
    return {seed: values[seed] - base[seed] for seed in sorted(values.keys() & base.keys())}


def paired_p(values: dict[int, float], base: dict[int, float]) -> float | None:
    """The two-sided p-value of a paired t-test over the seeds that both have.

    Args:
        values: Scores of a model by seed.
        base: Scores of its base model by seed.

    Returns:
        The p-value; None for fewer than two common seeds or equal scores.
    """
    return mean_p(list(paired_gains(values, base).values()))


def mean_p(values: Sequence[float], overlap: float = 0.0) -> float | None:
    """The two-sided p-value of a t-test of mean zero; None for fewer than two, or equal, values.

    Args:
        values: The values.
        overlap: The number of test nodes over that of training nodes, if the values are of random
            splits of one data set. These share most of their nodes, so a mean over them varies more
            than one of independent values, and the test is corrected for it (Nadeau and Bengio,
            Inference for the generalization error, Machine Learning 52, 2003).
    """
    count = len(values)
    if count < 2 or not np.std(values) > 0:
        return None
    t = np.mean(values) / (np.std(values, ddof=1) * math.sqrt(1 / count + overlap))
    return float(2 * scipy.stats.t.sf(abs(t), count - 1))


def asterisks(p: float | None) -> str:
    """The paper's marks."""
    return "" if p is None else "\\*" * sum(p < level for level in LEVELS)


def by_seed(
    records: Sequence[Mapping[str, Any]], row: str, column: str, metric: str
) -> dict[int, float]:
    """The values of a metric by seed, in one cell."""
    return {
        record["seed"]: record["metrics"][metric]
        for record in records
        if record["model"] == row and record["dataset"] == column and metric in record["metrics"]
    }


def read_published(path: Path) -> dict[tuple[str, str, str], Published]:
    """The published numbers by table, model and column."""
    with open(path, newline="") as file:
        return {
            (row["table"], row["model"], row["column"]): Published(
                float(row["mean"]), float(row["standard_error"])
            )
            for row in csv.DictReader(file)
        }


def base_of(model: str) -> str | None:
    """The base model that a copula model of the paper is compared with."""
    for prefix in ("ab-C-", "R-C-"):
        if model.startswith(prefix) and "," not in model:
            return model.removeprefix(prefix)
    return None
