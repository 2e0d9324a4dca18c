"""The incomplete beta function against tables of 50 digits, and at the edges."""

from __future__ import annotations

import math

import pytest
import torch
from special_tables import assert_close, leaves, load
from torch.autograd import gradcheck, gradgradcheck

from pyro_copula.special import (
    betainc,
    betainc_logit,
    betaincinv_logit,
    gammaincc,
    log_betainc,
    log_betainc_logit,
)

INF = math.inf
TOLERANCE = 2e-11  # of values and gradients, everywhere in the table
FUNCTIONS = [betainc_logit, log_betainc_logit]


def by_name(function):
    return function.__name__


def test_log_lower_tail_against_table():
    table = load("beta")
    a, b, t = leaves(table["a"], table["b"], table["t"])
    value = log_betainc_logit(a, b, t)
    value.sum().backward()
    assert_close(value.detach(), table["log_p"], TOLERANCE, a, b, t)
    assert_close(t.grad, table["log_p_t"], TOLERANCE, a, b, t)
    assert_close(a.grad, table["log_p_a"], TOLERANCE, a, b, t)
    assert_close(b.grad, table["log_p_b"], TOLERANCE, a, b, t)


def test_log_upper_tail_by_symmetry_against_table():
    table = load("beta")
    a, b, t = leaves(table["a"], table["b"], table["t"])
    value = log_betainc_logit(b, a, -t)
    value.sum().backward()
    assert_close(value.detach(), table["log_q"], TOLERANCE, a, b, t)
    assert_close(t.grad, table["log_q_t"], TOLERANCE, a, b, t)
    assert_close(a.grad, table["log_q_a"], TOLERANCE, a, b, t)
    assert_close(b.grad, table["log_q_b"], TOLERANCE, a, b, t)


@pytest.mark.parametrize("tail", ["p", "q"])
def test_tails_against_table(tail):
    table = load("beta")
    near = table[f"log_{tail}"] > -600.0
    table = {key: column[near] for key, column in table.items()}
    a, b, t = leaves(table["a"], table["b"], table["t"])
    value = betainc_logit(a, b, t) if tail == "p" else betainc_logit(b, a, -t)
    value.sum().backward()
    expected = table[f"log_{tail}"].exp()
    assert_close(value.detach(), expected, TOLERANCE, a, b, t)
    for leaf, column in ((a, "a"), (b, "b"), (t, "t")):
        assert_close(leaf.grad, table[f"log_{tail}_{column}"] * expected, TOLERANCE, a, b, t)


def test_the_table_covers_the_extremes():
    table = load("beta")
    assert len(table["a"]) > 350
    assert min(table["a"].min(), table["b"].min()) == 1e-4
    assert table["a"].max() == 1e10
    assert table["log_p"].min() < -1e4
    assert table["log_q"].min() < -1e4


def test_closed_forms():
    t = torch.cat([torch.tensor([-5000.0, -760.0, -700.0]), torch.linspace(-30.0, 30.0, 61)])
    for a in (1e-5, 0.2, 3.7, 25.0, 1e4):
        a, point = leaves(torch.full_like(t, a), t)
        value = log_betainc_logit(a, 1.0, point)
        value.sum().backward()
        log_x = torch.nn.functional.logsigmoid(t)
        assert torch.allclose(value, a * log_x, rtol=3e-12, atol=0.0)
        assert torch.allclose(a.grad, log_x, rtol=3e-12, atol=0.0)
        assert torch.allclose(point.grad, a * torch.sigmoid(-t), rtol=3e-12, atol=0.0)
    t = t[3:]
    x = torch.sigmoid(t)
    arcsine = 2.0 / math.pi * torch.asin(x.sqrt())
    assert torch.allclose(betainc_logit(0.5, 0.5, t), arcsine, rtol=1e-7, atol=0.0)
    far = torch.tensor(40.0)  # 1 - x is 4e-18: x itself is rounded to 1
    assert abs(float(log_betainc_logit(1.0, 2.5, -far)) / (-2.5 * 40.0) - 1.0) > 0.5
    assert abs(float(log_betainc_logit(2.5, 1.0, -far)) / (-2.5 * 40.0) - 1.0) < 1e-14


def test_negative_binomial_goes_to_poisson():
    # Pr(K <= k) = I_p(r, k + 1) with odds r / mean; the distance to the Poisson law is O(mean/r).
    count = torch.tensor([0.0, 3.0, 40.0, 150.0])
    mean = torch.tensor([2.0, 0.1, 55.0, 90.0])
    for total_count in (1e6, 1e8, 1e10):
        t = math.log(total_count) - mean.log()
        found = betainc_logit(total_count, count + 1.0, t)
        assert ((found - gammaincc(count + 1.0, mean)).abs() < 100.0 / total_count).all()


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_gradcheck(function):
    # One row for each method and side of the kernel.
    a = torch.tensor([0.1, 0.3, 0.2, 2.0, 5.0, 15.0, 15.0, 0.3, 4.0, 60.0, 12.0])
    b = torch.tensor([0.2, 7.0, 3.0, 0.6, 9.0, 22.0, 22.0, 40.0, 30.0, 0.7, 3.0])
    t = torch.tensor([-1.0, -0.8, 2.0, 1.0, -1.0, -0.9, 0.1, -2.0, -2.5, 3.0, 1.0])
    assert gradcheck(function, leaves(a, b, t))
    assert gradgradcheck(lambda t: function(a, b, t), leaves(t))


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_mixed_second_derivative_of_the_slope_in_t(function):
    inputs = leaves(
        torch.tensor([0.4, 3.0, 20.0]), torch.tensor([0.7, 2.0, 31.0]), torch.tensor([-1.0, 1, 0])
    )

    def slope(a, b, t):
        return torch.autograd.grad(function(a, b, t).sum(), t, create_graph=True)[0]

    assert gradcheck(slope, inputs)


