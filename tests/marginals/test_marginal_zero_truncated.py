"""Counts given that they are positive: against renormalised probabilities and brute-force sums."""

from __future__ import annotations

import mpmath
import numpy as np
import pyro.distributions as dist
import pytest
import scipy.stats as st
import torch
from law_checks import (
    check_draws_of_counts,
    check_in_copula,
    check_low_precision,
    check_pyro_manners,
)
from torch.distributions import constraints

from pyro_copula import marginals
from pyro_copula.errors import InvalidArgumentError, MissingCDFError
from pyro_copula.marginals import Mixed, Shifted, ZeroTruncated
from pyro_copula.testing import check_marginal_law


def _sigmoid(t):
    return 1 / (1 + np.exp(-t))


#: Each base: how to build it, its parameters and scipy's version.
BASES = {
    "poisson": (dist.Poisson, ([0.05, 0.8, 7.0, 60.0],), st.poisson),
    "negative_binomial": (
        lambda total, t: dist.NegativeBinomial(total, logits=t),
        ([0.01, 0.5, 3.0, 20.0], [2.0, -3.0, 1.0, 0.5]),
        lambda total, t: st.nbinom(total, _sigmoid(-t)),
    ),
    "gamma_poisson": (
        dist.GammaPoisson,
        ([0.3, 1.0, 2.0, 9.0], [2.0, 0.2, 0.5, 0.3]),
        lambda a, b: st.nbinom(a, b / (1 + b)),
    ),
    "binomial": (
        lambda p: dist.Binomial(torch.tensor([1.0, 3.0, 12.0, 80.0]).to(p), probs=p),
        ([0.3, 0.01, 0.9, 0.4],),
        lambda p: st.binom(np.array([1, 3, 12, 80]), p),
    ),
    "geometric": (
        lambda p: dist.Geometric(probs=p),
        ([0.9, 0.5, 0.2, 0.05],),
        lambda p: st.geom(p, loc=-1),
    ),
    "zero_inflated_poisson": (
        lambda gate, rate: dist.ZeroInflatedPoisson(rate, gate=gate),
        ([0.9, 0.0, 0.5, 0.3], [0.05, 0.8, 7.0, 60.0]),
        lambda gate, rate: st.poisson(rate),
    ),
}
K = torch.arange(1.0, 1500.0)[:, None]


def _make(name, dtype=torch.float64):
    build, parameters, _ = BASES[name]
    return ZeroTruncated(build(*(torch.tensor(p, dtype=dtype) for p in parameters)))


def _reference(name):
    _, parameters, scipy = BASES[name]
    return scipy(*(np.array(p) for p in parameters))


def _inside(d):
    _, upper = marginals.registry.lookup(d)[0].bounds(marginals.registry.lookup(d)[1])
    return torch.minimum(K, upper.expand(4))


