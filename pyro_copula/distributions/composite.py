"""Composite log likelihoods: the density of a law whose precision lost the edges between blocks."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ..errors import CutWarning, InvalidArgumentError
from ..partitions import Partition, check_partition
from ..precision import SparsePrecision
from . import exact
from .base import NodeDistribution
from .estimates import pointwise_log_prob_error
from .latent import PrecisionLatent
from .nugget import NuggetLatent


class Composite(NodeDistribution):
    """A law with a precision on a graph, whose blocks can be taken apart."""

    precision: SparsePrecision | None

    def pointwise_log_prob_error(self, value: Tensor) -> Tensor:
        """The standard errors of ``pointwise_log_prob``, zero unless the iterative backend is used.

        They come from repetitions with other probes, and take about twice as long as the
        pointwise densities themselves. The noise of the exact rule's particles is not in them.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.

        Returns:
            The same shape, float64, NaN at missing nodes.
        """
        return pointwise_log_prob_error(self, value)

    def composite_log_prob(
        self, value: Tensor, partition: Partition, *, blocks: Iterable[int] | None = None
    ) -> Tensor:
        r"""The *composite* log likelihood: as if there were no edges between blocks.

        The precision :math:`K` becomes block diagonal: its entries between blocks are dropped and
        all others stay, the diagonal too. A degree in it is therefore that in the whole graph, and
        the blocks are positive definite because :math:`K` is. The marginals of a copula stay what
        they are; the variances of a :class:`~pyro_copula.GraphNormal` become those of its block.

        This is not ``log_prob``, unless no edge is cut: dependence fitted with it is too weak. It
        is for warm starts and minibatches; predict with the whole graph afterwards.

        Args:
            value: Shape ``(*sample, *batch, num_nodes)``, NaN at missing nodes.
            partition: The blocks, of the graph of the precision.
            blocks: The numbers of some blocks, for a minibatch. Their sum is multiplied by the
                number of all blocks over that of these: an unbiased estimate, if they are drawn
                with equal probabilities.

        Returns:
            Shape ``(*sample, *batch)``.

        Example:
            >>> import pyro_copula as pc
            >>> graph = pc.Graph.from_edges([(0, 1), (1, 2), (3, 4)])
            >>> K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
            >>> normal = pc.GraphNormal(torch.zeros(5), K)
            >>> y = torch.tensor([1.0, 0.5, float("nan"), -1.0, 0.0])
            >>> components = pc.Partition(graph, graph.components)  # they cut no edge
            >>> normal.log_prob(y), normal.composite_log_prob(y, components)
            (tensor(-5.6887), tensor(-5.6887))
        """
        precision = self._composite_precision(partition)
        if partition.cut > 0:
            warnings.warn(CutWarning(partition.cut, partition.num_blocks), stacklevel=2)
        numbers = None if blocks is None else list(blocks)
        total = self._blocks_log_prob(value, precision, partition, numbers)
        return total if numbers is None else total * (partition.num_blocks / len(numbers))

    def _blocks_log_prob(
        self,
        value: Tensor,
        precision: SparsePrecision,
        partition: Partition,
        blocks: list[int] | None,
    ) -> Tensor:
        """The log density of the nodes of some blocks."""
        raise NotImplementedError

    def _composite_precision(self, partition: Any) -> SparsePrecision:
        if self.precision is None:
            raise InvalidArgumentError(
                "precision",
                "that of the law, for a composite likelihood",
                "a correlation matrix",
                "Pass precision=, which has a graph; or use log_prob.",
            )
        check_partition(partition)
        if partition.graph != self.precision.graph:
            raise InvalidArgumentError(
                "partition",
                f"of the graph of the precision, {self.precision.graph!r}",
                f"one of {partition.graph!r}",
                "Partition that graph.",
            )
        return self.precision

    def _narrowed(
        self, precision: SparsePrecision, partition: Partition, blocks: list[int] | None
    ) -> tuple[Any, Tensor]:
        """A law of this class with the latent vector of some blocks, and their nodes.

        Everything but its latent vector and its number of nodes is still that of all nodes.
        """
        nodes, graph, kept = partition.within(blocks)
        block = SparsePrecision(
            graph,
            precision.diagonal[..., nodes],
            precision.off_diagonal[..., kept],
            backend=precision.backend,
        )
        assert isinstance(self.latent, PrecisionLatent | NuggetLatent)  # there is a precision
        new = copy.copy(self)
        new.latent = self.latent.with_precision(block, nodes)
        new._event_shape = torch.Size([len(nodes)])
        return new, nodes


def exact_blocks(
    copula: Any,
    value: Any,
    precision: SparsePrecision,
    partition: Partition,
    blocks: list[int] | None,
) -> Tensor:
    """The log density of some blocks under an exact rule for discrete marginals.

    Marginals cannot be taken apart by node, so the law is that of all blocks, in which the nodes
    of the others are missing. A minibatch is as dear as all of it, and as right.
    """
    if copula.discrete == "augment":
        raise InvalidArgumentError(
            "discrete",
            '"midpoint", "exact" or "ep" for a composite likelihood',
            "'augment'",
            "Its latent scores are those of the whole graph; use log_prob with it.",
        )
    law, _ = copula._narrowed(precision, partition, None)
    nodes, _, _ = partition.within(blocks)
    value, observed = copula._checked_value(value)
    if not bool(observed[..., nodes].any()):
        zero = 0.0 * (precision.diagonal.sum(-1) + precision.off_diagonal.sum(-1))  # has a gradient
        return zero.to(copula._dtype).expand(value.shape[:-1])
    member = torch.zeros(copula.num_nodes, dtype=torch.bool)
    member[nodes] = True
    return exact.log_prob(law, value.masked_fill(~member, math.nan))
