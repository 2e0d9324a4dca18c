"""Linear algebra on the pattern of a graph: the solver seam and its backends."""

from __future__ import annotations

from torch import Tensor

from ..errors import InvalidArgumentError
from ..graph import Graph
from .dense import DenseSolver, checked_cholesky, cholesky_solve, triangular_solve
from .solver import Solver, matvec, quadratic_form, to_dense

__all__ = [
    "BACKENDS",
    "DenseSolver",
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
BACKENDS = ("auto", "dense", "sparse")

#: Up to this many nodes the dense factor is as fast, and nothing needs to be compiled.
_SMALL = 128


def check_backend(backend: str) -> str:
    """Returns ``backend`` if it is a known name, else raises the error that lists them."""
    if backend not in BACKENDS:
        raise InvalidArgumentError(
            "backend", f"one of {BACKENDS}", repr(backend), 'Use backend="auto".'
        )
    return backend


def choose_backend(graph: Graph, backend: str) -> str:
    """The backend that ``backend`` means on this graph.

    ``"auto"`` is dense on small graphs and wherever the symbolic analysis, made once per graph,
    predicts that the sparse factor needs more operations than the dense one; else sparse.
    """
    if backend != "auto":
        return backend
    if graph.num_nodes <= _SMALL:
        return "dense"
    from .symbolic import analyze  # loads numba, which importing the package must not

    return "sparse" if analyze(graph).flops <= graph.num_nodes**3 / 3 else "dense"


def solver_class(backend: str) -> type[Solver]:
    """The class behind a backend's name."""
    if backend == "dense":
        return DenseSolver
    from .sparse import SparseSolver  # loads numba, which importing the package must not

    return SparseSolver


def make_solver(backend: str, graph: Graph, diagonal: Tensor, off_diagonal: Tensor) -> Solver:
    """A solver for these values by the named backend."""
    return solver_class(choose_backend(graph, backend))(graph, diagonal, off_diagonal)
