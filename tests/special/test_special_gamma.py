"""The incomplete gamma functions against tables of 50 digits, and at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from special_tables import assert_close, leaves, load
from torch.autograd import gradcheck, gradgradcheck

from pyro_copula import special
from pyro_copula.special import (
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    log_gammainc,
    log_gammaincc,
)

INF = math.inf
TOLERANCE = 2e-12  # of values and gradients, everywhere in the table
SCIPY = 3e-11  # scipy's own error, in the far tails at shapes of some thousands
FUNCTIONS = [gammainc, gammaincc, log_gammainc, log_gammaincc]


def by_name(function):
    return function.__name__


@pytest.mark.parametrize(("function", "tail"), [(log_gammainc, "p"), (log_gammaincc, "q")])
def test_log_tails_against_table(function, tail):
    table = load("gamma")
    a, x = leaves(table["a"], table["x"])
    value = function(a, x)
    value.sum().backward()
    assert_close(value.detach(), table[f"log_{tail}"], SCIPY, a, x)
    assert_close(x.grad, table[f"log_{tail}_x"], TOLERANCE, a, x)
    assert_close(a.grad, table[f"log_{tail}_a"], TOLERANCE, a, x)


@pytest.mark.parametrize(("function", "tail"), [(gammainc, "p"), (gammaincc, "q")])
def test_tails_against_table(function, tail):
    table = load("gamma")
    a, x = leaves(table["a"], table["x"])
    value = function(a, x)
    value.sum().backward()
    log_tail = table[f"log_{tail}"]
    # exp() of a rounded logarithm, and so of the reference too, is off by the logarithm's size.
    near = log_tail > -600.0
    expected = log_tail.exp()
    assert_close(value.detach()[near], expected[near], SCIPY, a[near], x[near])
    for grad, column in ((a.grad, "a"), (x.grad, "x")):
        expected = table[f"log_{tail}_{column}"] * log_tail.exp()
        assert_close(grad[near], expected[near], SCIPY, a[near], x[near])


def test_the_table_covers_the_extremes():
    table = load("gamma")
    assert len(table["a"]) > 350
    assert table["a"].min() == 1e-6
    assert table["a"].max() == 1e8
    assert table["log_p"].min() < -1e8
    assert table["log_q"].min() < -1e8


def test_a_poisson_far_below_its_mean_and_far_above():
    # Q(1, x) = exp(-x); P(1001, 1) by hand from its leading term.
    rate = torch.logspace(-8, 8, 33)
    assert torch.allclose(log_gammaincc(1.0, rate), -rate, rtol=1e-14, atol=0.0)
    leading = -1.0 - math.lgamma(1002.0) + math.log1p(1.0 / 1002.0 + 1.0 / (1002.0 * 1003.0))
    assert abs(float(log_gammainc(1001.0, torch.tensor(1.0))) / leading - 1.0) < 1e-9
    assert torch.isfinite(log_gammainc(1e7, rate)).all()
    assert torch.isfinite(log_gammaincc(1e7, rate)).all()


def test_where_scipy_stops_its_series_too_early():
    # At 4.6 standard deviations below the mean, scipy 1.17 gives 63 per cent of the lower tail.
    # The normal law with its first Edgeworth term is right to a few parts in 1e6.
    a, z = 1e8, -4.6
    x = torch.tensor(a + z * math.sqrt(a))
    p, q = float(gammainc(a, x)), float(gammaincc(a, x))
    density = math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    skew = 2.0 / math.sqrt(a)
    expected = 0.5 * math.erfc(-z / math.sqrt(2.0)) - skew / 6.0 * (z * z - 1.0) * density
    assert abs(p / expected - 1.0) < 1e-5
    assert abs(q - (1.0 - p)) < 1e-15
    assert abs(math.exp(float(log_gammainc(a, x))) / p - 1.0) < 1e-13


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_gradcheck(function):
    a = torch.tensor([0.05, 0.3, 0.8, 2.0, 6.0, 15.0, 15.0, 100.0])
    x = torch.tensor([0.3, 0.9, 2.5, 1.1, 8.0, 11.0, 19.0, 104.0])
    assert gradcheck(function, leaves(a, x))
    assert gradgradcheck(lambda x: function(a, x), leaves(x))


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_mixed_second_derivative_of_the_slope_in_x(function):
    a, x = leaves(torch.tensor([0.4, 3.0, 20.0]), torch.tensor([0.3, 4.0, 17.0]))

    def slope(a, x):
        return torch.autograd.grad(function(a, x).sum(), x, create_graph=True)[0]

    assert gradcheck(slope, (a, x))


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_edges_have_limits_and_zero_gradients(function):
    a, x = leaves(torch.tensor([0.3, 1.0, 7.0, 1e7]).repeat(2), torch.zeros(8))
    with torch.no_grad():
        x[4:] = INF
    value = function(a, x)
    value.sum().backward()
    at_zero = 0.0 if "cc" not in function.__name__ else 1.0
    ends = torch.tensor([at_zero, 1.0 - at_zero])
    if "log" in function.__name__:
        ends = ends.log()
    assert torch.equal(value.detach(), ends.repeat_interleave(4))
    assert (a.grad == 0).all()
    assert (x.grad == 0).all()
    (slope,) = torch.autograd.grad(function(a, x).sum(), x, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), x)
    assert (bend == 0).all()


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_no_nan_on_a_wide_grid(function):
    a = torch.logspace(-10, 12, 45)[:, None]
    x = torch.cat([torch.logspace(-323, 308, 120), torch.logspace(-3, 9, 145)])
    a, x = leaves(*torch.broadcast_tensors(a, x.sort().values))
    value = function(a, x)
    value.sum().backward()
    assert not torch.isnan(value).any()
    assert torch.isfinite(a.grad).all()
    assert torch.isfinite(x.grad).all()
    sign = -1.0 if "cc" in function.__name__ else 1.0
    slack = 1e-11 * value.detach().abs()[:, 1:]
    assert (sign * value.detach().diff(dim=-1) >= -slack).all()
    assert (sign * x.grad >= 0).all()
    assert (sign * a.grad <= 0).all()
    if "log" in function.__name__:
        assert torch.isfinite(value).all()


@pytest.mark.parametrize(
    ("quantile", "log_tail", "log_other"),
    [(gammaincinv, log_gammainc, log_gammaincc), (gammainccinv, log_gammaincc, log_gammainc)],
)
def test_quantiles_invert_the_tails(quantile, log_tail, log_other):
    a = torch.tensor([0.02, 0.5, 1.0, 3.7, 50.0, 1e3, 1e5, 3e6, 1e8])[:, None]
    p = torch.cat([torch.logspace(-250, -1, 60), torch.linspace(0.1, 0.999, 60)])
    a, p = torch.broadcast_tensors(a, p)
    x = quantile(a, p)
    keep = x > 1e-300  # quantiles of small shapes underflow
    a, p, x = a[keep], p[keep], x[keep].requires_grad_()
    small = p <= 0.5
    found = torch.where(small, log_tail(a, x), log_other(a, x))
    target = torch.where(small, p.log(), torch.log1p(-p))
    (slope,) = torch.autograd.grad(found.sum(), x)
    # The condition number: a relative rounding of x moves the log tail by slope * x.
    assert ((found - target).abs() < 1e-13 * (1.0 + (slope * x).abs()) * 5).all()


def test_quantiles_at_the_ends_and_outside_of_the_graph():
    a = torch.tensor([0.5, 2.0, 1e7], requires_grad=True)
    assert gammaincinv(a, 0.0).tolist() == [0.0, 0.0, 0.0]
    assert gammaincinv(a, 1.0).tolist() == [INF, INF, INF]
    assert gammainccinv(a, 0.0).tolist() == [INF, INF, INF]
    assert gammainccinv(a, 1.0).tolist() == [0.0, 0.0, 0.0]
    assert not gammaincinv(a, 0.3).requires_grad


def test_either_tail_by_element():
    a, x = torch.tensor([2.0, 3.0, 900.0, 2.0]), torch.tensor([1.0, 9.0, 1.0, 2e3])
    upper = torch.tensor([True, False, False, True])
    leaves = [v.double().requires_grad_() for v in (a, x)]
    found = special.log_gamma_tail(*leaves, upper)
    expected = torch.where(upper, special.log_gammaincc(*leaves), special.log_gammainc(*leaves))
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0)
    for one, other in zip(
        torch.autograd.grad(found.sum(), leaves), torch.autograd.grad(expected.sum(), leaves)
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


def test_the_cheap_derivative_in_x_is_the_full_one():
    """Without a derivative in a, the one in x comes from the weight alone."""
    a, x = torch.meshgrid(
        torch.logspace(-3, 7, 40, dtype=torch.float64),
        torch.logspace(-6, 7, 40, dtype=torch.float64),
        indexing="ij",
    )
    for function in (special.log_gammainc, special.log_gammaincc):
        kept = function(a, x) > -9e3  # deeper, both go through the kernel
        point = x[kept].clone().requires_grad_()
        (cheap,) = torch.autograd.grad(function(a[kept], point).sum(), point)
        shape = a[kept].clone().requires_grad_()
        _, full = torch.autograd.grad(function(shape, point).sum(), (shape, point))
        torch.testing.assert_close(cheap, full, rtol=1e-9, atol=1e-300)
        assert kept.sum() > 500
