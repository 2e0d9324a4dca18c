"""The probability of a rectangle, densely: the judge of the exact rule for discrete marginals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special
from scipy.stats import qmc

from ..errors import InvalidArgumentError

#: More nodes than this and the answer is no longer an oracle.
_MOST_NODES = 12
_SHIFTS = 8


class RectangleProbability(NamedTuple):
    """A probability and the standard error of it, from independent randomisations."""

    value: float
    error: float


def rectangle_probability(
    covariance: np.ndarray, lower: np.ndarray, upper: np.ndarray, *, log2_points: int = 15
) -> RectangleProbability:
    """``P(lower < x < upper)`` for ``x ~ N(0, covariance)``, to about six digits.

    Separation of variables, integrated by scrambled Sobol points. It shares no code with the
    package's own rule.

    Args:
        covariance: Positive definite, ``(n, n)``, with n at most 12.
        lower: The lower ends, (n,), minus infinity allowed.
        upper: The upper ends, (n,), infinity allowed.
        log2_points: The logarithm of the number of points in each of eight randomisations.

    Example:
        >>> rectangle_probability(np.eye(2), np.zeros(2), np.full(2, np.inf)).value
        0.25

    References:
        Genz, Numerical computation of multivariate normal probabilities, 1992.
    """
    n = len(lower)
    if not 1 <= n <= _MOST_NODES or np.shape(covariance) != (n, n):
        raise InvalidArgumentError(
            "covariance",
            f"of shape (n, n) with n from 1 to {_MOST_NODES}",
            f"shape {np.shape(covariance)} for {n} ends",
            'Use discrete="exact" for more nodes.',
        )
    factor = np.linalg.cholesky(np.asarray(covariance, dtype=np.float64))
    values = [_separated(factor, lower, upper, seed, log2_points) for seed in range(_SHIFTS)]
    return RectangleProbability(
        float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(_SHIFTS))
    )


def _separated(
    factor: np.ndarray, lower: np.ndarray, upper: np.ndarray, seed: int, log2_points: int
) -> float:
    n = len(lower)
    points = qmc.Sobol(max(n - 1, 1), rng=np.random.default_rng(seed)).random_base2(log2_points)
    z = np.zeros((len(points), n))
    weight = np.ones(len(points))
    for i in range(n):
        shift = z[:, :i] @ factor[i, :i]
        low, high = ((end[i] - shift) / factor[i, i] for end in (lower, upper))
        sign = np.where(low > 0, -1.0, 1.0)  # in the lower tail, where digits are kept
        low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)
        start = special.ndtr(low)
        mass = special.ndtr(high) - start
        weight *= mass
        if i + 1 < n:
            u = np.clip(start + points[:, i] * mass, 1e-300, 1 - 1e-16)
            z[:, i] = sign * special.ndtri(u)
    return float(weight.mean())
