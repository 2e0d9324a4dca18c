"""The exact sparse backend: a supernodal factor on the graph's own pattern.

Nothing of size ``num_nodes ** 2`` is ever formed. Derivatives are exact and of first order; that
of the selected inverse is one differentiated sweep.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from ..graph import Graph
from .functions import Elements, PatternSolver, on_pattern
from .numeric import Factor, Pool
from .resources import announce_compilation, check_memory
from .solver import Solver
from .symbolic import Plan, analyze, clamped_plan


class SparseSolver(PatternSolver):
    """Factors ``K`` as ``B D B'`` in a fill-reducing order.

    The symbolic analysis is made once per graph, the numeric factor once per solver; both on
    first use. Elements of a batch are factored one after the other.
    """

    name = "sparse"

    @cached_property
    def factors(self) -> Factors:
        """The numeric factors, one for each element of the batch."""
        announce_compilation()
        return Factors(self.graph, analyze(self.graph).plan, self.diagonal, self.off_diagonal)

    def detach(self) -> Solver:
        other = super().detach()
        if "factors" in self.__dict__:
            other.__dict__["factors"] = self.factors
        return other

    def schur_diagonal(self, observed: Tensor) -> Tensor:
        known = observed.detach().cpu().numpy().astype(bool)
        if known.all():
            return self.diagonal[..., observed]
        announce_compilation()
        plan = clamped_plan(self.graph, known)
        factors = Factors(self.graph, plan, self.diagonal, self.off_diagonal)
        return _Schur.apply(factors, self.diagonal, self.off_diagonal)[..., observed]


class Factors(Elements):
    """The factors of a batch of matrices."""

    name = "sparse"

    def __init__(self, graph: Graph, plan: Plan, diagonal: Tensor, off_diagonal: Tensor) -> None:
        super().__init__(graph, diagonal, off_diagonal)
        symbolic = analyze(graph)
        pool: Pool = graph.cached("pool", Pool)
        recorded = torch.is_grad_enabled() and (
            diagonal.requires_grad or off_diagonal.requires_grad
        )
        needed = symbolic.bytes_needed(len(self._values), derivatives=recorded)
        check_memory(
            needed - pool.free_bytes,
            f"The sparse factor of {graph.num_nodes:,} nodes",
            'This graph\'s exact factor fills in. Use backend="iterative", a smaller or sparser '
            "graph, fewer batch elements at once, or a machine with more memory.",
        )
        self.parts = [
            Factor(symbolic, plan, pool, value, element if self.batch else None)
            for element, value in enumerate(self._values)
        ]


class _Schur(Function):
    """``Q_ii`` at the observed nodes; what it holds at the missing ones has no gradient."""

    @staticmethod
    def forward(ctx: Any, factors: Factors, diagonal: Tensor, off_diagonal: Tensor) -> Tensor:
        ctx.factors = factors
        ctx.save_for_backward(diagonal, off_diagonal)
        values = factors.selected_inverse(keep=any(ctx.needs_input_grad))
        return values[..., : diagonal.shape[-1]].to(diagonal)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        diagonal, off_diagonal = ctx.saved_tensors
        still = torch.zeros(*grad.shape[:-1], diagonal.shape[-1] + off_diagonal.shape[-1])
        return None, *on_pattern(ctx, "schur_diagonal", ctx.factors.tangent(still, grad), grad)
