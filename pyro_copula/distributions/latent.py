r"""The Gaussian vector behind a copula, :math:`x \sim N(0, \Sigma)`.

Two ways to describe it, with one interface: a sparse precision on a graph, or a dense covariance
for users who have no graph. All computation is in float64. Notation: ``o`` observed, ``m``
missing nodes, ``K = Sigma^-1``.

With a precision, nothing dense is formed:

- ``log det (Sigma_oo)^-1 = log det K - log det K_mm``;
- with ``x_m* = -K_mm^-1 K_mo x_o`` and ``v = (x_o, x_m*)``, ``x_o' (Sigma_oo)^-1 x_o = v' K v``;
  since ``x_m*`` minimises it, its first derivatives need none of ``x_m*`` (the envelope theorem);
- ``x_m`` given ``x_o`` is ``N(x_m*, K_mm^-1)``;
- with ``Q = (Sigma_oo)^-1``, ``x_i`` given the other observed nodes has mean
  ``x_i - (Q x_o)_i / Q_ii`` and variance ``1 / Q_ii``; and ``(Q x_o) = (K v)_o``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

import torch
from torch import Tensor

from ..graph import Graph
from ..linalg import checked_cholesky, cholesky_solve, triangular_solve
from ..precision import SparsePrecision

_LOG_2PI = math.log(2 * math.pi)
DENSE_HINT = 'Build the precision with backend="dense", which has second derivatives.'


class Latent(ABC):
    """``x ~ N(0, Sigma)`` on the nodes, with leading batch dimensions."""

    num_nodes: int
    batch_shape: torch.Size

    @abstractmethod
    def scale(self) -> Tensor:
        """``s = sqrt(diag(Sigma))``, of shape ``(*batch, num_nodes)``."""

    @abstractmethod
    def sample(self, shape: torch.Size) -> Tensor:
        """Draws of ``x``, of the whole shape ``(*sample, *batch, num_nodes)``."""

    @abstractmethod
    def log_density(self, x: Tensor, observed: Tensor) -> Tensor:
        """``log N(x_o; 0, Sigma_oo)``.

        Args:
            x: Shape ``(*sample, *batch, num_nodes)``; ignored at missing nodes, but finite.
            observed: Boolean, shape ``(num_nodes,)``.
        """

    @abstractmethod
    def condition(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Latent]:
        """The law of ``x_m`` given ``x_o``: its mean, and the law of what is left."""

    @abstractmethod
    def leave_one_out(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of each observed ``x_i`` given the other observed ones."""

    def variance_error(self) -> Tensor:
        """The standard errors of ``scale() ** 2``, zero where it is exact."""
        return torch.zeros(*self.batch_shape, self.num_nodes, dtype=torch.float64)

    def variance_spread(self) -> Tensor | None:
        """See ``Solver.inverse_diagonal_spread``; None where ``scale`` is exact."""
        return None

    @abstractmethod
    def as_precision(self) -> tuple[SparsePrecision, Tensor]:
        """A sparse precision with perhaps more nodes, and where this vector's are among them."""

    @abstractmethod
    def __getitem__(self, index: int) -> Latent:
        """One element of the flattened batch."""


