"""The canonical undirected graph that everything else is built on.

A graph here is a number of nodes and a sorted list of undirected edges ``i < j``, without self
loops and without duplicates. It is validated once, when it is made; nothing after that checks it
again. Nodes may be isolated and the graph may have any number of components.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse
import torch
from torch import Tensor

from .errors import GraphError, InvalidArgumentError

_EDGE_INDEX_HINT = (
    "Pass PyTorch Geometric's `edge_index`: an integer tensor of shape (2, E), 0-based."
)


class Graph:
    """An undirected graph on the nodes ``0, ..., num_nodes - 1``.

    Build one with :meth:`from_edge_index`, :meth:`from_scipy`, :meth:`from_networkx` or
    :meth:`from_edges`. Both directions of an edge, repeated edges and self loops are accepted;
    self loops are dropped and the rest is merged into one sorted list.

    Attributes:
        num_nodes: The number of nodes.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 1)], num_nodes=4)
        >>> graph
        Graph(num_nodes=4, num_edges=2, components=2, isolated=1)
        >>> graph.edges.tolist(), graph.degree.tolist()
        ([[0, 1], [1, 2]], [1, 2, 1, 0])
    """

    def __init__(self, edges: np.ndarray, num_nodes: int) -> None:
        self.num_nodes = _checked_num_nodes(num_nodes)
        self._edges = _canonical_edges(np.asarray(edges), self.num_nodes)
        self._edges.setflags(write=False)
        self._cache: dict[Any, Any] = {}

    # ---------------------------------------------------------------- constructors

    @classmethod
    def from_edge_index(cls, edge_index: Any, num_nodes: int | None = None) -> Graph:
        """Makes a graph from PyTorch Geometric's ``edge_index``.

        Args:
            edge_index: Integer tensor or array of shape ``(2, E)``.
            num_nodes: The number of nodes. Without it, one more than the largest index, which
                loses isolated nodes at the end.

        Returns:
            The graph.
        """
        array = edge_index.detach().cpu().numpy() if torch.is_tensor(edge_index) else edge_index
        array = np.asarray(array)
        if array.ndim != 2 or array.shape[0] != 2:
            raise GraphError(
                "edge_index", "of shape (2, E)", f"shape {tuple(array.shape)}", _EDGE_INDEX_HINT
            )
        if array.dtype.kind not in "iu" and array.size:
            raise GraphError("edge_index", "integer", f"dtype {array.dtype}", _EDGE_INDEX_HINT)
        if num_nodes is None:
            num_nodes = int(array.max()) + 1 if array.size else 0
        return cls(array.T, num_nodes)

    @classmethod
    def from_scipy(cls, adjacency: Any) -> Graph:
        """Makes a graph from the non-zeros of a square scipy sparse matrix.

        Args:
            adjacency: Only its pattern is used: the entry ``(i, j)`` or ``(j, i)``, or both, make
                the edge.

        Returns:
            The graph.
        """
        if not scipy.sparse.issparse(adjacency):
            raise GraphError(
                "adjacency",
                "a scipy sparse matrix",
                f"{type(adjacency).__name__}",
                "Wrap a dense array in scipy.sparse.csr_array(...).",
            )
        if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1]:
            raise GraphError(
                "adjacency", "square", f"shape {adjacency.shape}", "Pass an n x n matrix."
            )
        coo = scipy.sparse.coo_array(adjacency)
        keep = coo.data != 0
        return cls(np.stack([coo.row[keep], coo.col[keep]], axis=1), adjacency.shape[0])

    @classmethod
    def from_networkx(cls, graph: Any) -> Graph:
        """Makes a graph from a networkx graph.

        Args:
            graph: Its nodes may have any names; they are numbered in networkx's order.

        Returns:
            The graph.
        """
        try:
            number = {node: i for i, node in enumerate(graph.nodes())}
            pairs = [(number[a], number[b]) for a, b in graph.edges()]
        except (AttributeError, TypeError) as error:
            raise GraphError(
                "graph",
                "a networkx graph",
                f"{type(graph).__name__}",
                "Use Graph.from_edges for a list of pairs or Graph.from_edge_index for a tensor.",
            ) from error
        return cls(np.asarray(pairs, dtype=np.int64).reshape(-1, 2), len(number))

    @classmethod
    def from_edges(
        cls, edges: Iterable[tuple[int, int]] | np.ndarray, num_nodes: int | None = None
    ) -> Graph:
        """Makes a graph from pairs of node numbers.

        Args:
            edges: Pairs ``(i, j)``, in any order and either direction.
            num_nodes: The number of nodes. Without it, one more than the largest number.

        Returns:
            The graph.
        """
        try:
            pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
        except (ValueError, TypeError) as error:
            raise GraphError(
                "edges", "a sequence of pairs", _first_other(edges), "Pass [(0, 1), (1, 2)]."
            ) from error
        if pairs.size == 0:
            pairs = np.zeros((0, 2), dtype=np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise GraphError(
                "edges",
                "a sequence of pairs of integers",
                f"an array of shape {tuple(pairs.shape)} and dtype {pairs.dtype}",
                "Pass [(0, 1), (1, 2)], 0-based; number your node names first.",
            )
        if num_nodes is None:
            num_nodes = int(pairs.max()) + 1 if pairs.size else 0
        return cls(pairs, num_nodes)

    # ---------------------------------------------------------------- views

    @property
    def num_edges(self) -> int:
        """The number of undirected edges."""
        return len(self._edges)

    @property
    def edges(self) -> np.ndarray:
        """The undirected edges ``i < j``, sorted: int64 of shape ``(num_edges, 2)``.

        Edge values everywhere in the package follow this order. It is a copy: the graph itself
        does not change.
        """
        return self._edges.copy()

    @property
    def rows(self) -> Tensor:
        """The smaller end of every edge, int64 of shape ``(num_edges,)``."""
        return self.cached("rows", lambda: torch.from_numpy(self._edges[:, 0].copy()))

    @property
    def cols(self) -> Tensor:
        """The larger end of every edge, int64 of shape ``(num_edges,)``."""
        return self.cached("cols", lambda: torch.from_numpy(self._edges[:, 1].copy()))

    @property
    def edge_index(self) -> Tensor:
        """Both directions of every edge as PyTorch Geometric wants them, ``(2, 2 num_edges)``."""
        return self.cached(
            "edge_index",
            lambda: torch.stack(
                [torch.cat([self.rows, self.cols]), torch.cat([self.cols, self.rows])]
            ),
        )

    @property
    def degree(self) -> Tensor:
        """The number of neighbours of every node, int64 of shape ``(num_nodes,)``."""
        return self.cached(
            "degree",
            lambda: torch.from_numpy(np.bincount(self._edges.ravel(), minlength=self.num_nodes)),
        )

    @property
    def components(self) -> np.ndarray:
        """The component of every node, ints from 0, of shape ``(num_nodes,)``."""
        return self.cached(
            "components",
            lambda: scipy.sparse.csgraph.connected_components(self.to_scipy(), directed=False)[1],
        )

    def to_scipy(self) -> scipy.sparse.csr_array:
        """The symmetric 0/1 adjacency matrix.

        Returns:
            A sparse array of shape ``(num_nodes, num_nodes)``.
        """
        i, j = self._edges.T
        ones = np.ones(2 * self.num_edges)
        index = (np.concatenate([i, j]), np.concatenate([j, i]))
        return scipy.sparse.csr_array((ones, index), shape=(self.num_nodes, self.num_nodes))

    def subgraph(self, keep: np.ndarray) -> tuple[Graph, np.ndarray]:
        """The graph induced on some nodes, and which of this graph's edges it keeps.

        The nodes are renumbered in their order. The last few results are remembered, so asking
        again for the same nodes gives the same object, with whatever was computed on it.

        Args:
            keep: Boolean array of shape ``(num_nodes,)``.

        Returns:
            The induced graph, and the positions in ``edges`` of its edges, in its own order.
        """

        def build() -> tuple[Graph, np.ndarray]:
            number = np.cumsum(keep) - 1
            kept = np.flatnonzero(keep[self._edges].all(axis=1))
            return Graph(number[self._edges[kept]], int(keep.sum())), kept

        keep = np.ascontiguousarray(keep, dtype=bool)
        return self.cached(("subgraph", np.packbits(keep).tobytes()), build, limit=16)

    def cached(self, key: Any, build: Any, limit: int | None = None) -> Any:
        """What ``build()`` returned the first time it was asked for under ``key``.

        The graph is immutable, so whatever depends on it alone is computed once and kept here.

        Args:
            key: A hashable key; a tuple's first member names its kind.
            build: A function of no argument.
            limit: How many entries of this kind to keep, the oldest leaving first.

        Returns:
            The value, made now or before.
        """
        if key in self._cache:
            return self._cache[key]
        with torch.inference_mode(False):  # what is kept may take part in a derivative later
            value = build()
        if limit is not None:
            same = [k for k in self._cache if isinstance(k, tuple) and k[0] == key[0]]
            for old in same[: max(0, len(same) - limit + 1)]:
                del self._cache[old]
        self._cache[key] = value
        return value

    # ---------------------------------------------------------------- identity

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Graph):
            return NotImplemented
        return self.num_nodes == other.num_nodes and np.array_equal(self._edges, other._edges)

    def __hash__(self) -> int:
        return self.cached("hash", lambda: hash((self.num_nodes, self._edges.tobytes())))

    def __getstate__(self) -> dict[str, Any]:
        return {"num_nodes": self.num_nodes, "_edges": np.array(self._edges), "_cache": {}}

    def __repr__(self) -> str:
        count = int(self.components.max()) + 1 if self.num_nodes else 0
        isolated = int((self.degree == 0).sum())
        return (
            f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges}, "
            f"components={count}, isolated={isolated})"
        )


def check_graph(graph: Any) -> Graph:
    """The graph itself, or the error that says what was given instead of a :class:`Graph`."""
    if not isinstance(graph, Graph):
        raise InvalidArgumentError(
            "graph",
            "a pyro_copula.Graph",
            type(graph).__name__,
            "Make one with Graph.from_edge_index(edge_index, num_nodes=n).",
        )
    return graph


def _first_other(edges: Any) -> str:
    """The first that is no pair, or the type of what cannot be gone through."""
    if not isinstance(edges, Sequence):
        return type(edges).__name__
    for position, edge in enumerate(edges):
        if not isinstance(edge, Sequence) or len(edge) != 2:
            return f"{edge!r} at edge {position}"
    return type(edges).__name__


def _checked_num_nodes(num_nodes: Any) -> int:
    try:
        value = int(num_nodes)
    except (TypeError, ValueError):
        value = -1
    if value < 1 or value != num_nodes:
        raise InvalidArgumentError(
            "num_nodes", "a positive integer", repr(num_nodes), "Pass the number of nodes."
        )
    return value


def _canonical_edges(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    """Sorted unique pairs i < j; an index outside the graph is an error that names it."""
    if edges.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    outside = (edges < 0) | (edges >= num_nodes)
    if outside.any():
        position = int(np.flatnonzero(outside.any(axis=1))[0])
        raise GraphError(
            "edges",
            f"made of node numbers from 0 to {num_nodes - 1}",
            f"{tuple(int(v) for v in edges[position])} at edge {position}",
            f"Pass the number of all nodes as `num_nodes`, which is {num_nodes} here; subtract 1 "
            "from 1-based numbers.",
        )
    low = edges.min(axis=1).astype(np.int64)
    high = edges.max(axis=1).astype(np.int64)
    code = np.unique((low * num_nodes + high)[low != high])
    return np.stack([code // num_nodes, code % num_nodes], axis=1)
