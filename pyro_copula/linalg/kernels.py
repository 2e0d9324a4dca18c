"""The numeric sweeps of the supernodal multifrontal factor, in float64.

With ``K = B D B'`` in the order of the plan, a front of ``nc`` columns and ``n2`` rows below is

    F = [F11 F21'; F21 U],    D = F11 = L L',    Y = F21 D^-1,    panel = [L; Y]

and the sweeps are

    factor   children first   F = K + the children's U;  U -= Y F21'
    inverse  parents first    Z21 = -Z22 Y;    Z11 = D^-1 - Y' Z21;  a child's Z22 is in this front
    tangent  children first   dF = G + the children's dU;  W = dF21 - Y dD / 2
                              dU -= W Y' + Y W';           dY = (W - Y dD / 2) D^-1
             parents first    dZ21 = -dZ22 Y - Z22 dY
                              dZ11 = -D^-1 dD D^-1 - dY' Z21 - Y' dZ21

where ``-dZ`` is ``K^-1 G K^-1``. The sweep down is the transpose of the sweep up: the same places
and offsets serve both. In a clamped plan (see ``Symbolic.clamped_plan``) a front eliminates only
the first ``n1`` of its columns. For a clamped column c the front ends up with its Schur complement
against the earlier missing nodes, pivot d and column C below, and then, with Z = K_mm^-1,

    Q_cc = d - C' Z22 C,   dQ_cc/dK = v v',   v_c = 1,   v_below = -Z22 C,

so that the gradient of ``sum g_c Q_cc`` is the tangent sweep with ``g C C'`` put into dU on the
way up and ``-g v v'`` into dZ22 on the way down.

References:
    Duff and Reid, "The multifrontal solution of indefinite sparse symmetric linear systems",
    TOMS 9 (1983). Takahashi, Fagan and Chin, "Formation of a sparse bus impedance matrix" (1973).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .blocks import (
    add_product,
    add_product_transposed,
    add_transposed_product,
    at,
    cholesky,
    copy,
    divide,
    divide_transposed,
    invert,
    mirror,
    mirror_small,
    subtract_columns,
    subtract_lower,
    subtract_pair,
    subtract_square,
    subtract_symmetric,
    vector,
    zero,
)
from .symbolic import Plan

SWEEP = {"cache": True, "nogil": True, "error_model": "numpy"}
PART = {**SWEEP, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@njit(**PART)
def front_shape(plan: Plan, s: int) -> tuple[int, int, int, int]:
    """Eliminated columns, columns, rows below, and height of a front."""
    nc = plan.start[s + 1] - plan.start[s]
    n2 = plan.row_pointer[s + 1] - plan.row_pointer[s]
    return plan.pivots[s], nc, n2, nc + n2


@njit(**PART)
def _load(plan: Plan, s: int, values: np.ndarray, panel: int) -> None:
    """Puts the values of K into a panel."""
    first, last = plan.panel[s], plan.panel[s + 1]
    zero(panel, last - first)
    front = vector(panel, last - first)
    for e in range(plan.entry_pointer[s], plan.entry_pointer[s + 1]):
        front[plan.entry_place[e]] = values[plan.entry_value[e]]


@njit(**PART)
def store(plan: Plan, s: int, panel: int, sign: float, values: np.ndarray) -> None:
    """Reads the values on the pattern of K from a panel."""
    front = vector(panel, plan.panel[s + 1] - plan.panel[s])
    for e in range(plan.entry_pointer[s], plan.entry_pointer[s + 1]):
        values[plan.entry_value[e]] = sign * front[plan.entry_place[e]]


@njit(**PART)
def _gather_updates(plan: Plan, s: int, panel: int, stack: np.ndarray) -> None:
    """Adds the children's update blocks to a front (lower triangle)."""
    _, nc, n2, nr = front_shape(plan, s)
    block = at(stack, plan.stack[s])
    for j in range(n2):
        zero(block + 8 * j * (n2 + 1), n2 - j)
    for q in range(plan.child_pointer[s], plan.child_pointer[s + 1]):
        c = plan.children[q]
        place = plan.place[plan.row_pointer[c] : plan.row_pointer[c + 1]]
        size = place.size
        source = at(stack, plan.stack[c])
        for b in range(size):
            column = np.int64(place[b])
            base = panel + 8 * column * nr
            if column >= nc:
                base = block + 8 * ((column - nc) * n2 - nc)
            target = vector(base, nr)
            update = vector(source + 8 * b * size, size)
            for a in range(b, size):
                target[place[a]] += update[a]


