"""Gaussian copulas on graphs, for Pyro.

One joint law for the values at the nodes of a graph: each node has its own marginal, and a
Gaussian copula with a sparse precision on the graph couples them.

    import pyro_copula as pc

    graph = pc.Graph.from_edge_index(edge_index, num_nodes=n)
    K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
    copula = pc.GaussianCopula(dist.Poisson(rate), precision=K)
    copula.condition(y).interval(0.9)          # y is NaN at the nodes to predict

and, a level above it, a model whose marginals a graph neural network gives:

    model = pc.CopulaGNN(recipe="counts")
    fit = pc.fit(model, data)                  # PyTorch Geometric's Data, y NaN where missing
    fit.predict().interval(0.9)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from . import (
    calibration,
    datasets,
    diagnostics,
    errors,
    inference,
    marginals,
    metrics,
    models,
    nn,
    simulate,
    special,
)
from ._version import __version__
from .calibration import SBCResult, simulation_based_calibration
from .diagnostics import (
    Diagnosis,
    coverage_curve,
    diagnose,
    morans_i,
    pit_histogram,
    quantile_residuals,
)
from .distributions import ConditionalCopula, ConditionalNormal, GaussianCopula, GraphNormal
from .graph import Graph
from .inference import (
    Ensemble,
    Fit,
    GraphRoles,
    Prediction,
    Schedule,
    fit,
    graph_roles,
    load_fit,
)
from .models import CopulaGNN, MarginalFamily, MixedFamily
from .precision import (
    CARPrecision,
    EdgeRegressionPrecision,
    LaplacianPrecision,
    NormalizedAdjacencyPrecision,
    SparsePrecision,
    WeightedLaplacianPrecision,
)

if TYPE_CHECKING:
    from .inference_data import to_inference_data

__all__ = [
    "CARPrecision",
    "ConditionalCopula",
    "ConditionalNormal",
    "CopulaGNN",
    "Diagnosis",
    "EdgeRegressionPrecision",
    "Ensemble",
    "Fit",
    "GaussianCopula",
    "Graph",
    "GraphNormal",
    "GraphRoles",
    "LaplacianPrecision",
    "MarginalFamily",
    "MixedFamily",
    "NormalizedAdjacencyPrecision",
    "Prediction",
    "SBCResult",
    "Schedule",
    "SparsePrecision",
    "WeightedLaplacianPrecision",
    "__version__",
    "calibration",
    "coverage_curve",
    "datasets",
    "diagnose",
    "diagnostics",
    "errors",
    "fit",
    "graph_roles",
    "inference",
    "load_fit",
    "marginals",
    "metrics",
    "models",
    "morans_i",
    "nn",
    "pit_histogram",
    "quantile_residuals",
    "simulate",
    "simulation_based_calibration",
    "special",
    "to_inference_data",
]

#: Names that are imported when first asked for, for what they import is heavy.
_LAZY = {"to_inference_data": "inference_data"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
