"""The sinh-arcsinh law: against transformed normal laws, Bessel functions and quadrature."""

from __future__ import annotations

import mpmath
import numpy as np
import pyro.distributions as dist
import pytest
import scipy.integrate
import scipy.stats as st
import torch
from law_checks import FAILURE_RATE, check_in_copula, check_low_precision, check_pyro_manners

from pyro_copula import marginals
from pyro_copula.marginals import Mixed, SinhArcsinh
from pyro_copula.testing import check_marginal_law

LOC = [0.0, 1.5, -2.0, 0.3]
SCALE = [1.0, 0.4, 3.0, 1.2]
SKEW = [0.0, 0.7, -1.1, 0.2]
TAIL = [1.0, 0.5, 1.6, 2.5]


def _parameters(dtype=torch.float64):
    return [torch.tensor(p, dtype=dtype) for p in (LOC, SCALE, SKEW, TAIL)]


def _law(dtype=torch.float64):
    return SinhArcsinh(*_parameters(dtype))


def _score(y, loc, scale, skew, tail):
    return np.sinh(np.arcsinh((y - loc) / scale) / tail - skew)


def test_normal_without_skewness_and_with_plain_tails():
    loc, scale = torch.tensor([1.0, -3.0]), torch.tensor([2.0, 0.1])
    d, normal = SinhArcsinh(loc, scale), dist.Normal(loc, scale)
    z = torch.linspace(-30.0, 30.0, 61)[:, None]
    y = loc + scale * z
    torch.testing.assert_close(d.log_prob(y), normal.log_prob(y), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(marginals.normal_score(d, y), z.expand(-1, 2), rtol=1e-12, atol=0)
    torch.testing.assert_close(d.mean, loc, rtol=1e-15, atol=0)
    torch.testing.assert_close(d.variance, scale.square(), rtol=2e-15, atol=0)


def test_values_equal_a_transformed_normal_law():
    d = _law()
    y = torch.linspace(-20.0, 20.0, 81)[:, None].expand(-1, 4)
    z = _score(y.numpy(), *(np.array(p) for p in (LOC, SCALE, SKEW, TAIL)))
    for function, theirs in (("cdf", "cdf"), ("sf", "sf"), ("log_cdf", "logcdf")):
        expected = torch.as_tensor(getattr(st.norm, theirs)(z))
        actual = getattr(marginals, function)(d, y)
        torch.testing.assert_close(actual, expected, rtol=1e-11, atol=1e-300)
    # By the change of variables, with a derivative from the score itself.
    point = y.clone().requires_grad_()
    (slope,) = torch.autograd.grad(marginals.normal_score(d, point).sum(), point)
    expected = torch.as_tensor(st.norm.logpdf(z)) + slope.log()
    torch.testing.assert_close(d.log_prob(y), expected, rtol=1e-11, atol=1e-11)
    u = torch.tensor([[1e-9], [0.02], [0.5], [0.999]])
    torch.testing.assert_close(d.cdf(d.icdf(u)), u.expand(-1, 4), rtol=1e-10, atol=0)


@pytest.mark.parametrize("node", range(4))
def test_density_integrates_to_one(node):
    d = SinhArcsinh(*(p[node] for p in _parameters()))

    def density(z):  # on the scale of a normal score, where heavy tails are short
        y = marginals.from_normal_score(d, torch.tensor(z).requires_grad_())
        slope = np.cosh(TAIL[node] * (np.arcsinh(z) + SKEW[node])) * TAIL[node] * SCALE[node]
        return d.log_prob(y.detach()).exp().item() * slope / np.sqrt(1 + z * z)

    total = sum(scipy.integrate.quad(density, a, a + 3)[0] for a in range(-9, 9, 3))
    assert total == pytest.approx(1.0, rel=1e-10)


def _bessel_moments(skew, tail):
    with mpmath.workdps(40):
        skew, tail, x = mpmath.mpf(skew), mpmath.mpf(tail), mpmath.mpf(1) / 4

        def p(q):
            bessel = mpmath.besselk((q + 1) / 2, x) + mpmath.besselk((q - 1) / 2, x)
            return mpmath.exp(x) / mpmath.sqrt(8 * mpmath.pi) * bessel

        mean = mpmath.sinh(tail * skew) * p(tail)
        return float(mean), float((mpmath.cosh(2 * tail * skew) * p(2 * tail) - 1) / 2 - mean**2)


@pytest.mark.parametrize("tail", [1e-5, 0.2, 1.0, 2.7, 15.0, 60.0])
@pytest.mark.parametrize("skew", [0.0, 1e-4, -0.8, 3.0])
def test_moments_equal_bessel_functions(skew, tail):
    d = SinhArcsinh(torch.tensor(0.0), torch.tensor(1.0), skew, tail)
    mean, variance = _bessel_moments(skew, tail)
    torch.testing.assert_close(d.mean, torch.tensor(mean), rtol=1e-13, atol=0)
    torch.testing.assert_close(d.variance, torch.tensor(variance), rtol=1e-13, atol=0)


def test_moments_of_scores():
    d = _law()
    almost = torch.tensor(1 - 2.0**-53)  # avoids the shortcut to the law's own moments
    mean, variance = marginals.score_moments(d, torch.zeros(4), almost)
    torch.testing.assert_close(mean, d.mean, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(variance, d.variance, rtol=1e-9, atol=0)


@pytest.mark.parametrize("quantity", ["log_prob", "mean", "variance", "score", "quantile"])
def test_gradients_equal_differences(quantity):
    y = torch.tensor([[-4.0], [0.1], [6.0]])
    functions = {
        "log_prob": lambda d: d.log_prob(y),
        "mean": lambda d: d.mean,
        "variance": lambda d: d.variance,
        "score": lambda d: marginals.normal_score(d, y),
        "quantile": lambda d: marginals.from_normal_score(d, y / 3),
    }
    parameters = [p.requires_grad_() for p in _parameters()]
    assert torch.autograd.gradcheck(
        lambda *p: functions[quantity](SinhArcsinh(*p)), parameters, rtol=1e-6
    )


def test_far_tails():
    d = _law()
    z = torch.tensor([-30.0, -12.0, 12.0, 30.0])[:, None].expand(-1, 4)
    y = marginals.from_normal_score(d, z)
    torch.testing.assert_close(marginals.normal_score(d, y), z, rtol=1e-11, atol=0)
    expected = torch.as_tensor(st.norm.logsf(z.abs().numpy()))
    tail = torch.where(z < 0, marginals.log_cdf(d, y), marginals.log_sf(d, y))
    torch.testing.assert_close(tail, expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_value_is_too_large(dtype):
    # Squares overflow and light tails leave the range of the floats; nothing becomes NaN.
    largest = 1e30 if dtype == torch.float32 else 1e300
    tail = torch.tensor([0.02, 0.5, 1.0, 4.0], dtype=dtype, requires_grad=True)
    loc = torch.zeros(4, dtype=dtype, requires_grad=True)
    y = torch.tensor([[-largest], [-1e9], [0.0], [1e9], [largest]], dtype=dtype)
    d = SinhArcsinh(loc, torch.ones(4, dtype=dtype), torch.full((4,), 0.5, dtype=dtype), tail)
    log_prob = d.log_prob(y)
    assert bool(torch.isfinite(log_prob).all())
    assert bool((log_prob[[0, 1, 4, 3]].diff(dim=0)[[0, 2]] > 0).all())
    for gradient in torch.autograd.grad(log_prob.sum(), (loc, tail)):
        assert not bool(torch.isnan(gradient).any())
    score = marginals.normal_score(d, y)
    assert bool(torch.isfinite(score).all() & (score.diff(dim=0) > 0).all())


def test_draws_have_the_law_and_derivatives():
    d = _law()
    y = d.sample((4000,))
    for node in range(4):
        arguments = (LOC[node], SCALE[node], SKEW[node], TAIL[node])
        scores = _score(y[:, node].numpy(), *arguments)
        assert st.kstest(scores, "norm").pvalue > FAILURE_RATE / 4
    parameters = [p.requires_grad_() for p in _parameters()]
    draws = SinhArcsinh(*parameters).rsample((10,))
    assert all(bool((g != 0).all()) for g in torch.autograd.grad(draws.sum(), parameters))
    assert not d.sample().requires_grad


def test_manners():
    d = _law()
    check_pyro_manners(d, torch.tensor([0.3, 2.0, -5.0, 1.0]))
    check_low_precision(_law(torch.float32), d, torch.tensor([0.3, 2.0, -5.0, 1.0]))
    check_marginal_law(d)
    assert repr(SinhArcsinh(0.0, 1.0)) == (
        "SinhArcsinh(loc: 0.0, scale: 1.0, skew: 0.0, tailweight: 1.0)"
    )
    for bad in ({"tailweight": 0.0}, {"scale": -1.0}, {"skew": float("nan")}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            SinhArcsinh(**{"loc": torch.zeros(1), "scale": 1.0, **bad}, validate_args=True)
    with pytest.raises(ValueError, match="support"):
        SinhArcsinh(torch.zeros(1), 1.0, validate_args=True).log_prob(torch.tensor([torch.nan]))


def test_in_a_copula_and_mixed():
    three = SinhArcsinh(*(p[1:] for p in _parameters()))
    y = torch.tensor([1.8, -5.0, 0.9])
    check_in_copula(three, y)
    mixed = Mixed(
        {"real": three, "count": dist.Poisson(torch.full((3,), 6.0))}, ["real", "count", "real"]
    )
    check_in_copula(mixed, torch.tensor([1.8, 4.0, 0.9]))
