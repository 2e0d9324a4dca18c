"""Small data and short schedules that the tests of fits share."""

from __future__ import annotations

import torch
from torch_geometric.data import Data

import pyro_copula as pc

SHORT = pc.Schedule(max_epochs=60, check_every=5, patience=5)


def example(family="normal", n=60):
    """A grid with one informative feature; three of four nodes are observed."""
    torch.manual_seed(2)
    graph = pc.simulate.grid_graph(6, n // 6)
    x = torch.randn(n, 2)
    K = pc.CARPrecision(graph)(rho=0.95, tau=1.0)
    mean = x[:, 0]
    if family == "normal":
        y = pc.GraphNormal(mean, precision=K).sample()
    else:
        rate = (1 + 0.5 * mean).exp()
        y = pc.GaussianCopula(torch.distributions.Poisson(rate), precision=K).sample()
    data = Data(x=x, edge_index=graph.edge_index, y=y)
    data.observed = torch.arange(n) % 4 != 1
    return data


def quick_fit(family="normal", method="mle", **options):
    """A linear model of the example, fitted in a moment."""
    data = example(family)
    model = pc.CopulaGNN("linear", family, "car")
    options = {"schedule": SHORT, **options}
    return pc.fit(model, data, data.observed, method, **options)
