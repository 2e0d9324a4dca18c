"""Priors: one for every global parameter, on its range, with mass where it starts."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from model_examples import example, kind_of
from torch.distributions import biject_to

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.models import FAMILIES, PRECISIONS, CopulaGNN, default_prior
from pyro_copula.models.priors import Priors, SignedBeta, start_inside
from pyro_copula.scalars import Correlation, Positive, Proportion, Real

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_draws_are_inside_the_range_and_the_start_is_not_in_the_far_tail(family, precision):
    model = CopulaGNN("linear", family, precision, nugget=True).build(example(kind_of(family)))
    for name, scalar in model.scalars.items():
        assert name in default_prior.__doc__, f"{name} has no documented prior"
        draws = model.priors[name].sample((2000,))
        scalar(draws)  # raises if one is outside
        share = float((draws < scalar()).double().mean())
        assert 0.001 < share < 0.999, name


def test_names_behind_the_name_of_a_part():
    assert isinstance(default_prior("negative_binomial_dispersion"), dist.HalfNormal)
    power = default_prior("negative_binomial_dispersion_power")
    assert isinstance(power, dist.Normal)
    assert float(power.scale) == 0.5


def test_parameters_of_the_users_own_get_a_prior_of_their_range():
    for scalar in (Positive("x", 1.0), Correlation("x", 0.1), Proportion("x", 0.1), Real("x", 0.0)):
        scalar(default_prior("x", scalar).sample((1000,)))


@pytest.mark.parametrize("name", ["alpha", "beta", "gate", "skew"])
@pytest.mark.parametrize("kind", [Positive, Correlation, Proportion, Real])
def test_a_name_with_another_range_gets_a_prior_of_that_range(name, kind):
    prior = default_prior(name, kind(name, 0.5))
    assert biject_to(prior.support)(torch.tensor([-30.0, 30.0])).tolist() == pytest.approx(
        biject_to(kind.support)(torch.tensor([-30.0, 30.0])).tolist()
    )


def test_the_signed_beta_is_a_beta_law_on_another_interval():
    law = SignedBeta(4.0, 1.0)
    x = torch.tensor([-0.9, 0.0, 0.8])
    expected = dist.Beta(4.0, 1.0).log_prob((x + 1) / 2) - torch.log(torch.tensor(2.0))
    torch.testing.assert_close(law.log_prob(x), expected)
    draws = law.sample((20_000,))
    assert float(law.mean) == pytest.approx(0.6) == pytest.approx(float(draws.mean()), abs=0.02)
    assert float(law.variance) == pytest.approx(float(draws.var()), rel=0.05)


def test_the_signed_beta_in_batches():
    a, b = torch.tensor([[4.0], [2.0]]), torch.tensor([1.0, 3.0, 0.5])
    batch, one = SignedBeta(a, b), SignedBeta(4.0, 1.0)
    assert batch.batch_shape == (2, 3)
    for law in (batch.expand((5, 2, 3)), batch, one.expand((5, 2, 3)), one.expand_by((5,))):
        assert isinstance(law, SignedBeta)
        assert law.mean.shape == law.variance.shape == law.batch_shape
        assert law.concentration1.shape == law.concentration0.shape == law.batch_shape
        x = law.sample((7,))
        assert x.shape == (7, *law.batch_shape)
        assert bool(law.support.check(x).all())
        beta = dist.Beta(law.concentration1, law.concentration0)
        expected = beta.log_prob((x + 1) / 2) - torch.log(torch.tensor(2.0))
        torch.testing.assert_close(law.log_prob(x), expected)
    assert batch.expand((5, 2, 3)).rsample().shape == (5, 2, 3)
    assert repr(one.expand((3,))) == "SignedBeta(4, 1)"


@pytest.mark.parametrize(
    ("prior", "value", "expected"),
    [
        (dist.Uniform(0.0, 0.5), 0.3, 0.3),
        (dist.Uniform(0.0, 0.5), 0.9, 0.25),
        (dist.Uniform(0.2, 0.5), 0.2, 0.35),  # on the edge
        (dist.Uniform(-1.0, 0.5), 0.5, -0.25),
        (dist.Uniform(0.0, 0.9), math.tanh(math.atanh(0.9)), 0.45),  # there but for rounding
        (dist.LogNormal(0.0, 1.0), 1e-30, 1e-30),
        (SignedBeta(4.0, 1.0), 1.0, 0.6),
        (dist.Beta(6.0, 2.0).mask(True), 1.5, 0.75),
        (dist.Normal(3.0, 1.0), -40.0, -40.0),
        (dist.HalfCauchy(1.0), 0.0, 1.0),  # an infinite mean: the centre
        (dist.LogNormal(0.0, 1.0), -1.0, math.exp(0.5)),
        (
            dist.TransformedDistribution(
                dist.Normal(0.0, 1.0), [dist.transforms.SigmoidTransform()]
            ),
            1.0,
            0.5,  # a mean that is not known
        ),
    ],
)
def test_a_start_is_inside_the_support(prior, value, expected):
    value = torch.tensor(value)
    found = start_inside("rho", prior, value)
    assert found.dtype == value.dtype
    torch.testing.assert_close(found, torch.as_tensor(expected, dtype=value.dtype))
    if float(expected) == float(value):
        assert torch.equal(found, value)


def test_a_start_of_several_numbers_moves_only_those_outside():
    prior = dist.Uniform(torch.tensor([-1.0, 0.0, 2.0]), 4.0).to_event(1)
    found = start_inside("last_layer", prior, torch.tensor([0.1, 0.0, 5.0]))
    torch.testing.assert_close(found, torch.tensor([0.1, 2.0, 3.0]))


def test_the_held_values_are_the_starts_of_the_default_priors():
    for family in FAMILIES:
        model = CopulaGNN("linear", family, "car", nugget=True, last_layer_prior=0.5)
        model = model.build(example(kind_of(family)))
        held = model.site_values()
        for name, value in model.start_values().items():
            assert torch.equal(value, held[name])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_default_priors_cover_the_whole_range(family, precision):
    """So that maximum likelihood and the posterior move on the same unconstrained scale."""
    model = CopulaGNN("linear", family, precision, nugget=True).build(example(kind_of(family)))
    u = torch.linspace(-3.0, 3.0, 7)
    for name, scalar in model.scalars.items():
        mine, other = biject_to(scalar.support), biject_to(model.priors[name].support)
        assert torch.equal(mine(u), other(u)), name


@pytest.mark.parametrize(
    ("prior", "match"),
    [
        (dist.Bernoulli(0.5), "whose support is Boolean"),
        (dist.Poisson(1.0), "a law on the line, a half line or an interval"),
        (
            dist.Normal(torch.zeros(2), 1.0).to_event(1),
            r"shape \(\), but found one of shape \(2,\)",
        ),
    ],
)
def test_a_prior_that_nothing_can_start_from(prior, match):
    with pytest.raises(InvalidArgumentError, match=match) as caught:
        start_inside("rho", prior, torch.tensor(0.1))
    assert caught.value.argument == "priors['rho']"


@pytest.mark.parametrize(
    ("priors", "match"),
    [
        ([dist.Beta(2.0, 2.0)], "`priors` must be a dictionary .* but found a list"),
        (dist.Beta(2.0, 2.0), "but found a Beta"),
        ({"rho": 0.5}, "a Pyro distribution"),
        ({"rho": dist.Normal(torch.zeros(3), 1.0)}, r"one law of one number.* shape \(3,\)"),
        ({"rho": dist.Normal(torch.zeros(3), 1.0).to_event(1)}, r"event shape \(3,\)"),
        ({"last_layer": dist.Normal(torch.zeros(3), 1.0)}, r"one vector(.|\n)*Add .to_event\(1\)"),
    ],
)
def test_priors_that_are_none(priors, match):
    with pytest.raises(InvalidArgumentError, match=match):
        CopulaGNN("linear", "normal", "car", priors=priors)


def test_priors_print_with_their_parameters():
    given = {"rho": dist.Beta(18.0, 2.0)}
    model = CopulaGNN("linear", "normal", "car", priors=given, last_layer_prior=0.5)
    shown = "priors={'rho': Beta(18, 2)}, last_layer_prior=0.5"
    assert shown in repr(model)
    built = model.build(example())
    assert shown in repr(built)
    size = built.last_layer_size
    assert repr(built.priors) == (
        "{'rho': Beta(18, 2), 'tau': LogNormal(0, 1), "
        f"'last_layer': Normal(0, 0.5) of shape ({size},)}}"
    )
    assert dict(built.priors)["rho"] is built.given_priors["rho"]  # a dictionary like any other
    assert repr(default_prior("alpha")) == "SignedBeta(4, 1)"
    several = dist.Normal(torch.tensor([0.0, 1.0]), 1.0).to_event(1)
    assert repr(several) in repr(Priors(rho=several))  # one number would not say it
