"""A nugget beside the graph field: the correlation (1 - nu) R + nu I, without filling in."""

from __future__ import annotations

import math

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from cases import PRECISIONS, missing_pattern, values
from laws import LAWS
from test_gradients import assert_gradients

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.testing import SMALL_GRAPHS

A, B = torch.tensor([0.8, -0.3], dtype=torch.float64)
GRAPHS = pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())


def correlation(K):
    covariance = torch.linalg.inv(K.to_dense())
    s = covariance.diagonal().sqrt()
    return covariance / (s[:, None] * s)


def assert_same(first, second, y):
    """Two laws agree in everything they can be asked."""
    observed = torch.tensor(missing_pattern(y.shape[-1]))
    for value in (y, y.masked_fill(~observed, math.nan)):
        torch.testing.assert_close(first.log_prob(value), second.log_prob(value))
        torch.testing.assert_close(
            first.pointwise_log_prob(value), second.pointwise_log_prob(value), equal_nan=True
        )
    a = first.condition(y.masked_fill(~observed, math.nan))
    b = second.condition(y.masked_fill(~observed, math.nan))
    for name in ("nodes", "mean", "variance"):
        torch.testing.assert_close(getattr(a, name), getattr(b, name))
    for end in range(2):
        torch.testing.assert_close(a.interval(0.8)[end], b.interval(0.8)[end])
    held_out = y[~observed]
    for method in ("log_prob", "marginal_log_prob", "cdf"):
        torch.testing.assert_close(getattr(a, method)(held_out), getattr(b, method)(held_out))


@GRAPHS
@pytest.mark.parametrize("name", ["Normal", "Gamma", "Poisson"])
@pytest.mark.parametrize("nugget", [1e-6, 0.3, 0.999])
def test_the_copula_is_that_of_the_dense_correlation(graph, name, nugget):
    law = next(law for law in LAWS if law.name == name)
    marginal = law.build(**law.parameters(graph.num_nodes))
    K = PRECISIONS["car"](graph, A, B).detach()
    R = correlation(K)
    sparse = pc.GaussianCopula(marginal, precision=K, nugget=nugget)
    dense = pc.GaussianCopula(
        marginal, correlation_matrix=(1 - nugget) * R + nugget * torch.eye(graph.num_nodes)
    )
    assert_same(sparse, dense, values(law, graph.num_nodes))
    again = pc.GaussianCopula(marginal, correlation_matrix=R, nugget=nugget)
    assert_same(sparse, again, values(law, graph.num_nodes))


@GRAPHS
def test_graph_normal_with_a_nugget_is_a_multivariate_normal(graph):
    n = graph.num_nodes
    K = PRECISIONS["laplacian"](graph, A, B).detach()
    loc, y = torch.linspace(-1, 1, n), torch.linspace(2, -1, n)
    normal = pc.GraphNormal(loc, precision=K, nugget=0.4)
    covariance = torch.linalg.inv(K.to_dense()) + 0.4 * torch.eye(n)
    dense = torch.distributions.MultivariateNormal(loc, covariance)
    torch.testing.assert_close(normal.log_prob(y), dense.log_prob(y))
    torch.testing.assert_close(normal.variance, covariance.diagonal())
    s = covariance.diagonal().sqrt()
    copula = pc.GaussianCopula(dist.Normal(loc, s), correlation_matrix=covariance / s / s[:, None])
    assert_same(normal, copula, y)


@pytest.mark.parametrize("graph", ["grid", "isolated_node"])
@pytest.mark.parametrize("missing", [False, True])
def test_gradients(graph, missing):
    graph = SMALL_GRAPHS[graph]
    law = next(law for law in LAWS if law.name == "Gamma")
    marginal = law.build(**law.parameters(graph.num_nodes))
    y = values(law, graph.num_nodes)
    if missing:
        y = y.masked_fill(~torch.tensor(missing_pattern(graph.num_nodes)), math.nan)

    def copula(a, b, c):
        K = PRECISIONS["laplacian"](graph, a, b)
        d = pc.GaussianCopula(marginal, precision=K, nugget=c.sigmoid())
        return d.log_prob(y) + d.pointwise_log_prob(y).nansum()

    def normal(loc, a, b, c):
        K = PRECISIONS["laplacian"](graph, a, b)
        return pc.GraphNormal(loc, precision=K, nugget=c.exp()).log_prob(y)

    assert_gradients(copula, [A, B, torch.tensor(-1.0)])
    assert_gradients(normal, [torch.zeros(graph.num_nodes), A, B, torch.tensor(-1.0)])


def test_batches_of_nuggets_and_draws():
    graph = SMALL_GRAPHS["grid"]
    K = PRECISIONS["car"](graph, A, B).detach()
    nugget = torch.tensor([0.2, 0.7])
    many = pc.GaussianCopula(dist.Normal(torch.zeros(9), 1.0), precision=K, nugget=nugget)
    assert many.batch_shape == (2,)
    y = many.sample((3,))
    y[0, 0, 1] = y[1, 1, 4] = math.nan
    for k in range(2):
        one = pc.GaussianCopula(dist.Normal(torch.zeros(9), 1.0), precision=K, nugget=nugget[k])
        torch.testing.assert_close(many.log_prob(y)[:, k], one.log_prob(y[:, k]))
    draws = many.sample((40_000,))[:, 1]
    R = 0.3 * correlation(K) + 0.7 * torch.eye(9)
    error = (draws.mT @ draws / len(draws) - R) / ((1 + R.square()) / len(draws)).sqrt()
    assert float(error.abs().max()) < 5.5  # fails with probability 3e-6
    assert "nugget" in repr(many)


@pytest.mark.parametrize("nugget", [0.0, 1.0, -0.5, math.nan])
def test_bad_nugget(nugget):
    K = PRECISIONS["car"](SMALL_GRAPHS["path"], A, B).detach()
    with pytest.raises(InvalidArgumentError, match="`nugget`"):
        pc.GaussianCopula(dist.Normal(torch.zeros(4), 1.0), precision=K, nugget=nugget)
    if not nugget > 0:
        with pytest.raises(InvalidArgumentError, match="`nugget`"):
            pc.GraphNormal(torch.zeros(4), precision=K, nugget=nugget)
    assert np.isfinite(float(pc.GraphNormal(torch.zeros(4), precision=K).log_prob(torch.ones(4))))
