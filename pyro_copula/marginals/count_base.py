"""What a law of counts asks of the law that it is built on."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution

from ..errors import InvalidArgumentError
from .densities import log_prob
from .registry import lookup
from .tails import full_value


def check_count_base(base_dist: Any, family: str) -> None:
    """Check that ``base_dist`` is a univariate discrete law with a known cdf.

    Args:
        base_dist: The law to check.
        family: The name of the family to be built on it, for the error.

    Raises:
        InvalidArgumentError: If it is not.
        MissingCDFError: If its cdf is not known.
    """
    expected = "a Pyro distribution of counts"
    if not isinstance(base_dist, Distribution):
        found = (
            f"the class {base_dist.__name__}"
            if isinstance(base_dist, type)
            else f"a {type(base_dist).__name__}"
        )
        hint = "Pass an object such as dist.Poisson(rate)."
        raise InvalidArgumentError("base_dist", expected, found, hint)
    if base_dist.event_shape:
        found = f"event shape {tuple(base_dist.event_shape)}"
        hint = "Drop .to_event(1), or choose a univariate law."
        raise InvalidArgumentError("base_dist", "univariate, with event shape ()", found, hint)
    law, base = lookup(base_dist, "base_dist")
    discrete = law.is_discrete(base)
    name = type(base).__name__
    if isinstance(discrete, Tensor):
        hint = f"Put it inside instead: Mixed({{'count': {family}(...), ...}}, kind=...)."
        raise InvalidArgumentError("base_dist", expected, f"{name}, of several families", hint)
    if not discrete:
        hint = "Use a discrete law, such as dist.Poisson(rate) or dist.GammaPoisson(a, b)."
        raise InvalidArgumentError("base_dist", expected, f"{name}, which is continuous", hint)


def count_bounds(base_dist: Any) -> tuple[Tensor, Tensor]:
    """Return the first and last point of a law's support, each of its batch shape, in float64."""
    law, base = lookup(base_dist)
    lower, upper = law.bounds(base)
    return full_value(base_dist, lower), full_value(base_dist, upper)


def log_prob_from(base_dist: Any, value: Tensor, first: Tensor) -> Tensor:
    """Return ``base_dist.log_prob(value)``, and minus infinity for a value before ``first``."""
    below = value < first
    safe = torch.where(below, first.to(value.dtype), value)
    return torch.where(below, -torch.inf, log_prob(base_dist, safe))
