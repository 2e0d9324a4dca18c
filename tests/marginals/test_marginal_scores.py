"""Normal scores: deep, monotone, differentiable, and right at the ends of a support."""

from __future__ import annotations

import mpmath
import pyro.distributions as dist
import pytest
import torch
from marginal_laws import DISCRETE, LAWS

from pyro_copula import marginals


def _score(log_tail: float) -> float:
    """Return the z with ``log Phi(-z) = log_tail``, in high precision."""
    with mpmath.workdps(40):
        target = mpmath.mpf(log_tail)
        start = mpmath.sqrt(-2 * target)
        f = lambda z: mpmath.log(mpmath.erfc(z / mpmath.sqrt(2)) / 2) - target  # noqa: E731
        return float(mpmath.findroot(f, (start * 0.97, start)))


def test_an_outlier_has_a_large_finite_score():
    rate = torch.tensor([1.0], requires_grad=True)
    d = dist.Poisson(rate)
    z = marginals.normal_score(d, torch.tensor([1000.0]))
    with mpmath.workdps(60):
        tail = mpmath.log(mpmath.gammainc(1001, 0, 1, regularized=True))
    torch.testing.assert_close(z, torch.tensor([_score(float(tail))]), rtol=1e-12, atol=0.0)
    assert z.item() > 100
    (slope,) = torch.autograd.grad(z.sum(), rate)
    # d log S / d rate = pmf(1000) / S(1000), and dz = -dlog S * S / phi(z) ~ -dlog S / z.
    torch.testing.assert_close(slope, -torch.tensor([1001.0]) / z, rtol=2e-3, atol=0.0)


@pytest.mark.parametrize("name", LAWS)
def test_scores_are_finite_and_increase_to_thirty(name):
    law = LAWS[name]
    d = law.make()
    z = torch.linspace(-32.0, 32.0, 129)[:, None]
    if name == "negated_gamma":
        z = z[z < 8][:, None]  # its values cannot resolve the distance to the end of the support
    y = torch.unique(marginals.from_normal_score(d, z))[:, None]
    if law.discrete:
        y = y[marginals.log_sf(d, y) > -torch.inf][:, None]
    y.requires_grad_()
    score = marginals.normal_score(d, y)
    assert bool(torch.isfinite(score).all())
    assert bool((score.diff(dim=0) > 0).all())
    ends_early = ("uniform", "beta", "negated_gamma", "binomial", "bernoulli")
    if name not in (*ends_early, "zero_inflated_binomial"):
        assert score.max() > 29
    if not law.discrete:
        assert score.min() < (-7 if name in ("uniform", "pareto") else -29)
        (slope,) = torch.autograd.grad(score.sum(), y)
        assert bool((torch.isfinite(slope) & (slope >= 0)).all())


def test_closed_forms_are_used():
    loc, scale = torch.tensor([1.0]), torch.tensor([2.0])
    y = torch.tensor([1e8])
    assert marginals.normal_score(dist.Normal(loc, scale), y).item() == (1e8 - 1) / 2
    expected = (y.log() - 1) / 2
    torch.testing.assert_close(marginals.normal_score(dist.LogNormal(loc, scale), y), expected)
    z = torch.tensor([-300.0])
    assert marginals.from_normal_score(dist.Normal(loc, scale), z).item() == -599.0


@pytest.mark.parametrize("name", DISCRETE)
def test_limits_and_midpoints(name):
    law = DISCRETE[name]
    d = law.make()
    y = law.points(1e-6)
    lower, upper = marginals.normal_score_limits(d, y)
    torch.testing.assert_close(
        torch.special.ndtr(upper), torch.as_tensor(law.reference.cdf(y.numpy())), rtol=1e-9, atol=0
    )
    torch.testing.assert_close(
        torch.special.ndtr(lower),
        torch.as_tensor(law.reference.cdf(y.numpy() - 1)),
        rtol=1e-9,
        atol=0,
    )
    middle = (torch.special.ndtr(lower) + torch.special.ndtr(upper)) / 2
    actual = torch.special.ndtr(marginals.midpoint_score(d, y))
    torch.testing.assert_close(actual, middle, rtol=1e-9, atol=0)


def test_midpoint_keeps_the_digits_of_both_tails():
    d = dist.Poisson(torch.tensor([1.0, 5000.0]))
    y = torch.tensor([[300.0, 9000.0], [300.0, 10.0]])
    z = marginals.midpoint_score(d, y)
    with mpmath.workdps(60):
        upper = [mpmath.gammainc(k, 0, 1, regularized=True) for k in (300, 301)]
        lower = [mpmath.gammainc(k, 5000, regularized=True) for k in (10, 11)]
        first = float(mpmath.log(sum(upper) / 2))
        second = float(mpmath.log(sum(lower) / 2))
    torch.testing.assert_close(z[0, 0], torch.tensor(_score(first)), rtol=1e-12, atol=0)
    torch.testing.assert_close(z[1, 1], -torch.tensor(_score(second)), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", DISCRETE)
def test_no_nan_at_the_ends_of_the_support(name):
    law = DISCRETE[name]
    parameters = [p.requires_grad_() for p in law.tensors()]
    d = law.build(*parameters)
    end = float(law.reference.ppf(1.0))
    y = torch.tensor([[0.0], [end if end < torch.inf else 1e4]])
    lower, upper = marginals.normal_score_limits(d, y)
    assert lower[0].item() == -torch.inf
    assert (upper[1].item() == torch.inf) == (end < torch.inf)
    total = torch.where(torch.isfinite(lower), lower, 0.0).sum()
    total = total + torch.where(torch.isfinite(upper), upper, 0.0).sum()
    midpoint = marginals.midpoint_score(d, y)
    assert bool(torch.isfinite(midpoint).all())
    for gradient in torch.autograd.grad(total + midpoint.sum(), parameters):
        assert bool(torch.isfinite(gradient).all())


def test_a_gate_of_zero_is_the_base_law():
    rate = torch.tensor([3.0])
    gate = torch.zeros(1, requires_grad=True)
    d = dist.ZeroInflatedPoisson(rate, gate=gate)
    y = torch.arange(6.0)[:, None]
    torch.testing.assert_close(
        marginals.midpoint_score(d, y), marginals.midpoint_score(dist.Poisson(rate), y)
    )
    (slope,) = torch.autograd.grad(marginals.cdf(d, torch.tensor([1.0])).sum(), gate)
    torch.testing.assert_close(slope, marginals.sf(dist.Poisson(rate), torch.tensor([1.0])))
    (slope,) = torch.autograd.grad(marginals.midpoint_score(d, y).sum(), gate)
    assert bool(torch.isfinite(slope).all())


def test_continuous_laws_have_one_score():
    d = LAWS["gamma"].make()
    y = torch.tensor([1.3])
    lower, upper = marginals.normal_score_limits(d, y)
    assert lower.item() == upper.item() == marginals.midpoint_score(d, y).item()


def test_is_discrete():
    for name, law in LAWS.items():
        assert marginals.is_discrete(law.make()) is (name in DISCRETE)
    assert marginals.discrete_nodes(LAWS["poisson"].make(), 3).tolist() == [True] * 3
    assert marginals.discrete_nodes(LAWS["normal"].make(), 2).tolist() == [False] * 2
