"""The dense backend: torch's Cholesky factor of the full matrix.

It is the fastest choice on small or very dense graphs, the only one with second derivatives, and
the oracle that every other backend is tested against.
"""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from .resources import check_memory
from .solver import Solver, not_positive_definite, to_dense

#: What is kept is computed with derivatives even where none are recorded: a later call may want
#: them, and would take what it finds for a constant.
_recorded = torch.inference_mode(False)


class DenseSolver(Solver):
    """Factors ``K`` as a dense matrix, ``K = L L'``."""

    name = "dense"
    second_order = True

    @cached_property
    @_recorded
    def matrix(self) -> Tensor:
        """``K``, of shape ``(*batch, num_nodes, num_nodes)``."""
        # the matrix, its factor and inverse, and as much again for their derivatives
        needed = 6 * 8 * self.diagonal.numel() * self.graph.num_nodes
        check_memory(
            needed,
            f"The dense factor of {self.graph.num_nodes:,} nodes",
            'Use backend="sparse", or "auto", which chooses it where it is cheaper.',
        )
        return to_dense(self.graph, self.diagonal, self.off_diagonal)

    @cached_property
    @_recorded
    def factor(self) -> Tensor:
        """The lower triangular ``L`` with ``L L' = K``."""
        return checked_cholesky(self.matrix)

    @cached_property
    @_recorded
    def inverse(self) -> Tensor:
        """``K^-1``."""
        return torch.cholesky_inverse(self.factor)

    def detach(self) -> Solver:
        other = super().detach()
        for name in ("matrix", "factor", "inverse"):
            if name in self.__dict__:
                other.__dict__[name] = self.__dict__[name].detach()
        return other

    def logdet(self) -> Tensor:
        return 2 * self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def solve(self, b: Tensor) -> Tensor:
        return cholesky_solve(self.factor, b)

    def half_solve(self, b: Tensor) -> Tensor:
        return triangular_solve(self.factor.detach().mT, b, upper=True)

    def selected_inverse(self) -> tuple[Tensor, Tensor]:
        off = self.inverse[..., self.graph.rows, self.graph.cols]
        return self.inverse_diagonal(), off

    def inverse_diagonal(self) -> Tensor:
        return self.inverse.diagonal(dim1=-2, dim2=-1)

    def schur_diagonal(self, observed: Tensor) -> Tensor:
        matrix = self.matrix
        diagonal = self.diagonal[..., observed]
        if bool(observed.all()):
            return diagonal
        missing = ~observed
        cross = matrix[..., missing, :][..., observed]  # (*batch, m, o)
        factor = checked_cholesky(matrix[..., missing, :][..., missing])
        half = torch.linalg.solve_triangular(factor, cross, upper=False)
        return diagonal - half.square().sum(-2)


def triangular_solve(factor: Tensor, b: Tensor, *, upper: bool) -> Tensor:
    """``T^-1 b`` for triangular ``T`` and ``b`` of shape ``(*sample, *batch, num_nodes)``."""
    extra = b.dim() + 1 - factor.dim()
    if extra <= 0:
        return torch.linalg.solve_triangular(factor, b.unsqueeze(-1), upper=upper).squeeze(-1)
    # the samples become columns: broadcasting would copy the factor once per sample
    columns = b.reshape(-1, *b.shape[extra:]).movedim(0, -1)
    solution = torch.linalg.solve_triangular(factor, columns, upper=upper).movedim(-1, 0)
    return solution.reshape(*b.shape[:extra], *solution.shape[1:])


def cholesky_solve(factor: Tensor, b: Tensor) -> Tensor:
    """``(L L')^-1 b`` for ``b`` of shape ``(*sample, *batch, num_nodes)``."""
    return triangular_solve(factor.mT, triangular_solve(factor, b, upper=False), upper=True)


def checked_cholesky(matrix: Tensor, argument: str = "precision") -> Tensor:
    """The Cholesky factor, or the error that names the first pivot that is not positive."""
    factor, info = torch.linalg.cholesky_ex(matrix)
    if not bool(info.any()):
        return factor
    element = int(info.flatten().nonzero()[0])
    node = int(info.flatten()[element]) - 1
    block = matrix.detach().reshape(-1, *matrix.shape[-2:])[element]
    column = block[:node, node]
    pivot = block[node, node] - column @ torch.linalg.solve(block[:node, :node], column)
    raise not_positive_definite(node, float(pivot), element if info.dim() else None, argument)
