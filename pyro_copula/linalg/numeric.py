"""The numeric factors of one plan: the sweeps of ``kernels`` with their memory.

One :class:`Factor` is one matrix. What it computes is computed on first use and kept. Its large
arrays come from a pool on the symbolic analysis and go back there with it: at a million nodes,
asking the system for fresh pages costs more than the factor itself.
"""

from __future__ import annotations

import weakref

import numpy as np

from . import kernels, solves
from .resources import SingleThreadedBLAS
from .solver import not_positive_definite
from .symbolic import Plan, Symbolic

#: Right-hand sides solved together: enough for BLAS-3, few enough to stay in cache.
_TOGETHER = 64
#: Doubles of scratch that a solve may use beyond one right-hand side.
_SCRATCH = 2**24

_SOLVE, _HALF, _HALF_TRANSPOSED = 0, 1, 2


class Pool:
    """Arrays of doubles kept for the next user of the same size."""

    _keep = 4

    def __init__(self) -> None:
        self._free: dict[int, list[np.ndarray]] = {}

    @property
    def free_bytes(self) -> int:
        """The bytes held here for reuse."""
        return sum(size * 8 * len(arrays) for size, arrays in self._free.items())

    def take(self, size: int) -> np.ndarray:
        """An array of this size with any content."""
        try:
            return self._free[size].pop()
        except (KeyError, IndexError):
            return np.empty(size)

    def give(self, array: np.ndarray) -> None:
        """Takes an array back that nobody uses any more."""
        free = self._free.setdefault(array.size, [])
        if len(free) < self._keep:
            free.append(array)


class Factor:
    """The factor of one matrix on the pattern of a graph.

    Args:
        symbolic: The analysis of the graph.
        plan: Its plan, or a clamped one.
        pool: Where the memory comes from.
        values: The diagonal by node, then the edges; ``(num_nodes + num_edges,)``.
        element: The flat position in the batch, for the error message.

    Attributes:
        logdet: The log determinant of the eliminated block.
        panels: The factor itself; see ``kernels``.

    Raises:
        NotPositiveDefiniteError: If a pivot is not a positive number.
    """

    def __init__(
        self,
        symbolic: Symbolic,
        plan: Plan,
        pool: Pool,
        values: np.ndarray,
        element: int | None = None,
    ) -> None:
        self._symbolic, self._plan, self._pool = symbolic, plan, pool
        self.panels = self._borrow(symbolic.panel_size)
        self._inverses: np.ndarray | None = None
        self._selected: np.ndarray | None = None
        stack = pool.take(symbolic.stack_size)
        with SingleThreadedBLAS():
            column, result = kernels.factor(plan, values, self.panels, stack)
        pool.give(stack)
        if column >= 0:
            raise not_positive_definite(int(plan.order[column]), float(result), element)
        self.logdet = float(result)

    def _borrow(self, size: int) -> np.ndarray:
        array = self._pool.take(size)
        weakref.finalize(self, self._pool.give, array).atexit = False
        return array

    def selected_inverse(self, keep: bool) -> np.ndarray:
        """The inverse on the pattern, like ``values``; for a clamped plan see ``kernels``.

        Args:
            keep: Whether a :meth:`tangent` will follow, which reuses the inverse in the panels.
        """
        if self._selected is None or (keep and self._inverses is None):
            symbolic = self._symbolic
            inverses = (
                self._borrow(symbolic.panel_size) if keep else self._pool.take(symbolic.panel_size)
            )
            stack = self._pool.take(symbolic.stack_size)
            self._selected = np.empty(symbolic.num_nodes + symbolic.num_edges)
            with SingleThreadedBLAS():
                kernels.inverse(self._plan, self.panels, inverses, stack, self._selected)
            self._pool.give(stack)
            if keep:
                self._inverses = inverses
            else:
                self._pool.give(inverses)
        return self._selected

    def tangent(self, direction: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """``K^-1 G K^-1`` on the pattern; for a clamped plan the gradient of ``sum g Q``.

        Args:
            direction: The symmetric G, like ``values``.
            weight: The g of every node, which a clamped plan reads; ``(num_nodes,)``.
        """
        symbolic, pool = self._symbolic, self._pool
        self.selected_inverse(keep=True)
        sizes = (symbolic.panel_size, symbolic.stack_size, symbolic.stack_size, symbolic.work_size)
        scratch = [pool.take(size) for size in sizes]
        result = np.empty(len(direction))
        with SingleThreadedBLAS():
            kernels.tangent(
                self._plan, self.panels, self._inverses, direction, weight, *scratch, result
            )
        for array in scratch:
            pool.give(array)
        return result

    def solve(self, b: np.ndarray) -> np.ndarray:
        """``K^-1 b`` for the rows of ``b``, of shape ``(k, num_nodes)``."""
        return self._apply(_SOLVE, b)

    def half_solve(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """``A b``, or ``A' b``, with ``A A' = K^-1``, for the rows of ``b``."""
        return self._apply(_HALF_TRANSPOSED if transposed else _HALF, b)

    def _apply(self, kind: int, b: np.ndarray) -> np.ndarray:
        x = np.empty_like(b)
        length = self._symbolic.num_nodes + self._symbolic.max_below
        together = 1 if len(b) == 1 else max(1, min(_TOGETHER, _SCRATCH // length))
        work = self._pool.take(together * length)
        with SingleThreadedBLAS():
            for c in range(0, len(b), together):
                rows = slice(c, c + together)
                solves.solve(self._plan, self.panels, kind, b[rows], x[rows], work)
        self._pool.give(work)
        return x
