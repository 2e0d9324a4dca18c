"""A right sampler passes, a wrong one does not, with parameters, copulas and missing nodes."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from calibration_models import (
    NUM_VALUES,
    Conjugate,
    OnGrid,
    as_copula,
    as_normal,
    copula_model,
    normal_model,
    prior_only,
)

import pyro_copula as pc
from pyro_copula.calibration import Draws
from pyro_copula.errors import InvalidArgumentError

#: A right sampler is rejected with this probability, over the choice of the seed, by an exact test.
FALSE_ALARM = 1e-3

#: Wrong samplers here shift or squeeze ranks by ten standard errors or more: one of them is missed
#: with a probability below this.
MISS = 1e-6

calibrate = partial(pc.simulation_based_calibration, num_simulations=500, progress=False)
only_parameters = partial(calibrate, log_likelihood=False)  # a density a draw takes long


def test_the_exact_posterior_is_accepted():
    found = calibrate(normal_model, sampler=Conjugate(), num_draws=19)
    assert list(found.ranks) == ["mu", "log_likelihood"]
    assert found.num_replications == 500
    assert found.num_ranks == 20
    assert found.rejected(FALSE_ALARM) == []
    assert "no quantity departs from uniform ranks" in repr(found)


def test_the_posterior_of_another_prior_is_rejected():
    found = only_parameters(normal_model, sampler=Conjugate(prior_mean=1.5))
    assert "mu" in found.rejected(MISS)
    assert "draws too high" in repr(found)
    assert found.to_frame().loc["mu", "mean_rank"] < 0.45


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": 0.4}, "posterior too narrow"),  # a likelihood with too small a variance
        ({"spread": 0.5}, "posterior too narrow"),
        ({"spread": 2.0}, "posterior too wide"),
    ],
)
def test_a_wrong_spread_is_rejected(options, words):
    found = only_parameters(normal_model, sampler=Conjugate(**options))
    assert "mu" in found.rejected(MISS)
    row = next(line for line in found.summary().splitlines() if line.startswith("  mu"))
    assert words in row


def test_only_the_log_likelihood_sees_a_sampler_that_ignores_the_data():
    found = calibrate(normal_model, sampler=prior_only, num_draws=19, num_simulations=200)
    assert found.rejected(MISS) == ["log_likelihood"]
    assert found.p_values["mu"] > FALSE_ALARM


@pytest.mark.parametrize(("marginal", "missing"), [(as_copula, (1, 4, 8)), (as_normal, ())])
def test_a_copula_site_agrees_with_dense_densities(marginal, missing):
    observed = torch.ones(9, dtype=torch.bool)
    observed[list(missing)] = False
    found = calibrate(
        copula_model,
        args=[marginal],
        observed=observed,
        sampler=OnGrid(marginal),
        num_simulations=200,
        num_draws=9,
    )
    assert list(found.ranks) == ["rho", "log_likelihood"]
    assert found.rejected(FALSE_ALARM) == []


def test_a_copula_site_with_a_wrong_density_is_rejected():
    sampler = OnGrid(as_normal, variance=0.3)
    found = only_parameters(copula_model, args=[as_normal], sampler=sampler)
    assert found.rejected(MISS) == ["rho"]


# ---------------------------------------------------------------- what is ranked


def mixed_model(num, scale, counts=None, y=None):
    """Vectors, a discrete latent site and two sites of data."""
    weight = pyro.sample("weight", dist.Normal(torch.zeros(2, 2), 1.0).to_event(2))
    which = pyro.sample("which", dist.Bernoulli(0.5))
    rate = pyro.sample("rate", dist.Gamma(2.0, 1.0))
    with pyro.plate("nodes", num):
        pyro.sample("y", dist.Normal(weight.sum() + which, scale), obs=y)
        pyro.sample("counts", dist.Poisson(rate), obs=counts)


def mixed_sampler(model, y, seed):
    """Right for the rate alone."""
    total = y["counts"].sum()
    return {
        "rate": dist.Gamma(2.0 + total, 1.0 + len(y["counts"])).sample((120,)),
        "weight": torch.randn(120, 2, 2),
        "which": torch.bernoulli(torch.full((120,), 0.5)),
    }


def mixed(**options):
    options = {"observed_site": ["y", "counts"], "num_simulations": 20, **options}
    return calibrate(mixed_model, args=[5], kwargs={"scale": 1.0}, sampler=mixed_sampler, **options)


def test_vectors_are_ranked_by_element_and_discrete_sites_are_not():
    found = mixed()
    elements = [f"weight[{i},{j}]" for i in (0, 1) for j in (0, 1)]
    assert list(found.ranks) == [*elements, "rate", "log_likelihood"]
    for ranks in found.ranks.values():
        assert ranks.shape == (20,)
        assert ranks.min() >= 0
        assert ranks.max() <= 99


def test_sites_can_be_chosen_and_discrete_ones_have_random_ties():
    found = mixed(parameters=["which"], log_likelihood=False, num_simulations=300)
    assert list(found.ranks) == ["which"]
    assert found.rejected(FALSE_ALARM) == []
    assert len(np.unique(found.ranks["which"])) > 60


def test_quantities_of_latent_values_and_data():
    seen = []

    def total(latent, y):
        seen.append((set(latent), set(y)))
        return latent["rate"] * (1 + y["counts"].mean())

    found = mixed(parameters=["rate"], quantities={"total": total})
    assert list(found.ranks) == ["rate", "total", "log_likelihood"]
    # a positive multiple of the rate has the rank of the rate
    np.testing.assert_array_equal(found.ranks["total"], found.ranks["rate"])
    assert seen[0] == ({"weight", "which", "rate"}, {"y", "counts"})


def test_the_log_likelihood_is_that_of_all_observed_values():
    """Against the density of the data by hand, at the truth of each replication."""
    kept = []

    def remember(latent, y):
        kept.append((float(latent["mu"]), y.clone()))
        return 0.0

    observed = torch.arange(NUM_VALUES) != 2
    found = calibrate(
        masked_model,
        observed=observed,
        sampler=Conjugate(num_draws=1),
        num_draws=1,
        num_simulations=3,
        quantities={"remember": remember},
    )
    truths = kept[::2]  # the truth, then the one draw
    for (mu, y), value in zip(truths, found.truths["log_likelihood"], strict=True):
        assert bool(torch.isnan(y[2]))
        by_hand = torch.distributions.Normal(mu, 1.0).log_prob(y[observed]).sum()
        assert value == pytest.approx(float(by_hand))


def masked_model(y=None):
    mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
    graph = pc.Graph.from_edges([], num_nodes=NUM_VALUES)
    K = pc.SparsePrecision(graph, torch.ones(NUM_VALUES), torch.ones(0))
    pyro.sample("y", pc.GraphNormal(mu.expand(NUM_VALUES), precision=K), obs=y)


def test_ranks_count_the_draws_below_the_truth():
    drawn = []

    def sampler(model, y, seed):
        drawn.append(torch.randn(20).sort().values)
        return {"mu": drawn[-1]}

    found = only_parameters(normal_model, sampler=sampler, num_simulations=30, num_draws=6, thin=3)
    for draws, truth, rank in zip(drawn, found.truths["mu"], found.ranks["mu"], strict=True):
        kept = draws[2:][2::3]  # the last 18, every third
        assert rank == int((kept < truth).sum())


def test_a_sampler_that_sets_its_seed_does_not_draw_the_truth_again():
    def sampler(model, y, seed):
        pyro.set_rng_seed(seed)
        return {"mu": torch.randn(99)}

    found = only_parameters(normal_model, sampler=sampler)
    assert found.rejected(FALSE_ALARM) == []  # the prior is right for the parameter alone


def test_the_program_is_conditioned_and_health_is_kept():
    def sampler(model, y, seed):
        trace = pyro.poutine.trace(model).get_trace()
        assert trace.nodes["y"]["is_observed"]
        assert torch.equal(trace.nodes["y"]["value"], y)
        health = {"divergences": 2 if seed % 2 else 0, "min_effective_sample_size": 40.0}
        return Draws(Conjugate()(model, y, seed), {**health, "max_r_hat": 1.2})

    found = calibrate(normal_model, sampler=sampler, num_simulations=20)
    assert found.health["divergences"].shape == (20,)
    text = repr(found)
    odd = int((found.seeds % 2 == 0).sum())  # the sampler's seed is the next one
    assert f"divergences in {odd} of 20 replications" in text
    assert "R-hat above 1.05 in 20 of 20 replications" in text
    assert "below the 99 ranked draws in 20: raise `thin`" in text


def test_the_argument_of_the_data_can_have_another_name():
    def model(values=None):
        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        pyro.sample("y", dist.Normal(mu, 1.0).expand([NUM_VALUES]).to_event(1), obs=values)

    found = calibrate(model, data_argument="values", sampler=Conjugate(), num_simulations=5)
    assert found.num_replications == 5


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_simulations": 0}, "`num_simulations` must be a positive integer, but found 0"),
        ({"num_draws": 1.5}, "`num_draws`"),
        ({"thin": True}, "`thin`"),
        ({"jobs": 0}, "`jobs`"),
        ({"seed": -1}, "`seed`"),
        ({"observed_site": "z", "data_argument": "y"}, "'z', which is no site"),
        ({"observed_site": "z"}, "`model` must be callable with .* the data as z"),
        ({"data_argument": ["y", "z"]}, "`data_argument` must be one name a site"),
        ({"kwargs": {"y": None}}, "`model` must be callable"),
        ({"parameters": ["rho"]}, r"latent sites \['mu'\], but found \['rho'\]"),
        ({"parameters": [], "log_likelihood": False}, "but found no site"),
        ({"observed": torch.ones(NUM_VALUES)}, "`observed` must be a boolean tensor"),
        ({"observed": torch.ones(7, dtype=torch.bool)}, "`observed` must be broadcastable"),
        ({"observed": {"z": torch.ones(4, dtype=torch.bool)}}, "torch.bool for 'z'"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        calibrate(normal_model, sampler=Conjugate(), **options)


def test_a_model_that_does_not_draw_its_data_is_an_error():
    def fixed(y=None):
        pyro.sample("mu", dist.Normal(0.0, 1.0))
        pyro.sample("y", dist.Normal(0.0, 1.0), obs=torch.zeros(()))

    with pytest.raises(InvalidArgumentError, match="'y', which is not drawn"):
        calibrate(fixed, sampler=Conjugate())
