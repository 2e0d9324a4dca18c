"""Priors: one for every global parameter, on its range, with mass where it starts."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from model_examples import example, kind_of

from pyro_copula.models import FAMILIES, PRECISIONS, CopulaGNN, default_prior
from pyro_copula.models.priors import Priors, SignedBeta
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


def test_the_signed_beta_is_a_beta_law_on_another_interval():
    law = SignedBeta(4.0, 1.0)
    x = torch.tensor([-0.9, 0.0, 0.8])
    expected = dist.Beta(4.0, 1.0).log_prob((x + 1) / 2) - torch.log(torch.tensor(2.0))
    torch.testing.assert_close(law.log_prob(x), expected)


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
