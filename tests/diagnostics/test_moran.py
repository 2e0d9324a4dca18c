"""Moran's I against the dense formula, all permutations, and the moments of quadratic forms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.testing import SMALL_GRAPHS

#: The chance that the test against random permutations fails although all is well.
FAILURE_RATE = 1e-4

CONNECTED = {name: SMALL_GRAPHS[name] for name in ("path", "star", "grid", "two_components")}


def weight_matrix(graph, weights):
    W = graph.to_scipy().toarray()
    return W / W.sum(1, keepdims=True) if weights == "row" else W


def dense_moran(x, W):
    x = x - x.mean()
    return len(x) / W.sum() * (x @ W @ x) / (x @ x)


@pytest.mark.parametrize("weights", ["row", "binary"])
@pytest.mark.parametrize("name", CONNECTED)
def test_the_statistic_is_that_of_the_dense_formula(name, weights):
    graph = CONNECTED[name]
    x = torch.randn(graph.num_nodes)
    found = pc.morans_i(x, graph, weights=weights)
    expected = dense_moran(x.numpy(), weight_matrix(graph, weights))
    assert found.statistic == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("weights", ["row", "binary"])
@pytest.mark.parametrize("name", ["path", "star", "two_components"])
def test_mean_and_deviation_are_those_over_all_permutations(name, weights):
    graph = CONNECTED[name]
    x = torch.randn(graph.num_nodes).exp().numpy()
    W = weight_matrix(graph, weights)
    every = [dense_moran(np.array(p), W) for p in itertools.permutations(x)]
    found = pc.morans_i(torch.from_numpy(x), graph, weights=weights)
    assert found.expected == pytest.approx(np.mean(every), rel=1e-10)
    assert found.sd == pytest.approx(np.std(every), rel=1e-9)


@pytest.mark.parametrize("weights", ["row", "binary"])
@pytest.mark.parametrize("name", CONNECTED)
def test_normal_moments_are_those_of_a_ratio_of_quadratic_forms(name, weights):
    """For normal ``x``, the ratio and ``x'Mx`` are independent: moments are ratios of moments."""
    graph = CONNECTED[name]
    n = graph.num_nodes
    M = np.eye(n) - 1 / n
    W = weight_matrix(graph, weights)
    A = M @ (W + W.T) @ M / 2 * n / W.sum()
    mean = np.trace(A) / (n - 1)
    second = (2 * np.trace(A @ A) + np.trace(A) ** 2) / ((n - 1) * (n + 1))
    found = pc.morans_i(torch.randn(n), graph, weights=weights, null="normal")
    assert found.expected == pytest.approx(mean, rel=1e-10)
    assert found.sd == pytest.approx(math.sqrt(second - mean**2), rel=1e-9)


def test_the_p_value_agrees_with_random_permutations():
    graph = pc.simulate.grid_graph(8, 8)
    K = pc.CARPrecision(graph)(rho=0.5, tau=1.0)
    x = K.sample().numpy()
    W = weight_matrix(graph, "row")
    found = pc.morans_i(torch.from_numpy(x), graph)
    rng = np.random.default_rng(0)
    count = 4000
    drawn = np.array([dense_moran(rng.permutation(x), W) for _ in range(count)])
    share = np.mean(np.abs(drawn - drawn.mean()) >= abs(found.statistic - drawn.mean()))
    slack = stats.norm.ppf(1 - FAILURE_RATE / 2) * math.sqrt(0.25 / count)
    assert abs(found.p_value - share) < slack  # the normal law is good to less than that here
    assert 0.0001 < found.p_value < 0.9


def test_missing_nodes_and_then_nodes_without_a_neighbour_are_left_out():
    graph = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)], num_nodes=8)
    x = torch.randn(8)
    x[5] = math.nan  # node 6 then has no neighbour, and node 7 never had one
    kept = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4)])
    found, expected = pc.morans_i(x, graph), pc.morans_i(x[:5], kept)
    assert (found.num_nodes, found.num_edges) == (5, 4)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-12)
    assert found.sd == pytest.approx(expected.sd, rel=1e-12)


def test_it_prints_what_matters():
    graph = pc.simulate.grid_graph(4, 4)
    text = repr(pc.morans_i(torch.arange(16.0), graph))
    assert text.startswith("MoransI(0.")
    assert "no dependence: -0.067 ±" in text
    assert "16 nodes, 24 edges" in text


@pytest.mark.parametrize(
    ("values", "argument", "found"),
    [
        (torch.full((9,), 2.3), "values", "the same value"),
        (torch.full((9,), math.nan), "values", "0 of them"),
        (torch.zeros(4), "values", r"shape \(4,\)"),
        (torch.tensor([math.inf, *range(8)]), "values", "infinity at node 0"),
    ],
)
def test_bad_values_are_named(values, argument, found):
    with pytest.raises(InvalidArgumentError, match=f"`{argument}` .*{found}"):
        pc.morans_i(values, SMALL_GRAPHS["grid"])


def test_bad_options_are_named():
    x = torch.randn(9)
    with pytest.raises(InvalidArgumentError, match=r"`graph` .*ndarray"):
        pc.morans_i(x, np.eye(9))
    with pytest.raises(InvalidArgumentError, match=r"`weights` .*'queen'"):
        pc.morans_i(x, SMALL_GRAPHS["grid"], weights="queen")
    with pytest.raises(InvalidArgumentError, match=r"`null` .*'none'"):
        pc.morans_i(x, SMALL_GRAPHS["grid"], null="none")
