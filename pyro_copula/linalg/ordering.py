"""Fill-reducing orders of the nodes: nested dissection by METIS, else minimum degree by scipy.

Nested dissection gives the smaller factor on large graphs; minimum degree needs nothing beyond
scipy and is close behind it.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from ..errors import InvalidArgumentError
from ..graph import Graph

#: The names that ``method=`` takes.
METHODS = ("metis", "minimum_degree")

#: By how many thousandths METIS may let a side of a separator exceed its half, its own default
#: first. More freedom often finds smaller separators; at 1,000 a side may be empty, and METIS
#: does not end.
IMBALANCES = (200, 400, 600)


def default_method() -> str:
    """METIS where ``pymetis`` is installed, else minimum degree."""
    return "metis" if importlib.util.find_spec("pymetis") else "minimum_degree"


def fill_reducing_order(
    graph: Graph, method: str | None = None, imbalance: int = IMBALANCES[0]
) -> np.ndarray:
    """The nodes in the order in which to eliminate them.

    Isolated nodes come first; they fill in nothing and neither method likes them.

    Args:
        graph: The pattern.
        method: One of :data:`METHODS`; the best installed one without it.
        imbalance: One of :data:`IMBALANCES`; only METIS reads it.

    Returns:
        A permutation of the nodes, int64 of shape ``(num_nodes,)``.
    """
    method = method or default_method()
    if method not in METHODS:
        raise InvalidArgumentError(
            "method", f"one of {METHODS}", repr(method), "Leave it out for the best installed one."
        )
    linked = graph.degree.numpy() > 0
    isolated = np.flatnonzero(~linked)
    if len(isolated) == graph.num_nodes:
        return isolated
    rest = np.flatnonzero(linked)
    adjacency = graph.to_scipy()
    if len(isolated):
        adjacency = adjacency[rest][:, rest]
    order = _metis(adjacency, imbalance) if method == "metis" else _minimum_degree(adjacency)
    return np.concatenate([isolated, rest[order]])


def _metis(adjacency: scipy.sparse.csr_array, imbalance: int) -> np.ndarray:
    import pymetis

    index = pymetis.zero_copy_dtype()
    csr = pymetis.CSRAdjacency(adjacency.indptr.astype(index), adjacency.indices.astype(index))
    order, _ = pymetis.nested_dissection(adjacency=csr, options=pymetis.Options(ufactor=imbalance))
    return np.asarray(order, dtype=np.int64)


def _minimum_degree(adjacency: scipy.sparse.csr_array) -> np.ndarray:
    # SuperLU orders before it factors, and its incomplete factor with everything dropped is the
    # cheapest way to reach the order. A dominant diagonal keeps that factor from failing.
    matrix = scipy.sparse.diags_array(adjacency.sum(axis=1) + 1.0) - adjacency
    factor = scipy.sparse.linalg.spilu(
        scipy.sparse.csc_matrix(matrix),
        drop_tol=1.0,
        fill_factor=1.0,
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )
    order = np.empty(adjacency.shape[0], dtype=np.int64)
    order[factor.perm_c] = np.arange(len(order))
    return order
