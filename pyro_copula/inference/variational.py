"""The second stage of SVI: the guide alone, on all observed values.

SVI has two stages. The first trains network and guide together, and stops by validation score as
every fit does. The second keeps the network and moves the guide alone, on *all* observed values,
until the evidence bound stops growing: then the guide stands for the same posterior that NUTS
draws from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyro
import torch
from pyro.infer import Trace_ELBO
from torch import Tensor, nn

from ..models import CopulaGNN
from .checkpoint import Slot
from .options import Options
from .training import History, Schedule, train

#: The second stage looks at a bound averaged over so many draws, the same ones at every look, and
#: goes on with ever smaller steps: the noise of one draw a step would hide what is left to gain.
_PARTICLES = 20
_RATES = (1.0, 0.3, 0.1)
_SCHEDULE = Schedule(max_epochs=1500, check_every=25, patience=6, tolerance=0.01, save_every=1)


def fit_posterior(
    model: CopulaGNN, guide: nn.Module, options: Options, lr: float, slot: Callable[..., Slot]
) -> History:
    """Moves a guide to the posterior given all observed values, with the network as it is.

    Args:
        model: The model, with all observed values.
        guide: The guide.
        options: Those of the fit.
        lr: The learning rate.
        slot: Where to keep the state, by name.
    """
    y = model.data.y
    model.eval()
    priors = model.priors
    with torch.no_grad():
        sampled = "last_layer" in priors
        fixed = {"hidden": model.hidden()} if sampled else {"outputs": model.outputs()}

    def program(y: Tensor) -> None:
        values = {name: pyro.sample(name, prior) for name, prior in priors.items()}
        pyro.sample("y", model.joint(**fixed, **values), obs=y)

    step, look = Trace_ELBO(), Trace_ELBO(num_particles=_PARTICLES)

    def score() -> float:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(options.seed)
            return -float(look.loss(program, guide, y))

    schedule = replace(_SCHEDULE, max_epochs=min(_SCHEDULE.max_epochs, options.schedule.max_epochs))
    for k, factor in enumerate(_RATES):
        rate = factor * options.rate_of_scalars(lr)
        history = train(
            lambda: step.differentiable_loss(program, guide, y),
            score,
            guide,
            torch.optim.Adam(guide.parameters(), lr=rate),
            schedule,
            progress=options.progress,
            label=f"svi, posterior {k + 1}/{len(_RATES)}",
            slot=slot("posterior", k),
        )
        if history.interrupted:
            break
    return history
