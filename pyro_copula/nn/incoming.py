"""The edges that come in at some of the nodes, and weights of them that add up to one."""

from __future__ import annotations

import torch
from torch import Tensor


class Incoming:
    """The edges that come in at some of the nodes, one from each node to itself included.

    They are sorted once, and again when it is called with other edges.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> source, target = Incoming()(slice(1, 3), path, 3)
        >>> source, target  # the sources by their numbers, the targets counted from the first
        (tensor([0, 2, 1, 1, 2]), tensor([0, 0, 1, 0, 1]))
    """

    def __init__(self) -> None:
        self._edge_index = torch.zeros(2, 0, dtype=torch.long)
        self._source = self._target = torch.zeros(0, dtype=torch.long)
        self._pointer = torch.zeros(1, dtype=torch.long)

    def __call__(self, nodes: slice, edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
        """Where the edges come from, and at which of ``nodes`` they come in.

        Args:
            nodes: The nodes at which they come in.
            edge_index: Messages go from ``edge_index[0]`` to ``edge_index[1]``.
            num_nodes: How many nodes there are.

        Returns:
            The sources by their numbers, and the targets counted from the first of ``nodes``.
        """
        self._meet(edge_index, num_nodes)
        some = slice(int(self._pointer[nodes.start]), int(self._pointer[nodes.stop]))
        own = torch.arange(nodes.start, nodes.stop)
        source = torch.cat([self._source[some], own])
        return source, torch.cat([self._target[some], own]) - nodes.start

    @staticmethod
    def softmax(score: Tensor, target: Tensor, count: int) -> Tensor:
        """Weights in proportion to the exponentials of scores, one in sum at every target.

        Args:
            score: Of every edge.
            target: Where it comes in, every one of ``count`` at least once.
            count: How many targets there are.
        """
        highest = score.new_full((count,), -torch.inf)
        highest = highest.scatter_reduce(0, target, score.detach(), "amax")
        weight = (score - highest[target]).exp()
        return weight / weight.new_zeros(count).index_add(0, target, weight)[target]

    def batches(self, edge_index: Tensor, num_nodes: int, size: int) -> list[slice]:
        """The nodes in batches of at most ``size``, and of no more edges than is usual for that.

        Nodes with many edges often have numbers close to each other: without the second limit a
        batch of them would be most of the graph. A node with more edges is a batch of its own.

        Args:
            edge_index: Messages go from ``edge_index[0]`` to ``edge_index[1]``.
            num_nodes: How many nodes there are.
            size: The most nodes of a batch.
        """
        self._meet(edge_index, num_nodes)
        most = -(-size * edge_index.shape[1] // num_nodes)
        found, first = [], 0
        while first < num_nodes:
            full = int(torch.searchsorted(self._pointer, self._pointer[first] + most, right=True))
            last = min(max(full - 1, first + 1), first + size, num_nodes)
            found.append(slice(first, last))
            first = last
        return found

    def _meet(self, edge_index: Tensor, num_nodes: int) -> None:
        """Sorts the edges by where they come in, unless they are those of last time."""
        if len(self._pointer) == num_nodes + 1 and torch.equal(edge_index, self._edge_index):
            return
        self._edge_index = edge_index.clone()
        source, target = edge_index[:, edge_index[0] != edge_index[1]]
        order = target.argsort(stable=True)
        self._source, self._target = source[order], target[order]
        count = torch.bincount(target, minlength=num_nodes)
        self._pointer = torch.cat([torch.zeros(1, dtype=torch.long), count.cumsum(0)])

    def __repr__(self) -> str:
        return f"Incoming({self._edge_index.shape[1]} edges)"
