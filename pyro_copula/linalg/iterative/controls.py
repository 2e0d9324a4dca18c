"""The control variate: an approximation of log(I - S) and (I - S)^-1 whose entries are known.

    log(I - S)   ~  c(S) + U diag(h) U'          traces known exactly
    (I - S)^-1   ~  a(S) + U diag(g) U'          entries on the pattern known exactly

with low-degree polynomials c and a, fitted to the measured spectral density, and the top
eigenvectors U of S. What random probes have to estimate is the difference, which is small. Any
coefficients and any U leave the estimates unbiased as long as the probes are independent of them;
so the eigenvectors need not be accurate, and the random numbers used here are not the probes'.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial

import numpy as np
from numpy.polynomial.polynomial import polyval

from ...crew import Crew
from ...errors import CurvatureError
from . import kernels
from .operator import Operator
from .spectrum import Spectrum

#: Ritz values above one by more than rounding are a proof that K is not positive definite.
_ROUNDING = 1e-4
_SMALLEST = 1e-7
#: One eigenvalue is one of all in the density. Eight random vectors see four times as much of it
#: with a probability of 1e-4.
_MOST_OF_ONE = 4.0
#: The vectors are improved at most so often, until they leave this share of the variance that the
#: polynomial leaves.
_REFINEMENTS, _SHARE = 5, 0.2
#: And not where one probe leaves a relative variance of less than this at a node.
_NEGLIGIBLE = 1e-5


class Control:
    """The approximation for one matrix.

    Args:
        operator: The matrix.
        rank: The number of eigenvectors.
        dtype: Of the eigenvectors.
        generator: The random numbers of the first block.
        crew: The processes that share the loops over pairs of edges.
    """

    def __init__(
        self,
        operator: Operator,
        rank: int,
        dtype: np.dtype | type,
        generator: np.random.Generator,
        crew: Crew,
    ) -> None:
        self.operator, self.crew = operator, crew
        found = Spectrum(operator, rank, dtype, generator)
        self._fit(found)
        for _ in range(_REFINEMENTS):
            if self._is_good(found):
                break
            found.refine()
            self._fit(found)
        #: The eigenvectors, (num_nodes, rank).
        self.vectors = found.vectors
        self.norms = kernels.dots(found.vectors, found.vectors)

    def _fit(self, found: Spectrum) -> None:
        top = found.values
        highest = float(np.append(found.nodes[-1], top).max())
        if highest > 1 + _ROUNDING:
            node = int(np.abs(found.vectors[:, -1]).argmax()) if len(top) else 0
            raise CurvatureError("precision", node, float(1 - highest), self.operator.element)
        # A vector answers for one eigenvalue. On a large graph, the topmost nodes of the density
        # stand for many, which are left to the polynomials.
        rest = np.maximum(found.weights - _MOST_OF_ONE / self.operator.num_nodes, 0.0)
        bulk = np.where(found.nodes >= top.min(initial=np.inf), rest, found.weights)
        high = self.operator.wedges_are_affordable
        fit = partial(_fitted, nodes=found.nodes, weights=bulk, top=top)
        self.log, self.log_top, _ = fit(np.log, degree=4 if high else 2)
        self.inverse, self.inverse_top, self._bulk = fit(np.reciprocal, degree=3 if high else 1)
        self.linear, self.linear_top, _ = fit(np.reciprocal, degree=1 if high else 0)
        self.constant, self.constant_top, _ = fit(np.reciprocal, degree=0 if high else -1)

    def _is_good(self, found: Spectrum) -> bool:
        """Whether the vectors leave little of the inverse to the probes beside the polynomial.

        The values come from below: vectors that are still poor stand for higher eigenvalues, and
        hence for more of the inverse, than their own. How much higher is at most the residual, and
        by the bound of Kato and Temple its square over the distance to the next value.
        """
        values, residuals = found.values, found.residuals
        below, above = np.diff(values, prepend=values[:1]), np.diff(values, append=np.inf)
        apart = np.maximum(np.minimum(below, above), np.finfo(np.float64).tiny)
        highest = np.minimum(values + residuals * np.minimum(1, residuals / apart), 1 - _SMALLEST)
        top = 1 / (1 - highest) - polyval(highest, self.inverse)
        left = float(((top * found.errors) ** 2).sum())
        return left <= max(_SHARE * self._bulk, _NEGLIGIBLE) * self.operator.num_nodes

    # ---------------------------------------------------------------- exact

    @cached_property
    def _powers(self) -> tuple[np.ndarray, np.ndarray, float]:
        """``S^2`` and ``S^3`` on the pattern and the trace of ``S^4``."""
        op, edges = self.operator, self.operator.edges
        i, j = op.ends
        own = op.at_nodes(edges**2)
        square = op.cycles.triangles(edges, np.ones(op.num_nodes), self.crew)
        cube = op.cycles.quadrangles(edges, self.crew)
        cube += edges * (own[i] + own[j] - edges**2)  # walks that turn back
        trace = 2 * float(edges @ cube)
        return np.append(own, square), np.append(op.at_nodes(edges * square), cube), trace

    def log_trace(self) -> float:
        """The trace of ``c(S) + U diag(h) U'``."""
        n = self.operator.num_nodes
        traces = [float(n), 0.0, 2 * float(self.operator.edges @ self.operator.edges)]
        if len(self.log) > 3:
            _, cube, fourth = self._powers
            traces += [float(cube[:n].sum()), fourth]
        return float(self.log @ traces + self.log_top @ self.norms)

    def inverse_on_pattern(self) -> np.ndarray:
        """The entries of ``a(S) + U diag(g) U'`` on the nodes and the edges."""
        op, n = self.operator, self.operator.num_nodes
        result = np.zeros(n + op.graph.num_edges)
        result[:n] = self.inverse[0]
        result[n:] = self.inverse[1] * op.edges
        if len(self.inverse) > 2:
            square, cube, _ = self._powers
            result += self.inverse[2] * square + self.inverse[3] * cube
        self._add_low_rank(result, self.inverse_top)
        return result

    def sandwich(self, weight: np.ndarray) -> np.ndarray:
        """``Q diag(weight) Q`` on the pattern, ``Q`` of :meth:`apply_linear`."""
        op, n = self.operator, self.operator.num_nodes
        i, j = op.ends
        c0, c1 = np.append(self.linear, 0.0)[:2]
        result = np.zeros(n + op.graph.num_edges)
        if c1 != 0:
            result[:n] = c1**2 * op.at_nodes(op.edges**2, weight)
            result[n:] = c1**2 * op.cycles.triangles(op.edges, weight, self.crew)
        result[:n] += c0**2 * weight
        result[n:] += c0 * c1 * (weight[i] + weight[j]) * op.edges
        dtype = self.vectors.dtype.type
        image = weight[:, None].astype(dtype) * self.vectors
        left = dtype(c0) * image + dtype(c1) * op.product(image)
        self._add_sandwich(result, left, image, self.linear_top)
        return result

    def pattern_sandwich(self, direction: np.ndarray) -> np.ndarray:
        """``Q G Q`` on the pattern, ``Q`` of :meth:`apply_constant` and ``G`` any values there."""
        c0 = float(self.constant[0])
        image = self.operator.pattern_product(direction, self.vectors)
        result = c0**2 * direction
        self._add_sandwich(result, self.vectors.dtype.type(c0) * image, image, self.constant_top)
        return result

    def _add_sandwich(
        self, result: np.ndarray, left: np.ndarray, image: np.ndarray, top: np.ndarray
    ) -> None:
        """Adds ``B h U' + U h B' + U h (U'GU) h U'``, with ``left`` B and ``image`` G U."""
        u, dtype = self.vectors, self.vectors.dtype
        inner = top[:, None] * (u.T @ image).astype(np.float64) * top
        left = left * (2 * top).astype(dtype) + u @ inner.astype(dtype)
        kernels.outer(*self.operator.ends, np.ascontiguousarray(left), u, 1.0, result)

    def _add_low_rank(self, result: np.ndarray, top: np.ndarray) -> None:
        scaled = self.vectors * top.astype(self.vectors.dtype)
        kernels.outer(*self.operator.ends, scaled, self.vectors, 1.0, result)

    # ---------------------------------------------------------------- on probes

    def log_forms(self, probes: Powers) -> np.ndarray:
        """``z' (c(S) + U diag(h) U') z`` of every probe."""
        z, sz = probes[0], probes[1]
        forms = [kernels.dots(z, z), kernels.dots(z, sz), kernels.dots(sz, sz)]
        if len(self.log) > 3:
            ssz = probes[2]
            forms += [kernels.dots(sz, ssz), kernels.dots(ssz, ssz)]
        low = (self.vectors.T @ z).astype(np.float64)
        return self.log @ np.stack(forms) + self.log_top @ low**2

    def apply_inverse(self, probes: Powers) -> np.ndarray:
        """``(a(S) + U diag(g) U') Z``."""
        return self._apply(self.inverse, self.inverse_top, probes)

    def apply_linear(self, probes: Powers) -> np.ndarray:
        """``Q Z`` with ``Q`` the same of first degree, whose products are still affordable."""
        return self._apply(self.linear, self.linear_top, probes)

    def apply_constant(self, probes: Powers) -> np.ndarray:
        """``Q Z`` with ``Q`` the same of degree zero."""
        return self._apply(self.constant, self.constant_top, probes)

    def _apply(self, coefficients: np.ndarray, top: np.ndarray, probes: Powers) -> np.ndarray:
        dtype = probes[0].dtype.type
        result = dtype(coefficients[0]) * probes[0]
        for k, c in enumerate(coefficients[1:], 1):
            result += dtype(c) * probes[k]
        low = (self.vectors.T @ probes[0]) * top[:, None].astype(dtype)
        result += self.vectors @ low
        return result


