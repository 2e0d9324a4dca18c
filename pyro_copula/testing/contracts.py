"""Contract checks for the extension points: a solver backend, a precision, a marginal law.

Each raises an ``AssertionError`` that says what does not hold. A new extension is done when its
check passes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .. import marginals
from ..graph import Graph
from ..linalg import DenseSolver, Solver
from ..precision import SparsePrecision
from .graphs import SMALL_GRAPHS


def dominant_values(
    graph: Graph, batch: tuple[int, ...] = (), seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Random values on a graph's pattern, of either sign, that are positive definite.

    Returns:
        Diagonal ``(*batch, num_nodes)`` and off-diagonal ``(*batch, num_edges)``, float64.
    """
    generator = torch.Generator().manual_seed(seed)
    off = torch.randn(*batch, graph.num_edges, generator=generator, dtype=torch.float64)
    diagonal = 0.2 + torch.rand(*batch, graph.num_nodes, generator=generator, dtype=torch.float64)
    diagonal = diagonal.index_add(-1, graph.rows, off.abs()).index_add(-1, graph.cols, off.abs())
    return diagonal, off


def check_solver(
    solver_class: type[Solver],
    graph: Graph,
    values: tuple[Tensor, Tensor] | None = None,
    *,
    tolerance: float = 1e-9,
) -> None:
    """A backend agrees with the dense one, in values and in first derivatives.

    Right-hand sides may have more elements than the batch of matrices has where that has size one,
    so a batch of shape (3, 1) is always checked against right-hand sides of batch shape (3, 4).

    Args:
        solver_class: The backend.
        graph: The pattern.
        values: Diagonal and off-diagonal; random ones by default.
        tolerance: The relative error allowed, against the largest entry of each result.
    """
    given = dominant_values(graph) if values is None else values
    for diagonal, off in (given, dominant_values(graph, (3, 1))):
        _check_operations(solver_class, graph, diagonal, off, tolerance)


def _check_operations(
    solver_class: type[Solver], graph: Graph, diagonal: Tensor, off: Tensor, tolerance: float
) -> None:
    observed = torch.arange(graph.num_nodes) % 3 != 1
    generator = torch.Generator().manual_seed(1)
    shape = [4 if size == 1 else size for size in diagonal.shape[:-1]] + [graph.num_nodes]
    b = torch.randn(2, *shape, generator=generator, dtype=torch.float64)
    weight = torch.randn(graph.num_nodes, generator=generator, dtype=torch.float64)
    label = f"{solver_class.name}, batch {tuple(diagonal.shape[:-1])},"

    operations = {
        "logdet": lambda s: s.logdet(),
        "solve": lambda s: s.solve(b) * weight,
        "inverse_diagonal": lambda s: s.inverse_diagonal() * weight,
        "selected_inverse": lambda s: torch.cat(s.selected_inverse(), -1).sin(),
        "schur_diagonal": lambda s: s.schur_diagonal(observed) * weight[observed],
        "log_density": lambda s: s.log_density(b, observed),
        "log_density, nothing missing": lambda s: s.log_density(b, observed | ~observed),
    }
    for name, operation in operations.items():
        results = []
        for kind in (DenseSolver, solver_class):
            leaves = [v.clone().requires_grad_() for v in (diagonal, off)]
            value = operation(kind(graph, *leaves))
            value.sum().backward()
            grads = [leaf.grad if leaf.grad is not None else torch.zeros(()) for leaf in leaves]
            results.append([value.detach(), *grads])
        for what, expected, found in zip(("value", "d/d diagonal", "d/d off_diagonal"), *results):
            _assert_close(f"{label} {name}: {what}", found, expected, tolerance)

    solver = solver_class(graph, diagonal, off)
    eye = torch.eye(graph.num_nodes, dtype=torch.float64)
    eye = eye.reshape(-1, *(1,) * (diagonal.dim() - 1), graph.num_nodes)
    columns = solver.half_solve(eye.expand(-1, *shape))  # column k of A, first dimension
    root = columns.movedim(0, -1)
    inverse = DenseSolver(graph, diagonal, off).inverse
    _assert_close(f"{label} half_solve: A A'", root @ root.mT, inverse, tolerance)


def check_precision(make: Any, *, graphs: dict[str, Graph] = SMALL_GRAPHS) -> None:
    """A precision module is positive definite, and differentiable in what it holds.

    Args:
        make: Takes a graph and returns a :class:`SparsePrecision` or a module and its call's
            result, as ``(module, precision)``.
        graphs: The graphs to try.
    """
    for name, graph in graphs.items():
        module, precision = make(graph)
        assert isinstance(precision, SparsePrecision), f"{name}: not a SparsePrecision"
        eigenvalues = torch.linalg.eigvalsh(precision.to_dense().detach().double())
        assert bool((eigenvalues > 0).all()), f"{name}: eigenvalue {float(eigenvalues.min()):.3g}"
        precision.logdet().sum().backward()
        for parameter, tensor in module.named_parameters():
            finite = tensor.grad is not None and bool(torch.isfinite(tensor.grad).all())
            assert finite, f"{name}: no finite derivative in {parameter}"


def check_marginal_law(d: Any, *, tolerance: float = 1e-6) -> None:
    """``cdf``, ``icdf`` and the normal scores of a law agree with each other and with ``log_prob``.

    Args:
        d: A distribution with float64 parameters and a non-empty batch shape.
        tolerance: The relative error allowed.
    """
    z = torch.linspace(-3, 3, 25, dtype=torch.float64).reshape(-1, *(1,) * len(d.batch_shape))
    y = marginals.from_normal_score(d, z.expand(-1, *d.batch_shape)).detach()
    u = marginals.cdf(d, y)
    _assert_close("cdf + sf", u + marginals.sf(d, y), torch.ones_like(u), tolerance)
    if bool(torch.as_tensor(marginals.is_discrete(d)).any()):
        atom = u - marginals.cdf(d, y - 1)
        _assert_close("cdf(y) - cdf(y - 1)", atom, d.log_prob(y).exp(), tolerance)
        lower, upper = marginals.normal_score_limits(d, y)
        assert bool((lower < upper).all()), "normal_score_limits: lower is not below upper"
    else:
        _assert_close(
            "normal_score(from_normal_score(z))", marginals.normal_score(d, y), z, tolerance
        )
        point = y.clone().requires_grad_()
        (slope,) = torch.autograd.grad(marginals.cdf(d, point).sum(), point)
        _assert_close("d cdf / dy", slope, d.log_prob(y).exp(), tolerance)


def _assert_close(what: str, found: Tensor, expected: Tensor, tolerance: float) -> None:
    expected = expected.expand(found.shape) if expected.dim() <= found.dim() else expected
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, not {expected.shape}"
    size = max(float(expected.abs().max()) if expected.numel() else 0.0, 1e-300)
    error = float((found - expected).abs().max()) / size if found.numel() else 0.0
    assert error <= tolerance, f"{what}: relative error {error:.2e} above {tolerance:.0e}"
