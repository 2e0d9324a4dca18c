r"""Each observed node given every other observed one.

With :math:`Q` the precision of the observed normal scores, :math:`z_i` given the others is normal
with mean :math:`z_i - (Q z)_i / Q_{ii}` and variance :math:`1 / Q_{ii}`. A node takes the value
:math:`y_i` when its score lies in :math:`(\Phi^{-1} F_i(y_i^-), \Phi^{-1} F_i(y_i)]`, an interval
of positive length at a discrete node, so that :math:`P(Y_i \le y_i \mid y_{-i})` follows exactly
from the two. What approximates is the rule by which *other* discrete nodes are conditioned on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..marginals.registry import score_from_tails
from ..special import log_ndtr
from . import exact
from .conditional_copula import log_normal_interval
from .latent import Latent
from .scores import Scores


@dataclass(frozen=True, repr=False, eq=False)
class LeaveOneOut:
    """The law of each observed node given every other observed one, as ``leave_one_out(y)`` gives.

    The normal score of a node given the others is normal, or under the exact rules for discrete
    nodes a mixture of normals, one for each particle. Every result has the shape of ``y`` after
    broadcasting, and NaN at missing nodes.

    Attributes:
        part_mean: The means of the normal scores, ``(parts, *y.shape)``.
        part_scale: Their standard deviations, the same shape.
        log_weights: Log weights of the parts, the same shape: each node has its own.
        scores: The values themselves as normal scores, under the node's own marginal.
        to_value: From normal scores of all nodes to values.

    Example:
        >>> import pyro.distributions as dist
        >>> import pyro_copula as pc
        >>> graph = pc.Graph.from_edges([(0, 1), (1, 2)])
        >>> K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
        >>> copula = pc.GaussianCopula(dist.Poisson(torch.tensor([4.0, 4.0, 4.0])), precision=K)
        >>> left_out = copula.leave_one_out(torch.tensor([7.0, 6.0, math.nan]))
        >>> left_out
        LeaveOneOut(2 of 3 nodes observed)
        >>> left_out.mean
        tensor([0.8111, 1.1542,    nan], dtype=torch.float64)
        >>> left_out.cdf()
        tensor([0.9273, 0.5484,    nan], dtype=torch.float64)
    """

    part_mean: Tensor
    part_scale: Tensor
    log_weights: Tensor
    scores: Scores
    to_value: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, law: Any, value: Tensor) -> LeaveOneOut:
        """That of some values under a ``GaussianCopula`` or ``GraphNormal``."""
        return cls.from_scores(law, law._scores_of(value))

    @classmethod
    def from_scores(cls, law: Any, scores: Scores, *, discrete: str | None = None) -> LeaveOneOut:
        """That of values whose normal scores are known.

        Args:
            law: A ``GaussianCopula`` or ``GraphNormal``.
            scores: The normal scores.
            discrete: How other discrete nodes are conditioned on: ``"midpoint"``, or None for the
                rule of the law.
        """
        if discrete is None and law._has_boxes:
            return cls(*_particle_parts(law, scores), scores, law._from_scores)
        node_scale = law.latent.scale()
        x = scores.point * node_scale
        moments = law._by_pattern(_moments, x, scores.observed)  # (*sample, *batch, num_nodes, 2)
        mean, scale = (moments / node_scale.unsqueeze(-1)).unsqueeze(0).unbind(-1)
        return cls(mean, scale, torch.zeros_like(mean), scores, law._from_scores)

    @property
    def mean(self) -> Tensor:
        """The mean of each node's normal score given the other nodes."""
        return (self.log_weights.exp() * self.part_mean).sum(0)

    @property
    def scale(self) -> Tensor:
        """The standard deviation of each node's normal score given the other nodes."""
        second = self.part_scale.square() + (self.part_mean - self.mean).square()
        return (self.log_weights.exp() * second).sum(0).sqrt()

    @property
    def limits(self) -> tuple[Tensor, Tensor]:
        """The standard normal quantiles of :meth:`cdf`, just below each value and at it."""
        return self._standard(self.scores.lower), self._standard(self.scores.upper)

    def cdf(self) -> Tensor:
        """``P(Y_i <= y_i)`` given the other nodes, at the values themselves."""
        return torch.special.ndtr(self.limits[1])

    def cdf_below(self) -> Tensor:
        """``P(Y_i < y_i)`` given the other nodes: the same at a continuous node."""
        return torch.special.ndtr(self.limits[0])

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Draws at each node by itself given the values of the others.

        Returns:
            Shape ``(*sample_shape, *y.shape)``, NaN at missing nodes. Nodes of one row are drawn
            independently of each other.
        """
        shape = torch.Size((*sample_shape, *self.part_mean.shape[1:]))
        mean, scale = self._drawn_parts(torch.Size(sample_shape).numel())
        noise = torch.randn(shape, dtype=torch.float64)
        z = mean.reshape(shape) + scale.reshape(shape) * noise
        value = self.to_value(torch.where(self.scores.observed, z, 0.0))
        return torch.where(self.scores.observed, value, math.nan)

    def _drawn_parts(self, count: int) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of a part drawn at each node, ``count`` times."""
        mean, scale = self.part_mean.flatten(1), self.part_scale.flatten(1)
        if len(mean) == 1:
            return mean.expand(count, -1), scale.expand(count, -1)
        weights = self.log_weights.flatten(1).exp().nan_to_num(1.0)  # anything at missing nodes
        which = torch.multinomial(weights.T, count, replacement=True).T  # (count, entries)
        return mean.gather(0, which), scale.gather(0, which)

    def _standard(self, end: Tensor) -> Tensor:
        """``Phi^-1`` of the probability that a node's normal score is at most this."""
        each = (end - self.part_mean) / self.part_scale
        if len(each) == 1:
            return each[0]
        tails = (torch.logsumexp(self.log_weights + log_ndtr(t), 0) for t in (each, -each))
        return score_from_tails(*tails)

    def __repr__(self) -> str:
        shape = self.part_mean.shape[1:]
        rows = self.scores.observed.reshape(-1, shape[-1])
        batch = f", batch_shape={tuple(shape[:-1])}" if len(shape) > 1 else ""
        parts = f", {len(self.part_mean)} particles" if len(self.part_mean) > 1 else ""
        return f"LeaveOneOut({int(rows[:1].sum())} of {rows.shape[1]} nodes observed{batch}{parts})"


