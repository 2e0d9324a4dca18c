"""Extreme graphs and precisions: nearly singular, over twelve decades, stars and cliques."""

from __future__ import annotations

import math

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import IGNORE_MIDPOINT, assert_close, graphs, problems
from scipy import stats

import pyro_copula as pc
from pyro_copula.errors import NotPositiveDefiniteError, ParameterRangeError
from pyro_copula.testing import SMALL_GRAPHS

pytestmark = pytest.mark.filterwarnings(IGNORE_MIDPOINT)

BACKENDS = pytest.mark.parametrize("backend", ["dense", "sparse"])


@BACKENDS
@given(data=st.data())
def test_one_observed_node_has_its_marginal_law(backend, data):
    problem = data.draw(problems(min_nodes=1))
    node = data.draw(st.integers(0, problem.num_nodes - 1))
    y = torch.where(torch.arange(problem.num_nodes) == node, problem.y, torch.nan)
    frozen = problem.law.frozen({k: v[node] for k, v in problem.parameters.items()})
    value = problem.y[node].numpy()
    expected = float(frozen.logpmf(value) if problem.law.discrete else frozen.logpdf(value))
    copula = problem.copula(backend)
    assert_close(copula.log_prob(y), expected)
    assert_close(copula.pointwise_log_prob(y)[node], expected)


@BACKENDS
@given(problem=problems(min_nodes=2))
def test_one_missing_node_depends_on_its_neighbours_alone(backend, problem):
    copula = problem.copula(backend)
    y = problem.y.clone()
    y[0] = torch.nan
    conditional = copula.condition(y)
    scale = np.sqrt(np.diag(np.linalg.inv(problem.precision().to_dense().numpy())))
    z = pc.marginals.midpoint_score(copula.marginal_dist, problem.y).numpy()
    K = problem.precision().to_dense().numpy()
    mean = -(K[0, 1:] * scale[1:] * z[1:]).sum() / K[0, 0] / scale[0]
    assert_close(conditional.score_mean, np.array([mean]))
    assert_close(conditional.score_scale, np.array([1 / math.sqrt(K[0, 0]) / scale[0]]))


@BACKENDS
@given(distance=st.floats(-9, -1), sign=st.sampled_from([-1.0, 1.0]))
def test_alpha_next_to_one(backend, distance, sign):
    """On an edge the correlation is alpha itself, so the copula is known in closed form."""
    gap = 10.0**distance
    alpha = sign * (1 - gap)
    K = pc.NormalizedAdjacencyPrecision(pc.Graph.from_edges([(0, 1)]), backend=backend)(
        alpha=alpha, beta=1.0
    )
    copula = pc.GaussianCopula(dist.Normal(torch.zeros(2), 1.0), precision=K)
    z = torch.tensor([0.3, sign * (0.3 + math.sqrt(gap))])
    left = (1 - alpha) * (1 + alpha)
    expected = stats.norm.logpdf(0.3) + stats.norm.logpdf(float(z[1]), alpha * 0.3, math.sqrt(left))
    # The gap itself is a difference of numbers of order one.
    assert float(copula.log_prob(z)) == pytest.approx(expected, abs=1e-15 / gap + 1e-9)


@BACKENDS
@given(graph=graphs(min_nodes=2), distance=st.floats(-16, -6), sign=st.sampled_from([-1.0, 1.0]))
def test_strengths_next_to_one_are_answered_or_refused(backend, graph, distance, sign):
    strength = sign * (1 - 10.0**distance)
    n = graph.num_nodes
    try:
        K = pc.CARPrecision(graph, backend=backend)(rho=strength, tau=1.0)
        copula = pc.GaussianCopula(dist.Normal(torch.zeros(n), 1.0), precision=K)
        y = torch.linspace(-1, 1, n)
        y[0] = torch.nan
        found = [copula.log_prob(y), copula.pointwise_log_prob(y)[1:], copula.condition(y).mean]
    except (NotPositiveDefiniteError, ParameterRangeError):
        assert abs(strength) > 1 - 1e-12  # refused where rounding decides, and nowhere else
    else:
        assert all(torch.isfinite(v).all() for v in found)


