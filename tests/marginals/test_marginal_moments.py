"""Moments of ``F^-1(Phi(Z))``: against sums over the support and adaptive quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyro.distributions as dist
import pytest
import scipy.integrate
import scipy.special
import torch
from marginal_laws import CONTINUOUS, DISCRETE, LAWS

import pyro_copula as pc
from pyro_copula import marginals
from pyro_copula.errors import ParameterRangeError

SCORES = [(0.0, 1.0), (1.2, 0.3), (-2.0, 0.7), (0.4, 0.9)]


def _from_score(reference, z):
    tail = scipy.special.ndtr(-abs(z))
    return float(reference.ppf(tail) if z < 0 else reference.isf(tail))


def _quadrature(law, m, s, power, centre):
    def integrand(t):
        weight = math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        return (_from_score(law.reference, m + s * t) - centre) ** power * weight

    kink = min(max(-m / s, -9.0), 9.0)
    edges = sorted({-11.0, -5.0, kink, 5.0, 11.0, 20.0, 34.0})
    return sum(
        scipy.integrate.quad(integrand, a, b, epsabs=1e-15, epsrel=1e-11, limit=200)[0]
        for a, b in itertools.pairwise(edges)
    )


@pytest.mark.parametrize("name", ["laplace", "gumbel", "gamma", "beta", "student_t", "weibull"])
def test_continuous_moments_equal_quadrature(name):
    law = CONTINUOUS[name]
    m, s = 0.6, 0.7
    centre = _from_score(law.reference, m)
    first = _quadrature(law, m, s, 1, centre)
    second = _quadrature(law, m, s, 2, centre)
    mean, variance = marginals.score_moments(law.make(), torch.tensor([m]), torch.tensor([s]))
    torch.testing.assert_close(mean, torch.tensor([centre + first]), rtol=1e-9, atol=0)
    torch.testing.assert_close(variance, torch.tensor([second - first**2]), rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", sorted(set(CONTINUOUS) - {"cauchy", "half_cauchy"}))
def test_standard_scores_give_the_law_back(name):
    d = CONTINUOUS[name].make()
    # A standard deviation one ulp from one avoids the shortcut to the law's own moments.
    almost = torch.tensor([1 - 2.0**-53])
    mean, variance = marginals.score_moments(d, torch.zeros(1), almost)
    try:
        expected = d.mean, d.variance
    except NotImplementedError:
        return
    torch.testing.assert_close(mean, expected[0], rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(variance, expected[1], rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", ["normal", "lognormal"])
def test_closed_forms_equal_quadrature(name):
    law = CONTINUOUS[name]
    d = law.make()
    # The same law under an identity transform takes the general way.
    identity = [torch.distributions.AffineTransform(0.0, 1.0)]
    general = dist.TransformedDistribution(d, identity)
    for m, s in SCORES:
        closed = marginals.score_moments(d, torch.tensor([m]), torch.tensor([s]))
        quadrature = marginals.score_moments(general, torch.tensor([m]), torch.tensor([s]))
        torch.testing.assert_close(closed, quadrature, rtol=1e-10, atol=0)


def _sum_over_support(d, m, s, stop):
    k = torch.arange(0.0, stop)[:, None]
    z = torch.cat([torch.full((1, 1), -torch.inf), marginals.normal_score(d, k)])
    x = (z - m) / s
    upper = 0.5 * torch.erfc(x / math.sqrt(2))
    lower = 0.5 * torch.erfc(-x / math.sqrt(2))
    # The smaller tail has the digits of each probability.
    p = torch.where(x[1:] < 0, lower.diff(dim=0), -upper.diff(dim=0))
    mean = (k * p).sum(0)
    return mean, ((k - mean).square() * p).sum(0)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize(("m", "s"), SCORES)
def test_discrete_moments_equal_sums(name, m, s):
    law = DISCRETE[name]
    d = law.make()
    end = float(law.reference.ppf(1.0))
    stop = min(end + 1, 8000.0 if name == "poisson_large" else 700.0)
    expected = _sum_over_support(d, m, s, stop)
    actual = marginals.score_moments(d, torch.tensor([m]), torch.tensor([s]))
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("total", [0.05, 0.4, 3.0])
@pytest.mark.parametrize(("m", "s"), [(0.0, 1.0), (0.7, 0.2), (-1.0, 0.6)])
def test_long_sums_equal_sums(total, m, s):
    # Thousands of terms, the survival function singular near zero and skew.
    logits = math.log(400.0 / total)
    d = dist.NegativeBinomial(torch.tensor([total]), logits=torch.tensor([logits]))
    expected = _sum_over_support(d, m, s, 60.0 * 400 / min(total, 1.0))
    actual = marginals.score_moments(d, torch.tensor([m]), torch.tensor([s]))
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize(
    "d",
    [
        dist.Poisson(torch.tensor([1e7]).double()),
        dist.NegativeBinomial(torch.tensor([2.0]).double(), logits=torch.tensor([15.0]).double()),
        dist.NegativeBinomial(torch.tensor([0.1]).double(), logits=torch.tensor([18.0]).double()),
        dist.Binomial(torch.tensor([1e7]).double(), probs=torch.tensor([0.999]).double()),
        dist.ZeroInflatedPoisson(torch.tensor([1e7]).double(), gate=torch.tensor([0.3]).double()),
        dist.Geometric(torch.tensor([1e-7]).double()),
    ],
    ids=lambda d: type(d).__name__,
)
def test_counts_of_millions(d):
    mean, variance = marginals.score_moments(d, torch.zeros(1), torch.ones(1))
    torch.testing.assert_close(mean, d.mean, rtol=1e-10, atol=0)
    torch.testing.assert_close(variance, d.variance, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", LAWS)
def test_no_spread_is_a_point(name):
    d = LAWS[name].make()
    mean, variance = marginals.score_moments(d, torch.tensor([0.4]), torch.zeros(1))
    torch.testing.assert_close(mean, marginals.from_normal_score(d, torch.tensor([0.4])))
    assert variance.item() == 0.0


def test_moments_that_do_not_exist():
    def moments(d, m, s):
        mean, variance = marginals.score_moments(d, torch.tensor([m]), torch.tensor([s]))
        return mean.item(), variance.item()

    one = torch.ones(1)
    assert np.isnan(moments(dist.Cauchy(0 * one, one), 0.0, 1.0)[0])
    assert np.isnan(moments(dist.StudentT(0.5 * one), 0.1, 1.0)).all()
    assert moments(dist.HalfCauchy(one), 0.1, 1.0) == (torch.inf, torch.inf)
    assert moments(dist.InverseGamma(0.5 * one, one), 0.1, 1.0) == (torch.inf, torch.inf)
    mean, variance = moments(dist.StudentT(1.5 * one), 0.3, 1.0)
    assert np.isfinite(mean)
    assert variance == torch.inf
    # With a smaller spread of the score the same laws have moments.
    mean, variance = moments(dist.Cauchy(0 * one, one), 0.0, 0.5)
    assert abs(mean) < 1e-12
    assert np.isfinite(variance)


def test_many_nodes_and_batches():
    rate = torch.logspace(-1, 4, 60).reshape(2, 30)
    d = dist.Poisson(rate)
    mean, variance = marginals.score_moments(d, torch.zeros(30), torch.ones(1))
    assert mean.shape == (2, 30)
    torch.testing.assert_close(mean, rate, rtol=1e-10, atol=0)
    torch.testing.assert_close(variance, rate, rtol=1e-9, atol=0)
    low = marginals.score_moments(
        dist.Poisson(rate.float()), torch.zeros(30).float(), torch.ones(1).float()
    )
    assert low[0].dtype == torch.float32


@pytest.mark.parametrize("log_dispersion", [20.0, 30.0])
def test_moments_of_much_dispersion(log_dispersion):
    """With standard scores they are those of the law: ``mean`` and ``mean + dispersion mean^2``."""
    dispersion = math.exp(log_dispersion)
    law = dist.NegativeBinomial(
        torch.tensor([1 / dispersion]), logits=torch.tensor([math.log(7.0) + log_dispersion])
    )
    mean, variance = marginals.score_moments(law, torch.zeros(1), torch.ones(1))
    assert float(mean) == pytest.approx(7.0, rel=1e-6)
    assert float(variance) == pytest.approx(7 + 49 * dispersion, rel=1e-6)


@pytest.mark.parametrize(
    "law",
    [
        lambda: dist.NegativeBinomial(
            torch.tensor([2.0, 1e-16]), logits=torch.tensor([0.0, math.log(7e16)])
        ),
        lambda: dist.NegativeBinomial(
            torch.tensor([2.0, 1e-45]), logits=torch.tensor([0.0, math.log(7e45)])
        ),
        lambda: dist.Poisson(torch.tensor([3.0, 1e17])),
        lambda: dist.Binomial(torch.tensor([3.0, 1e18]), probs=torch.tensor([0.5, 0.5])),
        lambda: dist.Geometric(torch.tensor([0.5, 1e-18])),
    ],
    ids=["dispersion 1e16", "dispersion 1e45", "rate", "trials", "geometric"],
)
def test_counts_that_float64_cannot_tell_apart_are_refused(law):
    with pytest.raises(ParameterRangeError, match=r"at node 1\.\n.*continuous law") as caught:
        marginals.score_moments(law(), torch.zeros(2), torch.ones(2))
    assert caught.value.argument == "marginal_dist"


@pytest.mark.parametrize("name", ["mean", "variance"])
def test_a_law_without_moments_of_its_own_has_them_by_quadrature(name):
    loc = torch.tensor([[0.0, 0.5, -1.0], [0.2, 0.1, 0.0]])
    known = dist.LogNormal(loc, 0.7)
    law = dist.TransformedDistribution(dist.Normal(loc, 0.7), dist.transforms.ExpTransform())
    torch.testing.assert_close(marginals.moment(law, name), getattr(known, name))
    assert torch.equal(marginals.moment(known, name), getattr(known, name))
    graph = pc.Graph.from_edges([(0, 1), (1, 2)])
    copula = pc.GaussianCopula(law, precision=pc.CARPrecision(graph)(rho=0.5, tau=1.0))
    torch.testing.assert_close(getattr(copula, name), getattr(known, name))
