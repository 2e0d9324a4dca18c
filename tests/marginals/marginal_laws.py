"""Every law that the package knows, with its scipy counterpart: one scenario for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro.distributions as dist
import scipy.stats as st
import torch
from torch.distributions import constraints, transforms

from pyro_copula import marginals


class SinhArcsinh(transforms.Transform):
    """A user's transform, without a `sign`: ``sinh((asinh(x) + skew) * tail)``."""

    domain = constraints.real
    codomain = constraints.real
    bijective = True

    def __init__(self, skew: Any, tail: Any) -> None:
        super().__init__()
        self.skew, self.tail = skew, tail

    def _call(self, x):
        return torch.sinh((torch.asinh(x) + self.skew) * self.tail)

    def _inverse(self, y):
        return torch.sinh(torch.asinh(y) / self.tail - self.skew)

    def log_abs_det_jacobian(self, x, y):
        inner = (torch.asinh(x) + self.skew) * self.tail
        return torch.log(torch.cosh(inner) * self.tail) - 0.5 * torch.log1p(x.square())


class _SinhArcsinhReference:
    """scipy has no sinh-arcsinh law: its functions, from the normal ones."""

    def __init__(self, skew: float, tail: float) -> None:
        self.skew, self.tail = skew, tail

    def _inverse(self, y):
        return np.sinh(np.arcsinh(y) / self.tail - self.skew)

    def __getattr__(self, name):
        if name in ("ppf", "isf"):
            return lambda u: np.sinh(
                (np.arcsinh(getattr(st.norm, name)(u)) + self.skew) * self.tail
            )
        return lambda y: getattr(st.norm, name)(self._inverse(y))


class _ZeroInflatedReference:
    def __init__(self, base: Any, gate: float) -> None:
        self.base, self.gate = base, gate

    def cdf(self, k):
        return np.where(k < 0, 0.0, self.gate + (1 - self.gate) * self.base.cdf(k))

    def sf(self, k):
        return (1 - self.gate) * self.base.sf(k)

    def ppf(self, u):
        return self.base.ppf(np.maximum((u - self.gate) / (1 - self.gate), 1e-300))

    def isf(self, q):
        return self.base.isf(np.minimum(q / (1 - self.gate), 1 - 1e-16))


class _ShiftedTruncatedReference:
    """The law of ``X - 1`` given ``X > 0``, which starts at zero again."""

    def __init__(self, base: Any) -> None:
        self.base = base

    def cdf(self, k):
        zero, positive = self.base.cdf(0), self.base.sf(0)
        return np.where(np.asarray(k) < 0, 0.0, (self.base.cdf(k + 1) - zero) / positive)

    def sf(self, k):
        return self.base.sf(np.maximum(k + 1, 0)) / self.base.sf(0)

    def ppf(self, u):
        return self.base.ppf(self.base.cdf(0) + u * self.base.sf(0)) - 1

    def isf(self, q):
        return self.base.isf(q * self.base.sf(0)) - 1


