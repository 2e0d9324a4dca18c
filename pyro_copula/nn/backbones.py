"""The networks that turn features into marginal parameters.

A backbone is any module ``(x, edge_index) -> (num_nodes, out_channels)``. The ones here are those
that the paper compares, each with two layers and 16 hidden channels by default, and the linear
regression of spatial statistics.
"""

from __future__ import annotations

import inspect
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from ..errors import InvalidArgumentError
from .products import NeighbourProduct, mean_weights, normalised_weights
from .skips import LinearSkip, OwnColumns


class Linear(nn.Module):
    """A linear regression on the features, or an intercept without any; the graph is not used."""

    def __init__(self, in_channels: int, out_channels: int, **_: Any) -> None:
        super().__init__()
        with warnings.catch_warnings():
            # An intercept alone is meant: torch warns that there is no weight to initialise.
            warnings.filterwarnings("ignore", message="Initializing zero-element tensors")
            self.layer = nn.Linear(in_channels, out_channels)

    def hidden(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """The features: there is no hidden layer."""
        return x

    def last(self, hidden: Tensor, edge_index: Tensor) -> Tensor:
        """The regression."""
        return self.layer(hidden)

    def last_modules(self) -> list[nn.Module]:
        """The modules that make up the last layer."""
        return [self.layer]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(x)


class _Layered(nn.Module):
    """Layers with a ReLU and dropout between them."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 16,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = [in_channels, *[hidden_channels] * (num_layers - 1), out_channels]
        last = len(widths) - 2
        self.layers = nn.ModuleList(
            self.make_layer(a, b, last=k == last)
            for k, (a, b) in enumerate(itertools.pairwise(widths))
        )
        self.dropout = nn.Dropout(dropout)

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        """One layer of the network."""
        raise NotImplementedError

    def apply_layer(self, layer: Any, x: Tensor, edge_index: Tensor) -> Tensor:
        """The output of one layer."""
        return layer(x, edge_index)

    def hidden(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """What goes into the last layer, ``(num_nodes, hidden_channels)``."""
        for layer in self.layers[:-1]:
            x = self.dropout(self.apply_layer(layer, x, edge_index).relu())
        return x

    def last(self, hidden: Tensor, edge_index: Tensor) -> Tensor:
        """The last layer applied to what :meth:`hidden` gives."""
        return self.apply_layer(self.layers[-1], hidden, edge_index)

    def last_modules(self) -> list[nn.Module]:
        """The modules that make up the last layer."""
        return [self.layers[-1]]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.hidden(x, edge_index), edge_index)


class MLP(_Layered):
    """A multi-layer perceptron; the graph is not used."""

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return nn.Linear(in_channels, out_channels)

    def apply_layer(self, layer: Any, x: Tensor, edge_index: Tensor) -> Tensor:
        return layer(x)


class GCN(_Layered):
    """Graph convolutions with the normalised adjacency matrix (Kipf and Welling, 2017)."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.product = NeighbourProduct(normalised_weights)

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return GCNConv(in_channels, out_channels)

    def apply_layer(self, layer: Any, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.product(layer.lin(x), edge_index) + layer.bias


class SAGE(_Layered):
    """Separate weights for a node and the mean of its neighbours (Hamilton et al., 2017)."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.product = NeighbourProduct(mean_weights)

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return SAGEConv(in_channels, out_channels)

    def apply_layer(self, layer: Any, x: Tensor, edge_index: Tensor) -> Tensor:
        return layer.lin_l(self.product(x, edge_index)) + layer.lin_r(x)


class GAT(_Layered):
    """Attention over neighbours, one head (Velickovic et al., 2018)."""

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return GATConv(in_channels, out_channels)


class APPNPNet(MLP):
    """A perceptron whose output is propagated by personalised PageRank (Klicpera et al., 2019).

    There are ten steps, each of which restarts with probability 0.1.
    """

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.product = NeighbourProduct(normalised_weights)

    def last(self, hidden: Tensor, edge_index: Tensor) -> Tensor:
        """The last layer, and then the propagation, which has no weights."""
        start = state = super().last(hidden, edge_index)
        for _ in range(10):
            state = 0.9 * self.product(state, edge_index) + 0.1 * start
        return state


class _ConvolutionAndLinear(nn.Module):
    """A graph convolution and a linear map side by side, or summed."""

    def __init__(self, in_channels: int, out_channels: int, *, concatenate: bool) -> None:
        super().__init__()
        width = out_channels // 2 if concatenate else out_channels
        self.concatenate = concatenate
        self.convolution = GCNConv(in_channels, width)
        self.linear = nn.Linear(in_channels, out_channels - width if concatenate else width)

    def join(self, convolved: Tensor, x: Tensor) -> Tensor:
        """The output, given that of the convolution."""
        linear = self.linear(x)
        return torch.cat([convolved, linear], dim=-1) if self.concatenate else convolved + linear


class PublishedSAGE(GCN):
    """The network that the published code calls SAGE.

    A hidden layer concatenates a graph convolution and a linear map of the node's own features,
    half of the channels each; the last layer sums the two.
    """

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return _ConvolutionAndLinear(in_channels, out_channels, concatenate=not last)

    def apply_layer(self, layer: Any, x: Tensor, edge_index: Tensor) -> Tensor:
        return layer.join(super().apply_layer(layer.convolution, x, edge_index), x)


BACKBONES: dict[str, Callable[..., nn.Module]] = {
    "linear": Linear,
    "mlp": MLP,
    "gcn": GCN,
    "sage": SAGE,
    "gat": GAT,
    "appnp": APPNPNet,
    "published_sage": PublishedSAGE,
}

#: Those that do not look at neighbours.
GRAPHLESS = ("linear", "mlp")


def make_backbone(
    backbone: str | nn.Module | Callable[..., nn.Module],
    in_channels: int,
    out_channels: int,
    *,
    hidden_channels: int = 16,
    num_layers: int = 2,
    dropout: float = 0.0,
    linear_skip: bool = False,
    num_own: int = 0,
) -> nn.Module:
    """Makes a backbone from its name, or checks and returns the module given.

    Args:
        backbone: A name from ``BACKBONES``, a module ``(x, edge_index) -> (num_nodes,
            out_channels)``, or a function that makes one from ``in_channels, out_channels``.
        in_channels: The number of features.
        out_channels: The number of outputs, which the marginal family decides.
        hidden_channels: The width of hidden layers.
        num_layers: The number of layers.
        dropout: The share of hidden channels dropped in training.
        linear_skip: Whether a linear regression on the features is added.
        num_own: The number of last features that must stay at their nodes, because they depend on
            the values of neighbours; see :class:`OwnColumns`.

    Example:
        >>> make_backbone("linear", 3, 1)
        Linear(
          (layer): Linear(in_features=3, out_features=1, bias=True)
        )
    """
    if num_own and backbone not in GRAPHLESS:
        inner = make_backbone(
            backbone,
            in_channels - num_own,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            dropout=dropout,
            linear_skip=linear_skip,
        )
        return OwnColumns(inner, num_own, out_channels)
    if isinstance(backbone, nn.Module):
        module = backbone
    elif isinstance(backbone, str):
        if backbone not in BACKBONES:
            raise InvalidArgumentError(
                "backbone",
                f"one of {sorted(BACKBONES)} or a module (x, edge_index) -> (n, out_channels)",
                repr(backbone),
                'Use backbone="sage".',
            )
        _check_some_features(backbone, in_channels, linear_skip)
        module = BACKBONES[backbone](
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            dropout=dropout,
        )
    elif callable(backbone) and len(inspect.signature(backbone).parameters) >= 2:
        module = backbone(in_channels, out_channels)
    else:
        raise InvalidArgumentError(
            "backbone",
            "a name, a module, or a function of (in_channels, out_channels)",
            type(backbone).__name__,
            'Use backbone="sage".',
        )
    return LinearSkip(module, in_channels, out_channels) if linear_skip else module


def _check_some_features(backbone: str, in_channels: int, linear_skip: bool) -> None:
    """Without features a network says the same of every node, whatever its weights."""
    if in_channels or (backbone == "linear" and not linear_skip):
        return
    raise InvalidArgumentError(
        "data.x",
        f"one feature or more for backbone={backbone!r}"
        + (" with linear_skip=True" if linear_skip else ""),
        "none",
        'Use backbone="linear" for an intercept alone, graph_features=True for the degrees, or '
        "give the nodes features in data.x.",
    )
