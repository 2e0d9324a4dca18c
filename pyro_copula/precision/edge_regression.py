"""A precision whose edge weights are predicted from the features of both ends."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ..batches import check_size, even_batches, in_batches
from ..errors import InvalidArgumentError
from ..graph import Graph, check_graph
from ..linalg import Iterative
from ..scalars import Positive
from .sparse_precision import SparsePrecision


class EdgeRegressionPrecision(nn.Module):
    r"""The paper's regression-based precision.

    .. math::
        K = c\,(I + \hat D - \hat A), \qquad
        \hat A_{ij} = \mathrm{softplus}(h(x_i, x_j)), \qquad \hat D_{ii} = \sum_j \hat A_{ij}

    with a two-layer network :math:`h` on the concatenated features of both ends. It is strictly
    diagonally dominant, hence positive definite, for every :math:`h`.

    Args:
        graph: The graph.
        in_channels: The number of features of a node.
        hidden_channels: The width of the hidden layer; 16 is the published one.
        symmetric: Whether :math:`h` is averaged over both orders of the ends, so that numbering
            the nodes differently gives the same precision. Otherwise the smaller node number
            comes first.
        scale: Initial value of the overall scale :math:`c`, positive.
        learn_scale: Whether :math:`c` is a parameter. The published model has it fixed at 1,
            which forces unit-scale residuals on normal marginals; a copula with free marginals
            does not depend on it.
        backend: Passed to :class:`SparsePrecision`.
        batch_edges: The network is applied to so many edges at a time: the same weights and
            gradients in less memory; None for all at once.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> precision = EdgeRegressionPrecision(graph, in_channels=4)
        >>> precision(torch.zeros(3, 4)).num_nodes
        3
    """

    #: The parameter that multiplies the whole matrix, on which a copula does not depend.
    overall_scale = "scale"

    def __init__(
        self,
        graph: Graph,
        in_channels: int,
        *,
        hidden_channels: int = 16,
        symmetric: bool = True,
        scale: float = 1.0,
        learn_scale: bool = True,
        backend: str | Iterative = "auto",
        batch_edges: int | None = None,
    ) -> None:
        super().__init__()
        if in_channels < 1:
            raise InvalidArgumentError(
                "in_channels",
                "one feature or more, from which the weights of edges are learned",
                f"{in_channels}",
                "Use WeightedLaplacianPrecision, which knows the degrees, or give nodes features.",
            )
        self.graph = check_graph(graph)
        self.in_channels = in_channels
        self.symmetric = symmetric
        self.backend = backend
        self.batch_edges = check_size("batch_edges", batch_edges)
        self.network = nn.Sequential(
            nn.Linear(2 * in_channels, hidden_channels), nn.ReLU(), nn.Linear(hidden_channels, 1)
        )
        self.scale = Positive("scale", scale, learnable=learn_scale)

    def edge_weight(self, x: Tensor) -> Tensor:
        """The weights ``A_hat`` of the edges, of shape ``(num_edges,)``.

        Args:
            x: Features, shape ``(num_nodes, in_channels)``.

        Returns:
            The weights, in the order of ``graph.edges``.
        """
        check_features(x, (self.graph.num_nodes, self.in_channels))
        rows, cols = self.graph.rows, self.graph.cols

        def weights(edges: slice) -> Tensor:
            first, second = x[rows[edges]], x[cols[edges]]  # (len(edges), in_channels)
            score = self.network(torch.cat([first, second], dim=-1))
            if self.symmetric:
                score = (score + self.network(torch.cat([second, first], dim=-1))) / 2
            return softplus(score.squeeze(-1))

        return in_batches(weights, even_batches(self.graph.num_edges, self.batch_edges))

    def forward(self, x: Tensor, scale: Tensor | float | None = None) -> SparsePrecision:
        """The precision for these features.

        Args:
            x: Features, shape ``(num_nodes, in_channels)``.
            scale: The overall scale, in place of the held one.

        Returns:
            The precision.
        """
        return dominant(self.graph, self.edge_weight(x), self.scale(scale), self.backend)


def dominant(
    graph: Graph, weight: Tensor, scale: Tensor, backend: str | Iterative
) -> SparsePrecision:
    """``c (I + D - A)``, strictly diagonally dominant for any positive weights of the edges.

    Args:
        graph: The graph.
        weight: The weights that make up ``A`` and the degrees ``D``, ``(*batch, num_edges)``.
        scale: The overall scale ``c``, ``(*batch,)``.
        backend: Passed to :class:`SparsePrecision`.
    """
    diagonal = torch.ones(*weight.shape[:-1], graph.num_nodes, dtype=weight.dtype)
    diagonal = diagonal.index_add(-1, graph.rows, weight).index_add(-1, graph.cols, weight)
    factor = scale.unsqueeze(-1)
    return SparsePrecision(graph, factor * diagonal, -factor * weight, backend=backend)


def check_features(x: Tensor, shape: tuple[int, int]) -> None:
    """Raises the error that says what is wrong with features, if anything is."""
    if x.shape != shape:
        raise InvalidArgumentError(
            "x", f"of shape {shape}", f"shape {tuple(x.shape)}", "Pass one row per node."
        )
    bad = ~torch.isfinite(x).all(dim=-1)
    if bool(bad.any()):
        raise InvalidArgumentError(
            "x",
            "finite",
            f"NaN or infinity at node {int(bad.nonzero()[0])}",
            "Fill in or drop missing features; only values y may be missing.",
        )
