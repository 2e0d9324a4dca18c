"""Data for the tests of models: a small grid with features and values of every kind."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

import pyro_copula as pc

COUNTS = ("poisson", "negative_binomial", "zero_inflated", "zero_truncated", "shifted")


def example(kind="real", n=40):
    """A grid of ``n`` nodes with three features, an exposure, and values of a kind."""
    torch.manual_seed(1)
    graph = pc.simulate.grid_graph(5, n // 5)
    x = torch.randn(n, 3)
    y = {
        "real": 50_000 + 9_000 * torch.randn(n),
        "positive": (8 + torch.randn(n)).exp(),
        "counts": 1 + torch.poisson(20 * torch.rand(n)),
        "binary": (torch.rand(n) < 0.3).double(),
    }[kind]
    return Data(x=x, edge_index=graph.edge_index, y=y, exposure=1 + torch.rand(n))


def kind_of(family):
    """The kind of values that a family takes."""
    if family.startswith(COUNTS):
        return "counts"
    return {"lognormal": "positive", "gamma": "positive", "bernoulli": "binary"}.get(family, "real")
