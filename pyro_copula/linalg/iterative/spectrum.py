"""The spectrum of ``S``: its density, and its largest eigenvalues with their vectors.

A few steps of block Lanczos from random vectors give the density, as a quadrature rule, and a
first guess of the top of the spectrum. A Chebyshev polynomial that is small below that guess then
turns the guessed vectors into good ones, where they are not. A block finds eigenvalues that
coincide, as those of a graph's components do, up to its width.

The one vector that stands out on a social graph is the harder to see the larger the graph: random
vectors have a share of it that falls with the number of nodes, and only the steps bring it up. So
the block is narrow and the steps are many, for the same basis.

References:
    Zhou, Saad, Tiago and Chelikowsky, Self-consistent-field calculations using
    Chebyshev-filtered subspace iteration, J. Comput. Phys. 219 (2006).
"""

from __future__ import annotations

import math

import numpy as np

from .operator import Operator

#: Eight steps bring up an eigenvalue 1.6 times as far out as the rest, as on graphs of mean degree
#: 10, from among a million. Four, of twice the width, miss it among 30,000.
_WIDTH, _STEPS = 8, 8
_DEGREE = 12
#: The Ritz values of few steps miss the end of the spectrum by less than this share of its width.
_MARGIN = 0.15
#: Pivots of a block's inner products that differ more than by rounding allows, with this margin.
_ALIKE = 10.0
#: The filter grows with its degree; it is brought back to size this often.
_RESCALE_EVERY = 4


class Spectrum:
    """What is known of the eigenvalues of one matrix.

    Args:
        operator: The matrix.
        rank: The number of vectors; as many as there are nodes if those are fewer.
        dtype: Of the vectors.
        generator: The random numbers of the first block.

    Attributes:
        nodes: Where the density is, increasing, (m,).
        weights: How much of it is there, with sum one, (m,).
        values: Approximate eigenvalues at the top, increasing, (rank,).
        vectors: Their vectors, ``(num_nodes, rank)``.
        residuals: The lengths of ``S u - value u``: an eigenvalue is as close as that, (rank,).
        errors: About how far the vectors are from those of the matrix, from 0 to 1, (rank,).
    """

    def __init__(
        self,
        operator: Operator,
        rank: int,
        dtype: np.dtype | type,
        generator: np.random.Generator,
    ) -> None:
        self.operator = operator
        n = operator.num_nodes
        # The top eigenvalues of components may coincide. More of them than vectors are hopeless.
        pieces = int((np.bincount(operator.graph.components) > 1).sum())
        width = max(_WIDTH, math.ceil(rank / _STEPS), pieces if pieces <= rank else 0)
        if n <= _STEPS * width:
            dense = operator.product(np.eye(n))
            self.nodes, vectors = np.linalg.eigh((dense + dense.T) / 2)
            self.weights = np.full(n, 1 / n)
            top = slice(n - min(rank, n), None)
            self.values = self.nodes[top]
            self.vectors = np.ascontiguousarray(vectors[:, top].astype(dtype))
            self.residuals = self.errors = np.zeros(len(self.values))
            return
        start = generator.standard_normal((n, width)).astype(dtype)
        self.nodes, self.weights, guess = _lanczos(operator, start, rank)
        self._rotate(guess)

    def refine(self) -> None:
        """Filters the vectors once more."""
        # What lies below the interval would be amplified too, so its end must be low enough.
        low = self.nodes[0] - _MARGIN * (self.nodes[-1] - self.nodes[0])
        filtered = _filtered(self.operator, self.vectors, low, self.values[0])
        self._rotate(_orthonormal(_orthonormal(filtered)))

    def _rotate(self, basis: np.ndarray) -> None:
        """Makes approximate eigenvectors of an orthonormal basis."""
        image = self.operator.product(basis)
        projected = (basis.T @ image).astype(np.float64)
        self.values, rotation = np.linalg.eigh((projected + projected.T) / 2)
        rotation = rotation.astype(basis.dtype)
        self.vectors = np.ascontiguousarray(basis @ rotation)
        rest = image @ rotation - self.vectors * self.values.astype(basis.dtype)
        gap = self.values - self.values[:1] + np.finfo(np.float32).eps
        self.residuals = np.sqrt((rest.astype(np.float64) ** 2).sum(0))
        self.errors = np.minimum(1.0, self.residuals / gap)


def _lanczos(
    operator: Operator, start: np.ndarray, rank: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ritz values, their weights in the density, and the vectors of so many of the largest."""
    (n, width), dtype = start.shape, start.dtype
    basis = np.empty((n, width * _STEPS), dtype=dtype, order="F")
    projected = np.zeros((width * _STEPS, width * _STEPS))
    basis[:, :width] = _orthonormal(start)
    for step in range(_STEPS):
        here = slice(step * width, (step + 1) * width)
        known = basis[:, : here.stop]
        image = operator.product(np.ascontiguousarray(basis[:, here]))
        coefficients = known.T @ image
        projected[: here.stop, here] = coefficients
        projected[here, : here.stop] = coefficients.T
        if step + 1 < _STEPS:
            image = _orthonormal(image - known @ coefficients)
            # A block that is all but in the span needs it twice.
            image = _orthonormal(image - known @ (known.T @ image))
            basis[:, here.stop : here.stop + width] = image
    values, vectors = np.linalg.eigh((projected + projected.T) / 2)
    weights = (vectors[:width] ** 2).sum(0) / width
    guess = basis @ vectors[:, len(values) - rank :].astype(dtype)
    return values, weights, np.ascontiguousarray(guess)


def _orthonormal(block: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the columns, up to rounding; twice is up to that of one product.

    The factor of the matrix of inner products takes a tenth of the time of a QR decomposition of
    a block this tall. Where columns are too much alike for that, it is the decomposition.
    """
    inner = (block.T @ block).astype(np.float64)
    try:
        factor = np.linalg.cholesky(inner)
    except np.linalg.LinAlgError:
        return np.ascontiguousarray(np.linalg.qr(block)[0])
    pivots = factor.diagonal()
    if pivots.min() < _ALIKE * np.sqrt(np.finfo(block.dtype).eps) * pivots.max():
        return np.ascontiguousarray(np.linalg.qr(block)[0])
    return block @ np.linalg.inv(factor).T.astype(block.dtype)


def _filtered(operator: Operator, block: np.ndarray, low: float, high: float) -> np.ndarray:
    """The Chebyshev polynomial on ``[low, high]`` of S, times a block, up to a factor."""
    number = block.dtype.type
    middle, half = number((low + high) / 2), number(max(high - low, 1e-6) / 2)
    before, now = block, (operator.product(block) - middle * block) / half
    for degree in range(2, _DEGREE + 1):
        after = operator.product(now)
        after -= middle * now
        after *= 2 / half
        after -= before
        before, now = now, after
        if degree % _RESCALE_EVERY == 0:
            size = number(max(np.abs(now).max(), np.finfo(block.dtype).tiny))
            before, now = before / size, now / size
    return now