@dataclass(frozen=True)
class Law:
    """One law: how to build it from tensors, at which parameters, and scipy's version of it."""

    build: Callable[..., Any]
    parameters: tuple[float, ...]
    reference: Any
    discrete: bool = False

    def make(self, dtype: torch.dtype = torch.float64) -> Any:
        return self.build(*self.tensors(dtype))

    def tensors(self, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
        return [torch.tensor([p], dtype=dtype) for p in self.parameters]

    def points(self, small: float = 1e-12) -> torch.Tensor:
        """Return ordinary values and two in the tails, shape ``(points, 1)``."""
        y = list(self.reference.ppf(np.array([small, 1e-3, 0.2, 0.45, 0.8, 0.99])))
        y.append(float(self.reference.isf(small)))
        return torch.tensor(sorted(set(y)))[:, None]


def _logit_logistic(loc, scale):
    uniform = dist.Uniform(torch.zeros_like(loc), torch.ones_like(loc))
    steps = [transforms.SigmoidTransform().inv, transforms.AffineTransform(loc, scale)]
    return dist.TransformedDistribution(uniform, steps)


def _negated_gamma(shape, rate):
    return dist.TransformedDistribution(
        dist.Gamma(shape, rate), [transforms.AffineTransform(1.0, -2.0)]
    )


class _NegatedGammaReference:
    def __init__(self, shape: float, rate: float) -> None:
        self.base = st.gamma(shape, scale=1 / rate)

    def __getattr__(self, name):
        swap = {"cdf": "sf", "sf": "cdf", "logcdf": "logsf", "logsf": "logcdf"}
        if name in swap:
            return lambda y: getattr(self.base, swap[name])((1 - y) / 2)
        return lambda u: 1 - 2 * getattr(self.base, {"ppf": "isf", "isf": "ppf"}[name])(u)


def _nbinom(total, p):
    return st.nbinom(total, 1 - p)


CONTINUOUS = {
    "normal": Law(dist.Normal, (0.5, 2.0), st.norm(0.5, 2.0)),
    "lognormal": Law(dist.LogNormal, (0.3, 0.7), st.lognorm(0.7, scale=np.exp(0.3))),
    "student_t": Law(dist.StudentT, (3.5, 0.4, 1.3), st.t(3.5, 0.4, 1.3)),
    "laplace": Law(dist.Laplace, (0.5, 2.0), st.laplace(0.5, 2.0)),
    "logistic": Law(dist.Logistic, (0.5, 2.0), st.logistic(0.5, 2.0)),
    "logit_logistic": Law(_logit_logistic, (0.5, 2.0), st.logistic(0.5, 2.0)),
    "cauchy": Law(dist.Cauchy, (0.5, 2.0), st.cauchy(0.5, 2.0)),
    "gumbel": Law(dist.Gumbel, (0.5, 2.0), st.gumbel_r(0.5, 2.0)),
    "weibull": Law(dist.Weibull, (2.0, 1.4), st.weibull_min(1.4, scale=2.0)),
    "exponential": Law(dist.Exponential, (1.7,), st.expon(scale=1 / 1.7)),
    "half_normal": Law(dist.HalfNormal, (2.0,), st.halfnorm(scale=2.0)),
    "half_cauchy": Law(dist.HalfCauchy, (2.0,), st.halfcauchy(scale=2.0)),
    "uniform": Law(dist.Uniform, (-1.0, 3.0), st.uniform(-1.0, 4.0)),
    "gamma": Law(dist.Gamma, (2.3, 1.7), st.gamma(2.3, scale=1 / 1.7)),
    "chi2": Law(dist.Chi2, (3.0,), st.chi2(3.0)),
    "inverse_gamma": Law(dist.InverseGamma, (3.5, 2.0), st.invgamma(3.5, scale=2.0)),
    "beta": Law(dist.Beta, (2.0, 0.7), st.beta(2.0, 0.7)),
    "pareto": Law(dist.Pareto, (2.0, 3.5), st.pareto(3.5, scale=2.0)),
    "negated_gamma": Law(_negated_gamma, (2.3, 1.7), _NegatedGammaReference(2.3, 1.7)),
    "sinh_arcsinh": Law(
        lambda skew, tail: dist.TransformedDistribution(
            dist.Normal(torch.zeros_like(skew), torch.ones_like(tail)), [SinhArcsinh(skew, tail)]
        ),
        (0.3, 0.8),
        _SinhArcsinhReference(0.3, 0.8),
    ),
    "sinh_arcsinh_law": Law(
        lambda skew, tail: marginals.SinhArcsinh(torch.zeros_like(skew), 1.0, skew, tail),
        (-0.4, 1.3),
        _SinhArcsinhReference(-0.4, 1.3),
    ),
}

DISCRETE = {
    "poisson": Law(dist.Poisson, (3.2,), st.poisson(3.2), True),
    "poisson_large": Law(dist.Poisson, (4000.0,), st.poisson(4000.0), True),
    "negative_binomial": Law(
        lambda total, p: dist.NegativeBinomial(total, probs=p), (2.5, 0.6), _nbinom(2.5, 0.6), True
    ),
    "negative_binomial_logits": Law(
        lambda total, t: dist.NegativeBinomial(total, logits=t),
        (0.4, 2.0),
        _nbinom(0.4, 1 / (1 + np.exp(-2.0))),
        True,
    ),
    "gamma_poisson": Law(dist.GammaPoisson, (2.0, 0.3), st.nbinom(2.0, 0.3 / 1.3), True),
    "binomial": Law(
        lambda p: dist.Binomial(torch.full_like(p.detach(), 12.0), probs=p),
        (0.3,),
        st.binom(12, 0.3),
        True,
    ),
    "bernoulli": Law(lambda p: dist.Bernoulli(probs=p), (0.3,), st.bernoulli(0.3), True),
    "geometric": Law(lambda p: dist.Geometric(probs=p), (0.2,), st.geom(0.2, loc=-1), True),
    "zero_inflated_poisson": Law(
        lambda rate, gate: dist.ZeroInflatedPoisson(rate, gate=gate),
        (4.0, 0.2),
        _ZeroInflatedReference(st.poisson(4.0), 0.2),
        True,
    ),
    "zero_inflated_negative_binomial": Law(
        lambda total, logits, gate_logits: dist.ZeroInflatedNegativeBinomial(
            total, logits=logits, gate_logits=gate_logits
        ),
        (2.5, 0.7, -1.0),
        _ZeroInflatedReference(_nbinom(2.5, 1 / (1 + np.exp(-0.7))), 1 / (1 + np.exp(1.0))),
        True,
    ),
    "zero_inflated_binomial": Law(
        lambda p, gate: dist.ZeroInflatedDistribution(
            dist.Binomial(torch.full_like(p.detach(), 9.0), probs=p), gate=gate
        ),
        (0.4, 0.25),
        _ZeroInflatedReference(st.binom(9, 0.4), 0.25),
        True,
    ),
    "shifted_zero_truncated_poisson": Law(
        lambda rate: marginals.Shifted(marginals.ZeroTruncated(dist.Poisson(rate)), -1),
        (3.2,),
        _ShiftedTruncatedReference(st.poisson(3.2)),
        True,
    ),
    "shifted_zero_truncated_negative_binomial": Law(
        lambda total, p: marginals.Shifted(
            marginals.ZeroTruncated(dist.NegativeBinomial(total, probs=p)), -1
        ),
        (2.5, 0.6),
        _ShiftedTruncatedReference(_nbinom(2.5, 0.6)),
        True,
    ),
}

LAWS = {**CONTINUOUS, **DISCRETE}
