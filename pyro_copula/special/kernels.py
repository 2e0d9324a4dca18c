"""The method of the incomplete gamma and beta kernels, and the scalar functions they share.

Both laws are log-concave on the right scale: a Gamma(a) variable in ``log t``, a Beta(a, b)
variable in ``logit x``. Write ``w`` for the density on that scale. Three methods cover all
arguments; each gives the logarithm of a tail, so nothing underflows, and derivatives without
cancellation.

1. *Quadrature.* The tail beyond a point on the far side of the mean is ``w`` times the integral
   over ``s > 0`` of ``exp(h(s))``, where ``h`` is concave, decreasing and ``h(0) = 0``. If the
   parameter that governs the tail is not small, ``h`` has a single length scale and one
   Gauss-Legendre rule up to ``h = -37`` is exact to 3e-12, from 10 to 1e10. The derivative of
   the log tail in a parameter is a conditional mean minus a mean, for example
   ``E[log t | t < x] - E[log t]``, and both have the same quadrature.
2. *Positive series.* For small parameters: the series of all-positive terms ``2F1(a + b, 1;
   a + 1; x)`` (DLMF 8.17.8) and its limit for the gamma (DLMF 8.11.4), differentiated termwise.
3. *Small-parameter series.* As ``a`` goes to 0 the lower tail goes to 1 like ``1 - a * (...)``.
   The series DLMF 8.7.1 and 8.17.7 are arranged so that log P is ``a`` times something without
   cancellation; the upper tail is then ``-expm1(log P)``.

Whichever tail is computed, the other one is its complement, with ``dP = -dQ``.

Importing the kernels imports numba, hence callers import them inside the functions that need them.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

NODES, WEIGHTS = np.polynomial.legendre.leggauss(24)
NODES = 0.5 * (NODES + 1.0)
WEIGHTS = 0.5 * WEIGHTS

DROP = 37.0  # exp(-37) is below half an ulp of 1
SMALL = 0.5  # below it, the small-parameter series
LARGE = 10.0  # above it, the quadrature, and Stirling's series
EPS = 1e-17
MAX_TERMS = 20_000
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)

# B_2k / (2k (2k - 1)): Stirling's series of log Gamma in odd powers of 1/a.
_STIRLING = np.array([1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156])
# -B_2k / (2k): the same for the digamma function, in even powers of 1/a.
_DIGAMMA = np.array([-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12])


@njit(cache=True, error_model="numpy")
def stirling_error(a: float) -> float:
    """Return log Gamma(a) minus Stirling's formula."""
    if a < LARGE:
        return math.lgamma(a) - ((a - 0.5) * math.log(a) - a + HALF_LOG_2PI)
    inverse = 1.0 / a
    square = inverse * inverse
    total = 0.0
    for k in range(6, -1, -1):
        total = total * square + _STIRLING[k]
    return total * inverse


@njit(cache=True, error_model="numpy")
def log1p_minus(u: float) -> float:
    """Return log(1 + u) - u, to full relative accuracy for small ``u``."""
    if abs(u) > 0.1:
        return math.log1p(u) - u
    r = u / (2.0 + u)  # log(1 + u) = 2 artanh(r), and 2 r - u = -r u
    q = r * r
    series = 1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q / 13))))
    return r * (2.0 * q * series - u)


@njit(cache=True, error_model="numpy")
def digamma_minus_log(a: float) -> float:
    """Return digamma(a) - log(a)."""
    shifted = a
    total = 0.0
    while shifted < LARGE:
        total -= 1.0 / shifted
        shifted += 1.0
    if shifted > a:
        total += math.log(shifted / a)
    inverse = 1.0 / shifted
    square = inverse * inverse
    series = 0.0
    for k in range(6, -1, -1):
        series = (series + _DIGAMMA[k]) * square
    return total - 0.5 * inverse + series


@njit(cache=True, error_model="numpy")
def log_rising(b: float, a: float) -> float:
    """Return log Gamma(a + b) - log Gamma(b), proportional to ``a`` to full relative accuracy."""
    growth = 0.0  # the product of 1 + a / (b + k), minus one
    while b < LARGE:
        ratio = a / b
        growth += ratio + growth * ratio
        b += 1.0
    u = 1.0 / b
    v = 1.0 / (b + a)
    power = u  # u**n
    difference = -a * u * v  # v**n - u**n, here for n = 1
    square_difference = difference * (u + v)
    series = 0.0
    for k in range(7):
        series += _STIRLING[k] * difference
        difference = v * v * difference + power * square_difference
        power *= u * u
    main = (b + a - 0.5) * math.log1p(a * u) + a * (math.log(b) - 1.0)
    return main + series - math.log1p(growth)


@njit(cache=True, error_model="numpy")
def digamma_rise(b: float, a: float) -> float:
    """Return digamma(a + b) - digamma(b), proportional to ``a`` to full relative accuracy."""
    total = 0.0
    while b < LARGE:
        total += a / (b * (a + b))
        b += 1.0
    u = 1.0 / b
    v = 1.0 / (b + a)
    power = u * u
    square_difference = -a * u * v * (u + v)
    difference = square_difference  # v**n - u**n, here for n = 2
    series = 0.5 * a * u * v
    for k in range(7):
        series += _DIGAMMA[k] * difference
        difference = v * v * difference + power * square_difference
        power *= u * u
    return total + math.log1p(a * u) + series


@njit(cache=True, error_model="numpy")
def log_complement(log_p: float) -> float:
    """Return log(1 - exp(log_p)) for log_p < 0."""
    if log_p > -0.6931471805599453:
        return math.log(-math.expm1(log_p))
    return math.log1p(-math.exp(log_p))


@njit(cache=True, error_model="numpy")
def log_quotient(x: float, a: float) -> float:
    """Return log(x / a): exact for neighbours, and without overflow for strangers."""
    u = (x - a) / a
    return math.log1p(u) if abs(u) < 0.5 else math.log(x) - math.log(a)
