"""What backends on the pattern share: batches of matrices, and derivatives outside of autograd.

A backend computes with numpy arrays, one matrix at a time. :class:`Elements` lets a batch of them
look like one object on tensors, and the autograd functions give its results the derivatives

    d log det K      = sum S_ij dK_ij                   S = K^-1 on the pattern
    d (K^-1 b)       = -K^-1 dK x                       one more solve
    d S along dK     = -(S dK S) on the pattern         the backend's ``tangent``

Differentiating them once more raises :class:`~pyro_copula.errors.SecondOrderError`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from ..first_order import first_order_only
from ..graph import Graph
from ..shapes import broadcast_shapes
from . import pattern
from .solver import Solver

#: The values of no block.
_NOTHING = np.empty(0)
_HINT = 'Use backend="dense" for second derivatives, on graphs where it fits.'


class PatternSolver(Solver):
    """A solver behind which are the :class:`Elements` of its batch."""

    second_order = False

    def __init__(self, graph: Graph, diagonal: Tensor, off_diagonal: Tensor) -> None:
        batch = broadcast_shapes(diagonal.shape[:-1], off_diagonal.shape[:-1])
        super().__init__(
            graph,
            diagonal.expand(*batch, graph.num_nodes),
            off_diagonal.expand(*batch, graph.num_edges),
        )
        # By whether gradients are recorded: a result made without them must not be found later.
        self._selected: dict[bool, tuple[Tensor, Tensor]] = {}

    @property
    @abstractmethod
    def factors(self) -> Elements:
        """What is known of the matrices, made on first use."""

    def logdet(self) -> Tensor:
        return _LogDet.apply(self.factors, self.diagonal, self.off_diagonal)

    def log_density(self, x: Tensor, observed: Tensor) -> Tensor:
        block = None if bool(observed.all()) else self.restrict(~observed)
        assert block is None or isinstance(block, PatternSolver)
        return _LogDensity.apply(
            self, block, observed, self.diagonal, self.off_diagonal, self._expanded(x)
        )

    def solve(self, b: Tensor) -> Tensor:
        return _Solve.apply(self.factors, self.diagonal, self.off_diagonal, self._expanded(b))

    def half_solve(self, b: Tensor) -> Tensor:
        return _HalfSolve.apply(self.factors, self._expanded(b))

    def selected_inverse(self) -> tuple[Tensor, Tensor]:
        recorded = torch.is_grad_enabled()
        if recorded not in self._selected:
            self._selected[recorded] = _SelectedInverse.apply(
                self.factors, self.diagonal, self.off_diagonal
            )
        return self._selected[recorded]

    def inverse_diagonal(self) -> Tensor:
        return self.selected_inverse()[0]

    def _expanded(self, b: Tensor) -> Tensor:
        batch = self.diagonal.shape[:-1]
        return b.expand(*broadcast_shapes(b.shape[:-1], batch), self.graph.num_nodes)


class Elements:
    """A batch of matrices on one graph; tensors in, tensors out.

    Values are the diagonal and the edges in one vector, ``num_values`` long. Subclasses set
    ``parts``, one object for each matrix, with ``logdet``, ``selected_inverse``, ``tangent``,
    ``solve`` and ``half_solve`` on arrays.

    Args:
        graph: The pattern.
        diagonal: Shape ``(*batch, num_nodes)``.
        off_diagonal: Shape ``(*batch, num_edges)``.
    """

    #: The backend, for errors.
    name: str

    def __init__(self, graph: Graph, diagonal: Tensor, off_diagonal: Tensor) -> None:
        self.graph = graph
        self.batch = diagonal.shape[:-1]
        self._values = array_rows(torch.cat([diagonal.detach(), off_diagonal.detach()], -1))
        self.parts: list[Any] = []

    def logdet(self) -> Tensor:
        """The log determinants, ``(*batch,)``."""
        values = [factor.logdet for factor in self.parts]
        return torch.tensor(values, dtype=torch.float64).reshape(self.batch)

    def selected_inverse(self, keep: bool) -> Tensor:
        """The inverses on the pattern, ``(*batch, num_values)``."""
        return self._stacked([factor.selected_inverse(keep) for factor in self.parts])

    def tangent(self, direction: Tensor, weight: Tensor) -> Tensor:
        """The derivatives of the inverses, ``(*batch, num_values)``; see ``Factor.tangent``."""
        pairs = zip(self.parts, array_rows(direction), array_rows(weight), strict=True)
        return self._stacked([factor.tangent(g, w) for factor, g, w in pairs])

    def solve(self, b: Tensor) -> Tensor:
        """``K^-1 b`` for ``b`` of shape ``(*sample, *batch, num_nodes)``."""
        return self._each(b, lambda factor, rows: factor.solve(rows))

    def half_solve(self, b: Tensor, transposed: bool = False) -> Tensor:
        """``A b`` or ``A' b`` with ``A A' = K^-1``."""
        return self._each(b, lambda factor, rows: factor.half_solve(rows, transposed))

    def multiply(self, v: Tensor) -> Tensor:
        """``K v`` for ``v`` of shape ``(*sample, *batch, num_nodes)``."""
        ends = self._ends()

        def product(element: int, rows: np.ndarray) -> np.ndarray:
            result = np.empty_like(rows)
            pattern.multiply(*ends, self._values[element], rows, result)
            return result

        return self.joined(v, [product(e, rows) for e, rows in enumerate(self.samples(v))])

    def outer(self, w: Tensor, x: Tensor) -> Tensor:
        """``-(w x' + x w') / 2`` on the pattern, edges counted twice, summed over samples."""
        result = np.zeros_like(self._values)
        left, right = self.samples(w), self.samples(x)
        for element, values in enumerate(result):
            pattern.outer(*self._ends(), left[element], right[element], values)
        return self._stacked(result)

    def density_gradient(self, weight: Tensor, v: Tensor, place: np.ndarray, block: Any) -> Tensor:
        """The derivative of a log density in the values; see :class:`_LogDensity`.

        Args:
            weight: The derivatives of what follows, ``(*sample, *batch)``.
            v: The completed vectors, ``(*sample, *batch, num_nodes)``.
            place: Where the values of the missing block stand.
            block: The factors of that block, or None.
        """
        weights = self.samples(weight.unsqueeze(-1))[..., 0]
        samples, result = self.samples(v), np.empty_like(self._values)
        for element, values in enumerate(result):
            whole = self.parts[element].selected_inverse(keep=False)
            part = block.parts[element].selected_inverse(keep=False) if block else _NOTHING
            pattern.density_gradient(
                *self._ends(), weights[element], samples[element], whole, place, part, values
            )
        return self._stacked(result)

    def samples(self, b: Tensor) -> np.ndarray:
        """``(*sample, *batch, n)`` as contiguous ``(elements, samples, n)``."""
        flat = b.detach().to("cpu", torch.float64)
        if len(self.parts) > 1:
            flat = flat.permute(*self._order(b), -1)
        return flat.reshape(len(self.parts), -1, b.shape[-1]).contiguous().numpy()

    def joined(self, b: Tensor, parts: list[np.ndarray]) -> Tensor:
        """What was made of the :meth:`samples` of ``b``, one array an element, in its order."""
        width = parts[0].shape[-1]
        if len(parts) == 1:
            return torch.from_numpy(parts[0]).reshape(*b.shape[:-1], width).to(b)
        order = self._order(b)
        result = torch.from_numpy(np.stack(parts)).reshape(*(b.shape[k] for k in order), width)
        return result.permute(*np.argsort(order).tolist(), -1).to(b)

    def _order(self, b: Tensor) -> list[int]:
        """The dimensions of ``b`` before its nodes, first those that tell elements apart.

        Along a dimension of the batch that has size one, ``b`` may have any: those are samples.
        """
        extra = b.dim() - 1 - len(self.batch)
        own = [extra + k for k, size in enumerate(self.batch) if size != 1]
        return own + [k for k in range(b.dim() - 1) if k not in own]

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        return self.graph.rows.numpy(), self.graph.cols.numpy()

    def _each(self, b: Tensor, apply: Any) -> Tensor:
        pairs = zip(self.parts, self.samples(b), strict=True)
        return self.joined(b, [apply(factor, rows) for factor, rows in pairs])

    def _stacked(self, values: list[np.ndarray] | np.ndarray) -> Tensor:
        return torch.from_numpy(np.asarray(values)).reshape(*self.batch, -1)


def array_rows(values: Tensor) -> np.ndarray:
    """``(*batch, k)`` as a contiguous ``(elements, k)``."""
    flat = values.detach().to("cpu", torch.float64).reshape(-1, values.shape[-1])
    return flat.contiguous().numpy()


class _LogDet(Function):
    @staticmethod
    def forward(ctx: Any, factors: Elements, diagonal: Tensor, off_diagonal: Tensor) -> Tensor:
        ctx.factors = factors
        ctx.save_for_backward(diagonal, off_diagonal)
        return factors.logdet().to(diagonal)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        values = ctx.factors.selected_inverse(keep=False)
        return None, *on_pattern(ctx, "logdet", grad.detach().unsqueeze(-1) * values, grad)


class _LogDensity(Function):
    """Half of ``log det K - log det K_mm - v' K v``; see ``Solver.log_density``.

    Since ``x_m*`` minimises the quadratic form, the derivatives need none of it (the envelope
    theorem): they are ``S - S_mm - v v'`` in ``K`` and ``-(K v)_o`` in ``x_o``.
    """

    @staticmethod
    def forward(
        ctx: Any,
        solver: PatternSolver,
        block: PatternSolver | None,
        observed: Tensor,
        diagonal: Tensor,
        off_diagonal: Tensor,
        x: Tensor,
    ) -> Tensor:
        factors = solver.factors
        log_det, v = factors.logdet(), x
        if block is not None:
            nodes = (~observed).nonzero().squeeze(-1)
            v = x.masked_fill(~observed, 0.0)
            v = v.index_copy(
                -1, nodes, -block.factors.solve(factors.multiply(v).index_select(-1, nodes))
            )
            log_det = log_det - block.factors.logdet()
        pull = factors.multiply(v)
        ctx.solver, ctx.block, ctx.observed = solver, block, observed
        ctx.save_for_backward(diagonal, off_diagonal, x, v, pull)
        return (log_det - (v * pull).sum(-1)) / 2

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        v, pull = (t.detach() for t in ctx.saved_tensors[3:])
        graph, n, weight = ctx.solver.graph, v.shape[-1], grad.detach()
        grad_x = (-weight.unsqueeze(-1) * pull).masked_fill(~ctx.observed, 0.0)
        gradients: tuple[Tensor | None, ...] = (None, None, grad_x)
        if any(ctx.needs_input_grad[3:5]):
            place, block = _NOTHING.astype(np.int64), None
            if ctx.block is not None:
                missing, block = (~ctx.observed).numpy(), ctx.block.factors
                _, edges = graph.subgraph(missing)
                place = np.concatenate([missing.nonzero()[0], n + edges])
            values = ctx.solver.factors.density_gradient(weight, v, place, block)
            gradients = (values[..., :n], values[..., n:], grad_x)
        parents = (grad, *ctx.saved_tensors[:3])
        return None, None, None, *first_order(ctx, "log_density", gradients, parents)


class _Solve(Function):
    @staticmethod
    def forward(
        ctx: Any, factors: Elements, diagonal: Tensor, off_diagonal: Tensor, b: Tensor
    ) -> Tensor:
        x = factors.solve(b)
        ctx.factors = factors
        ctx.save_for_backward(diagonal, off_diagonal, b, x)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        *_, b, x = ctx.saved_tensors
        n = x.shape[-1]
        w = ctx.factors.solve(grad)
        if not any(ctx.needs_input_grad[1:3]):
            return None, None, None, *first_order(ctx, "solve", (w,), (grad, b))
        values = ctx.factors.outer(w, x)
        gradients = values[..., :n].to(x), values[..., n:].to(x), w
        return None, *first_order(ctx, "solve", gradients, (grad, *ctx.saved_tensors))


class _HalfSolve(Function):
    @staticmethod
    def forward(ctx: Any, factors: Elements, b: Tensor) -> Tensor:
        ctx.factors = factors
        return factors.half_solve(b)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        result = ctx.factors.half_solve(grad, transposed=True)
        return None, *first_order(ctx, "half_solve", (result,), (grad,))


class _SelectedInverse(Function):
    @staticmethod
    def forward(
        ctx: Any, factors: Elements, diagonal: Tensor, off_diagonal: Tensor
    ) -> tuple[Tensor, Tensor]:
        ctx.factors = factors
        ctx.save_for_backward(diagonal, off_diagonal)
        values = factors.selected_inverse(keep=any(ctx.needs_input_grad)).to(diagonal)
        n = diagonal.shape[-1]
        return values[..., :n].contiguous(), values[..., n:].contiguous()

    @staticmethod
    def backward(ctx: Any, grad: Tensor, grad_edges: Tensor) -> tuple:
        direction = torch.cat([grad.detach(), 0.5 * grad_edges.detach()], -1)
        values = -ctx.factors.tangent(direction, grad)
        return None, *on_pattern(ctx, "selected_inverse", values, grad, grad_edges)


def on_pattern(ctx: Any, operation: str, values: Tensor, *parents: Tensor) -> tuple[Tensor, ...]:
    """The gradients of the diagonal and of the edges, each of which is two entries of ``K``."""
    diagonal, off_diagonal = ctx.saved_tensors
    n = diagonal.shape[-1]
    gradients = values[..., :n].to(diagonal), 2 * values[..., n:].to(off_diagonal)
    return first_order(ctx, operation, gradients, (*parents, diagonal, off_diagonal))


def first_order(
    ctx: Any, operation: str, gradients: tuple[Any, ...], parents: tuple[Tensor, ...]
) -> tuple[Any, ...]:
    """The gradients, tied to what they depend on by a node that refuses to be differentiated."""
    if not torch.is_grad_enabled():
        return gradients
    backend = (ctx.factors if hasattr(ctx, "factors") else ctx.solver).name
    name = f"`{operation}` of the {backend} backend"
    return tuple(
        None if gradient is None else first_order_only(gradient, name, parents, _HINT)
        for gradient in gradients
    )
