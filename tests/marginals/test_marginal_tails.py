"""Both tails of every law: values against scipy and mpmath, gradients against differences."""

from __future__ import annotations

import mpmath
import numpy as np
import pyro.distributions as dist
import pytest
import torch
from marginal_laws import CONTINUOUS, DISCRETE, LAWS

from pyro_copula import marginals

NAMES = ["cdf", "sf", "log_cdf", "log_sf"]


def _reference(law, function, y):
    """Return scipy's value; its logarithms lose the digits of a probability near one."""
    name = function.removeprefix("log_")
    small = getattr(law.reference, name)(y)
    if name == function:
        return small
    other = getattr(law.reference, {"cdf": "sf", "sf": "cdf"}[name])(y)
    with np.errstate(divide="ignore"):
        return np.where(other < 0.5, np.log1p(-np.minimum(other, 0.5)), np.log(small))


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("function", NAMES)
def test_tails_equal_scipy(name, function):
    law = LAWS[name]
    y = law.points()
    if name == "bernoulli":
        y = torch.zeros(1, 1)
    expected = torch.as_tensor(_reference(law, function, y.numpy()))
    actual = getattr(marginals, function)(law.make(), y)
    # A law with a hard end far from zero leaves few digits of the distance to it in y itself.
    rtol = 1e-3 if name in ("pareto", "uniform", "negated_gamma") else 1e-10
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=1e-300)


def _log_normal_tail(z):
    return mpmath.log(mpmath.erfc(mpmath.mpf(z) / mpmath.sqrt(2)) / 2)


def _log_beta_tail(a, b, x):
    return mpmath.log(mpmath.betainc(a, b, 0, x, regularized=True))


DEEP = {
    "normal upper": (dist.Normal, (0.0, 1.0), 300.0, "log_sf", lambda: _log_normal_tail(300)),
    "normal lower": (dist.Normal, (0.0, 1.0), -40.0, "log_cdf", lambda: _log_normal_tail(40)),
    "poisson upper": (
        dist.Poisson,
        (1.0,),
        1000.0,
        "log_sf",
        lambda: mpmath.log(mpmath.gammainc(1001, 0, 1, regularized=True)),
    ),
    "poisson lower": (
        dist.Poisson,
        (3000.0,),
        10.0,
        "log_cdf",
        lambda: mpmath.log(mpmath.gammainc(11, 3000, regularized=True)),
    ),
    "gamma lower": (
        dist.Gamma,
        (2.5, 1.0),
        1e-200,
        "log_cdf",
        lambda: mpmath.log(mpmath.gammainc(2.5, 0, 1e-200, regularized=True)),
    ),
    "gamma upper": (
        dist.Gamma,
        (2.5, 1.0),
        2000.0,
        "log_sf",
        lambda: mpmath.log(mpmath.gammainc(2.5, 2000, regularized=True)),
    ),
    "student lower": (
        dist.StudentT,
        (3.0, 0.0, 1.0),
        -1e120,
        "log_cdf",
        lambda: _log_beta_tail(1.5, 0.5, 3 / (3 + mpmath.mpf(10) ** 240)) - mpmath.log(2),
    ),
    "beta lower": (
        dist.Beta,
        (2.5, 1.5),
        1e-200,
        "log_cdf",
        lambda: _log_beta_tail(2.5, 1.5, mpmath.mpf("1e-200")),
    ),
    "negative binomial upper": (
        lambda total, t: dist.NegativeBinomial(total, logits=t),
        (2.5, 0.0),
        3000.0,
        "log_sf",
        lambda: _log_beta_tail(3001, 2.5, mpmath.mpf(1) / 2),
    ),
    "geometric upper": (
        lambda p: dist.Geometric(probs=p),
        (0.5,),
        9999.0,
        "log_sf",
        lambda: 10000 * mpmath.log(mpmath.mpf(1) / 2),
    ),
    "gumbel upper": (dist.Gumbel, (0.0, 1.0), 2000.0, "log_sf", lambda: mpmath.mpf(-2000)),
    "gumbel lower": (dist.Gumbel, (0.0, 1.0), -8.0, "log_cdf", lambda: -mpmath.exp(8)),
    "half normal upper": (
        dist.HalfNormal,
        (1.0,),
        50.0,
        "log_sf",
        lambda: _log_normal_tail(50) + mpmath.log(2),
    ),
}


@pytest.mark.parametrize("case", DEEP)
def test_deep_tails_equal_mpmath(case):
    build, parameters, y, function, expected = DEEP[case]
    with mpmath.workdps(60):
        truth = float(expected())
    d = build(*[torch.tensor([p]) for p in parameters])
    actual = getattr(marginals, function)(d, torch.tensor([y]))
    assert truth < -25
    torch.testing.assert_close(actual, torch.tensor([truth]), rtol=1e-11, atol=0.0)


@pytest.mark.parametrize("name", LAWS)
def test_outside_the_support(name):
    d = LAWS[name].make()
    y = torch.tensor([[-torch.inf], [-1e30], [1e30], [torch.inf]])
    assert marginals.cdf(d, y)[[0, 3], 0].tolist() == [0.0, 1.0]
    assert marginals.sf(d, y)[[0, 3], 0].tolist() == [1.0, 0.0]
    for function in NAMES:
        value = getattr(marginals, function)(d, y)
        assert not bool(torch.isnan(value).any())
    torch.testing.assert_close(
        marginals.cdf(d, y)[[1, 2], 0], torch.tensor([0.0, 1.0]), atol=1e-25, rtol=0
    )


