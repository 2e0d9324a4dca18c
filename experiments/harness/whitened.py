"""NUTS in coordinates in which the posterior is about standard normal.

The curvature of the log density at its mode says which they are. It is a linear change of
variables: the target is the same, the steps are fewer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide.initialization import init_to_median
from pyro.infer.mcmc.util import initialize_model
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from scipy.optimize import minimize
from torch import Tensor

from pyro_copula.calibration import Draws

_STEP = 1e-2


@dataclass(frozen=True)
class WhitenedNUTS:
    """A sampler for programs with few parameters.

    Attributes:
        num_draws: Draws of all chains together.
        num_warmup: Warm-up steps of each chain.
        num_chains: Chains, one after the other.
    """

    num_draws: int
    num_warmup: int = 60
    num_chains: int = 1

    def __call__(self, model: Callable[[], Any], y: Any, seed: int) -> Draws:
        """Draws from the posterior of a program that is conditioned on its data."""
        pyro.set_rng_seed(seed)
        start, energy, transforms, _ = initialize_model(
            model, init_strategy=init_to_median(num_samples=15)
        )
        shapes = {name: part.shape for name, part in start.items()}

        def split(u: Tensor) -> dict[str, Tensor]:
            parts = u.split([shape.numel() for shape in shapes.values()], dim=-1)
            pairs = zip(shapes.items(), parts, strict=True)
            return {name: part.reshape((*u.shape[:-1], *shape)) for (name, shape), part in pairs}

        def with_gradient(u: np.ndarray) -> tuple[float, np.ndarray]:
            point = torch.tensor(u, requires_grad=True)
            value = energy(split(point))
            (gradient,) = torch.autograd.grad(value, point)
            if not math.isfinite(value.detach()) or not bool(torch.isfinite(gradient).all()):
                return math.inf, np.zeros_like(u)
            return float(value.detach()), gradient.numpy()

        first = torch.cat([part.reshape(-1) for part in start.values()]).detach().double().numpy()
        mode, root = _curvature(with_gradient, first)
        chains, divergences = [], 0
        length = -(-self.num_draws // self.num_chains)
        for k in range(self.num_chains):
            pyro.set_rng_seed(int(np.random.SeedSequence([seed, k]).generate_state(1)[0]))
            kernel = NUTS(
                potential_fn=lambda p: energy(split(mode + root @ p["white"])), full_mass=True
            )
            mcmc = MCMC(
                kernel,
                length,
                self.num_warmup,
                initial_params={"white": torch.randn(len(mode), dtype=torch.float64)},
                disable_progbar=True,
            )
            mcmc.run()
            white = mcmc.get_samples()["white"]
            chains.append(split(mode + white @ root.T))
            divergences += sum(len(some) for some in mcmc.diagnostics()["divergences"].values())
        stacked = {
            name: torch.stack([transforms[name].inv(chain[name]) for chain in chains])
            for name in shapes
        }
        values = {name: draws.flatten(0, 1) for name, draws in stacked.items()}
        flat = torch.cat([x.reshape(*x.shape[:2], -1) for x in stacked.values()], -1)
        health = {
            "max_r_hat": float(split_gelman_rubin(flat).max()),
            "min_effective_sample_size": float(effective_sample_size(flat).min()),
            "divergences": float(divergences),
        }
        return Draws(values, health)


def _curvature(with_gradient: Callable[..., Any], start: np.ndarray) -> tuple[Tensor, Tensor]:
    """The mode, and a square root of the covariance that the curvature there implies."""
    with np.errstate(all="ignore"):
        found = minimize(with_gradient, start, jac=True, method="BFGS", options={"gtol": 0.05})
    mode = found.x if math.isfinite(found.fun) else start
    axes = _STEP * np.eye(len(mode))
    rows = [with_gradient(mode + a)[1] - with_gradient(mode - a)[1] for a in axes]
    values, vectors = np.linalg.eigh((np.stack(rows) + np.stack(rows).T) / (4 * _STEP))
    root = vectors / np.sqrt(np.maximum(values, 0.1))
    return torch.tensor(mode), torch.tensor(root)
