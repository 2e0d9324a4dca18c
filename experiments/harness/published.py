"""The published models and their training protocol, on the library's extension points.

What differs from the library's defaults is spelled out here and used by the reproduction rows
only: features and values in their own units, the published networks, a normal law whose clamped
scores couple the nodes, ``alpha = tanh(1)`` and ``beta = exp(3)`` at the start, one learning rate
and weight decay on every parameter, early stopping on the validation metric every 20 epochs, and
predictions clamped to ``[2 min, max / 2]`` of the training values.

One departure: predictions are exact means, where the published code averages 1,000 draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyro.distributions as dist
import scipy.sparse
import scipy.special
import torch
from torch import Tensor, nn

import pyro_copula as pc
from pyro_copula.models import CopulaGNN, MarginalFamily, NormalFamily

#: Rates of the published copula models are ``exp(logit) + RATE_FLOOR``; scores are clamped too.
RATE_FLOOR = 1e-3
TAIL_CLIP = 1e-3
SCORE_BOUND = -float(scipy.special.ndtri(TAIL_CLIP))
WEIGHT_DECAY = 5e-4
HIDDEN = 16
HEADS = 4


# ---------------------------------------------------------------- networks


class _Product(torch.autograd.Function):
    """A symmetric sparse matrix times a dense one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Any) -> Tensor:
        ctx.matrix = matrix
        return torch.from_numpy(matrix @ x.detach().numpy())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return torch.from_numpy(ctx.matrix @ grad.numpy()), None


def _times(matrix: Any, x: Tensor) -> Tensor:
    """The product with a scipy matrix, or with a dense one."""
    return matrix @ x if isinstance(matrix, Tensor) else _Product.apply(x, matrix)


def _hold(module: nn.Module, matrix: Any) -> None:
    """Keeps a matrix, which has no derivative; a dense one as a buffer."""
    if isinstance(matrix, Tensor):
        module.register_buffer("matrix", matrix, persistent=False)
    else:
        module.matrix = matrix


def normalised_adjacency(graph: pc.Graph) -> Any:
    """``(D + I)^-1/2 (A + I) (D + I)^-1/2``, which a graph convolution multiplies by."""
    matrix = graph.to_scipy().astype(np.float64) + scipy.sparse.eye(graph.num_nodes)
    scale = scipy.sparse.diags(1 / np.sqrt(np.asarray(matrix.sum(1)).ravel()))
    return (scale @ matrix @ scale).tocsr()


class _Convolution(nn.Module):
    """A graph convolution with its matrix made once (the library's makes it at every step)."""

    def __init__(self, matrix: Any, in_channels: int, out_channels: int) -> None:
        super().__init__()
        _hold(self, matrix)
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = nn.Parameter(torch.zeros(out_channels))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return _times(self.matrix, x @ self.weight) + self.bias

    def of_product(self, product: Tensor) -> Tensor:
        """The same, given the product of the matrix and the features."""
        return torch.addmm(self.bias, product, self.weight)


