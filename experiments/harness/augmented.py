"""Other ways to make the joint law of counts exact with latents, written out to be compared.

``discrete="augment"`` of the library samples a normal score for every node, drawn into its atom
given the nodes before it along the factor. Here are where in its atom a node lies, and scores that
expectation propagation guides with sites that were found once and are then held fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from torch import Tensor

import pyro_copula as pc
from pyro_copula.linalg.numeric import Factor
from pyro_copula.rectangle.probability import Box
from pyro_copula.rectangle.sites import Sites

_STEPS, _RATE = 300, 0.03


Build = Callable[[], tuple[Any, pc.SparsePrecision]]
Density = Callable[[Any, pc.SparsePrecision], Tensor]


def uniform_in_atoms(build: Build, y: Tensor) -> Density:
    """The density of counts and of where in their atoms they are."""

    def density(law: Any, K: pc.SparsePrecision) -> Tensor:
        place = pyro.sample("place", dist.Uniform(torch.zeros_like(y), 1.0).to_event(1))
        log_atom = pc.marginals.log_prob(law, y)
        below = torch.where(y > 0, pc.marginals.cdf(law, (y - 1).clamp(min=0)), 0.0)
        z = torch.special.ndtri((below + place * log_atom.exp()).clamp(1e-12, 1 - 1e-12))
        standard = dist.Normal(torch.zeros_like(y), 1.0)
        copula = pc.GaussianCopula(standard, precision=K).log_prob(z) - standard.log_prob(z).sum()
        return copula + log_atom.sum()

    return density


def guided_scores(build: Build, y: Tensor) -> Density:
    """The density of counts and of latent scores that fixed sites guide.

    The sites are those of expectation propagation at the mode of its own posterior. If they
    followed the parameters, the density at given scores would not have the gradient it is given.
    """
    law, K = pyro.condition(build, data=_mode(build, y))()
    with torch.no_grad():
        found = Box(K, *_ends(law, K, y), torch.full((len(y), 1), 0.5, dtype=torch.float64))
        sites = found.converged_sites.values[:2]

    def density(law: Any, K: pc.SparsePrecision) -> Tensor:
        scores = pyro.sample("scores", dist.Normal(torch.zeros_like(y), 1.0).to_event(1))
        uniforms = torch.special.ndtr(scores).clamp(1e-300, 1 - 1e-16).unsqueeze(-1)
        return _FixedBox(K, *_ends(law, K, y), uniforms, sites=sites).log_prob()

    return density


#: By name, what makes the density of counts and latents from priors and counts.
DENSITIES = {"uniform": uniform_in_atoms, "guided": guided_scores}


def _mode(build: Build, y: Tensor) -> dict[str, Tensor]:
    """The most probable parameters under expectation propagation's likelihood."""

    def model() -> None:
        law, K = build()
        pyro.sample("y", pc.GaussianCopula(law, precision=K, discrete="ep"), obs=y)

    pyro.clear_param_store()
    guide = AutoDelta(model)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": _RATE}), Trace_ELBO())
    for _ in range(_STEPS):
        svi.step()
    return {name: value.detach() for name, value in guide.median().items()}


class _FixedBox(Box):
    """A box whose particles are guided by given ``T`` and ``eta``."""

    def __init__(self, *args: Any, sites: np.ndarray) -> None:
        super().__init__(*args)
        self.sites = sites

    @cached_property
    def guide(self) -> Sites:
        T, eta = self.sites
        matrix = self._matrix()
        matrix[: len(T)] += T
        factor = Factor(self.symbolic, self.symbolic.plan, self.pool, matrix)
        nothing = np.full((2, len(T)), np.nan)
        values = np.stack([T, eta, factor.solve(eta[None])[0]])
        return Sites(values, factor, np.nan, nothing, nothing[0], 0, np.nan)


def _ends(law: Any, K: pc.SparsePrecision, y: Tensor) -> list[Tensor]:
    """The ends of the latent vector's intervals; infinite ones have no derivative."""
    ends = []
    for z in pc.marginals.normal_score_limits(law, y):
        finite = torch.isfinite(z)
        ends.append(torch.where(finite, torch.where(finite, z, 0.0) * K.scale(), z))
    return ends
