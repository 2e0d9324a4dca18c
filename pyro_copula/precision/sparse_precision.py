"""A precision matrix with values on the pattern of a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..graph import Graph, check_graph
from ..linalg import (
    Solver,
    check_backend,
    choose_backend,
    make_solver,
    matvec,
    quadratic_form,
    to_dense,
)
from ..shapes import broadcast_shapes
from .conditioning import condition_number
from .values import checked_values, in_place_changes


class SparsePrecision:
    r"""A symmetric positive definite :math:`K` that is zero wherever the graph has no edge.

    With :math:`\Sigma = K^{-1}`, two nodes without an edge are independent given all the others.
    Leading batch dimensions share the graph, and with it the ordering and symbolic analysis.
    Everything is differentiable in the values.

    Args:
        graph: The pattern.
        diagonal: The diagonal of ``K``.
        off_diagonal: The value of every edge, in the order of ``graph.edges``.
        backend: How to factor: ``"auto"`` or one of the names in ``pyro_copula.linalg.BACKENDS``,
            or the options of the iterative one, as an :class:`~pyro_copula.linalg.Iterative`.

    Shape:
        - diagonal: ``(*batch, num_nodes)``
        - off_diagonal: ``(*batch, num_edges)``

    Raises:
        InvalidArgumentError: If a length is wrong or a value is not finite.
        NotPositiveDefiniteError: On first use, if a pivot is not positive; it names the node.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> K = SparsePrecision(graph, torch.tensor([2.0, 2.0, 2.0]), torch.tensor([-1.0, -1.0]))
        >>> K.logdet()
        tensor(1.3863)
        >>> K.solve(torch.tensor([1.0, 0.0, 0.0]))
        tensor([0.7500, 0.5000, 0.2500])
    """

    def __init__(
        self, graph: Graph, diagonal: Tensor, off_diagonal: Tensor, *, backend: Any = "auto"
    ) -> None:
        check_graph(graph)
        self.graph = graph
        self.backend = check_backend(backend)
        diagonal = checked_values("diagonal", diagonal, graph.num_nodes, "num_nodes")
        off_diagonal = checked_values("off_diagonal", off_diagonal, graph.num_edges, "num_edges")
        dtype = torch.promote_types(diagonal.dtype, off_diagonal.dtype)
        batch = broadcast_shapes(diagonal.shape[:-1], off_diagonal.shape[:-1])
        self.diagonal = diagonal.to(dtype).expand(*batch, -1)
        self.off_diagonal = off_diagonal.to(dtype).expand(*batch, -1)
        self._keep(None)

    @classmethod
    def _derived(
        cls,
        graph: Graph,
        diagonal: Tensor,
        off_diagonal: Tensor,
        backend: Any,
        solver: Solver | None = None,
    ) -> SparsePrecision:
        """A precision made of values that were checked when another one was made of them."""
        new = cls.__new__(cls)
        new.graph, new.backend = graph, backend
        new.diagonal, new.off_diagonal = diagonal, off_diagonal
        new._keep(solver)
        return new

    # ---------------------------------------------------------------- shape

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.graph.num_nodes

    @property
    def batch_shape(self) -> torch.Size:
        """The leading dimensions of the values."""
        return self.diagonal.shape[:-1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values and of every result; computation is in float64."""
        return self.diagonal.dtype

    # ---------------------------------------------------------------- algebra

    @property
    def solver(self) -> Solver:
        """The solver behind this precision, kept until it is out of date.

        It is made again after a change of the values in place, which is what an optimiser does,
        and where derivatives are wanted that one made without recording does not have.
        """
        solver = self._solver
        if solver is None or self._versions != self._seen or (self._wanted and not self._recorded):
            solver = make_solver(
                self.backend, self.graph, self.diagonal.double(), self.off_diagonal.double()
            )
            self._keep(solver)
        return solver

    def _keep(self, solver: Solver | None) -> None:
        self._solver = solver
        self._in_double: SparsePrecision | None = None
        self._recorded, self._seen = self._wanted, self._versions

    @property
    def _wanted(self) -> bool:
        """Whether derivatives in the values are recorded right now."""
        needed = self.diagonal.requires_grad or self.off_diagonal.requires_grad
        return needed and torch.is_grad_enabled()

    @property
    def _versions(self) -> tuple[int, int]:
        """How often either of the values was changed in place."""
        return in_place_changes(self.diagonal), in_place_changes(self.off_diagonal)

    def logdet(self) -> Tensor:
        """``log det K``.

        Returns:
            Shape ``(*batch,)``.
        """
        return self.solver.logdet().to(self.dtype)

    def solve(self, b: Tensor) -> Tensor:
        """``K^-1 b``.

        Args:
            b: Shape ``(*sample, *batch, num_nodes)``: several right-hand sides are leading
                dimensions.

        Returns:
            The same shape.
        """
        self._check_nodes("b", b)
        return self.solver.solve(b.double()).to(self.dtype)

    def matvec(self, v: Tensor) -> Tensor:
        """``K v``.

        Args:
            v: Shape ``(*sample, *batch, num_nodes)``.

        Returns:
            The same shape.
        """
        self._check_nodes("v", v)
        return matvec(self.graph, self.diagonal, self.off_diagonal, v)

    def quadratic_form(self, v: Tensor) -> Tensor:
        """``v' K v``.

        Args:
            v: Shape ``(*sample, *batch, num_nodes)``.

        Returns:
            Shape ``(*sample, *batch)``.
        """
        self._check_nodes("v", v)
        return quadratic_form(self.graph, self.diagonal, self.off_diagonal, v)

    def variance(self) -> Tensor:
        """The variances ``diag(K^-1)``.

        Returns:
            Shape ``(*batch, num_nodes)``.
        """
        return self.solver.inverse_diagonal().to(self.dtype)

    def scale(self) -> Tensor:
        """The standard deviations ``sqrt(diag(K^-1))``.

        Returns:
            Shape ``(*batch, num_nodes)``.
        """
        return self.solver.inverse_diagonal().sqrt().to(self.dtype)

    def selected_inverse(self) -> tuple[Tensor, Tensor]:
        """The entries of ``K^-1`` on the diagonal and on the edges.

        Returns:
            Shapes ``(*batch, num_nodes)`` and ``(*batch, num_edges)``.
        """
        diagonal, off_diagonal = self.solver.selected_inverse()
        return diagonal.to(self.dtype), off_diagonal.to(self.dtype)

    def schur_diagonal(self, observed: Tensor) -> Tensor:
        """The diagonal of the precision of the observed nodes alone.

        Args:
            observed: Boolean, shape ``(num_nodes,)``.

        Returns:
            Shape ``(*batch, num_observed)``.
        """
        return self.solver.schur_diagonal(observed).to(self.dtype)

    def condition_number(self) -> Tensor:
        """How nearly singular ``K`` is, scaled to a diagonal of ones: an estimate from few solves.

        Results have a relative error of about this number times 1e-16; from 4e9 on,
        :func:`~pyro_copula.fit` warns and :func:`~pyro_copula.diagnose` says so.

        Returns:
            The estimate in the 1-norm, shape ``(*batch,)``, without derivatives.

        Example:
            >>> graph = Graph.from_edges([(0, 1)])
            >>> SparsePrecision(graph, [1.0, 1.0], [-0.999]).condition_number()
            tensor(1999.0000, dtype=torch.float64)
        """
        return condition_number(self.solver)

    def sample(self, sample_shape: torch.Size | tuple[int, ...] = ()) -> Tensor:
        """Draws of ``N(0, K^-1)``.

        Args:
            sample_shape: The shape of a sample of draws.

        Returns:
            Shape ``(*sample_shape, *batch, num_nodes)``.
        """
        return self.draw((*sample_shape, *self.batch_shape, self.num_nodes))

    def draw(self, shape: torch.Size | tuple[int, ...]) -> Tensor:
        """Draws of ``N(0, K^-1)`` by their whole shape, with the derivatives of :meth:`color`.

        Args:
            shape: The shape of the result, ``(*sample, *batch, num_nodes)``.

        Returns:
            The draws.
        """
        return self._pathwise(self.solver.draw(shape, self.dtype))

    def color(self, noise: Tensor) -> Tensor:
        r"""Standard normal noise turned into draws of ``N(0, K^-1)``.

        The draws carry pathwise derivatives in ``K``: the map
        :math:`x \mapsto x - \tfrac12 K^{-1} \mathrm{d}K\, x` moves a draw of
        :math:`N(0, K^{-1})` to one of :math:`N(0, (K + \mathrm{d}K)^{-1})`, to first order, at
        the price of one solve.

        Args:
            noise: Shape ``(*sample, *batch, num_nodes)``.

        Returns:
            The draws, of the same shape.
        """
        return self._pathwise(self.solver.half_solve(noise.detach().double()).to(self.dtype))

    def _pathwise(self, draw: Tensor) -> Tensor:
        if not self._wanted:
            return draw
        product = self.matvec(draw)
        return draw - 0.5 * self.detach().solve(product - product.detach())

    def to_dense(self) -> Tensor:
        """``K`` as a dense tensor.

        Returns:
            Shape ``(*batch, num_nodes, num_nodes)``.
        """
        return to_dense(self.graph, self.diagonal, self.off_diagonal)

    # ---------------------------------------------------------------- other precisions

    def restrict(self, keep: Tensor) -> SparsePrecision:
        """The block of ``K`` on some nodes: their precision given all the others.

        Args:
            keep: Boolean, shape ``(num_nodes,)``.

        Returns:
            The precision of these nodes, on the graph that they induce.
        """
        block = self.solver.restrict(keep)
        return self._derived(
            block.graph,
            block.diagonal.to(self.dtype),
            block.off_diagonal.to(self.dtype),
            block.backend,
            block,
        )

    def add_diagonal(self, values: Tensor) -> SparsePrecision:
        """``K + diag(values)``.

        Args:
            values: Shape ``(*batch, num_nodes)``.

        Returns:
            Another precision.
        """
        return SparsePrecision(
            self.graph, self.diagonal + values, self.off_diagonal, backend=self.backend
        )

    def __mul__(self, factor: Tensor | float) -> SparsePrecision:
        """``factor * K``, for a positive ``factor`` of shape ``(*batch,)``."""
        factor = torch.as_tensor(factor, dtype=self.dtype).unsqueeze(-1)
        return SparsePrecision(
            self.graph, factor * self.diagonal, factor * self.off_diagonal, backend=self.backend
        )

    __rmul__ = __mul__

    def __getitem__(self, index: Any) -> SparsePrecision:
        """Some elements of the batch."""
        if not self.batch_shape:
            raise InvalidArgumentError(
                "index", "for a batch of precisions", "no batch dimension", "Use it as it is."
            )
        return self._derived(
            self.graph, self.diagonal[index], self.off_diagonal[index], self.backend
        )

    def detach(self) -> SparsePrecision:
        """The same precision without derivatives, sharing what has been factored.

        Returns:
            Another object with the same values.
        """
        return self._derived(
            self.graph,
            self.diagonal.detach(),
            self.off_diagonal.detach(),
            self.backend,
            self.solver.detach(),
        )

    def double(self) -> SparsePrecision:
        """The same precision with results in float64, sharing what has been factored.

        Returns:
            Another object, or this one if it is in float64.
        """
        if self.dtype == torch.float64:
            return self
        solver = self.solver
        if self._in_double is None:
            self._in_double = self._derived(
                self.graph, solver.diagonal, solver.off_diagonal, self.backend, solver
            )
            self._in_double._recorded = self._recorded
        return self._in_double

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_solver": None, "_in_double": None}

    def __repr__(self) -> str:
        batch = f", batch_shape={tuple(self.batch_shape)}" if self.batch_shape else ""
        return (
            f"SparsePrecision(num_nodes={self.num_nodes}, num_edges={self.graph.num_edges}{batch}, "
            f"backend={choose_backend(self.graph, self.backend)!r})"
        )

    def _check_nodes(self, argument: str, v: Tensor) -> None:
        if v.dim() == 0 or v.shape[-1] != self.num_nodes:
            raise InvalidArgumentError(
                argument,
                f"of shape (..., {self.num_nodes}), nodes last",
                f"shape {tuple(v.shape)}",
                "Put several right-hand sides in the leading dimensions.",
            )
