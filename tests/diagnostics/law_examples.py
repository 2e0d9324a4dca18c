"""Laws on a small grid that the tests of diagnostics share."""

from __future__ import annotations

import math

import pyro.distributions as dist
import torch

import pyro_copula as pc

MEAN = 5.0


def marginal(family, n):
    """Marginals with parameters that differ by node."""
    x = torch.linspace(-1, 1, n)
    return {
        "normal": lambda: dist.Normal(x, 0.5 + x.abs()),
        "gamma": lambda: dist.Gamma(2.0 + x, torch.tensor(1.5)),
        "poisson": lambda: dist.Poisson(MEAN * x.exp()),
        "negative_binomial": lambda: dist.NegativeBinomial(torch.full((n,), 3.0), logits=x + 1.5),
        "mixed": lambda: pc.marginals.Mixed(
            {"real": dist.Normal(x, 1.0), "count": dist.Poisson(MEAN * x.exp())},
            kind=torch.arange(n) % 2,
        ),
    }[family]()


def law(family="normal", *, dependence="precision", rows=4, columns=5, rho=0.9):
    """A joint law; ``"graph_normal"`` has the variances of its precision."""
    graph = pc.simulate.grid_graph(rows, columns)
    K = pc.CARPrecision(graph)(rho=rho, tau=0.7)
    n = graph.num_nodes
    if family == "graph_normal":
        nugget = 0.4 if dependence == "nugget" else None
        return pc.GraphNormal(torch.linspace(-1, 1, n), precision=K, nugget=nugget)
    laws = marginal(family, n)
    if dependence == "nugget":
        return pc.GaussianCopula(laws, precision=K, nugget=0.3)
    if dependence == "matrix":
        return pc.GaussianCopula(laws, correlation_matrix=correlation(K.to_dense().inverse()))
    return pc.GaussianCopula(laws, precision=K)


def correlation(covariance):
    scale = covariance.diagonal().sqrt()
    return covariance / torch.outer(scale, scale)


def dense_correlation(found):
    """The correlation of the latent vector, from the definitions."""
    if found.precision is None:
        return found.latent.covariance
    covariance = found.precision.to_dense().inverse()
    if isinstance(found, pc.GraphNormal):
        noise = getattr(found.latent, "nugget", torch.tensor(0.0))
        return correlation(covariance + noise * torch.eye(len(covariance)))
    share = getattr(found.latent, "nugget", torch.tensor(0.0))
    return (1 - share) * correlation(covariance) + share * torch.eye(len(covariance))


def values(found, *, missing=()):
    """One draw, some of it missing."""
    y = found.sample()
    y[list(missing)] = math.nan
    return y
