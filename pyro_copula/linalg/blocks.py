"""Dense blocks for the sparse kernels: plain loops when small, scipy's BLAS when large.

Blocks are column-major and given by address and leading dimension, as BLAS wants them.

numba's cache of a kernel does not see edits in the modules that the kernel imports: after an edit
here or in ``blas``, delete ``__pycache__/*.nb*`` next to this file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, njit

from .blas import (
    LEFT,
    LOWER,
    PLAIN,
    RIGHT,
    TRANSPOSED,
    as_pointer,
    dgemm,
    dpotrf,
    dpotri,
    dsymm,
    dsyr2k,
    dsyrk,
    dtrsm,
)

#: Below this many multiplications a loop beats the overhead of a BLAS call (measured).
SMALL = 5000

# Reordered sums let the compiler use vector registers. Nothing else is relaxed: NaN and infinity
# behave, and the same machine code gives the same bits.
_LOOPS: dict[str, Any] = {
    "cache": True,
    "nogil": True,
    "error_model": "numpy",  # division by zero gives infinity, not a branch to an exception
    "fastmath": {"reassoc", "contract"},
    "no_cpython_wrapper": True,  # only ever called from kernels: half the compile time
    "no_cfunc_wrapper": True,
}


@njit(**_LOOPS)
def at(array: np.ndarray, offset: int) -> int:
    """The address of an element of a contiguous array of doubles."""
    return np.int64(array.ctypes.data) + 8 * offset  # type: ignore[return-value]


@njit(**_LOOPS)
def vector(address: int, length: int) -> np.ndarray:
    """The doubles at an address, as an array that owns nothing."""
    return carray(as_pointer(address), (length,))


@njit(**_LOOPS)
def zero(a: int, length: int) -> None:
    """Sets so many doubles to zero."""
    x = vector(a, length)
    for i in range(length):
        x[i] = 0.0


@njit(**_LOOPS)
def copy(a: int, b: int, length: int) -> None:
    """Copies so many doubles from ``b`` to ``a``; a slice would compile seconds of error text."""
    x, y = vector(a, length), vector(b, length)
    for i in range(length):
        x[i] = y[i]


@njit(**_LOOPS)
def subtract_columns(a: int, lda: int, b: int, m: int, n: int) -> None:
    """``A -= B`` for blocks of shape (m, n), ``B`` without gaps."""
    for j in range(n):
        x, y = vector(a + 8 * j * lda, m), vector(b + 8 * j * m, m)
        for i in range(m):
            x[i] -= y[i]


@njit(**_LOOPS)
def cholesky(a: int, lda: int, n: int) -> int:
    """``A = L L'`` in place, lower; returns the column whose pivot is not positive, else -1.

    That pivot is then left on the diagonal.
    """
    if n * n * n > 6 * SMALL:
        failed = dpotrf((LOWER, n, a, lda, 0)) - 1
        for j in range(n if failed < 0 else failed):
            pivot = vector(a + 8 * j * (lda + 1), 1)[0]
            if not pivot > 0.0 or pivot == np.inf:  # OpenBLAS lets both pass
                return j
        return failed
    for j in range(n):
        x = vector(a + 8 * j * (lda + 1), n - j)
        for k in range(j):
            y = vector(a + 8 * (k * lda + j), n - j)
            t = y[0]
            for i in range(n - j):
                x[i] -= y[i] * t
        if not x[0] > 0.0 or x[0] == np.inf:
            return j
        x[0] = np.sqrt(x[0])
        t = 1.0 / x[0]
        for i in range(1, n - j):
            x[i] *= t
    return -1


@njit(**_LOOPS)
def divide_transposed(a: int, lda: int, m: int, n: int, l: int, ldl: int) -> None:  # noqa: E741
    """``A <- A L^-T`` for ``A`` of shape (m, n)."""
    if m == 1 and lda == 1:  # one vector
        x = vector(a, n)
        for k in range(n):
            column = vector(l + 8 * k * ldl, n)
            x[k] /= column[k]
            for j in range(k + 1, n):
                x[j] -= column[j] * x[k]
        return
    if m * n * n > SMALL:
        dtrsm((RIGHT, LOWER, TRANSPOSED, PLAIN, m, n, 1.0, l, ldl, a, lda))
        return
    for j in range(n):
        x = vector(a + 8 * j * lda, m)
        for k in range(j):
            y = vector(a + 8 * k * lda, m)
            t = vector(l + 8 * (k * ldl + j), 1)[0]
            for i in range(m):
                x[i] -= y[i] * t
        t = 1.0 / vector(l + 8 * j * (ldl + 1), 1)[0]
        for i in range(m):
            x[i] *= t


@njit(**_LOOPS)
def divide(a: int, lda: int, m: int, n: int, l: int, ldl: int) -> None:  # noqa: E741
    """``A <- A L^-1`` for ``A`` of shape (m, n)."""
    if m == 1 and lda == 1:  # one vector
        x = vector(a, n)
        for j in range(n - 1, -1, -1):
            column = vector(l + 8 * j * ldl, n)
            t = 0.0
            for k in range(j + 1, n):
                t += column[k] * x[k]
            x[j] = (x[j] - t) / column[j]
        return
    if m * n * n > SMALL:
        dtrsm((RIGHT, LOWER, PLAIN, PLAIN, m, n, 1.0, l, ldl, a, lda))
        return
    for j in range(n - 1, -1, -1):
        x = vector(a + 8 * j * lda, m)
        column = vector(l + 8 * j * ldl, n)
        for k in range(j + 1, n):
            y = vector(a + 8 * k * lda, m)
            t = column[k]
            for i in range(m):
                x[i] -= y[i] * t
        t = 1.0 / column[j]
        for i in range(m):
            x[i] *= t


@njit(**_LOOPS)
def subtract_square(c: int, ldc: int, n: int, a: int, lda: int, k: int) -> None:
    """``C -= A A'``, lower, for ``A`` of shape (n, k)."""
    if n * n * k > SMALL:
        dsyrk((LOWER, PLAIN, n, k, -1.0, a, lda, 1.0, c, ldc))
        return
    for j in range(n):
        x = vector(c + 8 * j * (ldc + 1), n - j)
        p = 0
        while p + 3 < k:
            y0 = vector(a + 8 * (p * lda + j), n - j)
            y1 = vector(a + 8 * ((p + 1) * lda + j), n - j)
            y2 = vector(a + 8 * ((p + 2) * lda + j), n - j)
            y3 = vector(a + 8 * ((p + 3) * lda + j), n - j)
            t0, t1, t2, t3 = y0[0], y1[0], y2[0], y3[0]
            for i in range(n - j):
                x[i] -= y0[i] * t0 + y1[i] * t1 + y2[i] * t2 + y3[i] * t3
            p += 4
        while p < k:
            y = vector(a + 8 * (p * lda + j), n - j)
            t = y[0]
            for i in range(n - j):
                x[i] -= y[i] * t
            p += 1


