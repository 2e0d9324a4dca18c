"""Boxes on small graphs."""

from __future__ import annotations

import math

import numpy as np
import torch

import pyro_copula as pc


def random_precision(rng: np.random.Generator, n: int) -> pc.SparsePrecision:
    """A diagonally dominant precision on a random graph, by the sparse backend."""
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.uniform() < 0.5]
    graph = pc.Graph.from_edges(pairs, num_nodes=n)
    edges = torch.tensor(rng.normal(size=graph.num_edges) - 0.5)
    diagonal = torch.full((n,), 0.3)
    for e, (i, j) in enumerate(graph.edges):
        diagonal[i] += edges[e].abs()
        diagonal[j] += edges[e].abs()
    return pc.SparsePrecision(graph, diagonal, edges, backend="sparse")


def random_ends(rng: np.random.Generator, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Intervals, some of them half infinite and one free."""
    lower = torch.tensor(rng.normal(size=n) - 0.5)
    upper = lower + torch.tensor(rng.uniform(0.2, 2.0, size=n))
    lower[rng.uniform(size=n) < 0.25] = -math.inf
    upper[rng.uniform(size=n) < 0.25] = math.inf
    return lower, upper


def uniforms(rng: np.random.Generator, n: int, count: int) -> torch.Tensor:
    return torch.tensor(rng.uniform(size=(n, count)))