class _MLP(nn.Module):
    def __init__(self, matrix: Any, width: int, out: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, HIDDEN), nn.Linear(HIDDEN, out)

    def forward(self, x: Tensor, product: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


class _GCN(nn.Module):
    def __init__(self, matrix: Any, width: int, out: int) -> None:
        super().__init__()
        self.first = _Convolution(matrix, width, HIDDEN)
        self.second = _Convolution(matrix, HIDDEN, out)

    def forward(self, x: Tensor, product: Tensor) -> Tensor:
        return self.second(self.first.of_product(product).relu())


class _SAGE(nn.Module):
    def __init__(self, matrix: Any, width: int, out: int) -> None:
        super().__init__()
        self.first = _Convolution(matrix, width, HIDDEN // 2)
        self.first_self = nn.Linear(width, HIDDEN // 2)
        self.second = _Convolution(matrix, HIDDEN, out)
        self.second_self = nn.Linear(HIDDEN, out)

    def forward(self, x: Tensor, product: Tensor) -> Tensor:
        hidden = torch.cat([self.first.of_product(product), self.first_self(x)], dim=-1).relu()
        return self.second(hidden) + self.second_self(hidden)


class _APPNP(_MLP):
    """Personalised PageRank of a network's outputs: linear, so that all steps are one matrix."""

    def __init__(self, matrix: Any, width: int, out: int) -> None:
        super().__init__(matrix, width, out)
        _hold(self, matrix)

    def forward(self, x: Tensor, product: Tensor) -> Tensor:
        return _times(self.matrix, super().forward(x, product))


class _GAT(nn.Module):
    """Four heads of four channels, then one head.

    The layers' parameters are those of PyTorch Geometric, and so is what they compute; it is
    written out for networks to be stacked.
    """

    matrix: Tensor

    def __init__(self, edges: Tensor, width: int, out: int) -> None:
        from torch_geometric.nn import GATConv

        super().__init__()
        _hold(self, edges)
        self.first = GATConv(width, HIDDEN // HEADS, heads=HEADS)
        self.second = GATConv(HIDDEN, out)

    def forward(self, x: Tensor, product: Tensor) -> Tensor:
        return _attend(self.second, _attend(self.first, x, self.matrix).relu(), self.matrix)


def _attend(layer: Any, x: Tensor, edges: Tensor) -> Tensor:
    """A layer of graph attention along edges, self loops among them; ``(2, num_edges)``."""
    source, target = edges
    heads = layer.att_src.shape[1]
    hidden = (x @ layer.lin.weight.T).unflatten(-1, (heads, -1))  # (nodes, heads, channels)
    score = (hidden * layer.att_src[0]).sum(-1)[source] + (hidden * layer.att_dst[0]).sum(-1)[
        target
    ]
    score = torch.nn.functional.leaky_relu(score, layer.negative_slope)
    weight = (score - score.detach().max()).exp()  # (edges, heads)
    index = target.unsqueeze(-1).expand_as(weight)
    total = torch.zeros_like(hidden[..., 0]).scatter_add(0, index, weight)
    messages = (weight.unsqueeze(-1) * hidden[source]).flatten(-2)
    index = target.unsqueeze(-1).expand_as(messages)
    summed = torch.zeros_like(hidden.flatten(-2)).scatter_add(0, index, messages)
    return (summed.unflatten(-1, (heads, -1)) / total.unsqueeze(-1)).flatten(-2) + layer.bias


NETWORKS = {
    "mlp": _MLP,
    "gcn": _GCN,
    "sage": _SAGE,
    "gat": _GAT,
    "appnp": _APPNP,
    "short appnp": _APPNP,
}
#: Those whose first layer is a graph convolution.
CONVOLUTIONS = ("gcn", "sage")
#: How many steps of PageRank: the published code takes ten, restarting with probability 0.1.
STEPS = {"appnp": 10, "short appnp": 2}
RESTART = 0.1


def operator(network: str, graph: pc.Graph) -> Any:
    """What a network takes of the graph: edges with self loops, or a matrix to multiply by."""
    if network == "gat":
        loops = torch.arange(graph.num_nodes).expand(2, -1)
        return torch.cat([graph.edge_index, loops], dim=1)
    matrix = normalised_adjacency(graph)
    if network not in STEPS:
        return matrix
    power, total = np.eye(graph.num_nodes), np.zeros(matrix.shape)
    for _ in range(STEPS[network]):
        total += RESTART * power
        power = (1 - RESTART) * (matrix @ power)
    return torch.from_numpy(total + power)


class PublishedNetwork(nn.Module):
    """A published network on the features as they are, not standardised.

    Args:
        name: One of ``NETWORKS``.
        x: The features, shape ``(num_nodes, num_features)``.
        graph: The graph.
        out_channels: The number of outputs.
    """

    x: Tensor
    product: Tensor

    def __init__(self, name: str, x: Tensor, graph: pc.Graph, out_channels: int = 1) -> None:
        super().__init__()
        self.register_buffer("x", x, persistent=False)
        matrix = operator(name, graph)
        # The first layer's features never change, so neither does their product with the matrix.
        product = torch.from_numpy(matrix @ x.numpy()) if name in CONVOLUTIONS else x
        self.register_buffer("product", product, persistent=False)
        self.network = NETWORKS[name](matrix, x.shape[1], out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.network(self.x, self.product)


# ---------------------------------------------------------------- laws
# Laws are not validated at every step: the copula checks the values, and a parameter that is not
# finite makes the loss so.


class PublishedNormal(MarginalFamily):
    """Normal values around the network's output, in units of the values.

    The scale is held fixed while training, at the value for which the log likelihood is minus the
    mean squared error, and set to the validation residuals' afterwards: those of training are too
    small where a network overfits.
    """

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor(math.sqrt(0.5)))

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        return dist.Normal(outputs[..., 0], self.scale, validate_args=False)

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        pass


class PublishedPoisson(MarginalFamily):
    """Poisson counts with the rate ``exp(output) + floor``."""

    discrete = True

    def __init__(self, floor: float = 0.0) -> None:
        super().__init__()
        self.floor = floor

    def forward(self, outputs: Tensor, offset: Tensor | None = None, **scalars: Any) -> Any:
        rate = outputs[..., 0].clamp(max=50.0).exp() + self.floor
        return dist.Poisson(rate, validate_args=False)

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        pass


class PublishedTiedNormal(NormalFamily):
    """Normal values with the variances of the precision, in units of the values."""

    def start(self, y: Tensor, offset: Tensor | None = None) -> None:
        pass


class ClampedNormal(pc.GraphNormal):
    """Tied normals under a copula of clamped scores.

    It is ``GaussianCopula(Normal(loc, s), K, tail_clip=TAIL_CLIP)`` with ``s = K.scale()``. Where
    no score is clamped, marginals and scores cancel and it is the plain normal law, whose
    derivatives need none of ``s``.
    """

    def log_prob(self, value: Tensor) -> Tensor:
        clamped, excess = self._clamped(value)
        return super().log_prob(clamped) + excess.sum(-1)

    def pointwise_log_prob(self, value: Tensor) -> Tensor:
        clamped, excess = self._clamped(value)
        return super().pointwise_log_prob(clamped) + excess

    def condition(self, value: Tensor) -> Any:
        return super().condition(self._clamped(value)[0])

    def _clamped(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """The values of the clamped scores, and how much less likely the true ones are."""
        scale = self.precision.scale()
        residual = value - self.loc
        far = residual.abs() > SCORE_BOUND * scale  # not where the value is missing
        if not bool(far.any()):
            return value, torch.zeros_like(value)
        tail = torch.where(far, residual, 0.0)
        clamped = torch.where(far, self.loc + SCORE_BOUND * tail.sign() * scale, value)
        excess = torch.where(far, SCORE_BOUND**2 - (tail / scale).square(), 0.0) / 2
        return clamped, excess


class PublishedCopula(CopulaGNN):
    """The published joint law: tied normals get their clamped scores, other laws are as ever."""

    def joint(self, outputs: Tensor | None = None, **options: Any) -> Any:
        if not isinstance(self.family, PublishedTiedNormal):
            return super().joint(outputs, **options)
        outputs = self.outputs() if outputs is None else outputs
        return ClampedNormal(outputs[..., 0], self.precision(self.features))


# ---------------------------------------------------------------- precisions


class _OnRawFeatures(nn.Module):
    """An edge regression on the features as they are."""

    x: Tensor

    def __init__(self, precision: pc.EdgeRegressionPrecision, x: Tensor) -> None:
        super().__init__()
        self.precision = precision
        self.register_buffer("x", x, persistent=False)

    def forward(self) -> pc.SparsePrecision:
        return self.precision(self.x)


def published_precision(kind: str, x: Tensor) -> str | Callable[[pc.Graph], nn.Module]:
    """The precision of a published model: ``"none"``, ``"alpha_beta"`` or ``"regression"``."""
    if kind == "alpha_beta":
        return lambda graph: pc.NormalizedAdjacencyPrecision(
            graph, alpha=math.tanh(1.0), beta=math.exp(3.0)
        )
    if kind == "regression":
        return lambda graph: _OnRawFeatures(
            pc.EdgeRegressionPrecision(graph, x.shape[1], symmetric=False, learn_scale=False), x
        )
    return "none"


# ---------------------------------------------------------------- the protocol


def published_model(network: str, precision: str, data: Any, *, counts: bool) -> PublishedCopula:
    """A published model for these data.

    Args:
        network: One of ``NETWORKS``.
        precision: ``"none"`` for the base model, ``"alpha_beta"`` or ``"regression"``.
        data: Has ``x`` and ``edge_index``.
        counts: Whether values are counts.
    """
    family: MarginalFamily
    if counts:
        family = PublishedPoisson(0.0 if precision == "none" else RATE_FLOOR)
    else:
        family = PublishedNormal() if precision == "none" else PublishedTiedNormal()
    graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
    return PublishedCopula(
        backbone=lambda width, out: PublishedNetwork(network, data.x, graph, out),
        marginal=family,
        precision=published_precision(precision, data.x),
        tail_clip=TAIL_CLIP,
    )


def one_group_adam(groups: Any, lr: float) -> torch.optim.Optimizer:
    """Adam with one learning rate and weight decay for every parameter, as published."""
    parameters = [p for group in groups for p in group["params"]]
    return torch.optim.Adam(parameters, lr=lr, weight_decay=WEIGHT_DECAY, fused=True)


def clamp_prediction(prediction: Tensor, y_train: Tensor) -> Tensor:
    """The published clamp: ``[2 min, max / 2]`` of the training values."""
    return prediction.clamp(2 * float(y_train.min()), 0.5 * float(y_train.max()))


def metric(counts: bool) -> Callable[[Any, Any], float]:
    """The paper's metric."""
    return pc.metrics.r2_deviance if counts else pc.metrics.r2


def published_judge(y_train: Tensor, *, counts: bool) -> Callable[[Any, Tensor], float]:
    """The validation score that the published code stops on."""

    def judge(conditional: Any, values: Tensor) -> float:
        keep = ~values.isnan()
        prediction = clamp_prediction(conditional.mean[keep], y_train)
        return metric(counts)(values[keep], prediction)

    return judge


def set_residual_scale(fit: Any, validation: Tensor) -> None:
    """Gives a base model of normal values the scale of its residuals at validation nodes."""
    if isinstance(fit.model.family, PublishedNormal):
        with torch.no_grad():
            residual = (fit.model.data.y - fit.model.outputs()[..., 0])[validation]
            fit.model.family.scale.fill_(residual.square().mean().sqrt())
