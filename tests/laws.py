"""Every law the package covers, each beside its scipy counterpart.

``make(n)`` returns the parameters by name, as float64 tensors of length n, the function that
builds the Pyro distribution from them, and the frozen scipy distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro.distributions as dist
import torch
from scipy import stats


@dataclass(frozen=True)
class Law:
    """A law with parameters, ready to be put at n nodes."""

    name: str
    build: Callable[..., Any]
    scipy: Callable[..., Any]
    ranges: dict[str, tuple[float, float]]
    discrete: bool = False

    def parameters(self, n: int, seed: int = 0) -> dict[str, torch.Tensor]:
        """Parameters of length n, drawn uniformly from the ranges."""
        rng = np.random.default_rng(seed)
        return {k: torch.tensor(rng.uniform(a, b, n)) for k, (a, b) in self.ranges.items()}

    def frozen(self, parameters: dict[str, torch.Tensor]) -> Any:
        """The scipy distribution with these parameters."""
        return self.scipy(**{k: v.detach().numpy() for k, v in parameters.items()})

    def __str__(self) -> str:
        return self.name


class ZeroInflated:
    """The zero-inflated version of a discrete scipy distribution."""

    def __init__(self, base: Any, gate: np.ndarray) -> None:
        self.base, self.gate = base, gate

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(y) < 0, 0.0, self.gate + (1 - self.gate) * self.base.cdf(y))

    def sf(self, y: np.ndarray) -> np.ndarray:
        return np.where(np.asarray(y) < 0, 1.0, (1 - self.gate) * self.base.sf(y))

    def logpmf(self, y: np.ndarray) -> np.ndarray:
        return np.log(np.where(y == 0, self.gate, 0.0) + (1 - self.gate) * self.base.pmf(y))

    def ppf(self, u: np.ndarray) -> np.ndarray:
        inner = self.base.ppf(np.clip((u - self.gate) / (1 - self.gate), 0, 1))
        return np.where(u <= self.cdf(0.0), 0.0, inner)


LAWS = [
    Law(
        "Normal",
        dist.Normal,
        lambda loc, scale: stats.norm(loc, scale),
        {"loc": (-2, 2), "scale": (0.5, 2)},
    ),
    Law(
        "LogNormal",
        dist.LogNormal,
        lambda loc, scale: stats.lognorm(scale, scale=np.exp(loc)),
        {"loc": (-1, 1), "scale": (0.3, 0.8)},
    ),
    Law(
        "StudentT",
        dist.StudentT,
        lambda df, loc, scale: stats.t(df, loc, scale),
        {"df": (3, 9), "loc": (-2, 2), "scale": (0.5, 2)},
    ),
    Law(
        "Laplace",
        dist.Laplace,
        lambda loc, scale: stats.laplace(loc, scale),
        {"loc": (-2, 2), "scale": (0.5, 2)},
    ),
    Law(
        "Exponential",
        dist.Exponential,
        lambda rate: stats.expon(scale=1 / rate),
        {"rate": (0.5, 2)},
    ),
    Law(
        "Gamma",
        dist.Gamma,
        lambda concentration, rate: stats.gamma(concentration, scale=1 / rate),
        {"concentration": (0.5, 6), "rate": (0.5, 2)},
    ),
    Law(
        "Weibull",
        dist.Weibull,
        lambda scale, concentration: stats.weibull_min(concentration, scale=scale),
        {"scale": (0.5, 2), "concentration": (0.7, 3)},
    ),
    Law(
        "Beta",
        dist.Beta,
        lambda concentration1, concentration0: stats.beta(concentration1, concentration0),
        {"concentration1": (0.5, 5), "concentration0": (0.5, 5)},
    ),
    Law("Poisson", dist.Poisson, lambda rate: stats.poisson(rate), {"rate": (4, 12)}, True),
    Law(
        "NegativeBinomial",
        lambda total_count, logits: dist.NegativeBinomial(total_count, logits=logits),
        lambda total_count, logits: stats.nbinom(total_count, 1 / (1 + np.exp(logits))),
        {"total_count": (1.5, 6), "logits": (0.2, 1.2)},
        True,
    ),
    Law(
        "GammaPoisson",
        dist.GammaPoisson,
        lambda concentration, rate: stats.nbinom(concentration, rate / (1 + rate)),
        {"concentration": (2, 6), "rate": (0.2, 0.6)},
        True,
    ),
    Law(
        "Binomial",
        lambda probs: dist.Binomial(12, probs=probs),
        lambda probs: stats.binom(12, probs),
        {"probs": (0.3, 0.7)},
        True,
    ),
    Law(
        "Bernoulli",
        dist.Bernoulli,
        lambda probs: stats.bernoulli(probs),
        {"probs": (0.3, 0.7)},
        True,
    ),
    Law(
        "Geometric",
        dist.Geometric,
        lambda probs: stats.geom(probs, loc=-1),
        {"probs": (0.1, 0.3)},
        True,
    ),
    Law(
        "ZeroInflatedPoisson",
        lambda gate, rate: dist.ZeroInflatedPoisson(rate, gate=gate),
        lambda gate, rate: ZeroInflated(stats.poisson(rate), gate),
        {"gate": (0.1, 0.25), "rate": (4, 9)},
        True,
    ),
    Law(
        "ZeroInflatedNegativeBinomial",
        lambda gate, total_count, logits: dist.ZeroInflatedNegativeBinomial(
            total_count, logits=logits, gate=gate
        ),
        lambda gate, total_count, logits: ZeroInflated(
            stats.nbinom(total_count, 1 / (1 + np.exp(logits))), gate
        ),
        {"gate": (0.1, 0.25), "total_count": (3, 6), "logits": (0.5, 1.0)},
        True,
    ),
]
