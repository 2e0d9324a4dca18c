"""Gaussian copulas on graphs, for Pyro.

One joint law for the values at the nodes of a graph: each node has its own marginal, and a
Gaussian copula with a sparse precision on the graph couples them.

    import pyro_copula as pc

    graph = pc.Graph.from_edge_index(edge_index, num_nodes=n)
    K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
    copula = pc.GaussianCopula(dist.Poisson(rate), precision=K)
    copula.condition(y).interval(0.9)          # y is NaN at the nodes to predict
"""

from . import datasets, errors, marginals, metrics, simulate, special
from ._version import __version__
from .distributions import ConditionalCopula, ConditionalNormal, GaussianCopula, GraphNormal
from .graph import Graph
from .precision import (
    CARPrecision,
    EdgeRegressionPrecision,
    LaplacianPrecision,
    NormalizedAdjacencyPrecision,
    SparsePrecision,
    WeightedLaplacianPrecision,
)

__all__ = [
    "CARPrecision",
    "ConditionalCopula",
    "ConditionalNormal",
    "EdgeRegressionPrecision",
    "GaussianCopula",
    "Graph",
    "GraphNormal",
    "LaplacianPrecision",
    "NormalizedAdjacencyPrecision",
    "SparsePrecision",
    "WeightedLaplacianPrecision",
    "__version__",
    "datasets",
    "errors",
    "marginals",
    "metrics",
    "simulate",
    "special",
]
