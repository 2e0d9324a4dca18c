"""Minibatches of blocks: an unbiased estimate of a composite log likelihood at every step."""

from __future__ import annotations

import torch
from torch import Tensor

from ..distributions import GaussianCopula, GraphNormal
from ..partitions import Partition


class Minibatches:
    """The blocks of a partition, dealt into minibatches at random, once.

    A fixed deal lets every minibatch keep its ordering and symbolic analysis; a new random subset
    at every step would pay for them again.

    Args:
        partition: The blocks.
        size: Blocks in a minibatch, the last of which may have fewer; all of them if None.
        seed: Of the deal.

    Example:
        >>> from pyro_copula import Graph
        >>> graph = Graph.from_edges([(0, 1), (2, 3), (4, 5)])
        >>> Minibatches(Partition(graph, graph.components), 2, seed=0)
        Minibatches(2 of up to 2 blocks)
    """

    def __init__(self, partition: Partition, size: int | None, seed: int) -> None:
        self.partition = partition
        count = partition.num_blocks
        order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
        self.groups = [group.tolist() for group in order.split(count if size is None else size)]

    def log_prob(
        self, law: GaussianCopula | GraphNormal, y: Tensor, group: int | None = None
    ) -> Tensor:
        """The composite log likelihood, estimated from one minibatch.

        Args:
            law: The joint law of all nodes.
            y: Values, NaN at missing nodes.
            group: Which minibatch; by default one drawn with torch's random numbers.

        Returns:
            A number whose mean over the minibatches is the composite log likelihood.
        """
        if len(self.groups) == 1:
            return law.composite_log_prob(y, self.partition)
        if group is None:
            group = int(torch.randint(len(self.groups), ()))
        blocks = self.groups[group]
        # Minibatches are drawn with equal probabilities, though the last one may be smaller.
        weight = len(self.groups) * len(blocks) / self.partition.num_blocks
        return weight * law.composite_log_prob(y, self.partition, blocks=blocks)

    def __repr__(self) -> str:
        return f"Minibatches({len(self.groups)} of up to {len(self.groups[0])} blocks)"
