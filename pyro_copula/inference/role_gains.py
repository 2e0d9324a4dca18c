"""What one model gains over another, and how sure that is."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

#: A gain can be told from noise above so many standard errors, and above so many nats: the errors
#: of smaller differences are not normal (Sivula, Magnusson, Matamoros and Vehtari, Uncertainty in
#: Bayesian leave-one-out cross-validation based model comparison, 2020).
SURE, LEAST = 2.0, 4.0

#: A node that makes up more than this share of a gain's variance is named.
_DOMINANT = 0.5


class Gain(NamedTuple):
    """What one model gains over another, in nats over all scored nodes.

    Example:
        >>> Gain("correlation", 12.0, 3.0, 60).per_node
        0.2
    """

    role: str
    total: float
    se: float
    num_nodes: int

    @property
    def per_node(self) -> float:
        """The mean gain of a node."""
        return self.total / self.num_nodes

    @property
    def per_node_se(self) -> float:
        """Its standard error."""
        return self.se / self.num_nodes

    @property
    def sure(self) -> bool:
        """Whether it can be told from noise."""
        return self.total > max(SURE * self.se, LEAST)

    @property
    def lost(self) -> bool:
        """Whether it is a loss that can be told from noise."""
        return -self.total > max(SURE * self.se, LEAST)

    def __repr__(self) -> str:
        return f"Gain({self.role}: {self.total:.1f} nats, se {self.se:.1f})"

    @property
    def words(self) -> str:
        """What it says, without saying more."""
        if self.sure:
            return f"brings {self.total:.0f} ± {self.se:.0f} nats"
        if self.lost:
            return f"loses {-self.total:.0f} ± {self.se:.0f} nats"
        return f"brings nothing that can be told from noise ({self.total:.0f} ± {self.se:.0f})"

    @classmethod
    def between(cls, role: str, better: Tensor, worse: Tensor, fold: Tensor | None) -> Gain:
        """The gain of log densities over others of the same nodes.

        Args:
            role: What it is called.
            better: Log densities by node.
            worse: Those they are compared with.
            fold: The fold of each node, or None if there is one.
        """
        difference = (better - worse).double()
        n = len(difference)
        variance = float(torch.var(difference)) if n > 1 else math.inf
        if fold is not None:
            variance = max(variance, _between_folds(difference, fold))
        return cls(role, float(difference.sum()), math.sqrt(n * variance), n)


def dominant_node(better: Tensor, worse: Tensor) -> int | None:
    """The place of the node that makes up most of the variance of a gain, if one does."""
    difference = (better - worse).double()
    squares = (difference - difference.mean()).square()
    place = int(squares.argmax())
    return place if float(squares[place]) > _DOMINANT * float(squares.sum()) else None


def _between_folds(difference: Tensor, fold: Tensor) -> float:
    """The variance of a difference by the means of folds: that of all nodes if fits do not vary."""
    parts = [difference[fold == k] for k in fold.unique()]
    if len(parts) < 2:
        return 0.0
    center = difference.mean()
    squares = sum(len(part) * float((part.mean() - center).square()) for part in parts)
    return squares / (len(parts) - 1)
