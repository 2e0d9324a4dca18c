"""Leave-one-out laws against dense conditioning, one node at a time."""

from __future__ import annotations

import math

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from law_examples import dense_correlation, law, values
from scipy import stats

import pyro_copula as pc

#: The chance that a statistical test fails although all is well.
FAILURE_RATE = 1e-4

CASES = [
    ("normal", "precision"),
    ("normal", "matrix"),
    ("gamma", "nugget"),
    ("poisson", "precision"),
    ("negative_binomial", "nugget"),
    ("mixed", "matrix"),
    ("mixed", "precision"),
    ("graph_normal", "precision"),
    ("graph_normal", "nugget"),
]


def scores(found, y):
    """The normal scores that stand for values, and the limits of their atoms, by scipy."""
    y = y.numpy()
    if isinstance(found, pc.GraphNormal):
        z = (y - found.loc.numpy()) / np.sqrt(found.variance.numpy())
        return z, z, z
    lower, upper = _cdf(found.marginal_dist, y)
    ends = stats.norm.ppf(lower), stats.norm.ppf(upper)
    return stats.norm.ppf((lower + upper) / 2), *ends


def _cdf(d, y):
    """``F(y-)`` and ``F(y)`` by scipy."""
    if isinstance(d, pc.marginals.Mixed):
        first, second = (_cdf(part, y) for part in (d.components["real"], d.components["count"]))
        kind = d.kind.numpy() == 0
        return tuple(np.where(kind, a, b) for a, b in zip(first, second, strict=True))
    parameters = {
        name: getattr(d, name).numpy() * np.ones(len(y))
        for name in d.arg_constraints
        if name in _USED
    }
    if isinstance(d, dist.Normal):
        u = stats.norm.cdf(y, parameters["loc"], parameters["scale"])
        return u, u
    if isinstance(d, dist.Gamma):
        u = stats.gamma.cdf(y, parameters["concentration"], scale=1 / parameters["rate"])
        return u, u
    if isinstance(d, dist.Poisson):
        counts = stats.poisson(parameters["rate"])
    else:
        counts = stats.nbinom(parameters["total_count"], 1 - parameters["probs"])
    return counts.cdf(y - 1), counts.cdf(y)


_USED = {"loc", "scale", "concentration", "rate", "total_count", "probs"}


@pytest.mark.parametrize("missing", [(), (0, 7, 8, 13)])
@pytest.mark.parametrize(("family", "dependence"), CASES)
def test_moments_and_probabilities_are_those_of_dense_conditioning(family, dependence, missing):
    found = law(family, dependence=dependence)
    y = values(found, missing=missing)
    left_out = found.leave_one_out(y)
    R = dense_correlation(found).numpy()
    z, lower, upper = scores(found, y)
    observed = np.flatnonzero(~np.isnan(y.numpy()))
    for i in observed:
        others = observed[observed != i]
        weights = np.linalg.solve(R[np.ix_(others, others)], R[others, i])
        mean, sd = weights @ z[others], math.sqrt(R[i, i] - weights @ R[others, i])
        assert float(left_out.mean[i]) == pytest.approx(mean, abs=1e-7)
        assert float(left_out.scale[i]) == pytest.approx(sd, abs=1e-9)
        assert float(left_out.cdf()[i]) == pytest.approx(
            stats.norm.cdf(upper[i], mean, sd), abs=1e-7
        )
        below = stats.norm.cdf(lower[i], mean, sd)
        assert float(left_out.cdf_below()[i]) == pytest.approx(below, abs=1e-7)
    for result in (left_out.mean, left_out.scale, left_out.cdf()):
        assert torch.isnan(result).nonzero().squeeze(-1).tolist() == list(missing)


@pytest.mark.parametrize(("family", "dependence"), CASES)
def test_it_is_the_conditional_law_with_that_node_missing(family, dependence):
    found = law(family, dependence=dependence)
    y = values(found, missing=[3])
    cdf = found.leave_one_out(y).cdf()
    for node in (0, 11):
        without = y.clone()
        without[node] = math.nan
        conditional = found.condition(without)
        place = conditional.nodes.tolist().index(node)
        given = torch.full((len(conditional.nodes),), math.nan)
        given[place] = y[node]
        assert float(cdf[node]) == pytest.approx(float(conditional.cdf(given)[place]), abs=1e-9)