class PrecisionLatent(Latent):
    """``N(0, K^-1)`` with a sparse precision on a graph."""

    def __init__(self, precision: SparsePrecision) -> None:
        self._given = precision
        self.num_nodes = precision.num_nodes
        self.batch_shape = precision.batch_shape

    @property
    def precision(self) -> SparsePrecision:
        """In float64, with the values that the precision has by now."""
        return self._given.double()

    def scale(self) -> Tensor:
        return self.precision.scale()

    def variance_error(self) -> Tensor:
        return self.precision.solver.inverse_diagonal_error()

    def variance_spread(self) -> Tensor | None:
        return self.precision.solver.inverse_diagonal_spread()

    def with_precision(
        self, precision: SparsePrecision, nodes: Tensor | None = None
    ) -> PrecisionLatent:
        """The same with another precision, of some of the nodes or of all."""
        return PrecisionLatent(precision)

    def sample(self, shape: torch.Size) -> Tensor:
        return self.precision.draw(shape)

    def log_density(self, x: Tensor, observed: Tensor) -> Tensor:
        constant = int(observed.sum()) * _LOG_2PI / 2
        return self.precision.solver.log_density(x, observed) - constant

    def condition(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Latent]:
        missing = self.precision.restrict(~observed)
        return self._missing_mean(x, observed, missing), PrecisionLatent(missing)

    def leave_one_out(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        if not bool(observed.all()):
            mean = self._missing_mean(x, observed, self.precision.restrict(~observed))
            x = _fill(x, mean, observed)
        variance = self.precision.schur_diagonal(observed).reciprocal()
        residual = self.precision.matvec(x)[..., observed] * variance
        return x[..., observed] - residual, variance

    def as_precision(self) -> tuple[SparsePrecision, Tensor]:
        return self.precision, torch.arange(self.num_nodes)

    def __getitem__(self, index: int) -> Latent:
        diagonal, off_diagonal = self.precision.diagonal, self.precision.off_diagonal
        elements = diagonal.shape[:-1].numel()
        flat = SparsePrecision(
            self.precision.graph,
            diagonal.reshape(elements, self.num_nodes),
            off_diagonal.expand(*diagonal.shape[:-1], -1).reshape(elements, off_diagonal.shape[-1]),
            backend=self.precision.backend,
        )
        return PrecisionLatent(flat[index])

    def _missing_mean(self, x: Tensor, observed: Tensor, missing: SparsePrecision) -> Tensor:
        x = x.masked_fill(~observed, 0.0)
        return -missing.solve(self.precision.matvec(x)[..., ~observed])


class CovarianceLatent(Latent):
    """``N(0, Sigma)`` with a dense covariance.

    Args:
        covariance: Shape ``(*batch, num_nodes, num_nodes)``, positive definite.
    """

    def __init__(self, covariance: Tensor) -> None:
        self.covariance = covariance.double().clone()  # what is made of it does not follow changes
        self.num_nodes = covariance.shape[-1]
        self.batch_shape = covariance.shape[:-2]

    @cached_property
    @torch.inference_mode(False)  # with derivatives even where none are recorded, for later calls
    def factor(self) -> Tensor:
        """The lower triangular ``C`` with ``C C' = Sigma``."""
        return checked_cholesky(self.covariance, "correlation_matrix")

    def scale(self) -> Tensor:
        return self.covariance.diagonal(dim1=-2, dim2=-1).sqrt()

    def sample(self, shape: torch.Size) -> Tensor:
        noise = torch.randn(shape, dtype=torch.float64)
        return torch.einsum("...ij,...j->...i", self.factor, noise)

    def log_density(self, x: Tensor, observed: Tensor) -> Tensor:
        factor = self._observed_factor(observed)
        half = triangular_solve(factor, x[..., observed], upper=False)
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        quadratic = half.square().sum(-1)
        return -(log_det + quadratic + int(observed.sum()) * _LOG_2PI) / 2

    def condition(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Latent]:
        factor = self._observed_factor(observed)
        cross = self.covariance[..., observed, :][..., ~observed]  # (*batch, o, m)
        half = torch.linalg.solve_triangular(factor, cross, upper=False)
        score = triangular_solve(factor, x[..., observed], upper=False)
        mean = torch.einsum("...ij,...i->...j", half, score)
        block = self.covariance[..., ~observed, :][..., ~observed]
        return mean, CovarianceLatent(block - half.mT @ half)

    def leave_one_out(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        factor = self._observed_factor(observed)
        variance = torch.cholesky_inverse(factor).diagonal(dim1=-2, dim2=-1).reciprocal()
        residual = cholesky_solve(factor, x[..., observed]) * variance
        return x[..., observed] - residual, variance

    def as_precision(self) -> tuple[SparsePrecision, Tensor]:
        inverse = torch.cholesky_inverse(self.factor)
        n = self.num_nodes
        rows, cols = torch.triu_indices(n, n, offset=1)
        graph = Graph(torch.stack([rows, cols], 1).numpy(), n)
        diagonal = inverse.diagonal(dim1=-2, dim2=-1)
        return SparsePrecision(graph, diagonal, inverse[..., rows, cols]), torch.arange(n)

    def __getitem__(self, index: int) -> Latent:
        return CovarianceLatent(self.covariance.reshape(-1, *self.covariance.shape[-2:])[index])

    def _observed_factor(self, observed: Tensor) -> Tensor:
        if bool(observed.all()):
            return self.factor
        block = self.covariance[..., observed, :][..., observed]
        return checked_cholesky(block, "correlation_matrix")


def leave_one_out_density(latent: Latent, x: Tensor, observed: Tensor) -> Tensor:
    """``log p(x_i | x_-i)`` at observed nodes, zero elsewhere; the shape of ``x``."""
    mean, variance = latent.leave_one_out(x, observed)
    residual = (x[..., observed] - mean).square() / variance
    full = torch.zeros_like(x)
    full[..., observed] = -(residual + variance.log() + _LOG_2PI) / 2
    return full


def _fill(x: Tensor, mean: Tensor, observed: Tensor) -> Tensor:
    """``x`` at observed nodes, ``mean`` at missing ones."""
    full = x.new_zeros(*mean.shape[:-1], len(observed))
    full[..., ~observed] = mean
    return torch.where(observed, x, full)