def test_the_plain_functions_agree_with_the_logit():
    a, b, x = leaves(
        torch.tensor([0.3, 2.0, 40.0]),
        torch.tensor([0.8, 5.0, 11.0]),
        torch.tensor([0.1, 0.4, 0.9]),
    )
    assert gradcheck(betainc, (a, b, x))
    assert gradcheck(log_betainc, (a, b, x))
    t = torch.logit(x)
    assert torch.allclose(betainc(a, b, x), betainc_logit(a, b, t), rtol=1e-13, atol=0.0)
    assert torch.allclose(log_betainc(a, b, x).exp(), betainc(a, b, x), rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_edges_have_limits_and_zero_gradients(function):
    shapes = torch.tensor([1e-3, 1.0, 30.0])
    a, b, t = leaves(*torch.cartesian_prod(shapes, shapes, torch.tensor([-INF, INF])).unbind(-1))
    value = function(a, b, t)
    value.sum().backward()
    ends = torch.tensor([0.0, 1.0])
    if function.__name__.startswith("log_"):
        ends = ends.log()
    assert torch.equal(value.detach(), ends.repeat(9))
    for leaf in (a, b, t):
        assert (leaf.grad == 0).all()
    (slope,) = torch.autograd.grad(function(a, b, t).sum(), t, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), t)
    assert (bend == 0).all()


@pytest.mark.parametrize("function", [betainc, log_betainc], ids=by_name)
def test_edges_of_the_plain_functions(function):
    a, b, x = leaves(torch.tensor([0.4, 3.0]), torch.tensor([2.0, 0.1]), torch.tensor([0.0, 1.0]))
    value = function(a, b, x)
    value.sum().backward()
    expected = torch.tensor([0.0, 1.0])
    assert torch.equal(
        value.detach(), expected.log() if function.__name__.startswith("log_") else expected
    )
    for leaf in (a, b, x):
        assert (leaf.grad == 0).all()


@pytest.mark.parametrize("function", FUNCTIONS, ids=by_name)
def test_no_nan_on_a_wide_grid(function):
    shapes = torch.logspace(-8, 12, 21)
    shapes = torch.cat([shapes, torch.tensor([0.499, 0.501, 9.99, 10.01])])
    far = torch.logspace(-6, 5, 23)
    t = torch.cat([-far.flip(0), torch.linspace(-30.0, 30.0, 121), far]).sort().values
    grid = torch.broadcast_tensors(shapes[:, None, None], shapes[:, None], t)
    a, b, t = leaves(*grid)
    value = function(a, b, t)
    value.sum().backward()
    assert not torch.isnan(value).any()
    for leaf in (a, b, t):
        assert torch.isfinite(leaf.grad).all()
    slack = 1e-10 * value.detach().abs()[..., 1:]
    assert (value.detach().diff(dim=-1) >= -slack).all()
    assert (t.grad >= 0).all()
    assert (a.grad <= 0).all()
    assert (b.grad >= 0).all()
    if function.__name__.startswith("log_"):
        assert torch.isfinite(value).all()


def test_quantiles_invert_the_tails():
    shapes = torch.tensor([1e-4, 0.05, 0.5, 1.0, 3.7, 50.0, 1e3, 1e6, 1e10])
    p = torch.cat([torch.logspace(-300, -1, 20), torch.linspace(0.1, 0.9999, 20)])
    a, b, p = (
        x.reshape(-1) for x in torch.broadcast_tensors(shapes[:, None, None], shapes[:, None], p)
    )
    t = betaincinv_logit(a, b, p).requires_grad_()
    assert torch.isfinite(t).all()
    small = p <= 0.5
    found = torch.where(small, log_betainc_logit(a, b, t), log_betainc_logit(b, a, -t))
    target = torch.where(small, p.log(), torch.log1p(-p))
    (slope,) = torch.autograd.grad(found.sum(), t)
    # A rounding of t moves the log tail by slope * t; one of x, by eps * sqrt(a b / (a + b)).
    condition = 1.0 + (slope * t).abs() + (a * b / (a + b)).sqrt()
    assert ((found - target).abs() < 2e-14 * condition + 1e-13 * target.abs()).all()


def test_quantiles_at_the_ends_and_by_symmetry():
    a, b = torch.tensor([0.5, 2.0, 1e7], requires_grad=True), torch.tensor([3.0, 0.2, 1e7])
    assert betaincinv_logit(a, b, 0.0).tolist() == [-INF, -INF, -INF]
    assert betaincinv_logit(a, b, 1.0).tolist() == [INF, INF, INF]
    assert torch.equal(betaincinv_logit(a, b, 0.25), -betaincinv_logit(b, a, 0.75))
    assert not betaincinv_logit(a, b, 0.3).requires_grad
    # x is exp(-1e5) from 0, or within 1e-40 of 1: neither exists as a float64 x.
    assert float(betaincinv_logit(1e-3, 2.0, 1e-50)) < -1e5
    close = betaincinv_logit(2.0, 0.01, 0.9)
    assert close > 100
    assert abs(float(log_betainc_logit(0.01, 2.0, -close)) / math.log(0.1) - 1.0) < 1e-12
