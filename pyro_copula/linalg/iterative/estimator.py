"""Log determinant and inverse of one matrix, estimated by random probes.

With probes z, solutions ``x = (I - S)^-1 z`` and the control variate of ``controls``,

    log det K  =  sum log D + tr C + mean[ z' log(I - S) z - z' C z ]          C ~ log(I - S)
    K^-1_ij    =  D^-1/2 ( A_ij + mean[ ((x - A z) z')_ij ] ) D^-1/2           A ~ (I - S)^-1

and for the derivative of the inverse, with ``y = (I - S)^-1 G z`` and ``Q ~ (I - S)^-1``,

    (K^-1 G K^-1)_ij  =  D^-1/2 ( (Q G Q)_ij + mean[ (x y' - (Q z)(Q G z)')_ij ] ) D^-1/2
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from ...crew import present_crew
from . import kernels
from .conjugate_gradients import Solution, solve
from .controls import Control, Powers
from .operator import Operator
from .options import Iterative
from .probes import WIDTH, Probes
from .roots import EdgeRoot, inverse_root

#: The scaling behind draws only has to make the matrix dominant.
_SCALING_TOLERANCE = 1e-3


@dataclass
class Averages:
    """What the probes say.

    Attributes:
        logdet: The log determinant as every probe estimates it, (probes,).
        inverse: The inverse on the pattern, ``(num_nodes + num_edges,)``.
        diagonal: The diagonal of the inverse as every probe of this process's share estimates
            it, float32 of shape ``(num_nodes, share)``.
        solutions: The blocks of solutions of the share, if they were to be kept.
    """

    logdet: np.ndarray
    inverse: np.ndarray
    diagonal: np.ndarray
    solutions: list[np.ndarray]


class Estimator:
    """What the iterative engine knows of one matrix.

    In a crew of several processes each works on its share of the probes; what is public here is
    made of all probes, and the same in every process.

    Args:
        operator: The matrix.
        options: With every default filled in.
        probes: The random signs.
        keep: Whether to keep the solutions for the derivatives of the inverse.
    """

    def __init__(self, operator: Operator, options: Iterative, probes: Probes, keep: bool) -> None:
        self.operator, self.options, self.probes, self.keep = operator, options, probes, keep
        self.dtype = np.float32 if options.dtype == torch.float32 else np.float64
        self.crew = present_crew()
        self.share = self.crew.share(len(probes))

    @cached_property
    def control(self) -> Control:
        """The control variate."""
        generator = self.probes.independent()
        return Control(self.operator, self.options.rank, self.dtype, generator, self.crew)

    @cached_property
    def averages(self) -> Averages:
        """One pass over all probes, on first use."""
        op, control, n, count = self.operator, self.control, self.num_nodes, len(self.probes)
        first, solutions = self.share.start, []
        diagonal = np.empty((n, self.share.stop - first), dtype=np.float32)

        def work() -> list[np.ndarray]:
            logdet, inverse = np.zeros(count), np.zeros(n + op.graph.num_edges)
            for which, signs in self.blocks():
                z = signs.astype(self.dtype)
                solution = self._solve(z)
                powers = Powers(op, z)
                logdet[which] = solution.quadrature(np.log) - control.log_forms(powers)
                rest = solution.x - control.apply_inverse(powers)
                del powers
                kernels.outer(*op.ends, rest, z, 1 / count, inverse)
                diagonal[:, which.start - first : which.stop - first] = rest * z
                if self.keep:
                    solutions.append(solution.x)
            return [logdet, inverse]

        logdet, inverse = self.crew.sum(work)
        exact = control.inverse_on_pattern()
        diagonal += exact[:n, None].astype(np.float32)
        diagonal *= (op.inverse_root**2)[:, None].astype(np.float32)
        logdet += control.log_trace() - 2 * np.log(op.inverse_root).sum()
        return Averages(logdet, op.scale_pattern(inverse + exact), diagonal, solutions)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The probes of this process; see ``Probes.blocks``."""
        return self.probes.blocks(self.share)

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.operator.num_nodes

    @property
    def logdet(self) -> float:
        """The log determinant."""
        return float(self.averages.logdet.mean())

    def selected_inverse(self, keep: bool) -> np.ndarray:
        """The inverse on the pattern, ``(num_nodes + num_edges,)``."""
        return self.averages.inverse

    def tangent(self, direction: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
        """``K^-1 G K^-1`` on the pattern, for ``G`` with the values ``direction`` on it."""
        op, control, n = self.operator, self.control, self.num_nodes
        direction = op.scale_pattern(direction)
        on_edges = bool(direction[n:].any())
        apply = control.apply_constant if on_edges else control.apply_linear
        result = (
            control.pattern_sandwich(direction) if on_edges else control.sandwich(direction[:n])
        )
        solutions = self.averages.solutions

        def work() -> list[np.ndarray]:
            total = np.zeros_like(result)
            for number, (_, signs) in enumerate(self.blocks()):
                z = signs.astype(self.dtype)
                b = op.pattern_product(direction, z)
                x = solutions[number] if solutions else self.probe_solve(z)
                kernels.outer(*op.ends, x, self.probe_solve(b), 1 / len(self.probes), total)
                left, right = apply(Powers(op, z)), apply(Powers(op, b))
                kernels.outer(*op.ends, left, right, -1 / len(self.probes), total)
            return [total]

        return op.scale_pattern(result + self.crew.sum(work)[0])

    # ---------------------------------------------------------------- what single probes say

    def diagonal_error(self) -> np.ndarray:
        """The standard errors of the diagonal of the inverse, (num_nodes,)."""
        each, mean, count = self.averages.diagonal, self.averages.inverse, len(self.probes)
        centre = mean[: self.num_nodes, None].astype(np.float32)
        (squares,) = self.crew.sum(lambda: [np.square(each - centre).sum(1, dtype=np.float64)])
        return np.sqrt(squares / (count - 1) / count)

    def diagonal_spread(self) -> np.ndarray:
        """Half the difference of the diagonal by either half of the probes, (num_nodes,)."""
        half = len(self.probes) // 2
        number = np.arange(self.share.start, self.share.stop)
        weight = (number < half).astype(float) - (number >= len(self.probes) - half)

        def work() -> list[np.ndarray]:
            total = np.zeros(self.num_nodes)
            for column, sign in enumerate(weight):
                total += sign * self.averages.diagonal[:, column]
            return [total]

        return self.crew.sum(work)[0] / (2 * half)

    def diagonal_forms(self, rows: np.ndarray) -> np.ndarray:
        """Weighted sums of the diagonal as every probe estimates it, ``(rows, probes)``."""

        def work() -> list[np.ndarray]:
            forms = np.zeros((len(rows), len(self.probes)))
            forms[:, self.share] = rows @ self.averages.diagonal
            return [forms]

        return self.crew.sum(work)[0]

    # ---------------------------------------------------------------- solves and draws

    def solve(self, rows: np.ndarray) -> np.ndarray:
        """``K^-1 b`` for right-hand sides as rows, in float64."""
        root, result = self.operator.inverse_root, np.empty_like(rows)
        for first in range(0, len(rows), WIDTH):
            some = slice(first, first + WIDTH)
            b = np.ascontiguousarray((rows[some] * root).T)
            found = solve(
                self.operator, b, self.options.solve_tolerance, self.options.max_iterations
            )
            result[some] = found.x.T * root
        return result

    def half_solve(self, rows: np.ndarray, transposed: bool = False) -> np.ndarray:
        """``A b`` or ``A' b`` with ``A = D^-1/2 (I - S)^-1/2``, for rows."""
        root, result = self.operator.inverse_root, np.empty_like(rows)
        for k, row in enumerate(rows):
            result[k] = inverse_root(
                self.operator,
                row * root if transposed else row,
                self.options.solve_tolerance,
                self.options.max_iterations,
            )
        return result if transposed else result * root

    def draw(self, count: int, normal: Callable[[int], np.ndarray]) -> np.ndarray:
        """Draws of ``N(0, K^-1)`` as rows.

        Args:
            count: How many.
            normal: Gives so many standard normals.
        """
        n, edges, root = self.num_nodes, self.operator.graph.num_edges, self.operator.inverse_root
        edge_root = self._edge_root
        if edge_root is None:
            return self.half_solve(np.stack([normal(n) for _ in range(count)]))
        result = np.empty((count, n))
        for row in result:
            row[:] = edge_root.apply(self.operator, normal(n), normal(edges)) / root
        return self.solve(result)

    @cached_property
    def _edge_root(self) -> EdgeRoot | None:
        return EdgeRoot.of(self.operator, _SCALING_TOLERANCE, self.options.max_iterations)

    def probe_solve(self, b: np.ndarray) -> np.ndarray:
        """``(I - S)^-1 b`` for a block, to the accuracy that averages need."""
        return self._solve(b).x

    def _solve(self, b: np.ndarray) -> Solution:
        tolerance = self.options.tolerance
        assert tolerance is not None  # the options are settled
        return solve(self.operator, b, tolerance, self.options.max_iterations)