def test_a_batch_of_laws_and_rows_with_other_missing_nodes():
    graph = pc.simulate.grid_graph(3, 3)
    rho = torch.tensor([0.2, 0.9])
    K = pc.CARPrecision(graph)(rho=rho, tau=torch.ones(2))
    batch = pc.GaussianCopula(dist.Normal(torch.zeros(9), 1.0), precision=K)
    y = torch.randn(4, 2, 9)
    y[0, :, 2], y[3, 1, 5] = math.nan, math.nan
    left_out = batch.leave_one_out(y)
    assert left_out.mean.shape == y.shape
    for k in range(2):
        one = pc.CARPrecision(graph)(rho=rho[k], tau=1.0)
        single = pc.GaussianCopula(dist.Normal(torch.zeros(9), 1.0), precision=one)
        for row in range(4):
            expected = single.leave_one_out(y[row, k])
            torch.testing.assert_close(left_out.mean[row, k], expected.mean, equal_nan=True)
            torch.testing.assert_close(left_out.cdf()[row, k], expected.cdf(), equal_nan=True)
    assert repr(left_out) == "LeaveOneOut(8 of 9 nodes observed, batch_shape=(4, 2))"


@pytest.mark.parametrize("family", ["graph_normal", "poisson", "mixed"])
def test_draws_have_the_probabilities_of_the_law(family):
    found = law(family)
    y = values(found, missing=[4])
    left_out = found.leave_one_out(y)
    count = 4000
    draws = left_out.sample((count,))
    assert draws.shape == (count, 20)
    assert bool(torch.isnan(draws[:, 4]).all())
    threshold = stats.norm.ppf(1 - FAILURE_RATE / 40)
    for expected, share in [
        (left_out.cdf(), (draws <= y).double().mean(0)),
        (left_out.cdf_below(), (draws < y).double().mean(0)),
    ]:
        known = ~torch.isnan(expected)
        p = expected[known]
        error = (share[known] - p).abs() / (p * (1 - p) / count).sqrt().clamp(min=1e-3)
        assert float(error.max()) < threshold


@pytest.mark.parametrize("rule", ["exact", "ep"])
def test_under_the_exact_rules_it_is_a_ratio_of_rectangle_probabilities(rule):
    graph = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    K = pc.CARPrecision(graph)(rho=0.95, tau=1.0)
    rate = torch.tensor([0.3, 0.6, 1.0, 0.4])
    found = pc.GaussianCopula(dist.Poisson(rate), precision=K, discrete=rule, num_particles=20_000)
    y = torch.tensor([0.0, 2.0, 1.0, math.nan])
    R = dense_correlation(found).numpy()[:3, :3]
    counts = stats.poisson(rate[:3].numpy())
    lower, upper = (stats.norm.ppf(counts.cdf(y[:3].numpy() - k)) for k in (1, 0))
    lower = np.clip(lower, -40, 40)  # scipy integrates between finite ends
    left_out = found.leave_one_out(y)
    for i in range(3):
        others = [k for k in range(3) if k != i]
        alone = stats.multivariate_normal(cov=R[np.ix_(others, others)])
        total = alone.cdf(upper[others], lower_limit=lower[others])
        joint = stats.multivariate_normal(cov=R)
        for result, end in [(left_out.cdf(), upper[i]), (left_out.cdf_below(), lower[i])]:
            high, low = upper.copy(), lower.copy()
            high[i], low[i] = end, -40
            expected = joint.cdf(high, lower_limit=low) / total if end > -40 else 0.0
            # the spread of a weighted mean of 20,000 particles, five of them
            assert float(result[i]) == pytest.approx(expected, abs=0.02)


def test_far_out_values_keep_their_digits():
    K = pc.CARPrecision(pc.simulate.grid_graph(2, 2))(rho=0.5, tau=1.0)
    found = pc.GaussianCopula(dist.Poisson(torch.full((4,), 9.0)), precision=K)
    limits = found.leave_one_out(torch.tensor([5.0, 400.0, 9.0, 11.0])).limits
    assert bool(torch.isfinite(limits[1]).all())
    assert float(limits[1][1]) > 30
