"""The matrix of the iterative engine: ``K = D^1/2 (I - S) D^1/2`` with ``D`` the diagonal."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...graph import Graph
from .. import tree
from ..solver import not_positive_definite
from . import kernels

#: The exact traces of high powers of S cost the sum of squared degrees; above this multiple of
#: the number of entries, a hub makes them dearer than the noise they take away.
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
        self.pointer, self.neighbour, self.edge = graph.cached(
            "adjacency", lambda: tree.adjacency(graph.rows.numpy(), graph.cols.numpy(), n)
        )
        #: D^-1/2, (num_nodes,)
        self.inverse_root = 1 / np.sqrt(diagonal)
        #: The entries of S on the edges, (num_edges,)
        self.edges = -values[n:] * self.on_edges(self.inverse_root)
        self._rows: dict[np.dtype, np.ndarray] = {}

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.graph.num_nodes

    @property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """The two nodes of every edge."""
        return self.graph.rows.numpy(), self.graph.cols.numpy()

    @cached_property
    def wedges_are_affordable(self) -> bool:
        """Whether loops over all pairs of edges that share a node are worth their time."""
        degree = np.diff(self.pointer).astype(float)
        return bool((degree**2).sum() <= _MOST_WEDGES * max(degree.sum(), 1))

    @cached_property
    def wedges_before(self) -> np.ndarray:
        """How many pairs of edges are met in rows up to each one, ``(num_nodes,)``."""
        degree = np.diff(self.pointer)
        total = np.append(0, np.cumsum(degree[self.neighbour]))
        return total[self.pointer[1:]].astype(float)

    def on_edges(self, node: np.ndarray) -> np.ndarray:
        """The product of a number at both ends of every edge."""
        i, j = self.ends
        return node[i] * node[j]

    def rows(self, dtype: np.dtype | type) -> np.ndarray:
        """The entries of S along the rows."""
        dtype = np.dtype(dtype)
        if dtype not in self._rows:
            self._rows[dtype] = self.edges.astype(dtype)[self.edge]
        return self._rows[dtype]

    def product(self, x: np.ndarray) -> np.ndarray:
        """``S x`` for a block ``(num_nodes, k)``."""
        y = np.empty_like(x)
        kernels.product(self.pointer, self.neighbour, self.rows(x.dtype), x, y)
        return y

    def pattern_product(self, direction: np.ndarray, x: np.ndarray) -> np.ndarray:
        """``G x`` for a block, ``G`` symmetric with these values on the pattern."""
        n = self.num_nodes
        y = np.empty_like(x)
        rows = direction[n:].astype(x.dtype)[self.edge]
        kernels.product(self.pointer, self.neighbour, rows, x, y)
        y += direction[:n, None].astype(x.dtype) * x
        return y

    def scale_pattern(self, values: np.ndarray) -> np.ndarray:
        """``D^-1/2 V D^-1/2`` for values on the pattern."""
        n = self.num_nodes
        scaled = np.empty_like(values)
        scaled[:n] = values[:n] * self.inverse_root**2
        scaled[n:] = values[n:] * self.on_edges(self.inverse_root)
        return scaled
