"""Gaussian sites that stand in for the intervals: expectation propagation.

The probability that a Gaussian vector lies in a box is the integral of its density times the
indicators of the intervals. Each indicator is replaced by a site ``exp(-T x^2 / 2 + eta x)`` such
that the variable's mean and variance are those of the true indicator, given the other sites. All
sites are updated together, then ``K + T`` is factored again; the indicators are log-concave, so
that ``T`` is never negative. Nodes that are tied almost rigidly and lie in the same interval answer
all at once for what one of them should: the updates then jump to and fro, and shorter steps end it.

References:
    Minka, Expectation propagation for approximate Bayesian inference, UAI 2001.
    Cunningham, Hennig and Lacoste-Julien, Gaussian probabilities and expectation propagation,
    2011 (arXiv:1111.6832).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from ..linalg.numeric import Factor, Pool
from ..linalg.symbolic import Symbolic
from .interval import moments

#: A site is at most so many times as precise as the node without it: a wider one is still a valid
#: guide, and beyond this the difference of the two precisions has no digits left.
_SHARPEST = 1e8

#: A step that turns back and is more than this share of the one two updates ago is halved.
_SHRINKING = 0.5
#: The shortest step, and how much longer it gets when it no longer turns back.
_SHORTEST, _LONGER = 1e-3, 1.2
#: So many updates without a smaller change, and rounding is all that is left to see.
_PATIENCE = 40
#: Sites that move by less than this share of a deviation have settled.
SETTLED = 1e-3


@dataclass
class Sites:
    """The sites and what they imply.

    Attributes:
        values: ``T``, ``eta`` and the mean ``m = (K + T)^-1 eta``, (3, num_nodes).
        factor: The factor of ``K + T``.
        log_z: Expectation propagation's own log probability, without the log determinants' half.
        cavity: Mean and precision of every node without its own site, (2, num_nodes).
        log_mass: The log probability of every interval under its cavity, (num_nodes,).
        sweeps: How many updates were made.
        change: How far a full update would move a mean at the end, in standard deviations, or a
            variance, as a share of it.
    """

    values: np.ndarray
    factor: Factor
    log_z: float
    cavity: np.ndarray
    log_mass: np.ndarray
    sweeps: int
    change: float

    @property
    def settled(self) -> bool:
        """Whether further updates would change next to nothing."""
        return self.change <= SETTLED


# A sampler's warm-up tries parameters under which a box lies millions of deviations out: its sites
# are no numbers then, nor is the density, which NUTS takes for zero. That is nothing to warn about.
@np.errstate(invalid="ignore", over="ignore", divide="ignore")
def find_sites(
    symbolic: Symbolic,
    pool: Pool,
    matrix: np.ndarray,
    variance: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    max_sweeps: int,
    tolerance: float,
    damped: bool,
) -> Sites:
    """The sites of a box.

    Args:
        symbolic: The analysis of the graph.
        pool: Where the memory comes from.
        matrix: The values of ``K``: its diagonal, then its edges.
        variance: The diagonal of ``K^-1``, (num_nodes,).
        lower: The lower ends, (num_nodes,).
        upper: The upper ends.
        max_sweeps: At most so many updates.
        tolerance: No more of them once no mean or scale moves by this share of a deviation.
        damped: Whether steps that turn back get shorter.
    """
    n = symbolic.num_nodes
    values, variance = np.zeros((3, n)), variance.copy()
    cavity, log_mass = np.empty((2, n)), np.empty(n)
    bounded = np.flatnonzero((lower > -np.inf) | (upper < np.inf))
    share, before, changes = 1.0, np.zeros(2 * n), [math.inf]
    while len(changes) <= max_sweeps and changes[-1] > tolerance:
        old, old_variance = values.copy(), variance
        _update(bounded, lower, upper, variance, values)
        if share < 1.0:
            values[:2] = old[:2] + share * (values[:2] - old[:2])
        with_sites = matrix.copy()
        with_sites[:n] += values[0]
        factor = Factor(symbolic, symbolic.plan, pool, with_sites)
        variance = factor.selected_inverse(keep=False)[:n]
        values[2] = factor.solve(values[1:2])[0]
        scale = np.sqrt(np.minimum(variance, old_variance))
        step = np.concatenate([(values[2] - old[2]) / scale, 1.0 - old_variance / variance])
        changes.append(float(np.max(np.abs(step), initial=0.0)) / share)
        if not damped:
            continue
        if _stalled(changes):
            break
        turns_back = float(step @ before) < 0.0
        if turns_back and len(changes) > 3 and changes[-1] > _SHRINKING * changes[-3]:
            share = max(0.5 * share, _SHORTEST)
        elif not turns_back:
            share = min(_LONGER * share, 1.0)
        before = step
    log_z = _log_z(bounded, lower, upper, variance, values, cavity, log_mass)
    log_z += 0.5 * float(values[1] @ values[2]) - 0.5 * factor.logdet
    return Sites(values, factor, log_z, cavity, log_mass, len(changes) - 1, changes[-1])


def _stalled(changes: list[float]) -> bool:
    """Whether the smallest change was long ago."""
    return len(changes) - 1 - changes.index(min(changes)) >= _PATIENCE


def no_sites(symbolic: Symbolic, pool: Pool, matrix: np.ndarray) -> Sites:
    """Sites that say nothing: particles guided by them see the intervals of earlier nodes only."""
    n = symbolic.num_nodes
    factor = Factor(symbolic, symbolic.plan, pool, matrix)
    nothing = np.full((2, n), np.nan)
    return Sites(np.zeros((3, n)), factor, np.nan, nothing, nothing[0], 0, np.nan)


@njit(cache=True, nogil=True, error_model="numpy")
def _cavity(variance: float, mean: float, t: float, eta: float) -> tuple[float, float]:
    """Precision and mean of a node without its own site."""
    precision = 1.0 / variance - t
    return precision, (mean / variance - eta) / precision


@njit(cache=True, nogil=True, error_model="numpy")
def _update(
    bounded: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    variance: np.ndarray,
    values: np.ndarray,
) -> None:
    """Matches the moments of every node with those on its interval."""
    for i in bounded:
        precision, mean = _cavity(variance[i], values[2, i], values[0, i], values[1, i])
        root = math.sqrt(precision)
        _, z, v = moments((lower[i] - mean) * root, (upper[i] - mean) * root)
        t = min(max(0.0, precision * (1.0 / v - 1.0)), _SHARPEST * precision)
        values[0, i] = t
        # The site's mean is such that the two together have the interval's mean.
        values[1, i] = (mean + z / root) * (precision + t) - mean * precision


@njit(cache=True, nogil=True, error_model="numpy")
def _log_z(
    bounded: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    variance: np.ndarray,
    values: np.ndarray,
    cavity: np.ndarray,
    log_mass: np.ndarray,
) -> float:
    """What the intervals contribute to the log probability beyond their sites."""
    cavity[0], cavity[1], log_mass[:] = values[2], 1.0 / variance, 0.0
    total = 0.0
    for i in bounded:
        precision, mean = _cavity(variance[i], values[2, i], values[0, i], values[1, i])
        root = math.sqrt(precision)
        mass, _, _ = moments((lower[i] - mean) * root, (upper[i] - mean) * root)
        cavity[0, i], cavity[1, i], log_mass[i] = mean, precision, mass
        total += mass - 0.5 * math.log(precision * variance[i])
        total -= 0.5 * (values[2, i] ** 2 / variance[i] - mean * mean * precision)
    return total
