r"""Log densities whose log determinant and scales are estimates: their bias and their error.

The iterative backend estimates :math:`\log\det K` and the variances :math:`\sigma^2` of the
latent vector without bias. A copula's log density is linear in the first, but not in the second.
With :math:`\bar\sigma^2` the mean over two halves of the probes and :math:`\delta` half their
difference,

.. math:: 2 f(\bar\sigma^2) - \tfrac12 f(\bar\sigma^2 + \delta) - \tfrac12 f(\bar\sigma^2 - \delta)

has no bias of second order, since :math:`\delta` has the covariance of :math:`\bar\sigma^2`.
"""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..errors import EstimateError
from ..linalg import Iterative
from ..precision import SparsePrecision
from .latent import Latent, PrecisionLatent
from .nugget import NuggetLatent

#: Errors of pointwise densities come from so many repetitions, each with so many probes at least,
#: and with seeds so far apart.
_REPETITIONS, _LEAST_PROBES, _APART = 8, 16, 7919


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

    def error(latent: Latent, x: Tensor, pattern: Tensor) -> Tensor:
        influence = None
        if isinstance(latent, NuggetLatent):
            influence = _nugget_influence(latent, x, pattern)
        elif isinstance(latent, PrecisionLatent):
            influence = _influence(PrecisionLatent(latent.precision.detach()), x, pattern, scaled)
        if influence is None:
            return torch.zeros(x.shape[:-1], dtype=torch.float64)
        return influence.std(0) / 2 / len(influence) ** 0.5

    return law._by_pattern(error, x.detach(), observed)


def _influence(latent: PrecisionLatent, x: Tensor, pattern: Tensor, scaled: bool) -> Tensor | None:
    """What every probe says of twice the log density, to first order: ``(probes, *sample)``."""
    weight = torch.zeros_like(x)
    if scaled and latent.variance_spread() is not None:
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            (pull,) = torch.autograd.grad(latent.log_density(leaf, pattern).sum(), leaf)
        weight = torch.where(pattern, x * pull + 1, 0.0) / latent.scale().square()
    return latent.precision.solver.influence(pattern, weight)


def _nugget_influence(latent: NuggetLatent, x: Tensor, pattern: Tensor) -> Tensor | None:
    r"""The same with a nugget; see ``nugget`` for the notation.

    Twice the log density is :math:`\log\det K - \log\det P - q`, and with a gain
    :math:`g_i = \sqrt{(1 - \nu) / \sigma_i^2}` its derivative in :math:`\sigma_i^2` is

    .. math:: \frac{g_i}{\sigma_i^2 \nu} (g_i P^{-1}_{ii} - (z_i - g_i x^*_i)\, x^*_i)

    at observed nodes, since :math:`x^*` minimises the quadratic form :math:`q`.
    """
    K = latent.precision.detach()
    solver, everywhere = K.solver, torch.ones(K.num_nodes, dtype=torch.bool)
    if solver.name != "iterative":
        return None
    # In training the two log determinants have probes of their own; else they share them.
    fresh = solver.training and solver.options.seed is None  # type: ignore[attr-defined]
    options = settled(solver, seed=solver.seed + fresh)  # type: ignore[attr-defined]
    K = SparsePrecision(K.graph, K.diagonal, K.off_diagonal, backend=options)
    gain, nugget = latent.gain.detach(), latent.nugget.detach().unsqueeze(-1)
    other = NuggetLatent(K, gain, nugget.squeeze(-1), latent.nodes)
    posterior = other._posterior(pattern)
    weight = torch.zeros(*x.shape[:-1], K.num_nodes, dtype=torch.float64)
    if latent.gain_is_estimated:
        nodes, g, z = latent.nodes[pattern], gain[..., pattern], x[..., pattern]
        field = other._field(x, pattern, posterior)[..., nodes]
        spread = g * posterior.variance()[..., nodes] - (z - g * field) * field
        variance = solver.inverse_diagonal().detach()[..., nodes]
        weight[..., nodes] = g * spread / (variance * nugget)
    above = solver.influence(everywhere, weight)
    below = posterior.solver.influence(everywhere, torch.zeros_like(weight))
    assert above is not None  # the iterative backend has them
    assert below is not None
    return above - below


def settled(solver: Any, **changes: Any) -> Iterative:
    """The options that an iterative solver really uses, with some of them changed."""
    return replace(solver.factors.options, **changes)


def pointwise_log_prob_error(law: Any, value: Tensor) -> Tensor:
    """The standard errors of pointwise log densities, from repetitions with new probes.

    Args:
        law: A distribution over nodes, with a precision.
        value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.
    """
    latent = law.latent
    solver = getattr(getattr(latent, "precision", None), "solver", None)
    with torch.no_grad():
        if solver is None or solver.name != "iterative":
            return torch.zeros_like(law.pointwise_log_prob(value), dtype=torch.float64).where(
                ~torch.isnan(value), math.nan
            )
        count = max(_LEAST_PROBES, solver.num_probes // _REPETITIONS)
        found = []
        for k in range(_REPETITIONS):
            options = settled(solver, num_probes=count, seed=solver.seed + _APART * (k + 1))
            K = latent.precision
            K = SparsePrecision(
                K.graph, K.diagonal.detach(), K.off_diagonal.detach(), backend=options
            )
            other = copy.copy(law)
            other.latent = latent.with_precision(K)
            found.append(other.pointwise_log_prob(value).double())
        return torch.stack(found).std(0) * (count / solver.num_probes) ** 0.5
