"""Loops over the rows of ``S``, which stands for ``K = D^1/2 (I - S) D^1/2``.

Blocks of vectors are ``(num_nodes, k)``, so that one row is one stretch of memory. Blocks may be
float32; every sum over nodes is float64.

On a large graph a row of a neighbour is seldom in the cache, and waiting for it is most of the
time. So each loop asks for the rows that it will need some steps later.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

#: Sums may be reordered, which vectorises them; NaN and infinity keep their meaning.
LOOP = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz"},
}


#: How many neighbours ahead a row is asked for: about the time that memory takes. A neighbour's own
#: list of neighbours takes longer to go through, so that fewer of them are asked for.
AHEAD, ROWS_AHEAD = 16, 3


@intrinsic
def fetch(typing: Any, array: Any, row: Any) -> Any:
    """Asks for the row of an array to be brought to the cache; nothing is read or waited for."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, values[0])
        stride = builder.extract_value(view.strides, 0)
        number = values[1]
        if number.type != stride.type:
            number = builder.sext(number, stride.type)
        byte = ir.IntType(8).as_pointer()
        start = builder.bitcast(view.data, byte)
        place = builder.gep(start, [builder.mul(stride, number)])
        integer = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, integer, integer, integer])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], shape)
        # to read (0), needed soon again (3), data and not instructions (1)
        builder.call(function, [place, *(ir.Constant(integer, k) for k in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, row), generate


@njit(**LOOP)
def product(
    row: np.ndarray,
    start: np.ndarray,
    column: np.ndarray,
    value: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
) -> None:
    """``y = S x``, with the entries of S in the order of ``tiles``."""
    n, k = x.shape
    end, last = column.size - 1, row.size - 1
    for i in range(n):
        for c in range(k):
            y[i, c] = 0
    for stretch in range(row.size):
        i = row[stretch]
        fetch(y, row[min(stretch + AHEAD, last)])
        for t in range(start[stretch], start[stretch + 1]):
            fetch(x, column[min(t + AHEAD, end)])
            j, s = column[t], value[t]
            for c in range(k):
                y[i, c] += s * x[j, c]


@njit(**LOOP)
def curvature(
    row: np.ndarray,
    start: np.ndarray,
    column: np.ndarray,
    value: np.ndarray,
    p: np.ndarray,
    q: np.ndarray,
) -> np.ndarray:
    """``q = (I - S) p``; returns ``p'q`` of every column."""
    n, k = p.shape
    end, last = column.size - 1, row.size - 1
    for i in range(n):
        for c in range(k):
            q[i, c] = p[i, c]
    for stretch in range(row.size):
        i = row[stretch]
        fetch(q, row[min(stretch + AHEAD, last)])
        for t in range(start[stretch], start[stretch + 1]):
            fetch(p, column[min(t + AHEAD, end)])
            j, s = column[t], value[t]
            for c in range(k):
                q[i, c] -= s * p[j, c]
    total = np.zeros(k)
    for i in range(n):
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
    end = rows.size - 1
    for e in range(rows.size):
        ahead = min(e + AHEAD, end)
        for node in (rows[ahead], cols[ahead]):
            fetch(left, node)
            fetch(right, node)
        i, j = rows[e], cols[e]
        total = 0.0
        for c in range(k):
            total += np.float64(left[i, c] * right[j, c] + left[j, c] * right[i, c])
        values[n + e] += half * total
