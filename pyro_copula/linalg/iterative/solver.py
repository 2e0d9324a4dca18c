"""The iterative backend: the solver seam on estimates instead of factors."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from ...crew import present_crew
from ...errors import EstimateError
from ...graph import Graph
from ..functions import Elements, PatternSolver, array_rows, on_pattern
from ..resources import check_memory
from .estimator import Estimator
from .operator import Operator
from .options import Iterative
from .probes import WIDTH, Probes
from .schur import schur_diagonal, schur_gradient

#: Probes of an evaluation whose user does not care which.
_EVALUATION_SEED = 0


class IterativeSolver(PatternSolver):
    """Estimates what the other backends compute, without a factor.

    Solves and draws are as accurate as their tolerance. Log determinants, entries of the inverse
    and all derivatives that need them are unbiased estimates from random probes.

    Args:
        graph: The pattern.
        diagonal: Shape ``(*batch, num_nodes)``, float64.
        off_diagonal: Shape ``(*batch, num_edges)``, float64.
        options: Probes, accuracy, random numbers.
        parent: The solver of which this is a block, and the numbers of its nodes there.
    """

    name = "iterative"

    def __init__(
        self,
        graph: Graph,
        diagonal: Tensor,
        off_diagonal: Tensor,
        options: Iterative | None = None,
        *,
        parent: tuple[IterativeSolver, np.ndarray] | None = None,
    ) -> None:
        super().__init__(graph, diagonal, off_diagonal)
        self.options = options or Iterative()
        self._parent = parent
        self.training = torch.is_grad_enabled() and (
            diagonal.requires_grad or off_diagonal.requires_grad
        )
        if parent is not None:
            self.training = parent[0].training

    @property
    def backend(self) -> Iterative:
        """The options, as ``backend=`` takes them."""
        return self.options

    @cached_property
    def seed(self) -> int:
        """The seed of the probes."""
        if self._parent is not None:
            return self._parent[0].seed
        if self.options.seed is not None:
            return self.options.seed
        if not self.training:
            return _EVALUATION_SEED
        return present_crew().agree(int(torch.randint(2**31, ())))

    @cached_property
    def factors(self) -> Estimators:
        """The estimators, one for each element of the batch."""
        settled = self.options.settled(self.training)
        return Estimators(self, settled, self.diagonal, self.off_diagonal)

    def probes(self, element: int, count: int) -> Probes:
        """The random signs of one element; a block has those of the whole."""
        if self._parent is None:
            return Probes((self.seed, element), self.graph.num_nodes, count)
        whole, nodes = self._parent
        return whole.probes(element, count).restrict(nodes)

    def detach(self) -> IterativeSolver:
        other = IterativeSolver(
            self.graph, self.diagonal.detach(), self.off_diagonal.detach(), self.options
        )
        other._parent, other.training = self._parent, self.training
        other.__dict__["seed"] = self.seed
        if "factors" in self.__dict__:
            other.__dict__["factors"] = self.factors
        return other

    def restrict(self, keep: Tensor) -> IterativeSolver:
        graph, edges = self.graph.subgraph(keep.numpy())
        nodes = keep.nonzero().squeeze(-1)
        return IterativeSolver(
            graph,
            self.diagonal.index_select(-1, nodes),
            self.off_diagonal.index_select(-1, torch.from_numpy(edges)),
            self.options,
            parent=(self, nodes.numpy()),
        )

    def inverse_diagonal(self) -> Tensor:
        diagonal = super().inverse_diagonal()
        bad = ~(diagonal.detach() > 0)
        if bool(bad.any()):
            where = bad.nonzero()[0]
            raise EstimateError(
                "variance", int(where[-1]), float(diagonal[tuple(where)]), self.num_probes
            )
        return diagonal

    def schur_diagonal(self, observed: Tensor) -> Tensor:
        if bool(observed.all()):
            return self.diagonal[..., observed]
        full = _Schur.apply(self, self.restrict(~observed), observed, *self._values)
        result = full[..., observed]
        bad = ~(result.detach() > 0)
        if bool(bad.any()):
            where = bad.nonzero()[0]
            node = int(observed.nonzero()[where[-1]])
            value = float(result[tuple(where)])
            raise EstimateError("conditional precision", node, value, self.num_probes)
        return result

    def draw(self, shape: torch.Size | tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Draws of ``N(0, K^-1)`` from the square root that the edges give."""
        zero = torch.zeros(shape, dtype=torch.float64)
        return self.factors.draw(zero).to(dtype)

    # ---------------------------------------------------------------- standard errors

    def logdet_error(self) -> Tensor:
        """The standard error of ``logdet``, of shape ``(*batch,)``."""
        terms = np.stack([part.averages.logdet for part in self.factors.parts])
        error = terms.std(1, ddof=1) / self.num_probes**0.5
        return torch.from_numpy(error).reshape(self.factors.batch)

    def inverse_diagonal_error(self) -> Tensor:
        """The standard errors of ``inverse_diagonal``, of shape ``(*batch, num_nodes)``."""
        errors = [part.diagonal_error() for part in self.factors.parts]
        return torch.from_numpy(np.stack(errors)).reshape(self.diagonal.shape)

    def inverse_diagonal_spread(self) -> Tensor:
        spreads = [part.diagonal_spread() for part in self.factors.parts]
        return torch.from_numpy(np.stack(spreads)).reshape(self.diagonal.shape)

    def influence(self, observed: Tensor, weight: Tensor) -> Tensor:
        weight = self._expanded(weight)
        block = None if bool(observed.all()) else self.restrict(~observed).factors
        samples = self.factors.samples(weight)  # (elements, samples, num_nodes)
        terms = []
        for element, part in enumerate(self.factors.parts):
            logdet = part.averages.logdet
            if block is not None:
                logdet = logdet - block.parts[element].averages.logdet
            terms.append(logdet + part.diagonal_forms(samples[element]))
        return self.factors.joined(weight, terms).movedim(-1, 0)

    @property
    def num_probes(self) -> int:
        """The number of probes."""
        count = self.factors.options.num_probes
        assert count is not None  # the options are settled
        return count

    @property
    def _values(self) -> tuple[Tensor, Tensor]:
        return self.diagonal, self.off_diagonal


