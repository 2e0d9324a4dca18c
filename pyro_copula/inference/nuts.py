"""NUTS on the global parameters, with the network where it is."""

from __future__ import annotations

from typing import Any

import pyro
import torch
from pyro.infer import MCMC, NUTS
from pyro.infer.autoguide import init_to_value
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from torch import Tensor

from ..errors import InvalidArgumentError
from ..models import CopulaGNN


def sample_posterior(
    model: CopulaGNN,
    *,
    num_draws: int,
    num_warmup: int,
    num_chains: int,
    seed: int,
    progress: bool,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Draws of the global parameters given the observed values.

    Chains run one after the other from the held values, each with a seed of its own.

    Args:
        model: The model, built and with its network fitted.
        num_draws: Draws per chain.
        num_warmup: Warm-up steps per chain.
        num_chains: The number of chains.
        seed: The seed of the first chain.
        progress: Whether to show a progress bar.

    Returns:
        Draws, each ``(chains, draws)``, and what the sampler says: the largest R-hat, the
        smallest effective sample size, the number of divergences.
    """
    if not model.scalars:
        raise InvalidArgumentError(
            "model",
            "one with global parameters to sample",
            f"{model!r}, which has none",
            'Use method="mle", or a precision or family with parameters.',
        )
    y = model.data.y
    with torch.no_grad():
        outputs = model.outputs()
        start = {name: scalar().clone() for name, scalar in model.scalars.items()}

    def program() -> None:
        scalars = {name: pyro.sample(name, prior) for name, prior in model.priors.items()}
        pyro.sample("y", model.joint(outputs, **scalars), obs=y)

    chains, divergences = [], 0
    for chain in range(num_chains):
        pyro.set_rng_seed(seed + chain)
        kernel = NUTS(program, init_strategy=init_to_value(values=start), target_accept_prob=0.9)
        mcmc = MCMC(
            kernel, num_samples=num_draws, warmup_steps=num_warmup, disable_progbar=not progress
        )
        mcmc.run()
        chains.append(mcmc.get_samples())
        found = mcmc.diagnostics().get("divergences", {})
        divergences += sum(len(where) for where in found.values())
    posterior = {name: torch.stack([chain[name] for chain in chains]).detach() for name in start}
    r_hat = max(float(split_gelman_rubin(draws)) for draws in posterior.values())
    effective = min(float(effective_sample_size(draws)) for draws in posterior.values())
    return posterior, {
        "max_r_hat": r_hat,
        "min_effective_sample_size": effective,
        "divergences": divergences,
    }