@njit(**_LOOPS)
def subtract_pair(c: int, ldc: int, n: int, a: int, lda: int, b: int, ldb: int, k: int) -> None:
    """``C -= A B' + B A'``, lower, for ``A`` and ``B`` of shape (n, k)."""
    if n * n * k > SMALL // 2:
        dsyr2k((LOWER, PLAIN, n, k, -1.0, a, lda, b, ldb, 1.0, c, ldc))
        return
    for j in range(n):
        x = vector(c + 8 * j * (ldc + 1), n - j)
        p = 0
        while p + 1 < k:
            y0 = vector(a + 8 * (p * lda + j), n - j)
            z0 = vector(b + 8 * (p * ldb + j), n - j)
            y1 = vector(a + 8 * ((p + 1) * lda + j), n - j)
            z1 = vector(b + 8 * ((p + 1) * ldb + j), n - j)
            s0, t0, s1, t1 = y0[0], z0[0], y1[0], z1[0]
            for i in range(n - j):
                x[i] -= y0[i] * t0 + z0[i] * s0 + y1[i] * t1 + z1[i] * s1
            p += 2
        if p < k:
            y = vector(a + 8 * (p * lda + j), n - j)
            z = vector(b + 8 * (p * ldb + j), n - j)
            s, t = y[0], z[0]
            for i in range(n - j):
                x[i] -= y[i] * t + z[i] * s


@njit(**_LOOPS)
def add_product(
    c: int, ldc: int, m: int, n: int, a: int, lda: int, b: int, ldb: int, k: int, alpha: float
) -> None:
    """``C += alpha A B`` for ``A`` of shape (m, k)."""
    if m * n * k > SMALL:
        dgemm((PLAIN, PLAIN, m, n, k, alpha, a, lda, b, ldb, 1.0, c, ldc))
        return
    for j in range(n):
        x = vector(c + 8 * j * ldc, m)
        z = vector(b + 8 * j * ldb, k)
        p = 0
        while p + 3 < k:
            y0 = vector(a + 8 * p * lda, m)
            y1 = vector(a + 8 * (p + 1) * lda, m)
            y2 = vector(a + 8 * (p + 2) * lda, m)
            y3 = vector(a + 8 * (p + 3) * lda, m)
            t0, t1, t2, t3 = alpha * z[p], alpha * z[p + 1], alpha * z[p + 2], alpha * z[p + 3]
            for i in range(m):
                x[i] += y0[i] * t0 + y1[i] * t1 + y2[i] * t2 + y3[i] * t3
            p += 4
        while p < k:
            y = vector(a + 8 * p * lda, m)
            t = alpha * z[p]
            for i in range(m):
                x[i] += y[i] * t
            p += 1


