"""The distribution functions of the continuous laws, both tails to full depth.

Every law here is written on a standardised scale and in logarithms: ``lower`` and ``upper`` are
the two log tail probabilities, ``from_lower`` and ``from_upper`` their inverses. torch's own
formulas lose one tail (``1 - cdf``); these keep relative precision in both.
"""

from __future__ import annotations

import math
from typing import Any

import pyro.distributions as dist
import torch
import torch.distributions as td
from torch import Tensor

from ..special import log_ndtr, ndtri_exp
from .registry import MarginalCDF, register_cdf

LOG_2 = math.log(2.0)
SMALL = -36.0  # below this log probability, 1 + p and 1 - p round to one


def log1mexp(log_p: Tensor) -> Tensor:
    """Return ``log(1 - exp(log_p))`` for ``log_p < 0`` without cancellation (Mächler, 2012)."""
    small = log_p < -LOG_2
    far = torch.log1p(-torch.where(small, log_p, -1.0).exp())
    near = torch.log(-torch.expm1(torch.where(small, -1.0, log_p)))
    return torch.where(small, far, near)


def minus_abs(x: Tensor) -> Tensor:
    """Return ``-|x|``, with the gradient -1 at zero, where a law is in its upper half."""
    return torch.where(x < 0, x, -x)


class StandardisedCDF(MarginalCDF):
    """A law that is a monotone transform of a standard one with known log tails."""

    differentiable_quantile = True

    def standardise(self, d: Any, value: Tensor) -> Tensor:
        """Return the value on the standard scale: ``(value - loc) / scale`` unless overridden."""
        return (value - d.loc.double()) / d.scale.double()

    def restore(self, d: Any, x: Tensor) -> Tensor:
        """Return the inverse of :meth:`standardise`."""
        return d.loc.double() + d.scale.double() * x

    def lower(self, d: Any, x: Tensor) -> Tensor:
        """Return the log probability below ``x`` on the standard scale."""
        raise NotImplementedError

    def upper(self, d: Any, x: Tensor) -> Tensor:
        """Return the log probability above ``x``: that below ``-x`` unless overridden."""
        return self.lower(d, -x)

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        """Return the ``x`` with log probability ``log_p`` below it."""
        raise NotImplementedError

    def from_upper(self, d: Any, log_q: Tensor) -> Tensor:
        """Return the ``x`` with log probability ``log_q`` above it: by symmetry by default."""
        return -self.from_lower(d, log_q)

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        return self.log_cdf(d, value).exp()

    def log_cdf(self, d: Any, value: Tensor) -> Tensor:
        return self.lower(d, self.standardise(d, value))

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        return self.upper(d, self.standardise(d, value))

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        return self.restore(d, self.from_lower(d, u.log()))

    def isf(self, d: Any, q: Tensor) -> Tensor:
        return self.restore(d, self.from_upper(d, q.log()))

    def from_score(self, d: Any, z: Tensor) -> Tensor:
        # Each branch sees the scores of its own sign only, and is skipped if there are none.
        negative = z < 0
        if bool(negative.all()):
            return self.restore(d, self.from_lower(d, log_ndtr(z)))
        if not bool(negative.any()):
            return self.restore(d, self.from_upper(d, log_ndtr(-z)))
        below = self.from_lower(d, log_ndtr(torch.where(negative, z, -1.0)))
        above = self.from_upper(d, log_ndtr(torch.where(negative, -1.0, -z)))
        return self.restore(d, torch.where(negative, below, above))


@register_cdf(td.Normal)
class NormalCDF(StandardisedCDF):
    """The normal law, whose normal score is its standardised value."""

    def lower(self, d: Any, x: Tensor) -> Tensor:
        return log_ndtr(x)

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        return ndtri_exp(log_p)

    def score(self, d: Any, value: Tensor) -> Tensor:
        return self.standardise(d, value)

    def from_score(self, d: Any, z: Tensor) -> Tensor:
        return self.restore(d, z)


@register_cdf(td.Laplace)
class LaplaceCDF(StandardisedCDF):
    """``F(x) = exp(x) / 2`` below zero, and by symmetry above."""

    def lower(self, d: Any, x: Tensor) -> Tensor:
        log_tail = minus_abs(x) - LOG_2
        return torch.where(x < 0, log_tail, log1mexp(log_tail))

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        below = log_p < -LOG_2
        log_q = log1mexp(torch.where(below, -1.0, log_p))
        return torch.where(below, log_p + LOG_2, -log_q - LOG_2)


@register_cdf(dist.Logistic)
class LogisticCDF(StandardisedCDF):
    """``F(x) = 1 / (1 + exp(-x))``."""

    def lower(self, d: Any, x: Tensor) -> Tensor:
        return torch.nn.functional.logsigmoid(x)

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        return log_p - log1mexp(log_p)


@register_cdf(td.Cauchy)
class CauchyCDF(StandardisedCDF):
    """``F(x) = atan2(1, -x) / pi``, which keeps its digits as ``x`` goes to minus infinity."""

    def lower(self, d: Any, x: Tensor) -> Tensor:
        tail = torch.atan2(torch.ones_like(x), -minus_abs(x)) / math.pi  # at most 1/2
        return torch.where(x < 0, tail.log(), torch.log1p(-tail))

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        below = log_p < -LOG_2
        log_tail = torch.where(below, log_p, log1mexp(torch.where(below, -1.0, log_p)))
        x = torch.tan(math.pi * log_tail.exp()).reciprocal()
        return torch.where(below, -x, x)


