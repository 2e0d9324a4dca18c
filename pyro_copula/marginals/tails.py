"""The four tail functions of any marginal, on and off its support.

This layer does for every law what the law itself then need not do: broadcasting, float64 inside,
whole numbers for discrete laws, and values below or above the support, which never reach the law,
so that no unused branch can put a NaN into a gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from ..shapes import broadcast_shapes
from .registry import MarginalCDF, lookup


def cdf(d: Any, y: Tensor) -> Tensor:
    """Return ``P(Y <= y)`` under the law ``d``, differentiable in its parameters and in ``y``.

    Args:
        d: A distribution with event shape ``()``.
        y: Values that broadcast against the batch shape of ``d``; 0 below and 1 above the
            support.

    Example:
        >>> import pyro.distributions as dist
        >>> cdf(dist.Poisson(torch.tensor([1.0, 4.0])), torch.tensor([0.0, 2.0]))
        tensor([0.3679, 0.2381])
    """
    return evaluate_tail(d, y, "cdf", 0.0, 1.0)


def sf(d: Any, y: Tensor) -> Tensor:
    """Return ``P(Y > y)``, with its own digits where ``cdf`` rounds to one. See :func:`cdf`.

    Example:
        >>> import pyro.distributions as dist
        >>> sf(dist.Poisson(torch.tensor([1.0, 4.0])), torch.tensor([9.0, 40.0]))
        tensor([1.1143e-07, 2.9256e-27])
    """
    return evaluate_tail(d, y, "sf", 1.0, 0.0)


def log_cdf(d: Any, y: Tensor) -> Tensor:
    """Return ``log P(Y <= y)``, finite where ``cdf`` underflows. See :func:`cdf`.

    Example:
        >>> import pyro.distributions as dist
        >>> log_cdf(dist.Normal(0.0, 1.0), torch.tensor([-1.0, -50.0]))
        tensor([   -1.8410, -1254.8314])
    """
    return evaluate_tail(d, y, "log_cdf", -torch.inf, 0.0)


def log_sf(d: Any, y: Tensor) -> Tensor:
    """Return ``log P(Y > y)``, finite where ``sf`` underflows. See :func:`cdf`.

    Example:
        >>> import pyro.distributions as dist
        >>> log_sf(dist.Poisson(1.0), torch.tensor([0.0, 200.0]))
        tensor([-4.5868e-01, -8.6953e+02])
    """
    return evaluate_tail(d, y, "log_sf", 0.0, -torch.inf)


def evaluate_tail(d: Any, y: Any, name: str, below: float, above: float) -> Tensor:
    """Evaluate one method of the law inside the support, and two constants outside it."""
    dtype = result_dtype(d, y)
    law, base, safe, is_below, is_above = inside_support(d, y)
    result = getattr(law, name)(base, safe)
    return torch.where(is_below, below, torch.where(is_above, above, result)).to(dtype)


def log_tail(d: Any, y: Tensor, upper: Tensor) -> Tensor:
    """Return ``log_sf`` where ``upper`` is true and ``log_cdf`` elsewhere, in float64."""
    law, base, safe, is_below, is_above = inside_support(d, y)
    result = law.log_tail(base, safe, upper)
    everything = torch.where(upper, is_below, is_above)
    nothing = torch.where(upper, is_above, is_below)
    return torch.where(everything, 0.0, torch.where(nothing, -torch.inf, result))


def inside_support(d: Any, y: Any) -> tuple[MarginalCDF, Any, Tensor, Tensor, Tensor]:
    """Return the law, its distribution, values that it can take, and what lay outside."""
    value = full_value(d, y)
    law, d = lookup(d)
    discrete = torch.as_tensor(law.is_discrete(d))
    value = torch.where(discrete, value.floor(), value)
    lower, upper = law.bounds(d)
    is_below = torch.where(discrete, value < lower, value <= lower)
    is_above = value >= upper
    outside = is_below | is_above
    if bool(outside.any()):
        value = torch.where(outside, inner_point(lower, upper, discrete), value)
    return law, d, value, is_below, is_above


def inner_point(lower: Tensor, upper: Tensor, discrete: Tensor) -> Tensor:
    """Return a point inside each support, before its last point if the law is discrete."""
    both = torch.isfinite(lower) & torch.isfinite(upper)
    middle = torch.where(both, (lower + upper) / 2, torch.where(lower > -torch.inf, lower + 1, 0.0))
    middle = torch.where((lower == -torch.inf) & (upper < torch.inf), upper - 1, middle)
    first = torch.where(lower > -torch.inf, lower, torch.where(upper < torch.inf, upper - 1, 0.0))
    return torch.where(discrete, first, middle)


def full_value(d: Any, y: Any) -> Tensor:
    """Return ``y`` in float64, expanded to the batch shape of ``d``."""
    value = torch.as_tensor(y, dtype=torch.float64)
    return value.expand(broadcast_shapes(value.shape, d.batch_shape))


def result_dtype(d: Any, y: Any = None) -> torch.dtype:
    """Return the floating dtype of ``y`` and the parameters of ``d`` together, as torch would.

    Args:
        d: A distribution.
        y: Values, if any.

    Returns:
        The dtype.

    Example:
        >>> import pyro.distributions as dist
        >>> result_dtype(dist.Poisson(torch.ones(2)), torch.ones(2, dtype=torch.float64))
        torch.float64
    """
    dtypes = [t for t in _dtypes(d) if t.is_floating_point]
    if isinstance(y, Tensor) and y.dtype.is_floating_point and (y.ndim > 0 or not dtypes):
        dtypes.append(y.dtype)
    dtype = dtypes[0] if dtypes else torch.get_default_dtype()
    for other in dtypes[1:]:
        dtype = torch.promote_types(dtype, other)
    return dtype


def _dtypes(d: Any) -> list[torch.dtype]:
    found: list[torch.dtype] = []
    for value in vars(d).values():
        if isinstance(value, Tensor):
            found.append(value.dtype)
        elif isinstance(value, Distribution):
            found += _dtypes(value)
        elif isinstance(value, dict):
            found += [t for v in value.values() if isinstance(v, Distribution) for t in _dtypes(v)]
    return found
