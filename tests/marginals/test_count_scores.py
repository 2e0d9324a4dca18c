"""The kernel of count scores: against high precision, the general way, and at the extremes."""

from __future__ import annotations

import math

import mpmath
import pyro.distributions as dist
import pytest
import torch

from pyro_copula import marginals
from pyro_copula.errors import SecondOrderError
from pyro_copula.marginals.discrete import CountCDF
from pyro_copula.marginals.registry import lookup
from pyro_copula.marginals.scores import midpoint_from_tails

PARTS = {"midpoint": 0.5, "score": 1.0}
FUNCTIONS = {"midpoint": marginals.midpoint_score, "score": marginals.normal_score}


def poisson(rate):
    return dist.Poisson(rate)


def negative_binomial(total, t):
    return dist.NegativeBinomial(total, logits=-t)


def gamma_poisson(concentration, t):
    return dist.GammaPoisson(concentration, t.exp())


MAKERS = {"poisson": poisson, "nb": negative_binomial, "gamma_poisson": gamma_poisson}


def _general(d, y, name):
    """The score from tails, as every other law has it."""
    if name == "midpoint":
        return midpoint_from_tails(d, y, torch.tensor(True))
    law, base = lookup(d)
    return CountCDF.score_at(law, law.parameters(base), y)


def _with_gradients(function, make, arguments):
    leaves = [a.clone().requires_grad_() for a in arguments]
    z = function(make(*leaves))
    return z.detach(), torch.autograd.grad(z.sum(), leaves)


def _precise_score(masses_below, own, masses_above, part):
    """The z with ``Phi(z) = below + part * own``, in high precision, from the smaller tail."""
    lower, upper = masses_below + part * own, masses_above + (1 - part) * own
    tail, sign = (lower, 1) if lower < upper else (upper, -1)
    log_tail = mpmath.log(tail)
    z = mpmath.mpf(float(torch.special.ndtri(torch.tensor(0.3))))
    if log_tail < -3:
        z = -mpmath.sqrt(-2 * log_tail)
    for _ in range(60):  # Newton's method for a concave function
        p = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
        step = (mpmath.log(p) - log_tail) * p / mpmath.npdf(z)
        z -= step
        if abs(step) < mpmath.mpf(10) ** -30 * (1 + abs(z)):
            break
    return sign * z


def _precise_poisson(k, rate, part):
    own = mpmath.exp(k * mpmath.log(rate) - rate - mpmath.loggamma(k + 1))
    below = mpmath.gammainc(k, rate, regularized=True) if k else mpmath.mpf(0)
    above = mpmath.gammainc(k + 1, 0, rate, regularized=True)
    z = _precise_score(below, own, above, part)
    slope = -own * ((1 - part) * k / rate + part) / mpmath.npdf(z)
    return float(z), float(slope)


