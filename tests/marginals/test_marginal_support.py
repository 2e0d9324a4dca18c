"""Checks of marginals and values, word by word, and stand-ins for missing values."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from marginal_laws import LAWS

from pyro_copula import marginals
from pyro_copula.errors import InvalidArgumentError, MissingCDFError, SupportError

THREE = torch.ones(3, dtype=torch.float64)


@pytest.mark.parametrize("name", LAWS)
def test_stand_ins_lie_in_the_support_and_carry_no_gradient(name):
    law = LAWS[name]
    parameters = [p.expand(3).clone().requires_grad_() for p in law.tensors()]
    d = law.build(*parameters)
    observed = torch.tensor([True, False, False])
    value = marginals.from_normal_score(law.make(), torch.tensor([0.3])).item()
    y = torch.tensor([value, torch.nan, torch.inf])
    filled = marginals.fill_missing(d, y, observed)
    marginals.check_support(d, filled)
    assert filled[0] == y[0]
    total = torch.where(observed, marginals.midpoint_score(d, filled), 0.0).sum()
    for gradient in torch.autograd.grad(total, parameters):
        assert bool(torch.isfinite(gradient).all())
        assert gradient[0] != 0
        assert bool((gradient[1:] == 0).all())


def test_fill_leaves_complete_values_alone():
    y = torch.tensor([1.0, 2.0, 3.0])
    assert marginals.fill_missing(dist.Poisson(THREE), y, torch.tensor([True] * 3)) is y


@pytest.mark.parametrize(
    ("d", "y", "node", "words"),
    [
        (dist.Poisson(THREE), [1.0, -2.0, 0.5], 1, "a non-negative integer"),
        (dist.Poisson(THREE), [1.0, 2.0, 0.5], 2, "a non-negative integer"),
        (dist.Gamma(THREE, THREE), [1.0, 0.0, 2.0], 1, "a positive number"),
        (dist.LogNormal(THREE, THREE), [1.0, 2.0, -0.1], 2, "a positive number"),
        (dist.Bernoulli(0.5 * THREE), [0.0, 1.0, 2.0], 2, "0 or 1"),
        (dist.Binomial(7, 0.5 * THREE), [8.0, 1.0, 2.0], 0, "an integer from 0 to 7"),
        (dist.Beta(THREE, THREE), [0.5, 1.0, 0.5], 1, "a number strictly between 0 and 1"),
        (dist.Pareto(2 * THREE, THREE), [3.0, 3.0, 1.0], 2, "a number above 2"),
    ],
)
def test_values_outside_the_support(d, y, node, words):
    with pytest.raises(SupportError) as error:
        marginals.check_support(d, torch.tensor(y), argument="obs")
    assert error.value.node == node
    assert error.value.value == y[node]
    assert error.value.support == words
    assert str(error.value).startswith(f"`obs` must be {words} at every node")
    assert type(d).__name__ in error.value.hint


def test_missing_values_are_not_checked():
    d = dist.Poisson(THREE)
    y = torch.tensor([1.0, torch.nan, -5.0])
    marginals.check_support(d, y, torch.tensor([True, False, False]))
    marginals.check_support(d, torch.tensor([1.0, torch.nan, 2.0]))
    with pytest.raises(SupportError):
        marginals.check_support(d, y)
    with pytest.raises(InvalidArgumentError, match="found nan at node 1"):
        marginals.check_support(d, y, torch.tensor([True, True, False]))
    stacked = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, -3.0]])
    with pytest.raises(SupportError, match="found -3 at node 2"):
        marginals.check_support(d, stacked)


@pytest.mark.parametrize("bad", [torch.inf, -torch.inf])
def test_infinite_values(bad):
    with pytest.raises(InvalidArgumentError, match=f"finite or NaN, but found {bad:g} at node 2"):
        marginals.check_support(dist.Normal(THREE, THREE), torch.tensor([0.0, 1.0, bad]))


@pytest.mark.parametrize(
    ("d", "message"),
    [
        ("normal", "must be a Pyro distribution over the nodes, but found a str"),
        (dist.Normal(THREE, THREE).to_event(1), "Drop .to_event"),
        (dist.MultivariateNormal(THREE, torch.eye(3).double()), "use one such as dist.Normal"),
        (dist.Normal(0.0, 1.0), r"marginal_dist.expand\(\[3\]\)"),
        (dist.Normal(torch.zeros(2, 1), 1.0), r"marginal_dist.expand\(\[2, 3\]\)"),
        (dist.Normal(torch.zeros(4), 1.0), r"found batch shape \(4,\)"),
    ],
)
def test_bad_marginals(d, message):
    with pytest.raises(InvalidArgumentError, match=message):
        marginals.check_marginal(d, 3)


def test_a_law_without_cdf_says_how_to_give_it_one():
    with pytest.raises(MissingCDFError) as error:
        marginals.check_marginal(dist.VonMises(THREE, THREE), 3, argument="law")
    text = str(error.value)
    assert text.startswith("`law` must be a law with a known cdf")
    assert "from pyro_copula.marginals import register_cdf" in text
    assert "register_cdf(VonMises, cdf=" in text


@pytest.mark.parametrize("name", LAWS)
def test_good_marginals(name):
    marginals.check_marginal(LAWS[name].make().expand([2, 3]), 3)
