r"""The synthetic settings of the paper, and counts made from them.

With features :math:`X`, the adjacency matrix :math:`A` of a latent-space graph, its degrees
:math:`D`, its Laplacian :math:`L` and the random-walk average :math:`P = (D + I)^{-1} (A + I)`:

========  ====================  ===================================  =========================
setting   mean                  covariance                           the graph is
========  ====================  ===================================  =========================
(a)       :math:`P X w`         :math:`\sigma^2 I`                   representational
(b)       :math:`X w`           :math:`\tau (L + \gamma I)^{-1}`     correlational
(c)       :math:`P X w`         :math:`\tau (L + \gamma I)^{-1}`     both
========  ====================  ===================================  =========================

References:
    Ma, Chang, Zhang and Mei, CopulaGNN, ICLR 2021, Section 3 and Appendix A.
    Hoff, Raftery and Handcock, Latent space approaches to social network analysis, JASA 2002.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pyro.distributions as dist
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from .. import marginals
from ..errors import InvalidArgumentError
from ..errors.counts import check_count
from ..graph import Graph
from ..precision import LaplacianPrecision
from .graphs import _generator

SETTINGS = ("a", "b", "c")
FAMILIES = ("normal", "poisson", "negative_binomial")
EDGE_COUNTS = ("nonzeros", "undirected")

#: How many distances are computed at a time (float64: 32 MB).
DISTANCE_CHUNK = 4_000_000


class LatentSpaceGraph(NamedTuple):
    """A graph with the features that its edges come from.

    Attributes:
        graph: The graph.
        x: The features, ``(num_nodes, num_features)``.
        graph_weight: What maps them to latent positions, ``(num_features, latent_dim)``.

    Example:
        >>> made = latent_space_graph(num_nodes=20, num_edges=60, num_features=4, seed=1)
        >>> made.x.shape, made.graph_weight.shape
        (torch.Size([20, 4]), torch.Size([4, 10]))
    """

    graph: Graph
    x: Tensor  # (num_nodes, num_features)
    graph_weight: Tensor  # (num_features, latent_dim)


def latent_space_graph(
    num_nodes: int = 300,
    num_edges: int = 5000,
    num_features: int = 10,
    latent_dim: int = 10,
    edge_count: str = "nonzeros",
    seed: int = 0,
) -> LatentSpaceGraph:
    """Standard normal features, and edges between the nodes whose features are closest.

    The latent position of a node is ``x @ graph_weight``, with standard normal weights; the pairs
    at the shortest latent distances are joined.

    Args:
        num_nodes: The number of nodes.
        num_edges: The number of edges, as ``edge_count`` counts them.
        num_features: The number of features.
        latent_dim: The dimension of the latent space.
        edge_count: ``"nonzeros"`` counts as the published code does, the non-zeros of the
            symmetric ``A + I``: 5,000 of them on 300 nodes are 2,350 undirected edges, and the
            published tables rest on it. ``"undirected"`` counts every edge once, as the paper's
            text does.
        seed: The seed.

    Example:
        >>> latent_space_graph().graph
        Graph(num_nodes=300, num_edges=2350, components=..., isolated=...)
    """
    generator = _generator(seed)
    return _latent_space_graph(
        num_nodes, num_edges, num_features, latent_dim, edge_count, generator
    )


def paper_setting(
    setting: str,
    *,
    sigma2: float = 2.5,
    tau: float = 1.0,
    gamma: float = 0.1,
    seed: int = 0,
    family: str = "normal",
    num_nodes: int = 300,
    num_edges: int = 5000,
    num_features: int = 10,
    latent_dim: int = 10,
    edge_count: str = "nonzeros",
    count_level: float = 5.0,
    count_spread: float = 0.7,
    total_count: float = 3.0,
) -> Any:
    r"""One data set of the paper's simulations, or a count version of it, with its truth.

    Normal outcomes have the mean and covariance in the table at the top of this module. Counts have
    the marginal means

    .. math:: \log m_i = \log(\text{count\_level}) + \text{count\_spread} \cdot
        (\mu_i - \bar\mu) / \mathrm{sd}(\mu)

    with :math:`\mu` the mean of the normal setting. They are independent in setting (a) and coupled
    by a Gaussian copula with the precision :math:`L + \gamma I` in (b) and (c). The same seed gives
    the same features, graph, weights and noise in every setting and family.

    Args:
        setting: ``"a"``, ``"b"`` or ``"c"``.
        sigma2: The noise variance of normal outcomes in setting (a); the paper takes 2.5, 5, 10
            and 20.
        tau: The overall variance of normal outcomes in (b) and (c); the paper takes 0.5, 1, 2 and
            5. Counts do not depend on it: a copula keeps the correlation only.
        gamma: The regulariser of the Laplacian in (b) and (c).
        seed: The seed, kept on the result.
        family: ``"normal"``, ``"poisson"`` or ``"negative_binomial"``.
        num_nodes: The number of nodes.
        num_edges: As in :func:`latent_space_graph`.
        num_features: The number of features.
        latent_dim: The dimension of the latent space.
        edge_count: As in :func:`latent_space_graph`.
        count_level: The mean count of a node with average :math:`\mu`.
        count_spread: The standard deviation of the log means of counts.
        total_count: Of the negative binomial, whose variance is
            :math:`m_i + m_i^2 / \text{total\_count}`.

    Returns:
        A PyTorch Geometric ``Data`` with ``x``, ``edge_index`` (both directions), ``y``, and
        ``train_mask``, ``val_mask``, ``test_mask``: nodes are exchangeable, so the first third
        trains, the second validates and the rest tests. The truth is in ``mean`` (of every node's
        marginal), ``linear_mean`` (:math:`\mu`), ``weight`` (:math:`w`), ``graph_weight``,
        ``setting``, ``family``, ``seed`` and those of ``sigma2``, ``tau``, ``gamma`` and
        ``total_count`` that the law has.

    Example:
        >>> data = paper_setting("c", tau=2.0, seed=1)
        >>> data.y.shape, int(data.train_mask.sum()), data.tau
        (torch.Size([300]), 100, 2.0)
    """
    _check_choice("setting", setting, SETTINGS)
    _check_choice("family", family, FAMILIES)
    parameters = {"sigma2": sigma2, "tau": tau, "gamma": gamma, "total_count": total_count}
    parameters |= {"count_level": count_level, "count_spread": count_spread}
    _check_positive(**parameters)
    generator = _generator(seed)
    graph, x, graph_weight = _latent_space_graph(
        num_nodes, num_edges, num_features, latent_dim, edge_count, generator, torch.float64
    )
    weight = torch.randn(num_features, dtype=torch.float64, generator=generator)
    noise = torch.randn(num_nodes, dtype=torch.float64, generator=generator)
    mu = x @ weight if setting == "b" else _neighbourhood_mean(graph, x @ weight)
    mean = mu
    if family != "normal":
        standard = (mu - mu.mean()) / mu.std(correction=0)
        mean = count_level * torch.exp(count_spread * standard)
    y = _draw(graph, setting, family, mean, noise, sigma2, tau, gamma, total_count)
    truth: dict[str, Any] = {"setting": setting, "family": family, "seed": seed}
    if setting != "a":
        truth["gamma"] = gamma
    if family == "normal":
        truth |= {"sigma2": sigma2} if setting == "a" else {"tau": tau}
    if family == "negative_binomial":
        truth["total_count"] = total_count
    tensors = {"x": x, "y": y, "mean": mean, "linear_mean": mu}
    tensors |= {"weight": weight, "graph_weight": graph_weight}
    return _make_data(graph, tensors, truth)


# ---------------------------------------------------------------- the graph


def _latent_space_graph(
    num_nodes: int,
    num_edges: int,
    num_features: int,
    latent_dim: int,
    edge_count: str,
    generator: torch.Generator,
    dtype: torch.dtype | None = None,
) -> LatentSpaceGraph:
    for name, value in (("num_features", num_features), ("latent_dim", latent_dim)):
        check_count(name, value, "Pass 1 or more.")
    check_count("num_nodes", num_nodes, "Pass 1 or more.")
    count = _undirected_count(num_nodes, num_edges, edge_count)
    x = torch.randn((num_nodes, num_features), dtype=torch.float64, generator=generator)
    weight = torch.randn((num_features, latent_dim), dtype=torch.float64, generator=generator)
    graph = Graph(_closest_pairs((x @ weight).numpy(), count), num_nodes)
    dtype = dtype or torch.get_default_dtype()
    return LatentSpaceGraph(graph, x.to(dtype), weight.to(dtype))


def _undirected_count(num_nodes: int, num_edges: int, edge_count: str) -> int:
    _check_choice("edge_count", edge_count, EDGE_COUNTS)
    check_count("num_edges", num_edges, "Pass 0 or more.", least=0)
    count = num_edges if edge_count == "undirected" else (num_edges - num_nodes) // 2
    if not 0 <= count <= num_nodes * (num_nodes - 1) // 2:
        undirected = edge_count == "undirected"
        least = 0 if undirected else num_nodes
        most = num_nodes * (num_nodes - 1) // 2 if undirected else num_nodes**2
        raise InvalidArgumentError(
            "num_edges",
            f'from {least} to {most} for {num_nodes} nodes and edge_count="{edge_count}"',
            f"{num_edges}",
            'With edge_count="nonzeros" each node counts once and each edge twice.',
        )
    return count


def _closest_pairs(z: np.ndarray, count: int) -> np.ndarray:
    """The ``count`` pairs of rows at the shortest distances, in blocks of bounded size."""
    num_nodes = len(z)
    best, distance, limit = np.zeros((0, 2), dtype=np.int64), np.zeros(0), math.inf
    step = max(1, DISTANCE_CHUNK // num_nodes)
    for start in range(0, num_nodes, step):
        block = cdist(z[start : start + step], z)
        later = np.arange(num_nodes) > np.arange(start, start + len(block))[:, None]
        row, column = np.nonzero(later & (block < limit))
        distance = np.concatenate([distance, block[row, column]])
        best = np.concatenate([best, np.stack([row + start, column], axis=1)])
        if count < len(best):
            keep = np.argpartition(distance, count)[:count]
            best, distance = best[keep], distance[keep]
            limit = distance.max(initial=0.0)
    return best


# ---------------------------------------------------------------- the outcomes


def _neighbourhood_mean(graph: Graph, values: Tensor) -> Tensor:
    """``(D + I)^-1 (A + I) values``."""
    total = torch.from_numpy(graph.to_scipy() @ values.numpy()) + values
    return total / (graph.degree + 1)


def _draw(
    graph: Graph,
    setting: str,
    family: str,
    mean: Tensor,
    noise: Tensor,
    sigma2: float,
    tau: float,
    gamma: float,
    total_count: float,
) -> Tensor:
    """Standard normal noise turned into outcomes of the law."""
    if setting == "a":
        deviation, score = math.sqrt(sigma2) * noise, noise
    else:
        precision = LaplacianPrecision(graph, learnable=False)(
            tau=torch.tensor(tau, dtype=torch.float64),
            gamma=torch.tensor(gamma, dtype=torch.float64),
        )
        deviation = precision.color(noise)
        score = deviation / precision.scale() if family != "normal" else deviation
    if family == "normal":
        return mean + deviation
    law: Any = dist.Poisson(mean)
    if family == "negative_binomial":
        law = dist.NegativeBinomial(
            torch.full_like(mean, total_count), logits=mean.log() - math.log(total_count)
        )
    return marginals.from_normal_score(law, score)


def _make_data(graph: Graph, tensors: dict[str, Tensor], truth: dict[str, Any]) -> Any:
    from torch_geometric.data import Data

    num_nodes, third = graph.num_nodes, graph.num_nodes // 3
    place = torch.arange(num_nodes)
    dtype = torch.get_default_dtype()
    return Data(
        edge_index=graph.edge_index.clone(),
        num_nodes=num_nodes,
        train_mask=place < third,
        val_mask=(place >= third) & (place < 2 * third),
        test_mask=place >= 2 * third,
        **{name: tensor.to(dtype) for name, tensor in tensors.items()},
        **truth,
    )


def _check_positive(**parameters: float) -> None:
    for name, value in parameters.items():
        if not (0 < value < math.inf):
            raise InvalidArgumentError(name, "positive and finite", repr(value), "Pass 1.0.")


def _check_choice(argument: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgumentError(
            argument, f"one of {choices}", repr(value), f"Pass {argument}={choices[0]!r}."
        )
