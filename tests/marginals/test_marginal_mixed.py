"""Different families at different nodes behave as their pieces."""

from __future__ import annotations

import pickle

import pyro.distributions as dist
import pytest
import torch

from pyro_copula import marginals
from pyro_copula.errors import InvalidArgumentError, MissingCDFError, SupportError
from pyro_copula.marginals import Mixed

KIND = ["count", "real", "positive", "count", "share"]
Y = torch.tensor([2.0, -1.3, 0.7, 0.0, 0.25], dtype=torch.float64)


def _components(rate, loc, shape):
    return {
        "count": dist.Poisson(rate),
        "real": dist.Normal(loc, torch.tensor(2.0).double()),
        "positive": dist.Gamma(shape, torch.tensor(1.5).double()),
        "share": dist.Beta(torch.tensor(2.0).double(), torch.tensor(3.0).double()),
    }


def _parameters():
    rate = torch.linspace(0.5, 4.0, 5).requires_grad_()
    loc = torch.linspace(-1.0, 1.0, 5).requires_grad_()
    shape = torch.linspace(0.3, 3.0, 5).requires_grad_()
    return rate, loc, shape


def _mixed():
    return Mixed(_components(*[p.detach() for p in _parameters()]), kind=KIND)


@pytest.mark.parametrize(
    "function",
    ["cdf", "sf", "log_cdf", "log_sf", "normal_score", "midpoint_score"],
)
def test_functions_equal_the_pieces(function):
    d = _mixed()
    f = getattr(marginals, function)
    actual = f(d, Y)
    for node, name in enumerate(KIND):
        piece = d.components[name]
        value = torch.where(torch.arange(5) == node, Y, torch.full((5,), 0.0))
        torch.testing.assert_close(actual[node], f(piece, value)[node])


def test_quantiles_and_moments_equal_the_pieces():
    d = _mixed()
    u = torch.tensor([0.1, 0.3, 0.5, 0.7, 0.95])
    z = torch.tensor([-2.0, -0.5, 0.0, 1.0, 3.0])
    s = torch.full((5,), 0.6)
    mean, variance = marginals.score_moments(d, z, s)
    for node, name in enumerate(KIND):
        piece = d.components[name]
        for function, argument in (("icdf", u), ("isf", u), ("from_normal_score", z)):
            f = getattr(marginals, function)
            torch.testing.assert_close(f(d, argument)[node], f(piece, argument)[node])
        own = marginals.score_moments(piece, z, s)
        torch.testing.assert_close(mean[node], own[0][node])
        torch.testing.assert_close(variance[node], own[1][node])
        torch.testing.assert_close(d.mean[node], piece.mean[node])
        torch.testing.assert_close(d.variance[node], piece.variance[node])
        torch.testing.assert_close(
            d.log_prob(Y)[node], piece.log_prob(Y[node].expand(5))[node].expand(())
        )


def test_limits_of_each_kind():
    d = _mixed()
    lower, upper = marginals.normal_score_limits(d, Y)
    discrete = torch.tensor([True, False, False, True, False])
    assert marginals.is_discrete(d).tolist() == discrete.tolist()
    assert marginals.discrete_nodes(d, 5).tolist() == discrete.tolist()
    assert lower[3].item() == -torch.inf
    assert bool((lower[discrete] < upper[discrete]).all())
    assert bool((lower[~discrete] == upper[~discrete]).all())


def test_gradients_reach_their_own_nodes_only():
    parameters = _parameters()
    d = Mixed(_components(*parameters), kind=KIND)
    # Each value is outside the support of the other families.
    y = torch.tensor([2.0, -1.3, 1e5, 0.0, 0.25])
    total = marginals.midpoint_score(d, y).sum() + d.log_prob(y).sum()
    gradients = torch.autograd.grad(total, parameters)
    for name, gradient in zip(("count", "real", "positive"), gradients):
        own = torch.tensor([kind == name for kind in KIND])
        assert bool(torch.isfinite(gradient).all())
        assert bool((gradient[own] != 0).all())
        assert bool((gradient[~own] == 0).all())


