r"""Randomised quantile residuals: where each value lies in its own predictive law.

.. math:: u_i = F_i(y_i^-) + v_i\,(F_i(y_i) - F_i(y_i^-)), \qquad v_i \sim U(0, 1)

is uniform if :math:`F_i` is the law of :math:`Y_i`; at a continuous node :math:`v_i` has no part in
it. :math:`F_i` is either the marginal of the node, or its law given every *other* observed value.

They are not independent of each other. Marginal residuals are correlated as the copula says.
Conditional ones have the correlations :math:`Q_{ij} / \sqrt{Q_{ii} Q_{jj}}` on the normal scale,
with :math:`Q` the precision of the observed scores: *negative* along the edges of a graph with
positive dependence. Tests that take residuals for independent are therefore wrong for both; see
:mod:`~pyro_copula.diagnostics.reference`.

References:
    Dunn and Smyth, Randomized quantile residuals, JCGS 1996.
    Czado, Gneiting and Held, Predictive model assessment for count data, Biometrics 2009.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..distributions import GaussianCopula, GraphNormal
from ..distributions.leave_one_out import LeaveOneOut
from ..errors import InvalidArgumentError, MidpointWarning
from ..errors.counts import check_count
from ..special import log_ndtr, ndtri_exp

KINDS = ("marginal", "conditional")
SCALES = ("uniform", "normal")


class Residuals(NamedTuple):
    """One residual a node, on both scales; NaN at missing nodes."""

    u: Tensor
    z: Tensor


def quantile_residuals(
    law: GaussianCopula | GraphNormal,
    y: Tensor,
    *,
    kind: str = "marginal",
    scale: str = "uniform",
    seed: int = 0,
) -> Tensor:
    """Randomised quantile residuals of values under a joint law.

    Args:
        law: A :class:`~pyro_copula.GaussianCopula` or :class:`~pyro_copula.GraphNormal`. If it has
            a batch, say of posterior draws, the distribution functions are averaged over it.
        y: Values, shape ``(num_nodes,)``, NaN at missing nodes.
        kind: ``"marginal"``: each node by itself. ``"conditional"``: each node given every other
            observed one, exactly, except that other *discrete* nodes enter by the law's rule for
            them.
        scale: ``"uniform"``: between 0 and 1, as in DHARMa. ``"normal"``: their standard normal
            quantiles, finite however far out a value is.
        seed: Of the uniform numbers that place a discrete value within its atom.

    Returns:
        Shape ``(num_nodes,)`` in float64, NaN at missing nodes.

    Example:
        >>> import pyro.distributions as dist
        >>> import pyro_copula as pc
        >>> graph = pc.Graph.from_edges([(0, 1), (1, 2)])
        >>> K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
        >>> law = pc.GaussianCopula(dist.Normal(torch.zeros(3), 1.0), precision=K)
        >>> y = torch.tensor([2.0, 1.5, math.nan])
        >>> quantile_residuals(law, y)
        tensor([0.9772, 0.9332,    nan], dtype=torch.float64)
        >>> quantile_residuals(law, y, kind="conditional")
        tensor([0.9114, 0.3953,    nan], dtype=torch.float64)
    """
    check_law(law)
    check_choice("kind", kind, KINDS)
    check_choice("scale", scale, SCALES)
    y = checked_values(y, law.num_nodes)
    value = y.expand(*law.batch_shape, law.num_nodes)
    with torch.no_grad(), warnings.catch_warnings():
        if kind == "marginal":
            warnings.simplefilter("ignore", MidpointWarning)  # no rule has a part in it
            scores = law._scores_of(value)
            limits = scores.lower, scores.upper
        else:
            limits = LeaveOneOut.of(law, value).limits
    lower, upper = (end.reshape(-1, law.num_nodes) for end in limits)
    residuals = randomised(lower, upper, atom_places(law.num_nodes, seed))
    return residuals.u if scale == "uniform" else residuals.z


def atom_places(num_nodes: int, seed: int) -> Tensor:
    """The uniform numbers of a seed, one a node, never 0."""
    generator = torch.Generator().manual_seed(own_seed(seed, "atoms"))
    return 1 - torch.rand(num_nodes, dtype=torch.float64, generator=generator)


def own_seed(seed: int, purpose: str) -> int:
    """A seed of our own made of the user's.

    Data are often drawn after ``torch.manual_seed(0)``. Random numbers from that very seed would be
    those behind the data, and the residuals anything but random.
    """
    check_count("seed", seed, "Use seed=0.", least=0)
    return int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1)[0])


def randomised(lower: Tensor, upper: Tensor, v: Tensor) -> Residuals:
    """The residuals under an equal mixture of laws.

    Both tails are carried in logarithms, so that neither an outlier nor a value in the far end of
    a narrow law is rounded to 0 or 1 before it reaches the normal scale.

    Args:
        lower: The standard normal quantiles of ``P(Y < y)``, shape ``(laws, *shape)``.
        upper: Those of ``P(Y <= y)``.
        v: Places within atoms, broadcastable with ``shape``.
    """
    log_cdf = _between(lower, upper, v)
    log_sf = _between(-lower, -upper, v)
    top = log_sf < log_cdf
    z = ndtri_exp(torch.where(top, log_sf, log_cdf))
    u = torch.where(top, -torch.expm1(log_sf), log_cdf.exp())
    return Residuals(u, torch.where(top, -z, z))


def _between(start: Tensor, end: Tensor, v: Tensor) -> Tensor:
    """``log((1 - v) P(start) + v P(end))`` with ``P`` the average of the laws' ``Phi``."""
    log_start, log_end = (
        torch.logsumexp(log_ndtr(limit), 0) - math.log(len(limit)) for limit in (start, end)
    )
    mixed = torch.logaddexp(torch.log1p(-v) + log_start, v.log() + log_end).clamp(max=0.0)
    return torch.where(log_start == log_end, log_end, mixed)  # no atom, so not even rounding


def check_law(law: Any, argument: str = "law") -> None:
    """Raises the error that says what a joint law is."""
    if not isinstance(law, GaussianCopula | GraphNormal):
        raise InvalidArgumentError(
            argument,
            "a GaussianCopula or a GraphNormal",
            type(law).__name__,
            "Wrap the marginals: pc.GaussianCopula(marginal_dist, precision=K). Of a fit, call "
            "fit.diagnose().",
        )


def check_choice(argument: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raises the error that lists the choices, if the value is none of them."""
    if value not in choices:
        raise InvalidArgumentError(
            argument, f"one of {choices}", repr(value), f"Use {argument}={choices[0]!r}."
        )


def checked_values(y: Any, num_nodes: int) -> Tensor:
    """One value a node, as a floating tensor."""
    y = torch.as_tensor(y)
    if y.shape != (num_nodes,):
        raise InvalidArgumentError(
            "y",
            f"of shape ({num_nodes},), one value a node",
            f"shape {tuple(y.shape)}",
            "Give every node an entry, NaN where its value is missing.",
        )
    return y if y.is_floating_point() else y.to(torch.get_default_dtype())
