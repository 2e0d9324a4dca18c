"""The symbolic analysis of a graph: everything about the factor that needs no values.

    order -> elimination tree -> postorder -> column counts -> supernodes, merged where cheaper
          -> postorder again -> sizes (memory, work) -> rows, places, offsets (the plan)

The sizes cost little and say whether the factor is affordable; the plan is made on first use.
A front of a supernode has its columns first and the rows below after them; its panel is the part
of the front in its columns, and its update block the rest.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..graph import Graph
from . import tree
from .ordering import IMBALANCES, default_method, fill_reducing_order

_DOUBLE = 8
#: Vectors over nodes and edges that a density and its derivatives hold beside the factor: values,
#: gradients, and copies of both in double. A fit of a million nodes was seen to hold seven.
_VECTORS = 16
#: Flops of a factor below which a second order is not looked for: about ten milliseconds.
_CHEAP = 1e8


class Plan(NamedTuple):
    """The arrays that drive the numeric sweeps; supernodes are numbered children first.

    A tuple of arrays because numba takes it as one argument.
    """

    start: np.ndarray  # (supernodes + 1,) the first column of each
    pivots: np.ndarray  # (supernodes,) how many of the columns are eliminated, the others clamped
    row_pointer: np.ndarray  # (supernodes + 1,)
    rows: np.ndarray  # the rows below each supernode, increasing
    place: np.ndarray  # where each of those rows is in the parent's front
    child_pointer: np.ndarray  # (supernodes + 1,)
    children: np.ndarray
    panel: np.ndarray  # (supernodes + 1,) offsets of the panels, column-major
    stack: np.ndarray  # (supernodes,) offsets of the update blocks
    entry_pointer: np.ndarray  # (supernodes + 1,)
    entry_place: np.ndarray  # where each value goes in its panel
    entry_value: np.ndarray  # which value: the diagonal by node, then the edges
    order: np.ndarray  # (num_nodes,) the node of each column


class Symbolic:
    """The supernodal structure of the factor of any matrix on a graph's pattern.

    Args:
        graph: The pattern.
        method: How to order, see :func:`~pyro_copula.linalg.ordering.fill_reducing_order`.
        order: An order to keep to, in place of one that is looked for: up to what does not change
            the factor, nodes are eliminated in it.

    Attributes:
        order: The node of every column, int64 of shape ``(num_nodes,)``.
        factor_nonzeros: The non-zeros of the factor, before merging adds explicit zeros.
        flops: Floating-point operations of the factor, additions and multiplications.
        panel_size: Doubles in the panels of the factor.
        stack_size: Doubles in the update blocks that are alive at once.
    """

    def __init__(
        self, graph: Graph, method: str | None = None, order: np.ndarray | None = None
    ) -> None:
        self.method = method or default_method()
        self.num_nodes = graph.num_nodes
        self.num_edges = graph.num_edges
        rows, cols = graph.edges.T
        self._adjacency = tree.adjacency(
            np.ascontiguousarray(rows), np.ascontiguousarray(cols), graph.num_nodes
        )
        given = order is not None
        if order is None:
            order, parent, count = self._eliminated(graph)
        else:
            order, parent, count = self._counted(order)
        group, above, columns, below = tree.supernodes(parent, count, tree.FRONT_COST)
        self.factor_nonzeros = int(count.sum())
        # The child that needs most memory beyond its own block first keeps the stack low.
        weight = tree.stack_peak(above, below) - below.astype(float) ** 2
        post = tree.postorder(above, np.argsort(-weight, kind="stable"))
        self.order = self._grouped(order, _inverse(post)[group], keep=given)
        self._parent = _relabelled(above, post)
        self._columns, self._below = columns[post], below[post]
        self._stack, self.stack_size = tree.stack_offsets(self._parent, self._below)
        wide, tall = self._columns.astype(float), self._below.astype(float)
        self.panel_size = int((wide * (wide + tall)).sum())
        self.flops = float((wide**3 / 3 + wide**2 * tall + wide * tall**2).sum())
        #: Scratch of the sweeps: a block below the largest front, and its pivots twice.
        self.work_size = int((wide * (wide + np.maximum(wide, tall))).max())

    def _eliminated(self, graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The order with the least work among those tried, its tree and its column counts.

        Where the first order is cheap, no other is tried: it could not save what it costs.
        """
        tried = []
        for imbalance in IMBALANCES:
            found = self._counted(fill_reducing_order(graph, self.method, imbalance))
            work = float((found[2].astype(float) ** 2).sum())
            tried.append((work, found))
            if self.method != "metis" or work < _CHEAP:
                break
        return min(tried, key=lambda one: one[0])[1]

    def _counted(self, order: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """An order with children right before their parents, its tree and its column counts."""
        pointer, neighbour, _ = self._adjacency
        parent = tree.elimination_tree(pointer, neighbour, order, _inverse(order))
        post = tree.postorder(parent, np.arange(self.num_nodes))
        order, parent = order[post], _relabelled(parent, post)
        return order, parent, tree.column_counts(pointer, neighbour, order, _inverse(order), parent)

    def _grouped(self, order: np.ndarray, group: np.ndarray, *, keep: bool) -> np.ndarray:
        """The nodes by supernode, and within one by the first supernode that reaches them.

        A front is dense, so that the order of its columns is free. In this one the rows of a
        child lie in long runs of its parent's. With ``keep`` it is left as it is.
        """
        if keep:
            return order[np.argsort(group, kind="stable")]
        pointer, neighbour, _ = self._adjacency
        place = np.empty(len(order), dtype=np.int64)
        place[order] = group
        reached = np.minimum.reduceat(np.append(place[neighbour], len(order)), pointer[:-1])
        reached[np.diff(pointer) == 0] = 0
        return order[np.lexsort((reached[order], group))]

    @property
    def num_supernodes(self) -> int:
        """The number of fronts."""
        return len(self._columns)

    @property
    def max_below(self) -> int:
        """The largest number of rows below a supernode."""
        return int(self._below.max())

    @property
    def predicted_bytes(self) -> int:
        """Memory of everything at once: factor, selected inverse and its derivative."""
        return self.bytes_needed(1, derivatives=True)

    def bytes_needed(self, elements: int, *, derivatives: bool) -> int:
        """Memory for a batch of so many matrices.

        Args:
            elements: How many; each keeps its factor and, for derivatives, its selected inverse.
            derivatives: Whether to count what the backward pass needs.
        """
        panels = 2 * elements + 1 if derivatives else elements + 1
        stacks = 2 if derivatives else 1
        doubles = panels * self.panel_size + stacks * self.stack_size + self.work_size
        numbers = self.num_nodes + self.num_edges
        doubles += elements * (_VECTORS if derivatives else _VECTORS // 4) * numbers
        structure = 8 * int(self._below.sum()) + 12 * numbers
        return _DOUBLE * doubles + structure

    @cached_property
    def plan(self) -> Plan:
        """The plan in which every column is eliminated."""
        return self._plan(self.order, self._columns)

    def clamped_plan(self, observed: np.ndarray) -> Plan:
        """The plan that eliminates the missing nodes only.

        A front is dense, so that the order of its columns is free: the missing ones go first,
        and the observed ones stay in the front without ever being eliminated.

        Args:
            observed: Boolean, shape ``(num_nodes,)``.
        """
        group = np.repeat(np.arange(self.num_supernodes), self._columns)
        clamped = observed[self.order]
        order = self.order[np.lexsort((clamped, group))]
        pivots = np.bincount(group[~clamped], minlength=self.num_supernodes)
        return self._plan(order, pivots)

    def _plan(self, order: np.ndarray, pivots: np.ndarray) -> Plan:
        pointer, neighbour, edge = self._adjacency
        start = _pointer(self._columns)
        rank = _inverse(order)
        row_pointer, rows, place = tree.structure(
            pointer, neighbour, order, rank, start, self._parent, self._below
        )
        kept = np.flatnonzero(self._parent >= 0)
        children = kept[np.argsort(self._parent[kept], kind="stable")]
        degree = np.bincount(self._parent[kept], minlength=self.num_supernodes)
        entry_pointer, entry_place, entry_value = tree.entries(
            pointer, neighbour, edge, order, rank, start, row_pointer, rows
        )
        return Plan(
            start=start,
            pivots=pivots.astype(np.int64),
            row_pointer=row_pointer,
            rows=rows,
            place=place,
            child_pointer=_pointer(degree),
            children=children,
            panel=_pointer(self._columns * (self._columns + self._below)),
            stack=self._stack,
            entry_pointer=entry_pointer,
            entry_place=entry_place,
            entry_value=entry_value,
            order=order,
        )

    def __repr__(self) -> str:
        return (
            f"Symbolic(num_nodes={self.num_nodes}, order={self.method}, "
            f"supernodes={self.num_supernodes}, factor_nonzeros={self.factor_nonzeros:.3g}, "
            f"flops={self.flops:.2g}, bytes={self.predicted_bytes:.2g})"
        )


def analyze(graph: Graph) -> Symbolic:
    """The symbolic analysis of a graph, computed once and kept on it."""
    return graph.cached("symbolic", lambda: Symbolic(graph))


def analyze_leaves_last(graph: Graph, leaves: np.ndarray) -> Symbolic:
    """An analysis in which some leaves are eliminated right after their neighbours.

    A fill-reducing order eliminates leaves before. Here a leaf stands in for its neighbour, so
    that the factor has one more non-zero a row; the last few are kept on the graph.

    Args:
        graph: The pattern.
        leaves: Boolean, shape ``(num_nodes,)``: nodes of one neighbour, which is not among them.
    """

    def analyzed() -> Symbolic:
        first = analyze(graph)
        pointer, neighbour, _ = first._adjacency
        rank = _inverse(first.order).astype(float)
        rank[leaves] = rank[neighbour[pointer[:-1][leaves]]] + 0.5
        return Symbolic(graph, order=np.argsort(rank, kind="stable"))

    return graph.cached(("leaves last", np.packbits(leaves).tobytes()), analyzed, limit=4)


def clamped_plan(graph: Graph, observed: np.ndarray) -> Plan:
    """The plan that eliminates the missing nodes only; the last few are kept on the graph."""
    key = ("clamped plan", np.packbits(observed).tobytes())
    return graph.cached(key, lambda: analyze(graph).clamped_plan(observed), limit=4)


def _inverse(order: np.ndarray) -> np.ndarray:
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    return rank


def _relabelled(parent: np.ndarray, post: np.ndarray) -> np.ndarray:
    """The parents after renumbering the nodes in the order ``post``."""
    rank = np.append(_inverse(post), -1)  # a root's parent stays -1
    return rank[parent[post]].astype(np.int64)


def _pointer(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