class Powers:
    """The blocks ``S^k Z``, each computed on first use."""

    def __init__(self, operator: Operator, block: np.ndarray) -> None:
        self._operator = operator
        self._blocks = [block]

    def __getitem__(self, k: int) -> np.ndarray:
        while len(self._blocks) <= k:
            self._blocks.append(self._operator.product(self._blocks[-1]))
        return self._blocks[k]


def _fitted(
    f: Callable[[np.ndarray], np.ndarray],
    *,
    nodes: np.ndarray,
    weights: np.ndarray,
    top: np.ndarray,
    degree: int,
) -> tuple[np.ndarray, np.ndarray, float]:
    """A polynomial in S fitted to ``f(I - S)`` on the density.

    Returns:
        Its coefficients, what it leaves at the top, and the mean square of what it leaves below.
    """
    powers = np.arange(degree + 1)  # none for degree -1: only the vectors are used
    root = np.sqrt(weights)
    matrix = root[:, None] * nodes[:, None] ** powers
    target = root * f(np.maximum(1 - nodes, _SMALLEST))
    coefficients = np.linalg.lstsq(matrix, target, rcond=1e-10)[0]
    below = float(((target - matrix @ coefficients) ** 2).sum())
    rest = f(np.maximum(1 - top, _SMALLEST)) - top[:, None] ** powers @ coefficients
    return (coefficients if degree >= 0 else np.zeros(1)), rest, below
