"""Features that a careful regression on a graph starts with."""

from __future__ import annotations

import torch
from torch import Tensor

from ..graph import Graph


def neighbour_sum(graph: Graph, values: Tensor) -> Tensor:
    """The sum over neighbours, for ``values`` of shape ``(num_nodes, *)``."""
    total = torch.zeros_like(values)
    total.index_add_(0, graph.rows, values[graph.cols])
    total.index_add_(0, graph.cols, values[graph.rows])
    return total


def neighbour_mean(graph: Graph, values: Tensor) -> Tensor:
    """The mean over neighbours; zero for a node without any.

    Example:
        >>> path = Graph.from_edges([(0, 1), (1, 2)])
        >>> neighbour_mean(path, torch.tensor([1.0, 2.0, 5.0]))
        tensor([2., 3., 2.])
    """
    degree = graph.degree.clamp(min=1).to(values.dtype)
    return neighbour_sum(graph, values) / degree.reshape(-1, *(1,) * (values.dim() - 1))


def graph_features(graph: Graph, x: Tensor) -> Tensor:
    """Log degree and the neighbours' mean features.

    Returns:
        Shape ``(num_nodes, 1 + num_features)``.

    Example:
        >>> graph_features(Graph.from_edges([(0, 1), (1, 2)]), torch.zeros(3, 4)).shape
        torch.Size([3, 5])
    """
    log_degree = torch.log1p(graph.degree.to(x.dtype)).unsqueeze(-1)
    return torch.cat([log_degree, neighbour_mean(graph, x)], dim=-1)


def neighbour_outcomes(
    graph: Graph, y: Tensor, observed: Tensor, prior_weight: float = 1.0
) -> Tensor:
    """The mean outcome of the observed neighbours, and how many there are.

    A node's own value has no part in its own features, so an observed node sees exactly what it
    would see if it were missing. The mean is drawn towards that of all other observed nodes with
    the weight of ``prior_weight`` neighbours, which is all that a node without observed
    neighbours gets.

    Args:
        graph: The graph.
        y: Values on the scale to average (log counts, say), shape ``(num_nodes,)``; ignored
            where not observed.
        observed: Boolean, shape ``(num_nodes,)``.
        prior_weight: The weight of the overall mean.

    Returns:
        Shape ``(num_nodes, 2)``: the mean, and the log of one plus the number of observed
        neighbours.

    Example:
        >>> path = Graph.from_edges([(0, 1), (1, 2)])
        >>> y, observed = torch.tensor([1.0, 3.0, 0.0]), torch.tensor([True, True, False])
        >>> neighbour_outcomes(path, y, observed)[:, 0]
        tensor([3.0000, 1.0000, 2.5000])
    """
    seen = observed.to(y.dtype)
    filled = torch.where(observed, y, 0.0)
    others = (filled.sum() - filled) / (seen.sum() - seen).clamp(min=1)
    count = neighbour_sum(graph, seen)
    mean = (neighbour_sum(graph, filled) + prior_weight * others) / (count + prior_weight)
    return torch.stack([mean, torch.log1p(count)], dim=-1)
