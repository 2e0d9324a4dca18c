"""Random signs, in blocks that are each reproducible by themselves.

Since block b depends on the seed and on b alone, several workers can share the probes of one
estimate by taking different blocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

#: Probes of a block: one row of float32 is a line of cache.
WIDTH = 16
_CONTROL = 2**31


class Probes:
    """Vectors of random signs for one matrix.

    Args:
        seed: Any integers.
        num_nodes: The nodes for which signs are drawn.
        count: The number of vectors.
        nodes: The nodes that are kept, all by default: a block of a matrix has the signs of the
            whole, so that their errors agree and a difference of log determinants loses most.
    """

    def __init__(
        self, seed: tuple[int, ...], num_nodes: int, count: int, nodes: np.ndarray | None = None
    ) -> None:
        self.seed, self.num_nodes, self.count, self.nodes = seed, num_nodes, count, nodes

    def __len__(self) -> int:
        return self.count

    def blocks(self, share: slice) -> Iterator[tuple[slice, np.ndarray]]:
        """Which of the probes, and their signs as int8 of shape ``(num_nodes, at most 16)``.

        Args:
            share: The probes asked for.
        """
        for number, first in enumerate(range(0, self.count, WIDTH)):
            which = slice(max(first, share.start), min(first + WIDTH, share.stop))
            if which.start < which.stop:
                yield which, self.block(number)[:, which.start - first : which.stop - first]

    def block(self, number: int) -> np.ndarray:
        """The signs of one block."""
        generator = np.random.default_rng((*self.seed, number))
        raw = np.frombuffer(generator.bytes(2 * self.num_nodes), dtype=np.uint8)
        signs = 2 * np.unpackbits(raw).astype(np.int8).reshape(self.num_nodes, WIDTH) - 1
        return signs if self.nodes is None else signs[self.nodes]

    def restrict(self, nodes: np.ndarray) -> Probes:
        """The same probes seen at some of the nodes, given by their numbers."""
        nodes = nodes if self.nodes is None else self.nodes[nodes]
        return Probes(self.seed, self.num_nodes, self.count, nodes)

    def independent(self, purpose: int = 0) -> np.random.Generator:
        """Random numbers that no probe depends on."""
        return np.random.default_rng((*self.seed, _CONTROL + purpose))
