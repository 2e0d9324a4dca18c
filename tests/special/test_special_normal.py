"""log_ndtr and ndtri_exp against tables of 50 digits, and at the edges."""

from __future__ import annotations

import math

import torch
from special_tables import assert_close, leaves, load
from torch.autograd import gradcheck, gradgradcheck

from pyro_copula.special import log_gammainc, log_gammaincc, log_ndtr, ndtri_exp

INF = math.inf


def test_log_ndtr_against_table():
    table = load("normal")
    (z,) = leaves(table["z"])
    value = log_ndtr(z)
    value.sum().backward()
    assert_close(value.detach(), table["log_p"], 2e-13, z)
    assert_close(z.grad, table["log_p_z"], 1e-13, z)
    assert table["z"].abs().max() == 1e4


def test_ndtri_exp_against_table():
    table = load("normal_quantile")
    (log_p,) = leaves(table["log_p"])
    z = ndtri_exp(log_p)
    z.sum().backward()
    assert_close(z.detach(), table["z"], 1e-14, log_p)
    assert_close(log_p.grad, table["z_log_p"], 1e-12, log_p)


def test_ndtri_exp_is_finite_monotone_and_the_inverse():
    log_p = -torch.logspace(-307, 300, 2429)
    z = ndtri_exp(log_p)
    assert torch.isfinite(z).all()
    assert (z.diff() < 0).all()
    # The way back has the condition number z**2, here up to 1400.
    assert torch.allclose(log_ndtr(z), log_p, rtol=1e-12, atol=0.0)


def test_gradients():
    (z,) = leaves(torch.tensor([-30.0, -8.0, -1.0, -0.2, 0.3, 2.0, 5.0]))
    log_p = log_ndtr(z).detach().requires_grad_()
    assert gradcheck(log_ndtr, (z,))
    assert gradgradcheck(log_ndtr, (z,))
    middle = log_p[1:5].detach().requires_grad_()
    assert gradcheck(ndtri_exp, (middle,))
    assert gradgradcheck(ndtri_exp, (middle,))


def test_edges_have_limits_and_zero_gradients():
    (z,) = leaves(torch.tensor([-INF, INF, -1e200, 1e200, 1e4, 38.5]))
    value = log_ndtr(z)
    value.sum().backward()
    assert value.tolist()[:5] == [-INF, 0.0, -INF, 0.0, 0.0]
    assert (z.grad == 0).all()
    (log_p,) = leaves(torch.tensor([-INF, 0.0]))
    z = ndtri_exp(log_p)
    z.sum().backward()
    assert z.tolist() == [-INF, INF]
    assert log_p.grad.tolist() == [0.0, 0.0]


def test_no_nan_up_to_second_order():
    (z,) = leaves(torch.cat([torch.linspace(-60.0, 60.0, 481), torch.tensor([-1e150, 1e150])]))
    (slope,) = torch.autograd.grad(log_ndtr(z).sum(), z, create_graph=True)
    (bend,) = torch.autograd.grad(slope.sum(), z)
    assert torch.isfinite(slope).all()
    assert not torch.isnan(bend).any()
    (log_p,) = leaves(-torch.logspace(-320, 300, 1241))
    (slope,) = torch.autograd.grad(ndtri_exp(log_p).sum(), log_p)
    assert torch.isfinite(slope).all()
    assert (slope > 0).all()


def test_normal_scores_of_a_gamma_are_monotone_through_both_tails():
    a = torch.tensor([[0.01], [0.7], [4.0], [300.0], [1e6]])
    grid = torch.cat([-torch.logspace(1.5, -3, 60), torch.logspace(-3, 1.5, 60)])
    x = a * torch.exp(grid / a.sqrt().clamp(min=1.0))
    x.requires_grad_()
    lower, upper = log_gammainc(a, x), log_gammaincc(a, x)
    z = torch.where(lower < upper, ndtri_exp(lower), -ndtri_exp(upper))
    (slope,) = torch.autograd.grad(z.sum(), x)
    assert torch.isfinite(z).all()
    assert torch.isfinite(slope).all()
    assert (z.diff(dim=-1) > 0).all()
    assert (slope > 0).all()
    assert z.min() < -15
    assert z.max() > 1000


def test_dtype_shape_and_empty():
    assert log_ndtr(torch.tensor(-40.0, dtype=torch.float32)).dtype == torch.float32
    assert ndtri_exp(torch.tensor([-1.0], dtype=torch.float32)).dtype == torch.float32
    assert ndtri_exp(-2.0).shape == ()
    assert log_ndtr(torch.empty(0, 3)).shape == (0, 3)
    assert ndtri_exp(torch.empty(0, 3)).shape == (0, 3)
