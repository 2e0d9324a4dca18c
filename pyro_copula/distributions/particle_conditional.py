"""The missing nodes given discrete observed ones, with the uncertainty inside of the atoms."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from .base import NodeDistribution, check_level, level_first
from .conditional_copula import ConditionalCopula
from .latent import Latent

_BISECTIONS = 60


class ParticleConditional(NodeDistribution):
    r"""A weighted mixture of :class:`ConditionalCopula`, one for every particle.

    What an observed count says of its latent normal score is an interval, not a number. The exact
    rule draws the scores of the observed nodes jointly, given all counts, with importance
    weights; given each draw the missing nodes are as in Algorithm 1 of the paper. So the normal
    score of a missing node is a mixture of normals, and its quantiles, intervals and probabilities
    are those of the mixture. It has the methods of :class:`ConditionalCopula`.

    Made by :meth:`GaussianCopula.condition` with ``discrete="exact"``, ``"ep"`` or ``"augment"``.

    Args:
        parts: The law given each particle, batch shape ``(num_particles, *batch)``.
        log_weights: The normalised log weights, ``(num_particles, *batch)``.
        joint: The copula, for the joint log density of held-out values.
        value: The value that was conditioned on, NaN at the missing nodes.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        parts: ConditionalCopula,
        log_weights: Tensor,
        joint: Any,
        value: Tensor,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.parts = parts
        self.log_weights = log_weights
        self.nodes = parts.nodes
        self._joint, self._value = joint, value
        super().__init__(parts.batch_shape[1:], parts.event_shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> Any:
        """The support of the marginals, at every missing node."""
        return self.parts.support

    @property
    def latent(self) -> Latent:  # type: ignore[override]
        """What is left of the latent vector given the observed nodes."""
        return self.parts.latent

    @property
    def has_rsample(self) -> bool:
        """Whether draws carry derivatives: no, particles are chosen at random."""
        return False

    @property
    def discrete_nodes(self) -> Tensor:
        """Which missing nodes have a discrete marginal, boolean of shape ``(num_missing,)``."""
        return self.parts.discrete_nodes

    @property
    def mean(self) -> Tensor:
        """The predictive means, ``(*batch, num_missing)``."""
        return self._moments[0]

    @property
    def variance(self) -> Tensor:
        """The predictive variances, ``(*batch, num_missing)``."""
        return self._moments[1]

    def expand(self, batch_shape: Any, _instance: Any = None) -> ParticleConditional:
        """A copy with a larger batch shape, with the same particles in every new element.

        Args:
            batch_shape: The new batch shape.

        Returns:
            The expanded law.
        """
        batch_shape = torch.Size(batch_shape)
        count, added = len(self.log_weights), len(batch_shape) - len(self.batch_shape)

        def lifted(each: Tensor) -> Tensor:
            """New dimensions of the batch come after that of the particles."""
            return each.reshape(count, *(1,) * added, *each.shape[1:])

        new = self._expanded(batch_shape, _instance)
        new.__dict__.pop("_moments", None)
        parts = copy.copy(self.parts)
        parts.score_mean = lifted(parts.score_mean)
        new.parts = parts.expand((count, *batch_shape))
        new.log_weights = lifted(self.log_weights).expand(count, *batch_shape)
        new._value = self._value.expand(*batch_shape, -1)
        return new

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Joint draws of shape ``(*sample_shape, *batch, num_missing)``."""
        shape = torch.Size(sample_shape)
        with torch.no_grad():
            logits = self.log_weights.movedim(0, -1)
            which = torch.distributions.Categorical(logits=logits).sample(shape)
            means = self.parts.score_mean.movedim(0, -2)
            means = means.expand(*shape, *means.shape)
            index = which[..., None, None].expand(*which.shape, 1, means.shape[-1])
            mean = means.gather(-2, index).squeeze(-2)
            x = self.latent.sample(torch.Size((*shape, *self.batch_shape, len(self.nodes))))
            return self.parts._from_scores(mean + x / self.parts.node_scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """The joint log density of held-out values: that of all nodes minus the observed ones'.

        Args:
            value: Shape ``(*sample, *batch, num_missing)``, in the order of ``nodes``.
        """
        value, _ = self._checked_value(value, "y_missing")
        known = self._value.expand(*value.shape[:-1], -1)
        full = known.index_copy(-1, self.nodes, value.to(known.dtype))
        return self._joint.log_prob(full) - self._joint.log_prob(self._value)

    # ---------------------------------------------------------------- one node at a time

    def quantile(self, q: float | Tensor) -> Tensor:
        """Predictive quantiles.

        Args:
            q: A level, or several, of shape ``(*levels,)``.

        Returns:
            Shape ``(*levels, *batch, num_missing)``.
        """
        mean, scale = self.parts.score_mean, self.parts.score_scale
        level = level_first(check_level("q", q), mean.dim() - 1)
        each = mean + scale * torch.special.ndtri(self._for_each(level))
        low, high = each.amin(self._particle_dim), each.amax(self._particle_dim)
        weights = self._weights.exp()
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            u = torch.special.ndtr((self._for_each(middle) - mean) / scale)
            below = (weights * u).sum(self._particle_dim) < level
            low, high = torch.where(below, middle, low), torch.where(below, high, middle)
        return self.parts._from_scores((low + high) / 2)

    def cdf(self, value: Tensor) -> Tensor:
        """The predictive distribution functions, node by node, NaN where the value is."""
        value = self._node_values(value, "y_missing")
        each = self.parts.cdf(self._for_each(value))
        # The weights add up to one except for rounding, which must not carry it above one.
        return (self._weights.exp() * each).sum(self._particle_dim).clamp(max=1.0)

    def marginal_log_prob(self, value: Tensor) -> Tensor:
        """The predictive log density of each node by itself, NaN where the value is."""
        value = self._node_values(value, "y_missing")
        each = self.parts.marginal_log_prob(self._for_each(value))
        return torch.logsumexp(self._weights + each, self._particle_dim)

    # ---------------------------------------------------------------- internals

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        weights = self.log_weights.exp().unsqueeze(-1)
        each = self.parts.mean
        mean = (weights * each).sum(0)
        spread = self.parts.variance + (each - mean).square()
        return mean.to(each.dtype), (weights * spread).sum(0).to(each.dtype)

    def _for_each(self, value: Tensor) -> Tensor:
        """``(*sample, *batch, n)`` as ``(*sample, 1, *batch, n)``."""
        batch = len(self.batch_shape)
        value = value.reshape((1,) * max(0, batch + 1 - value.dim()) + tuple(value.shape))
        return value.unsqueeze(-2 - batch)

    @property
    def _particle_dim(self) -> int:
        return -2 - len(self.batch_shape)

    @property
    def _weights(self) -> Tensor:
        return self.log_weights.unsqueeze(-1)

    def __repr__(self) -> str:
        batch = f", batch_shape={tuple(self.batch_shape)}" if self.batch_shape else ""
        count = self.log_weights.shape[0]
        size = float(1 / (2 * self.log_weights).exp().sum(0).max())
        return (
            f"ParticleConditional(missing={len(self.nodes)}, particles={count}, "
            f"effective={size:.0f}{batch})"
        )
