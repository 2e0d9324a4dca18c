"""Fits with priors: where they start, which mode they find, and maximum likelihood without them."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from fit_examples import SHORT, example

import pyro_copula as pc
from pyro_copula import CopulaGNN, fit

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize("high", [0.5, 0.9])
def test_a_prior_that_excludes_the_start_has_its_mode_inside(high, refine):
    data = pc.datasets.nc_sids()
    data.x, data.y, data.exposure = data.x.double(), data.y.double(), data.exposure.double()
    observed = torch.arange(100) % 5 != 0
    prior = dist.Uniform(0.0, high)
    options = {"exposure": "exposure", "priors": {"rho": prior}}
    model = CopulaGNN("linear", "poisson", "car", **options)
    held = model.build(data, observed).site_values()["rho"]
    torch.testing.assert_close(held, torch.tensor(0.9))  # outside, or on the edge
    found = fit(model, data, observed, "map", refine=refine)
    rho = found.scalars["rho"]
    assert found.converged
    assert 0.02 < rho < high - 0.02
    if refine:
        fitted, y = found.model, found.model.data.y
        with torch.no_grad():
            outputs, grid = fitted.outputs(), torch.linspace(0.01, high - 0.01, 200)
            density = [float(fitted.joint(outputs, rho=value).log_prob(y)) for value in grid]
        assert rho == pytest.approx(float(grid[density.index(max(density))]), abs=0.01)


@pytest.mark.parametrize("method", ["svi", "nuts"])
def test_posteriors_start_inside_the_prior(method):
    data = example("poisson")
    model = CopulaGNN("linear", "poisson", "car", priors={"rho": dist.Uniform(0.0, 0.8)})
    cheap = fit(model, data, data.observed, schedule=SHORT)
    assert cheap.scalars["rho"] > 0.8
    sizes = {"num_draws": 40, "num_warmup": 40, "num_chains": 1, "schedule": SHORT}
    found = cheap.refit(method, **sizes).posterior["rho"]
    assert 0.1 < float(found.mean()) < 0.75
    assert float(found.std()) > 0.05


@pytest.mark.parametrize("precision", ["car", "laplacian"])
def test_maximum_likelihood_does_not_know_the_priors(precision):
    data = example("poisson")
    own = {"rho": dist.Uniform(-0.5, 0.1)} if precision == "car" else {}
    own["nugget"] = dist.Uniform(0.9, 0.99)
    plain, other = (
        fit(
            CopulaGNN("linear", "poisson", precision, nugget=True, priors=priors),
            data,
            data.observed,
            refine=True,
            schedule=SHORT,
        )
        for priors in (None, own)
    )
    assert other.scalars == plain.scalars
    assert plain.scalars["nugget"] < 0.9


def test_a_model_with_nothing_but_a_last_layer_to_refine():
    data = example("poisson")
    model = CopulaGNN("linear", "poisson", "none", last_layer_prior=1.0)
    plain, refined = (
        fit(model, data, data.observed, refine=refine, schedule=SHORT) for refine in (False, True)
    )
    assert torch.equal(refined.model.last_layer(), plain.model.last_layer())


def test_a_mode_at_the_end_of_the_range_can_be_held():
    torch.set_default_dtype(torch.float32)
    data = pc.datasets.nc_sids()
    observed = torch.arange(100) % 5 != 0
    model = CopulaGNN(
        "linear",
        "poisson",
        "car",
        exposure="exposure",
        nugget=True,
        priors={"nugget": dist.Uniform(0.5, 1.0)},
    )
    found = fit(model, data, observed, "map", refine=True)
    assert 0.5 < found.scalars["nugget"] < 1
    assert bool(torch.isfinite(found.predict().mean).all())