class Estimators(Elements):
    """The estimators of a batch of matrices."""

    name = "iterative"

    def __init__(
        self, solver: IterativeSolver, options: Iterative, diagonal: Tensor, off_diagonal: Tensor
    ) -> None:
        graph = solver.graph
        super().__init__(graph, diagonal, off_diagonal)
        self.options = options
        assert options.num_probes is not None  # they are settled
        assert options.dtype is not None
        share = present_crew().share(options.num_probes)
        kept = (share.stop - share.start) * (2 if solver.training else 1)
        blocks = 7 * WIDTH + 6 * options.rank + kept
        needed = graph.num_nodes * blocks * options.dtype.itemsize + 110 * graph.num_edges
        check_memory(
            needed * len(self._values),
            f"The iterative engine on {graph.num_nodes:,} nodes",
            "Use fewer probes or batch elements at once, or Iterative(dtype=torch.float32).",
        )
        self.parts = [
            Estimator(
                Operator(graph, values, element if self.batch else None),
                options,
                solver.probes(element, options.num_probes),
                solver.training,
            )
            for element, values in enumerate(self._values)
        ]

    def draw(self, like: Tensor) -> Tensor:
        """Draws of ``N(0, K^-1)`` of the shape of a tensor ``(*sample, *batch, num_nodes)``."""

        def normal(count: int) -> np.ndarray:
            return torch.randn(count, dtype=torch.float64).numpy()

        return self._each(like, lambda part, rows: part.draw(len(rows), normal))


class _Schur(Function):
    """``Q_ii`` at the observed nodes; what it holds at the missing ones has no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        solver: IterativeSolver,
        block: IterativeSolver,
        observed: Tensor,
        diagonal: Tensor,
        off_diagonal: Tensor,
    ) -> Tensor:
        ctx.solver, ctx.block, ctx.observed = solver, block, observed
        ctx.save_for_backward(diagonal, off_diagonal)
        parts = zip(solver.factors.parts, block.factors.parts, strict=True)
        values = [schur_diagonal(whole, part, observed.numpy()) for whole, part in parts]
        return torch.from_numpy(np.stack(values)).reshape(diagonal.shape)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        parts = zip(ctx.solver.factors.parts, ctx.block.factors.parts, strict=True)
        values = [
            schur_gradient(whole, part, ctx.observed.numpy(), weight)
            for (whole, part), weight in zip(parts, array_rows(grad), strict=True)
        ]
        stacked = torch.from_numpy(np.stack(values)).reshape(*grad.shape[:-1], -1)
        return None, None, None, *on_pattern(ctx, "schur_diagonal", stacked, grad)