def simulated_scores(law: Any, sample_shape: Any, observed: Tensor) -> Scores:
    """The normal scores of values drawn from the law, seen through its rule for discrete nodes.

    Continuous nodes never leave the scale of scores, so nothing is lost to rounding there.

    Args:
        law: A ``GaussianCopula`` or ``GraphNormal``.
        sample_shape: The draws are ``(*sample_shape, *batch, num_nodes)``.
        observed: Boolean, shape ``(num_nodes,)``: the others are then missing.
    """
    shape = torch.Size((*sample_shape, *law.batch_shape, law.num_nodes))
    z = law.latent.sample(shape) / law.latent.scale()
    return law._scores_of_draws(z, observed.expand(shape))


def _particle_parts(law: Any, scores: Scores) -> tuple[Tensor, Tensor, Tensor]:
    """Means, standard deviations and log weights under the exact rules, one part a particle.

    A particle ``x`` is drawn given all values. Left to ``x_i`` given the rest of it, it stands for
    the other values alone once its weight is divided by ``p(y_i | x_-i)``.
    """
    scale, discrete, observed = law.latent.scale().detach(), law.discrete_nodes, scores.observed
    with torch.no_grad():
        z = torch.where(observed & ~discrete, scores.upper, 0.0)
        lower = torch.where(observed & discrete, scores.lower, 0.0)
        upper = torch.where(observed & discrete, scores.upper, 0.0)
        rows = exact.rows_between(law, z, lower, upper, observed)
        each = [torch.stack(_row_parts(row)) for row in rows]  # (3, particles, num_nodes)
        stacked = torch.stack(each, 2).reshape(*each[0].shape[:2], *z.shape)
        mean, deviation, log_weights = torch.where(observed, stacked, math.nan)
    return mean / scale, deviation / scale, log_weights


def _row_parts(row: exact.Row) -> tuple[Tensor, Tensor, Tensor]:
    mean, deviation, log_weights = row.leave_one_out()
    lower, upper, at = ((end - mean) / deviation for end in (row.lower, row.upper, row.x))
    log_density = torch.where(row.boxed, log_normal_interval(lower, upper), -at.square() / 2)
    return mean, deviation, torch.log_softmax(log_weights - log_density, 0)


def _moments(latent: Latent, x: Tensor, observed: Tensor) -> Tensor:
    """Mean and standard deviation of ``x_i`` given the others, NaN at missing nodes."""
    mean, variance = latent.leave_one_out(x, observed)
    full = x.new_full((*mean.shape[:-1], len(observed), 2), math.nan)
    full[..., observed, :] = torch.stack([mean, variance.sqrt().expand_as(mean)], -1)
    return full
