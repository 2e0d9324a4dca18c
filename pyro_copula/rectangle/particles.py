"""Weighted draws from inside of a box, and how far to trust them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass
class Particles:
    """Draws with importance weights.

    Attributes:
        x: The draws, (num_nodes, particles).
        log_weights: Their log weights, (particles,).
        offsets: What the sweep keeps for its derivative.
    """

    x: np.ndarray
    log_weights: np.ndarray
    offsets: np.ndarray

    @cached_property
    def log_mean(self) -> float:
        """The logarithm of the mean weight, minus infinity if all of them are zero."""
        top = float(self.log_weights.max())
        if top == -math.inf:
            return top
        return top + math.log(float(np.exp(self.log_weights - top).mean()))

    @cached_property
    def weights(self) -> np.ndarray:
        """The weights, with sum one."""
        top = self.log_weights.max()
        weights = np.exp(self.log_weights - (top if top > -math.inf else 0.0))
        if top == -math.inf:  # none of them can be told from another
            weights += 1.0
        return weights / weights.sum()

    @property
    def effective_size(self) -> float:
        """The effective number of particles, ``1 / sum w^2``."""
        return float(1.0 / np.square(self.weights).sum())

    @property
    def standard_error(self) -> float:
        """The Monte Carlo standard error of the log of the mean weight, NaN of one particle."""
        relative = self.weights * len(self.weights)
        if len(relative) == 1:
            return math.nan
        return float(relative.std(ddof=1) / math.sqrt(len(relative)))

    @property
    def k_hat(self) -> float:
        """The shape of a generalised Pareto law fitted to the largest weights; see ``pareto_k``."""
        return pareto_k(self.log_weights)


def pareto_k(log_weights: np.ndarray) -> float:
    """The tail shape of importance weights: above 0.7, do not trust their mean.

    It is fitted to the largest weights by the method of Zhang and Stephens, with the weak prior
    that the literature on Pareto smoothed importance sampling uses.

    Args:
        log_weights: Any number of them; NaN is returned below 10.

    References:
        Zhang and Stephens, A new and efficient estimation method for the generalized Pareto
        distribution, Technometrics 51 (2009).
        Vehtari, Simpson, Gelman, Yao and Gabry, Pareto smoothed importance sampling, JMLR 2024.
    """
    count = len(log_weights)
    tail = int(min(0.2 * count, 3.0 * math.sqrt(count)))
    if tail < 5:
        return math.nan
    ordered = np.exp(np.sort(log_weights - log_weights.max()))
    excess = ordered[-tail:] - ordered[-tail - 1]
    if not excess[-1] > 0.0:
        return -math.inf  # all equal: the mean is exact
    guesses = 30 + int(math.sqrt(tail))
    j = np.arange(1, guesses + 1)
    quarter = max(excess[int(tail / 4 + 0.5) - 1], np.finfo(float).tiny)
    b = 1.0 / excess[-1] + (1.0 - np.sqrt(guesses / (j - 0.5))) / (3.0 * quarter)
    b = b[b != 0.0]
    k = np.log1p(-b[:, None] * excess).mean(1)
    profile = tail * (np.log(-b / k) - k - 1.0)
    share = np.exp(profile - profile.max())
    b = float((b * share).sum() / share.sum())
    shape = float(np.log1p(-b * excess).mean())
    return (tail * shape + 10 * 0.5) / (tail + 10)