@pytest.mark.parametrize("name", DISCRETE)
def test_counts_are_steps(name):
    d = LAWS[name].make()
    y = (
        torch.tensor([[2.0], [2.7], [2.999]])
        if name != "bernoulli"
        else torch.tensor([[0.0], [0.5]])
    )
    values = marginals.cdf(d, y)
    assert bool((values == values[0]).all())
    assert marginals.cdf(d, torch.tensor([-0.5])).item() == 0.0


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("function", [*NAMES, "normal_score"])
def test_gradients_in_every_parameter(name, function):
    law = LAWS[name]
    y = law.points(1e-9)
    if name in ("uniform", "pareto"):
        # The ends of these two supports are parameters: differences must not step over them.
        y = y[(y > law.make().support.lower_bound + 0.1) & (y < 2.9)][:, None]
    if law.discrete:
        # The end of a finite support has no gradient: cdf is one whatever the parameters.
        y = y[marginals.sf(law.make(), y) > 0][:, None]
    _check_parameter_gradients(law, getattr(marginals, function), y)


@pytest.mark.parametrize("name", DISCRETE)
def test_gradients_of_midpoint_scores(name):
    law = LAWS[name]
    _check_parameter_gradients(law, marginals.midpoint_score, law.points(1e-9))


def _check_parameter_gradients(law, function, y):
    """Compare the derivative in every parameter at every point with a five-point difference."""
    parameters = [p.expand_as(y).clone().requires_grad_() for p in law.tensors()]
    output = function(law.build(*parameters), y)
    actual = torch.autograd.grad(output.sum(), parameters)
    for i, parameter in enumerate(parameters):
        h = 1e-4 * parameter.detach().abs()
        total = torch.zeros_like(y)
        for step, weight in ((1, 2 / 3), (2, -1 / 12)):
            for sign in (1, -1):
                moved = [p.detach().clone() for p in parameters]
                moved[i] += sign * step * h
                total += sign * weight * function(law.build(*moved), y)
        noise = 1e-11 * output.detach().abs() / h * 1e-4 + 1e-15
        error = (actual[i] - total / h).abs()
        assert bool((error <= 1e-6 * actual[i].abs() + noise).all()), (i, actual[i], total / h)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_gradients_in_the_value_are_densities(name):
    law = CONTINUOUS[name]
    d = law.make()
    y = law.points(1e-9).requires_grad_()
    log_density = d.log_prob(y.detach())
    log_tails = {"cdf": marginals.log_cdf(d, y), "sf": marginals.log_sf(d, y)}
    for function in NAMES:
        (slope,) = torch.autograd.grad(getattr(marginals, function)(d, y).sum(), y)
        tail = function.removeprefix("log_")
        expected = log_density.exp() * (1 if tail == "cdf" else -1)
        if tail != function:
            expected = expected / log_tails[tail].detach().exp()
        # torch's own log_prob of a logit loses digits near the ends.
        rtol = 1e-5 if name == "logit_logistic" else 1e-8
        torch.testing.assert_close(slope, expected, rtol=rtol, atol=1e-300)


@pytest.mark.parametrize("name", ["laplace", "cauchy", "student_t", "logistic"])
def test_gradient_at_the_median(name):
    law = CONTINUOUS[name]
    d = law.make()
    y = d.loc.clone().requires_grad_()
    for function in (marginals.cdf, marginals.log_cdf, marginals.log_sf):
        (slope,) = torch.autograd.grad(function(d, y).sum(), y)
        expected = d.log_prob(y.detach()).exp()
        if function is not marginals.cdf:
            expected = 2 * expected
        torch.testing.assert_close(slope.abs(), expected, rtol=1e-9, atol=0.0)


@pytest.mark.parametrize("name", LAWS)
def test_float32_and_leading_dimensions(name):
    law = LAWS[name]
    y = law.points(1e-4).float().expand(-1, 3)
    d = law.make(torch.float32).expand([3])
    for function in NAMES:
        value = getattr(marginals, function)(d, y)
        assert value.dtype == torch.float32
        assert value.shape == y.shape
        wide = getattr(marginals, function)(law.make(), y.double())
        torch.testing.assert_close(value.double(), wide, rtol=2e-4, atol=1e-6)
    stacked = marginals.cdf(d, y[:, None, :].expand(-1, 2, -1))
    torch.testing.assert_close(stacked[:, 0], marginals.cdf(d, y))


def test_integers_and_numbers_are_values_too():
    d = dist.Poisson(torch.tensor([2.0], dtype=torch.float64))
    expected = marginals.cdf(d, torch.tensor([3.0]))
    assert marginals.cdf(d, torch.tensor([3])).dtype == torch.float64
    torch.testing.assert_close(marginals.cdf(d, torch.tensor([3])), expected)
    torch.testing.assert_close(marginals.cdf(d, 3), expected)
