"""The density of the parameters of a fitted network: its value, its mode, its curvature there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyro
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.distributions import biject_to

from ..errors import TrainingError
from ..models import CopulaGNN

#: The step of the differences that give the curvature, and the largest standard deviation that is
#: believed: in a flat direction the curvature at the mode says too much.
_STEP, _MAX_SCALE = 5e-3, 3.0


class Potential:
    """Minus the log density of all that is sampled, as a function of one unconstrained vector.

    Args:
        model: The model, built and with its network fitted.
        density: ``"posterior"``, of the unconstrained vector, as NUTS needs it; ``"map"``: the
            same of the parameters themselves, whose mode is another one; ``"mle"``: the likelihood
            alone, of the global parameters alone, over the whole range of each.
    """

    def __init__(self, model: CopulaGNN, density: str = "posterior") -> None:
        self.model, self.density = model, density
        self.y = model.data.y
        self.priors = {} if density == "mle" else model.priors
        ranges = model.scalars if density == "mle" else self.priors
        self.transforms = {name: biject_to(one.support) for name, one in ranges.items()}
        self.evaluations = 0
        with torch.no_grad():
            if "last_layer" in self.priors:
                self.fixed: dict[str, Any] = {"hidden": model.hidden()}
            else:
                self.fixed = {"outputs": model.outputs()}
            start = model.site_values() if density == "mle" else model.start_values()
            parts = {name: way.inv(start[name]) for name, way in self.transforms.items()}
        self._shapes = {name: part.shape for name, part in parts.items()}
        #: The held values, or points inside the support of the priors.
        self.start = torch.cat([part.reshape(-1) for part in parts.values()])

    def __call__(self, u: Tensor) -> Tensor:
        """The potential at ``u``, of shape ``(size,)``."""
        self.evaluations += 1
        values, total = {}, torch.zeros((), dtype=u.dtype)
        for name, part in self._split(u).items():
            transform = self.transforms[name]
            values[name] = value = transform(part)
            if name in self.priors:
                total = total + self.priors[name].log_prob(value).sum()
            if self.density == "posterior":
                total = total + transform.log_abs_det_jacobian(part, value).sum()
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

    def or_infinity(self, u: Tensor) -> Tensor:
        """The potential, differentiably; infinite with gradient zero where no law can be made.

        NUTS rejects such a step. The gradient is computed at once, because the backward pass has
        solves of its own, which may fail as well.
        """
        value, gradient = self.with_gradient(u.detach().double().numpy())
        return _Known.apply(u, value, torch.as_tensor(gradient, dtype=u.dtype))

    def _split(self, u: Tensor) -> dict[str, Tensor]:
        parts = u.split([shape.numel() for shape in self._shapes.values()], dim=-1)
        return {
            name: part.reshape((*u.shape[:-1], *shape))
            for (name, shape), part in zip(self._shapes.items(), parts)
        }


class _Known(torch.autograd.Function):
    """A number whose gradient is known already."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, value: float, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return torch.tensor(value, dtype=u.dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = ctx.saved_tensors
        return grad_outputs[0] * gradient, None, None


def find_mode(potential: Potential) -> np.ndarray:
    """The mode of a density, by BFGS from the held values.

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
    return found.x if math.isfinite(found.fun) else start


def locate(potential: Potential) -> tuple[Tensor, Tensor]:
    """The mode of a density, and a square root of the covariance that its curvature implies.

    Returns:
        ``(mode, root)`` of shapes ``(size,)`` and ``(size, size)``.

    Raises:
        TrainingError: If the density is zero at the held values.
    """
    mode = find_mode(potential)
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


def refine_(model: CopulaGNN, density: str) -> None:
    """Moves the held values to the mode of a density given all observed values, in place.

    Args:
        model: The model, built and with its network fitted.
        density: ``"map"`` or ``"mle"``; see :class:`Potential`.
    """
    if not (model.scalars if density == "mle" else model.priors):
        return
    with pyro.validation_enabled(False):
        potential = Potential(model, density)
        mode = torch.as_tensor(find_mode(potential), dtype=potential.start.dtype)
        model.set_site_values_(potential.values(mode))
