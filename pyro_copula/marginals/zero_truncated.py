"""A law of counts given that the count is positive: group sizes, stays in days, citations."""

from __future__ import annotations

from typing import Any

import torch
from pyro.distributions import TorchDistribution, ZeroInflatedDistribution
from pyro.distributions.torch_distribution import ExpandedDistribution
from torch import Tensor
from torch.distributions import constraints

from ..errors import InvalidArgumentError
from ..special import log_ndtr, ndtri_exp
from .continuous import log1mexp
from .count_base import check_count_base, count_bounds, log_prob_from
from .discrete import CountCDF, Parameters
from .quantiles import from_normal_score
from .registry import BELOW_ONE, TINY, MarginalCDF, lookup, register_cdf
from .tails import log_sf, result_dtype

# Below this variance a law near 1 is all but one point, and the closed form is a difference of
# nearly equal numbers; there the tail probabilities fall by a factor of 500 or so per term.
SMALL_VARIANCE, TERMS = 1e-3, 8


class ZeroTruncated(TorchDistribution):
    r"""A law of counts, given that the count is positive.

    .. math::
        P(Y = k) = \frac{P(X = k)}{P(X > 0)}, \qquad k = 1, 2, \dots, \qquad
        E\,Y = \frac{E\,X}{P(X > 0)}, \qquad
        \operatorname{Var} Y = \frac{\operatorname{Var} X}{P(X > 0)} - P(X = 0)\, (E\,Y)^2.

    All of it keeps its digits when :math:`P(X > 0)` is tiny, where the law tends to the point 1
    (or, for the negative binomial law, to the logarithmic law). Draws are quantiles of uniform
    numbers. A zero-inflated base has the same truncation as the law inside it.

    Args:
        base_dist: The law of :math:`X`: any discrete law that starts at 0 and has a known cdf.
        validate_args: Whether to check parameters and values; Pyro's default if None.

    Raises:
        InvalidArgumentError: If ``base_dist`` is not a law of counts that starts at 0, or can
            never be positive.

    Example:
        >>> import pyro.distributions as dist
        >>> d = ZeroTruncated(dist.Poisson(torch.tensor([1e-6, 2.0])))
        >>> d
        ZeroTruncated(Poisson(rate: torch.Size([2])))
        >>> d.log_prob(torch.tensor([1.0, 1.0])).exp()
        tensor([1.0000, 0.3130])
        >>> d.mean
        tensor([1.0000, 2.3130])
    """

    arg_constraints: dict[str, constraints.Constraint] = {}

    def __init__(self, base_dist: Any, *, validate_args: bool | None = None) -> None:
        check_count_base(base_dist, "ZeroTruncated")
        lower, _ = count_bounds(base_dist)
        if bool((lower != 0).any()):
            name, first = type(base_dist).__name__, lower[lower != 0][0].item()
            raise InvalidArgumentError(
                "base_dist",
                "a law of counts that starts at 0",
                f"{name}, which starts at {first:g}",
                "A law that starts at 1 has no zero to take away: use it as it is.",
            )
        self.base_dist = base_dist
        super().__init__(base_dist.batch_shape, validate_args=validate_args)
        if self._validate_args and bool((self._log_positive == -torch.inf).any()):
            raise InvalidArgumentError(
                "base_dist",
                "a law that can be positive",
                f"{type(base_dist).__name__} with P(X > 0) = 0",
                "Look for a rate, a probability or a total count of exactly 0.",
            )

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> constraints.Constraint:
        """The positive integers, up to the end of the base law if it has one."""
        _, upper = count_bounds(self.base_dist)
        if bool((upper == torch.inf).all()):
            return constraints.positive_integer
        return constraints.integer_interval(1, upper)

    def expand(self, batch_shape: Any, _instance: Any = None) -> ZeroTruncated:
        new = self._get_checked_instance(ZeroTruncated, _instance)
        batch_shape = torch.Size(batch_shape)
        new.base_dist = self.base_dist.expand(batch_shape)
        super(ZeroTruncated, new).__init__(batch_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @torch.no_grad()
    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        z = torch.randn(self._extended_shape(torch.Size(sample_shape)), dtype=torch.float64)
        return from_normal_score(self, z).to(result_dtype(self, None))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        one = torch.ones((), dtype=torch.float64)
        return log_prob_from(self.base_dist, value, one) - self._log_positive

    @property
    def mean(self) -> Tensor:
        return self._moments()[0]

    @property
    def variance(self) -> Tensor:
        return self._moments()[1]

    @property
    def _log_positive(self) -> Tensor:
        """``log P(X > 0)``."""
        return log_sf(self.base_dist, torch.zeros((), dtype=torch.float64))

    def _moments(self) -> tuple[Tensor, Tensor]:
        law, d = lookup(self)
        if isinstance(law, CountCDF):
            mean, variance, _ = law.centre(law.parameters(d))
        else:
            log_positive = self._log_positive.double()
            base = self.base_dist.mean.double(), self.base_dist.variance.double()
            mean, variance = _truncated_moments(*base, log1mexp(log_positive), log_positive)
        dtype = result_dtype(self, None)
        return mean.expand(self.batch_shape).to(dtype), variance.expand(self.batch_shape).to(dtype)

    def __repr__(self) -> str:
        return f"ZeroTruncated({self.base_dist!r})"


class ZeroTruncatedCountCDF(CountCDF):
    """Truncation of one of the package's own laws of counts, ``base``."""

    def __init__(self, base: CountCDF) -> None:
        self.base = base

    def parameters(self, d: Any) -> Parameters:
        inner = _without_inflation(d.base_dist)
        own = self.base.parameters(inner)
        zero = torch.zeros((), dtype=torch.float64)
        log_zero, log_positive = (
            f(own, zero, log=True) for f in (self.base.lower, self.base.upper)
        )
        return log_zero, log_positive, self.base.bounds(inner)[1], *own

    def lower(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        log_p = self.either(parameters, k, torch.zeros_like(k, dtype=torch.bool))
        return log_p if log else log_p.exp()

    def upper(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        log_p = self.either(parameters, k, torch.ones_like(k, dtype=torch.bool))
        return log_p if log else log_p.exp()

    def either(self, parameters: Parameters, k: Tensor, upper: Tensor) -> Tensor:
        log_zero, log_positive, _, *rest = parameters
        # P(Y <= k) is 1 - S(k) / S(0), or (F(k) - F(0)) / S(0) where F(k) is small.
        from_upper = upper | self.in_upper_half(parameters, k)
        log_base = self.base.either(tuple(rest), k, from_upper)
        log_ratio = (log_base - log_positive).clamp(max=-TINY)
        complement = log1mexp(torch.where(from_upper, log_ratio, -1.0))
        share = log1mexp(torch.where(from_upper, -1.0, log_zero - log_base).clamp(max=-TINY))
        below = torch.where(from_upper, complement, log_base + share - log_positive)
        return torch.where(upper, log_ratio, below)

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        log_zero, log_positive, last, *rest = parameters
        mean, variance, _ = self.base.centre(tuple(rest))
        mean, variance = _truncated_moments(mean, variance, log_zero, log_positive)
        small = (variance < SMALL_VARIANCE) & (mean < 1.5)
        if bool(small.any()):
            # E[Y - 1] and E[(Y - 1)^2] as sums of P(Y > k) and (2 k - 1) P(Y > k).
            k = torch.arange(1.0, TERMS + 1, dtype=torch.float64).reshape(-1, *[1] * mean.ndim)
            log_ratio = self.base.upper(tuple(rest), torch.minimum(k, last - 1), log=True)
            tail = torch.where(k < last, torch.exp(log_ratio - log_positive), 0.0)
            first = tail.sum(0)
            second = ((2 * k - 1) * tail).sum(0) - first.square()
            mean = torch.where(small, 1 + first, mean)
            variance = torch.where(small, second, variance)
        return mean, variance, torch.full_like(mean, -torch.inf)

    def in_upper_half(self, parameters: Parameters, k: Tensor) -> Tensor:
        return self.base.in_upper_half(parameters[3:], k)

    def guess(self, parameters: Parameters, z: Tensor) -> Tensor:
        # The base law has the same point at the upper tail S(0) P(Y > k).
        log_tail = log_ndtr(-z) + parameters[1]
        return self.base.guess(parameters[3:], -ndtri_exp(log_tail))


@register_cdf(ZeroTruncated)
class ZeroTruncatedCDF(MarginalCDF):
    """Truncation of any discrete law with a known cdf."""

    def specialise(self, d: Any) -> MarginalCDF:
        law, _ = lookup(_without_inflation(d.base_dist))
        return ZeroTruncatedCountCDF(law) if isinstance(law, CountCDF) else self

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        zero = law.cdf(base, torch.zeros_like(value))
        return (law.cdf(base, value) - zero) / (1 - zero)

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return law.log_sf(base, value) - law.log_sf(base, torch.zeros_like(value))

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        zero = law.cdf(base, torch.zeros_like(u))
        return law.icdf(base, (zero + (1 - zero) * u).clamp(TINY, BELOW_ONE))

    def isf(self, d: Any, q: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return law.isf(base, law.sf(base, torch.zeros_like(q)) * q)


def _truncated_moments(
    mean: Tensor, variance: Tensor, log_zero: Tensor, log_positive: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the moments given that the count is positive."""
    # In logarithms: a division by a tiny probability squares it in the derivative.
    first = torch.exp(mean.log() - log_positive)
    return first, torch.exp(variance.log() - log_positive) - log_zero.exp() * first.square()


def _without_inflation(d: Any) -> Any:
    """Return the law under zero inflation, which has the same truncation."""
    while isinstance(d, (ExpandedDistribution, ZeroInflatedDistribution)):
        d = d.base_dist
    return d
