"""The data of a fit, validated once: features, graph, values with missing nodes, exposure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..graph import Graph


@dataclass(frozen=True)
class NodeData:
    """Features, graph and values at the nodes.

    Attributes:
        x: Features, shape ``(num_nodes, num_features)``.
        graph: The graph.
        y: Values, shape ``(num_nodes,)``, NaN where not observed.
        exposure: Positive exposures, shape ``(num_nodes,)``, or None.
        known: The values before some were hidden for validation, shape ``(num_nodes,)``. They say
            what is possible (a smallest count), and nothing is fitted to them.

    Example:
        >>> graph = Graph.from_edges([(0, 1), (1, 2)])
        >>> data = NodeData(torch.zeros(3, 1), graph, torch.tensor([1.0, 0.0, 2.0]))
        >>> hidden = data.hide(torch.tensor([False, True, False]))
        >>> hidden.observed.tolist(), hidden.known.tolist()
        ([True, False, True], [1.0, 0.0, 2.0])
    """

    x: Tensor
    graph: Graph
    y: Tensor
    exposure: Tensor | None = None
    known: Tensor = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.known is None:
            object.__setattr__(self, "known", self.y)

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return self.graph.num_nodes

    @property
    def observed(self) -> Tensor:
        """Which nodes have a value, boolean of shape ``(num_nodes,)``."""
        return ~torch.isnan(self.y)

    @property
    def offset(self) -> Tensor | None:
        """The logarithm of the exposure."""
        return None if self.exposure is None else self.exposure.log()

    def hide(self, nodes: Tensor) -> NodeData:
        """The same data with more values missing, for validation: ``known`` stays as it is.

        Args:
            nodes: Boolean, shape ``(num_nodes,)``: which values to hide.
        """
        return replace(self, y=self.y.masked_fill(nodes, torch.nan))

    @classmethod
    def from_pyg(
        cls, data: Any, observed: Tensor | None = None, exposure: str | None = None
    ) -> NodeData:
        """Takes and checks what is needed of a PyTorch Geometric ``Data``.

        Args:
            data: Has ``edge_index`` and ``y``, and usually ``x``; ``y`` may be NaN where missing.
            observed: Boolean, shape ``(num_nodes,)``; where False, ``y`` is not looked at.
            exposure: The name of the attribute with exposures.
        """
        if isinstance(data, cls):
            if observed is None:
                return data
            y = _checked_values(data.y, observed)
            return replace(data, y=y, known=y)
        y = _attribute(data, "y")
        if y.dim() == 2 and y.shape[1] == 1:
            y = y.squeeze(1)
        if y.dim() != 1:
            raise InvalidArgumentError(
                "data.y",
                "one value per node, of shape (num_nodes,)",
                f"shape {tuple(y.shape)}",
                "Fit one outcome at a time.",
            )
        y = y.to(torch.get_default_dtype())
        n = len(y)
        x = getattr(data, "x", None)
        if torch.is_tensor(x) and x.dim() == 2 and len(x) > n:
            raise InvalidArgumentError(
                "data.y",
                f"as long as data.x, which has {len(x)} rows, one per node",
                f"{n} values",
                "Give every node a row and a value, NaN where the value is missing.",
            )
        graph = Graph.from_edge_index(_attribute(data, "edge_index"), num_nodes=n)
        x = torch.zeros(n, 0) if x is None else _checked_features(x, n)
        y = _checked_values(y, observed)
        return cls(x, graph, y, _checked_exposure(data, exposure, n))


def _attribute(data: Any, name: str) -> Tensor:
    value = getattr(data, name, None)
    if not torch.is_tensor(value):
        raise InvalidArgumentError(
            "data",
            f"a PyTorch Geometric Data with a tensor `{name}`",
            "none" if value is None else type(value).__name__,
            f"Set data.{name}."
            if value is None
            else f"Make it a tensor of numbers: data.{name} = torch.as_tensor(data.{name}).",
        )
    return value


def _checked_features(x: Tensor, n: int) -> Tensor:
    if x.dim() != 2 or len(x) != n:
        raise InvalidArgumentError(
            "data.x",
            f"of shape ({n}, num_features), one row per node",
            f"shape {tuple(x.shape)}",
            "Give every node a row; categorical features as one-hot columns.",
        )
    x = x.to(torch.get_default_dtype())
    bad = ~torch.isfinite(x)
    if bool(bad.any()):
        node, feature = bad.nonzero()[0].tolist()
        raise InvalidArgumentError(
            "data.x",
            "finite",
            f"{float(x[node, feature])} at node {node}, feature {feature}",
            "Fill in or drop missing features; only values y may be missing.",
        )
    return x


def _checked_values(y: Tensor, observed: Tensor | None) -> Tensor:
    if observed is not None:
        if not torch.is_tensor(observed):
            observed = torch.as_tensor(observed)
        if observed.dtype != torch.bool or observed.shape != y.shape:
            raise InvalidArgumentError(
                "observed",
                f"boolean of shape ({len(y)},)",
                f"{observed.dtype} of shape {tuple(observed.shape)}",
                _advice_on_mask(observed, len(y)),
            )
        y = y.masked_fill(~observed, torch.nan)
    infinite = torch.isinf(y)
    if bool(infinite.any()):
        raise InvalidArgumentError(
            "data.y",
            "finite, or NaN where missing",
            f"infinity at node {int(infinite.nonzero()[0])}",
            "Check that value.",
        )
    if int((~torch.isnan(y)).sum()) < 2:
        raise InvalidArgumentError(
            "observed",
            "true at two nodes or more",
            f"{int((~torch.isnan(y)).sum())} observed values",
            "A fit needs values to learn from; NaN in y counts as missing.",
        )
    return y


def _advice_on_mask(observed: Tensor, n: int) -> str:
    """What to do about a mask that is none."""
    if observed.dtype == torch.bool:
        return "Give every node an entry, also those whose value is NaN."
    if observed.shape == (n,) and bool(((observed == 0) | (observed == 1)).all()):
        return "Pass observed.bool()."
    return f"Numbers of nodes become a mask by torch.isin(torch.arange({n}), numbers)."


def _checked_exposure(data: Any, name: str | None, n: int) -> Tensor | None:
    if name is None:
        return None
    exposure = _attribute(data, name).to(torch.get_default_dtype()).reshape(-1)
    if len(exposure) != n or not bool((torch.isfinite(exposure) & (exposure > 0)).all()):
        raise InvalidArgumentError(
            f"data.{name}",
            f"a positive number at each of {n} nodes",
            f"{len(exposure)} values from {float(exposure.min()):g} to {float(exposure.max()):g}",
            "Exposure is what counts are proportional to, such as births or population.",
        )
    return exposure
