"""Laws of counts: Poisson, (zero-inflated) negative binomial, binomial and their relatives.

Each distribution function is an incomplete gamma or beta function, which continues it smoothly
between the whole numbers; the moments of :mod:`.moments` use that continuation. A law is written
as functions of a tuple of float64 parameters rather than of the distribution, so that searches
and sums can work on the nodes that still need it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyro.distributions as dist
import torch
import torch.distributions as td
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..special import (
    betainc_logit,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    log_betainc_logit,
    log_gamma_tail,
    log_gammainc,
    log_gammaincc,
    log_ndtr,
    ndtri_exp,
)
from . import densities
from .continuous import LOG_2, log1mexp
from .count_scores import KernelScores
from .registry import TINY, MarginalCDF, register_cdf, score_from_tail

Parameters = tuple[Tensor, ...]


class CountCDF(MarginalCDF):
    """A law of counts, on ``0, 1, 2, ...`` up to an end or for ever."""

    def parameters(self, d: Any) -> Parameters:
        """Return the parameters of ``d`` that the other methods take, in float64."""
        raise NotImplementedError

    def lower(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        """Return ``P(Y <= k)`` or its logarithm, for ``k`` before the end of the support."""
        raise NotImplementedError

    def upper(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        """Return ``P(Y > k)`` or its logarithm, for ``k`` before the end of the support."""
        raise NotImplementedError

    def either(self, parameters: Parameters, k: Tensor, upper: Tensor) -> Tensor:
        """Return the log of the upper tail where ``upper``, of the lower tail elsewhere."""
        above = self.upper(parameters, k, log=True)
        return torch.where(upper, above, self.lower(parameters, k, log=True))

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean, the variance and ``log P(Y = 0)``."""
        raise NotImplementedError

    def in_upper_half(self, parameters: Parameters, k: Tensor) -> Tensor:
        """Tell where to use the upper tail: where ``P(Y <= k)`` is not small."""
        mean, _, log_zero = (t.detach() for t in self.centre(parameters))
        return (k >= mean) | (log_zero > -LOG_2)

    def score_at(self, parameters: Parameters, k: Tensor) -> Tensor:
        """Return ``Phi^-1(F(k))``."""
        upper = self.in_upper_half(parameters, k)
        return score_from_tail(self.either(parameters, k, upper), upper)

    def score_at_whole(self, parameters: Parameters, k: Tensor) -> Tensor:
        """Return the same for whole ``k``, which may be faster."""
        return self.score_at(parameters, k)

    def guess(self, parameters: Parameters, z: Tensor) -> Tensor:
        """Return a number near the quantile of score ``z`` (Cornish and Fisher, 1938)."""
        mean, variance, _ = self.centre(parameters)
        sd = variance.sqrt()
        # The skewness of a negative binomial law with this mean and variance, Poisson included.
        skewness = (2 * variance - mean) / (mean * sd).clamp(min=TINY)
        return mean + sd * (z + skewness * (z.square() - 1) / 6)

    def landmarks(self, parameters: Parameters, m: Tensor, s: Tensor, grid: Tensor) -> Tensor:
        """Return points between which ``Phi((z_k - m) / s)`` is smooth, one row per ``grid``."""
        return self.guess(parameters, m + s * grid)

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        return self.lower(self.parameters(d), value, log=False)

    def sf(self, d: Any, value: Tensor) -> Tensor:
        return self.upper(self.parameters(d), value, log=False)

    def log_cdf(self, d: Any, value: Tensor) -> Tensor:
        return self.lower(self.parameters(d), value, log=True)

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        return self.upper(self.parameters(d), value, log=True)

    def log_tail(self, d: Any, value: Tensor, upper: Tensor) -> Tensor:
        return self.either(self.parameters(d), value, upper)

    def use_upper(self, d: Any, value: Tensor) -> Tensor:
        return self.in_upper_half(self.parameters(d), value)

    def score(self, d: Any, value: Tensor) -> Tensor:
        return self.score_at_whole(self.parameters(d), value)

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        return self.from_score(d, ndtri_exp(u.log()))

    def isf(self, d: Any, q: Tensor) -> Tensor:
        return self.from_score(d, -ndtri_exp(q.log()))

    def from_score(self, d: Any, z: Tensor) -> Tensor:
        return self.guess(self.parameters(d), z)


