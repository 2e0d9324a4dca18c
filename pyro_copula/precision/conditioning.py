r"""How many digits of a result are right: the condition number of a precision.

A Cholesky factor does not care about the scale of the nodes: its errors are governed by the
condition number of :math:`M = D^{-1/2} K D^{-1/2}`, where :math:`D` is the diagonal of :math:`K`
(Demmel, 1989). That number is estimated in the 1-norm from a few solves with the factor that is
there already (Hager, 1984; Higham, 1988). The estimate is a lower bound that is rarely off by more
than a factor of three, and it is exact if no entry of the inverse is negative, as with every
precision whose edges all have positive dependence.

References:
    Higham, N. J. (2002). Accuracy and Stability of Numerical Algorithms, 2nd ed., chapters 10, 15.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from ..errors import ConditioningWarning
from ..linalg import Solver

#: The relative accuracy below which a warning is due.
ACCURACY = 1e-6

#: The largest condition number with which float64 gives that accuracy.
MAX_CONDITION = ACCURACY / torch.finfo(torch.float64).eps

#: Two solves each; the estimate hardly ever changes after the second.
_MAX_ROUNDS = 5


@torch.no_grad()
def condition_number(solver: Solver) -> Tensor:
    """The estimated condition number of the matrix of a solver, scaled to a diagonal of ones.

    Args:
        solver: The solver.

    Returns:
        Shape ``(*batch,)``, float64.
    """
    root = solver.diagonal.sqrt()
    return _norm(solver) * _inverse_norm(lambda b: root * solver.solve(root * b), root)


def few_digits(law: Any) -> float | None:
    """The condition number of a law's precision if it leaves less than six digits, else None.

    Iterative backends are left out: they say themselves how far they came.

    Args:
        law: A law with a ``precision``, which may be None.
    """
    precision = law.precision
    if precision is None or precision.solver.name == "iterative":
        return None
    worst = float(precision.condition_number().max())
    return worst if worst > MAX_CONDITION else None


def warn_if_nearly_singular(law: Any) -> None:
    """Warns of results with less than six digits.

    Args:
        law: A law with a ``precision``, which may be None.
    """
    condition = few_digits(law)
    if condition is not None:
        warnings.warn(ConditioningWarning(condition), stacklevel=3)


def _norm(solver: Solver) -> Tensor:
    """The 1-norm of the scaled matrix: its largest row sum."""
    rows, cols = solver.graph.rows, solver.graph.cols
    root = solver.diagonal.sqrt()
    ends = root.index_select(-1, rows) * root.index_select(-1, cols)
    entry = solver.off_diagonal.abs() / ends
    total = torch.ones_like(root)
    return total.index_add(-1, rows, entry).index_add(-1, cols, entry).amax(-1)


def _inverse_norm(apply: Any, like: Tensor) -> Tensor:
    """The 1-norm of a symmetric matrix that is known by its products, for a batch at once."""
    n = like.shape[-1]
    x = torch.full_like(like, 1 / n)
    best = torch.zeros_like(like[..., 0])
    for _ in range(_MAX_ROUNDS):
        y = apply(x)
        size = y.abs().sum(-1)
        z = apply(torch.where(y < 0, -1.0, 1.0))
        grows = size > best
        best = torch.maximum(best, size)
        if not bool((grows & (z.abs().amax(-1) > (z * x).sum(-1))).any()):
            break
        x = torch.zeros_like(like).scatter(-1, z.abs().argmax(-1, keepdim=True), 1.0)
    # A vector of alternating signs catches what the walk above can be blind to.
    steps = torch.arange(n, dtype=like.dtype)
    other = torch.where(steps % 2 == 0, 1.0, -1.0) * (1 + steps / max(1, n - 1))
    return torch.maximum(best, 2 * apply(other.expand_as(like)).abs().sum(-1) / (3 * n))
