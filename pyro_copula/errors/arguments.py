"""Errors and a warning about what a function was called with: arguments, graphs and values."""

from __future__ import annotations

from .base import PyroCopulaError, PyroCopulaWarning

__all__ = [
    "GraphError",
    "InvalidArgumentError",
    "MissingCDFError",
    "ObsMaskError",
    "ParameterRangeError",
    "SeveralFitsError",
    "SupportError",
    "UnusedDataWarning",
]


class InvalidArgumentError(PyroCopulaError, ValueError):
    """An argument is not what the function needs.

    Args:
        argument: The name of the argument, as the user wrote it.
        expected: What it should have been.
        found: What it was.
        hint: What to do about it.

    With one argument only, it is the finished message: Pyro raises an error again that way, with
    the shapes of the trace added to the text.

    Example:
        >>> print(InvalidArgumentError("num_nodes", "a positive integer", "-3", "Pass n >= 1."))
        `num_nodes` must be a positive integer, but found -3.
          Pass n >= 1.
    """

    def __init__(self, argument: str, expected: str = "", found: str = "", hint: str = "") -> None:
        self.argument = argument
        self.expected = expected
        self.found = found
        self.hint = hint
        super().__init__(
            f"`{argument}` must be {expected}, but found {found}.\n  {hint}"
            if expected
            else argument
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.argument, self.expected, self.found, self.hint)


class GraphError(InvalidArgumentError):
    """The description of a graph does not describe one.

    Example:
        >>> import pyro_copula as pc
        >>> pc.Graph.from_edges([(0, 5)], num_nodes=3)
        Traceback (most recent call last):
        GraphError: `edges` must be made of node numbers from 0 to 2, but found (0, 5) ...
    """


class ParameterRangeError(InvalidArgumentError):
    """A parameter is at or beyond the end of its range.

    Example:
        >>> import pyro_copula as pc
        >>> pc.CARPrecision(pc.Graph.from_edges([(0, 1)]))(rho=1.0, tau=1.0)
        Traceback (most recent call last):
        ParameterRangeError: `rho` must be strictly between -1 and 1, but found 1.
    """


class SupportError(InvalidArgumentError):
    """A value lies outside the support of its node's marginal.

    Args:
        argument: The name of the argument.
        node: The first node at fault.
        value: Its value.
        support: The support in words, for example ``a non-negative integer``.
        hint: What to do about it.

    Example:
        >>> print(SupportError("y", 3, -1.0, "a non-negative integer", "Check that value."))
        `y` must be a non-negative integer at every node, but found -1 at node 3.
          Check that value.
    """

    def __init__(
        self,
        argument: str,
        node: int = -1,
        value: float = float("nan"),
        support: str = "",
        hint: str = "",
    ) -> None:
        self.node = node
        self.value = value
        self.support = support
        expected = f"{support} at every node" if support else ""
        super().__init__(argument, expected, f"{value:g} at node {node}", hint)

    def __reduce__(self) -> tuple:
        return type(self), (self.argument, self.node, self.value, self.support, self.hint)


class MissingCDFError(InvalidArgumentError, NotImplementedError):
    """A marginal has no cumulative distribution function that the package knows.

    Example:
        >>> import pyro_copula as pc
        >>> import torch
        >>> import pyro.distributions as dist
        >>> pc.marginals.cdf(dist.VonMises(0.0, 1.0), torch.tensor(0.5))
        Traceback (most recent call last):
        MissingCDFError: ...
    """


class SeveralFitsError(InvalidArgumentError, AttributeError):
    """An ensemble was asked for what only a single fit has.

    Example:
        >>> import pyro_copula as pc
        >>> data = pc.simulate.paper_setting("b")
        >>> model = pc.CopulaGNN("linear", "normal", "laplacian")
        >>> short = pc.Schedule(max_epochs=1)
        >>> pc.fit(model, data, data.train_mask, restarts=2, schedule=short).history
        Traceback (most recent call last):
        SeveralFitsError: `history` must be that of one fit, but found 2 fits.
    """


class ObsMaskError(InvalidArgumentError):
    """A node mask was given where Pyro expects a batch mask.

    Example:
        >>> import pyro_copula as pc
        >>> import torch
        >>> import pyro.distributions as dist
        >>> K = pc.CARPrecision(pc.Graph.from_edges([(0, 1)]))(rho=0.9, tau=1.0)
        >>> pc.GraphNormal(torch.zeros(2), K).mask(torch.tensor([True, False]))
        Traceback (most recent call last):
        ObsMaskError: `mask` must be broadcastable to the batch shape (), but found shape (2,).
    """


class UnusedDataWarning(PyroCopulaWarning):
    """The data have something that looks as if it mattered, and that no model uses.

    Args:
        name: The attribute of the data.
        meaning: What that comes to, as the rest of a sentence.
        hint: What to do about it.

    Example:
        >>> print(UnusedDataWarning("edge_weight", "all edges are alike", "Delete it."))
        `data.edge_weight` is not used: all edges are alike.
          Delete it.
    """

    def __init__(self, name: str, meaning: str, hint: str) -> None:
        self.name = name
        self.meaning = meaning
        self.hint = hint
        super().__init__(f"`data.{name}` is not used: {meaning}.\n  {hint}")

    def __reduce__(self) -> tuple:
        return type(self), (self.name, self.meaning, self.hint)
