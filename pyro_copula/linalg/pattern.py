"""Loops over the pattern of a graph: its nodes, then its edges.

Vectors are the rows of arrays ``(k, num_nodes)``. The matrix ``K`` is its diagonal and its edges,
each of which stands for two entries.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .kernels import SWEEP


@njit(**SWEEP)
def multiply(
    rows: np.ndarray, cols: np.ndarray, values: np.ndarray, v: np.ndarray, result: np.ndarray
) -> None:
    """``K v``, with the diagonal and the edges of ``K`` in ``values``."""
    k, n = v.shape
    for c in range(k):
        for i in range(n):
            result[c, i] = values[i] * v[c, i]
        for e in range(rows.size):
            i, j = rows[e], cols[e]
            result[c, i] += values[n + e] * v[c, j]
            result[c, j] += values[n + e] * v[c, i]


@njit(**SWEEP)
def outer(
    rows: np.ndarray, cols: np.ndarray, w: np.ndarray, x: np.ndarray, values: np.ndarray
) -> None:
    """Subtracts ``sum (w x' + x w') / 2`` on the pattern, edges counted twice, from ``values``."""
    k, n = w.shape
    for c in range(k):
        for i in range(n):
            values[i] -= w[c, i] * x[c, i]
        for e in range(rows.size):
            i, j = rows[e], cols[e]
            values[n + e] -= w[c, i] * x[c, j] + w[c, j] * x[c, i]


@njit(**SWEEP)
def density_gradient(
    rows: np.ndarray,
    cols: np.ndarray,
    weight: np.ndarray,
    v: np.ndarray,
    inverse: np.ndarray,
    place: np.ndarray,
    block: np.ndarray,
    values: np.ndarray,
) -> None:
    """``sum w (S - S_mm - v v') / 2`` on the pattern, edges counted twice.

    Args:
        rows: The first node of every edge.
        cols: The second one.
        weight: The w of every vector, (k,).
        v: The vectors, (k, num_nodes).
        inverse: S, like ``values``.
        place: Where the values of the missing block stand, (its nodes and edges,).
        block: S_mm, (its nodes and edges,).
        values: Where the result goes, (num_nodes + num_edges,).
    """
    k, n = v.shape
    total = 0.0
    for c in range(k):
        total += weight[c]
    for p in range(values.size):
        values[p] = total * inverse[p]
    for p in range(place.size):
        values[place[p]] -= total * block[p]
    for c in range(k):
        for i in range(n):
            values[i] -= weight[c] * v[c, i] * v[c, i]
        for e in range(rows.size):
            values[n + e] -= weight[c] * v[c, rows[e]] * v[c, cols[e]]
    for i in range(n):
        values[i] *= 0.5
