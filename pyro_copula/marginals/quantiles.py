"""Quantiles: exact for discrete laws, differentiable for continuous ones.

A discrete quantile is the first point of the support at which a condition on the distribution
function holds; it is searched for, so that it agrees with :func:`~.tails.cdf` to the last bit. A
continuous quantile without a closed form is differentiated implicitly: ``F(y; theta) = u`` gives
``dy = (du - dF/dtheta dtheta) / f(y)``, used here on the scale of normal scores, on which nothing
underflows.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..first_order import first_order_only
from ..special import ndtri_exp
from .densities import log_prob
from .discrete import CountCDF
from .registry import MarginalCDF, lookup
from .scores import normal_score
from .search import count_quantiles, first_reached
from .tails import cdf, full_value, log_sf, result_dtype, sf


def icdf(d: Any, u: Tensor) -> Tensor:
    """Return the quantile of ``d`` for lower tail probabilities ``u`` in [0, 1].

    For a discrete law this is the smallest point ``k`` of the support with ``cdf(d, k) >= u``.
    For a continuous law it is differentiable in ``u`` and in every parameter.

    Raises:
        InvalidArgumentError: If an entry of ``u`` is outside [0, 1] or NaN.

    Example:
        >>> import pyro.distributions as dist
        >>> icdf(dist.Poisson(torch.tensor([1.0, 4.0])), torch.tensor([0.5, 0.5]))
        tensor([1., 4.])
    """
    return _from_probability(d, u, upper=False)


def isf(d: Any, u: Tensor) -> Tensor:
    """Return the quantile of ``d`` for *upper* tail probabilities ``u``. See :func:`icdf`.

    For a discrete law this is the smallest point ``k`` of the support with ``sf(d, k) <= u``.

    Args:
        d: A distribution with event shape ``()``.
        u: Probabilities that broadcast against its batch shape.

    Returns:
        The quantiles, of the broadcast shape.

    Raises:
        InvalidArgumentError: If an entry of ``u`` is outside [0, 1] or NaN.

    Example:
        >>> import pyro.distributions as dist
        >>> isf(dist.Poisson(torch.tensor([1.0, 4.0])), torch.tensor([1e-12, 1e-12]))
        tensor([14., 25.])
    """
    return _from_probability(d, u, upper=True)


def from_normal_score(d: Any, z: Tensor) -> Tensor:
    """Return ``F^-1(Phi(z))``, from whichever tail is small.

    For a continuous law it is differentiable in ``z`` and in every parameter of ``d``, which is
    what gives a copula reparametrised samples.

    Example:
        >>> import pyro.distributions as dist
        >>> from_normal_score(dist.LogNormal(torch.zeros(2), torch.ones(2)), torch.tensor([0., 1.]))
        tensor([1.0000, 2.7183])
    """
    dtype = result_dtype(d, z)
    score = full_value(d, z)
    law, d = lookup(d)
    return _quantile(law, d, score, None, False, dtype).to(dtype)


def _from_probability(d: Any, u: Any, upper: bool) -> Tensor:
    dtype = result_dtype(d, u)
    p = full_value(d, u)
    if not bool(((p >= 0) & (p <= 1)).all()):
        bad = p[~((p >= 0) & (p <= 1))].flatten()[0].item()
        hint = "Probabilities are cdf(d, y) or sf(d, y); for normal scores use from_normal_score."
        raise InvalidArgumentError("u", "a probability in [0, 1]", f"{bad:g}", hint)
    law, d = lookup(d)
    score = ndtri_exp(torch.where((p > 0) & (p < 1), p, 0.5).log())
    score = torch.where(p == 0, -torch.inf, torch.where(p == 1, torch.inf, score))
    return _quantile(law, d, -score if upper else score, p, upper, dtype).to(dtype)


def _quantile(
    law: MarginalCDF, d: Any, z: Tensor, p: Tensor | None, upper: bool, dtype: torch.dtype
) -> Tensor:
    """Return the quantile of score ``z``, whose tail probability is ``p`` if that is given."""
    lower_end, upper_end = law.bounds(d)
    finite = torch.isfinite(z)
    safe = torch.where(finite, z, 0.0)
    middle = None if p is None else torch.where(finite, p, 0.5)
    discrete = law.is_discrete(d)
    if isinstance(discrete, Tensor) and middle is not None:
        middle = middle.to(dtype)  # each family then searches in the dtype of the caller
    if discrete is True:
        y = _search(law, d, safe, middle, upper, dtype)
    else:
        y = _solve(law, d, safe, middle, upper)
        y = _round_inside(y, lower_end, upper_end, discrete, dtype)
    ends = torch.where(z < 0, lower_end, torch.where(z > 0, upper_end, torch.nan))
    return torch.where(finite, y, ends)


def _round_inside(
    y: Tensor, lower: Tensor, upper: Tensor, discrete: bool | Tensor, dtype: torch.dtype
) -> Tensor:
    """Keep a continuous quantile off the ends of its support, which only rounding can reach."""
    if not bool((torch.isfinite(lower) | torch.isfinite(upper)).any()):
        return y
    tiny = torch.finfo(dtype).tiny
    first = torch.nextafter(lower.to(dtype), torch.tensor(torch.inf, dtype=dtype)).double()
    first = torch.where(lower == 0, tiny, first)
    last = torch.nextafter(upper.to(dtype), torch.tensor(-torch.inf, dtype=dtype)).double()
    inside = torch.where(upper < torch.inf, torch.minimum(y, last), y)
    inside = torch.where(lower > -torch.inf, torch.maximum(inside, first), inside)
    return torch.where(torch.as_tensor(discrete), y, inside)


def _solve(law: MarginalCDF, d: Any, z: Tensor, p: Tensor | None, upper: bool) -> Tensor:
    """Return a continuous quantile, with a gradient."""
    if law.differentiable_quantile:
        return _value(law, d, z, p, upper)
    with torch.no_grad():
        y = _value(law, d, z, p, upper).to(torch.float64).expand(z.shape)
    if not torch.is_grad_enabled():
        return y
    score = law.score(d, y)
    if not (score.requires_grad or z.requires_grad):
        return y
    with torch.no_grad():
        log_normal = -0.5 * z.square() - 0.5 * math.log(2 * math.pi)
        slope = torch.exp(log_normal - log_prob(d, y))  # dy/dz
        slope = torch.where(torch.isfinite(slope), slope, 0.0)
    return _Implicit.apply(y, z, score, slope)


def _value(law: MarginalCDF, d: Any, z: Tensor, p: Tensor | None, upper: bool) -> Tensor:
    if p is None:
        return law.from_score(d, z)
    return law.isf(d, p) if upper else law.icdf(d, p)


class _Implicit(torch.autograd.Function):
    """``y`` with ``score(y; theta) = z``: ``dy = (dz - dscore) dy/dz``."""

    @staticmethod
    def forward(ctx: Any, y: Tensor, z: Tensor, score: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(z, score, slope)
        return y.clone()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor, None]:
        z, score, slope = ctx.saved_tensors
        slope = first_order_only(slope, "The quantile of a continuous law", [z, score])
        return None, grad * slope, -grad * slope, None


@torch.no_grad()
def _search(
    law: MarginalCDF, d: Any, z: Tensor, p: Tensor | None, upper: bool, dtype: torch.dtype
) -> Tensor:
    """Return a discrete quantile: by scores, and then to the letter if ``p`` is given."""
    lower_end, upper_end = (end.expand(z.shape) for end in law.bounds(d))
    if isinstance(law, CountCDF):
        batch = z.shape[z.ndim - len(d.batch_shape) :] if d.batch_shape else torch.Size([1])
        parameters = tuple(t.expand(batch).flatten() for t in law.parameters(d))
        ends = [e.expand(batch).flatten() for e in law.bounds(d)]
        flat = z.reshape(z.numel() // max(1, len(parameters[0])), len(parameters[0]))
        k = count_quantiles(law, parameters, flat, ends[0], ends[1]).reshape(z.shape)
        if p is None:
            return k
    else:
        k = _value(law, d, z, p, upper)

    def reached(k: Tensor, index: Tensor) -> Tensor:
        points = start.flatten().index_copy(0, index, k).reshape(z.shape)
        if p is None:
            yes = normal_score(d, points) >= z
        else:
            tail, target = (sf if upper else cdf)(d, points).to(dtype), p.to(dtype)
            yes = tail <= target if upper else tail >= target
        if not isinstance(law, CountCDF) and bool((z > 8).any()):
            # An upper tail known as 1 - cdf ends at 1e-16: no point further out is any better.
            yes = yes | ((z > 8) & (log_sf(d, points) <= log_sf(d, 2 * points.abs() + 64)))
        return yes.flatten()[index]

    start = k.expand(z.shape)
    flat_ends = (lower_end.flatten(), upper_end.flatten())
    return first_reached(reached, start.flatten(), *flat_ends).reshape(z.shape)
