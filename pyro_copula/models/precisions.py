"""Precisions by name, behind one way to call them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import InvalidArgumentError
from ..errors.spelling import did_you_mean
from ..graph import Graph
from ..linalg import Iterative
from ..precision import (
    CARPrecision,
    EdgeRegressionPrecision,
    LaplacianPrecision,
    NormalizedAdjacencyPrecision,
    SparsePrecision,
    WeightedLaplacianPrecision,
)
from ..scalars import Constrained


class Independent(nn.Module):
    """The identity: no dependence between nodes."""

    def __init__(self, graph: Graph, *, backend: str | Iterative = "auto") -> None:
        super().__init__()
        empty = Graph.from_edges([], num_nodes=graph.num_nodes)
        self.identity = SparsePrecision(empty, torch.ones(graph.num_nodes), torch.ones(0))

    def forward(self) -> SparsePrecision:
        return self.identity


class PrecisionPart(nn.Module):
    """The precision of a model: ``part(x, **scalars)``, whether or not it looks at features.

    Args:
        module: A module whose ``forward`` returns a :class:`SparsePrecision`; its first argument
            is named ``x`` if it takes features.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module
        self.fixed: str | None = None
        self.takes_features = "x" in inspect.signature(module.forward).parameters

    @property
    def scalars(self) -> dict[str, Constrained]:
        """The global parameters, by name."""
        found = {k: v for k, v in self.module.named_children() if isinstance(v, Constrained)}
        return {k: v for k, v in found.items() if k != self.fixed}

    def fix_overall_scale(self) -> None:
        """Takes the overall scale out of the parameters: a copula does not depend on it."""
        self.fixed = getattr(self.module, "overall_scale", None)
        if self.fixed is not None:
            getattr(self.module, self.fixed).freeze()

    def forward(self, x: Tensor, **scalars: Any) -> SparsePrecision:
        arguments = (x,) if self.takes_features else ()
        result = self.module(*arguments, **scalars)
        if not isinstance(result, SparsePrecision):
            raise InvalidArgumentError(
                "precision",
                "a module that returns a SparsePrecision",
                type(result).__name__,
                "Return SparsePrecision(graph, diagonal, off_diagonal) from forward.",
            )
        return result


#: Precisions by name, each made from the graph and the number of features.
PRECISIONS: dict[str, Callable[..., nn.Module]] = {
    "normalized_adjacency": lambda graph, d, **o: NormalizedAdjacencyPrecision(graph, **o),
    "laplacian": lambda graph, d, **o: LaplacianPrecision(graph, **o),
    "car": lambda graph, d, **o: CARPrecision(graph, **o),
    "edge_regression": EdgeRegressionPrecision,
    "weighted_laplacian": WeightedLaplacianPrecision,
    "none": lambda graph, d, **o: Independent(graph, **o),
}


def make_precision(
    precision: str | nn.Module | Any,
    graph: Graph,
    in_channels: int,
    backend: str | Iterative,
    batch_edges: int | None = None,
) -> PrecisionPart:
    """The precision of a model, from its name, a dictionary, a module, or a function of the graph.

    Args:
        precision: A name from ``PRECISIONS``; ``{"family": name, option: value, ...}``; a module;
            or a function ``graph -> module``.
        graph: The graph.
        in_channels: The number of features.
        backend: How to factor.
        batch_edges: Of an edge regression.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> part = make_precision({"family": "car", "rho": 0.5}, graph, 0, "auto")
        >>> part.scalars["rho"]
        Correlation(0.5)
    """
    if isinstance(precision, nn.Module):
        return PrecisionPart(precision)
    if callable(precision):
        return PrecisionPart(precision(graph))
    name, options = read_precision(precision)
    if name == "edge_regression" and batch_edges is not None:
        options = {"batch_edges": batch_edges, **options}
    try:
        module = PRECISIONS[name](graph, in_channels, backend=backend, **options)
    except TypeError as error:
        raise InvalidArgumentError(
            "precision", f"with options of {name!r}", repr(precision), f"{error}."
        ) from None
    return PrecisionPart(module)


def read_precision(precision: Any) -> tuple[str, dict[str, Any]]:
    """The name and the options of a precision that is given by name or as a dictionary."""
    options = dict(precision) if isinstance(precision, Mapping) else {"family": precision}
    name = options.pop("family", None)
    if not isinstance(name, str) or name not in PRECISIONS:
        raise InvalidArgumentError(
            "precision",
            f"one of {sorted(PRECISIONS)} or a module that returns a SparsePrecision",
            repr(precision),
            did_you_mean(name, PRECISIONS, 'Use precision="normalized_adjacency".'),
        )
    return name, options
