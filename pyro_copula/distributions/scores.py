"""Normal scores of the values at the nodes, under a rule for discrete marginals."""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import marginals
from ..errors import InvalidArgumentError, MidpointWarning
from ..errors.spelling import did_you_mean

#: The rules that ``discrete=`` takes.
DISCRETE_RULES = ("midpoint", "exact", "ep", "augment")

#: Other names for them.
_ALIASES = {"ghk": "exact"}

#: An atom wider than this is one inside which the normal density varies too much for its
#: midpoint to stand for it, and this share of such nodes makes the rule unreliable. Poisson
#: counts of mean 1 exceed both, of mean 3 neither.
_WIDE_ATOM, _WIDE_SHARE = 0.3, 0.2


class Scores(NamedTuple):
    """Values on the scale of normal scores, each ``(*sample, *batch, num_nodes)``.

    Attributes:
        point: The score that stands for the value when other nodes are conditioned on it; any
            finite number at a missing node.
        lower: The value is the one of every score in ``(lower, upper]``.
        upper: At a continuous node both ends are the normal score.
        observed: Which values are not missing.
    """

    point: Tensor
    lower: Tensor
    upper: Tensor
    observed: Tensor

    @classmethod
    def between(cls, marginal_dist: Any, value: Tensor, point: Tensor, observed: Tensor) -> Scores:
        """Those of values in the support, at missing nodes too."""
        lower, upper = (
            torch.where(observed, end.double(), math.nan)
            for end in marginals.normal_score_limits(marginal_dist, value)
        )
        return cls(point, lower, upper, observed)


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
    return _clipped(z.double(), tail_clip)


def _clipped(z: Tensor, tail_clip: float | None) -> Tensor:
    if tail_clip is None:
        return z
    bound = -float(torch.special.ndtri(torch.tensor(tail_clip, dtype=torch.float64)))
    return z.clamp(-bound, bound)


def drawn_scores(
    marginal_dist: Any, z: Tensor, observed: Tensor, tail_clip: float | None
) -> Scores:
    """The normal scores of values that were drawn as scores.

    Continuous nodes never leave the scale of scores, so nothing is lost to rounding there.

    Args:
        marginal_dist: The marginals.
        z: The scores, float64, shape ``(*sample, *batch, num_nodes)``.
        observed: Boolean, the same shape: the others are then missing.
        tail_clip: See :func:`node_scores`.
    """
    discrete = marginals.discrete_nodes(marginal_dist, z.shape[-1])
    end = torch.where(observed, z, math.nan)
    point = _clipped(z, tail_clip)
    if not bool(discrete.any()):
        return Scores(point, end, end, observed)
    score = torch.where(observed, z, 0.0).to(value_dtype(marginal_dist))
    drawn = marginals.from_normal_score(marginal_dist, score)
    value = marginals.fill_missing(marginal_dist, drawn, discrete & observed)
    atom = Scores.between(
        marginal_dist,
        value,
        node_scores(marginal_dist, value, z.shape[-1], tail_clip),
        discrete & observed,
    )
    return Scores(
        torch.where(discrete, atom.point, point),
        torch.where(discrete, atom.lower, end),
        torch.where(discrete, atom.upper, end),
        observed,
    )


def wide_atoms(marginal_dist: Any, value: Tensor, observed: Tensor) -> bool:
    """Whether so many observed nodes have a wide atom that the midpoint rule is unreliable."""
    discrete = marginals.discrete_nodes(marginal_dist, value.shape[-1]) & observed
    count = int(discrete.sum())
    if count == 0:
        return False
    with torch.no_grad():
        atom = marginals.log_prob(marginal_dist, value) > math.log(_WIDE_ATOM)
    return int((atom & discrete).sum()) > _WIDE_SHARE * count


def warn_of_wide_atoms(marginal_dist: Any, value: Tensor, observed: Tensor) -> None:
    """Warns where the midpoint rule is unreliable, in the name of a method of the law."""
    if wide_atoms(marginal_dist, value, observed):
        warnings.warn(
            "The midpoint rule for discrete marginals is a poor approximation here: many observed "
            "nodes have an atom of probability above 0.3 (counts mostly 0 and 1?). Dependence, "
            "likelihood values and leave-one-out are then unreliable; predictions at missing "
            'nodes suffer little.\n  Use discrete="exact" or "ep" ("augment" adds latent scores '
            "for NUTS and SVI).",
            MidpointWarning,
            stacklevel=4,
        )


def log_standard_normal(z: Tensor) -> Tensor:
    """The log density of the standard normal."""
    return -(z.square() + math.log(2 * math.pi)) / 2


def value_dtype(marginal_dist: Any) -> torch.dtype:
    """The dtype that draws of these marginals have."""
    return marginals.result_dtype(marginal_dist)
