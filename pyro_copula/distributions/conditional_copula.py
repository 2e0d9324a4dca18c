"""The law of the missing nodes given the observed ones, under a Gaussian copula."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from .. import marginals
from ..special import log_ndtr
from .base import NodeDistribution, check_level, level_first
from .latent import Latent
from .scores import log_standard_normal, node_scores, value_dtype


class ConditionalCopula(NodeDistribution):
    r"""The missing nodes of a :class:`GaussianCopula` given the observed ones.

    The normal scores of the missing nodes are jointly normal, so the marginal law of a node is
    that of :math:`F_i^{-1}(\Phi(Z))` with :math:`Z \sim N(m_i, v_i)`. Quantiles and intervals
    are therefore exact, and means and variances one-dimensional quadratures; ``sample`` is there
    for statements about several nodes together.

    Made by :meth:`GaussianCopula.condition`. Its nodes are the missing ones, in the order of
    ``nodes``; it is a distribution like any other, and NaN in a value given to ``log_prob`` is
    again a missing node.

    Args:
        marginal_dist: The marginals of all nodes, observed ones included.
        nodes: The missing nodes, int64 of shape ``(num_missing,)``, increasing.
        score_mean: The conditional means of their normal scores, ``(*batch, num_missing)``.
        node_scale: Their unconditional latent scale ``s``, ``(*latent batch, num_missing)``.
        latent: What is left of the latent vector given the observed nodes.
        validate_args: Pyro's default if None.

    Example:
        >>> import pyro.distributions as dist
        >>> import pyro_copula as pc
        >>> graph = pc.Graph.from_edges([(0, 1), (1, 2)])
        >>> K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
        >>> copula = pc.GaussianCopula(dist.Gamma(torch.full((3,), 2.0), 1.0), precision=K)
        >>> missing = copula.condition(torch.tensor([4.0, math.nan, math.nan]))
        >>> missing
        ConditionalCopula(missing=2 of 3)
        >>> missing.nodes, missing.mean, missing.quantile(0.5)
        (tensor([1, 2]), tensor([3.6214, 3.3178]), tensor([3.4984, 3.1162]))
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        marginal_dist: Any,
        nodes: Tensor,
        score_mean: Tensor,
        node_scale: Tensor,
        latent: Latent,
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.marginal_dist = marginal_dist
        self.nodes = nodes
        self.score_mean = score_mean
        self.node_scale = node_scale
        self.latent = latent
        super().__init__(score_mean.shape[:-1], score_mean.shape[-1:], validate_args=validate_args)

    # ---------------------------------------------------------------- the law

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> Any:
        """The support of the marginals, at every missing node."""
        return _MissingSupport(self)

    @property
    def has_rsample(self) -> bool:
        """Whether draws carry derivatives."""
        return not bool(self.discrete_nodes.any())

    @property
    def discrete_nodes(self) -> Tensor:
        """Which missing nodes have a discrete marginal, boolean of shape ``(num_missing,)``."""
        return marginals.discrete_nodes(self.marginal_dist, self._num_all)[self.nodes]

    @property
    def score_scale(self) -> Tensor:
        """The standard deviations of the normal scores, ``(*batch, num_missing)``."""
        return (self.latent.scale() / self.node_scale).expand_as(self.score_mean)

    @property
    def score_scale_error(self) -> Tensor:
        """The standard errors of ``score_scale``, ``(*batch, num_missing)``.

        They are zero unless the iterative backend estimates the conditional variances, and leave
        out the smaller error of ``node_scale``.
        """
        error = self.latent.variance_error() / (2 * self.latent.scale() * self.node_scale)
        return error.expand_as(self.score_mean)

    @property
    def mean(self) -> Tensor:
        """The predictive means, by quadrature, ``(*batch, num_missing)``."""
        return self._moments[0]

    @property
    def variance(self) -> Tensor:
        """The predictive variances, by quadrature, ``(*batch, num_missing)``."""
        return self._moments[1]

    def expand(self, batch_shape: Any, _instance: Any = None) -> ConditionalCopula:
        """A copy with a larger batch shape.

        Args:
            batch_shape: The new batch shape.

        Returns:
            The expanded law.
        """
        new = self._expanded(batch_shape, _instance)
        new.__dict__.pop("_moments", None)
        new.score_mean = self.score_mean.expand(*batch_shape, -1)
        return new

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Joint draws, with derivatives if every marginal is continuous.

        Args:
            sample_shape: The shape of a sample of draws.

        Returns:
            Shape ``(*sample_shape, *batch, num_missing)``.
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        x = self.latent.sample(shape)
        return self._from_scores(self.score_mean + x / self.node_scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """The joint log density of held-out values at the missing nodes, under the same rule.

        Scores of held-out values are not clamped, whatever ``tail_clip`` of the joint law.

        Args:
            value: Shape ``(*sample, *batch, num_missing)``, in the order of ``nodes``.

        Returns:
            Shape ``(*sample, *batch)``.
        """
        value, observed, z = self._scores(value)
        x = (z - self.score_mean) * self.node_scale
        density = self._by_pattern(
            lambda latent, x, pattern: latent.log_density(x, pattern), x, observed
        )
        jacobian = self.node_scale.log() - log_standard_normal(z)
        jacobian = torch.where(observed, jacobian, 0.0).sum(-1)
        marginal = torch.where(observed, self._marginal_log_prob(value), 0.0).sum(-1)
        return marginal + (density + jacobian).to(marginal.dtype)

    # ---------------------------------------------------------------- one node at a time

    def quantile(self, q: float | Tensor) -> Tensor:
        """Exact predictive quantiles.

        Args:
            q: A level, or several, of shape ``(*levels,)``.

        Returns:
            Shape ``(*levels, *batch, num_missing)``.
        """
        z = level_first(torch.special.ndtri(check_level("q", q)), self.score_mean.dim())
        return self._from_scores(self.score_mean + self.score_scale * z)

    def cdf(self, value: Tensor) -> Tensor:
        """The predictive distribution functions ``P(Y_i <= y_i | observed)``, node by node.

        Args:
            value: Any numbers, shape ``(*sample, *batch, num_missing)``; zero and one outside of
                the support, NaN where the value is.

        Returns:
            The same shape.
        """
        value = self._node_values(value, "y_missing")
        observed = ~torch.isnan(value)
        full = self._full_value(value)
        z = marginals.normal_score(self.marginal_dist, full)[..., self.nodes].double()
        u = torch.special.ndtr((z - self.score_mean) / self.score_scale)
        return torch.where(observed, u, math.nan).to(self._dtype)

    def marginal_log_prob(self, value: Tensor) -> Tensor:
        """The predictive log density of each node by itself: the terms of a log score.

        At a discrete node it is the exact probability of the atom, whatever the rule.

        Args:
            value: Shape ``(*sample, *batch, num_missing)``.

        Returns:
            The same shape, NaN where the value is.
        """
        value, observed, z = self._scores(value)
        standard = (z - self.score_mean) / self.score_scale
        density = log_standard_normal(standard) - self.score_scale.log() - log_standard_normal(z)
        result = self._marginal_log_prob(value) + density
        discrete = self.discrete_nodes
        if bool(discrete.any()):
            lower, upper = self._limits(value)
            result = torch.where(discrete, log_normal_interval(lower, upper), result)
        return torch.where(observed, result, math.nan).to(self._dtype)

    # ---------------------------------------------------------------- internals

    @property
    def _num_all(self) -> int:
        return self.marginal_dist.batch_shape[-1]

    @property
    def _dtype(self) -> torch.dtype:
        return value_dtype(self.marginal_dist)

    @cached_property
    def _moments(self) -> tuple[Tensor, Tensor]:
        mean, variance = marginals.score_moments(
            self.marginal_dist, self._embed(self.score_mean), self._embed(self.score_scale)
        )
        mean, variance = (moment[..., self.nodes].to(self._dtype) for moment in (mean, variance))
        return mean, variance

    def _embed(self, values: Tensor) -> Tensor:
        """Values at the missing nodes as values at all nodes, zero elsewhere."""
        full = values.new_zeros(*values.shape[:-1], self._num_all)
        return full.index_copy(-1, self.nodes, values)

    def _from_scores(self, z: Tensor) -> Tensor:
        full = self._embed(z).to(self._dtype)
        return marginals.from_normal_score(self.marginal_dist, full)[..., self.nodes]

    def _full_value(self, value: Tensor) -> Tensor:
        """A value at the missing nodes as one at all nodes, safe where nothing is given."""
        missing = value.new_full((*value.shape[:-1], self._num_all), math.nan)
        full = missing.index_copy(-1, self.nodes, value)
        return marginals.fill_missing(self.marginal_dist, full, ~torch.isnan(full))

    def _scores(self, value: Any) -> tuple[Tensor, Tensor, Tensor]:
        value, observed = self._checked_value(value, "y_missing")
        full = value.new_full((*value.shape[:-1], self._num_all), math.nan)
        full = full.index_copy(-1, self.nodes, value)
        if self._validate_args:
            marginals.check_support(self.marginal_dist, full, ~torch.isnan(full), "y_missing")
        full = self._full_value(value)
        z = node_scores(self.marginal_dist, full, self._num_all, None)
        z = torch.where(observed, z[..., self.nodes], 0.0)
        return full[..., self.nodes], observed, z

    def _marginal_log_prob(self, value: Tensor) -> Tensor:
        return marginals.log_prob(self.marginal_dist, self._full_value(value))[..., self.nodes]

    def _limits(self, value: Any) -> tuple[Tensor, Tensor]:
        """The conditionally standardised normal scores on both sides of the value."""
        value, observed, z = self._scores(value)
        discrete = self.discrete_nodes
        lower = upper = z
        if bool(discrete.any()):
            full = self._full_value(value)
            limits = marginals.normal_score_limits(self.marginal_dist, full)
            lower, upper = (
                torch.where(discrete, end[..., self.nodes].double(), z) for end in limits
            )
        return tuple(  # type: ignore[return-value]
            torch.where(observed, (end - self.score_mean) / self.score_scale, math.nan)
            for end in (lower, upper)
        )

    def __repr__(self) -> str:
        batch = f", batch_shape={tuple(self.batch_shape)}" if self.batch_shape else ""
        return f"ConditionalCopula(missing={len(self.nodes)} of {self._num_all}{batch})"


class _MissingSupport(constraints.Constraint):
    """The support of the marginals of all nodes, seen at the missing ones."""

    event_dim = 1

    def __init__(self, conditional: ConditionalCopula) -> None:
        self.conditional = conditional
        self.is_discrete = bool(conditional.discrete_nodes.all())

    def check(self, value: Tensor) -> Tensor:
        value = self.conditional._node_values(value, "y_missing")
        full = self.conditional._full_value(value)
        inside = self.conditional.marginal_dist.support.check(full)
        return inside[..., self.conditional.nodes].all(-1) & ~torch.isnan(value).any(-1)


def log_normal_interval(lower: Tensor, upper: Tensor) -> Tensor:
    """``log(Phi(upper) - Phi(lower))``, from the tail in which the interval lies."""
    flip = lower + upper > 0
    lower, upper = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
    high, low = log_ndtr(upper), log_ndtr(lower)
    return high + torch.log1p(-(low - high).exp().clamp(max=1 - 1e-16))
