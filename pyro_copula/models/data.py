"""The data of a fit, validated once: features, graph, values with missing nodes, exposure."""

from __future__ import annotations

import reprlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidArgumentError, UnusedDataWarning
from ..graph import Graph

_WEIGHTS = (
    "Pass as `precision` a module that returns a SparsePrecision with these weights, or\n  "
    'precision="edge_regression" (EdgeRegressionPrecision), which learns weights from the features.'
    "\n  Then, or if they do not matter: del data.edge_weight."
)

#: Values are refused if rounding moves one of them by more than this share of their spread.
_ROUNDING = 0.01

#: Of values that differ by less than this share of the largest, the spread itself is rounding.
_CONSTANT = 1e-14


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
                They are taken in torch's default dtype. ``edge_weight`` and ``edge_attr`` are not
                used: all edges are alike.
            observed: Boolean, shape ``(num_nodes,)``; where False, ``y`` is not looked at.
            exposure: The name of the attribute with exposures.

        Raises:
            InvalidArgumentError: If something is missing or of another kind or shape, or if
                rounding to the default dtype would blur the values.
        """
        if isinstance(data, cls):
            if observed is None:
                return data
            y = _checked_values(data.y, observed)
            return replace(data, y=y, known=y)
        if isinstance(data, Mapping):
            raise InvalidArgumentError(
                "data",
                "a PyTorch Geometric Data",
                f"a {type(data).__name__} with {', '.join(map(str, data))}",
                "Make one of it: torch_geometric.data.Data(**data).",
            )
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
        if _varies(getattr(data, "edge_weight", None)):
            unused = UnusedDataWarning("edge_weight", "all edges are alike", _WEIGHTS)
            warnings.warn(unused, stacklevel=3)
        x = torch.zeros(n, 0) if x is None else _checked_features(_attribute(data, "x"), n)
        y = _rounded(_checked_values(y.double(), observed))
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
    if value.is_complex():
        raise InvalidArgumentError(
            f"data.{name}",
            "real",
            f"dtype {value.dtype}",
            f"Use its real part, data.{name}.real, or its modulus, data.{name}.abs().",
        )
    return value


def _varies(weight: Any) -> bool:
    """Whether there are weights, and not all the same."""
    return torch.is_tensor(weight) and bool((weight != weight.flatten()[:1]).any())


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
        y = y.masked_fill(~read_mask("observed", observed, len(y)), torch.nan)
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


def _rounded(y: Tensor) -> Tensor:
    """The values, of float64, in the default dtype, unless they differ too little for it."""
    found = y.to(torch.get_default_dtype())
    observed = ~torch.isnan(y)
    seen, kept = y[observed], found[observed].double()
    largest = seen.abs().max().clamp(min=torch.finfo(torch.float64).tiny)
    spread = (seen / largest).std(correction=0)
    error = (kept / largest - seen / largest).abs().max()
    if bool((error > _ROUNDING * spread) & (spread > _CONSTANT)):
        raise InvalidArgumentError(
            "data.y",
            f"values that {found.dtype} can tell apart",
            f"values of a size up to {float(largest):.4g} with a standard deviation of "
            f"{float(spread * largest):.3g}, and rounding by up to {float(error * largest):.3g}",
            "Call torch.set_default_dtype(torch.float64) first, or centre and scale the values.",
        )
    return found


def read_mask(argument: str, mask: Any, n: int) -> Tensor:
    """A mask of nodes, given as a tensor, an array or a list, as a boolean tensor.

    Args:
        argument: What the user calls it.
        mask: The mask.
        n: The number of nodes.

    Example:
        >>> read_mask("observed", [True, False], 2)
        tensor([ True, False])
    """
    try:
        found = mask if torch.is_tensor(mask) else torch.as_tensor(np.array(mask))
    except (TypeError, ValueError, RuntimeError):  # text, or rows of different lengths
        found = None
    if found is not None and found.dtype == torch.bool and found.shape == (n,):
        return found
    raise InvalidArgumentError(
        argument,
        f"boolean of shape ({n},)",
        reprlib.repr(mask) if found is None else f"{found.dtype} of shape {tuple(found.shape)}",
        "Pass a mask such as data.train_mask."
        if found is None
        else _advice_on_mask(argument, found, n),
    )


def _advice_on_mask(argument: str, found: Tensor, n: int) -> str:
    """What to do about a mask that is none."""
    if found.dtype == torch.bool:
        return "Give every node an entry, also those whose value is NaN."
    if found.shape == (n,) and bool(((found == 0) | (found == 1)).all()):
        return f"Pass {argument}.bool()."
    return f"Numbers of nodes become a mask by torch.isin(torch.arange({n}), numbers)."


def check_exposure(name: Any) -> None:
    """Refuses an exposure that is no name of an attribute."""
    if name is not None and not isinstance(name, str):
        raise InvalidArgumentError(
            "exposure",
            "the name of an attribute of the data, or None",
            type(name).__name__,
            'Set data.exposure = exposure, and pass exposure="exposure".',
        )


def _checked_exposure(data: Any, name: str | None, n: int) -> Tensor | None:
    check_exposure(name)
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
