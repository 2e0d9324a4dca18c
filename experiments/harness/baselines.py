"""Baselines that need no likelihood."""

from __future__ import annotations

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.linalg import splu

import pyro_copula as pc

from .problems import Problem

_STRENGTHS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
_LEVEL = 0.9


def label_propagation(problem: Problem) -> dict[str, float]:
    """Values of training nodes spread along the edges.

    Every other node is the average of its neighbours, shrunk towards the training mean by a
    factor that the validation nodes choose. Counts are spread on the log scale. The law around a
    prediction is that of the validation residuals, so coverage, width and CRPS can be compared;
    a log score it has not.
    """
    y = problem.data.y.double()
    values = torch.log1p(y) if problem.counts else y
    best: tuple[float, torch.Tensor] | None = None
    score = pc.metrics.r2_deviance if problem.counts else pc.metrics.r2
    for strength in _STRENGTHS:
        smooth = torch.from_numpy(_propagate(problem, values.numpy(), strength))
        prediction = _back(smooth, problem)
        value = score(y[problem.validation], prediction[problem.validation])
        if best is None or value > best[0]:
            best = (value, smooth)
    assert best is not None
    smooth = best[1]
    residual = (values - smooth)[problem.validation]
    samples = _back(smooth[problem.test] + residual.unsqueeze(-1), problem)
    samples = samples.round() if problem.counts else samples
    tail = (1 - _LEVEL) / 2
    interval = (samples.quantile(tail, dim=0), samples.quantile(1 - tail, dim=0))
    y_test = problem.y_test.double()
    mean = _back(smooth, problem)[problem.test]
    return {
        "r2_deviance" if problem.counts else "r2": score(y_test, mean),
        "published": score(y_test, mean),
        "crps": pc.metrics.crps_sample(y_test, samples),
        "coverage": pc.metrics.coverage(y_test, interval),
        "width": pc.metrics.interval_width(interval),
        "validation": best[0],
    }


def _propagate(problem: Problem, values: np.ndarray, strength: float) -> np.ndarray:
    """Solves ``x_i = mean + strength * average over neighbours of (x_j - mean)`` off training."""
    graph = pc.Graph.from_edge_index(problem.data.edge_index, num_nodes=len(values))
    adjacency = graph.to_scipy().astype(np.float64)
    degree = np.maximum(np.asarray(adjacency.sum(1)).ravel(), 1.0)
    system = (scipy.sparse.diags(degree) - strength * adjacency).tocsr()
    known = problem.train.numpy()
    mean = values[known].mean()
    result = values.copy()
    right = strength * adjacency[~known][:, known] @ (values[known] - mean)
    result[~known] = mean + splu(system[~known][:, ~known].tocsc()).solve(right)
    return result


def _back(values: torch.Tensor, problem: Problem) -> torch.Tensor:
    return torch.expm1(values).clamp(min=0.0) if problem.counts else values
