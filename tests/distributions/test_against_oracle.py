"""The copula against an independent dense computation, for every law, precision and graph."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
import torch
from cases import PRECISIONS, missing_pattern, scores, values
from laws import LAWS
from scipy import integrate, stats

import pyro_copula as pc
from pyro_copula.errors import MidpointWarning
from pyro_copula.testing import SMALL_GRAPHS, DenseOracle

TOLERANCE = 1e-6  # relative, as the documentation promises
A, B = torch.tensor([0.8, -0.3], dtype=torch.float64)  # unconstrained parameters of the precision

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


def make(law, graph, precision):
    parameters = law.parameters(graph.num_nodes)
    K = PRECISIONS[precision](graph, A, B)
    y = values(law, graph.num_nodes)
    return pc.GaussianCopula(law.build(**parameters), precision=K), law.frozen(parameters), y


def assert_close(found, expected):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_values_match_dense_oracle(law, graph, precision):
    copula, frozen, y = make(law, graph, precision)
    oracle = DenseOracle(copula.precision.to_dense().detach().numpy())
    z, marginal = scores(law, frozen, y.numpy())

    everything = np.ones(graph.num_nodes, dtype=bool)
    assert_close(copula.log_prob(y).detach(), oracle.log_prob(z, marginal, everything))

    observed = missing_pattern(graph.num_nodes)
    y_missing = y.masked_fill(~torch.tensor(observed), math.nan)
    assert_close(copula.log_prob(y_missing).detach(), oracle.log_prob(z, marginal, observed))
    assert_close(
        copula.pointwise_log_prob(y_missing).detach(), oracle.leave_one_out(z, marginal, observed)
    )

    conditional = copula.condition(y_missing)
    mean, covariance = oracle.condition(z, observed)
    scale = np.sqrt(np.diag(covariance))
    assert conditional.nodes.tolist() == np.flatnonzero(~observed).tolist()
    assert_close(conditional.score_mean.detach(), mean)
    assert_close(conditional.score_scale.detach(), scale)
    for q in (0.05, 0.5, 0.8):
        full = np.zeros(graph.num_nodes)
        full[~observed] = mean + scale * stats.norm.ppf(q)
        assert_close(conditional.quantile(q).detach(), frozen.ppf(stats.norm.cdf(full))[~observed])
    joint = oracle.log_prob(z, marginal, everything) - oracle.log_prob(z, marginal, observed)
    assert_close(conditional.log_prob(y[~torch.tensor(observed)]).detach(), joint)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_conditional_mean_and_variance_match_brute_force(law):
    graph = SMALL_GRAPHS["isolated_node"]
    copula, _, y = make(law, graph, "car")
    y[1], y[3] = math.nan, math.nan
    conditional = copula.condition(y)
    for k, node in enumerate((1, 3)):
        one = law.frozen({name: v[node] for name, v in law.parameters(4).items()})
        m = float(conditional.score_mean[k])
        s = float(conditional.score_scale[k])
        if law.discrete:
            support = np.arange(4000)
            above = stats.norm.sf((stats.norm.ppf(one.cdf(support)) - m) / s)
            mean = above.sum()
            second = ((2 * support + 1) * above).sum()
        else:

            def moment(power, one=one, m=m, s=s):
                def f(t):
                    z = m + s * t
                    x = one.ppf(stats.norm.cdf(z)) if z < 0 else one.isf(stats.norm.sf(z))
                    return x**power * stats.norm.pdf(t)

                breaks = [-9, -3, -m / s, 3, 9]
                return sum(
                    integrate.quad(f, a, b, epsabs=1e-13, epsrel=1e-11, limit=200)[0]
                    for a, b in itertools.pairwise(breaks)
                )

            mean, second = moment(1), moment(2)
        assert_close(conditional.mean[k].detach(), mean)
        assert_close(conditional.variance[k].detach(), second - mean**2)


@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
@pytest.mark.parametrize("precision", PRECISIONS)
def test_graph_normal_is_the_copula_with_tied_normals(graph, precision):
    K = PRECISIONS[precision](graph, A, B)
    loc = torch.linspace(-1, 1, graph.num_nodes)
    normal = pc.GraphNormal(loc, precision=K)
    copula = pc.GaussianCopula(torch.distributions.Normal(loc, K.scale()), precision=K)
    y = torch.linspace(2, -1, graph.num_nodes)
    y_missing = y.masked_fill(~torch.tensor(missing_pattern(graph.num_nodes)), math.nan)
    dense = torch.distributions.MultivariateNormal(loc, precision_matrix=K.to_dense())
    assert_close(normal.log_prob(y).detach(), dense.log_prob(y).detach())
    for value in (y, y_missing):
        assert_close(normal.log_prob(value).detach(), copula.log_prob(value).detach())
        assert_close(
            normal.pointwise_log_prob(value).detach(), copula.pointwise_log_prob(value).detach()
        )
    first, second = normal.condition(y_missing), copula.condition(y_missing)
    held_out = y[torch.isnan(y_missing)]
    for name in ("mean", "variance", "nodes"):
        assert_close(getattr(first, name).detach(), getattr(second, name).detach())
    for level in (0.5, 0.9):
        for a, b in zip(first.interval(level), second.interval(level)):
            assert_close(a.detach(), b.detach())
    for name in ("log_prob", "marginal_log_prob", "cdf"):
        a, b = getattr(first, name)(held_out), getattr(second, name)(held_out)
        assert_close(a.detach(), b.detach())


@pytest.mark.parametrize(
    "law", [law for law in LAWS if law.name in ("Normal", "Gamma", "Poisson")], ids=str
)
def test_correlation_matrix_and_cholesky_are_the_same_copula(law):
    graph = SMALL_GRAPHS["grid"]
    copula, _, y = make(law, graph, "laplacian")
    oracle = DenseOracle(copula.precision.to_dense().detach().numpy())
    R = torch.tensor(oracle.correlation)
    y[2], y[7] = math.nan, math.nan
    for given in ({"correlation_matrix": R}, {"correlation_cholesky": torch.linalg.cholesky(R)}):
        other = pc.GaussianCopula(copula.marginal_dist, **given)
        assert_close(other.log_prob(y), copula.log_prob(y))
        assert_close(other.pointwise_log_prob(y), copula.pointwise_log_prob(y))
        a, b = other.condition(y), copula.condition(y)
        assert_close(a.mean, b.mean)
        assert_close(a.interval(0.8), torch.stack(b.interval(0.8)))
        held_out = torch.tensor([1.5, 2.5]) if not law.discrete else torch.tensor([5.0, 9.0])
        assert_close(a.log_prob(held_out), b.log_prob(held_out))
        assert_close(a.marginal_log_prob(held_out), b.marginal_log_prob(held_out))


def test_discrete_marginal_log_prob_is_a_probability_mass_function():
    graph = SMALL_GRAPHS["path"]
    copula, _, y = make(next(law for law in LAWS if law.name == "Poisson"), graph, "car")
    y[2] = math.nan
    conditional = copula.condition(y)
    support = torch.arange(200.0).unsqueeze(-1)
    mass = conditional.marginal_log_prob(support).exp()
    assert_close(mass.sum(), 1.0)
    assert_close((mass * support).sum(), conditional.mean.squeeze())
    assert_close(conditional.cdf(support).squeeze(), mass.cumsum(0).squeeze())


@pytest.mark.parametrize("mean", [0.3, 1.0, 10.0])
def test_total_mass_of_the_midpoint_rule(mean):
    """The rule is an approximation; its total mass is known and is what it should be."""
    R = torch.tensor([[1.0, 0.9], [0.9, 1.0]])
    copula = pc.GaussianCopula(
        torch.distributions.Poisson(torch.full((2,), mean)), correlation_matrix=R
    )
    k = torch.arange(60.0)
    grid = torch.stack(torch.meshgrid(k, k, indexing="ij"), -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MidpointWarning)
        mass = float(copula.log_prob(grid).exp().sum())
    law = stats.poisson(mean)
    n = np.arange(60)
    lower, upper = (law.cdf(n) + law.cdf(n - 1)) / 2, (law.sf(n) + law.sf(n - 1)) / 2
    z = np.where(lower < 0.5, stats.norm.ppf(lower), -stats.norm.ppf(upper))
    pairs = np.stack(np.meshgrid(z, z, indexing="ij"), -1)
    density = stats.multivariate_normal(cov=R.numpy()).pdf(pairs)
    density /= np.multiply.outer(stats.norm.pdf(z), stats.norm.pdf(z))
    expected = (density * np.multiply.outer(law.pmf(n), law.pmf(n))).sum()
    assert mass == pytest.approx(expected, rel=1e-9)
    assert mass == pytest.approx({0.3: 1.56, 1.0: 1.12, 10.0: 1.00}[mean], abs=0.01)
