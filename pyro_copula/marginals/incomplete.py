"""The laws whose distribution functions are incomplete gamma and beta functions.

Gamma (and chi squared), beta and Student's t. Their quantiles come from the inverse functions of
:mod:`pyro_copula.special` while the tail probability is a float64 number, and beyond that from
Newton's method on the logarithm of the tail, which is nearly linear there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributions as td
from torch import Tensor

from ..special import (
    betainc_logit,
    betaincinv_logit,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    log_betainc_logit,
    log_gammainc,
    log_gammaincc,
)
from . import densities
from .continuous import LOG_2, StandardisedCDF, log1mexp
from .registry import BELOW_ONE, TINY, register_cdf

DEEP = -690.0  # log probabilities below this leave too few digits in float64


@register_cdf(td.Gamma)
class GammaCDF(StandardisedCDF):
    """``F(x) = P(concentration, x)`` with ``x = rate value``."""

    differentiable_quantile = False

    def standardise(self, d: Any, value: Tensor) -> Tensor:
        return d.rate.double() * value

    def restore(self, d: Any, x: Tensor) -> Tensor:
        return x / d.rate.double()

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        return gammainc(d.concentration.double(), self.standardise(d, value))

    def sf(self, d: Any, value: Tensor) -> Tensor:
        return gammaincc(d.concentration.double(), self.standardise(d, value))

    def lower(self, d: Any, x: Tensor) -> Tensor:
        return log_gammainc(d.concentration.double(), x)

    def upper(self, d: Any, x: Tensor) -> Tensor:
        return log_gammaincc(d.concentration.double(), x)

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        a = d.concentration.detach().double()
        x = gammaincinv(a, log_p.clamp(min=DEEP).exp())
        # P(a, x) < x^a / Gamma(a + 1), and log P is concave in log x: Newton rises to the root.
        start = (log_p + torch.lgamma(a + 1)) / a
        deep = _newton(lambda t: log_gammainc(a, t.exp()), start, log_p)
        return x if deep is None else torch.where(log_p < DEEP, deep.exp(), x)

    def from_upper(self, d: Any, log_q: Tensor) -> Tensor:
        a = d.concentration.detach().double()
        x = gammainccinv(a, log_q.clamp(min=DEEP).exp())
        start = torch.maximum((a - 1) * (-log_q).log() - log_q - torch.lgamma(a), a + 1)
        deep = _newton(lambda t: log_gammaincc(a, t), start, log_q)
        return x if deep is None else torch.where(log_q < DEEP, deep, x)

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        a, rate = d.concentration.double(), d.rate.double()
        large = (torch.maximum(a, rate * value) > densities.LARGE) & (value > 0)
        return densities.where_large(d, value, large, densities.gamma, a, rate, value)


@register_cdf(td.Beta)
class BetaCDF(StandardisedCDF):
    """``F = I_value(concentration1, concentration0)``, on the scale of the logit of the value."""

    differentiable_quantile = False

    def standardise(self, d: Any, value: Tensor) -> Tensor:
        value = value.clamp(TINY, BELOW_ONE)
        return value.log() - torch.log1p(-value)

    def restore(self, d: Any, x: Tensor) -> Tensor:
        return x.sigmoid()

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        x = self.standardise(d, value)
        return betainc_logit(d.concentration1.double(), d.concentration0.double(), x)

    def sf(self, d: Any, value: Tensor) -> Tensor:
        x = self.standardise(d, value)
        return betainc_logit(d.concentration0.double(), d.concentration1.double(), -x)

    def lower(self, d: Any, x: Tensor) -> Tensor:
        return log_betainc_logit(d.concentration1.double(), d.concentration0.double(), x)

    def upper(self, d: Any, x: Tensor) -> Tensor:
        return log_betainc_logit(d.concentration0.double(), d.concentration1.double(), -x)

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        a, b = d.concentration1.detach().double(), d.concentration0.detach().double()
        return logit_quantile(a, b, log_p)

    def from_upper(self, d: Any, log_q: Tensor) -> Tensor:
        a, b = d.concentration1.detach().double(), d.concentration0.detach().double()
        return -logit_quantile(b, a, log_q)

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        a, b = d.concentration1.double(), d.concentration0.double()
        large = (torch.maximum(a, b) > densities.LARGE) & (value > 0) & (value < 1)
        return densities.where_large(d, value, large, densities.beta, a, b, value)


@register_cdf(td.StudentT)
class StudentTCDF(StandardisedCDF):
    """``F(-x) = I_w(df / 2, 1 / 2) / 2`` with ``logit w = log(df / x^2)``, ``x > 0``."""

    differentiable_quantile = False

    def lower(self, d: Any, x: Tensor) -> Tensor:
        df = d.df.double()
        # At zero the logit is infinite: step aside by 1e-100, and keep the gradient.
        x = torch.where(x.abs() < 1e-100, 1e-100 + x - x.detach(), x)
        log_tail = log_betainc_logit(df / 2, 0.5, df.log() - 2 * x.abs().log()) - LOG_2
        return torch.where(x < 0, log_tail, log1mexp(log_tail))

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        df = d.df.detach().double()
        log_tail = torch.minimum(log_p, log1mexp(log_p.clamp(max=-TINY)))
        x = torch.exp(0.5 * (df.log() - logit_quantile(df / 2, 0.5, log_tail + LOG_2)))
        return torch.where(log_p < -LOG_2, -x, x)

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        df, x, scale = torch.broadcast_tensors(d.df, self.standardise(d, value), d.scale)
        large, law = df > densities.LARGE, densities.student_t
        return densities.where_large(d, value, large, law, df.double(), x, scale.double())


def logit_quantile(a: Tensor, b: Tensor | float, log_p: Tensor) -> Tensor:
    """Return the ``t`` with ``log I_sigmoid(t)(a, b) = log_p``, for any ``log_p <= 0``."""
    b = torch.as_tensor(b, dtype=torch.float64)
    t = betaincinv_logit(a, b, log_p.clamp(DEEP, 0.0).exp())
    log_beta = torch.lgamma(a) + torch.lgamma(b) - torch.lgamma(a + b)
    start = (log_p + a.log() + log_beta) / a
    deep = _newton(lambda s: log_betainc_logit(a, b, s), start, log_p)
    return t if deep is None else torch.where(log_p < DEEP, deep, t)


def _newton(
    log_tail: Callable[[Tensor], Tensor], t: Tensor, target: Tensor, steps: int = 40
) -> Tensor | None:
    """Solve ``log_tail(t) = target`` where ``target`` is deep; None if it is so nowhere."""
    active = target < DEEP
    if not bool(active.any()):
        return None
    t = torch.where(active, t, 0.5).detach()
    for _ in range(steps):
        with torch.enable_grad():
            t.requires_grad_()
            value = log_tail(t)
            (slope,) = torch.autograd.grad(value.sum(), t)
        step = torch.where(active, (value.detach() - target) / slope, 0.0)
        t = t.detach() - step
        if bool((step.abs() <= 1e-14 * t.abs()).all()):
            break
    return t
