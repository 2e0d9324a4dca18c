"""Sums over the triangles and the quadrangles of a graph, edge by edge.

The entries on an edge of low powers of S are sums over short walks between its ends. Walks that
turn back are products of what is at hand; the others close, with the edge, to a triangle or a
quadrangle. Each of these is met once, from its node of the highest degree, so that a hub's pairs
of neighbours, most of all pairs on a social graph, are never listed.

References:
    Chiba and Nishizeki, Arboricity and subgraph listing algorithms, SIAM J. Comput. 14 (1985).
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numba import njit

from ...crew import Crew
from ...graph import Graph
from .. import tree
from .kernels import AHEAD, LOOP, ROWS_AHEAD, fetch

#: Without contraction a difference of equal products is exactly zero.
_ROUNDED = {**LOOP, "fastmath": {"reassoc", "nsz"}}


class Cycles:
    """The short cycles of a graph.

    Args:
        graph: The pattern.
    """

    def __init__(self, graph: Graph) -> None:
        n, degree = graph.num_nodes, graph.degree.numpy()
        #: The nodes by increasing degree, (num_nodes,); below, nodes are places in this order.
        self.order = np.argsort(degree, kind="stable")
        place = np.empty(n, np.int64)
        place[self.order] = np.arange(n)
        ends = place[graph.rows.numpy()], place[graph.cols.numpy()]
        low, high = np.minimum(*ends), np.maximum(*ends)
        sorted_edges = np.argsort(low * n + high)
        self.pointer, self.neighbour, edge = tree.adjacency(
            low[sorted_edges], high[sorted_edges], n
        )
        self.edge = sorted_edges.astype(np.int32)[edge]

    @classmethod
    def of(cls, graph: Graph) -> Cycles:
        """Those of a graph, made once."""
        return graph.cached("cycles", lambda: cls(graph))

    def triangles(self, edges: np.ndarray, weight: np.ndarray, crew: Crew) -> np.ndarray:
        """``sum_k S_ik weight_k S_kj`` on every edge, (num_edges,).

        Args:
            edges: The values of S, (num_edges,).
            weight: One number for each node, (num_nodes,).
            crew: The processes that share the work.
        """

        def work() -> list[np.ndarray]:
            result = np.zeros_like(edges)
            span = _share(self._triangle_work, crew)
            _triangles(*self._rows(edges), weight[self.order], *span, result)
            return [result]

        return crew.sum(work)[0]

    def quadrangles(self, edges: np.ndarray, crew: Crew) -> np.ndarray:
        """``sum_kl S_ik S_kl S_lj`` over different i, k, l, j on every edge, (num_edges,)."""

        def work() -> list[np.ndarray]:
            result = np.zeros_like(edges)
            _quadrangles(*self._rows(edges), *_share(self._quadrangle_work, crew), result)
            return [result]

        return crew.sum(work)[0]

    def _rows(self, edges: np.ndarray) -> tuple[np.ndarray, ...]:
        return self.pointer, self.neighbour, self.edge, edges[self.edge]

    @cached_property
    def _below(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The edges from their upper end: both ends, and how many are before it in the lower's."""
        lower = np.repeat(np.arange(len(self.order)), np.diff(self.pointer))
        up = np.flatnonzero(self.neighbour > lower)
        return self.neighbour[up], lower[up], up - self.pointer[lower[up]]

    @cached_property
    def _quadrangle_work(self) -> np.ndarray:
        """How many pairs of edges are met from nodes up to each one, (num_nodes,)."""
        upper, _, before = self._below
        return np.cumsum(np.bincount(upper, before, len(self.order)))

    @cached_property
    def _triangle_work(self) -> np.ndarray:
        upper, lower, _ = self._below
        downward = np.bincount(upper, minlength=len(self.order))
        return np.cumsum(np.bincount(upper, downward[lower], len(self.order)))


def _share(done: np.ndarray, crew: Crew) -> tuple[int, int]:
    """From which node to before which one this process goes: about the same work for each."""
    if crew.size == 1:
        return 0, len(done)
    ends = np.searchsorted(done, done[-1] * np.arange(1, crew.size) / crew.size)
    bounds = [0, *ends.tolist(), len(done)]
    return bounds[crew.rank], bounds[crew.rank + 1]


@njit(**LOOP)
def _triangles(
    pointer: np.ndarray,
    neighbour: np.ndarray,
    edge: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray,
    first: int,
    last: int,
    result: np.ndarray,
) -> None:
    """Adds what triangles with their top from ``first`` to before ``last`` give to each edge."""
    place = np.full(pointer.size - 1, -1)  # of a node among the neighbours of the top
    end = neighbour.size - 1
    for top in range(first, last):
        for t in range(pointer[top], pointer[top + 1]):
            if neighbour[t] >= top:
                break
            place[neighbour[t]] = t
        for t in range(pointer[top], pointer[top + 1]):
            middle = neighbour[t]
            if middle >= top:
                break
            fetch(neighbour, pointer[neighbour[min(t + ROWS_AHEAD, end)]])
            for u in range(pointer[middle], pointer[middle + 1]):
                low = neighbour[u]
                if low >= middle:
                    break
                s = place[low]
                if s >= 0:
                    result[edge[t]] += value[s] * weight[low] * value[u]
                    result[edge[s]] += value[t] * weight[middle] * value[u]
                    result[edge[u]] += value[s] * weight[top] * value[t]
        for t in range(pointer[top], pointer[top + 1]):
            if neighbour[t] >= top:
                break
            place[neighbour[t]] = -1


@njit(**_ROUNDED)
def _quadrangles(
    pointer: np.ndarray,
    neighbour: np.ndarray,
    edge: np.ndarray,
    value: np.ndarray,
    first: int,
    last: int,
    result: np.ndarray,
) -> None:
    """Adds what quadrangles with their top from ``first`` to before ``last`` give to each edge.

    ``r`` holds, at the node opposite the top, the sum over the nodes between the two. Without the
    one that a walk has been to, it is what the rest of the quadrangle gives.
    """
    r = np.zeros(pointer.size - 1)
    end = neighbour.size - 1
    for top in range(first, last):
        for t in range(pointer[top], pointer[top + 1]):
            middle = neighbour[t]
            if middle >= top:
                break
            start = pointer[neighbour[min(t + ROWS_AHEAD, end)]]
            fetch(neighbour, start)
            fetch(value, start)
            for u in range(pointer[middle], pointer[middle + 1]):
                if neighbour[u] >= top:
                    break
                fetch(r, neighbour[min(u + AHEAD, end)])
                r[neighbour[u]] += value[t] * value[u]
        for t in range(pointer[top], pointer[top + 1]):
            middle = neighbour[t]
            if middle >= top:
                break
            total = 0.0
            for u in range(pointer[middle], pointer[middle + 1]):
                opposite = neighbour[u]
                if opposite >= top:
                    break
                rest = r[opposite] - value[t] * value[u]
                if rest != 0:  # most pairs of edges are part of no quadrangle
                    total += rest * value[u]
                    result[edge[u]] += rest * value[t]
            result[edge[t]] += total
        for t in range(pointer[top], pointer[top + 1]):
            middle = neighbour[t]
            if middle >= top:
                break
            for u in range(pointer[middle], pointer[middle + 1]):
                if neighbour[u] >= top:
                    break
                r[neighbour[u]] = 0.0
