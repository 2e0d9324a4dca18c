"""Linear algebra on the pattern of a graph: the solver seam and its backends."""

from __future__ import annotations

from torch import Tensor

from ..errors import InvalidArgumentError
from ..graph import Graph
from .dense import DenseSolver, checked_cholesky, cholesky_solve, triangular_solve
from .solver import Solver, matvec, to_dense

__all__ = [
    "BACKENDS",
    "DenseSolver",
    "Solver",
    "check_backend",
    "choose_backend",
    "checked_cholesky",
    "cholesky_solve",
    "make_solver",
    "matvec",
    "to_dense",
    "triangular_solve",
]

_SOLVERS: dict[str, type[Solver]] = {"dense": DenseSolver}

#: The names that ``backend=`` takes.
BACKENDS = ("auto", *_SOLVERS)


def check_backend(backend: str) -> str:
    """Returns ``backend`` if it is a known name, else raises the error that lists them."""
    if backend not in BACKENDS:
        raise InvalidArgumentError(
            "backend", f"one of {BACKENDS}", repr(backend), 'Use backend="auto".'
        )
    return backend


def choose_backend(graph: Graph, backend: str) -> str:
    """The backend that ``backend`` means on this graph."""
    return "dense" if backend == "auto" else backend


def make_solver(backend: str, graph: Graph, diagonal: Tensor, off_diagonal: Tensor) -> Solver:
    """A solver for these values by the named backend."""
    return _SOLVERS[choose_backend(graph, backend)](graph, diagonal, off_diagonal)
