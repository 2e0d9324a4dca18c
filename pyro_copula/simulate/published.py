"""The simulated data sets of the paper's code, number by number.

:func:`~pyro_copula.simulate.paper_setting` draws new data sets from the same laws. These are the
ones behind the published tables: the same seed gives the same features, graph and weights, because
numpy's legacy generator is asked for the same numbers in the same order. The noise goes through a
singular value decomposition, whose signs are up to the linear algebra library: outcomes have the
same law everywhere, and the same values where that library decides alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from ..errors.counts import check_count
from ..graph import Graph
from .settings import (
    SETTINGS,
    _check_choice,
    _check_positive,
    _closest_pairs,
    _make_data,
    _neighbourhood_mean,
    _undirected_count,
)

NUM_NODES, NUM_EDGES, NUM_FEATURES = 300, 5000, 10
#: Numpy's legacy generator takes no larger seed.
LARGEST_SEED = 2**32 - 1


def published_setting(
    setting: str,
    *,
    sigma2: float = 2.5,
    tau: float = 1.0,
    gamma: float = 0.1,
    seed: int = 1,
    noise_seed: int | None = None,
) -> Any:
    """A data set of the published code: 300 nodes, 2,350 edges, 10 features, normal outcomes.

    The published code numbers its trials from 1 and, unless told otherwise, takes data set
    ``ceil(k / 10)`` for trial ``k``: a hundred trials are ten data sets with ten initialisations.

    Args:
        setting: ``"a"``, ``"b"`` or ``"c"``, as in :func:`~pyro_copula.simulate.paper_setting`.
        sigma2: The noise variance of setting (a).
        tau: The overall variance of (b) and (c).
        gamma: The regulariser of the Laplacian in (b) and (c).
        seed: Which data set; the published ones start at 1.
        noise_seed: Draws the noise anew from this seed, and leaves the rest as published.

    Returns:
        The same as :func:`~pyro_copula.simulate.paper_setting`.

    Example:
        >>> data = published_setting("c", tau=2.0, seed=3)
        >>> data.x.shape, data.edge_index.shape[1] // 2, data.tau
        (torch.Size([300, 10]), 2350, 2.0)
    """
    _check_choice("setting", setting, SETTINGS)
    _check_positive(sigma2=sigma2, tau=tau, gamma=gamma)
    check_count("seed", seed, "Pass 0 or more.", least=0, most=LARGEST_SEED)
    generator = np.random.RandomState(int(seed))
    x = generator.normal(size=(NUM_NODES, NUM_FEATURES))
    graph_weight = generator.normal(size=(NUM_FEATURES, NUM_FEATURES))
    weight = generator.normal(size=NUM_FEATURES)
    count = _undirected_count(NUM_NODES, NUM_EDGES, "nonzeros")
    graph = Graph(_closest_pairs(x @ graph_weight, count), NUM_NODES)
    linear = torch.from_numpy(x @ weight)
    mean = linear if setting == "b" else _neighbourhood_mean(graph, linear)
    if setting == "a":
        covariance = sigma2 * np.eye(NUM_NODES)
    else:
        adjacency = graph.to_scipy().toarray().astype(np.float64)
        laplacian = np.diag(adjacency.sum(0)) - adjacency
        covariance = tau * np.linalg.inv(laplacian + gamma * np.eye(NUM_NODES))
    if noise_seed is not None:
        check_count("noise_seed", noise_seed, "Pass 0 or more.", least=0, most=LARGEST_SEED)
        generator = np.random.RandomState(int(noise_seed))
    y = generator.multivariate_normal(mean.numpy(), covariance)
    truth = {"setting": setting, "family": "normal", "seed": seed}
    truth |= {"sigma2": sigma2} if setting == "a" else {"tau": tau, "gamma": gamma}
    arrays = {"x": x, "y": y, "weight": weight, "graph_weight": graph_weight}
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return _make_data(graph, {**tensors, "mean": mean, "linear_mean": mean}, truth)
