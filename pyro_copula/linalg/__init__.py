"""Linear algebra on the pattern of a graph: the solver seam and its backends."""

from __future__ import annotations

import logging

from torch import Tensor

from ..errors import InvalidArgumentError
from ..graph import Graph
from .dense import DenseSolver, checked_cholesky, cholesky_solve, triangular_solve
from .iterative.options import Iterative
from .resources import available_memory
from .solver import Solver, matvec, quadratic_form, to_dense

__all__ = [
    "BACKENDS",
    "DenseSolver",
    "Iterative",
    "Solver",
    "check_backend",
    "checked_cholesky",
    "choose_backend",
    "cholesky_solve",
    "make_solver",
    "matvec",
    "quadratic_form",
    "solver_class",
    "to_dense",
    "triangular_solve",
]

#: The names that ``backend=`` takes.
BACKENDS = ("auto", "dense", "sparse", "iterative")

#: Up to this many nodes the dense factor is as fast, and nothing needs to be compiled.
_SMALL = 128
#: A factor of more floating-point operations than this takes minutes.
_MOST_FLOPS = 1e12

_logger = logging.getLogger("pyro_copula")


def check_backend(backend: str | Iterative) -> str | Iterative:
    """Returns ``backend`` if it is a known name, else raises the error that lists them."""
    if not isinstance(backend, Iterative) and backend not in BACKENDS:
        raise InvalidArgumentError(
            "backend", f"one of {BACKENDS}", repr(backend), 'Use backend="auto".'
        )
    return backend


def choose_backend(graph: Graph, backend: str | Iterative) -> str:
    """The name of the backend that ``backend`` means on this graph.

    ``"auto"`` is exact while the operations and the memory that the symbolic analysis predicts
    allow it: dense on small graphs and wherever the sparse factor needs more operations than the
    dense one, else sparse. Where neither is affordable it is iterative, and a message says so,
    once per graph.
    """
    if isinstance(backend, Iterative):
        return backend.name
    if backend != "auto":
        return backend
    if graph.num_nodes <= _SMALL:
        return "dense"
    return graph.cached("backend", lambda: _affordable_backend(graph))


def _affordable_backend(graph: Graph) -> str:
    from .symbolic import analyze  # loads numba, which importing the package must not

    n, symbolic = graph.num_nodes, analyze(graph)
    exact, flops, needed = "sparse", symbolic.flops, symbolic.predicted_bytes
    if flops > n**3 / 3:
        exact, flops, needed = "dense", n**3 / 3, 48 * n**2
    if flops <= _MOST_FLOPS and needed <= available_memory():
        return exact
    _logger.warning(
        "backend='auto' chose 'iterative' for %s nodes and %s edges: the exact factor needs "
        "%.2g operations and %.3g GiB. Log densities and scales are then estimates with a "
        "standard error; backend='sparse' insists on the exact one.",
        f"{n:,}",
        f"{graph.num_edges:,}",
        flops,
        needed / 2**30,
    )
    return "iterative"


def solver_class(backend: str) -> type[Solver]:
    """The class behind a backend's name."""
    if backend == "dense":
        return DenseSolver
    if backend == "iterative":
        from .iterative.solver import IterativeSolver  # loads numba, as below

        return IterativeSolver
    from .sparse import SparseSolver  # loads numba, which importing the package must not

    return SparseSolver


def make_solver(
    backend: str | Iterative, graph: Graph, diagonal: Tensor, off_diagonal: Tensor
) -> Solver:
    """A solver for these values by the named backend."""
    if isinstance(backend, Iterative):
        from .iterative.solver import IterativeSolver  # loads numba, as above

        return IterativeSolver(graph, diagonal, off_diagonal, backend)
    return solver_class(choose_backend(graph, backend))(graph, diagonal, off_diagonal)
