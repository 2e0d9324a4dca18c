"""Square roots of the inverse, for draws: one that the edges give, and one by Lanczos.

Where scaling nodes by some ``s > 0`` makes the matrix diagonally dominant, it is a sum of squares,
one for each node and one for each edge:

    s (I - S) s  =  diag(r) + sum_e w_e (e_i -+ e_j)(e_i -+ e_j)'

so that as many independent normals, put together on nodes and edges, have exactly its covariance,
and one solve turns them into a draw of the inverse. Nothing is approximated but the solve.
"""

from __future__ import annotations

import warnings

import numpy as np

from ...errors import ConvergenceError, ConvergenceWarning, CurvatureError
from . import kernels
from .conjugate_gradients import solve
from .operator import Operator

_ENOUGH = 1e-3


class EdgeRoot:
    """The square root that the edges give.

    Args:
        scale: The ``s`` of every node, (num_nodes,).
        own: The ``sqrt(r)`` of every node, (num_nodes,).
        shared: The ``sqrt(w)`` of every edge, (num_edges,).
        sign: The sign of S on every edge, (num_edges,).
    """

    def __init__(
        self, scale: np.ndarray, own: np.ndarray, shared: np.ndarray, sign: np.ndarray
    ) -> None:
        self.scale, self.own, self.shared, self.sign = scale, own, shared, sign

    @classmethod
    def of(cls, operator: Operator, tolerance: float, max_iterations: int) -> EdgeRoot | None:
        """The root of a matrix, or None if no scaling makes it diagonally dominant."""
        values = operator.values.copy()
        n = operator.num_nodes
        values[n:] = -np.abs(values[n:])
        comparison = Operator(operator.graph, values, operator.element)
        scale = np.sqrt(values[:n])
        rest = _slack(comparison, scale)
        if (rest < 0).any():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the slack decides
                try:
                    found = solve(comparison, np.ones((n, 1)), tolerance, max_iterations)
                except (ConvergenceError, CurvatureError):
                    return None
            scale = found.x[:, 0]
            rest = _slack(comparison, scale)
        if (rest < 0).any() or (scale <= 0).any():
            return None
        shared = np.sqrt(comparison.on_edges(scale) * np.abs(operator.edges))
        return cls(scale, np.sqrt(rest), shared, np.sign(operator.edges))

    def apply(self, operator: Operator, nodes: np.ndarray, edges: np.ndarray) -> np.ndarray:
        """Normals at nodes and edges put together: the covariance is ``I - S``."""
        i, j = operator.ends
        part = self.shared * edges
        total = self.own * nodes
        total += np.bincount(i, part, operator.num_nodes)
        total -= np.bincount(j, part * self.sign, operator.num_nodes)
        return total / self.scale


def _slack(comparison: Operator, scale: np.ndarray) -> np.ndarray:
    """By how much every row dominates, with rounding errors of exact balance put to zero."""
    product = comparison.product(np.ascontiguousarray(scale[:, None]))[:, 0]
    rest = scale - product
    rest[np.abs(rest) <= 1e-12 * scale] = 0.0
    return scale * rest


def inverse_root(
    operator: Operator, b: np.ndarray, tolerance: float, max_iterations: int
) -> np.ndarray:
    """``(I - S)^-1/2 b`` for one vector, by Lanczos with full orthogonalisation."""
    n, size = len(b), float(np.linalg.norm(b))
    if size == 0:
        return np.zeros(n)
    steps = min(max_iterations, n)
    basis, diagonal, beside = [b / size], [], []
    old = np.zeros(1)
    change = np.inf
    for step in range(steps):
        image = np.empty((n, 1))
        start = np.ascontiguousarray(basis[-1][:, None])
        kernels.curvature(*operator.matrix(np.float64), start, image)
        image = image[:, 0]
        diagonal.append(float(basis[-1] @ image))
        known = np.stack(basis)
        for _ in range(2):
            image -= known.T @ (known @ image)
        beside.append(float(np.linalg.norm(image)))
        ended = beside[-1] <= 1e-12 or step + 1 == steps
        if ended or step % 5 == 4:
            new = _root_coefficients(diagonal, beside, known, operator)
            change = float(np.linalg.norm(new - np.append(old, np.zeros(len(new) - len(old)))))
            change /= float(np.linalg.norm(new))
            old = new
            if beside[-1] <= 1e-12 or step + 1 == n or change <= tolerance:
                return size * (known.T @ new)
        basis.append(image / beside[-1])
    if not change <= _ENOUGH:
        raise ConvergenceError(change, tolerance, steps)
    warnings.warn(ConvergenceWarning(change, tolerance, steps), stacklevel=4)
    return size * (np.stack(basis[: len(old)]).T @ old)


def _root_coefficients(
    diagonal: list[float], beside: list[float], known: np.ndarray, operator: Operator
) -> np.ndarray:
    matrix = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    values, vectors = np.linalg.eigh(matrix)
    if values[0] <= 0:
        node = int(np.abs(known.T @ vectors[:, 0]).argmax())
        raise CurvatureError("precision", node, float(values[0]), operator.element)
    return vectors @ (vectors[0] / np.sqrt(values))
