"""The seam between a sparse precision and whatever factors it.

A solver is made for one set of values on a graph's pattern: the symmetric matrix

    K = diag(diagonal) + the matrix with off_diagonal[e] at (i, j) and (j, i), e = (i, j)

and offers the few operations that a Gaussian on a graph needs. Everything returned is
differentiable in the values. A backend is one subclass; which operations share a numeric factor
is its own business, and so is what it keeps on the graph (ordering, symbolic analysis).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..errors import NotPositiveDefiniteError
from ..graph import Graph


class Solver(ABC):
    """Factors ``K`` given its values on the pattern of a graph.

    Nodes are the last dimension of every vector, as everywhere in the package; several right-hand
    sides are leading dimensions. All computation is in float64.

    Args:
        graph: The pattern.
        diagonal: Shape ``(*batch, num_nodes)``, float64.
        off_diagonal: Shape ``(*batch, num_edges)``, float64, in the order of ``graph.edges``.
    """

    name: ClassVar[str]
    #: Whether the derivatives returned can be differentiated once more.
    second_order: ClassVar[bool]

    def __init__(self, graph: Graph, diagonal: Tensor, off_diagonal: Tensor) -> None:
        self.graph = graph
        self.diagonal = diagonal
        self.off_diagonal = off_diagonal

    def detach(self) -> Solver:
        """The same solver without derivatives; a backend may share what it has factored."""
        return type(self)(self.graph, self.diagonal.detach(), self.off_diagonal.detach())

    def restrict(self, keep: Tensor) -> Solver:
        """The solver of the block of ``K`` on some nodes.

        Args:
            keep: Boolean, shape ``(num_nodes,)``.
        """
        graph, edges = self.graph.subgraph(keep.numpy())
        return type(self)(
            graph,
            self.diagonal.index_select(-1, keep.nonzero().squeeze(-1)),
            self.off_diagonal.index_select(-1, torch.from_numpy(edges)),
        )

    def log_density(self, x: Tensor, observed: Tensor) -> Tensor:
        """``log N(x_o; 0, (K^-1)_oo)`` without its constant, of shape ``(*sample, *batch)``.

        With ``x_m* = -K_mm^-1 K_mo x_o`` and ``v = (x_o, x_m*)`` it is half of
        ``log det K - log det K_mm - v' K v``.

        Args:
            x: Shape ``(*sample, *batch, num_nodes)``; ignored at missing nodes, but finite.
            observed: Boolean, shape ``(num_nodes,)``.
        """
        if bool(observed.all()):
            quadratic = quadratic_form(self.graph, self.diagonal, self.off_diagonal, x)
            return (self.logdet() - quadratic) / 2
        block = self.restrict(~observed)
        x = x.masked_fill(~observed, 0.0)
        nodes = (~observed).nonzero().squeeze(-1)
        pull = matvec(self.graph, self.diagonal, self.off_diagonal, x).index_select(-1, nodes)
        v = x.index_copy(-1, nodes, -block.solve(pull))
        quadratic = quadratic_form(self.graph, self.diagonal, self.off_diagonal, v)
        return (self.logdet() - block.logdet() - quadratic) / 2

    def inverse_diagonal_error(self) -> Tensor:
        """The standard errors of ``inverse_diagonal``, zero where it is not an estimate."""
        return torch.zeros_like(self.diagonal)

    def inverse_diagonal_spread(self) -> Tensor | None:
        """Half the difference of two independent estimates, whose mean ``inverse_diagonal`` is.

        A function of ``diag(K^-1)`` that is not linear can take the bias of its second order away
        with it. None from a backend that does not estimate.
        """
        return None

    def influence(self, observed: Tensor, weight: Tensor) -> Tensor | None:
        """What every random probe says of ``log det K - log det K_mm + sum weight diag(K^-1)``.

        Args:
            observed: Boolean, shape ``(num_nodes,)``.
            weight: Shape ``(*sample, *batch, num_nodes)``.

        Returns:
            Shape ``(probes, *sample, *batch)``; None from a backend that does not estimate.
        """
        return None

    @abstractmethod
    def logdet(self) -> Tensor:
        """``log det K``, of shape ``(*batch,)``."""

    @abstractmethod
    def solve(self, b: Tensor) -> Tensor:
        """``K^-1 b`` for ``b`` of shape ``(*sample, *batch, num_nodes)``."""

    @abstractmethod
    def half_solve(self, b: Tensor) -> Tensor:
        """``A b`` with some square ``A`` such that ``A A' = K^-1``; not differentiable in ``K``."""

    def draw(self, shape: torch.Size | tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Draws of ``N(0, K^-1)`` of the shape ``(*sample, *batch, num_nodes)``, no derivatives."""
        return self.half_solve(torch.randn(shape, dtype=dtype).double()).to(dtype)

    @property
    def backend(self) -> Any:
        """What to give as ``backend=`` for another solver like this one."""
        return self.name

    @abstractmethod
    def selected_inverse(self) -> tuple[Tensor, Tensor]:
        """The entries of ``K^-1`` on the diagonal and on the edges."""

    @abstractmethod
    def inverse_diagonal(self) -> Tensor:
        """``diag(K^-1)``, of shape ``(*batch, num_nodes)``."""

    @abstractmethod
    def schur_diagonal(self, observed: Tensor) -> Tensor:
        """``diag(K_oo - K_om K_mm^-1 K_mo)``, of shape ``(*batch, num_observed)``.

        That is the diagonal of the precision of the observed nodes alone, which is what leaving
        one of them out needs.

        Args:
            observed: Boolean, shape ``(num_nodes,)``.
        """


def matvec(graph: Graph, diagonal: Tensor, off_diagonal: Tensor, v: Tensor) -> Tensor:
    """``K v`` for ``v`` of shape ``(*sample, *batch, num_nodes)``."""
    i, j = graph.rows, graph.cols
    result = diagonal * v
    if graph.num_edges == 0:
        return result
    result = result.index_add(-1, i, off_diagonal * v.index_select(-1, j))
    return result.index_add(-1, j, off_diagonal * v.index_select(-1, i))


def quadratic_form(graph: Graph, diagonal: Tensor, off_diagonal: Tensor, v: Tensor) -> Tensor:
    """``v' K v`` for ``v`` of shape ``(*sample, *batch, num_nodes)``."""
    square = (diagonal * v.square()).sum(-1)
    if graph.num_edges == 0:
        return square
    ends = v.index_select(-1, graph.rows) * v.index_select(-1, graph.cols)
    return square + 2 * (off_diagonal * ends).sum(-1)


def to_dense(graph: Graph, diagonal: Tensor, off_diagonal: Tensor) -> Tensor:
    """``K`` as a dense tensor of shape ``(*batch, num_nodes, num_nodes)``."""
    dense = torch.diag_embed(diagonal)
    i, j = graph.rows, graph.cols
    dense[..., i, j] = off_diagonal
    dense[..., j, i] = off_diagonal
    return dense


def not_positive_definite(
    node: int, pivot: float, element: int | None, argument: str = "precision"
) -> NotPositiveDefiniteError:
    """The error for a pivot that is not positive."""
    causes = {
        "precision": "Probably: (a) an edge weight is negative or too large for its diagonal; "
        "(b) a parameter ran to the end of its range.\n  Check the values at that node, or try "
        "`NormalizedAdjacencyPrecision(graph)`, positive definite by construction.",
        "correlation_matrix": "Probably: (a) it is not symmetric with ones on the diagonal; "
        "(b) a correlation is 1 or out of range.\n  Try a factor from dist.LKJCholesky with "
        "`correlation_cholesky=`, positive definite by construction.",
    }
    return NotPositiveDefiniteError(argument, node, pivot, causes[argument], element)