@njit(**PART)
def scatter_inverse(plan: Plan, s: int, panel: int, stack: np.ndarray) -> None:
    """Copies out of a front the blocks that its children need (lower triangle)."""
    _, nc, n2, nr = front_shape(plan, s)
    block = at(stack, plan.stack[s])
    for q in range(plan.child_pointer[s], plan.child_pointer[s + 1]):
        c = plan.children[q]
        place = plan.place[plan.row_pointer[c] : plan.row_pointer[c + 1]]
        size = place.size
        target = at(stack, plan.stack[c])
        for b in range(size):
            column = np.int64(place[b])
            base = panel + 8 * column * nr
            if column >= nc:
                base = block + 8 * ((column - nc) * n2 - nc)
            source = vector(base, nr)
            x = vector(target + 8 * b * size, size)
            for a in range(b, size):
                x[a] = source[place[a]]
        n1, width = plan.pivots[c], plan.start[c + 1] - plan.start[c]
        mirror_small(target, size, n1 if n1 == width else min(n1, width - n1))


@njit(**SWEEP)
def factor(
    plan: Plan, values: np.ndarray, panels: np.ndarray, stack: np.ndarray
) -> tuple[int, float]:
    """Factors K; returns ``(-1, log det)``, or the failing column and its pivot."""
    logdet = 0.0
    for s in range(plan.pivots.size):
        n1, nc, n2, nr = front_shape(plan, s)
        f = at(panels, plan.panel[s])
        below = f + 8 * n1
        _load(plan, s, values, f)
        _gather_updates(plan, s, f, stack)
        failed = cholesky(f, nr, n1)
        if failed >= 0:
            return plan.start[s] + failed, vector(f + 8 * failed * (nr + 1), 1)[0]
        for j in range(n1):
            logdet += 2.0 * np.log(vector(f + 8 * j * (nr + 1), 1)[0])
        divide_transposed(below, nr, nr - n1, n1, f, nr)
        if n1 < nc:
            clamped = f + 8 * n1 * (nr + 1)
            add_product_transposed(clamped, nr, nr - n1, nc - n1, below, nr, below, nr, n1, -1.0)
        subtract_square(at(stack, plan.stack[s]), n2, n2, f + 8 * nc, nr, n1)
        divide(below, nr, nr - n1, n1, f, nr)
    return -1, logdet


@njit(**SWEEP)
def inverse(
    plan: Plan, panels: np.ndarray, inverses: np.ndarray, stack: np.ndarray, values: np.ndarray
) -> None:
    """The selected inverse into ``inverses``, and its values on the pattern of K.

    In a clamped plan the value of an observed node is its ``Q_cc``.
    """
    for s in range(plan.pivots.size - 1, -1, -1):
        n1, nc, n2, nr = front_shape(plan, s)
        f = at(panels, plan.panel[s])
        z = at(inverses, plan.panel[s])
        z22 = at(stack, plan.stack[s])
        y, z21 = f + 8 * nc, z + 8 * nc
        zero(z, nr * nc)
        subtract_symmetric(z21, nr, n2, z22, y, nr, n1)
        invert(z, nr, n1, f, nr)
        subtract_lower(z, nr, n1, y, nr, z21, nr, n2)
        store(plan, s, z, 1.0, values)
        if n1 < nc:
            _clamped_diagonal(plan, s, f, z, z22, values)
        scatter_inverse(plan, s, z, stack)


@njit(**PART)
def _clamped_diagonal(plan: Plan, s: int, f: int, z: int, z22: int, values: np.ndarray) -> None:
    """``Q_cc = d - C' Z22 C`` for the clamped columns of a front."""
    n1, nc, n2, nr = front_shape(plan, s)
    product = z + 8 * (n1 * nr + nc)
    subtract_symmetric(product, nr, n2, z22, _clamped_below(f, n1, nc, nr), nr, nc - n1)
    for j in range(n1, nc):
        column, x = vector(f + 8 * j * nr, nr), vector(z + 8 * j * nr, nr)
        total = column[j]
        for i in range(nc, nr):
            total += column[i] * x[i]
            x[i] = 0.0
        values[plan.order[plan.start[s] + j]] = total


@njit(**PART)
def _clamped_below(f: int, n1: int, nc: int, nr: int) -> int:
    """The rows below in the clamped columns."""
    return f + 8 * (n1 * nr + nc)


