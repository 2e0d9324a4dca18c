"""The combinations of law, precision and graph on which the copula is judged."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from laws import Law
from scipy import stats

import pyro_copula as pc


def laplacian(graph: pc.Graph, a: torch.Tensor, b: torch.Tensor) -> pc.SparsePrecision:
    return pc.LaplacianPrecision(graph)(tau=a.exp(), gamma=b.exp())


def adjacency(graph: pc.Graph, a: torch.Tensor, b: torch.Tensor) -> pc.SparsePrecision:
    return pc.NormalizedAdjacencyPrecision(graph)(alpha=a.tanh(), beta=b.exp())


def car(graph: pc.Graph, a: torch.Tensor, b: torch.Tensor) -> pc.SparsePrecision:
    return pc.CARPrecision(graph)(rho=a.tanh(), tau=b.exp())


def edge_regression(graph: pc.Graph, a: torch.Tensor, b: torch.Tensor) -> pc.SparsePrecision:
    torch.manual_seed(3)
    module = pc.EdgeRegressionPrecision(graph, in_channels=2).double()
    x = torch.linspace(-1, 1, 2 * graph.num_nodes).reshape(-1, 2) * a
    return module(x, scale=b.exp())


PRECISIONS = {
    "laplacian": laplacian,
    "normalized_adjacency": adjacency,
    "car": car,
    "edge_regression": edge_regression,
}


def missing_pattern(n: int) -> np.ndarray:
    """Observed nodes: every third one, from the second on, is missing."""
    return np.arange(n) % 3 != 1


def values(law: Law, n: int, seed: int = 5) -> torch.Tensor:
    """Values spread over the law, from the lower to the upper tail."""
    u = np.random.default_rng(seed).permutation(np.linspace(0.04, 0.97, n))
    return torch.tensor(law.frozen(law.parameters(n)).ppf(u))


def scores(law: Law, frozen: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Normal scores by scipy (at the midpoint for discrete laws) and marginal log densities."""
    if not law.discrete:
        return stats.norm.ppf(frozen.cdf(y)), frozen.logpdf(y)
    return stats.norm.ppf((frozen.cdf(y) + frozen.cdf(y - 1)) / 2), frozen.logpmf(y)
