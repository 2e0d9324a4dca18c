r"""An exact test of discrete uniformity, and the band around an empirical distribution.

Of :math:`N` ranks, :math:`C_j` are below :math:`j`. If the ranks are uniform on
:math:`0, \dots, L`, :math:`C_j` is binomial with probability :math:`j / (L + 1)`, and
:math:`C_1, C_2, \dots` is a Markov chain with binomial steps. The statistic is the smallest of the
two-sided binomial tail probabilities over all :math:`j`,

.. math:: \gamma = 2 \min_j \min(P(B_j \le C_j), P(B_j \ge C_j)),

and the chance that the chain stays where :math:`2 \min(\cdot)` is above some :math:`\gamma` follows
by recursion over :math:`j`. It gives p-values and simultaneous bands without simulation.

References:
    Säilynoja, Bürkner and Vehtari, Graphical test for discrete uniformity and its applications in
    goodness-of-fit evaluation and multiple sample comparison, Statistics and Computing 2022.
    Holm, A simple sequentially rejective multiple test procedure, 1979.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc, gammaln, xlog1py, xlogy

#: At most so many thresholds, evenly spaced: more make neighbours, which tell the same.
MAX_THRESHOLDS = 100

#: Tail probabilities that differ by less, relatively, are the same number.
_ROUNDING = 1e-9

_BISECTIONS = 50


class Band(NamedTuple):
    """A simultaneous band for the empirical distribution function of uniform ranks."""

    position: np.ndarray  # (thresholds,), strictly between 0 and 1
    lower: np.ndarray  # (thresholds,), shares of the ranks
    upper: np.ndarray


def thresholds(num_ranks: int) -> np.ndarray:
    """The places :math:`j` at which ranks on ``0, ..., num_ranks - 1`` are looked at.

    Example:
        >>> thresholds(5)
        array([1, 2, 3, 4])
        >>> len(thresholds(1000))
        100
    """
    count = min(num_ranks - 1, MAX_THRESHOLDS)
    return np.unique(np.linspace(1, num_ranks - 1, count).round().astype(int))


def uniformity_p_value(ranks: np.ndarray, num_ranks: int) -> float:
    """How surprising ranks would be if they were uniform: an exact p-value.

    Args:
        ranks: Integers on ``0, ..., num_ranks - 1``, shape ``(n,)``.
        num_ranks: The number of possible ranks.

    Example:
        >>> even = np.arange(200) % 100
        >>> uniformity_p_value(even, 100)
        1.0
        >>> uniformity_p_value(even // 2, 100) < 1e-6
        True
    """
    ranks = np.asarray(ranks)
    places = thresholds(num_ranks)
    counts = (ranks[:, None] < places).sum(0)
    gamma = 2 * _tails(len(ranks), places / num_ranks, counts).min()
    return float(np.clip(1 - _coverage(len(ranks), num_ranks, gamma), 0.0, 1.0))


@lru_cache(maxsize=64)
def uniformity_band(num_values: int, num_ranks: int, level: float) -> Band:
    """The band that holds the whole empirical distribution function with a probability.

    Args:
        num_values: How many ranks there are.
        num_ranks: The number of possible ranks.
        level: The probability, at least.

    Example:
        >>> band = uniformity_band(200, 100, 0.95)
        >>> middle = 49
        >>> [round(float(x[middle]), 3) for x in band]
        [0.5, 0.395, 0.605]
    """
    low, high = 0.0, 1.0  # coverage falls with gamma; the widest band has it all
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        enough = _coverage(num_values, num_ranks, middle) >= level
        low, high = (middle, high) if enough else (low, middle)
    places = thresholds(num_ranks)
    lower, upper = _limits(num_values, places / num_ranks, low)
    return Band(places / num_ranks, lower / num_values, upper / num_values)


def holm(p_values: np.ndarray) -> np.ndarray:
    """P-values corrected for their number, whatever the dependence between them.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
        [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values, kind="stable")
    factors = len(p_values) - np.arange(len(p_values))
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(1, np.maximum.accumulate(factors * p_values[order]))
    return corrected


def _tails(n: int, probability: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The smaller of ``P(B <= count)`` and ``P(B >= count)``."""
    return np.minimum(bdtr(counts, n, probability), bdtrc(counts - 1, n, probability))


def _limits(n: int, probability: np.ndarray, gamma: float) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest count whose two-sided tail probability is above gamma."""
    counts = np.arange(n + 1)[:, None]
    inside = 2 * _tails(n, probability, counts) > gamma * (1 + _ROUNDING)
    lower = inside.argmax(0)
    upper = n - inside[::-1].argmax(0)
    nothing = ~inside.any(0)
    return np.where(nothing, 1, lower), np.where(nothing, 0, upper)


def _coverage(n: int, num_ranks: int, gamma: float) -> float:
    """The chance that all tail probabilities of uniform ranks are above gamma."""
    places = thresholds(num_ranks)
    lower, upper = _limits(n, places / num_ranks, gamma)
    if (lower > upper).any():
        return 0.0
    count, chance = np.zeros(1, dtype=int), np.ones(1)
    before = 0
    for place, low, high in zip(places, lower, upper, strict=True):
        step = (place - before) / (num_ranks - before)
        following = np.arange(low, high + 1)
        chance = chance @ _binomial(following - count[:, None], n - count[:, None], step)
        count, before = following, place
    return float(chance.sum())


def _binomial(k: np.ndarray, n: np.ndarray, p: float) -> np.ndarray:
    """Binomial probabilities, zero where ``k`` is not possible."""
    possible = (k >= 0) & (k <= n)
    k = np.where(possible, k, 0)
    log = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + xlogy(k, p) + xlog1py(n - k, -p)
    return np.where(possible, np.exp(log), 0.0)
