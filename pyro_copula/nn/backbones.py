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
from torch.nn.functional import leaky_relu
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from ..batches import even_batches, in_batches
from ..errors import InvalidArgumentError
from ..errors.spelling import did_you_mean
from .incoming import Incoming
from .products import NeighbourProduct, mean_weights, normalised_weights
from .skips import LinearSkip, OwnColumns

#: The output of a layer at some of the nodes.
Rows = Callable[[slice], Tensor]


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
    """Layers with a ReLU and dropout between them.

    With ``batch_nodes`` a layer that would keep more than it gives, for its derivatives, is applied
    to so many nodes at a time. Dropout is then drawn batch by batch: other numbers of the same law.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        hidden_channels: int = 16,
        num_layers: int = 2,
        dropout: float = 0.0,
        batch_nodes: int | None = None,
    ) -> None:
        super().__init__()
        self.batch_nodes = batch_nodes
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

    def layer_rows(self, layer: Any, x: Tensor, edge_index: Tensor) -> Rows:
        """A function that gives the output of one layer at some of the nodes."""
        raise NotImplementedError

    def hidden(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """What goes into the last layer, ``(num_nodes, hidden_channels)``."""
        for layer in self.layers[:-1]:
            batches = self.batches(x, edge_index, self.batch_nodes)
            x = self._hidden_layer(self.layer_rows(layer, x, edge_index), batches)
        return x

    def _hidden_layer(self, rows: Rows, batches: list[slice]) -> Tensor:
        return in_batches(lambda nodes: self.dropout(rows(nodes).relu()), batches)

    def batches(self, x: Tensor, edge_index: Tensor, size: int | None) -> list[slice]:
        """The nodes in batches of at most that size; all at once where that takes no more."""
        return [slice(0, len(x))]

    def last(self, hidden: Tensor, edge_index: Tensor, *, batch_nodes: int | None = None) -> Tensor:
        """The last layer applied to what :meth:`hidden` gives.

        Batches are made again with the weights that the module holds then. So there are none
        unless asked for: this method is also called with other weights in place of them.
        """
        rows = self.layer_rows(self.layers[-1], hidden, edge_index)
        return in_batches(rows, self.batches(hidden, edge_index, batch_nodes))

    def last_modules(self) -> list[nn.Module]:
        """The modules that make up the last layer."""
        return [self.layers[-1]]

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.last(self.hidden(x, edge_index), edge_index, batch_nodes=self.batch_nodes)


class MLP(_Layered):
    """A multi-layer perceptron; the graph is not used."""

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return nn.Linear(in_channels, out_channels)

    def layer_rows(self, layer: Any, x: Tensor, edge_index: Tensor) -> Rows:
        return lambda nodes: layer(x[nodes])


class GCN(_Layered):
    """Graph convolutions with the normalised adjacency matrix (Kipf and Welling, 2017)."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.product = NeighbourProduct(normalised_weights)

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return GCNConv(in_channels, out_channels)

    def layer_rows(self, layer: Any, x: Tensor, edge_index: Tensor) -> Rows:
        mapped = layer.lin(x)  # of all nodes, once: it has no more columns than the output
        return lambda nodes: self.product(mapped, edge_index, nodes) + layer.bias


class SAGE(_Layered):
    """Separate weights for a node and the mean of its neighbours (Hamilton et al., 2017)."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.product = NeighbourProduct(mean_weights)

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return SAGEConv(in_channels, out_channels)

    def batches(self, x: Tensor, edge_index: Tensor, size: int | None) -> list[slice]:
        """Batches at the features, whose means over neighbours need not be kept.

        Behind a layer with weights, every batch would have a gradient in all nodes.
        """
        return even_batches(len(x), None if x.requires_grad else size)

    def layer_rows(self, layer: Any, x: Tensor, edge_index: Tensor) -> Rows:
        return lambda nodes: layer.lin_l(self.product(x, edge_index, nodes)) + layer.lin_r(x[nodes])


class GAT(_Layered):
    """Attention over neighbours, one head (Velickovic et al., 2018)."""

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.incoming = Incoming()

    def make_layer(self, in_channels: int, out_channels: int, *, last: bool) -> nn.Module:
        return GATConv(in_channels, out_channels)

    def batches(self, x: Tensor, edge_index: Tensor, size: int | None) -> list[slice]:
        """Batches with no more edges than the mean number, for there is a message on each."""
        if size is None or size >= len(x):
            return [slice(0, len(x))]
        return self.incoming.batches(edge_index, len(x), size)

    def layer_rows(self, layer: Any, x: Tensor, edge_index: Tensor) -> Rows:
        if self.batch_nodes is None:
            return lambda nodes: layer(x, edge_index)
        mapped = layer.lin(x)  # of all nodes, once
        sent, heard = ((mapped * a.view(-1)).sum(-1) for a in (layer.att_src, layer.att_dst))

        def rows(nodes: slice) -> Tensor:
            source, target = self.incoming(nodes, edge_index, len(x))
            count = nodes.stop - nodes.start
            score = leaky_relu(sent[source] + heard[nodes][target], layer.negative_slope)
            weight = self.incoming.softmax(score, target, count)
            message = weight.unsqueeze(-1) * mapped[source]
            return message.new_zeros(count, message.shape[1]).index_add(0, target, message) + (
                layer.bias
            )

        return rows


class APPNPNet(MLP):
    """A perceptron whose output is propagated by personalised PageRank (Klicpera et al., 2019).

    There are ten steps, each of which restarts with probability 0.1.
    """

    def __init__(self, in_channels: int, out_channels: int, **options: Any) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.product = NeighbourProduct(normalised_weights)

    def last(self, hidden: Tensor, edge_index: Tensor, *, batch_nodes: int | None = None) -> Tensor:
        """The last layer, and then the propagation, which has no weights."""
        start = state = super().last(hidden, edge_index, batch_nodes=batch_nodes)
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

    def layer_rows(self, layer: Any, x: Tensor, edge_index: Tensor) -> Rows:
        convolved = super().layer_rows(layer.convolution, x, edge_index)
        return lambda nodes: layer.join(convolved(nodes), x[nodes])


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


def check_backbone(name: str) -> None:
    """Raises the error that lists the names, if this is none of them."""
    if name not in BACKBONES:
        raise InvalidArgumentError(
            "backbone",
            f"one of {sorted(BACKBONES)} or a module (x, edge_index) -> (n, out_channels)",
            repr(name),
            did_you_mean(name, BACKBONES, 'Use backbone="sage".'),
        )


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
    batch_nodes: int | None = None,
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
        batch_nodes: Layers that would keep more than they give (the first of ``"sage"``, all of
            ``"gat"``) are applied to so many nodes at a time, in less memory; None for all.

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
            batch_nodes=batch_nodes,
        )
        return OwnColumns(inner, num_own, out_channels)
    if batch_nodes is not None and not isinstance(backbone, str):
        raise InvalidArgumentError(
            "batch_nodes",
            "None for a backbone of your own, whose layers are not known here",
            repr(batch_nodes),
            f"Use one by name, of {sorted(BACKBONES)}, or divide the nodes inside your module.",
        )
    if isinstance(backbone, nn.Module):
        module = backbone
    elif isinstance(backbone, str):
        check_backbone(backbone)
        _check_some_features(backbone, in_channels, linear_skip)
        module = BACKBONES[backbone](
            in_channels,
            out_channels,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            dropout=dropout,
            batch_nodes=batch_nodes,
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
