"""The order in which a product goes through the entries of a large matrix.

Row by row, the vectors of a large graph's neighbours are all over the memory. So the entries are
ordered by tiles of columns, and by rows within a tile: the rows of the block that one tile reads
stay in the cache, and those that it adds to are passed in their order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit

from ...graph import Graph
from .. import tree

#: Columns of a tile. A block's 16 numbers in single precision at so many nodes are 4 MiB.
_WIDTH = 2**16


@dataclass(frozen=True)
class Tiles:
    """The entries of a graph's matrix, both directions of every edge.

    They come in stretches, each of which has one row and the columns of one tile.

    Attributes:
        row: The row of every stretch, (stretches,).
        start: Its first entry, and the number of entries, (stretches + 1,).
        column: The column of every entry, (entries,).
        edge: The edge of every entry, (entries,).
    """

    row: np.ndarray
    start: np.ndarray
    column: np.ndarray
    edge: np.ndarray

    @classmethod
    def of(cls, graph: Graph) -> Tiles:
        """Those of a graph, made once."""
        return graph.cached("tiles", lambda: cls.build(graph, _WIDTH))

    @classmethod
    def build(cls, graph: Graph, width: int) -> Tiles:
        """The entries in tiles of so many columns."""
        n = graph.num_nodes
        start, column, edge = tree.adjacency(graph.rows.numpy(), graph.cols.numpy(), n)
        row = np.arange(n, dtype=np.int32)
        if n > width:
            row, start, column, edge = _in_tiles(start, column, edge, width)
        if len(column) < 2**31:  # half the memory
            start = start.astype(np.int32)
        return cls(row, start, column, edge)


@njit(cache=True, nogil=True)
def _in_tiles(
    pointer: np.ndarray, neighbour: np.ndarray, edge: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compressed rows, whose columns increase, as the fields of :class:`Tiles`."""
    n = pointer.size - 1
    count = (n + width - 1) // width
    stretches, entries = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    for i in range(n):
        last = -1
        for t in range(pointer[i], pointer[i + 1]):
            tile = neighbour[t] // width
            entries[tile + 1] += 1
            if tile != last:
                stretches[tile + 1] += 1
                last = tile
    for tile in range(count):
        entries[tile + 1] += entries[tile]
        stretches[tile + 1] += stretches[tile]
    row = np.empty(stretches[count], np.int32)
    start = np.empty(stretches[count] + 1, np.int64)
    start[-1] = neighbour.size
    column, of_edge = np.empty_like(neighbour), np.empty_like(edge)
    for i in range(n):
        last = -1
        for t in range(pointer[i], pointer[i + 1]):
            tile = neighbour[t] // width
            place = entries[tile]
            entries[tile] += 1
            column[place], of_edge[place] = neighbour[t], edge[t]
            if tile != last:
                row[stretches[tile]], start[stretches[tile]] = i, place
                stretches[tile] += 1
                last = tile
    return row, start, column, of_edge
