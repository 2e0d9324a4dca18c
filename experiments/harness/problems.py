"""The data sets of the tables by name, each with the split of a seed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch import Tensor

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError

from .trials import Trial

#: Columns of the tables, in the paper's order.
ELECTION = ("education", "election", "income", "unemployment")
COUNTS = ("emnlp", "wiki-chameleon", "wiki-squirrel")
TAUS = (0.5, 1.0, 2.0, 5.0)
VARIANCES = (2.5, 5.0, 10.0, 20.0)


@dataclass(frozen=True)
class Problem:
    """A data set with its split.

    Attributes:
        data: A PyTorch Geometric ``Data``.
        train: The nodes to fit on, boolean.
        validation: The nodes that decide when to stop.
        test: The nodes to score.
        counts: Whether values are counts.
    """

    data: Any
    train: Tensor
    validation: Tensor
    test: Tensor
    counts: bool

    @property
    def observed(self) -> Tensor:
        """The nodes that a fit may look at."""
        return self.train | self.validation

    @property
    def y_test(self) -> Tensor:
        """The values to predict."""
        return self.data.y[self.test]


def load(
    dataset: str, seed: int, *, published: bool = False, noise_seed: int | None = None
) -> Problem:
    """The problem of a data set and a seed.

    Args:
        dataset: ``"a:sigma2=5.0"``, ``"b:tau=1.0"``, ``"c:tau=1.0"``, an outcome of the election
            data, or a set of counts.
        seed: Of the simulated data, or of the split, which is the published one always.
        published: Whether simulated data are those of the published code.
        noise_seed: Draws their noise anew.
    """
    setting, _, parameter = dataset.partition(":")
    if setting in ("a", "b", "c"):
        name, _, value = parameter.partition("=")
        chosen: Any = {name: float(value)}
        if published:
            chosen["noise_seed"] = noise_seed
            data = pc.simulate.published_setting(setting, seed=seed, **chosen)
        else:
            data = pc.simulate.paper_setting(setting, seed=seed, **chosen)
        return Problem(data, data.train_mask, data.val_mask, data.test_mask, counts=False)
    if dataset not in (*ELECTION, *COUNTS):
        raise InvalidArgumentError(
            "dataset",
            f"a setting such as 'c:tau=1.0', or one of {(*ELECTION, *COUNTS)}",
            repr(dataset),
            "See experiments/harness/problems.py.",
        )
    kind = "election" if dataset in ELECTION else "counts"
    data = _read(dataset)
    split = pc.datasets.published_split(data, seed, kind)
    return Problem(data, *split, counts=kind == "counts")


def problem_of(trial: Trial) -> Problem:
    """The problem of a trial: that of its seed, or the one of the published code it names."""
    split = trial.option("split")
    if split is None:
        return load(trial.dataset, trial.seed)
    return load(trial.dataset, split, published=True, noise_seed=trial.option("noise"))


def published_split(seed: int) -> int:
    """The split, or the simulated data set, of a trial of the published code."""
    return math.ceil(seed / 10)


def read_data(columns: Iterable[str]) -> None:
    """Reads the real data sets among these columns, and those that a study names in its own."""
    for name in sorted({short(column).partition(",")[0] for column in columns}):
        if name in (*ELECTION, *COUNTS):
            _read(name)


@lru_cache(maxsize=2)
def _read(dataset: str) -> Any:
    if dataset in ELECTION:
        return pc.datasets.election(dataset)
    return pc.datasets.emnlp() if dataset == "emnlp" else pc.datasets.wikipedia(dataset[5:])


def short(column: str) -> str:
    """What a table calls a column: ``tau=1.0`` for ``c:tau=1.0``."""
    return column.split(":")[-1]
