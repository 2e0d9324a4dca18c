"""Scalar kernels of the incomplete gamma and beta functions: log tails and exact derivatives.

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

Importing this module imports numba, hence the callers import it inside the functions that need it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_NODES = 0.5 * (_NODES + 1.0)
_WEIGHTS = 0.5 * _WEIGHTS

_DROP = 37.0  # exp(-37) is below half an ulp of 1
_SMALL = 0.5  # below it, the small-parameter series
_LARGE = 10.0  # above it, the quadrature, and Stirling's series
_EPS = 1e-17
_MAX_TERMS = 20_000
_QUADRATURE, _POSITIVE_SERIES, _SMALL_SERIES = 1, 2, 3
_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)

# B_2k / (2k (2k - 1)): Stirling's series of log Gamma in odd powers of 1/a.
_STIRLING = np.array([1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156])
# -B_2k / (2k): the same for the digamma function, in even powers of 1/a.
_DIGAMMA = np.array([-1 / 12, 1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760, -1 / 12])


@njit(cache=True, error_model="numpy")
def _stirling_error(a: float) -> float:
    """Return log Gamma(a) minus Stirling's formula."""
    if a < _LARGE:
        return math.lgamma(a) - ((a - 0.5) * math.log(a) - a + _HALF_LOG_2PI)
    inverse = 1.0 / a
    square = inverse * inverse
    total = 0.0
    for k in range(6, -1, -1):
        total = total * square + _STIRLING[k]
    return total * inverse


@njit(cache=True, error_model="numpy")
def _log1p_minus(u: float) -> float:
    """Return log(1 + u) - u, to full relative accuracy for small ``u``."""
    if abs(u) > 0.1:
        return math.log1p(u) - u
    r = u / (2.0 + u)  # log(1 + u) = 2 artanh(r), and 2 r - u = -r u
    q = r * r
    series = 1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q / 13))))
    return r * (2.0 * q * series - u)


@njit(cache=True, error_model="numpy")
def _digamma_minus_log(a: float) -> float:
    """Return digamma(a) - log(a)."""
    shifted = a
    total = 0.0
    while shifted < _LARGE:
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
def _log_rising(b: float, a: float) -> float:
    """Return log Gamma(a + b) - log Gamma(b), proportional to ``a`` to full relative accuracy."""
    growth = 0.0  # the product of 1 + a / (b + k), minus one
    while b < _LARGE:
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
def _digamma_rise(b: float, a: float) -> float:
    """Return digamma(a + b) - digamma(b), proportional to ``a`` to full relative accuracy."""
    total = 0.0
    while b < _LARGE:
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
def _log_complement(log_p: float) -> float:
    """Return log(1 - exp(log_p)) for log_p < 0."""
    if log_p > -0.6931471805599453:
        return math.log(-math.expm1(log_p))
    return math.log1p(-math.exp(log_p))


@njit(cache=True, error_model="numpy")
def _log_ratio(x: float, a: float) -> float:
    """Return log(x / a): exact for neighbours, and without overflow for strangers."""
    u = (x - a) / a
    return math.log1p(u) if abs(u) < 0.5 else math.log(x) - math.log(a)


@njit(cache=True, error_model="numpy")
def _gamma_log_weight(a: float, x: float) -> float:
    """Return log(x**a exp(-x) / Gamma(a)), the log density of log t at t = x."""
    if a < _LARGE:
        return a * math.log(x) - x - math.lgamma(a)
    # Stirling's formula removed by hand: the terms of size a log(a) must never meet.
    u = (x - a) / a
    deviance = _log1p_minus(u) if abs(u) < 0.5 else math.log(x) - math.log(a) - u
    return a * deviance + 0.5 * math.log(a) - _HALF_LOG_2PI - _stirling_error(a)


@njit(cache=True, error_model="numpy")
def _gamma_quadrature(a: float, x: float, sign: float) -> tuple[float, float]:
    """Integrate h(s) = sign a s - x expm1(sign s); return the log integral and the mean of s."""
    slope = abs(a - x)
    end = 2.0 * _DROP / (slope + math.sqrt(slope * slope + 2.0 * _DROP * x))
    if sign > 0.0:
        end = min(end, math.log1p(_DROP / x) * (1.0 + a / x))
    for _ in range(30):
        excess = sign * a * end - x * math.expm1(sign * end) + _DROP
        if abs(excess) < 0.5:
            break
        end -= excess / (sign * (a - x * math.exp(sign * end)))
    total = 0.0
    moment = 0.0
    for i in range(_NODES.size):
        s = end * _NODES[i]
        f = _WEIGHTS[i] * math.exp(sign * a * s - x * math.expm1(sign * s))
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
    for n in range(1, _MAX_TERMS):
        inverse = 1.0 / (a + n)
        term *= x * inverse
        harmonic += inverse
        total += term
        derivative -= term * harmonic
        if term * (1.0 + harmonic) < _EPS * total:
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
        if abs(term) < _EPS:
            break
    log_p = a * math.log(x) - _log_rising(1.0, a) + math.log1p(a * total)
    digamma = _digamma_minus_log(1.0 + a) + math.log1p(a)
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
    log_weight = _gamma_log_weight(a, x)
    from_upper = False
    if a < _SMALL and x < 1.5:
        log_tail, partial = _gamma_small(a, x)
        log_ratio = log_tail - log_weight
    elif x > a:
        from_upper = True
        log_ratio, mean = _gamma_quadrature(a, x, 1.0)
        log_tail = log_weight + log_ratio
        partial = _log_ratio(x, a) - _digamma_minus_log(a) + mean
    elif a < _LARGE:
        log_sum, partial = _gamma_series(a, x)
        log_ratio = log_sum - math.log(a)
        log_tail = log_weight + log_ratio
        partial += _log_ratio(x, a) - _digamma_minus_log(a) - 1.0 / a
    else:
        log_ratio, mean = _gamma_quadrature(a, x, -1.0)
        log_tail = log_weight + log_ratio
        partial = _log_ratio(x, a) - _digamma_minus_log(a) - mean
    if from_upper != upper:
        log_other = _log_complement(log_tail)
        partial *= -math.exp(log_tail - log_other)
        log_ratio = log_other - log_weight
        log_tail = log_other
    return log_tail, -log_ratio, partial


