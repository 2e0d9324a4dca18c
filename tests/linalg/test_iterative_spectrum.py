"""The eigenvectors behind the control variate: those that stand out are found at any size."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import pyro_copula as pc
from pyro_copula.linalg.iterative.operator import Operator
from pyro_copula.linalg.iterative.spectrum import Spectrum
from pyro_copula.simulate import random_regular_graph

ALPHA = 0.9
#: Where the spectrum ends but for what stands out, on random graphs of degree 10.
EDGE = ALPHA * 2 * math.sqrt(9) / 10


def spectrum(graph, dtype):
    K = pc.NormalizedAdjacencyPrecision(graph, backend="iterative")(alpha=ALPHA, beta=1.0)
    values = torch.cat([K.diagonal, K.off_diagonal]).detach().numpy()
    return Spectrum(Operator(graph, values), 16, dtype, np.random.default_rng(0))


@pytest.mark.parametrize("num_nodes", [300, 3_000, 30_000])
def test_the_vector_that_stands_out(num_nodes):
    graph = random_regular_graph(num_nodes, 10)
    found = spectrum(graph, np.float32)
    assert found.values[-1] == pytest.approx(ALPHA, abs=0.01)
    assert found.values[-2] < EDGE + 0.01
    alike = abs(found.vectors[:, -1].sum()) / math.sqrt(num_nodes)  # it is constant
    assert alike > 0.99
    assert found.errors[-1] == pytest.approx(math.sqrt(1 - min(alike, 1.0) ** 2), abs=0.05)


def test_the_vectors_of_components_whose_eigenvalues_coincide():
    parts = [random_regular_graph(200, 10, seed=k).edges + 200 * k for k in range(12)]
    found = spectrum(pc.Graph.from_edges(np.concatenate(parts), 2_400), np.float64)
    assert found.values[-12:] == pytest.approx(np.full(12, ALPHA), abs=0.01)
    assert found.values[-13] < EDGE + 0.05


def test_residuals_bound_the_distance_to_an_eigenvalue():
    graph = random_regular_graph(300, 10)
    found = spectrum(graph, np.float64)
    K = pc.NormalizedAdjacencyPrecision(graph)(alpha=ALPHA, beta=1.0).to_dense().detach()
    eigenvalues = 1 - torch.linalg.eigvalsh(K).numpy()
    distance = np.abs(found.values[:, None] - eigenvalues).min(1)
    assert (distance <= found.residuals + 1e-12).all()
    assert found.residuals.max() > 1e-3  # not all of them have converged
    found.refine()
    assert (np.abs(found.values[:, None] - eigenvalues).min(1) <= found.residuals + 1e-12).all()
    assert found.errors[-1] < 1e-4
