"""Conjugate gradients on ``I - S`` for a block of right-hand sides at once.

Every column is an iteration of its own; they share the passes over the matrix. The coefficients of
a column are also those of Lanczos' tridiagonal matrix T, started from its right-hand side, so that

    b' f(I - S) b  =  |b|^2 (f(T))_11

to the accuracy of Gauss quadrature with as many nodes as there were iterations.

References:
    Golub and Meurant, Matrices, Moments and Quadrature, 2010.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal

from ...errors import ConvergenceError, ConvergenceWarning, CurvatureError
from . import kernels
from .operator import Operator

#: Above this relative residual nothing can be said about the solution.
_HOPELESS = 0.01
#: Rounding lets the true residual lag behind the one that the iteration carries along.
_SLACK = 10.0


@dataclass(frozen=True)
class Solution:
    """What an iteration found.

    Attributes:
        x: The solutions, ``(num_nodes, k)``.
        size: ``b'b`` of every right-hand side, (k,).
        steps: How many iterations every column took, (k,).
        lengths: The step lengths, ``(iterations, k)``.
        weights: The weights of the old directions, the same shape.
    """

    x: np.ndarray
    size: np.ndarray
    steps: np.ndarray
    lengths: np.ndarray
    weights: np.ndarray

    def quadrature(self, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """``b' f(I - S) b`` for every column."""
        result = np.zeros(len(self.size))
        for c, steps in enumerate(self.steps):
            if steps == 0:
                continue
            length, weight = self.lengths[:steps, c], self.weights[:steps, c]
            diagonal = 1 / length
            diagonal[1:] += weight[:-1] / length[:-1]
            beside = np.sqrt(weight[:-1]) / length[:-1]
            nodes, vectors = eigh_tridiagonal(diagonal, beside)
            tiny = np.finfo(np.float64).tiny
            result[c] = self.size[c] * (vectors[0] ** 2 @ f(np.maximum(nodes, tiny)))
        return result


def solve(operator: Operator, b: np.ndarray, tolerance: float, max_iterations: int) -> Solution:
    """``(I - S)^-1 b`` for a block ``(num_nodes, k)`` in its own dtype.

    Args:
        operator: The matrix.
        b: The right-hand sides.
        tolerance: The relative residual to reach in every column.
        max_iterations: The largest number of iterations.

    Raises:
        CurvatureError: If the matrix is seen not to be positive definite.
        ConvergenceError: If the residual is still above 0.01 at the last iteration.

    Warns:
        ConvergenceWarning: If it is above the tolerance.
    """
    matrix = operator.matrix(b.dtype)
    x, r, p, q = np.zeros_like(b), b.copy(), b.copy(), np.empty_like(b)
    size = kernels.dots(b, b)
    rest, goal = size.copy(), tolerance**2 * size
    active = rest > goal
    steps = np.zeros(len(size), dtype=np.int64)
    lengths: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    while active.any() and len(lengths) < max_iterations:
        bend = kernels.curvature(*matrix, p, q)
        _check_curvature(operator, bend, p, active)
        length = np.where(active, rest / np.where(active, bend, 1.0), 0.0)
        new = kernels.descend(length.astype(b.dtype), p, q, x, r)
        weight = np.where(active, new / np.where(active, rest, 1.0), 0.0)
        rest = np.where(active, new, rest)
        lengths.append(length)
        weights.append(weight)
        steps += active
        active = active & (rest > goal)
        kernels.turn(weight.astype(b.dtype), r, p)
    del r, p
    _check_residual(operator, b, x, q, size, tolerance, len(lengths), not active.any())
    shape = (len(lengths), len(size))
    return Solution(x, size, steps, np.reshape(lengths, shape), np.reshape(weights, shape))


def _check_curvature(
    operator: Operator, bend: np.ndarray, p: np.ndarray, active: np.ndarray
) -> None:
    bad = active & ~(bend > 0)
    if bad.any():
        column = int(bad.argmax())
        direction = p[:, column].astype(np.float64)
        ratio = float(bend[column] / max(direction @ direction, np.finfo(np.float64).tiny))
        raise CurvatureError("precision", int(np.abs(direction).argmax()), ratio, operator.element)


def _check_residual(
    operator: Operator,
    b: np.ndarray,
    x: np.ndarray,
    rest: np.ndarray,
    size: np.ndarray,
    tolerance: float,
    iterations: int,
    finished: bool,
) -> None:
    """The residual itself, not the one carried along, decides whether a solution is one.

    It is written to ``rest``.
    """
    if not size.any():
        return
    kernels.curvature(*operator.matrix(b.dtype), x, rest)
    np.subtract(b, rest, out=rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(size > 0, kernels.dots(rest, rest) / size, 0.0)
    residual = float(np.sqrt(ratio.max())) if not np.isnan(ratio).any() else float("nan")
    if residual <= (_SLACK * tolerance if finished else tolerance):
        return
    if not residual <= _HOPELESS:
        raise ConvergenceError(residual, tolerance, iterations)
    warnings.warn(ConvergenceWarning(residual, tolerance, iterations), stacklevel=4)