@pytest.mark.parametrize("name", BASES)
def test_probabilities_equal_scipy(name):
    d, base = _make(name), _reference(name)
    k = _inside(d)[:200]
    expected = torch.as_tensor(base.logpmf(k.numpy()) - base.logsf(0))
    # A base law with all but 1e-13 of its mass at positive counts makes scipy's logsf noise.
    torch.testing.assert_close(d.log_prob(k), expected, rtol=1e-10, atol=1e-10)
    sf = torch.as_tensor(base.sf(k.numpy()) / base.sf(0))
    torch.testing.assert_close(marginals.sf(d, k), sf, rtol=1e-10, atol=1e-290)
    cdf = torch.as_tensor((base.cdf(k.numpy()) - base.cdf(0)) / base.sf(0))
    torch.testing.assert_close(marginals.cdf(d, k), cdf, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("name", BASES)
def test_sums_and_moments_by_brute_force(name):
    d = _make(name)
    _, upper = marginals.registry.lookup(d)[0].bounds(marginals.registry.lookup(d)[1])
    p = torch.where(upper >= K, d.log_prob(_inside(d)).exp(), 0.0)
    torch.testing.assert_close(p.sum(0), torch.ones(4), rtol=1e-11, atol=0)
    mean = (K * p).sum(0)
    variance = ((K - mean).square() * p).sum(0)
    torch.testing.assert_close(d.mean, mean, rtol=1e-11, atol=0)
    torch.testing.assert_close(d.variance, variance, rtol=1e-10, atol=1e-15)
    moments = marginals.score_moments(d, torch.zeros(4), torch.ones(4))
    torch.testing.assert_close(moments, (mean, variance), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("rate", [1e-300, 1e-100, 1e-8, 1e-3, 0.3, 40.0, 3000.0])
def test_any_chance_of_a_positive_count(rate):
    d = ZeroTruncated(dist.Poisson(torch.tensor(rate)))
    with mpmath.workdps(400):
        r = mpmath.mpf(rate)
        positive = -mpmath.expm1(-r)
        mean = r / positive
        variance = float(mean * (1 + r - mean))
        first = float(mpmath.log(r) - r - mpmath.log(positive))
    torch.testing.assert_close(
        d.log_prob(torch.tensor(1.0)), torch.tensor(first), atol=2e-13, rtol=1e-13
    )
    torch.testing.assert_close(d.mean, torch.tensor(float(mean)), rtol=1e-14, atol=0)
    torch.testing.assert_close(d.variance, torch.tensor(variance), rtol=1e-12, atol=0)


@pytest.mark.parametrize("quantity", ["log_prob", "mean", "variance", "score"])
@pytest.mark.parametrize("name", ["poisson", "negative_binomial", "gamma_poisson", "binomial"])
def test_gradients_equal_differences(name, quantity):
    build, parameters, _ = BASES[name]
    functions = {
        "log_prob": lambda d: d.log_prob(_inside(d)[:9:4]),
        "mean": lambda d: d.mean,
        "variance": lambda d: d.variance,
        "score": lambda d: marginals.midpoint_score(d, _inside(d)[:9:4]),
    }
    tensors = [torch.tensor(p, requires_grad=True) for p in parameters]
    assert torch.autograd.gradcheck(
        lambda *p: functions[quantity](ZeroTruncated(build(*p))), tensors, rtol=1e-5, atol=1e-6
    )


def test_gradients_for_tiny_rates():
    # Mean 1 + rate / 2 and variance rate / 2, to first order.
    rate = torch.tensor([1e-300, 1e-12, 1e-8], requires_grad=True)
    d = ZeroTruncated(dist.Poisson(rate))
    for moment in (d.mean, d.variance):
        (slope,) = torch.autograd.grad(moment.sum(), rate, retain_graph=True)
        torch.testing.assert_close(slope, torch.full((3,), 0.5), rtol=1e-7, atol=0)
    y = torch.tensor([[1.0], [3.0]])
    total = marginals.midpoint_score(d, y).sum() + d.log_prob(y).sum()
    assert bool(torch.isfinite(torch.autograd.grad(total, rate)[0]).all())


def test_tails_to_thirty():
    d = ZeroTruncated(dist.Poisson(torch.tensor([0.01, 3.0, 900.0])))
    z = torch.tensor([[-30.0], [-5.0], [5.0], [30.0]])
    k = marginals.from_normal_score(d, z)
    assert bool((marginals.normal_score(d, k) >= z).all())
    assert bool((marginals.normal_score(d, k - 1) < z).all())
    assert k[0].tolist()[:2] == [1.0, 1.0]
    with mpmath.workdps(400):
        for rate, count in ((3, 150), (900, 60)):
            law = ZeroTruncated(dist.Poisson(torch.tensor(float(rate))))
            lower = mpmath.gammainc(count + 1, rate, regularized=True) - mpmath.exp(-rate)
            upper = mpmath.gammainc(count + 1, 0, rate, regularized=True)
            positive = -mpmath.expm1(-rate)
            for function, tail in (("log_cdf", lower), ("log_sf", upper)):
                expected = float(mpmath.log(tail / positive))
                actual = getattr(marginals, function)(law, torch.tensor(float(count)))
                torch.testing.assert_close(actual, torch.tensor(expected), rtol=1e-11, atol=0)


@pytest.mark.parametrize("name", ["negative_binomial", "binomial", "zero_inflated_poisson"])
def test_draws_have_the_law(name):
    check_draws_of_counts(_make(name))


def test_zero_inflation_does_not_matter():
    rate = torch.tensor([0.4, 90.0])
    plain = ZeroTruncated(dist.Poisson(rate))
    inflated = ZeroTruncated(dist.ZeroInflatedPoisson(rate, gate=torch.tensor([0.5, 0.99])))
    y = torch.tensor([[1.0], [3.0], [70.0]])
    for function in (marginals.log_cdf, marginals.midpoint_score, ZeroTruncated.log_prob):
        torch.testing.assert_close(
            function(inflated, y), function(plain, y), rtol=1e-11, atol=1e-13
        )
    torch.testing.assert_close(inflated.variance, plain.variance)


@pytest.mark.parametrize("name", BASES)
def test_contract(name):
    check_marginal_law(_make(name))


def test_manners():
    d, y = _make("negative_binomial"), torch.tensor([1.0, 2.0, 9.0, 30.0])
    check_pyro_manners(d, y)
    check_low_precision(_make("negative_binomial", torch.float32), d, y)
    check_pyro_manners(_make("binomial"), torch.tensor([1.0, 2.0, 12.0, 30.0]))
    assert d.support is constraints.positive_integer
    assert not d.has_rsample
    assert repr(ZeroTruncated(dist.Poisson(2.0))) == "ZeroTruncated(Poisson(rate: 2.0))"
    wrapped = ZeroTruncated(dist.ExpandedDistribution(dist.Poisson(torch.tensor(2.0)), [4]))
    assert wrapped.mean.shape == wrapped.sample().shape == (4,)


def test_values_that_are_not_positive_counts():
    base = dist.Binomial(torch.tensor([5.0, 2.0]), probs=torch.tensor([0.5, 0.5]))
    for bad in (0.0, -1.0, 1.5, 3.0):
        with pytest.raises(ValueError, match="support"):
            ZeroTruncated(base, validate_args=True).log_prob(torch.tensor([1.0, bad]))
    d = ZeroTruncated(dist.Poisson(torch.tensor(2.0), validate_args=False), validate_args=False)
    assert d.log_prob(torch.tensor(0.0)).item() == -torch.inf
    assert bool(torch.isnan(d.log_prob(torch.tensor(torch.nan))))
    assert d.log_prob(torch.tensor(2)).item() == d.log_prob(torch.tensor(2.0)).item()


class OwnGeometric(dist.Geometric):
    """A law of a user, known by its own cdf."""

    def cdf(self, value):
        return 1 - (1 - self.probs) ** (value + 1)

    def icdf(self, u):
        return torch.full_like(u + self.probs, 5.0)


def test_a_law_of_a_user():
    p = torch.tensor([0.3, 0.8])
    d, reference = ZeroTruncated(OwnGeometric(p)), ZeroTruncated(dist.Geometric(p))
    y = torch.arange(1.0, 20.0)[:, None]
    torch.testing.assert_close(marginals.cdf(d, y), marginals.cdf(reference, y))
    torch.testing.assert_close(
        marginals.midpoint_score(d, y[:10]),
        marginals.midpoint_score(reference, y[:10]),
        rtol=1e-5,
        atol=0,
    )
    torch.testing.assert_close(d.mean, reference.mean)
    torch.testing.assert_close(d.variance, reference.variance)
    z = torch.linspace(-4.0, 4.0, 60)[:, None]
    same = marginals.from_normal_score(d, z) == marginals.from_normal_score(reference, z)
    assert bool(same.all())
    check_marginal_law(d)
    check_draws_of_counts(d)


@pytest.mark.parametrize(
    ("base", "message"),
    [
        (3.0, "`base_dist` must be a Pyro distribution of counts, but found a float"),
        (dist.Poisson, "found the class Poisson"),
        (dist.Normal(0.0, 1.0), "Normal, which is continuous"),
        (dist.Poisson(torch.ones(2)).to_event(1), r"event shape \(2,\)"),
        (Shifted(dist.Poisson(1.0), 1), "starts at 0, but found Shifted, which starts at 1"),
        (Mixed({"a": dist.Poisson(torch.ones(2))}, ["a", "a"]), "Mixed, of several families"),
        (dist.Poisson(torch.zeros(2)), r"P\(X > 0\) = 0"),
        (dist.Binomial(torch.tensor([3.0, 0.0]), probs=torch.tensor(0.4)), "can be positive"),
    ],
)
def test_bad_bases(base, message):
    with pytest.raises(InvalidArgumentError, match=message) as error:
        ZeroTruncated(base, validate_args=True)
    assert error.value.argument == "base_dist"
    assert error.value.hint


def test_a_base_without_cdf():
    with pytest.raises(MissingCDFError, match="`base_dist`"):
        ZeroTruncated(dist.Categorical(torch.ones(3)))


def test_in_a_copula_and_mixed():
    base = dist.NegativeBinomial(torch.full((3,), 3.0), logits=torch.tensor([1.0, 0.5, 1.5]))
    d, y = ZeroTruncated(base), torch.tensor([6.0, 9.0, 5.0])
    check_in_copula(d, y)
    mixed = Mixed({"a": d, "b": dist.Normal(torch.zeros(3), 1.0)}, ["b", "a", "a"])
    check_in_copula(mixed, torch.tensor([-0.7, 9.0, 5.0]))
