"""Priors on the global parameters, each with its reason.

They are weak: they rule out what cannot be, and leave the rest to the data. Locations and scales
are in units of the observed values' spread (the families standardise), so one set serves all data.
Replace any of them with ``CopulaGNN(..., priors={"rho": dist.Beta(18, 2)})``.
"""

from __future__ import annotations

from typing import Any

import pyro.distributions as dist
import torch
from pyro.distributions import constraints, transforms


def default_prior(name: str) -> Any:
    """The prior of one global parameter, by its name.

    - ``alpha``, ``rho``: a Beta(4, 1) stretched to (-1, 1). On sparse graphs neighbours are
      visibly alike only near 1; repulsion is possible but rare.
    - ``tau``, ``beta``, ``scale``, ``strength``: LogNormal(0, 1), a factor of seven either way
      around the observed spread.
    - ``gamma``: LogNormal(-1, 1), correlation lengths of a few edges.
    - ``nugget``: uniform, any share of independent noise.
    - ``dispersion``: HalfNormal(2), which shrinks to Poisson unless the data object.
    - ``dispersion_power``: Normal(0, 0.5), a mild trend of the dispersion with the mean.
    - ``df``: Gamma(2, 0.1), away from zero and from infinity (Juarez and Steel, 2010).
    - ``skew``: Normal(0, 0.5); ``tailweight``: LogNormal(0, 0.3): a normal law unless the data
      object.
    - ``concentration``: LogNormal(0.5, 1), from nearly exponential to nearly normal.
    - ``gate``: Beta(1, 4), few zeros beyond those of the law itself.
    """
    priors = {
        "alpha": _signed_beta,
        "rho": _signed_beta,
        "tau": lambda: dist.LogNormal(0.0, 1.0),
        "beta": lambda: dist.LogNormal(0.0, 1.0),
        "scale": lambda: dist.LogNormal(0.0, 1.0),
        "strength": lambda: dist.LogNormal(0.0, 1.0),
        "gamma": lambda: dist.LogNormal(-1.0, 1.0),
        "nugget": lambda: dist.Uniform(0.0, 1.0),
        "dispersion": lambda: dist.HalfNormal(2.0),
        "dispersion_power": lambda: dist.Normal(0.0, 0.5),
        "df": lambda: dist.Gamma(2.0, 0.1),
        "skew": lambda: dist.Normal(0.0, 0.5),
        "tailweight": lambda: dist.LogNormal(0.0, 0.3),
        "concentration": lambda: dist.LogNormal(0.5, 1.0),
        "gate": lambda: dist.Beta(1.0, 4.0),
    }
    return priors.get(name, lambda: dist.Normal(0.0, 1.0))()


class _SignedBeta(dist.TransformedDistribution):
    """A beta law stretched to (-1, 1)."""

    support = constraints.interval(-1.0, 1.0)

    def __init__(self, concentration1: float, concentration0: float) -> None:
        super().__init__(
            dist.Beta(torch.tensor(concentration1), torch.tensor(concentration0)),
            [transforms.AffineTransform(-1.0, 2.0)],
        )


def _signed_beta() -> Any:
    return _SignedBeta(4.0, 1.0)
