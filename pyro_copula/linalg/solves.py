"""Solves with a supernodal factor; the notation is that of ``kernels``.

solve    children first   x2 -= Y x1;      then parents first   x1 = D^-1 x1 - Y' x2
half     parents first    x1 = L^-T x1 - Y' x2
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .blocks import (
    add_product,
    add_product_transposed,
    add_transposed_product,
    at,
    copy,
    divide,
    divide_transposed,
    vector,
    zero,
)
from .kernels import PART, SWEEP, front_shape
from .symbolic import Plan


@njit(**SWEEP)
def solve(
    plan: Plan, panels: np.ndarray, kind: int, b: np.ndarray, x: np.ndarray, work: np.ndarray
) -> None:
    """``K^-1 b`` (kind 0), ``A b`` (kind 1) or ``A' b`` (kind 2), where ``A A' = K^-1``.

    Args:
        plan: The plan, not a clamped one.
        panels: The factor.
        kind: What to apply.
        b: The right-hand sides as rows, (k, num_nodes).
        x: The results as rows; may be ``b``.
        work: Scratch, k times (num_nodes + the largest number of rows below).
    """
    k, n = b.shape
    for i in range(n):
        for c in range(k):
            work[i * k + c] = b[c, plan.order[i]]
    block, t = at(work, 0), at(work, n * k)
    if kind != 1:
        for s in range(plan.pivots.size):
            _solve_up(plan, s, panels, kind == 2, block, t, k)
    if kind != 2:
        for s in range(plan.pivots.size - 1, -1, -1):
            _solve_down(plan, s, panels, kind == 1, block, t, k)
    for i in range(n):
        for c in range(k):
            x[c, plan.order[i]] = work[i * k + c]


@njit(**PART)
def _solve_up(
    plan: Plan, s: int, panels: np.ndarray, half: bool, block: int, t: int, k: int
) -> None:
    """``x2 -= Y x1``, and with ``half`` then ``x1 <- L^-1 x1``; the nodes are the columns."""
    _, nc, n2, nr = front_shape(plan, s)
    f = at(panels, plan.panel[s])
    x1, y = block + 8 * k * plan.start[s], f + 8 * nc
    zero(t, k * n2)
    if k == 1:
        add_product(t, n2, n2, 1, y, nr, x1, nc, nc, 1.0)
    else:
        add_product_transposed(t, k, k, n2, x1, k, y, nr, nc, 1.0)
    for r in range(n2):
        row = np.int64(plan.rows[plan.row_pointer[s] + r])
        target, update = vector(block + 8 * k * row, k), vector(t + 8 * k * r, k)
        for c in range(k):
            target[c] -= update[c]
    if half:
        divide_transposed(x1, k, k, nc, f, nr)


@njit(**PART)
def _solve_down(
    plan: Plan, s: int, panels: np.ndarray, half: bool, block: int, t: int, k: int
) -> None:
    """``x1 <- D^-1 x1 - Y' x2``, or with ``half`` ``L^-T`` in place of ``D^-1``."""
    _, nc, n2, nr = front_shape(plan, s)
    f = at(panels, plan.panel[s])
    x1, y = block + 8 * k * plan.start[s], f + 8 * nc
    for r in range(n2):
        row = np.int64(plan.rows[plan.row_pointer[s] + r])
        copy(t + 8 * k * r, block + 8 * k * row, k)
    if not half:
        divide_transposed(x1, k, k, nc, f, nr)
    divide(x1, k, k, nc, f, nr)
    if k == 1:
        add_transposed_product(x1, nc, nc, 1, y, nr, t, n2, n2, -1.0)
    else:
        add_product(x1, k, k, nc, t, k, y, nr, n2, -1.0)
