"""From values to normal scores: ``z = Phi^-1(F(y))`` and its two relatives for counts.

Every score is computed from whichever tail is small, in logarithms, so that an outlier has a
large finite score and a useful gradient instead of a clamp.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .registry import lookup, score_from_tail
from .tails import evaluate_tail, full_value, inside_support, log_tail, result_dtype

LOG_2 = 0.6931471805599453


def normal_score(d: Any, y: Tensor) -> Tensor:
    """Return the normal score ``Phi^-1(F(y))`` of every value.

    Args:
        d: A distribution with event shape ``()``.
        y: Values that broadcast against the batch shape of ``d``.

    Returns:
        The scores: finite inside the support, infinite (with zero gradient) outside it and at
        its ends; for a discrete law, the upper of :func:`normal_score_limits`.

    Example:
        >>> import pyro.distributions as dist
        >>> normal_score(dist.Normal(torch.zeros(2), 2.0), torch.tensor([1.0, 60.0]))
        tensor([ 0.5000, 30.0000])
    """
    return evaluate_tail(d, y, "score", -torch.inf, torch.inf)


def normal_score_limits(d: Any, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores between which a discrete value lies.

    A copula gives the value ``y`` to every latent score in ``(Phi^-1(F(y-1)), Phi^-1(F(y))]``.

    Args:
        d: The marginals, batch shape ``(*batch, num_nodes)``.
        y: Values that broadcast against it.

    Returns:
        ``(lower, upper)``; minus infinity at the start and infinity at the end of the support,
        with zero gradient there. For a continuous law both are the normal score.

    Example:
        >>> import pyro.distributions as dist
        >>> normal_score_limits(dist.Bernoulli(torch.tensor([0.5, 0.5])), torch.tensor([0.0, 1.0]))
        (tensor([-inf, 0.]), tensor([0., inf]))
    """
    discrete = torch.as_tensor(is_discrete(d))
    upper = normal_score(d, y)
    if not bool(discrete.any()):
        return upper, upper
    return normal_score(d, _before(d, y, discrete)), upper


def midpoint_score(d: Any, y: Tensor) -> Tensor:
    """Return ``Phi^-1((F(y-1) + F(y)) / 2)``, the midpoint rule for discrete marginals.

    Finite for every ``y`` in the support, both ends included. For a continuous law it is the
    normal score.

    Example:
        >>> import pyro.distributions as dist
        >>> midpoint_score(dist.Bernoulli(torch.tensor([0.5])), torch.tensor([1.0]))
        tensor([0.6745])
    """
    discrete = torch.as_tensor(is_discrete(d))
    if not bool(discrete.any()):
        return normal_score(d, y)
    dtype = result_dtype(d, y)
    law, base = lookup(d)
    value = full_value(d, y)
    score = law.midpoint(base, value)
    if score is None:
        score = midpoint_from_tails(d, value, discrete)
    if not bool(discrete.all()):
        score = torch.where(discrete, score, normal_score(d, value))
    return score.to(dtype)


def midpoint_from_tails(d: Any, value: Tensor, discrete: Tensor) -> Tensor:
    """Return the midpoint score from the tails at a value and at the one before it.

    Args:
        d: The marginals.
        value: Values in float64, of full shape.
        discrete: Which nodes are discrete.
    """
    before = _before(d, value, discrete)
    law, base, safe, _, is_last = inside_support(d, value)
    # At the last point of the support `safe` is another point, so its tail says nothing.
    upper = law.use_upper(base, safe) | is_last
    log_p = _log_mean(log_tail(d, before, upper), log_tail(d, value, upper))
    return score_from_tail(log_p, upper)


def _log_mean(first: Tensor, second: Tensor) -> Tensor:
    """Return ``log((exp(first) + exp(second)) / 2)``, with all derivatives where one is -inf."""
    alone = (first == -torch.inf) | (second == -torch.inf)
    both = torch.logaddexp(torch.where(alone, 0.0, first), torch.where(alone, 0.0, second))
    return torch.where(alone, torch.maximum(first, second), both) - LOG_2


def _before(d: Any, y: Tensor, discrete: Tensor) -> Tensor:
    value = full_value(d, y)
    return torch.where(discrete, value - 1, value).to(torch.as_tensor(y).dtype)


def is_discrete(d: Any) -> bool | Tensor:
    """Tell whether ``d`` is discrete; for :class:`~pyro_copula.marginals.Mixed`, which nodes.

    Args:
        d: A distribution.

    Returns:
        A bool, or one per node.

    Example:
        >>> import pyro.distributions as dist
        >>> is_discrete(dist.Poisson(1.0)), is_discrete(dist.Normal(0.0, 1.0))
        (True, False)
    """
    law, d = lookup(d)
    return law.is_discrete(d)


def discrete_nodes(d: Any, num_nodes: int) -> Tensor:
    """Tell which nodes have a discrete marginal.

    Args:
        d: The marginals, batch shape ``(*batch, num_nodes)``.
        num_nodes: The number of nodes.

    Returns:
        A boolean tensor, shape ``(num_nodes,)``.

    Example:
        >>> import pyro.distributions as dist
        >>> discrete_nodes(dist.Poisson(torch.ones(2)), 2)
        tensor([True, True])
    """
    return torch.as_tensor(is_discrete(d)).expand(num_nodes)
