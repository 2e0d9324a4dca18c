"""Blocks of nodes, for likelihoods that leave out the edges between them.

A precision with a block for every community is cheap on graphs whose factor would fill in. It is
another model than that of the whole graph, and on social graphs most edges lie between blocks. So
a partition serves warm starts and minibatches, says what share of the edges it cuts, and the
whole graph predicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import InvalidArgumentError
from .graph import Graph, check_graph
from .linalg.partitioning import metis_labels


class Partition:
    """The nodes of a graph in blocks, each node in one of them.

    :func:`partition` makes one with few edges between blocks; blocks of your own (states,
    components) go in here.

    Args:
        graph: The graph.
        labels: The block of every node: integers, shape ``(num_nodes,)``. Blocks are numbered
            again, from 0, in the order of their labels.

    Attributes:
        graph: The graph.
        labels: The number of every node's block, int64 of shape ``(num_nodes,)``.
        blocks: The nodes of every block, increasing: a list of int64 tensors.
        cut: The share of the graph's edges that join different blocks; 0 without edges.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2), (2, 3)])
        >>> halves = Partition(graph, [0, 0, 1, 1])
        >>> halves
        Partition(num_blocks=2, sizes 2 to 2, 33.3% of 3 edges cut)
        >>> halves.blocks
        [tensor([0, 1]), tensor([2, 3])]
    """

    def __init__(self, graph: Graph, labels: Any) -> None:
        check_graph(graph)
        given = np.asarray(labels)
        if given.shape != (graph.num_nodes,) or given.dtype.kind not in "iu":
            raise InvalidArgumentError(
                "labels",
                f"integers of shape ({graph.num_nodes},)",
                f"{given.dtype} of shape {given.shape}",
                "Give every node the number of its block.",
            )
        _, number = np.unique(given, return_inverse=True)
        self.graph = graph
        self.labels = torch.from_numpy(number.astype(np.int64))
        sizes = torch.bincount(self.labels)
        self.blocks = list(self.labels.argsort(stable=True).split(sizes.tolist()))
        same = self.labels[graph.rows] == self.labels[graph.cols]
        self.cut = float((~same).double().mean()) if graph.num_edges else 0.0
        self._inside = same
        self._kept: dict[tuple[int, ...], tuple[Tensor, Graph, Tensor]] = {}

    @property
    def num_blocks(self) -> int:
        """The number of blocks."""
        return len(self.blocks)

    def within(self, blocks: Iterable[int] | None = None) -> tuple[Tensor, Graph, Tensor]:
        """Some blocks as one graph, without the edges between them.

        The last results, as many as there are blocks, are remembered with what was computed on
        their graphs.

        Args:
            blocks: Their numbers, each once; all blocks by default.

        Returns:
            The nodes, increasing; the graph on them; and the positions of its edges in
            ``graph.edges``, in its own order.
        """
        key = self._checked_blocks(blocks)
        if key not in self._kept:
            while len(self._kept) > self.num_blocks:  # and one for all blocks together
                del self._kept[next(iter(self._kept))]
            self._kept[key] = self._build(key)
        return self._kept[key]

    def _build(self, numbers: tuple[int, ...]) -> tuple[Tensor, Graph, Tensor]:
        chosen = torch.zeros(self.num_blocks, dtype=torch.bool)
        chosen[list(numbers)] = True
        member = chosen[self.labels]
        kept = (self._inside & member[self.graph.rows]).nonzero().squeeze(-1)
        number = member.cumsum(0) - 1
        ends = torch.stack([self.graph.rows[kept], self.graph.cols[kept]], 1)
        graph = Graph(number[ends].numpy(), int(member.sum()))
        return member.nonzero().squeeze(-1), graph, kept

    def _checked_blocks(self, blocks: Iterable[int] | None) -> tuple[int, ...]:
        if blocks is None:
            return tuple(range(self.num_blocks))
        try:
            numbers = sorted(int(block) for block in blocks)
        except (TypeError, ValueError):
            numbers = []
        inside = bool(numbers) and numbers[0] >= 0 and numbers[-1] < self.num_blocks
        if not inside or len(set(numbers)) < len(numbers):
            raise InvalidArgumentError(
                "blocks",
                f"different numbers from 0 to {self.num_blocks - 1}, one at least",
                repr(blocks),
                "Leave it out for all blocks.",
            )
        return tuple(numbers)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}}

    def __repr__(self) -> str:
        sizes = [len(block) for block in self.blocks]
        return (
            f"Partition(num_blocks={self.num_blocks}, sizes {min(sizes)} to {max(sizes)}, "
            f"{self.cut:.1%} of {self.graph.num_edges} edges cut)"
        )


def partition(graph: Graph, num_blocks: int) -> Partition:
    """The nodes in blocks of about equal size with few edges between them, by METIS.

    Args:
        graph: The graph.
        num_blocks: How many blocks, from 1 to the number of nodes. METIS may leave some empty:
            then there are fewer.

    Returns:
        The partition; it prints the share of edges that it cuts.

    Raises:
        InvalidArgumentError: If pymetis is not installed or ``num_blocks`` cannot be.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)])
        >>> partition(graph, 2)
        Partition(num_blocks=2, sizes 3 to 3, 14.3% of 7 edges cut)
    """
    check_graph(graph)
    whole = isinstance(num_blocks, int) and not isinstance(num_blocks, bool)
    if not whole or not 1 <= num_blocks <= graph.num_nodes:
        raise InvalidArgumentError(
            "num_blocks",
            f"an integer from 1 to the number of nodes, {graph.num_nodes}",
            repr(num_blocks),
            "Choose it so that a block has some thousand nodes.",
        )
    if num_blocks == 1:
        return Partition(graph, np.zeros(graph.num_nodes, dtype=np.int64))
    return Partition(graph, metis_labels(graph, num_blocks))


def check_partition(partition: Any) -> None:
    """Raises the error that says what was given, if it is no :class:`Partition`."""
    if not isinstance(partition, Partition):
        raise InvalidArgumentError(
            "partition",
            "a Partition",
            type(partition).__name__,
            "Make one with pyro_copula.partition(graph, num_blocks).",
        )
