"""Products with a matrix on the edges of a graph: what a layer makes of a node's neighbours.

PyTorch Geometric gathers and adds messages edge by edge, at every step. In a fit the graph stays
the same, so its matrix is made once, in scipy's sparse format, in which a product takes a small
part of that time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import scipy.sparse
import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

#: Gives the entries of a matrix: positions ``(column, row)``, as in an ``edge_index``, and values.
Weights = Callable[[Tensor, int], tuple[Tensor, Tensor]]


class NeighbourProduct:
    """``M x`` for features ``x`` of the nodes and a matrix ``M`` on the edges of their graph.

    The matrix is kept until it is called with other edges.

    Args:
        weights: :func:`mean_weights` or :func:`normalised_weights`.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> NeighbourProduct(mean_weights)(torch.tensor([[1.0], [2.0], [5.0]]), path)
        tensor([[2.],
                [3.],
                [2.]])
    """

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self._edge_index = torch.zeros(2, 0, dtype=torch.long)
        self._matrices: tuple[Any, Any] | None = None
        self._parts: dict[tuple[int, int], tuple[Any, Any]] = {}

    def __call__(self, x: Tensor, edge_index: Tensor, nodes: slice | None = None) -> Tensor:
        """The product.

        Args:
            x: Shape ``(num_nodes, channels)``.
            edge_index: Messages go from ``edge_index[0]`` to ``edge_index[1]``.
            nodes: The nodes at which it is wanted; all of them by default.

        Returns:
            Shape ``(len(nodes), channels)``.
        """
        matrices = self._made(edge_index, len(x), x.detach().numpy().dtype)
        if nodes is not None and (nodes.start, nodes.stop) != (0, len(x)):
            key = nodes.start, nodes.stop
            if key not in self._parts:
                part = matrices[0][nodes]
                self._parts[key] = part, part.T
            matrices = self._parts[key]
        return _Product.apply(x, *matrices)

    def _made(self, edge_index: Tensor, num_nodes: int, dtype: Any) -> tuple[Any, Any]:
        """The matrix and its transpose."""
        if self._matrices is not None:
            matrix = self._matrices[0]
            same = matrix.shape[0] == num_nodes and matrix.dtype == dtype
            if same and torch.equal(edge_index, self._edge_index):
                return self._matrices
        (source, target), weight = self._weights(edge_index, num_nodes)
        entries = (weight.numpy().astype(dtype), (target.numpy(), source.numpy()))
        matrix = scipy.sparse.csr_array(entries, shape=(num_nodes, num_nodes))
        self._edge_index = edge_index.clone()  # a copy, in case the caller's is changed in place
        self._matrices = matrix, matrix.T.tocsr()
        self._parts = {}
        return self._matrices

    def __repr__(self) -> str:
        return f"NeighbourProduct({self._weights.__name__})"


def mean_weights(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The mean over neighbours; zero for a node without any."""
    count = torch.bincount(edge_index[1], minlength=num_nodes)
    return edge_index, count[edge_index[1]].double().reciprocal()


def normalised_weights(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    """The adjacency matrix with self loops, normalised on both sides by the roots of degrees."""
    return gcn_norm(edge_index, None, num_nodes, dtype=torch.float64)


class _Product(torch.autograd.Function):
    """A sparse matrix times a dense one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Any, transpose: Any) -> Tensor:
        ctx.matrix, ctx.transpose = matrix, transpose
        return torch.from_numpy(matrix @ x.detach().numpy())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _Product.apply(grad, ctx.transpose, ctx.matrix), None, None
