"""Scalar kernels of the incomplete gamma function: log tails and exact derivatives.

The method is told in ``kernels.py``.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .kernels import (
    DROP,
    EPS,
    HALF_LOG_2PI,
    LARGE,
    MAX_TERMS,
    NODES,
    SMALL,
    WEIGHTS,
    digamma_minus_log,
    log1p_minus,
    log_complement,
    log_quotient,
    log_rising,
    stirling_error,
)


@njit(cache=True, error_model="numpy")
def gamma_log_weight(a: float, x: float) -> float:
    """Return log(x**a exp(-x) / Gamma(a)), the log density of log t at t = x."""
    if a < LARGE:
        return a * math.log(x) - x - math.lgamma(a)
    # Stirling's formula removed by hand: the terms of size a log(a) must never meet.
    u = (x - a) / a
    deviance = log1p_minus(u) if abs(u) < 0.5 else math.log(x) - math.log(a) - u
    return a * deviance + 0.5 * math.log(a) - HALF_LOG_2PI - stirling_error(a)


@njit(cache=True, error_model="numpy")
def _gamma_quadrature(a: float, x: float, sign: float) -> tuple[float, float]:
    """Integrate h(s) = sign a s - x expm1(sign s); return the log integral and the mean of s."""
    slope = abs(a - x)
    end = 2.0 * DROP / (slope + math.sqrt(slope * slope + 2.0 * DROP * x))
    if sign > 0.0:
        end = min(end, math.log1p(DROP / x) * (1.0 + a / x))
    for _ in range(30):
        excess = sign * a * end - x * math.expm1(sign * end) + DROP
        if abs(excess) < 0.5:
            break
        end -= excess / (sign * (a - x * math.exp(sign * end)))
    total = 0.0
    moment = 0.0
    for i in range(NODES.size):
        s = end * NODES[i]
        f = WEIGHTS[i] * math.exp(sign * a * s - x * math.expm1(sign * s))
        total += f
        moment += f * s
    return math.log(end * total), moment / total


@njit(cache=True, error_model="numpy")
def _gamma_series(a: float, x: float) -> tuple[float, float]:
    """Sum c_n = x**n / ((a+1)...(a+n)); return log S and d log S / da."""
    term = 1.0
    total = 1.0
    harmonic = 0.0
    derivative = 0.0
    for n in range(1, MAX_TERMS):
        inverse = 1.0 / (a + n)
        term *= x * inverse
        harmonic += inverse
        total += term
        derivative -= term * harmonic
        if term * (1.0 + harmonic) < EPS * total:
            break
    return math.log(total), derivative / total


@njit(cache=True, error_model="numpy")
def _gamma_small(a: float, x: float) -> tuple[float, float]:
    """Return log P(a, x) and its derivative in a, for a < 1/2 and x < 3/2."""
    term = 1.0
    total = 0.0
    derivative = 0.0
    for n in range(1, 60):
        term *= -x / n
        inverse = 1.0 / (a + n)
        total += term * inverse
        derivative += term * n * inverse * inverse
        if abs(term) < EPS:
            break
    log_p = a * math.log(x) - log_rising(1.0, a) + math.log1p(a * total)
    digamma = digamma_minus_log(1.0 + a) + math.log1p(a)
    return log_p, math.log(x) - digamma + derivative / (1.0 + a * total)


@njit(cache=True, error_model="numpy")
def gamma_log_tail(a: float, x: float, upper: bool) -> tuple[float, float, float]:
    """Return log P(a, x), the log of its derivative in log x, and its derivative in a.

    Args:
        a: The shape, positive.
        x: The argument, positive and finite.
        upper: Take Q = 1 - P instead of P. The derivative in log x is then that of -log Q,
            which is positive.
    """
    if not (0.0 < a < math.inf and 0.0 < x < math.inf):
        return math.nan, math.nan, math.nan  # a negative shape would never leave a recurrence
    log_weight = gamma_log_weight(a, x)
    from_upper = False
    if a < SMALL and x < 1.5:
        log_tail, partial = _gamma_small(a, x)
        log_ratio = log_tail - log_weight
    elif x > a:
        from_upper = True
        log_ratio, mean = _gamma_quadrature(a, x, 1.0)
        log_tail = log_weight + log_ratio
        partial = log_quotient(x, a) - digamma_minus_log(a) + mean
    elif a < LARGE:
        log_sum, partial = _gamma_series(a, x)
        log_ratio = log_sum - math.log(a)
        log_tail = log_weight + log_ratio
        partial += log_quotient(x, a) - digamma_minus_log(a) - 1.0 / a
    else:
        log_ratio, mean = _gamma_quadrature(a, x, -1.0)
        log_tail = log_weight + log_ratio
        partial = log_quotient(x, a) - digamma_minus_log(a) - mean
    if from_upper != upper:
        log_other = log_complement(log_tail)
        partial *= -math.exp(log_tail - log_other)
        log_ratio = log_other - log_weight
        log_tail = log_other
    return log_tail, -log_ratio, partial


@njit(cache=True, error_model="numpy")
def gamma_log_weights(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return log(x**a exp(-x) / Gamma(a)) for flat arrays."""
    out = np.empty(a.size)
    for i in range(a.size):
        out[i] = gamma_log_weight(a[i], x[i]) if a[i] > 0.0 else np.nan
    return out


@njit(cache=True, error_model="numpy")
def gamma_log_tails(a: np.ndarray, x: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Apply :func:`gamma_log_tail` to flat arrays; the result is stacked along the first axis."""
    out = np.empty((3, a.size))
    for i in range(a.size):
        out[0, i], out[1, i], out[2, i] = gamma_log_tail(a[i], x[i], upper[i])
    return out
