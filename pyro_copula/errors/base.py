"""The two base classes, by which everything this package raises or warns of can be caught."""

from __future__ import annotations

__all__ = [
    "PyroCopulaError",
    "PyroCopulaWarning",
]


class PyroCopulaError(Exception):
    """The base class of every error raised on purpose by this package.

    Example:
        >>> import pyro_copula as pc
        >>> try:
        ...     pc.Graph.from_edges([(0, 5)], num_nodes=3)
        ... except PyroCopulaError as error:
        ...     print(type(error).__name__)
        GraphError
    """


class PyroCopulaWarning(UserWarning):
    """The base class of every warning of this package.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", PyroCopulaWarning)  # all of them
    """
