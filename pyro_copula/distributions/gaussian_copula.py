"""The Gaussian copula: any marginals at the nodes, coupled by a precision on a graph."""

from __future__ import annotations

import math
from typing import Any

import torch
from pyro.distributions import constraints
from torch import Tensor

from .. import marginals
from ..partitions import Partition
from ..precision import SparsePrecision
from . import estimates, exact
from .arguments import broadcast_batch, check_clip, checked_latent, latent_scores
from .base import check_level, level_first
from .composite import Composite, exact_blocks
from .conditional_copula import ConditionalCopula
from .exact_report import ExactReport, report
from .latent import Latent, leave_one_out_density
from .leave_one_out import LeaveOneOut
from .nugget import NuggetLatent
from .particle_conditional import ParticleConditional
from .scores import (
    Scores,
    check_rule,
    drawn_scores,
    log_standard_normal,
    node_scores,
    value_dtype,
    warn_of_wide_atoms,
)


class GaussianCopula(Composite):
    r"""A joint law of all nodes with given marginals and Gaussian dependence.

    With marginals :math:`F_i`, normal scores :math:`z_i = \Phi^{-1}(F_i(y_i))` and the
    correlation :math:`R` of :math:`\Sigma = K^{-1}`,

    .. math::
        \log p(y) = \log N(z; 0, R) - \sum_i \log \varphi(z_i) + \sum_i \log f_i(y_i).

    A value that is NaN is a missing node; it is integrated out exactly. Nodes are the event
    dimension: the log density is one number for all nodes.

    **Discrete marginals.** Where :math:`F_i` is a step, a value says of the latent :math:`z_i`
    only that it lies between :math:`\Phi^{-1} F_i(y_i - 1)` and :math:`\Phi^{-1} F_i(y_i)`, and
    the density is the probability of a rectangle. ``discrete`` names the rule:

    - ``"midpoint"``, the paper's, evaluates the formula above in the middle of the atom. It is an
      *approximation*: good when counts spread over many values, poor when most of them are 0 and
      1, where the mass it gives to all outcomes is not one and the dependence is overestimated
      (two Poisson(0.3) nodes with correlation 0.9 get total mass 1.56). Predictions at missing
      nodes suffer little. A :class:`~pyro_copula.errors.MidpointWarning` says when atoms are wide.
    - ``"exact"`` (also ``"ghk"``) estimates the probability by sequential importance sampling,
      guided by expectation propagation: unbiased, with fixed random numbers, so that it is a
      smooth function of the parameters (but for steps below its standard error, where the guide
      takes one more update); :meth:`exact_report` says how far to trust it.
    - ``"ep"`` is expectation propagation's own answer: without noise, and close to it.
    - ``"augment"`` adds latent normal scores to the Pyro model around, as the site ``scores``, so
      that NUTS and SVI target the exact joint law. A score says where in its atom a node lies,
      given the nodes before it along the factor: standard normal a priori, and not far from it a
      posteriori. Values that are drawn follow the law, not the scores drawn beside them. Nothing
      guides the scores: with fixed sites of expectation propagation NUTS mixes worse in the level
      of the counts (``experiments/README.md``, full Bayes).

    Args:
        marginal_dist: The marginals: a univariate distribution with batch shape
            ``(*batch, num_nodes)``, such as ``dist.Poisson(rate)``, or
            :class:`~pyro_copula.marginals.Mixed` for different families at different nodes.
        precision: A :class:`~pyro_copula.SparsePrecision`; only its correlation matters.
        correlation_matrix: Instead of ``precision``: shape ``(*batch, num_nodes, num_nodes)``.
        correlation_cholesky: Instead of ``precision``: the lower Cholesky factor of it.
        nugget: The share of independent noise in the latent vector, between 0 and 1: the
            correlation becomes :math:`(1 - \nu) R + \nu I`. None by default. Shape ``(*batch,)``.
        discrete: The rule for discrete marginals.
        num_particles: Of the exact rule; by default 64, and more on graphs of under 256 nodes.
        seed: Of the exact rule's random numbers.
        scores: The name of the latent site of ``discrete="augment"``, or the scores themselves.
        tail_clip: If given, uniform scores are clamped to ``[tail_clip, 1 - tail_clip]``, as in
            the published code (0.001). By default an outlier has a large normal score and counts
            as one.
        validate_args: Whether to check that values lie in the support; Pyro's default if None.

    Shape:
        - batch_shape: ``(*batch,)``
        - event_shape: ``(num_nodes,)``

    Example:
        >>> import pyro.distributions as dist
        >>> import pyro_copula as pc
        >>> graph = pc.Graph.from_edges([(0, 1), (1, 2)])
        >>> K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
        >>> copula = pc.GaussianCopula(dist.Poisson(torch.tensor([4.0, 4.0, 4.0])), precision=K)
        >>> copula.log_prob(torch.tensor([7.0, 6.0, math.nan]))
        tensor(-4.0744)
        >>> copula.condition(torch.tensor([7.0, 6.0, math.nan])).interval(0.9)
        Interval(lower=tensor([4.]), upper=tensor([8.]))

    References:
        Ma, Chang, Zhang and Mei, CopulaGNN, ICLR 2021.
        Genz, Numerical computation of multivariate normal probabilities, 1992 (the exact rule,
        without its guide).
        Kazianka and Pilz, Copula-based geostatistical modeling of continuous and discrete data,
        2010 (the midpoint rule).
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        marginal_dist: Any,
        precision: SparsePrecision | None = None,
        *,
        correlation_matrix: Tensor | None = None,
        correlation_cholesky: Tensor | None = None,
        nugget: Tensor | float | None = None,
        discrete: str = "midpoint",
        num_particles: int | None = None,
        seed: int = 0,
        scores: str | Tensor = "scores",
        tail_clip: float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.latent = checked_latent(precision, correlation_matrix, correlation_cholesky, nugget)
        num_nodes = self.latent.num_nodes
        marginals.check_marginal(marginal_dist, num_nodes)
        self.discrete = check_rule(discrete)
        self.num_particles = exact.check_particles(num_particles, num_nodes)
        self.tail_clip = check_clip(tail_clip, self.discrete)
        batch_shape = broadcast_batch(marginal_dist, self.latent)
        self.marginal_dist = marginal_dist.expand((*batch_shape, num_nodes))
        self.precision = precision
        self.seed = exact.check_seed(seed)
        super().__init__(batch_shape, torch.Size([num_nodes]), validate_args=validate_args)
        self.scores: Tensor | None = None
        if self.discrete == "augment" and self._has_boxes:
            self.scores = latent_scores(scores, self.latent, batch_shape, self._dtype)

    # ---------------------------------------------------------------- the law

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> Any:
        """The support of the marginals, at every node."""
        return constraints.independent(self.marginal_dist.support, 1)

    @property
    def has_rsample(self) -> bool:
        """Whether draws carry derivatives: yes if every marginal is continuous."""
        return not bool(self.discrete_nodes.any())

    @property
    def discrete_nodes(self) -> Tensor:
        """Which nodes have a discrete marginal, boolean of shape ``(num_nodes,)``."""
        return marginals.discrete_nodes(self.marginal_dist, self.num_nodes)

    @property
    def mean(self) -> Tensor:
        """The means of the marginals, ``(*batch, num_nodes)``."""
        return marginals.moment(self.marginal_dist, "mean")

    @property
    def variance(self) -> Tensor:
        """The variances of the marginals, ``(*batch, num_nodes)``."""
        return marginals.moment(self.marginal_dist, "variance")

    def expand(self, batch_shape: Any, _instance: Any = None) -> GaussianCopula:
        """A copy with a larger batch shape; the factor of the precision is shared.

        Args:
            batch_shape: The new batch shape.

        Returns:
            The expanded copula.
        """
        exact.check_scores_of_rows(self.scores, torch.Size(batch_shape))
        new = self._expanded(batch_shape, _instance)
        new.marginal_dist = self.marginal_dist.expand((*batch_shape, self.num_nodes))
        return new

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Joint draws, with derivatives if every marginal is continuous.

        Args:
            sample_shape: The shape of a sample of draws.

        Returns:
            Shape ``(*sample_shape, *batch, num_nodes)``.
        """
        x = self.latent.sample(self._extended_shape(torch.Size(sample_shape)))
        return self._from_scores(x / self.latent.scale())

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density of the observed nodes, NaN meaning missing.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``.

        Returns:
            Shape ``(*sample, *batch)``.
        """
        if self.precision is not None and self.precision.graph.num_edges == 0:
            return self._marginal_log_prob(*self._filled_value(value)).sum(-1)  # no score is needed
        if self._has_boxes:
            return exact.log_prob(self, value)
        value, observed, z = self._observed_scores(value)
        marginal = self._marginal_log_prob(value, observed).sum(-1)
        return marginal + self._log_copula(z, observed).to(marginal.dtype)

    def log_prob_error(self, value: Tensor) -> Tensor:
        """The standard error of :meth:`log_prob`: of the exact rule and of the iterative backend.

        It is zero with the other backends unless ``discrete="exact"``, whose particles have a
        Monte Carlo error. What ``"midpoint"`` and ``"ep"`` are off by is no noise and not in it;
        :meth:`exact_report` has the gap of the latter.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``.

        Returns:
            Shape ``(*sample, *batch)``, float64.
        """
        particles = exact.log_prob_error(self, value) if self._has_boxes else None
        value, observed, z = self._observed_scores(value)
        error = estimates.log_prob_error(self, z * self.latent.scale(), observed, scaled=True)
        return error if particles is None else torch.hypot(error, particles)

    # ---------------------------------------------------------------- missing nodes

    def condition(self, value: Tensor) -> ConditionalCopula | ParticleConditional:
        """The law of the missing nodes given the observed ones: Algorithm 1 of the paper.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at the missing nodes, which must be
                the same ones throughout the batch.

        Returns:
            A :class:`ConditionalCopula`, or under an exact rule one of particles with the same
            methods.
        """
        if self._has_boxes:
            return exact.condition(self, value)
        value, observed, z = self._observed_scores(value)
        pattern = self._common_pattern(observed)
        mean, rest = self.latent.condition(z * self.latent.scale(), pattern)
        return self._conditional((~pattern).nonzero().squeeze(-1), mean, rest)

    def condition_mixture(self, value: Tensor) -> ConditionalCopula | ParticleConditional:
        """The same for a batch of which only the equal mixture is wanted, as of posterior draws.

        Under an exact rule it has a few particles of each element, not all of them.

        Args:
            value: See :meth:`condition`.

        Returns:
            The law of the missing nodes in every element of the batch.
        """
        if self._has_boxes:
            return exact.condition(self, value, mixed=True)
        return self.condition(value)

    def unconditional(self) -> ConditionalCopula:
        """The law of all nodes with nothing observed, with the methods of a conditional one.

        Returns:
            The law of every node's value.
        """
        mean = torch.zeros(*self.batch_shape, self.num_nodes, dtype=torch.float64)
        return self._conditional(torch.arange(self.num_nodes), mean, self.latent)

    def pointwise_log_prob(self, value: Tensor) -> Tensor:
        """The log density of each observed node given every other observed one.

        These are the terms that leave-one-out cross-validation adds up, with the parameters
        fixed. Each equals ``log_prob(y)`` minus ``log_prob`` of ``y`` without that node.

        The iterative backend estimates two numbers behind each term, the scale of the node and its
        precision given the others; the mean given the others is exact up to the solver's tolerance
        and the second number. The terms are therefore estimates, with the standard errors of
        :meth:`pointwise_log_prob_error` and a bias of the order of their squares.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.

        Returns:
            The same shape, NaN at missing nodes.
        """
        if self._has_boxes:
            return exact.pointwise_log_prob(self, value)
        value, observed, z = self._observed_scores(value)
        scale = self.latent.scale()
        density = self._by_pattern(leave_one_out_density, z * scale, observed)
        density = density + scale.log() - log_standard_normal(z)
        marginal = marginals.log_prob(self.marginal_dist, value)
        return torch.where(observed, marginal + density.to(marginal.dtype), math.nan)

    def leave_one_out(self, value: Tensor) -> LeaveOneOut:
        """The law of each observed node given every other observed one.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.

        Returns:
            The laws, node by node.
        """
        return LeaveOneOut.of(self, value)

    def exact_report(self, value: Tensor) -> ExactReport:
        """How far to trust the exact rule at a value: particles, weights, gap to ``"ep"``.

        Args:
            value: Shape ``(num_nodes,)``, NaN at missing nodes.

        Returns:
            The report; print it.
        """
        return report(self, value)

    def quantile(self, q: float | Tensor) -> Tensor:
        """Quantiles of the marginals, as if nothing were observed.

        Args:
            q: A level, or several, of shape ``(*levels,)``.

        Returns:
            Shape ``(*levels, *batch, num_nodes)``.
        """
        z = level_first(torch.special.ndtri(check_level("q", q)), len(self.batch_shape) + 1)
        return self._from_scores(z)

    # ---------------------------------------------------------------- internals

    @property
    def _has_boxes(self) -> bool:
        """Whether a count is an interval of its latent score, not a point: by all rules but one."""
        return self.discrete != "midpoint" and not self.has_rsample

    def _from_scores(self, z: Tensor) -> Tensor:
        """The values with these normal scores."""
        return marginals.from_normal_score(self.marginal_dist, z.to(self._dtype))

    def _scores_of(self, value: Any) -> Scores:
        """The normal scores of values, ``(*sample, *batch, num_nodes)``, NaN at missing nodes."""
        value, observed, point = self._observed_scores(value)
        return Scores.between(self.marginal_dist, value, point, observed)

    def _scores_of_draws(self, z: Tensor, observed: Tensor) -> Scores:
        """The same of values that were drawn as these scores."""
        return drawn_scores(self.marginal_dist, z, observed, self.tail_clip)

    def _conditional(self, nodes: Tensor, mean: Tensor, rest: Latent) -> ConditionalCopula:
        """The law of some nodes, whose latent vector is ``rest`` around this mean."""
        scale = self.latent.scale()[..., nodes]
        return ConditionalCopula(
            self.marginal_dist, nodes, mean / scale, scale, rest, validate_args=self._validate_args
        )

    def _log_copula(self, z: Tensor, observed: Tensor) -> Tensor:
        """The log density of the copula at these scores, in float64."""
        scale = estimates.scales(self.latent, z.dim() - self.latent.scale().dim())
        x = z * scale
        latent = self._by_pattern(
            lambda latent, x, pattern: latent.log_density(x, pattern), x, observed.expand(x.shape)
        )
        jacobian = torch.where(observed, scale.log() - log_standard_normal(z), 0.0).sum(-1)
        return estimates.corrected(latent + jacobian)

    def _blocks_log_prob(
        self,
        value: Tensor,
        precision: SparsePrecision,
        partition: Partition,
        blocks: list[int] | None,
    ) -> Tensor:
        if self._has_boxes:
            return exact_blocks(self, value, precision, partition, blocks)
        value, observed, z = self._observed_scores(value)
        block, nodes = self._narrowed(precision, partition, blocks)
        marginal = self._marginal_log_prob(value, observed)[..., nodes]
        copula = block._log_copula(z[..., nodes], observed[..., nodes])
        return marginal.sum(-1) + copula.to(marginal.dtype)

    def _marginal_log_prob(self, value: Tensor, observed: Tensor) -> Tensor:
        """The marginal log densities, zero at missing nodes."""
        return torch.where(observed, marginals.log_prob(self.marginal_dist, value), 0.0)

    def _filled_value(self, value: Any) -> tuple[Tensor, Tensor]:
        """The value, in the support, with missing nodes filled in, and which are observed."""
        value, observed = self._checked_value(value)
        if self._validate_args:
            marginals.check_support(self.marginal_dist, value, observed)
        return marginals.fill_missing(self.marginal_dist, value, observed), observed

    def _observed_scores(self, value: Any) -> tuple[Tensor, Tensor, Tensor]:
        """The value with missing nodes filled in, which are observed, and the normal scores."""
        value, observed = self._filled_value(value)
        if self.discrete == "midpoint":
            warn_of_wide_atoms(self.marginal_dist, value, observed)
        z = node_scores(self.marginal_dist, value, self.num_nodes, self.tail_clip)
        return value, observed, torch.where(observed, z, 0.0)

    @property
    def _dtype(self) -> torch.dtype:
        return value_dtype(self.marginal_dist)

    def __repr__(self) -> str:
        dependence = f"precision={self.precision!r}" if self.precision else "correlation_matrix"
        nugget = ", with a nugget" if isinstance(self.latent, NuggetLatent) else ""
        batch = f", batch_shape={tuple(self.batch_shape)}" if self.batch_shape else ""
        return f"GaussianCopula({self.marginal_dist!r}, {dependence}{nugget}{batch})"
