"""The matrix of the iterative engine: ``K = D^1/2 (I - S) D^1/2`` with ``D`` the diagonal."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...graph import Graph
from ..solver import not_positive_definite
from . import kernels
from .cycles import Cycles
from .tiles import Tiles

#: Exact high powers of S are sums over pairs of edges that share a node. Above this many for each
#: entry, which only hubs give, they may be dearer than the noise they take away.
_MOST_WEDGES = 1000


class Operator:
    """``S`` on a graph's rows, for one matrix.

    Args:
        graph: The pattern.
        values: The diagonal and the edges of ``K``, float64 of shape ``(num_nodes + num_edges,)``.
        element: The position in a batch, for errors.
    """

    def __init__(self, graph: Graph, values: np.ndarray, element: int | None = None) -> None:
        n = graph.num_nodes
        self.graph, self.values, self.element = graph, values, element
        diagonal = values[:n]
        bad = ~((diagonal > 0) & np.isfinite(diagonal))
        if bad.any():
            node = int(bad.argmax())
            raise not_positive_definite(node, float(diagonal[node]), element)
        #: The order of the entries of S.
        self.tiles = Tiles.of(graph)
        #: D^-1/2, (num_nodes,)
        self.inverse_root = 1 / np.sqrt(diagonal)
        #: The entries of S on the edges, (num_edges,)
        self.edges = -values[n:] * self.on_edges(self.inverse_root)
        self._entries: dict[np.dtype, np.ndarray] = {}

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.graph.num_nodes

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The two nodes of every edge."""
        return self.graph.rows.numpy(), self.graph.cols.numpy()

    @property
    def cycles(self) -> Cycles:
        """The triangles and quadrangles of the pattern."""
        return Cycles.of(self.graph)

    @cached_property
    def wedges_are_affordable(self) -> bool:
        """Whether loops over all pairs of edges that share a node are worth their time."""
        degree = self.graph.degree.numpy().astype(float)
        return bool((degree**2).sum() <= _MOST_WEDGES * max(degree.sum(), 1))

    def on_edges(self, node: np.ndarray) -> np.ndarray:
        """The product of a number at both ends of every edge."""
        i, j = self.ends
        return node[i] * node[j]

    def at_nodes(self, edge: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """The sum over neighbours of a number on the edge times one at them, (num_nodes,).

        Args:
            edge: The numbers on the edges, (num_edges,).
            weight: Those at the nodes, (num_nodes,): one by default.
        """
        (i, j), n = self.ends, self.num_nodes
        left, right = (edge, edge) if weight is None else (edge * weight[j], edge * weight[i])
        return np.bincount(i, left, n) + np.bincount(j, right, n)

    def matrix(self, dtype: np.dtype | type) -> tuple[np.ndarray, ...]:
        """S as the loops of ``kernels`` take it."""
        dtype = np.dtype(dtype)
        if dtype not in self._entries:
            self._entries[dtype] = self._in_order(self.edges, dtype)
        return (*self._order, self._entries[dtype])

    @property
    def _order(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.tiles.row, self.tiles.start, self.tiles.column

    def _in_order(self, edges: np.ndarray, dtype: np.dtype) -> np.ndarray:
        return edges.astype(dtype)[self.tiles.edge]

    def product(self, x: np.ndarray) -> np.ndarray:
        """``S x`` for a block ``(num_nodes, k)``."""
        y = np.empty_like(x)
        kernels.product(*self.matrix(x.dtype), x, y)
        return y

    def pattern_product(self, direction: np.ndarray, x: np.ndarray) -> np.ndarray:
        """``G x`` for a block, ``G`` symmetric with these values on the pattern."""
        n = self.num_nodes
        y = np.empty_like(x)
        kernels.product(*self._order, self._in_order(direction[n:], x.dtype), x, y)
        y += direction[:n, None].astype(x.dtype) * x
        return y

    def scale_pattern(self, values: np.ndarray) -> np.ndarray:
        """``D^-1/2 V D^-1/2`` for values on the pattern."""
        n = self.num_nodes
        scaled = np.empty_like(values)
        scaled[:n] = values[:n] * self.inverse_root**2
        scaled[n:] = values[n:] * self.on_edges(self.inverse_root)
        return scaled
