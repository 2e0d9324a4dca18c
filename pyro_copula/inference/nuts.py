"""NUTS on the global parameters (and the last layer, if it has a prior), the network where it is.

Three things make it fast. The potential is written out by hand, so that no program is traced and
nothing that stays the same is computed again. The chains move in coordinates in which the density
is about standard normal: the curvature at the mode says which they are, so that parameters which
trade off against each other (the dispersion of counts and its power) cost no small steps. And a
dense mass matrix takes up what the curvature at one point does not say. All of it is a linear
change of variables: the target is the same.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro
import torch
from pyro.infer import MCMC, NUTS
from pyro.ops.stats import effective_sample_size, split_gelman_rubin
from scipy.optimize import minimize
from torch import Tensor
from torch.distributions import biject_to

from ..errors import InvalidArgumentError, TrainingError
from ..models import CopulaGNN
from .checkpoint import NOWHERE, Slot

#: More parameters than this have a diagonal mass matrix: a dense one would need more draws than a
#: warm-up has.
_MAX_DENSE = 50

#: The step of the differences that give the curvature, and the largest standard deviation that is
#: believed: in a flat direction the curvature at the mode says too much.
_STEP, _MAX_SCALE = 5e-3, 3.0

#: R-hat and the effective sample size need so many draws.
_MIN_DRAWS = 4


class Potential:
    """Minus the log density of all that is sampled, as a function of one unconstrained vector.

    Args:
        model: The model, built and with its network fitted.
    """

    def __init__(self, model: CopulaGNN) -> None:
        self.model = model
        self.y = model.data.y
        self.priors = model.priors
        self.transforms = {name: biject_to(prior.support) for name, prior in self.priors.items()}
        self.evaluations = 0
        with torch.no_grad():
            if "last_layer" in self.priors:
                self.fixed: dict[str, Any] = {"hidden": model.hidden()}
            else:
                self.fixed = {"outputs": model.outputs()}
            held = model.site_values()
            parts = {name: self.transforms[name].inv(held[name]) for name in self.priors}
        self._shapes = {name: part.shape for name, part in parts.items()}
        #: The held values.
        self.start = torch.cat([part.reshape(-1) for part in parts.values()])

    def __call__(self, u: Tensor) -> Tensor:
        """The potential at ``u``, of shape ``(size,)``."""
        self.evaluations += 1
        values, total = {}, torch.zeros((), dtype=u.dtype)
        for name, part in self._split(u).items():
            transform = self.transforms[name]
            values[name] = value = transform(part)
            jacobian = transform.log_abs_det_jacobian(part, value).sum()
            total = total + self.priors[name].log_prob(value).sum() + jacobian
        return -(total + self.model.joint(**self.fixed, **values).log_prob(self.y))

    def values(self, u: Tensor) -> dict[str, Tensor]:
        """The parameters behind vectors of shape ``(*batch, size)``."""
        return {name: self.transforms[name](part) for name, part in self._split(u).items()}

    def with_gradient(self, u: np.ndarray) -> tuple[float, np.ndarray]:
        """The potential and its gradient; infinite where no law can be made."""
        point = torch.as_tensor(u, dtype=self.start.dtype).requires_grad_()
        try:
            value = self(point)
            (gradient,) = torch.autograd.grad(value, point)
        except (ValueError, ArithmeticError):
            return math.inf, np.zeros_like(u)
        if not bool(torch.isfinite(value)) or not bool(torch.isfinite(gradient).all()):
            return math.inf, np.zeros_like(u)
        return float(value.detach()), gradient.double().numpy()

    def _split(self, u: Tensor) -> dict[str, Tensor]:
        parts = u.split([shape.numel() for shape in self._shapes.values()], dim=-1)
        return {
            name: part.reshape((*u.shape[:-1], *shape))
            for (name, shape), part in zip(self._shapes.items(), parts)
        }


def locate(potential: Potential) -> tuple[Tensor, Tensor]:
    """The mode of a density, and a square root of the covariance that its curvature implies.

    Returns:
        ``(mode, root)`` of shapes ``(size,)`` and ``(size, size)``.

    Raises:
        TrainingError: If the density is zero at the held values.
    """
    start = potential.start.double().numpy()
    if not math.isfinite(potential.with_gradient(start)[0]):
        raise TrainingError(
            "The posterior density is zero at the fitted parameters",
            "Check that the priors allow them, or fit again from another seed.",
        )
    with np.errstate(all="ignore"):  # a line search may look where the density is zero
        found = minimize(
            potential.with_gradient, start, jac=True, method="BFGS", options={"gtol": 1e-2}
        )
    mode = found.x if math.isfinite(found.fun) else start
    differences = [
        potential.with_gradient(mode + _STEP * axis)[1]
        - potential.with_gradient(mode - _STEP * axis)[1]
        for axis in np.eye(len(mode))
    ]
    curvature = np.stack(differences) / (2 * _STEP)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    root = vectors / np.sqrt(np.maximum(values, _MAX_SCALE**-2))
    dtype = potential.start.dtype
    return torch.as_tensor(mode, dtype=dtype), torch.as_tensor(root, dtype=dtype)


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
        if record is None:
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
        potential_fn=lambda params: potential(mode + root @ params["z"]),
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