def test_continuous_mixtures_have_reparametrised_draws():
    loc = torch.zeros(2, requires_grad=True)
    shape = torch.ones(2, requires_grad=True)
    families = {"a": dist.Normal(loc, torch.ones(2)), "b": dist.Gamma(shape, torch.ones(2))}
    d = Mixed(families, kind=torch.tensor([1, 0]))
    assert d.has_rsample
    y = marginals.from_normal_score(d, torch.tensor([0.3, 0.3]))
    gradients = torch.autograd.grad(y.sum() + d.rsample((3,)).sum(), (loc, shape))
    assert gradients[0][0] == 0
    assert gradients[0][1] == 4
    assert gradients[1][0] != 0
    assert gradients[1][1] == 0
    assert not _mixed().has_rsample


def test_draws_lie_in_the_support_and_have_the_moments():
    d = _mixed()
    y = d.sample((4000,))
    assert y.shape == (4000, 5)
    assert bool(d.support.check(y).all())
    marginals.check_support(d, y)
    # Four standard errors at five nodes: fails once in 3000 seeds.
    error = (y.mean(0) - d.mean).abs() / (d.variance / 4000).sqrt()
    assert bool((error < 4).all())


def test_support_is_per_node():
    d = _mixed()
    inside = d.support.check(torch.tensor([0.5, 0.5, 0.5, 0.5, 0.5]))
    assert inside.tolist() == [False, True, True, False, True]
    with pytest.raises(ValueError, match="within the support"):
        Mixed(d.components, KIND, validate_args=True).log_prob(torch.full((5,), 0.5))
    with pytest.raises(SupportError, match="a number strictly between 0 and 1") as error:
        marginals.check_support(d, torch.tensor([1.0, 0.0, 1.0, 1.0, 3.0]))
    assert error.value.node == 4


def test_missing_values_are_filled_per_node():
    d = _mixed()
    observed = torch.tensor([False, True, False, True, False])
    y = marginals.fill_missing(d, torch.where(observed, Y, torch.nan), observed)
    assert bool((y[observed] == Y[observed]).all())
    marginals.check_support(d, y)


def test_expand_pickle_and_repr():
    d = _mixed()
    assert repr(d) == (
        "Mixed(count: 2 nodes of Poisson, real: 1 node of Normal, "
        "positive: 1 node of Gamma, share: 1 node of Beta)"
    )
    wide = d.expand([3, 5])
    assert wide.batch_shape == (3, 5)
    assert repr(wide).endswith("batch (3,))")
    torch.testing.assert_close(wide.log_prob(Y), d.log_prob(Y).expand(3, 5))
    assert wide.sample((2,)).shape == (2, 3, 5)
    copy = pickle.loads(pickle.dumps(d))
    torch.testing.assert_close(marginals.cdf(copy, Y), marginals.cdf(d, Y))


def test_float32():
    rate = torch.ones(2, dtype=torch.float32)
    d = Mixed({"a": dist.Poisson(rate), "b": dist.Normal(rate, rate)}, ["a", "b"])
    y = torch.tensor([2.0, 0.5], dtype=torch.float32)
    u = marginals.cdf(d, y)
    assert u.dtype == torch.float32
    assert marginals.icdf(d, u)[0] == 2.0
    assert marginals.from_normal_score(d, y).dtype == torch.float32


@pytest.mark.parametrize(
    ("components", "kind", "message"),
    [
        ({}, ["a"], "`components` must be a dict of distributions"),
        ({"a": dist.Poisson(torch.ones(2))}, ["a", "b"], "found 'b' at node 1"),
        ({"a": dist.Poisson(torch.ones(2))}, torch.tensor([0, 1]), "`kind` must be below 1"),
        ({"a": dist.Poisson(torch.ones(2))}, torch.tensor([0.0, 1.0]), "found a torch.float"),
        ({"a": dist.Poisson(torch.ones(3))}, ["a", "a"], r"found batch shape \(3,\)"),
        ({"a": 3}, ["a"], "must be a Pyro distribution, but found a int"),
        ({"a": dist.Normal(torch.zeros(2), 1.0).to_event(1)}, ["a"] * 2, "Drop .to_event"),
    ],
)
def test_bad_mixtures(components, kind, message):
    with pytest.raises(InvalidArgumentError, match=message):
        Mixed(components, kind)


def test_a_family_without_cdf():
    with pytest.raises(MissingCDFError, match=r"components\['a'\]"):
        Mixed({"a": dist.VonMises(torch.zeros(2), torch.ones(2))}, ["a", "a"])
