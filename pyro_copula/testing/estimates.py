"""The contract of a backend that estimates: unbiased, in values and in first derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from scipy import stats
from torch import Tensor

from ..graph import Graph
from ..linalg import DenseSolver, Solver
from .contracts import dominant_values

MakeSolver = Callable[[Graph, Tensor, Tensor, int], Solver]


def check_unbiased_solver(
    make: MakeSolver,
    graph: Graph,
    values: tuple[Tensor, Tensor] | None = None,
    *,
    observed: Tensor | None = None,
    seeds: Sequence[int] = range(60),
    failure_rate: float = 1e-4,
    tolerance: float = 1e-5,
) -> None:
    """The mean over independent seeds agrees with the dense backend, by z-scores.

    Every entry of every result is tested; the rate is that of any one of them failing when all are
    unbiased, were the estimates normal.

    Args:
        make: Takes a graph, a diagonal, an off-diagonal and a seed.
        graph: The pattern.
        values: Diagonal and off-diagonal; random ones by default.
        observed: Boolean, ``(num_nodes,)``; two nodes of three by default.
        seeds: The seeds.
        failure_rate: The probability of an error without a fault.
        tolerance: The relative error allowed on top, against the largest entry of each result:
            what the iterations leave.
    """
    diagonal, off = dominant_values(graph) if values is None else values
    if observed is None:
        observed = torch.arange(graph.num_nodes) % 3 != 1
    generator = torch.Generator().manual_seed(1)
    b = torch.randn(2, *diagonal.shape, generator=generator, dtype=torch.float64)
    size = graph.num_nodes + graph.num_edges
    weight = torch.randn(size, generator=generator, dtype=torch.float64)
    node_weight = weight[: graph.num_nodes]
    everywhere = observed | ~observed

    operations: dict[str, Callable[[Solver], Tensor]] = {
        "logdet": lambda s: s.logdet(),
        "inverse_diagonal": lambda s: s.inverse_diagonal() * node_weight,
        "selected_inverse": lambda s: torch.cat(s.selected_inverse(), -1) * weight,
        "schur_diagonal": lambda s: s.schur_diagonal(observed) * node_weight[observed],
        "log_density": lambda s: s.log_density(b, observed),
        "log_density, nothing missing": lambda s: s.log_density(b, everywhere),
    }
    for name, operation in operations.items():
        expected = _with_gradients(DenseSolver, operation, graph, diagonal, off)
        runs = [
            _with_gradients(
                lambda g, d, o, seed=seed: make(g, d, o, seed), operation, graph, diagonal, off
            )
            for seed in seeds
        ]
        count = sum(result.numel() for result in expected) * len(operations)
        bound = float(stats.t.isf(failure_rate / 2 / count, len(runs) - 1))
        parts = ("value", "d/d diagonal", "d/d off_diagonal")
        for what, exact, *found in zip(parts, expected, *runs, strict=True):
            _check(f"{name}: {what}", exact, torch.stack(found), bound, tolerance)


def _with_gradients(
    make: Callable[..., Solver],
    operation: Callable[[Solver], Tensor],
    graph: Graph,
    diagonal: Tensor,
    off: Tensor,
) -> list[Tensor]:
    leaves = [v.clone().requires_grad_() for v in (diagonal, off)]
    value = operation(make(graph, *leaves))
    gradients = torch.autograd.grad(value.sum(), leaves, allow_unused=True)
    filled = [
        torch.zeros_like(leaf) if g is None else g
        for leaf, g in zip(leaves, gradients, strict=True)
    ]
    return [value.detach(), *filled]


def _check(what: str, exact: Tensor, found: Tensor, bound: float, tolerance: float) -> None:
    if exact.numel() == 0:
        return
    error = (found.mean(0) - exact).abs()
    noise = found.std(0) / math.sqrt(len(found))
    slack = tolerance * float(exact.abs().max())
    z = (error - slack).clamp(min=0) / noise.clamp(min=1e-300)
    worst = int(z.flatten().argmax())
    assert float(z.flatten()[worst]) <= bound, (
        f"{what}: entry {worst} is {float(found.mean(0).flatten()[worst]):.6g} on average over "
        f"{len(found)} seeds, not {float(exact.flatten()[worst]):.6g}: {float(z.max()):.3g} "
        f"standard errors, above {bound:.3g}"
    )
