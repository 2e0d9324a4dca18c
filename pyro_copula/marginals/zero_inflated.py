"""Zero-inflated laws over any discrete base: ``F(k) = gate + (1 - gate) F_base(k)``."""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ..errors import MissingCDFError
from ..special import log_ndtr, ndtri_exp
from .continuous import LOG_2
from .discrete import CountCDF, Parameters
from .registry import BELOW_ONE, TINY, MarginalCDF, lookup, register_cdf


def inflate_log_cdf(gate: Tensor, log_rest: Tensor, log_base: Tensor) -> Tensor:
    """Return ``log(gate + (1 - gate) F)`` from ``log(1 - gate)`` and ``log F``."""
    # Near one the complement has the digits. A gate of exactly zero has a gradient too, as long
    # as the base does not underflow.
    near = log_base > -LOG_2
    plain = (log_base > -600.0) & ~near
    complement = torch.log1p((1 - gate) * torch.expm1(torch.where(near, log_base, 0.0)))
    mixture = gate + (1 - gate) * torch.where(plain, log_base, 0.0).exp()
    deep = torch.logaddexp(gate.clamp(min=TINY).log(), log_rest + log_base)
    deep = torch.where(gate > 0, deep, log_base)
    return torch.where(near, complement, torch.where(plain, mixture.log(), deep))


class ZeroInflatedCountCDF(CountCDF):
    """Zero inflation of one of the package's own laws of counts, ``base``."""

    def __init__(self, base: CountCDF) -> None:
        self.base = base

    def parameters(self, d: Any) -> Parameters:
        return (*gate_of(d), *self.base.parameters(lookup(d.base_dist)[1]))

    def bounds(self, d: Any) -> tuple[Tensor, Tensor]:
        return self.base.bounds(lookup(d.base_dist)[1])

    def lower(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        gate, log_rest, *rest = parameters
        base = self.base.lower(tuple(rest), k, log)
        return inflate_log_cdf(gate, log_rest, base) if log else gate + (1 - gate) * base

    def upper(self, parameters: Parameters, k: Tensor, log: bool) -> Tensor:
        _, log_rest, *rest = parameters
        base = self.base.upper(tuple(rest), k, log)
        return log_rest + base if log else log_rest.exp() * base

    def either(self, parameters: Parameters, k: Tensor, upper: Tensor) -> Tensor:
        gate, log_rest, *rest = parameters
        base = self.base.either(tuple(rest), k, upper)
        below = inflate_log_cdf(gate, log_rest, torch.where(upper, -1.0, base))
        return torch.where(upper, log_rest + base, below)

    def centre(self, parameters: Parameters) -> tuple[Tensor, Tensor, Tensor]:
        gate, log_rest, *rest = parameters
        mean, variance, log_zero = self.base.centre(tuple(rest))
        log_zero = inflate_log_cdf(gate, log_rest, log_zero)
        return (1 - gate) * mean, (1 - gate) * (variance + gate * mean.square()), log_zero

    def guess(self, parameters: Parameters, z: Tensor) -> Tensor:
        _, log_rest, *rest = parameters
        # The base law has the same point at the upper tail S / (1 - gate).
        log_sf = log_ndtr(-z) - log_rest
        positive = log_sf < 0
        base_z = -ndtri_exp(torch.where(positive, log_sf, -1.0))
        return torch.where(positive, self.base.guess(tuple(rest), base_z), 0.0)

    def landmarks(self, parameters: Parameters, m: Tensor, s: Tensor, grid: Tensor) -> Tensor:
        # Zero inflation hides the lower part of the base law between two of its own quantiles.
        base = self.base.guess(parameters[2:], grid.expand(len(grid), *m.shape))
        return torch.cat([self.guess(parameters, m + s * grid), base])

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        return inflated_log_prob(d, value)


@register_cdf(dist.ZeroInflatedDistribution)
class ZeroInflatedCDF(MarginalCDF):
    """Zero inflation of any discrete law with a known cdf."""

    def specialise(self, d: Any) -> MarginalCDF:
        law, base = lookup(d.base_dist)
        if law.is_discrete(base) is not True:
            raise MissingCDFError(
                "marginal_dist",
                "zero-inflated over a discrete law",
                f"a zero-inflated {type(base).__name__}",
                "An atom at zero of a continuous law has no normal score; use a discrete base.",
            )
        if bool((law.bounds(base)[0] != 0).any()):
            raise MissingCDFError(
                "marginal_dist",
                "zero-inflated over a law that starts at 0",
                f"a zero-inflated {type(base).__name__}, which starts elsewhere",
                "Pyro gives its zero no probability. Inflate the untruncated law instead.",
            )
        return ZeroInflatedCountCDF(law) if isinstance(law, CountCDF) else self

    def bounds(self, d: Any) -> tuple[Tensor, Tensor]:
        law, base = lookup(d.base_dist)
        return law.bounds(base)

    def cdf(self, d: Any, value: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        gate, _ = gate_of(d)
        return gate + (1 - gate) * law.cdf(base, value)

    def log_cdf(self, d: Any, value: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return inflate_log_cdf(*gate_of(d), law.log_cdf(base, value))

    def log_sf(self, d: Any, value: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        return gate_of(d)[1] + law.log_sf(base, value)

    def icdf(self, d: Any, u: Tensor) -> Tensor:
        law, base = lookup(d.base_dist)
        gate, _ = gate_of(d)
        return law.icdf(base, ((u - gate) / (1 - gate)).clamp(TINY, BELOW_ONE))

    def accurate_log_prob(self, d: Any, value: Tensor) -> Tensor | None:
        return inflated_log_prob(d, value)


def inflated_log_prob(d: Any, value: Tensor) -> Tensor | None:
    """Return the log mass if that of the base law needs care, and else None."""
    law, base = lookup(d.base_dist)
    density = law.accurate_log_prob(base, value)
    if density is None:
        return None
    gate, log_rest = gate_of(d)
    at_zero = inflate_log_cdf(gate, log_rest, torch.where(value == 0, density, -1.0).double())
    return torch.where(value == 0, at_zero, log_rest + density).to(density.dtype)


def gate_of(d: Any) -> tuple[Tensor, Tensor]:
    """Return the gate and the log of its complement, from whichever parameter was given."""
    if "gate_logits" in vars(d):
        logits = d.gate_logits.double()
        return logits.sigmoid(), logsigmoid(-logits)
    gate = d.gate.double()
    return gate, torch.log1p(-gate.clamp(max=BELOW_ONE))