@register_cdf(td.Poisson)
class PoissonCDF(KernelScores, CountCDF):
    """``F(k) = Q(k + 1, rate)``, the upper regularised gamma function."""

    def kernel(self, k: np.ndarray, parameters: list[np.ndarray], part: float) -> np.ndarray:
        from ..special.count_kernels import poisson_scores  # loads numba

        return poisson_scores(k, *parameters, part)

    def with_parameters(self, *parameters: Tensor) -> Any:
        return td.Poisson(parameters[0], validate_args=False)

    def parameters(self, d: Any) -> Parameters:
        return (d.rate.double(),)

    def lower(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        return (log_gammaincc if log else gammaincc)(k + 1, parameters[0])

    def upper(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        return (log_gammainc if log else gammainc)(k + 1, parameters[0])

    def either(self, parameters: Parameters, k: Tensor, upper: Tensor) -> Tensor:
        return log_gamma_tail(k + 1, parameters[0], ~upper)

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        (rate,) = parameters
        return rate, rate, -rate

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        (rate,) = self.parameters(d)
        large = (torch.maximum(rate, value) > densities.LARGE) & (rate > 0)
        return densities.where_large(d, value, large, densities.poisson, value, rate)


class BetaTailCDF(CountCDF):
    """``F(k) = I_sigmoid(t)(a, b)``: what the negative binomial and binomial laws share."""

    def arguments(self, parameters: Parameters, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return ``(a, b, t)``."""
        raise NotImplementedError

    def lower(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        return (log_betainc_logit if log else betainc_logit)(*self.arguments(parameters, k))

    def upper(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        a, b, t = self.arguments(parameters, k)
        return (log_betainc_logit if log else betainc_logit)(b, a, -t)

    def either(self, parameters: Parameters, k: Tensor, upper: Tensor) -> Tensor:
        # One evaluation: the tails differ by the order of the arguments.
        a, b, t = self.arguments(parameters, k)
        first, second = torch.where(upper, b, a), torch.where(upper, a, b)
        return log_betainc_logit(first, second, torch.where(upper, -t, t))


@register_cdf(td.NegativeBinomial)
class NegativeBinomialCDF(KernelScores, BetaTailCDF):
    """``F(k) = I_(1 - p)(total_count, k + 1)``."""

    def kernel(self, k: np.ndarray, parameters: list[np.ndarray], part: float) -> np.ndarray:
        from ..special.count_kernels import negative_binomial_scores  # loads numba

        return negative_binomial_scores(k, *parameters, part)

    def with_parameters(self, *parameters: Tensor) -> Any:
        total, t = parameters
        return td.NegativeBinomial(total, logits=-t, validate_args=False)

    def parameters(self, d: Any) -> Parameters:
        return d.total_count.double().clamp(min=1e-100), -success_logits(d)

    def arguments(self, parameters: Parameters, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return parameters[0], k + 1, parameters[1]

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        total, t = parameters
        odds = torch.exp(-t)
        return total * odds, total * odds * (1 + odds), total * logsigmoid(t)

    def guess(self, parameters: Parameters, z: Tensor) -> Tensor:
        # With few failures and a large mean the law is close to a gamma law, not a normal one.
        mean, variance, _ = self.centre(parameters)
        # A gamma law with the mean of Y + 1/2 and the variance of Y.
        shape = (mean + 0.5).square() / variance
        tail = log_ndtr(-z.abs()).exp().clamp(min=TINY)
        quantile = torch.where(z < 0, gammaincinv(shape, tail), gammainccinv(shape, tail))
        return quantile * variance / (mean + 0.5)

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        total, t = self.parameters(d)
        large = torch.maximum(total, value) > densities.LARGE
        return densities.where_large(d, value, large, densities.negative_binomial, total, t, value)


@register_cdf(dist.GammaPoisson)
class GammaPoissonCDF(NegativeBinomialCDF):
    """The negative binomial law with ``p = 1 / (1 + rate)``."""

    def parameters(self, d: Any) -> Parameters:
        return d.concentration.double(), d.rate.double().log()


@register_cdf(td.Binomial)
class BinomialCDF(BetaTailCDF):
    """``F(k) = I_(1 - p)(total_count - k, k + 1)`` for ``k < total_count``."""

    def parameters(self, d: Any) -> Parameters:
        return d.total_count.double(), -success_logits(d)

    def arguments(self, parameters: Parameters, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return (parameters[0] - k).clamp(min=0.5), k + 1, parameters[1]

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        total, t = parameters
        p, q = torch.sigmoid(-t), torch.sigmoid(t)
        return total * p, total * p * q, total * logsigmoid(t)

    def guess(self, parameters: Parameters, z: Tensor) -> Tensor:
        mean, variance, _ = self.centre(parameters)
        asymmetry = torch.tanh(parameters[1] / 2)  # 1 - 2 p
        return mean + variance.sqrt() * z + asymmetry * (z.square() - 1) / 6

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        total, t = self.parameters(d)
        large = (total > densities.LARGE) & (value < total)
        return densities.where_large(d, value, large, densities.binomial, total, t, value)


@register_cdf(td.Bernoulli)
class BernoulliCDF(CountCDF):
    """``F(0) = 1 - p``: the only point before the end of the support."""

    def parameters(self, d: Any) -> Parameters:
        return (success_logits(d),)

    def lower(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        t = -parameters[0] + 0 * k
        return logsigmoid(t) if log else t.sigmoid()

    def upper(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        t = parameters[0] + 0 * k
        return logsigmoid(t) if log else t.sigmoid()

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        t = parameters[0]
        return t.sigmoid(), t.sigmoid() * (-t).sigmoid(), logsigmoid(-t)

    def guess(self, parameters: Parameters, z: Tensor) -> Tensor:
        return torch.zeros_like(z + parameters[0])


@register_cdf(td.Geometric)
class GeometricCDF(CountCDF):
    """``S(k) = (1 - p)^(k + 1)``."""

    def parameters(self, d: Any) -> Parameters:
        return (logsigmoid(-success_logits(d)),)

    def lower(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        log_sf = self.upper(parameters, k, log=True)
        return log1mexp(log_sf) if log else -torch.expm1(log_sf)

    def upper(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        log_sf = (k + 1) * parameters[0]
        return log_sf if log else log_sf.exp()

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        p = -torch.expm1(parameters[0])
        return (1 - p) / p, (1 - p) / p.square(), p.log()

    def guess(self, parameters: Parameters, z: Tensor) -> Tensor:
        return (log_ndtr(-z) / parameters[0]).ceil() - 1


def success_logits(d: Any) -> Tensor:
    """Return the log odds of success in float64, from whichever parameter was given."""
    if "logits" in vars(d):
        return d.logits.double()
    probs = d.probs.double().clamp(TINY, 1 - 1e-16)
    return probs.log() - torch.log1p(-probs)
