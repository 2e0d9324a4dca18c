"""Checks of marginals and of values against them, and safe stand-ins for missing values."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from ..errors import InvalidArgumentError, SupportError
from .quantiles import from_normal_score
from .registry import OwnCDF, lookup, missing_cdf
from .tails import full_value, inner_point


def fill_missing(d: Any, y: Tensor, observed: Tensor) -> Tensor:
    """Return ``y`` with every missing entry replaced by a value inside its node's support.

    The stand-in is the median of a continuous law and the first point of a discrete one. It is
    detached, so that a missing value sends no gradient anywhere.

    Args:
        d: The marginals, batch shape ``(*batch, num_nodes)``.
        y: Values; entries at missing nodes may be NaN.
        observed: Boolean, broadcastable to ``y``: which entries to keep.

    Returns:
        ``y`` itself if nothing is missing, else its broadcast with ``d.batch_shape`` and
        ``observed``.

    Example:
        >>> import pyro.distributions as dist
        >>> y = torch.tensor([5.0, torch.nan])
        >>> fill_missing(dist.Normal(torch.zeros(2), 1.0), y, ~y.isnan())
        tensor([5., 0.])
    """
    if bool(observed.all()):
        return y
    return torch.where(observed, y, stand_in(d).to(y.dtype))


@torch.no_grad()
def stand_in(d: Any) -> Tensor:
    """Return a value inside the support of every node, shape ``d.batch_shape``."""
    law, base = lookup(d)
    discrete = torch.as_tensor(law.is_discrete(base))
    if bool(discrete.all()):
        return inner_point(*law.bounds(base), discrete).expand(d.batch_shape)
    median = from_normal_score(d, torch.zeros(d.batch_shape, dtype=torch.float64))
    if not bool(discrete.any()):
        return median
    return torch.where(discrete, inner_point(*law.bounds(base), discrete), median)


def check_support(d: Any, y: Tensor, observed: Tensor | None = None, argument: str = "y") -> None:
    """Check that every observed value lies in the support of its node's marginal.

    The ends of the support of a continuous law are refused as well: their normal score is
    infinite.

    Args:
        d: The marginals, batch shape ``(*batch, num_nodes)``.
        y: Values, last dimension ``num_nodes``.
        observed: Boolean, broadcastable to ``y``; entries where it is False are ignored. By
            default, every entry that is not NaN is observed.
        argument: The name of ``y`` in error messages.

    Raises:
        InvalidArgumentError: If an observed value is infinite or NaN.
        SupportError: If an observed value is outside the support; it names the first one.

    Example:
        >>> import pyro.distributions as dist
        >>> try:
        ...     check_support(dist.Poisson(torch.ones(3)), torch.tensor([2.0, -1.0, torch.nan]))
        ... except SupportError as error:
        ...     print(error.node, error.value, error.support)
        1 -1.0 a non-negative integer
    """
    value = full_value(d, y).detach()
    observed = ~torch.isnan(value) if observed is None else observed.expand(value.shape)
    infinite = observed & ~torch.isfinite(value)
    if bool(infinite.any()):
        node, bad = _first(infinite, value)
        hint = "Use NaN for a missing value, and drop or repair infinite ones."
        raise InvalidArgumentError(argument, "finite or NaN", f"{bad:g} at node {node}", hint)
    law, base = lookup(d)
    discrete = torch.as_tensor(law.is_discrete(base))
    lower, upper = law.bounds(base)
    whole = (value >= lower) & (value <= upper) & (value == value.floor())
    inside = torch.where(discrete, whole, (value > lower) & (value < upper))
    outside = observed & ~inside
    if not bool(outside.any()):
        return
    node, bad = _first(outside, value)
    at = [torch.broadcast_to(t, value.shape)[outside][0].item() for t in (lower, upper)]
    is_count = bool(torch.broadcast_to(discrete, value.shape)[outside][0])
    count = int(outside.sum())
    hint = (
        f"{count} value{'s are' if count > 1 else ' is'} outside: correct the data, mark a missing "
        f"value with NaN, or choose another marginal than {type(base).__name__}."
    )
    raise SupportError(argument, node, bad, _in_words(at[0], at[1], is_count), hint)


def _first(bad: Tensor, value: Tensor) -> tuple[int, float]:
    position = int(bad.flatten().nonzero()[0])
    num_nodes = value.shape[-1] if value.ndim else 1
    return position % num_nodes, float(value.flatten()[position])


def _in_words(lower: float, upper: float, discrete: bool) -> str:
    if discrete:
        if (lower, upper) == (0, 1):
            return "0 or 1"
        if upper < torch.inf:
            return f"an integer from {lower:g} to {upper:g}"
        known = {0.0: "a non-negative integer", 1.0: "a positive integer", -torch.inf: "an integer"}
        return known.get(lower, f"an integer of at least {lower:g}")
    if upper == torch.inf:
        known = {0.0: "a positive number", -torch.inf: "a finite number"}
        return known.get(lower, f"a number above {lower:g}")
    if lower == -torch.inf:
        return f"a number below {upper:g}"
    return f"a number strictly between {lower:g} and {upper:g}"


def check_marginal(d: Any, num_nodes: int, argument: str = "marginal_dist") -> None:
    """Check that ``d`` can be the marginals of ``num_nodes`` nodes.

    Args:
        d: A distribution.
        num_nodes: The number of nodes.
        argument: The name of ``d`` in error messages.

    Raises:
        InvalidArgumentError: If ``d`` is not a distribution, has event dimensions, or has
            another number of nodes.
        MissingCDFError: If the law has no known cdf.

    Example:
        >>> import pyro.distributions as dist
        >>> check_marginal(dist.Poisson(torch.ones(3)), 3)  # nothing to say
        >>> try:
        ...     check_marginal(dist.Poisson(torch.ones(3)), 4)
        ... except InvalidArgumentError as error:
        ...     print(error.found)
        batch shape (3,)
    """
    if not isinstance(d, Distribution):
        raise InvalidArgumentError(
            argument,
            "a Pyro distribution over the nodes",
            f"a {type(d).__name__}",
            "Pass an object such as dist.Normal(loc, scale), with one location per node.",
        )
    if d.event_shape:
        raise InvalidArgumentError(
            argument,
            "univariate, with event shape ()",
            f"event shape {tuple(d.event_shape)}",
            "Drop .to_event(1): the copula itself makes the nodes one event."
            if isinstance(d, torch.distributions.Independent)
            else "Nodes are batch elements of a univariate law; use one such as dist.Normal.",
        )
    if not d.batch_shape or d.batch_shape[-1] != num_nodes:
        expandable = not d.batch_shape or d.batch_shape[-1] == 1
        batch = (*d.batch_shape[:-1], num_nodes)
        raise InvalidArgumentError(
            argument,
            f"of batch shape (*batch, {num_nodes}), one law per node",
            f"batch shape {tuple(d.batch_shape)}",
            f"To give every node the same law, expand it: {argument}.expand({list(batch)})."
            if expandable
            else f"The graph or matrix has {num_nodes} nodes; the parameters must have as many.",
        )
    law, base = lookup(d, argument)
    law.is_discrete(base)
    if isinstance(law, OwnCDF):
        try:
            base.cdf(stand_in(d))
        except NotImplementedError:
            raise missing_cdf(base, argument) from None