@njit(cache=True, error_model="numpy")
def _beta_log_weight(a: float, b: float, x: float, y: float, log_x: float, log_y: float) -> float:
    """Return log(x**a y**b / B(a, b)), the log density of logit x; y is 1 - x."""
    gap = b * x - a * y
    u = gap / a
    v = -gap / b
    first = _log1p_minus(u) if abs(u) < 0.5 else log_x + math.log1p(b / a) - u
    second = _log1p_minus(v) if abs(v) < 0.5 else log_y + math.log1p(a / b) - v
    total = a + b
    stirling = _stirling_error(total) - _stirling_error(a) - _stirling_error(b)
    return a * first + b * second + 0.5 * math.log(a * (b / total)) - _HALF_LOG_2PI + stirling


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
    end = 2.0 * _DROP / (slope + math.sqrt(slope * slope + 2.0 * _DROP * curvature))
    for _ in range(30):
        fall, rise = _beta_logs(x, y, end)
        excess = b * rise - a * fall + _DROP
        if abs(excess) < 0.5:
            break
        moved = x / (x + y * math.exp(end))
        end += excess / (a * (1.0 - moved) - b * moved)
    total = 0.0
    moment_a = 0.0
    moment_b = 0.0
    for i in range(_NODES.size):
        fall, rise = _beta_logs(x, y, end * _NODES[i])
        f = _WEIGHTS[i] * math.exp(b * rise - a * fall)
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
    for n in range(1, _MAX_TERMS):
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
        if term * (1.0 + harmonic_b) < _EPS * total * (1.0 - x):
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
        if abs(term) + abs(term_b) < _EPS:
            break
    bracket = 1.0 + a * total
    log_p = a * log_x + _log_rising(b, a) - _log_rising(1.0, a) + math.log1p(a * total)
    # log x + digamma(a + b) - digamma(a + 1); the rise must be of a positive step
    if b < 1.0:
        partial_a = log_x - _digamma_rise(a + b, 1.0 - b)
    else:
        partial_a = log_x + _digamma_rise(a + 1.0, b - 1.0)
    partial_b = _digamma_rise(b, a) + a * sum_b / bracket
    return log_p, partial_a + sum_a / bracket, partial_b


@njit(cache=True, error_model="numpy")
def _beta_lower(
    a: float, b: float, x: float, y: float, log_x: float, log_y: float, method: int
) -> tuple[float, float, float, float]:
    """Return log P, log(P / w), and the derivatives of log P in a and b, by one method."""
    log_weight = _beta_log_weight(a, b, x, y, log_x, log_y)
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
    digamma = _digamma_minus_log(a + b)
    offset = math.log1p(gap / a) if abs(gap) < 0.5 * a else log_x + math.log1p(b / a)
    partial_a += offset - (_digamma_minus_log(a) - digamma)
    if b < _LARGE:
        partial_b += log_y + _digamma_rise(b, a)
    else:
        offset = math.log1p(-gap / b) if abs(gap) < 0.5 * b else log_y + math.log1p(a / b)
        partial_b += offset - (_digamma_minus_log(b) - digamma)
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
    if a < _LARGE <= b:
        swap = False
    elif b < _LARGE <= a:
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
    if a < _SMALL and x <= 0.5 and b * x < 1.5:
        method = _SMALL_SERIES
    elif b < _LARGE:
        method = _POSITIVE_SERIES
        other = a < _SMALL
    elif b * x > a * y:
        other = True
    elif a < _LARGE:
        method = _POSITIVE_SERIES
    if other:
        log_tail, log_ratio, partial_b, partial_a = _beta_lower(b, a, y, x, log_y, log_x, method)
    else:
        log_tail, log_ratio, partial_a, partial_b = _beta_lower(a, b, x, y, log_x, log_y, method)
    if other != swap:
        log_other = _log_complement(log_tail)
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
    bound = (log_p + _log_rising(1.0, a) - _log_rising(b, a)) / a
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
def gamma_log_weights(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return log(x**a exp(-x) / Gamma(a)) for flat arrays."""
    out = np.empty(a.size)
    for i in range(a.size):
        out[i] = _gamma_log_weight(a[i], x[i])
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
            out[i] = _beta_log_weight(a[i], b[i], far, near, log_far, log_near)
        else:
            out[i] = _beta_log_weight(a[i], b[i], near, far, log_near, log_far)
    return out


@njit(cache=True, error_model="numpy")
def gamma_log_tails(a: np.ndarray, x: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Apply :func:`gamma_log_tail` to flat arrays; the result is stacked along the first axis."""
    out = np.empty((3, a.size))
    for i in range(a.size):
        out[0, i], out[1, i], out[2, i] = gamma_log_tail(a[i], x[i], upper[i])
    return out


@njit(cache=True, error_model="numpy")
def beta_log_tails(a: np.ndarray, b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Apply :func:`beta_log_tail` to flat arrays; the result is stacked along the first axis."""
    out = np.empty((4, a.size))
    for i in range(a.size):
        out[0, i], out[1, i], out[2, i], out[3, i] = beta_log_tail(a[i], b[i], t[i])
    return out
