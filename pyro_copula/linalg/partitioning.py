"""Blocks of nodes with few edges between them, by METIS."""

from __future__ import annotations

import importlib.util

import numpy as np

from ..errors import InvalidArgumentError
from ..graph import Graph


def metis_labels(graph: Graph, num_blocks: int) -> np.ndarray:
    """The block of every node, for blocks of about equal size.

    Args:
        graph: The graph.
        num_blocks: How many blocks, at least 2. METIS may leave some of them empty.

    Returns:
        Ints from 0 to ``num_blocks - 1``, of shape ``(num_nodes,)``.

    Raises:
        InvalidArgumentError: If pymetis is not installed.
    """
    if importlib.util.find_spec("pymetis") is None:
        raise InvalidArgumentError(
            "graph",
            "partitioned by pymetis",
            "that it is not installed",
            "Run `pip install pymetis`, or give blocks of your own: Partition(graph, labels).",
        )
    import pymetis

    adjacency = graph.to_scipy()
    index = pymetis.zero_copy_dtype()
    csr = pymetis.CSRAdjacency(adjacency.indptr.astype(index), adjacency.indices.astype(index))
    _, labels = pymetis.part_graph(num_blocks, adjacency=csr)
    return np.asarray(labels, dtype=np.int64)
