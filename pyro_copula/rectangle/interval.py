"""A standard normal variable on an interval: its probability, its moments, and draws.

The ends may be infinite. All of it is computed in the lower tail: an interval above zero is
reflected first, so that nothing is a difference of numbers close to one.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .compiled import log_ndtr, ndtri, ndtri_exp

_KERNEL = {"cache": True, "nogil": True, "error_model": "numpy"}
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_HALF = math.sqrt(0.5)
#: Below this the normal distribution function is taken in logarithms.
_FAR = -7.0
#: Intervals shorter than this, relative to how fast the density changes, are integrated by
#: quadrature: differences of probabilities, and more so of moments, would lose their digits.
_NARROW, _NARROW_MOMENTS = 1e-3, 2.0

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_WEIGHTS = 0.5 * _WEIGHTS


@njit(**_KERNEL)
def _ndtr(z: float) -> float:
    return 0.5 * math.erfc(-z * _SQRT_HALF)


@njit(**_KERNEL)
def _is_narrow(lower: float, upper: float, limit: float) -> bool:
    return (upper - lower) * (1.0 + max(abs(lower), abs(upper))) < limit


@njit(**_KERNEL)
def _narrow_moments(lower: float, upper: float) -> tuple[float, float, float]:
    """The log probability, mean and variance on a narrow interval."""
    middle, half = 0.5 * (lower + upper), 0.5 * (upper - lower)
    mass = first = second = 0.0
    for k in range(_NODES.size):
        t = half * _NODES[k]
        density = _WEIGHTS[k] * math.exp(-t * (middle + 0.5 * t))
        mass += density
        first += density * t
        second += density * t * t
    shift = first / mass
    log_mass = math.log(2.0 * half * mass) - 0.5 * middle * middle - _HALF_LOG_2PI
    return log_mass, middle + shift, second / mass - shift * shift


@njit(**_KERNEL)
def log_mass(lower: float, upper: float) -> float:
    """``log(Phi(upper) - Phi(lower))``."""
    if lower > 0.0:
        lower, upper = -upper, -lower
    if _is_narrow(lower, upper, _NARROW):
        return _narrow_moments(lower, upper)[0]
    if upper < _FAR:
        high = log_ndtr(upper)
        if lower == -math.inf:
            return high
        return high + math.log1p(-math.exp(log_ndtr(lower) - high))
    if upper == math.inf:
        return 0.0 if lower == -math.inf else math.log1p(-_ndtr(lower))
    if lower == -math.inf:
        return math.log(_ndtr(upper))
    return math.log(_ndtr(upper) - _ndtr(lower))


@njit(**_KERNEL)
def moments(lower: float, upper: float) -> tuple[float, float, float]:
    """The log probability of the interval, and the mean and variance of the variable on it."""
    if lower == -math.inf and upper == math.inf:
        return 0.0, 0.0, 1.0
    sign = 1.0
    if lower > 0.0:
        lower, upper, sign = -upper, -lower, -1.0
    if _is_narrow(lower, upper, _NARROW_MOMENTS):
        mass, mean, variance = _narrow_moments(lower, upper)
        return mass, sign * mean, variance
    mass = log_mass(lower, upper)
    at_lower, at_upper = density_ratio(lower, mass), density_ratio(upper, mass)
    mean = at_lower - at_upper
    variance = 1.0 - mean * mean
    if at_lower > 0.0:
        variance += lower * at_lower
    if at_upper > 0.0:
        variance -= upper * at_upper
    if upper < -30.0:  # an exponential tail, whose digits the sum above loses
        variance = min(max(variance, 0.25 / (upper * upper)), 1.0 / (upper * upper))
    return mass, sign * mean, variance


@njit(**_KERNEL)
def density_ratio(end: float, mass: float) -> float:
    """The density at an end over the probability of the interval, given its logarithm."""
    if math.isinf(end):
        return 0.0
    return math.exp(-0.5 * end * end - _HALF_LOG_2PI - mass)


@njit(**_KERNEL)
def draw(lower: float, upper: float, u: float, mass: float) -> float:
    """The point below which a share ``u`` of the interval's probability lies."""
    if lower > 0.0:
        return -draw_low(-upper, -lower, 1.0 - u, mass)
    return draw_low(lower, upper, u, mass)


@njit(**_KERNEL)
def _polished(z: float, lower: float, upper: float, u: float, mass: float) -> float:
    """A point close to the draw after one step of Newton's method."""
    z = min(max(z, lower), upper)
    below = log_mass(lower, z) - mass if z > lower else -math.inf
    return min(max(z - (math.exp(below) - u) / density_ratio(z, mass), lower), upper)


@njit(**_KERNEL)
def draw_low(lower: float, upper: float, u: float, mass: float) -> float:
    """The same for an interval that does not begin above zero."""
    if _is_narrow(lower, upper, _NARROW):
        return _polished(lower + u * (upper - lower), lower, upper, u, mass)
    if upper < _FAR:
        share = math.log(u) + mass
        if lower > -math.inf:
            start = log_ndtr(lower)
            share = max(share, start) + math.log1p(math.exp(-abs(share - start)))
        return _polished(ndtri_exp(share), lower, upper, u, mass)
    else:
        start = 0.0 if lower == -math.inf else _ndtr(lower)
        p = start + u * math.exp(mass)
        # From the closer end, as a small probability.
        z = ndtri(p) if p < 0.5 else -ndtri((_ndtr(-upper)) + (1.0 - u) * math.exp(mass))
    return min(max(z, lower), upper)


@njit(**_KERNEL)
def density_ratios(ends: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """:func:`density_ratio` of several ends."""
    result = np.empty(ends.size)
    for i in range(ends.size):
        result[i] = density_ratio(ends[i], masses[i])
    return result