@BACKENDS
@given(
    exponents=st.lists(st.floats(-6, 6), min_size=12, max_size=12),
    ridge=st.floats(-6, 0),
)
def test_weights_over_twelve_decades(backend, exponents, ridge):
    """A grid of weights from 1e-6 to 1e6, against arithmetic of 60 digits."""
    import mpmath

    graph = SMALL_GRAPHS["grid"]
    weight = 10.0 ** torch.tensor(exponents)
    n, gamma = graph.num_nodes, 10.0**ridge
    diagonal = torch.full((n,), gamma)
    diagonal = diagonal.index_add(0, graph.rows, weight).index_add(0, graph.cols, weight)
    K = pc.SparsePrecision(graph, diagonal, -weight, backend=backend)
    with mpmath.workdps(60):
        matrix = mpmath.diag([mpmath.mpf(float(d)) for d in diagonal])
        for (i, j), w in zip(graph.edges.tolist(), weight.tolist()):
            matrix[i, j] = matrix[j, i] = -mpmath.mpf(w)
        lower = [[mpmath.mpf(0)] * n for _ in range(n)]
        logdet, definite = mpmath.mpf(0), True
        for j in range(n):
            pivot = matrix[j, j] - sum(lower[j][k] ** 2 for k in range(j))
            definite = definite and pivot > 0
            if not definite:
                break
            logdet += mpmath.log(pivot)
            lower[j][j] = mpmath.sqrt(pivot)
            for i in range(j + 1, n):
                inner = sum(lower[i][k] * lower[j][k] for k in range(j))
                lower[i][j] = (matrix[i, j] - inner) / lower[j][j]
        expected = float(logdet)
    condition = float(diagonal.max()) / gamma
    try:
        found = float(K.logdet())
        scale = K.scale()
    except NotPositiveDefiniteError:
        assert not definite or condition > 1e11
        return
    assert torch.isfinite(scale).all()
    assert definite or condition > 1e11
    if definite:
        assert found == pytest.approx(expected, abs=1e-9 + 1e-14 * condition)


def star(num_leaves: int) -> pc.Graph:
    leaves = np.arange(1, num_leaves + 1)
    return pc.Graph.from_edges(np.stack([np.zeros_like(leaves), leaves], 1), num_leaves + 1)


@pytest.mark.parametrize(
    "num_leaves", [200, pytest.param(100_000, marks=pytest.mark.slow)], ids="{} leaves".format
)
@pytest.mark.parametrize("missing_hub", [False, True])
def test_a_star_is_leaves_that_are_independent_given_the_hub(num_leaves, missing_hub):
    """The regularised Laplacian of a star, whose determinant and inverse are known."""
    m, gamma = num_leaves, 0.5
    K = pc.LaplacianPrecision(star(m), backend="sparse")(tau=1.0, gamma=gamma)
    leaf, hub = 1 + gamma, m + gamma
    left = hub - m / leaf  # the hub's precision when the leaves are integrated out
    assert float(K.logdet()) == pytest.approx(m * math.log(leaf) + math.log(left), rel=1e-10)
    variance = K.variance()
    assert float(variance[0]) == pytest.approx(1 / left, rel=1e-9)
    assert_close(variance[1:], torch.full((m,), 1 / leaf + 1 / (leaf**2 * left)), 1e-9)
    copula = pc.GaussianCopula(dist.Normal(torch.zeros(m + 1), 1.0), precision=K)
    y = torch.linspace(-1, 1.5, m + 1)
    y[0 if missing_hub else m] = torch.nan
    conditional = copula.condition(y)
    scale = variance.sqrt()
    if missing_hub:
        mean, spread = (scale * y)[1:].sum() / hub / scale[0], hub**-0.5 / scale[0]
    else:
        mean, spread = scale[0] * y[0] / leaf / scale[m], leaf**-0.5 / scale[m]
    assert_close(conditional.score_mean, mean.reshape(1))
    assert_close(conditional.score_scale, spread.reshape(1))
    assert torch.isfinite(copula.log_prob(y))


@pytest.mark.parametrize(
    "n", [60, pytest.param(2000, marks=pytest.mark.slow)], ids="{} nodes".format
)
@BACKENDS
def test_a_clique_is_exchangeable(backend, n):
    """The regularised Laplacian of a clique has the eigenvalue gamma once and n + gamma else."""
    gamma = 0.5
    pairs = np.stack(np.triu_indices(n, 1), 1)
    K = pc.LaplacianPrecision(pc.Graph.from_edges(pairs, n), backend=backend)(tau=1.0, gamma=gamma)
    logdet = math.log(gamma) + (n - 1) * math.log(n + gamma)
    assert float(K.logdet()) == pytest.approx(logdet, rel=1e-10)
    variance = (1 / gamma + (n - 1) / (n + gamma)) / n
    assert_close(K.variance(), torch.full((n,), variance), 1e-9)
    copula = pc.GaussianCopula(dist.Normal(torch.zeros(n), 1.0), precision=K)
    y = torch.linspace(-1, 1.5, n)
    quadratic = variance * (
        gamma * y.sum() ** 2 / n + (n + gamma) * (y.square().sum() - y.sum() ** 2 / n)
    )
    expected = 0.5 * (logdet + n * math.log(variance) - quadratic - n * math.log(2 * math.pi))
    assert_close(copula.log_prob(y), expected)
