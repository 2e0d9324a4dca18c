"""NUTS: the hand-written potential is the program's, and the coordinates are good ones."""

from __future__ import annotations

import math

import pyro
import pytest
import torch
from fit_examples import example, quick_fit
from pyro.infer.mcmc.util import initialize_model

import pyro_copula as pc
from pyro_copula.errors import (
    ConvergenceError,
    CurvatureError,
    EstimateError,
    InvalidArgumentError,
    NotPositiveDefiniteError,
    TrainingError,
)
from pyro_copula.inference.nuts import sample_posterior
from pyro_copula.inference.potential import Potential, locate

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")

MODELS = {
    "normal": lambda: pc.CopulaGNN("linear", "normal", "car", nugget=True),
    "counts": lambda: pc.CopulaGNN("linear", "negative_binomial", "laplacian"),
    "last layer": lambda: pc.CopulaGNN(
        "gcn", "normal", "normalized_adjacency", hidden_channels=3, last_layer_prior=0.7
    ),
}


def built(kind):
    data = example("poisson" if kind == "counts" else "normal")
    return MODELS[kind]().build(data, data.observed).eval()


@pytest.mark.parametrize("kind", MODELS)
def test_the_potential_is_that_of_the_pyro_program(kind):
    model = built(kind)
    potential = Potential(model)
    _, theirs, _, _ = initialize_model(model.model, (model.data.y,))
    for scale in (0.0, 0.3, 1.0):
        u = (potential.start + scale * torch.randn_like(potential.start)).requires_grad_()
        parts = {name: part.detach().requires_grad_() for name, part in potential._split(u).items()}
        expected = theirs(parts)
        torch.testing.assert_close(potential(u), expected)
        gradients = torch.autograd.grad(expected, list(parts.values()))
        expected_gradient = torch.cat([g.reshape(-1) for g in gradients])
        value, gradient = potential.with_gradient(u.detach().numpy())
        assert value == pytest.approx(float(expected.detach()))
        torch.testing.assert_close(torch.as_tensor(gradient), expected_gradient)
    values = potential.values(potential.start)
    for name, held in model.site_values().items():
        torch.testing.assert_close(values[name], held)


@pytest.mark.parametrize("density", ["posterior", "map", "mle"])
def test_the_potential_starts_inside_the_priors(density):
    model = built("normal")
    held = model.site_values()
    model.given_priors = {"nugget": pyro.distributions.Uniform(0.5, 0.9)}
    potential = Potential(model, density)
    start = potential.values(potential.start)
    expected = held if density == "mle" else {**held, "nugget": torch.tensor(0.7)}
    for name, value in expected.items():
        torch.testing.assert_close(start[name], value)
    far = potential.values(torch.full_like(potential.start, 30.0))["nugget"]
    assert float(far) == pytest.approx(1.0 if density == "mle" else 0.9)


@pytest.mark.parametrize("kind", MODELS)
def test_the_chains_start_in_coordinates_of_unit_curvature(kind):
    potential = Potential(built(kind))
    mode, root = locate(potential)
    assert (
        potential.with_gradient(mode.numpy())[0]
        <= potential.with_gradient(potential.start.numpy())[0]
    )
    step = 1e-3

    def gradient(z):
        return root.T @ torch.as_tensor(potential.with_gradient((mode + root @ z).numpy())[1])

    axes = step * torch.eye(len(mode))
    curvature = torch.stack([(gradient(axis) - gradient(-axis)) / (2 * step) for axis in axes])
    # one, except along directions so flat that the curvature is not believed
    diagonal = curvature.diagonal()
    assert bool((diagonal < 1.01).all())
    believed = diagonal > 0.99
    assert int(believed.sum()) >= len(mode) - 1
    off = (curvature - torch.diag(diagonal))[believed]
    assert float(off.abs().max()) < 0.05


def test_a_density_that_is_zero_at_the_start_is_an_error():
    model = built("normal")
    potential = Potential(model)
    potential.y = torch.full_like(potential.y, math.inf)
    with pytest.raises(TrainingError, match="density is zero"):
        locate(potential)


def test_a_model_without_global_parameters_is_refused():
    data = example("poisson")
    model = pc.CopulaGNN("linear", "poisson", "none").build(data, data.observed)
    with pytest.raises(InvalidArgumentError, match="one with global parameters to sample"):
        sample_posterior(model, num_draws=5, num_warmup=5, num_chains=1, seed=0)