@pytest.mark.parametrize("name", PARTS)
def test_poisson_scores_and_slopes_in_high_precision(name):
    rates = [1e-8, 0.05, 0.69, 0.7, 3.3, 42.0, 99.5, 100.5, 1e3]
    cases = [
        (k, rate)
        for rate in rates
        for k in sorted({0, 1, 7, 99, 100} | {int(rate + s * rate**0.5) for s in (0, 1, 8)})
        if rate < 500 or k > 600  # the rest is below 1e-200 and slow to compute precisely
    ]
    with mpmath.workdps(60):
        expected = [_precise_poisson(k, mpmath.mpf(rate), PARTS[name]) for k, rate in cases]
    k, rate = torch.tensor(cases).T
    z, (slope,) = _with_gradients(lambda d: FUNCTIONS[name](d, k), poisson, [rate])
    target, target_slope = torch.tensor(expected).T
    torch.testing.assert_close(z, target, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(slope, target_slope, rtol=1e-12, atol=0.0)


def _precise_negative_binomial(k, total, t, part):
    fail, success = 1 / (1 + mpmath.exp(-t)), 1 / (1 + mpmath.exp(t))
    own = mpmath.rf(total, k) / mpmath.factorial(k) * fail**total * success**k
    below, term = mpmath.mpf(0), own
    for j in range(k, 0, -1):
        term *= j / ((total + j - 1) * success)
        below += term
    above = 1 - below - own  # the digits are many enough
    return _precise_score(below, own, above, part)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("total", [1e-4, 0.3, 2.0, 11.0, 1e4, 1e12])
def test_negative_binomial_scores_and_slopes_in_high_precision(name, total):
    means = [1e-6, 0.4, 3.0, 40.0] if total > 0.1 else [1e-6, 0.4]
    cases = [(k, mean) for mean in means for k in (0, 1, int(mean) + 1, int(3 * mean) + 5)]
    expected = []
    with mpmath.workdps(100):
        h = mpmath.mpf(10) ** -15
        for k, mean in cases:
            r, t = mpmath.mpf(total), mpmath.mpf(math.log(total / mean))
            score = lambda r, t, k=k: _precise_negative_binomial(k, r, t, PARTS[name])  # noqa: E731
            slope_r = (score(r * (1 + h), t) - score(r * (1 - h), t)) / (2 * h * r)
            slope_t = (score(r, t + h) - score(r, t - h)) / (2 * h)
            expected.append([float(score(r, t)), float(slope_r), float(slope_t)])
    k, mean = torch.tensor(cases).T
    t = torch.tensor([math.log(total / m) for m in mean.tolist()])
    arguments = [torch.full_like(t, total), t]
    z, slopes = _with_gradients(lambda d: FUNCTIONS[name](d, k), negative_binomial, arguments)
    target, *target_slopes = torch.tensor(expected).T
    torch.testing.assert_close(z, target, rtol=1e-11, atol=1e-14)
    for slope, target_slope in zip(slopes, target_slopes, strict=True):
        torch.testing.assert_close(slope, target_slope, rtol=1e-10, atol=0.0)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("law", MAKERS)
def test_the_general_way_agrees(law, name):
    generator = torch.Generator().manual_seed(0)
    mean = 10 ** (8 * torch.rand(400, generator=generator) - 2)
    y = torch.poisson(mean * torch.rand(400, generator=generator) * 3, generator=generator)
    arguments = [mean]
    if law != "poisson":
        total = 10 ** (8 * torch.rand(400, generator=generator) - 2)
        arguments = [total, (total / mean).log()]
    make = MAKERS[law]
    z, slopes = _with_gradients(lambda d: FUNCTIONS[name](d, y), make, arguments)
    expected, expected_slopes = _with_gradients(lambda d: _general(d, y, name), make, arguments)
    torch.testing.assert_close(z, expected, rtol=1e-9, atol=1e-11)
    for slope, target in zip(slopes, expected_slopes, strict=True):
        torch.testing.assert_close(slope, target, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("law", MAKERS)
def test_finite_and_monotone_at_the_extremes(law, name):
    y = torch.tensor([0.0, 1.0, 2.0, 50.0, 99.0, 100.0, 101.0, 1e4, 1e7])
    scale = 10 ** torch.arange(-8.0, 9.0)
    if law == "poisson":
        arguments = [scale[:, None]]
    else:
        totals = torch.tensor([1e-8, 1e-3, 0.5, 1.0, 30.0, 1e6, 1e15])
        arguments = [totals[:, None, None], (totals[:, None] / scale).log()[..., None]]
    z, slopes = _with_gradients(lambda d: FUNCTIONS[name](d, y), MAKERS[law], arguments)
    assert bool(torch.isfinite(z).all())
    assert bool((z.diff(dim=-1) >= -1e-9 * z[..., 1:].abs()).all())
    for slope in slopes:
        assert bool(torch.isfinite(slope).all())


@pytest.mark.parametrize("name", PARTS)
def test_outside_of_the_support_and_of_the_parameters(name):
    y = torch.tensor([-3.0, 0.0, 4.0, torch.inf, torch.nan])
    inf, end = torch.inf, {"midpoint": 0.0, "score": torch.inf}[name]
    expected = {0.0: [-inf, end, inf, inf], inf: [-inf, -inf, -inf, inf]}
    for rate, scores in expected.items():
        leaf = torch.full((5,), rate, requires_grad=True)
        z = FUNCTIONS[name](dist.Poisson(leaf, validate_args=False), y)
        torch.testing.assert_close(z[:4], torch.tensor(scores), rtol=0.0, atol=1e-15)
        assert bool(torch.isnan(z[4]))
        (slope,) = torch.autograd.grad(z[:4].sum(), leaf)
        assert bool((slope == 0).all())
    for t, scores in ((inf, expected[0.0]), (-inf, expected[inf])):
        d = dist.NegativeBinomial(torch.full((5,), 2.0), logits=-t, validate_args=False)
        z = FUNCTIONS[name](d, y)
        torch.testing.assert_close(z[:4], torch.tensor(scores), rtol=0.0, atol=1e-15)
    bad = dist.Poisson(torch.tensor([-1.0, torch.nan]), validate_args=False)
    assert bool(torch.isnan(FUNCTIONS[name](bad, torch.tensor(1.0))).all())


@pytest.mark.parametrize("name", PARTS)
def test_shapes_dtypes_and_values_with_a_graph(name):
    rate = torch.tensor([1.0, 3.0, 9.0], dtype=torch.float32, requires_grad=True)
    y = torch.tensor([[0.0, 2.0, 30.0], [1.0, 5.0, 7.0]], dtype=torch.float32)
    z = FUNCTIONS[name](dist.Poisson(rate), y)
    assert z.dtype == torch.float32
    assert z.shape == (2, 3)
    z.sum().backward()
    assert rate.grad.dtype == torch.float32
    wide = FUNCTIONS[name](dist.Poisson(rate.detach().double()), y.double())
    torch.testing.assert_close(z.detach().double(), wide, rtol=1e-6, atol=0.0)
    shared = torch.tensor(2.0, requires_grad=True)  # one parameter for all nodes
    d = dist.NegativeBinomial(shared, logits=torch.zeros(3))
    (slope,) = torch.autograd.grad(FUNCTIONS[name](d, y.double()).sum(), shared)
    assert slope.shape == ()
    between = torch.tensor([0.5, 2.0, 3.7], requires_grad=True)
    z = FUNCTIONS[name](dist.Poisson(torch.ones(3)), between)
    assert torch.equal(torch.autograd.grad(z.sum(), between)[0], torch.zeros(3))
    whole = FUNCTIONS[name](dist.Poisson(torch.ones(3)), between.detach().floor())
    torch.testing.assert_close(z.detach(), whole, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("name", PARTS)
def test_second_derivatives_are_those_of_the_general_way(name):
    y = torch.tensor([0.0, 2.0, 5.0, 40.0])
    rate = torch.tensor([0.4, 3.0, 4.0, 20.0], requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda r: FUNCTIONS[name](dist.Poisson(r), y), rate)
    t = torch.tensor([0.5, -0.2, 0.1, -2.0], requires_grad=True)
    odds = lambda t: FUNCTIONS[name](negative_binomial(torch.full((4,), 2.5), t), y)  # noqa: E731
    assert torch.autograd.gradgradcheck(odds, t)
    total = torch.full((4,), 2.5, requires_grad=True)
    z = FUNCTIONS[name](negative_binomial(total, t), y)
    (slope,) = torch.autograd.grad(z.sum(), total, create_graph=True)
    with pytest.raises(SecondOrderError):
        slope.sum().backward()
