"""NUTS on the global parameters (and the last layer, if it has a prior), the network where it is.

Three things make it fast. The potential is written out by hand, so that no program is traced and
nothing that stays the same is computed again. The chains move in coordinates in which the density
is about standard normal: the curvature at the mode says which they are, so that parameters which
trade off against each other (a nugget and the dependence, say) cost no small steps. And a
dense mass matrix takes up what the curvature at one point does not say. All of it is a linear
change of variables: the target is the same.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pyro
import torch
from pyro.infer import MCMC, NUTS
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from torch import Tensor

from ..errors import InvalidArgumentError
from ..models import CopulaGNN
from .checkpoint import NOWHERE, Slot
from .contents import check_chain
from .potential import Potential, locate

#: More parameters than this have a diagonal mass matrix: a dense one would need more draws than a
#: warm-up has.
_MAX_DENSE = 50

#: R-hat and the effective sample size need so many draws.
_MIN_DRAWS = 4


def sample_posterior(
    model: CopulaGNN,
    *,
    num_draws: int,
    num_warmup: int,
    num_chains: int,
    seed: int,
    progress: bool = False,
    slot: Callable[[str], Slot] = lambda name: NOWHERE,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Draws of the parameters given the observed values.

    Chains run one after the other, each with a seed of its own, from starting points that are
    drawn around the mode and spread about as the posterior is, so that R-hat means something.

    Args:
        model: The model, built and with its network fitted.
        num_draws: Draws per chain.
        num_warmup: Warm-up steps per chain.
        num_chains: The number of chains.
        seed: The seed of the first chain.
        progress: Whether to show a progress bar.
        slot: Where a finished chain is kept, by its name.

    Returns:
        Draws, each ``(chains, draws, ...)``, and what the sampler says: the largest R-hat, the
        smallest effective sample size, the number of divergences, which draws ended in one, and
        the number of gradients.

    Raises:
        KeyboardInterrupt: If it is interrupted before the first draw.
    """
    if not model.priors:
        raise InvalidArgumentError(
            "model",
            "one with global parameters to sample",
            f"{model!r}, which has none",
            'Use method="mle", or a precision or family with parameters.',
        )
    chains: list[dict[str, Any]] = []
    interrupted = ""
    potential: Potential | None = None
    for k in range(num_chains):
        place = slot(f"chain {k}")
        record = place.load()
        if record is not None:
            with place.reading():
                check_chain(record, num_draws, sum(v.numel() for v in model.site_values().values()))
        else:
            if potential is None:
                potential = Potential(model)
                with pyro.validation_enabled(False):
                    mode, root = locate(potential)
            record = _chain(potential, mode, root, num_draws, num_warmup, seed + k, progress)
            complete = len(record["u"]) == num_draws
            if complete:
                place.save(record)
            else:
                interrupted = f"interrupted in chain {k + 1} of {num_chains}"
                if k == 0 and len(record["u"]):
                    chains.append(record)
                break
        chains.append(record)
    if not chains:
        raise KeyboardInterrupt(
            "NUTS was interrupted before its first draw; method='map' or 'svi' is quicker."
        )
    posterior = _values(potential or Potential(model), chains)
    return posterior, _diagnostics(posterior, chains, interrupted)


def _chain(
    potential: Potential,
    mode: Tensor,
    root: Tensor,
    num_draws: int,
    num_warmup: int,
    seed: int,
    progress: bool,
) -> dict[str, Any]:
    """One chain; if it is interrupted, as far as it came."""
    pyro.set_rng_seed(seed)
    before = potential.evaluations
    draws: list[Tensor] = []
    divergences: set[int] = set()

    def keep(kernel: Any, params: dict[str, Tensor], stage: str, index: int) -> None:
        if stage.startswith("Sample"):
            draws.append(params["z"].detach().clone())
            divergences.update(kernel.diagnostics()["divergences"])

    kernel = NUTS(
        potential_fn=lambda params: potential.or_infinity(mode + root @ params["z"]),
        full_mass=len(mode) <= _MAX_DENSE,
        target_accept_prob=0.8,
    )
    with pyro.validation_enabled(False):
        first = {"z": _first_point(potential, mode, root)}
        sampler = MCMC(
            kernel,
            num_samples=num_draws,
            warmup_steps=num_warmup,
            initial_params=first,
            disable_progbar=not progress,
            hook_fn=keep,
        )
        with contextlib.suppress(KeyboardInterrupt):  # the caller sees that draws are missing
            sampler.run()
    z = torch.stack(draws) if draws else torch.zeros(0, len(mode))
    return {
        "u": mode + z @ root.T,
        "diverging": torch.tensor([k in divergences for k in range(len(draws))], dtype=torch.bool),
        "gradients": potential.evaluations - before,
    }


def _first_point(potential: Potential, mode: Tensor, root: Tensor) -> Tensor:
    """A point drawn around the mode, nearer to it until the density is positive there."""
    z = torch.randn(len(mode), dtype=mode.dtype)
    while not math.isfinite(potential.with_gradient((mode + root @ z).double().numpy())[0]):
        z = z / 2
    return z


def _values(potential: Potential, chains: list[dict[str, Any]]) -> dict[str, Tensor]:
    with torch.no_grad():
        return potential.values(torch.stack([chain["u"] for chain in chains]))


def _diagnostics(
    posterior: dict[str, Tensor], chains: list[dict[str, Any]], interrupted: str
) -> dict[str, Any]:
    enough = next(iter(posterior.values())).shape[1] >= _MIN_DRAWS
    r_hat = [split_gelman_rubin(draws).max() for draws in posterior.values()] if enough else []
    size = [effective_sample_size(draws).min() for draws in posterior.values()] if enough else []
    diverging = torch.stack([chain["diverging"] for chain in chains])
    return {
        "max_r_hat": max((float(value) for value in r_hat), default=math.nan),
        "min_effective_sample_size": min((float(value) for value in size), default=math.nan),
        "divergences": int(diverging.sum()),
        "diverging": diverging,
        "gradients": sum(chain["gradients"] for chain in chains),
        "interrupted": interrupted,
    }