class _FailingBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value, error):
        ctx.error = error
        return value.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ctx.error


@pytest.mark.parametrize(
    ("error", "backward"),
    [
        (ConvergenceError(0.5, 1e-4, 500), False),
        (ConvergenceError(0.5, 1e-4, 500), True),
        (CurvatureError("precision", 3, -0.1), True),
        (NotPositiveDefiniteError("precision", 3, -0.1, "Check it."), False),
        (EstimateError("variance", 3, -0.1, 8), False),
    ],
)
def test_where_no_law_can_be_made_the_density_is_zero(monkeypatch, error, backward):
    """A chain goes on, whichever pass fails: such a step ends in a divergence."""
    model = built("normal")
    evaluate, calls = Potential.__call__, []

    def failing(self, u):
        value = evaluate(self, u)
        calls.append(1)
        if len(calls) > 60 and len(calls) % 7 == 0:
            if not backward:
                raise error
            return _FailingBackward.apply(value, error)
        return value

    monkeypatch.setattr(Potential, "__call__", failing)
    posterior, said = sample_posterior(model, num_draws=10, num_warmup=10, num_chains=1, seed=0)
    assert all(bool(torch.isfinite(draws).all()) for draws in posterior.values())
    assert said["divergences"] > 0
    assert len(calls) > 100


#: The chance that this test fails though everything is right, from the normal law of the mean of
#: about 200 effectively independent draws at 4 standard errors, for mean and spread.
FAILURE_RATE = 2e-4


def test_draws_of_a_known_posterior():
    """With one parameter the posterior is known by quadrature."""
    model = quick_fit(method="map").model
    model.given_priors = {"tau": pyro.distributions.LogNormal(0.0, 1e-6)}
    posterior, said = sample_posterior(model, num_draws=150, num_warmup=60, num_chains=2, seed=0)
    rho = torch.linspace(-0.999, 0.9995, 2001)
    y = model.data.y
    with torch.no_grad():
        outputs = model.outputs()
        log_density = torch.stack(
            [
                model.joint(outputs, rho=r, tau=torch.tensor(1.0)).log_prob(y)
                + model.priors["rho"].log_prob(r)
                for r in rho
            ]
        )
    weight = torch.softmax(log_density, 0)
    mean = float((weight * rho).sum())
    sd = float((weight * (rho - mean).square()).sum().sqrt())
    draws = posterior["rho"].reshape(-1)
    error = 4 / math.sqrt(said["min_effective_sample_size"])
    assert abs(float(draws.mean()) - mean) < error * sd
    assert abs(float(draws.std()) / sd - 1) < 2 * error
    assert posterior["tau"].log().abs().max() < 1e-5
    assert said["diverging"].shape == (2, 150)
    assert said["gradients"] < 20 * 2 * 210


def test_chains_have_seeds_of_their_own():
    cheap = quick_fit(method="map")
    sizes = {"num_draws": 5, "num_warmup": 5, "num_chains": 2}
    first, second = (cheap.refit("nuts", **sizes).posterior["rho"] for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(cheap.refit("nuts", seed=9, **sizes).posterior["rho"], first)


@pytest.mark.slow
def test_the_posterior_of_sudden_infant_deaths():
    """North Carolina SIDS, at full size: the sampler's own diagnostics, and SVI beside NUTS."""
    data = pc.datasets.nc_sids()
    model = pc.CopulaGNN("linear", "negative_binomial", "car", exposure="exposure")
    cheap = pc.fit(model, data, method="map")
    full = cheap.refit("nuts", num_draws=500, num_warmup=300, num_chains=2)
    assert full.diagnostics["max_r_hat"] < 1.01
    assert full.diagnostics["divergences"] == 0
    assert full.diagnostics["gradients"] < 15_000
    normal = cheap.refit("svi", num_draws=2000, guide=pyro.infer.autoguide.AutoMultivariateNormal)
    for name, draws in full.posterior.items():
        # a normal guide on the unconstrained scale is not the skewed posterior: roughly the same
        log = name == "dispersion"
        expected, found = (part.log() if log else part for part in (draws, normal.posterior[name]))
        assert abs(float(found.mean() - expected.mean())) < 0.5 * float(expected.std()), name
        assert 0.6 < float(found.std() / expected.std()) < 1.4, name
