"""The sampler that is checked unless another one is given: NUTS, as Pyro has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyro
import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide.initialization import init_to_uniform
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from torch import Tensor

#: More parameters than this have a diagonal mass matrix: a dense one needs a longer warm-up.
_MAX_DENSE = 30

#: R-hat and the effective sample size need so many draws of a chain.
_MIN_DRAWS = 4


@dataclass(frozen=True)
class Draws:
    """What a sampler may return in place of a plain dictionary: draws, and how it went.

    Attributes:
        values: Draws by the name of their site, each ``(num_draws, *shape)``.
        health: What the sampler says of itself, one number a name. ``max_r_hat``,
            ``min_effective_sample_size`` and ``divergences`` are summarised in words.

    Example:
        >>> Draws({"rho": torch.rand(99)}, {"divergences": 0})
        Draws(rho (99,); divergences 0)
    """

    values: Mapping[str, Tensor]
    health: Mapping[str, float] = field(default_factory=dict)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tuple(draws.shape)}" for name, draws in self.values.items())
        health = ", ".join(f"{name} {value:g}" for name, value in self.health.items())
        return f"Draws({shapes}{'; ' if health else ''}{health})"


@dataclass(frozen=True)
class NUTSSampler:
    """Pyro's NUTS with a short warm-up, started anywhere in the space of the parameters.

    Attributes:
        num_draws: Draws of all chains together, before thinning.
        num_warmup: Warm-up steps of each chain.
        num_chains: Chains, run one after the other: replications are what runs in parallel.
        target_accept_prob: As in ``pyro.infer.NUTS``.

    Example:
        >>> import pyro.distributions as dist
        >>> def model():
        ...     mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        ...     pyro.sample("y", dist.Normal(mu, 1.0), obs=torch.tensor(2.0))
        >>> NUTSSampler(num_draws=50, num_warmup=50)(model, None, seed=1)
        Draws(mu (50,); max_r_hat ..., min_effective_sample_size ..., divergences 0)
    """

    num_draws: int = 400
    num_warmup: int = 200
    num_chains: int = 1
    target_accept_prob: float = 0.8

    def __call__(self, model: Callable[[], Any], y: Any, seed: int) -> Draws:
        """Draws from the posterior of a program that is conditioned on its data."""
        length = -(-self.num_draws // self.num_chains)
        chains, divergences = [], 0
        for k in range(self.num_chains):
            pyro.set_rng_seed(int(np.random.SeedSequence([seed, k]).generate_state(1)[0]))
            kernel = NUTS(
                model,
                target_accept_prob=self.target_accept_prob,
                full_mass=_is_small(model),
                init_strategy=init_to_uniform,
            )
            mcmc = MCMC(kernel, length, self.num_warmup, disable_progbar=True)
            mcmc.run()
            chains.append(mcmc.get_samples())
            divergences += sum(len(some) for some in mcmc.diagnostics()["divergences"].values())
        stacked = {name: torch.stack([chain[name] for chain in chains]) for name in chains[0]}
        values = {name: draws.flatten(0, 1) for name, draws in stacked.items()}
        return Draws(values, {**_mixing(stacked.values()), "divergences": divergences})


def _mixing(draws: Iterable[Tensor]) -> dict[str, float]:
    """The largest R-hat and the smallest effective sample size of draws by chain."""
    flat = torch.cat([x.flatten(2) if x.dim() > 2 else x[..., None] for x in draws], dim=-1)
    if flat.shape[1] < _MIN_DRAWS:
        return {}
    r_hat, size = split_gelman_rubin(flat), effective_sample_size(flat)
    moving = flat.flatten(0, 1).std(0) > 0  # the corner of a Cholesky factor is always 1
    if not bool(moving.any()):
        return {}
    return {
        "max_r_hat": float(r_hat[moving].max()),
        "min_effective_sample_size": float(size[moving].min()),
    }


def _is_small(model: Callable[[], Any]) -> bool:
    """Whether there are few enough parameters for a dense mass matrix."""
    with torch.no_grad(), pyro.poutine.block():
        trace = pyro.poutine.trace(model).get_trace()
    sizes = [
        site["value"].numel()
        for site in trace.nodes.values()
        if site["type"] == "sample" and not site["is_observed"]
    ]
    return sum(sizes) <= _MAX_DENSE
