"""Loops over the rows of ``S``, which stands for ``K = D^1/2 (I - S) D^1/2``.

Blocks of vectors are ``(num_nodes, k)``, so that one row is one stretch of memory. Blocks may be
float32; every sum over nodes is float64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

#: Sums may be reordered, which vectorises them; NaN and infinity keep their meaning.
LOOP = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
}


@njit(**LOOP)
def product(
    pointer: np.ndarray, neighbour: np.ndarray, value: np.ndarray, x: np.ndarray, y: np.ndarray
) -> None:
    """``y = S x``."""
    n, k = x.shape
    for i in range(n):
        for c in range(k):
            y[i, c] = 0
        for t in range(pointer[i], pointer[i + 1]):
            j, s = neighbour[t], value[t]
            for c in range(k):
                y[i, c] += s * x[j, c]


@njit(**LOOP)
def curvature(
    pointer: np.ndarray, neighbour: np.ndarray, value: np.ndarray, p: np.ndarray, q: np.ndarray
) -> np.ndarray:
    """``q = (I - S) p``; returns ``p'q`` of every column."""
    n, k = p.shape
    total = np.zeros(k)
    for i in range(n):
        for c in range(k):
            q[i, c] = p[i, c]
        for t in range(pointer[i], pointer[i + 1]):
            j, s = neighbour[t], value[t]
            for c in range(k):
                q[i, c] -= s * p[j, c]
        for c in range(k):
            total[c] += np.float64(p[i, c]) * np.float64(q[i, c])
    return total


@njit(**LOOP)
def descend(
    step: np.ndarray, p: np.ndarray, q: np.ndarray, x: np.ndarray, r: np.ndarray
) -> np.ndarray:
    """``x += step p`` and ``r -= step q``; returns ``r'r`` of every column."""
    n, k = p.shape
    total = np.zeros(k)
    for i in range(n):
        for c in range(k):
            x[i, c] += step[c] * p[i, c]
            r[i, c] -= step[c] * q[i, c]
        for c in range(k):
            total[c] += np.float64(r[i, c]) * np.float64(r[i, c])
    return total


@njit(**LOOP)
def turn(weight: np.ndarray, r: np.ndarray, p: np.ndarray) -> None:
    """``p = r + weight p``."""
    n, k = p.shape
    for i in range(n):
        for c in range(k):
            p[i, c] = r[i, c] + weight[c] * p[i, c]


@njit(**LOOP)
def dots(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``x'y`` of every column."""
    n, k = x.shape
    total = np.zeros(k)
    for i in range(n):
        for c in range(k):
            total[c] += np.float64(x[i, c]) * np.float64(y[i, c])
    return total


@njit(**LOOP)
def outer(
    rows: np.ndarray,
    cols: np.ndarray,
    left: np.ndarray,
    right: np.ndarray,
    scale: float,
    values: np.ndarray,
) -> None:
    """Adds ``scale (left right' + right left') / 2`` on the pattern to ``values``."""
    n, k = left.shape
    for i in range(n):
        total = 0.0
        for c in range(k):
            total += np.float64(left[i, c]) * np.float64(right[i, c])
        values[i] += scale * total
    half = scale / 2
    for e in range(rows.size):
        i, j = rows[e], cols[e]
        total = 0.0
        for c in range(k):
            total += np.float64(left[i, c] * right[j, c] + left[j, c] * right[i, c])
        values[n + e] += half * total


@njit(**LOOP)
def powers(
    pointer: np.ndarray,
    neighbour: np.ndarray,
    edge: np.ndarray,
    value: np.ndarray,
    square: np.ndarray,
    cube: np.ndarray,
) -> float:
    """``S^2`` and ``S^3`` on the pattern, added to zeros; returns the trace of ``S^4``.

    Row by row: with ``r = S^2 e_j``, ``(S^2)_ij = r_i``, ``(S^3)_ij = sum_k S_ik r_k``, and the
    trace is the sum of all ``r'r``. It costs little more than the sum of squared degrees.
    """
    n = pointer.size - 1
    r = np.zeros(n)
    trace = 0.0
    for j in range(n):
        for t in range(pointer[j], pointer[j + 1]):
            k, s = neighbour[t], value[t]
            for u in range(pointer[k], pointer[k + 1]):
                r[neighbour[u]] += s * value[u]
        square[j] = r[j]
        own = pointer[j + 1] - pointer[j]
        for t in range(pointer[j], pointer[j + 1]):
            i = neighbour[t]
            cube[j] += value[t] * r[i]
            degree = pointer[i + 1] - pointer[i]
            if degree < own or (degree == own and i < j):  # the shorter row is the cheaper one
                total = 0.0
                for u in range(pointer[i], pointer[i + 1]):
                    total += value[u] * r[neighbour[u]]
                square[n + edge[t]] = r[i]
                cube[n + edge[t]] = total
        for t in range(pointer[j], pointer[j + 1]):  # again, which is faster than a list of them
            k = neighbour[t]
            for u in range(pointer[k], pointer[k + 1]):
                trace += r[neighbour[u]] * r[neighbour[u]]
                r[neighbour[u]] = 0.0
    return trace


@njit(**LOOP)
def sandwich(
    pointer: np.ndarray,
    neighbour: np.ndarray,
    edge: np.ndarray,
    value: np.ndarray,
    weight: np.ndarray,
    result: np.ndarray,
) -> None:
    """``S diag(weight) S`` on the pattern, written to ``result``: a sum over triangles."""
    n = pointer.size - 1
    row = np.zeros(n)
    for j in range(n):
        total = 0.0
        for t in range(pointer[j], pointer[j + 1]):
            k = neighbour[t]
            row[k] = value[t] * weight[k]
            total += value[t] * row[k]
        result[j] = total
        own = pointer[j + 1] - pointer[j]
        for t in range(pointer[j], pointer[j + 1]):
            i = neighbour[t]
            degree = pointer[i + 1] - pointer[i]
            if degree < own or (degree == own and i < j):
                total = 0.0
                for u in range(pointer[i], pointer[i + 1]):
                    total += value[u] * row[neighbour[u]]
                result[n + edge[t]] = total
        for t in range(pointer[j], pointer[j + 1]):
            row[neighbour[t]] = 0.0


@njit(**LOOP)
def through_missing(
    pointer: np.ndarray,
    neighbour: np.ndarray,
    value: np.ndarray,
    missing: np.ndarray,
    squares: np.ndarray,
    triangles: np.ndarray,
) -> None:
    """At observed nodes i, sums over missing k and l of ``S_ik^2`` and ``S_ik S_kl S_li``."""
    n = pointer.size - 1
    row = np.zeros(n)
    for i in range(n):
        if missing[i]:
            continue
        for t in range(pointer[i], pointer[i + 1]):
            if missing[neighbour[t]]:
                row[neighbour[t]] = value[t]
                squares[i] += value[t] * value[t]
        for t in range(pointer[i], pointer[i + 1]):
            k = neighbour[t]
            if missing[k]:
                for u in range(pointer[k], pointer[k + 1]):
                    triangles[i] += value[t] * value[u] * row[neighbour[u]]
        for t in range(pointer[i], pointer[i + 1]):
            row[neighbour[t]] = 0.0
