"""Scalar kernels of the incomplete beta function: log tails, exact derivatives and quantiles.

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
    digamma_rise,
    log1p_minus,
    log_complement,
    log_rising,
    stirling_error,
)

_QUADRATURE, _POSITIVE_SERIES, _SMALL_SERIES = 1, 2, 3


@njit(cache=True, error_model="numpy")
def beta_log_weight(a: float, b: float, x: float, y: float, log_x: float, log_y: float) -> float:
    """Return log(x**a y**b / B(a, b)), the log density of logit x; y is 1 - x."""
    gap = b * x - a * y
    u = gap / a
    v = -gap / b
    first = log1p_minus(u) if abs(u) < 0.5 else log_x + math.log1p(b / a) - u
    second = log1p_minus(v) if abs(v) < 0.5 else log_y + math.log1p(a / b) - v
    total = a + b
    stirling = stirling_error(total) - stirling_error(a) - stirling_error(b)
    return a * first + b * second + 0.5 * math.log(a * (b / total)) - HALF_LOG_2PI + stirling


@njit(cache=True, error_model="numpy")
def _beta_logs(x: float, y: float, s: float) -> tuple[float, float]:
    """Return log(x / x') and log(y' / y), where x' and y' belong to logit x - s.

    Both are positive and their sum is s; the smaller one is computed and the other follows.
    """
    if x < 0.5:
        rise = -math.log1p(x * math.expm1(-s))
        return s - rise, rise
    fall = math.log1p(y * math.expm1(s))
    return fall, s - fall


@njit(cache=True, error_model="numpy")
def _beta_quadrature(a: float, b: float, x: float, y: float) -> tuple[float, float, float]:
    """Integrate h(s) = a log(x'/x) + b log(y'/y) below x; return log integral and means."""
    slope = a * y - b * x
    curvature = (a + b) * x * y
    end = 2.0 * DROP / (slope + math.sqrt(slope * slope + 2.0 * DROP * curvature))
    for _ in range(30):
        fall, rise = _beta_logs(x, y, end)
        excess = b * rise - a * fall + DROP
        if abs(excess) < 0.5:
            break
        moved = x / (x + y * math.exp(end))
        end += excess / (a * (1.0 - moved) - b * moved)
    total = 0.0
    moment_a = 0.0
    moment_b = 0.0
    for i in range(NODES.size):
        fall, rise = _beta_logs(x, y, end * NODES[i])
        f = WEIGHTS[i] * math.exp(b * rise - a * fall)
        total += f
        moment_a -= f * fall
        moment_b += f * rise
    return math.log(end * total), moment_a / total, moment_b / total


@njit(cache=True, error_model="numpy")
def _beta_series(a: float, b: float, x: float) -> tuple[float, float, float]:
    """Sum c_n = x**n (a+b)_n / (a+1)_n; return log S and d log S in a and in b."""
    term = 1.0
    total = 1.0
    harmonic_a = 0.0
    harmonic_b = 0.0
    sum_a = 0.0
    sum_b = 0.0
    for n in range(1, MAX_TERMS):
        numerator = a + b + (n - 1.0)
        denominator = a + n
        term *= x * numerator / denominator
        inverse = 1.0 / numerator
        harmonic_b += inverse
        harmonic_a += (1.0 - b) * inverse / denominator
        total += term
        sum_a += term * harmonic_a
        sum_b += term * harmonic_b
        # The ratio of the terms tends to x: what is left out is about term / (1 - x).
        if term * (1.0 + harmonic_b) < EPS * total * (1.0 - x):
            break
    return math.log(total), sum_a / total, sum_b / total


@njit(cache=True, error_model="numpy")
def _beta_small(a: float, b: float, x: float, log_x: float) -> tuple[float, float, float]:
    """Return log I_x(a, b) and its derivatives, for a < 1/2, x <= 1/2 and b x < 3/2."""
    term = 1.0  # (1 - b)_n x**n / n!
    term_b = 0.0  # and its derivative in b
    total = 0.0
    sum_a = 0.0
    sum_b = 0.0
    for n in range(1, 200):
        factor = x / n
        term_b = term_b * (n - b) * factor - term * factor
        term *= (n - b) * factor
        inverse = 1.0 / (a + n)
        total += term * inverse
        sum_a += term * n * inverse * inverse
        sum_b += term_b * inverse
        if abs(term) + abs(term_b) < EPS:
            break
    bracket = 1.0 + a * total
    log_p = a * log_x + log_rising(b, a) - log_rising(1.0, a) + math.log1p(a * total)
    # log x + digamma(a + b) - digamma(a + 1); the rise must be of a positive step
    if b < 1.0:
        partial_a = log_x - digamma_rise(a + b, 1.0 - b)
    else:
        partial_a = log_x + digamma_rise(a + 1.0, b - 1.0)
    partial_b = digamma_rise(b, a) + a * sum_b / bracket
    return log_p, partial_a + sum_a / bracket, partial_b


@njit(cache=True, error_model="numpy")
def _beta_lower(
    a: float, b: float, x: float, y: float, log_x: float, log_y: float, method: int
) -> tuple[float, float, float, float]:
    """Return log P, log(P / w), and the derivatives of log P in a and b, by one method."""
    log_weight = beta_log_weight(a, b, x, y, log_x, log_y)
    if method == _SMALL_SERIES:
        log_tail, partial_a, partial_b = _beta_small(a, b, x, log_x)
        return log_tail, log_tail - log_weight, partial_a, partial_b
    if method == _POSITIVE_SERIES:
        log_ratio, partial_a, partial_b = _beta_series(a, b, x)
        log_ratio -= math.log(a)
        partial_a -= 1.0 / a
    else:
        log_ratio, partial_a, partial_b = _beta_quadrature(a, b, x, y)
    # d log w: log(x / x0) with x0 = a / (a + b), whose digamma is removed by hand.
    gap = b * x - a * y
    digamma = digamma_minus_log(a + b)
    offset = math.log1p(gap / a) if abs(gap) < 0.5 * a else log_x + math.log1p(b / a)
    partial_a += offset - (digamma_minus_log(a) - digamma)
    if b < LARGE:
        partial_b += log_y + digamma_rise(b, a)
    else:
        offset = math.log1p(-gap / b) if abs(gap) < 0.5 * b else log_y + math.log1p(a / b)
        partial_b += offset - (digamma_minus_log(b) - digamma)
    return log_weight + log_ratio, log_ratio, partial_a, partial_b


@njit(cache=True, error_model="numpy")
def beta_log_tail(a: float, b: float, t: float) -> tuple[float, float, float, float]:
    """Return log I_x(a, b) at x = sigmoid(t), its derivatives in t (the log of it), a and b.

    Args:
        a: The first shape, positive.
        b: The second shape, positive.
        t: The logit of x, finite.
    """
    if not (0.0 < a < math.inf and 0.0 < b < math.inf and abs(t) < math.inf):
        return math.nan, math.nan, math.nan, math.nan
    decay = math.exp(-abs(t))
    near = decay / (1.0 + decay)
    far = 1.0 / (1.0 + decay)
    log_far = -math.log1p(decay)
    log_near = -abs(t) + log_far
    # Exchange the tails so that the small shape, or else the small argument, comes first.
    if a < LARGE <= b:
        swap = False
    elif b < LARGE <= a:
        swap = True
    else:
        swap = t > 0.0
    if (t > 0.0) != swap:
        x, y, log_x, log_y = far, near, log_far, log_near
    else:
        x, y, log_x, log_y = near, far, log_near, log_far
    if swap:
        a, b = b, a
    other = False
    method = _QUADRATURE
    if a < SMALL and x <= 0.5 and b * x < 1.5:
        method = _SMALL_SERIES
    elif b < LARGE:
        method = _POSITIVE_SERIES
        other = a < SMALL
    elif b * x > a * y:
        other = True
    elif a < LARGE:
        method = _POSITIVE_SERIES
    if other:
        log_tail, log_ratio, partial_b, partial_a = _beta_lower(b, a, y, x, log_y, log_x, method)
    else:
        log_tail, log_ratio, partial_a, partial_b = _beta_lower(a, b, x, y, log_x, log_y, method)
    if other != swap:
        log_other = log_complement(log_tail)
        factor = -math.exp(log_tail - log_other)
        partial_a *= factor
        partial_b *= factor
        log_ratio += log_other - log_tail
        log_tail = log_other
    if swap:
        partial_a, partial_b = partial_b, partial_a
    return log_tail, -log_ratio, partial_a, partial_b


@njit(cache=True, error_model="numpy")
def _beta_log_quantile(a: float, b: float, log_p: float) -> float:
    """Return the logit t at which log I = log_p, for log_p at most about -0.69.

    log I is concave in t, and at most the log of exp(a t) / (a B(a, b)). The root of that bound is
    therefore on the left of the solution, where Newton's method is safe; Halley's correction,
    with the known second derivative, is kept within a factor of two of it.
    """
    bound = (log_p + log_rising(1.0, a) - log_rising(b, a)) / a
    t = bound
    if a > 1.0:
        r = math.sqrt(-2.0 * log_p)  # the normal quantile to 3e-3 (Hastings), of a normal logit
        z = r - (2.30753 + 0.27061 * r) / (1.0 + r * (0.99229 + 0.04481 * r))
        t = max(bound, math.log(a / b) - z * math.sqrt(1.0 / a + 1.0 / b))
    for _ in range(200):
        log_tail, log_slope, _a, _b = beta_log_tail(a, b, t)
        slope = math.exp(log_slope)
        decay = math.exp(-abs(t))
        x = 1.0 / (1.0 + decay) if t > 0.0 else decay / (1.0 + decay)
        newton = (log_p - log_tail) / slope
        bend = newton * (a - (a + b) * x - slope)
        step = newton / min(max(1.0 + 0.5 * bend, 0.5), 2.0)
        t = max(bound, t + step)
        # The error left over is of the order of newton * bend**2 + newton**2 * bend, because the
        # second derivative changes on a scale of 1 or more in the logit.
        if not (max(abs(bend), abs(newton)) > 1e-5 and abs(step) > 1e-15 * abs(t)):
            break
    return t


@njit(cache=True, error_model="numpy")
def beta_quantiles(a: np.ndarray, b: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Return the logits of the beta quantiles at the lower-tail probabilities p, flat arrays."""
    out = np.empty(a.size)
    for i in range(a.size):
        if not (0.0 < a[i] < np.inf and 0.0 < b[i] < np.inf and 0.0 <= p[i] <= 1.0):
            out[i] = np.nan
        elif p[i] == 0.0:
            out[i] = -np.inf
        elif p[i] == 1.0:
            out[i] = np.inf
        elif p[i] > 0.5:
            out[i] = -_beta_log_quantile(b[i], a[i], math.log1p(-p[i]))
        else:
            out[i] = _beta_log_quantile(a[i], b[i], math.log(p[i]))
    return out


@njit(cache=True, error_model="numpy")
def beta_log_weights(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Return log(x**a (1 - x)**b / B(a, b)) at the logits t of x, for flat arrays."""
    out = np.empty(a.size)
    for i in range(a.size):
        decay = math.exp(-abs(t[i]))
        near, far = decay / (1.0 + decay), 1.0 / (1.0 + decay)
        log_far = -math.log1p(decay)
        log_near = log_far - abs(t[i])
        if t[i] > 0.0:
            out[i] = beta_log_weight(a[i], b[i], far, near, log_far, log_near)
        else:
            out[i] = beta_log_weight(a[i], b[i], near, far, log_near, log_far)
    return out


@njit(cache=True, error_model="numpy")
def beta_log_tails(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Apply :func:`beta_log_tail` to flat arrays; the result is stacked along the first axis."""
    out = np.empty((4, a.size))
    for i in range(a.size):
        out[0, i], out[1, i], out[2, i], out[3, i] = beta_log_tail(a[i], b[i], t[i])
    return out
