r"""Gaussian copulas on graphs, for Pyro.

One joint law for the values at the nodes of a graph: each node has its own marginal, and a
Gaussian copula with a sparse precision on the graph couples them. Values may be missing (NaN) at
any node; they are integrated out exactly, and predicted with exact intervals.

In a Pyro model of your own it is a distribution:

>>> import torch
>>> import pyro.distributions as dist
>>> import pyro_copula as pc
>>> graph = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
>>> K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
>>> copula = pc.GaussianCopula(dist.Poisson(torch.full((4,), 9.0)), precision=K)
>>> y = torch.tensor([17.0, float("nan"), 12.0, 5.0])
>>> copula.condition(y).interval(0.9)  # of node 1, given the others
Interval(lower=tensor([12.]), upper=tensor([17.]))

A level above there is a model whose marginals a network gives, and its fit:

>>> data = pc.datasets.nc_sids()  # any PyTorch Geometric Data; NaN in y is missing, too
>>> observed = torch.arange(100) % 5 != 0
>>> model = pc.CopulaGNN("linear", "negative_binomial", "car", exposure="exposure")
>>> fit = pc.fit(model, data, observed=observed, schedule=pc.Schedule(max_epochs=20))
>>> fit.predict().interval(0.9).lower.shape
torch.Size([20])

And no Python is needed for the command line: `pyro-copula fit --help`.

## What is where

| to | use |
|---|---|
| say who is a neighbour of whom | `Graph` |
| cut it into blocks, for warm starts | `partition`, `Partition` |
| say how alike neighbours are | `CARPrecision`, `LaplacianPrecision` |
| &nbsp; | `NormalizedAdjacencyPrecision` |
| &nbsp; by weights learned from features | `EdgeRegressionPrecision` |
| &nbsp; | `WeightedLaplacianPrecision` |
| &nbsp; with values of your own | `SparsePrecision` |
| choose how exact or how fast, on huge graphs | `Iterative`, as `backend=` |
| couple the nodes of a Pyro model | `GaussianCopula` |
| &nbsp; if all are normal | `GraphNormal` |
| have the law of missing nodes | `ConditionalCopula`, `ConditionalNormal`, from `.condition(y)` |
| choose, register or mix marginals | `marginals` |
| make a model, and fit it | `CopulaGNN`, `fit`, `Schedule` |
| &nbsp; its parts, and parts of your own | `models`, `nn`, `MarginalFamily`, `MixedFamily` |
| share the work of a fit among processes | `distributed` |
| predict, save, summarise | `Fit`, `Ensemble`, `Prediction`, `load_fit`, `inference` |
| use arviz: `.loo`, `.compare`, `.plot_trace` | `to_inference_data` |
| ask what is wrong with a fit | `diagnose`, `Diagnosis`, `diagnostics` |
| &nbsp; one check at a time | `quantile_residuals`, `pit_histogram`, `coverage_curve`, `morans_i` |
| ask what the graph is good for | `graph_roles`, `GraphRoles` |
| check that a sampler is right | `simulation_based_calibration`, `SBCResult`, `calibration` |
| score predictions | `metrics` |
| get data, real or made up | `datasets`, `simulate` |
| differentiate incomplete gamma and beta functions | `special` |
| catch an error by its kind | `errors` |
| know the version | `__version__` |

## Words of other fields

| you say | it is |
|---|---|
| **proper CAR** (PyMC's `CAR`) | `CARPrecision`, with precision :math:`\tau (D - \rho A)` |
| **Leroux**, INLA's `besagproper` | `LaplacianPrecision`: the same laws in other parameters |
| **ICAR**, INLA's `besag` | improper, so it has no copula; a proper CAR with a prior near 1 |
| **BYM**, BYM2: field and noise | a nugget beside the field: `GaussianCopula(nugget=...)`, |
| &nbsp; | `CopulaGNN(nugget=True)`; it is :math:`1 - \phi` of BYM2 |
| **GMRF**, precision matrix `Q` | `SparsePrecision`, any values on the pattern of the graph |
| **exposure**, offset, INLA's `E` | `CopulaGNN(exposure="births")`, a factor of the mean |
| **overdispersion**, `nbinomial` | `marginal="negative_binomial"`; `dispersion` is 1 / size |
| **zero inflation** | `marginal="zero_inflated_negative_binomial"` |
| **GLM**, fixed effects | `backbone="linear"`; log link for counts and positive values |
| latent field, random effect | the normal scores; a marginal stays what you chose |
| spatial weights `W`, adjacency | `Graph.from_scipy`, `Graph.from_edges` |
| **kriging**, prediction, imputation | `GaussianCopula.condition`, `Fit.predict` |
| **LOO**, CPO | `GaussianCopula.pointwise_log_prob`, exact; `to_inference_data` |
| **PIT**, quantile residuals | `pit_histogram`, `quantile_residuals` |
| posterior of the parameters | `fit(..., method="nuts")`, or your own Pyro model |
| **SBC** | `simulation_based_calibration` |
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
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
    from .calibration import SBCResult, simulation_based_calibration
    from .crew import distributed
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
    from .inference_data import to_inference_data
    from .linalg import Iterative
    from .models import CopulaGNN, MarginalFamily, MixedFamily
    from .partitions import Partition, partition
    from .precision import (
        CARPrecision,
        EdgeRegressionPrecision,
        LaplacianPrecision,
        NormalizedAdjacencyPrecision,
        SparsePrecision,
        WeightedLaplacianPrecision,
    )

#: Where each public name comes from. They are imported when first asked for, so that the command
#: line answers ``--help`` without torch, and arviz is loaded by those who use it.
_HOMES = {
    "calibration": ("SBCResult", "simulation_based_calibration"),
    "crew": ("distributed",),
    "diagnostics": (
        "Diagnosis",
        "coverage_curve",
        "diagnose",
        "morans_i",
        "pit_histogram",
        "quantile_residuals",
    ),
    "distributions": ("ConditionalCopula", "ConditionalNormal", "GaussianCopula", "GraphNormal"),
    "graph": ("Graph",),
    "inference": (
        "Ensemble",
        "Fit",
        "GraphRoles",
        "Prediction",
        "Schedule",
        "fit",
        "graph_roles",
        "load_fit",
    ),
    "inference_data": ("to_inference_data",),
    "linalg": ("Iterative",),
    "models": ("CopulaGNN", "MarginalFamily", "MixedFamily"),
    "partitions": ("Partition", "partition"),
    "precision": (
        "CARPrecision",
        "EdgeRegressionPrecision",
        "LaplacianPrecision",
        "NormalizedAdjacencyPrecision",
        "SparsePrecision",
        "WeightedLaplacianPrecision",
    ),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

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
    "Iterative",
    "LaplacianPrecision",
    "MarginalFamily",
    "MixedFamily",
    "NormalizedAdjacencyPrecision",
    "Partition",
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
    "distributed",
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
    "partition",
    "pit_histogram",
    "quantile_residuals",
    "simulate",
    "simulation_based_calibration",
    "special",
    "to_inference_data",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        found = getattr(import_module(f".{_HOME[name]}", __name__), name)
    elif name in __all__:
        found = import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found  # next time it is found without this function
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