@njit(**_LOOPS)
def add_product_transposed(
    c: int, ldc: int, m: int, n: int, a: int, lda: int, b: int, ldb: int, k: int, alpha: float
) -> None:
    """``C += alpha A B'`` for ``A`` of shape (m, k) and ``B`` of shape (n, k)."""
    if m * n * k > SMALL:
        dgemm((PLAIN, TRANSPOSED, m, n, k, alpha, a, lda, b, ldb, 1.0, c, ldc))
        return
    for j in range(n):
        x = vector(c + 8 * j * ldc, m)
        for p in range(k):
            y = vector(a + 8 * p * lda, m)
            t = alpha * vector(b + 8 * (p * ldb + j), 1)[0]
            for i in range(m):
                x[i] += y[i] * t


@njit(**_LOOPS)
def add_transposed_product(
    c: int, ldc: int, m: int, n: int, a: int, lda: int, b: int, ldb: int, k: int, alpha: float
) -> None:
    """``C += alpha A' B`` for ``A`` of shape (k, m)."""
    if m * n * k > SMALL:
        dgemm((TRANSPOSED, PLAIN, m, n, k, alpha, a, lda, b, ldb, 1.0, c, ldc))
        return
    for j in range(n):
        x = vector(c + 8 * j * ldc, m)
        z = vector(b + 8 * j * ldb, k)
        for i in range(m):
            y = vector(a + 8 * i * lda, k)
            t = 0.0
            for p in range(k):
                t += y[p] * z[p]
            x[i] += alpha * t


@njit(**_LOOPS)
def subtract_lower(c: int, ldc: int, n: int, a: int, lda: int, b: int, ldb: int, k: int) -> None:
    """``C -= A' B``, lower only, for ``A`` and ``B`` of shape (k, n)."""
    if n * n * k > SMALL:
        for j in range(0, n, 64):
            width = min(64, n - j)
            x, y, z = c + 8 * j * (ldc + 1), a + 8 * j * lda, b + 8 * j * ldb
            dgemm((TRANSPOSED, PLAIN, n - j, width, k, -1.0, y, lda, z, ldb, 1.0, x, ldc))
        return
    for j in range(n):
        x = vector(c + 8 * j * ldc, n)
        z = vector(b + 8 * j * ldb, k)
        for i in range(j, n):
            y = vector(a + 8 * i * lda, k)
            t = 0.0
            for p in range(k):
                t += y[p] * z[p]
            x[i] -= t


@njit(**_LOOPS)
def subtract_symmetric(c: int, ldc: int, n: int, z: int, b: int, ldb: int, k: int) -> None:
    """``C -= Z B`` for a symmetric ``Z`` of order n, stored as :func:`mirror_small` left it."""
    if n * n * k > SMALL:
        dsymm((LEFT, LOWER, n, k, -1.0, z, n, b, ldb, 1.0, c, ldc))
    else:
        add_product(c, ldc, n, k, z, n, b, ldb, n, -1.0)


@njit(**_LOOPS)
def mirror(a: int, lda: int, n: int) -> None:
    """Copies the lower triangle to the upper one."""
    for j in range(1, n):
        x = vector(a + 8 * j * lda, n)
        for i in range(j):
            x[i] = vector(a + 8 * (i * lda + j), 1)[0]


@njit(**_LOOPS)
def mirror_small(z: int, n: int, k: int) -> None:
    """Completes a symmetric block if its products with k columns will be plain loops."""
    if n * n * k <= SMALL:
        mirror(z, n, n)


@njit(**_LOOPS)
def invert(a: int, lda: int, n: int, l: int, ldl: int) -> None:  # noqa: E741
    """``A = (L L')^-1``, lower."""
    for j in range(n):
        copy(a + 8 * j * (lda + 1), l + 8 * j * (ldl + 1), n - j)
    if n * n * n > 3 * SMALL:
        dpotri((LOWER, n, a, lda, 0))
        return
    for j in range(n - 1, -1, -1):  # L^-1, from the last column
        x = vector(a + 8 * j * lda, n)
        t = -1.0 / x[j]
        for i in range(n - 1, j, -1):
            y = 0.0
            for k in range(j + 1, i + 1):
                y += vector(a + 8 * (k * lda + i), 1)[0] * x[k]
            x[i] = y * t
        x[j] = -t
    for j in range(n):  # L^-T L^-1, from the first column
        x = vector(a + 8 * j * lda, n)
        for i in range(j, n):
            y = vector(a + 8 * i * lda, n)
            t = 0.0
            for k in range(i, n):
                t += y[k] * x[k]
            x[i] = t
