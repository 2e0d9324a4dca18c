r"""Log densities whose log determinant and scales are estimates: their bias and their error.

The iterative backend estimates :math:`\log\det K` and the variances :math:`\sigma^2` of the
latent vector without bias. A copula's log density is linear in the first, but not in the second.
With :math:`\bar\sigma^2` the mean over two halves of the probes and :math:`\delta` half their
difference,

.. math:: 2 f(\bar\sigma^2) - \tfrac12 f(\bar\sigma^2 + \delta) - \tfrac12 f(\bar\sigma^2 - \delta)

has no bias of second order, since :math:`\delta` has the covariance of :math:`\bar\sigma^2`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import EstimateError, InvalidArgumentError
from .latent import Latent, PrecisionLatent
from .nugget import NuggetLatent


def scales(latent: Latent, extra_dims: int) -> Tensor:
    """The scale, and where it is estimated those of both shifted variances, first dimension.

    Args:
        latent: The latent vector.
        extra_dims: How many dimensions of one to put before those of the batch.

    Returns:
        Shape ``(1 or 3, *ones, *batch, num_nodes)``.
    """
    scale, spread = latent.scale(), latent.variance_spread()
    if spread is None:
        stacked = scale.unsqueeze(0)
    else:
        variance = scale.square()
        shifted = torch.stack([variance + spread, variance - spread])
        bad = ~(shifted.detach() > 0)
        if bool(bad.any()):
            where = tuple(bad.nonzero()[0])
            probes = latent.precision.solver.num_probes  # type: ignore[attr-defined]
            raise EstimateError("variance", int(where[-1]), float(shifted[where]), probes // 2)
        stacked = torch.cat([scale.unsqueeze(0), shifted.sqrt()])
    return stacked.reshape(len(stacked), *(1,) * extra_dims, *scale.shape)


def corrected(values: Tensor) -> Tensor:
    """The value at :func:`scales`, without the bias of second order; the first dimension goes."""
    if len(values) == 1:
        return values[0]
    return 2 * values[0] - (values[1] + values[2]) / 2


def log_prob_error(law: Any, x: Tensor, observed: Tensor, *, scaled: bool) -> Tensor:
    """The standard error of a log density, zero where nothing is estimated.

    Args:
        law: A distribution over nodes.
        x: The latent vectors, ``(*sample, *batch, num_nodes)``.
        observed: Boolean, the same shape.
        scaled: Whether ``x`` is a score times the estimated scale.
    """
    if isinstance(law.latent, NuggetLatent) and law.latent.precision.solver.name == "iterative":
        raise InvalidArgumentError(
            "nugget",
            "None for a standard error of the log density",
            "a nugget",
            "Repeat log_prob with new probes and take the standard deviation.",
        )
    if not isinstance(law.latent, PrecisionLatent):
        return torch.zeros(x.shape[:-1], dtype=torch.float64)

    def error(latent: Latent, x: Tensor, pattern: Tensor) -> Tensor:
        assert isinstance(latent, PrecisionLatent)  # as every element of the batch
        latent = PrecisionLatent(latent.precision.detach())
        solver = latent.precision.solver
        weight = torch.zeros_like(x)
        if scaled and latent.variance_spread() is not None:
            with torch.enable_grad():
                leaf = x.detach().requires_grad_()
                (pull,) = torch.autograd.grad(latent.log_density(leaf, pattern).sum(), leaf)
            weight = torch.where(pattern, x * pull + 1, 0.0) / latent.scale().square()
        influence = solver.influence(pattern, weight)
        if influence is None:
            return torch.zeros(x.shape[:-1], dtype=torch.float64)
        return influence.std(0) / 2 / len(influence) ** 0.5

    return law._by_pattern(error, x.detach(), observed)