@njit(**SWEEP)
def tangent(
    plan: Plan,
    panels: np.ndarray,
    inverses: np.ndarray,
    direction: np.ndarray,
    weight: np.ndarray,
    tangents: np.ndarray,
    stack: np.ndarray,
    other: np.ndarray,
    work: np.ndarray,
    values: np.ndarray,
) -> None:
    """``K^-1 G K^-1`` on the pattern of K, or for a clamped plan the gradient of ``sum g Q``.

    Args:
        plan: The plan.
        panels: The factor.
        inverses: The selected inverse of the same factor.
        direction: The values of G, like those of K.
        weight: The g of every node; read at clamped nodes only.
        tangents: Scratch of the size of the panels.
        stack: Scratch for dU and dZ22.
        other: Scratch for Z22.
        work: Scratch for a block of the largest front and for its pivots twice.
        values: The result.
    """
    for s in range(plan.pivots.size):
        n1, nc, n2, nr = front_shape(plan, s)
        f, g = at(panels, plan.panel[s]), at(tangents, plan.panel[s])
        y, d21, t = f + 8 * nc, g + 8 * nc, at(work, 0)
        block = at(stack, plan.stack[s])
        _load(plan, s, direction, g)
        _gather_updates(plan, s, g, stack)
        mirror(g, nr, n1)
        zero(t, n2 * n1)
        add_product(t, n2, n2, n1, y, nr, g, nr, n1, 0.5)
        subtract_columns(d21, nr, t, n2, n1)
        subtract_pair(block, n2, n2, d21, nr, y, nr, n1)
        subtract_columns(d21, nr, t, n2, n1)
        if n1 < nc:
            _add_clamped(plan, s, f, weight, block, t)
        _divide_by_pivots(f, g, d21, nr, n1, n2, t)
    for s in range(plan.pivots.size - 1, -1, -1):
        n1, nc, n2, nr = front_shape(plan, s)
        f, g = at(panels, plan.panel[s]), at(tangents, plan.panel[s])
        z = at(inverses, plan.panel[s])
        y, d21, t = f + 8 * nc, g + 8 * nc, at(work, 0)
        z22 = at(other, plan.stack[s])
        zero(t, n2 * n1)
        subtract_symmetric(t, n2, n2, at(stack, plan.stack[s]), y, nr, n1)
        subtract_symmetric(t, n2, n2, z22, d21, nr, n1)
        subtract_lower(g, nr, n1, d21, nr, z + 8 * nc, nr, n2)
        if n1 < nc:
            _spread_clamped(plan, s, f, g, weight, z22, t)
        subtract_lower(g, nr, n1, y, nr, t, n2, n2)
        for j in range(n1):
            copy(d21 + 8 * j * nr, t + 8 * j * n2, n2)
        store(plan, s, g, -1.0, values)
        scatter_inverse(plan, s, g, stack)
        scatter_inverse(plan, s, z, other)


@njit(**PART)
def _divide_by_pivots(f: int, g: int, d21: int, nr: int, n1: int, n2: int, work: int) -> None:
    """``dF21 <- dF21 D^-1`` and, in the lower triangle, ``dD <- -D^-1 dD D^-1``.

    By products with the inverse: BLAS multiplies twice as fast as it divides, more on small blocks.
    """
    square, t = work, work + 8 * n1 * n1
    invert(square, n1, n1, f, nr)
    mirror(square, n1, n1)
    zero(t, n2 * n1)
    add_product(t, n2, n2, n1, d21, nr, square, n1, n1, 1.0)
    for j in range(n1):
        copy(d21 + 8 * j * nr, t + 8 * j * n2, n2)
    zero(t, n1 * n1)
    add_product(t, n1, n1, n1, g, nr, square, n1, n1, 1.0)
    for j in range(n1):
        zero(g + 8 * j * nr, n1)
    subtract_lower(g, nr, n1, square, n1, t, n1, n1)


@njit(**PART)
def _add_clamped(plan: Plan, s: int, f: int, weight: np.ndarray, block: int, work: int) -> None:
    """``dU += C g C'`` for the clamped columns."""
    n1, nc, n2, nr = front_shape(plan, s)
    for j in range(n1, nc):
        half = -0.5 * weight[plan.order[plan.start[s] + j]]
        x, column = vector(work + 8 * (j - n1) * n2, n2), vector(f + 8 * (j * nr + nc), n2)
        for i in range(n2):
            x[i] = half * column[i]
    subtract_pair(block, n2, n2, _clamped_below(f, n1, nc, nr), nr, work, n2, nc - n1)


@njit(**PART)
def _spread_clamped(
    plan: Plan, s: int, f: int, g: int, weight: np.ndarray, z22: int, t: int
) -> None:
    """``dZ`` in the clamped columns and rows of a front, and their part in dZ21 and dZ11."""
    n1, nc, n2, nr = front_shape(plan, s)
    zero(g + 8 * n1 * nr, nr * (nc - n1))
    product = _clamped_below(g, n1, nc, nr)  # Z22 C g
    subtract_symmetric(product, nr, n2, z22, _clamped_below(f, n1, nc, nr), nr, nc - n1)
    for j in range(n1, nc):
        x, scale = vector(g + 8 * j * nr, nr), weight[plan.order[plan.start[s] + j]]
        x[j] = -scale
        for i in range(nc, nr):
            x[i] *= -scale
    rows, y = g + 8 * n1, f + 8 * n1  # the clamped rows in the eliminated columns
    for j in range(n1):
        x, column = vector(rows + 8 * j * nr, nc - n1), vector(y + 8 * j * nr, nc - n1)
        for i in range(nc - n1):
            x[i] = weight[plan.order[plan.start[s] + n1 + i]] * column[i]
    add_transposed_product(rows, nr, nc - n1, n1, product, nr, f + 8 * nc, nr, n2, -1.0)
    add_product(t, n2, n2, n1, product, nr, y, nr, nc - n1, -1.0)
    subtract_lower(g, nr, n1, y, nr, rows, nr, nc - n1)
