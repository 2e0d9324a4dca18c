"""Graph features, and that a node's own value never reaches its own features."""

from __future__ import annotations

import math

import pytest
import torch

import pyro_copula as pc
from pyro_copula.nn import graph_features, neighbour_mean, neighbour_outcomes
from pyro_copula.testing import SMALL_GRAPHS


@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
def test_means_over_neighbours(graph):
    x = torch.randn(graph.num_nodes, 3)
    A = torch.tensor(graph.to_scipy().toarray())
    expected = A @ x / A.sum(0).clamp(min=1)[:, None]
    torch.testing.assert_close(neighbour_mean(graph, x), expected)
    features = graph_features(graph, x)
    assert features.shape == (graph.num_nodes, 4)
    torch.testing.assert_close(features[:, 0], torch.log1p(A.sum(0)))
    torch.testing.assert_close(features[:, 1:], expected)


def test_neighbour_outcomes_by_hand():
    graph = pc.Graph.from_edges([(0, 1), (1, 2), (1, 3)], num_nodes=5)
    y = torch.tensor([2.0, 4.0, math.nan, 6.0, 8.0])
    observed = torch.tensor([True, True, False, True, True])
    found = neighbour_outcomes(graph, y, observed)
    # node 1: neighbours 0 and 3; the other observed nodes 0, 3, 4 have mean 16/3
    assert float(found[1, 0]) == pytest.approx((2 + 6 + 16 / 3) / 3)
    # node 2 is missing: neighbour 1; all four observed nodes have mean 5
    assert float(found[2, 0]) == pytest.approx((4 + 5) / 2)
    # node 4 has no neighbours: only the mean of the others, 4
    assert float(found[4, 0]) == pytest.approx(4.0)
    torch.testing.assert_close(found[:, 1], torch.log1p(torch.tensor([1.0, 2, 1, 1, 0])))


@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
def test_no_value_reaches_its_own_features(graph):
    observed = torch.arange(graph.num_nodes) % 3 != 1
    y = torch.randn(graph.num_nodes)
    before = neighbour_outcomes(graph, y, observed)
    for node in range(graph.num_nodes):
        changed = y.clone()
        changed[node] += 100.0
        after = neighbour_outcomes(graph, changed, observed)
        torch.testing.assert_close(after[node], before[node])
        missing = observed.clone()
        missing[node] = False
        torch.testing.assert_close(neighbour_outcomes(graph, y, missing)[node], before[node])