@register_cdf(td.Gumbel)
class GumbelCDF(StandardisedCDF):
    """``F(x) = exp(-exp(-x))``."""

    def lower(self, d: Any, x: Tensor) -> Tensor:
        return -(-x).clamp(max=709.0).exp()

    def upper(self, d: Any, x: Tensor) -> Tensor:
        far = -x < SMALL
        return torch.where(far, -x, log1mexp(self.lower(d, torch.where(far, 0.0, x))))

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        return -torch.log(-log_p)

    def from_upper(self, d: Any, log_q: Tensor) -> Tensor:
        far = log_q < SMALL
        near = -torch.log(-log1mexp(torch.where(far, -1.0, log_q)))
        return torch.where(far, -log_q, near)


@register_cdf(td.Weibull)
class WeibullCDF(StandardisedCDF):
    """``S(x) = exp(-exp(x))`` with ``x = concentration log(value / scale)``."""

    def standardise(self, d: Any, value: Tensor) -> Tensor:
        return d.concentration.double() * (value.log() - d.scale.double().log())

    def restore(self, d: Any, x: Tensor) -> Tensor:
        return d.scale.double() * torch.exp(x / d.concentration.double())

    def lower(self, d: Any, x: Tensor) -> Tensor:
        far = x < SMALL
        return torch.where(far, x, log1mexp(self.upper(d, torch.where(far, 0.0, x))))

    def upper(self, d: Any, x: Tensor) -> Tensor:
        return -x.clamp(max=709.0).exp()

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        far = log_p < SMALL
        near = torch.log(-log1mexp(torch.where(far, -1.0, log_p)))
        return torch.where(far, log_p, near)

    def from_upper(self, d: Any, log_q: Tensor) -> Tensor:
        return torch.log(-log_q)


@register_cdf(td.Exponential)
class ExponentialCDF(WeibullCDF):
    """The Weibull law of concentration one and scale ``1 / rate``."""

    def standardise(self, d: Any, value: Tensor) -> Tensor:
        return value.log() + d.rate.double().log()

    def restore(self, d: Any, x: Tensor) -> Tensor:
        return x.exp() / d.rate.double()


@register_cdf(td.HalfNormal)
class HalfNormalCDF(StandardisedCDF):
    """``S(x) = 2 Phi(-x)`` for ``x > 0``."""

    def standardise(self, d: Any, value: Tensor) -> Tensor:
        return value / d.scale.double()

    def restore(self, d: Any, x: Tensor) -> Tensor:
        return d.scale.double() * x

    def lower(self, d: Any, x: Tensor) -> Tensor:
        near = torch.erf(x.clamp(max=1.0) / math.sqrt(2.0)).log()
        return torch.where(x < 1, near, log1mexp(self.upper(d, x.clamp(min=1.0))))

    def upper(self, d: Any, x: Tensor) -> Tensor:
        near = torch.log1p(-torch.erf(x.clamp(max=1.0) / math.sqrt(2.0)))
        return torch.where(x < 1, near, LOG_2 + log_ndtr(-x.clamp(min=1.0)))

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        near = log_p < -LOG_2
        small = math.sqrt(2.0) * torch.erfinv(torch.where(near, log_p, -1.0).exp())
        large = self.from_upper(d, log1mexp(torch.where(near, -0.5, log_p)))
        return torch.where(near, small, large)

    def from_upper(self, d: Any, log_q: Tensor) -> Tensor:
        return -ndtri_exp(log_q - LOG_2)


@register_cdf(td.HalfCauchy)
class HalfCauchyCDF(HalfNormalCDF):
    """``F(x) = 2 atan(x) / pi`` for ``x > 0``."""

    def lower(self, d: Any, x: Tensor) -> Tensor:
        near = (torch.atan(x.clamp(max=1.0)) * (2.0 / math.pi)).log()
        return torch.where(x < 1, near, log1mexp(self.upper(d, x.clamp(min=1.0))))

    def upper(self, d: Any, x: Tensor) -> Tensor:
        near = torch.log1p(-torch.atan(x.clamp(max=1.0)) * (2.0 / math.pi))
        far = (torch.atan(x.clamp(min=1.0).reciprocal()) * (2.0 / math.pi)).log()
        return torch.where(x < 1, near, far)

    def from_lower(self, d: Any, log_p: Tensor) -> Tensor:
        near = log_p < -LOG_2
        small = torch.tan(torch.where(near, log_p, -1.0).exp() * (math.pi / 2))
        large = torch.tan(torch.where(near, -1.0, log1mexp(log_p)).exp() * (math.pi / 2))
        return torch.where(near, small, large.reciprocal())

    def from_upper(self, d: Any, log_q: Tensor) -> Tensor:
        return self.from_lower(d, log_q).reciprocal()


@register_cdf(td.Uniform)
class UniformCDF(MarginalCDF):
    """The distances from both ends, each with its own digits."""

    differentiable_quantile = True

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        return (value - d.low.double()) / (d.high.double() - d.low.double())

    def sf(self, d: Any, value: Tensor) -> Tensor:
        return (d.high.double() - value) / (d.high.double() - d.low.double())

    def log_cdf(self, d: Any, value: Tensor) -> Tensor:
        return self.cdf(d, value).log()

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        return self.sf(d, value).log()

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        return d.low.double() + u * (d.high.double() - d.low.double())

    def isf(self, d: Any, q: Tensor) -> Tensor:
        return d.high.double() - q * (d.high.double() - d.low.double())
