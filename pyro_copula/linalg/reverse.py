"""The factor differentiated backwards: from derivatives in ``L`` and ``Y`` to those in ``K``.

In the notation of ``kernels``, with ``Ub`` for the derivative in a front's update block (which its
parent hands down), ``Lb`` and ``Yb`` for those in its panel, and everything symmetric counted over
the full matrix, one sweep with the parents first computes

    B = Yb D^-1 / 2,   G21 = B - Ub Y,   G11 = sym(L^-T phi(L' Lb) L^-1) - Y' B - G21' Y

where ``phi`` takes the lower triangle and halves its diagonal. The derivative in ``K`` is ``G`` on
the pattern, and a child's ``Ub`` is the part of ``G`` that its update went to.

References:
    Murray, Differentiation of the Cholesky decomposition, 2016 (arXiv:1602.07527).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .blocks import (
    add_transposed_product,
    at,
    copy,
    divide,
    divide_transposed,
    subtract_lower,
    subtract_symmetric,
    vector,
    zero,
)
from .kernels import PART, SWEEP, front_shape, scatter_inverse, store
from .symbolic import Plan


@njit(**SWEEP)
def reverse_factor(
    plan: Plan,
    panels: np.ndarray,
    adjoints: np.ndarray,
    stack: np.ndarray,
    work: np.ndarray,
    values: np.ndarray,
) -> None:
    """Derivatives in the values of ``K``, the two entries of an edge together.

    Args:
        plan: The plan, not a clamped one.
        panels: The factor.
        adjoints: The derivatives in the panels; overwritten.
        stack: Scratch for the update blocks.
        work: Scratch for a block below the largest front and for its pivots.
        values: The result, like the values of ``K``.
    """
    n = plan.order.size
    for s in range(plan.pivots.size - 1, -1, -1):
        _, nc, n2, nr = front_shape(plan, s)
        f, g = at(panels, plan.panel[s]), at(adjoints, plan.panel[s])
        y, below = f + 8 * nc, g + 8 * nc
        divide_transposed(below, nr, n2, nc, f, nr)
        divide(below, nr, n2, nc, f, nr)
        b, square = at(work, 0), at(work, n2 * nc)
        for j in range(nc):
            column = vector(below + 8 * j * nr, n2)
            for i in range(n2):
                column[i] *= 0.5
            copy(b + 8 * j * n2, below + 8 * j * nr, n2)
        subtract_symmetric(below, nr, n2, at(stack, plan.stack[s]), y, nr, nc)
        _reverse_cholesky(g, nr, nc, f, nr, square)
        subtract_lower(g, nr, nc, y, nr, b, n2, n2)
        subtract_lower(g, nr, nc, below, nr, y, nr, n2)
        store(plan, s, g, 1.0, values)
        scatter_inverse(plan, s, g, stack)
    for e in range(n, values.size):
        values[e] *= 2.0


@njit(**PART)
def _reverse_cholesky(a: int, lda: int, n: int, l: int, ldl: int, m: int) -> None:  # noqa: E741
    """``A <- sym(L^-T phi(L' A) L^-1)``, lower triangles; ``M`` is scratch of order n."""
    for j in range(n):  # only the lower triangles mean anything
        zero(a + 8 * j * lda, j)
    zero(m, n * n)
    add_transposed_product(m, n, n, n, l, ldl, a, lda, n, 0.5)
    for j in range(n):
        for i in range(j + 1, n):
            vector(m + 8 * (i * n + j), 1)[0] = vector(m + 8 * (j * n + i), 1)[0]
    divide(m, n, n, n, l, ldl)
    for j in range(n):
        for i in range(j):
            upper, lower = vector(m + 8 * (j * n + i), 1), vector(m + 8 * (i * n + j), 1)
            upper[0], lower[0] = lower[0], upper[0]
    divide(m, n, n, n, l, ldl)
    for j in range(n):
        copy(a + 8 * j * (lda + 1), m + 8 * j * (n + 1), n - j)
