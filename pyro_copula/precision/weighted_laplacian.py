"""A Laplacian precision whose edge weights are learned relative to a plain start."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..graph import Graph, check_graph
from ..linalg import Iterative
from ..scalars import Positive
from .edge_regression import check_features, dominant
from .sparse_precision import SparsePrecision


class WeightedLaplacianPrecision(nn.Module):
    r"""Edge regression that starts at a plain Laplacian and learns departures from it.

    .. math::
        K = c\,(I + L_w), \qquad
        w_{ij} = \frac{s}{\sqrt{d_i d_j}} \exp(2 \tanh(h_{ij} / 2))

    with a two-layer network :math:`h` on symmetric functions of both ends: :math:`|x_i - x_j|`,
    the mean of :math:`x_i` and :math:`x_j`, and the log degrees. Its last layer starts at zero, so
    the fit starts where all edges are alike, and no weight can leave a factor of
    :math:`e^{\pm 2}` around that.

    Args:
        graph: The graph.
        in_channels: The number of features of a node.
        hidden_channels: The width of the hidden layer.
        strength: Initial value of :math:`s`, positive.
        scale: Initial value of the overall scale :math:`c`, positive.
        backend: Passed to :class:`SparsePrecision`.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> precision = WeightedLaplacianPrecision(graph, in_channels=4)
        >>> precision(torch.zeros(3, 4)).diagonal.detach()  # the edges are alike at the start
        tensor([3.1213, 5.2426, 3.1213])
    """

    #: The parameter that multiplies the whole matrix, on which a copula does not depend.
    overall_scale = "scale"

    def __init__(
        self,
        graph: Graph,
        in_channels: int,
        *,
        hidden_channels: int = 16,
        strength: float = 3.0,
        scale: float = 1.0,
        backend: str | Iterative = "auto",
    ) -> None:
        super().__init__()
        self.graph = check_graph(graph)
        self.in_channels = in_channels
        self.backend = backend
        self.strength = Positive("strength", strength)
        self.scale = Positive("scale", scale)
        self.network = nn.Sequential(
            nn.Linear(2 * in_channels + 2, hidden_channels),
            nn.ReLU(),
            nn.Linear(hidden_channels, 1),
        )
        self._start_alike()

    def reset_parameters(self) -> None:
        """Draws first weights of the network anew; its last layer starts at zero again."""
        for layer in self.network:
            if isinstance(layer, nn.Linear):
                layer.reset_parameters()
        self._start_alike()

    def _start_alike(self) -> None:
        last = self.network[-1]
        assert isinstance(last, nn.Linear)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)

    def edge_weight(self, x: Tensor, strength: Tensor | float | None = None) -> Tensor:
        """The weights of the edges, of shape ``(*batch, num_edges)``.

        Args:
            x: Features, shape ``(num_nodes, in_channels)``.
            strength: In place of the held one.

        Returns:
            The weights, in the order of ``graph.edges``.
        """
        check_features(x, (self.graph.num_nodes, self.in_channels))
        i, j = self.graph.rows, self.graph.cols
        degree = self.graph.degree.to(x.dtype)
        first, second = degree[i], degree[j]
        inputs = torch.cat(
            [
                (x[i] - x[j]).abs(),
                (x[i] + x[j]) / 2,
                (first * second).log().unsqueeze(-1),
                (first / second).log().abs().unsqueeze(-1),
            ],
            dim=-1,
        )
        departure = 2 * torch.tanh(self.network(inputs).squeeze(-1) / 2)
        return self.strength(strength).unsqueeze(-1) * departure.exp() / (first * second).sqrt()

    def forward(
        self,
        x: Tensor,
        scale: Tensor | float | None = None,
        strength: Tensor | float | None = None,
    ) -> SparsePrecision:
        """The precision for these features.

        Args:
            x: Features, shape ``(num_nodes, in_channels)``.
            scale: The overall scale, in place of the held one.
            strength: The overall edge weight, in place of the held one.

        Returns:
            The precision.
        """
        weight = self.edge_weight(x, strength)
        return dominant(self.graph, weight, self.scale(scale), self.backend)
