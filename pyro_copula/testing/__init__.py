"""Tools for testing this package and extensions of it: the dense oracle, small graphs, contracts.

Nothing in the package imports this folder.
"""

from .contracts import check_marginal_law, check_precision, check_solver
from .estimates import check_unbiased_solver
from .graphs import SMALL_GRAPHS
from .oracle import DenseOracle
from .rectangle import RectangleProbability, rectangle_probability

__all__ = [
    "SMALL_GRAPHS",
    "DenseOracle",
    "RectangleProbability",
    "check_marginal_law",
    "check_precision",
    "check_solver",
    "check_unbiased_solver",
    "rectangle_probability",
]
