"""The scalar kernel of the normal quantile of a probability given by its logarithm."""

from __future__ import annotations

import math

from numba import njit

from .kernels import HALF_LOG_2PI, log_complement

_LOG_2 = math.log(2.0)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_2PI = math.sqrt(2.0 * math.pi)

_FAR = 6.0  # from here on a continued fraction of few levels


@njit(cache=True, error_model="numpy")
def _upper_tail(x: float) -> tuple[float, float]:
    """Return log Phi(-x) and Phi(-x) / phi(x), Mills' ratio, for x >= 0."""
    if x < _FAR:
        tail = 0.5 * math.erfc(x * _SQRT_HALF)
        return math.log(tail), tail * _SQRT_2PI * math.exp(0.5 * x * x)
    fraction = x
    for level in range(4 + int(100.0 / x), 0, -1):
        fraction = x + level / fraction
    return -0.5 * x * x - HALF_LOG_2PI - math.log(fraction), 1.0 / fraction


@njit(cache=True, error_model="numpy")
def _lower_quantile(log_p: float) -> tuple[float, float]:
    """Return the quantile and Mills' ratio there, for log_p between -inf and -log 2.

    Hastings' approximation is right to 3e-3. Halley's method multiplies correct digits by three,
    so that two steps reach rounding; the ratio r then follows its own equation, r' = x r - 1.
    """
    r = math.sqrt(-2.0 * log_p)
    x = max(0.0, r - (2.30753 + 0.27061 * r) / (1.0 + r * (0.99229 + 0.04481 * r)))
    mills = step = 0.0
    for _ in range(2):
        log_tail, mills = _upper_tail(x)
        excess = log_tail - log_p
        step = excess * mills / (1.0 + 0.5 * excess * (1.0 - x * mills))
        x += step
    return -x, mills + step * (x * mills - 1.0)


@njit(cache=True, error_model="numpy")
def normal_quantile(log_p: float) -> tuple[float, float]:
    """Return z with log Phi(z) = log_p, and dz / dlog_p, zero where z is infinite."""
    if not -math.inf < log_p < 0.0:
        return (log_p if log_p < 0.0 else math.inf if log_p >= 0.0 else math.nan), 0.0
    if log_p <= -_LOG_2:
        return _lower_quantile(log_p)
    log_q = log_complement(log_p)
    z, mills = _lower_quantile(log_q)
    return -z, mills * math.exp(log_p - log_q)
