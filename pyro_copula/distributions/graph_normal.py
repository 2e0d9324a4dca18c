"""Normal outcomes whose marginal variances are those of the precision itself."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from pyro.distributions import constraints
from torch import Tensor

from ..errors import InvalidArgumentError
from ..partitions import Partition
from ..precision import SparsePrecision
from ..shapes import broadcast_shapes
from .arguments import check_precision
from .base import NodeDistribution, check_level, level_first
from .composite import Composite
from .estimates import log_prob_error
from .latent import Latent, PrecisionLatent, leave_one_out_density
from .leave_one_out import LeaveOneOut
from .nugget import NuggetLatent
from .scores import Scores


class _Normal(NodeDistribution):
    """``loc`` plus a Gaussian vector on the nodes."""

    arg_constraints = {"loc": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self, loc: Tensor, latent: Latent, nodes: Tensor, *, validate_args: bool | None = None
    ) -> None:
        batch_shape = broadcast_shapes(loc.shape[:-1], latent.batch_shape)
        self.loc = loc.expand(*batch_shape, latent.num_nodes)
        self.latent = latent
        self.nodes = nodes
        super().__init__(batch_shape, torch.Size([latent.num_nodes]), validate_args=validate_args)

    # ---------------------------------------------------------------- the law

    @property
    def mean(self) -> Tensor:
        """``loc``."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """``diag(K^-1)``, ``(*batch, num_nodes)``."""
        return self.latent.scale().square().to(self.loc.dtype).expand(self.loc.shape)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        """A copy with a larger batch shape; the factor of the precision is shared.

        Args:
            batch_shape: The new batch shape.

        Returns:
            The expanded law.
        """
        new = self._expanded(batch_shape, _instance)
        new.loc = self.loc.expand(*batch_shape, self.num_nodes)
        return new

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:
        """Joint draws, with derivatives.

        Args:
            sample_shape: The shape of a sample of draws.

        Returns:
            Shape ``(*sample_shape, *batch, num_nodes)``.
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        return self.loc + self.latent.sample(shape).to(self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density of the observed nodes, NaN meaning missing.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``.

        Returns:
            Shape ``(*sample, *batch)``.
        """
        residual, observed = self._residual(value)
        density = self._by_pattern(
            lambda latent, x, pattern: latent.log_density(x, pattern), residual, observed
        )
        return density.to(self.loc.dtype)

    def log_prob_error(self, value: Tensor) -> Tensor:
        """The standard error of :meth:`log_prob`, zero unless the iterative backend estimates it.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``.

        Returns:
            Shape ``(*sample, *batch)``, float64.
        """
        residual, observed = self._residual(value)
        return log_prob_error(self, residual, observed, scaled=False)

    # ---------------------------------------------------------------- missing nodes

    def condition_mixture(self, value: Tensor) -> ConditionalNormal:
        """The same as :meth:`condition`, for nothing is estimated from particles.

        Args:
            value: See :meth:`condition`.

        Returns:
            The law of the missing nodes in every element of the batch.
        """
        return self.condition(value)

    def condition(self, value: Tensor) -> ConditionalNormal:
        """The law of the missing nodes given the observed ones.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at the missing nodes, which must be
                the same ones throughout the batch.

        Returns:
            A normal law of the missing nodes.
        """
        residual, observed = self._residual(value)
        pattern = self._common_pattern(observed)
        shift, rest = self.latent.condition(residual, pattern)
        loc = self.loc[..., ~pattern] + shift.to(self.loc.dtype)
        return ConditionalNormal(loc, rest, self.nodes[~pattern])

    def unconditional(self) -> Self:
        """The law of all nodes with nothing observed: this one.

        Returns:
            This law.
        """
        return self

    def pointwise_log_prob(self, value: Tensor) -> Tensor:
        """The log density of each observed node given every other observed one.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.

        Returns:
            The same shape, NaN at missing nodes.
        """
        residual, observed = self._residual(value)
        density = self._by_pattern(leave_one_out_density, residual, observed)
        return torch.where(observed, density, math.nan).to(self.loc.dtype)

    def leave_one_out(self, value: Tensor) -> LeaveOneOut:
        """The law of each observed node given every other observed one.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.

        Returns:
            The laws, node by node.
        """
        return LeaveOneOut.of(self, value)

    def quantile(self, q: float | Tensor) -> Tensor:
        """Quantiles node by node.

        Args:
            q: A level, or several, of shape ``(*levels,)``.

        Returns:
            Shape ``(*levels, *batch, num_nodes)``.
        """
        z = level_first(torch.special.ndtri(check_level("q", q)), len(self.batch_shape) + 1)
        return self._from_scores(z)

    def cdf(self, value: Tensor) -> Tensor:
        """The distribution functions ``P(Y_i <= y_i)``, node by node.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.

        Returns:
            The same shape, NaN where the value is.
        """
        residual, observed = self._residual(value)
        u = torch.special.ndtr(residual / self.latent.scale())
        return torch.where(observed, u, math.nan).to(self.loc.dtype)

    def marginal_log_prob(self, value: Tensor) -> Tensor:
        """The log density of each node by itself, NaN where the value is.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.

        Returns:
            The same shape, NaN where the value is.
        """
        residual, observed = self._residual(value)
        law = torch.distributions.Normal(0.0, self.latent.scale(), validate_args=False)
        return torch.where(observed, law.log_prob(residual), math.nan).to(self.loc.dtype)

    # ---------------------------------------------------------------- internals

    #: Whether values are intervals of the latent vector, as counts are under some rules.
    _has_boxes = False

    def _from_scores(self, z: Tensor) -> Tensor:
        """The values with these normal scores."""
        return self.loc + (z * self.latent.scale()).to(self.loc.dtype)

    def _scores_of(self, value: Any) -> Scores:
        """The normal scores of values, ``(*sample, *batch, num_nodes)``, NaN at missing nodes."""
        residual, observed = self._residual(value)
        return self._scores_of_draws(residual / self.latent.scale(), observed)

    def _scores_of_draws(self, z: Tensor, observed: Tensor) -> Scores:
        """The same of values that were drawn as these scores."""
        end = torch.where(observed, z, math.nan)
        return Scores(z, end, end, observed)

    def _residual(self, value: Any) -> tuple[Tensor, Tensor]:
        """``value - loc`` in float64, zero at missing nodes, and which nodes are observed."""
        value, observed = self._checked_value(value)
        infinite = torch.isinf(value)
        if bool(infinite.any()):
            node = int(infinite.nonzero()[0, -1])
            raise InvalidArgumentError(
                "y", "finite, or NaN where missing", f"infinity at node {node}", "Check that value."
            )
        filled = torch.where(observed, value, self.loc.detach())
        return torch.where(observed, filled.double() - self.loc.double(), 0.0), observed


class GraphNormal(Composite, _Normal):
    r"""The multivariate normal :math:`N(\mu, K^{-1})` with a sparse precision on a graph.

    This is the paper's model for continuous outcomes: the Gaussian copula whose normal marginals
    have the variances :math:`(K^{-1})_{ii}`. It needs no standard deviations, so it is cheaper
    than the general copula. A value that is NaN is a missing node; it is integrated out exactly.

    .. math::
        \log p(y) = \tfrac12 \log\det K - \tfrac12 (y - \mu)' K (y - \mu) - \tfrac n2 \log 2\pi

    Args:
        loc: The means, shape ``(*batch, num_nodes)``.
        precision: A :class:`~pyro_copula.SparsePrecision`.
        nugget: The variance of independent noise on top, so that the covariance is
            :math:`K^{-1} + \nu I`; none by default. Shape ``(*batch,)``, positive.
        validate_args: Pyro's default if None.

    Shape:
        - batch_shape: ``(*batch,)``
        - event_shape: ``(num_nodes,)``

    Example:
        >>> import pyro_copula as pc
        >>> graph = pc.Graph.from_edges([(0, 1), (1, 2)])
        >>> K = pc.LaplacianPrecision(graph)(tau=1.0, gamma=0.5)
        >>> normal = pc.GraphNormal(torch.zeros(3), precision=K)
        >>> normal.log_prob(torch.tensor([1.0, 0.5, math.nan]))
        tensor(-2.0372)
        >>> normal.condition(torch.tensor([1.0, 0.5, math.nan])).mean
        tensor([0.3333])
    """

    def __init__(
        self,
        loc: Tensor,
        precision: SparsePrecision,
        *,
        nugget: Tensor | float | None = None,
        validate_args: bool | None = None,
    ) -> None:
        check_precision(precision)
        num_nodes = precision.num_nodes
        if not (torch.is_tensor(loc) and loc.is_floating_point()):
            loc = torch.as_tensor(loc, dtype=precision.dtype)
        if loc.dim() and loc.shape[-1] not in (1, num_nodes):
            raise InvalidArgumentError(
                "loc",
                f"of shape (*batch, {num_nodes})",
                f"shape {tuple(loc.shape)}",
                "Give every node a mean; a 0-d tensor is shared by all.",
            )
        latent = _with_nugget(precision, nugget)
        try:
            broadcast_shapes(loc.shape[:-1], latent.batch_shape)
        except RuntimeError:
            raise InvalidArgumentError(
                "loc",
                f"broadcastable with the batch shape {tuple(latent.batch_shape)}",
                f"shape {tuple(loc.shape)}",
                "Give both the same leading dimensions, or none.",
            ) from None
        self.precision = precision
        super().__init__(loc, latent, torch.arange(num_nodes), validate_args=validate_args)

    def _blocks_log_prob(
        self,
        value: Tensor,
        precision: SparsePrecision,
        partition: Partition,
        blocks: list[int] | None,
    ) -> Tensor:
        residual, observed = self._residual(value)
        block, nodes = self._narrowed(precision, partition, blocks)
        density = block._by_pattern(
            lambda latent, x, pattern: latent.log_density(x, pattern),
            residual[..., nodes],
            observed[..., nodes],
        )
        return density.to(self.loc.dtype)

    def __repr__(self) -> str:
        nugget = ", with a nugget" if isinstance(self.latent, NuggetLatent) else ""
        return f"GraphNormal(loc: {tuple(self.loc.shape)}, {self.precision!r}{nugget})"


class ConditionalNormal(_Normal):
    """The missing nodes of a :class:`GraphNormal` given the observed ones.

    It is again a normal law behind which is a sparse precision, with the same methods.

    Attributes:
        nodes: The missing nodes, int64 of shape ``(num_missing,)``, increasing.

    Example:
        >>> import pyro_copula as pc
        >>> graph = pc.Graph.from_edges([(0, 1), (1, 2)])
        >>> K = pc.LaplacianPrecision(graph)(tau=1.0, gamma=0.5)
        >>> normal = pc.GraphNormal(torch.zeros(3), precision=K)
        >>> missing = normal.condition(torch.tensor([1.0, math.nan, math.nan]))
        >>> missing
        ConditionalNormal(missing=2)
        >>> missing.nodes, missing.mean
        (tensor([1, 2]), tensor([0.5455, 0.3636]))
    """

    def __repr__(self) -> str:
        batch = f", batch_shape={tuple(self.batch_shape)}" if self.batch_shape else ""
        return f"ConditionalNormal(missing={len(self.nodes)}{batch})"


def _with_nugget(precision: SparsePrecision, nugget: Tensor | float | None) -> Latent:
    if nugget is None:
        return PrecisionLatent(precision)
    nugget = torch.as_tensor(nugget, dtype=torch.float64)
    if not bool((nugget > 0).all()):
        raise InvalidArgumentError(
            "nugget",
            "a positive variance",
            f"{float(nugget.detach().min()):g}",
            "Leave it out for no noise on top of the graph field.",
        )
    return NuggetLatent(precision, torch.ones(precision.num_nodes, dtype=torch.float64), nugget)
