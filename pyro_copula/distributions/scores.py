"""Normal scores of the values at the nodes, under a rule for discrete marginals."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from .. import marginals
from ..errors import InvalidArgumentError
from ..errors.spelling import did_you_mean

#: The rules that ``discrete=`` takes.
DISCRETE_RULES = ("midpoint", "exact", "ep", "augment")

#: Other names for them.
_ALIASES = {"ghk": "exact"}

#: An atom wider than this is one inside which the normal density varies too much for its
#: midpoint to stand for it, and this share of such nodes makes the rule unreliable. Poisson
#: counts of mean 1 exceed both, of mean 3 neither.
_WIDE_ATOM, _WIDE_SHARE = 0.3, 0.2


def check_rule(discrete: str) -> str:
    """The rule of this name, or the error that lists them."""
    rule = _ALIASES.get(discrete, discrete) if isinstance(discrete, str) else discrete
    if rule not in DISCRETE_RULES:
        raise InvalidArgumentError(
            "discrete",
            f"one of {DISCRETE_RULES}",
            repr(discrete),
            did_you_mean(discrete, (*DISCRETE_RULES, *_ALIASES), 'Use discrete="exact".'),
        )
    return rule


def node_scores(
    marginal_dist: Any, value: Tensor, num_nodes: int, tail_clip: float | None
) -> Tensor:
    """Normal scores in float64: exact at continuous nodes, at the atom's midpoint elsewhere.

    Args:
        marginal_dist: The marginals.
        value: Values in the support, shape ``(*sample, *batch, num_nodes)``.
        num_nodes: The number of nodes.
        tail_clip: Uniform scores are clamped to ``[tail_clip, 1 - tail_clip]`` if given.
    """
    discrete = marginals.discrete_nodes(marginal_dist, num_nodes)
    if not bool(discrete.any()):
        z = marginals.normal_score(marginal_dist, value)
    elif bool(discrete.all()):
        z = marginals.midpoint_score(marginal_dist, value)
    else:
        z = torch.where(
            discrete,
            marginals.midpoint_score(marginal_dist, value),
            marginals.normal_score(marginal_dist, value),
        )
    z = z.double()
    if tail_clip is not None:
        bound = -float(torch.special.ndtri(torch.tensor(tail_clip, dtype=torch.float64)))
        z = z.clamp(-bound, bound)
    return z


def wide_atoms(marginal_dist: Any, value: Tensor, observed: Tensor) -> bool:
    """Whether so many observed nodes have a wide atom that the midpoint rule is unreliable."""
    discrete = marginals.discrete_nodes(marginal_dist, value.shape[-1]) & observed
    count = int(discrete.sum())
    if count == 0:
        return False
    with torch.no_grad():
        atom = marginals.log_prob(marginal_dist, value) > math.log(_WIDE_ATOM)
    return int((atom & discrete).sum()) > _WIDE_SHARE * count


def log_standard_normal(z: Tensor) -> Tensor:
    """The log density of the standard normal."""
    return -(z.square() + math.log(2 * math.pi)) / 2


def value_dtype(marginal_dist: Any) -> torch.dtype:
    """The dtype that draws of these marginals have."""
    return marginals.result_dtype(marginal_dist)
