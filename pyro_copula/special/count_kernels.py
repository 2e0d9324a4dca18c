r"""Kernels of the normal scores of counts: a score and its derivatives in one pass.

A count ``k`` has the score :math:`\Phi^{-1}(F(k - 1) + c\, p(k))`, where ``p`` is the mass: with
``c`` one half it is the middle of the atom, with one the upper end. The tail that is small, and
what ``k`` itself adds to it, are sums of masses of which ``p(k)`` is a common factor. That is

.. math:: F(k - 1) + c\, p(k) = p(k) \Big(c + \frac{k}{\lambda}
        + \frac{k (k - 1)}{\lambda^2} + \dots\Big)

below the mean of a Poisson law, and above it
:math:`1 - c + \frac{\lambda}{k + 1} + \frac{\lambda^2}{(k + 1)(k + 2)} + \dots`, all terms
positive. Long sums are left to the incomplete gamma and beta functions.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from .beta_kernels import beta_log_tail, beta_log_weight
from .gamma_kernels import gamma_log_tail, gamma_log_weight
from .kernels import EPS, LARGE, SMALL, digamma_minus_log, digamma_rise
from .normal_kernels import normal_quantile

_LOG_2 = math.log(2.0)
_FEW = 100.0  # counts below it are summed; beyond it the quadrature is faster
_MAX = np.finfo(np.float64).max
_TINY = np.finfo(np.float64).tiny  # what is smaller loses digits, or is zero


@njit(cache=True, error_model="numpy")
def _certain(k: float, at_zero: bool, part: float) -> float:
    """Return the score of ``k`` if the law is all at zero, or else all at infinity."""
    if k < 0.0 or not at_zero:
        return -math.inf
    return normal_quantile(math.log(part))[0] if k == 0.0 else math.inf


@njit(cache=True, error_model="numpy")
def _poisson_rest(k: float, rate: float, upper: bool) -> float:
    """Return the probability above ``k``, or below it, over the mass at ``k``."""
    if k >= _FEW:
        if upper:
            return rate * math.exp(-gamma_log_tail(k + 1.0, rate, False)[1])
        return k * math.exp(-gamma_log_tail(k, rate, True)[1])
    term, total, j = 1.0, 0.0, k
    while term > EPS * total:
        if upper:
            j += 1.0
            term *= rate / j
        else:
            term *= j / rate  # zero after the count zero
            j -= 1.0
        total += term
    return total


@njit(cache=True, error_model="numpy")
def _poisson_score(k: float, rate: float, part: float) -> tuple[float, float]:
    """Return the score and its derivative in the rate."""
    if not rate >= 0.0 or math.isnan(k):
        return math.nan, 0.0
    if k < 0.0 or k == math.inf:
        return k * math.inf, 0.0
    if rate == 0.0 or rate == math.inf:
        return _certain(k, rate == 0.0, part), 0.0
    rate = max(rate, _TINY)
    upper = k >= rate or rate < _LOG_2
    own = 1.0 - part if upper else part
    bracket = own + _poisson_rest(k, rate, upper)
    log_mass = gamma_log_weight(k, rate) - math.log(k) if k > 0.0 else -rate
    z, mills = normal_quantile(log_mass + math.log(bracket))
    slope = min(mills * ((1.0 - part) * k / rate + part) / bracket, _MAX)
    return (-z if upper else z), -slope


@njit(cache=True, error_model="numpy")
def _mass_partial(k: float, total: float, fail: float, success: float, log_fail: float) -> float:
    """Return the derivative of the log mass of a negative binomial law in ``total``."""
    gap = k * fail - total * success
    if total > LARGE and abs(gap) < 0.5 * total:  # near the mean, where the terms would cancel
        rise = digamma_minus_log(total + k) - digamma_minus_log(total)
        return math.log1p(gap / total) + rise
    return log_fail + digamma_rise(total, k)


@njit(cache=True, error_model="numpy")
def _negative_binomial_rest(
    k: float, total: float, fail: float, success: float, upper: bool
) -> tuple[float, float]:
    """Return the probability above or below ``k`` over the mass at ``k``, and its derivative."""
    term, rest, j, harmonic, partial = 1.0, 0.0, k, 0.0, 0.0
    while term * (1.0 + abs(harmonic)) > EPS * rest * fail:
        if upper:
            inverse = 1.0 / (total + j)
            j += 1.0
            term *= success * (total + j - 1.0) / j
            harmonic += inverse
        elif j > 0.0:
            inverse = 1.0 / (total + j - 1.0)
            term *= j * inverse / success
            j -= 1.0
            harmonic -= inverse
        else:
            break
        rest += term
        partial += term * harmonic
    return rest, partial


@njit(cache=True, error_model="numpy")
def _negative_binomial_score(
    k: float, total: float, t: float, part: float
) -> tuple[float, float, float]:
    """Return the score, its derivative in ``total`` and in ``t``, the log odds of failure."""
    if not 0.0 < total < math.inf or math.isnan(t) or math.isnan(k):
        return math.nan, 0.0, 0.0
    if k < 0.0 or k == math.inf:
        return k * math.inf, 0.0, 0.0
    if abs(t) == math.inf:
        return _certain(k, t > 0.0, part), 0.0, 0.0
    decay = math.exp(-abs(t))
    near, far = max(decay / (1.0 + decay), _TINY), 1.0 / (1.0 + decay)
    log_far = -math.log1p(decay)
    log_near = log_far - abs(t)
    if t > 0.0:
        fail, success, log_fail, log_success = far, near, log_far, log_near
    else:
        fail, success, log_fail, log_success = near, far, log_near, log_far
    upper = k >= total * math.exp(-t) or total * log_fail > -_LOG_2
    own = 1.0 - part if upper else part
    mass_partial = _mass_partial(k, total, fail, success, log_fail)
    log_mass = total * log_fail
    if k > 0.0:
        weight = beta_log_weight(total, k, fail, success, log_fail, log_success)
        log_mass = weight - math.log(k)
    if k == 0.0 and not upper:
        log_p, share, partial = log_mass + math.log(own), 1.0 / own, mass_partial
    elif k < _FEW and total >= SMALL and (fail > 0.25 or not upper):
        rest, slope = _negative_binomial_rest(k, total, fail, success, upper)
        log_p, share = log_mass + math.log(own + rest), 1.0 / (own + rest)
        partial = mass_partial + slope * share
    else:
        if upper:
            log_tail, _, _, tail_partial = beta_log_tail(k + 1.0, total, -t)
        else:
            log_tail, _, tail_partial, _ = beta_log_tail(total, k, t)
        # The larger of the two is taken out, so that neither overflows.
        above = log_mass - log_tail
        if above < 0.0:
            ratio = math.exp(above)
            tail_share = 1.0 / (1.0 + own * ratio)
            share = ratio * tail_share
            log_p = log_tail + math.log1p(own * ratio)
        else:
            ratio = max(math.exp(-above), _TINY)
            share = 1.0 / (own + ratio)
            tail_share = ratio * share
            log_p = log_mass + math.log(own + ratio)
        partial = tail_share * tail_partial + own * share * mass_partial
    z, mills = normal_quantile(log_p)
    slope = share * ((1.0 - part) * k + part * success * (total + k))
    if upper:
        return -z, -mills * partial, mills * slope
    return z, mills * partial, mills * slope


@njit(cache=True, error_model="numpy")
def poisson_scores(k: np.ndarray, rate: np.ndarray, part: float) -> np.ndarray:
    """Return the scores and their derivatives in the rate, for flat arrays."""
    out = np.empty((2, k.size))
    for i in range(k.size):
        out[0, i], out[1, i] = _poisson_score(k[i], rate[i], part)
    return out


@njit(cache=True, error_model="numpy")
def negative_binomial_scores(
    k: np.ndarray, total: np.ndarray, t: np.ndarray, part: float
) -> np.ndarray:
    """Return the scores and their derivatives in both parameters, for flat arrays."""
    out = np.empty((3, k.size))
    for i in range(k.size):
        out[0, i], out[1, i], out[2, i] = _negative_binomial_score(k[i], total[i], t[i], part)
    return out
