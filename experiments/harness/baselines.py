"""Baselines that need no likelihood."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse
import scipy.stats
import torch
from scipy.sparse.linalg import splu

import pyro_copula as pc

from .problems import Problem
from .published import clamp_prediction

_STRENGTHS = (0.5, 0.8, 0.9, 0.95, 0.99, 0.999)
_LEVEL = 0.9


def label_propagation(problem: Problem) -> dict[str, float]:
    """Values of training nodes spread along the edges.

    Every other node is the average of its neighbours, shrunk towards the training mean by a
    factor that the validation nodes choose. Counts are spread on the log scale. The law around a
    prediction is that of the validation residuals; since that has no density, the log score is
    that of a Student-t law around the prediction, fitted to the validation values.
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
    metrics = {
        "r2_deviance" if problem.counts else "r2": score(y_test, mean),
        "published": score(y_test, clamp_prediction(mean, y[problem.train])),
        "log_score": _log_score(problem, smooth),
        "crps": pc.metrics.crps_sample(y_test, samples),
        "coverage": pc.metrics.coverage(y_test, interval),
        "width": pc.metrics.interval_width(interval),
        "validation": best[0],
    }
    if problem.counts:
        below, up_to = ((op(samples, y_test)).double().mean(0) for op in (torch.lt, torch.le))
        pit = pc.metrics.pit(below, up_to, torch.Generator().manual_seed(0))
        metrics["pit_coverage"] = pc.metrics.pit_coverage(pit, _LEVEL)
    return metrics


def _log_score(problem: Problem, smooth: torch.Tensor) -> float:
    """The score on test nodes under the Student-t law with the best score on validation nodes."""
    y, smooth = problem.data.y.double().numpy(), smooth.numpy()

    def score(parameters: np.ndarray, nodes: np.ndarray) -> float:
        df, loc, scale = math.exp(parameters[0]), parameters[1], math.exp(parameters[2])
        law = scipy.stats.t(df, smooth[nodes] + loc, scale)
        return float(_log_probs(law, y[nodes], counts=problem.counts).mean())

    residual = smooth - (np.log1p(y) if problem.counts else y)
    start = [math.log(5.0), 0.0, math.log(residual[problem.validation].std())]
    validation, test = problem.validation.numpy(), problem.test.numpy()
    best = scipy.optimize.minimize(lambda p: -score(p, validation), start, method="Nelder-Mead")
    return score(best.x, test)


def _log_probs(law: Any, y: np.ndarray, *, counts: bool) -> np.ndarray:
    """Log densities of values, or log probabilities of counts, which are rounded values."""
    if not counts:
        return law.logpdf(y)
    lower = np.where(y > 0, np.log1p(np.maximum(y - 0.5, 0.0)), -np.inf)
    upper = np.log1p(y + 0.5)
    high = lower > law.median()  # probabilities are differences in the tail that is small
    inside = np.where(high, law.sf(lower) - law.sf(upper), law.cdf(upper) - law.cdf(lower))
    return np.log(np.maximum(inside, np.finfo(float).tiny))


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
