"""The distributions inside Pyro programs: SVI, AutoDelta, NUTS, condition, Predictive, plates."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, AutoLaplaceApproximation, AutoNormal
from pyro.optim import Adam

import pyro_copula as pc
from pyro_copula.errors import ObsMaskError

GRID = pc.Graph.from_edges(
    [(6 * r + c, 6 * r + c + 1) for r in range(6) for c in range(5)]
    + [(6 * r + c, 6 * r + c + 6) for r in range(5) for c in range(6)]
)


def model(y=None, marginal=dist.Poisson):
    log_mean = pyro.sample("log_mean", dist.Normal(1.0, 1.0))
    rho = pyro.sample("rho", dist.Uniform(0.0, 1.0))
    K = pc.CARPrecision(GRID)(rho=rho, tau=1.0)
    rate = log_mean.exp().unsqueeze(-1).expand(*log_mean.shape, GRID.num_nodes)
    return pyro.sample("y", pc.GaussianCopula(marginal(rate), precision=K), obs=y)


def data():
    pyro.set_rng_seed(1)
    truth = poutine.condition(model, {"log_mean": torch.tensor(1.6), "rho": torch.tensor(0.9)})
    y = truth()
    y[::5] = math.nan
    return y


def test_trace_has_one_log_density_for_all_nodes():
    y = data()
    trace = poutine.trace(model).get_trace(y)
    trace.compute_log_prob()
    assert trace.nodes["y"]["log_prob"].shape == ()
    assert trace.nodes["y"]["fn"].event_shape == (36,)


@pytest.mark.parametrize("guide", [AutoDelta, AutoNormal])
def test_svi_finds_the_mean(guide):
    y = data()
    guide = guide(model)
    svi = SVI(model, guide, Adam({"lr": 0.05}), Trace_ELBO())
    losses = [svi.step(y) for _ in range(150)]
    assert sum(losses[-20:]) < sum(losses[:20])
    assert float(guide.median()["log_mean"]) == pytest.approx(1.6, abs=0.35)


def test_vectorised_particles_give_the_same_loss():
    y = data()
    guide = AutoDelta(model)
    Trace_ELBO().loss(model, guide, y)
    one = Trace_ELBO().loss(model, guide, y)
    many = Trace_ELBO(num_particles=3, vectorize_particles=True, max_plate_nesting=0).loss(
        model, guide, y
    )
    assert one == pytest.approx(many)


def test_laplace_approximation_uses_second_derivatives():
    y = torch.randn(36)
    y[3] = math.nan

    def normal(y):
        log_tau = pyro.sample("log_tau", dist.Normal(0.0, 1.0))
        K = pc.LaplacianPrecision(GRID, backend="dense")(tau=log_tau.exp(), gamma=0.5)
        pyro.sample("y", pc.GraphNormal(torch.zeros(36), precision=K), obs=y)

    guide = AutoLaplaceApproximation(normal)
    svi = SVI(normal, guide, Adam({"lr": 0.05}), Trace_ELBO())
    for _ in range(50):
        svi.step(y)
    scale = guide.laplace_approximation(y).get_posterior(y).variance.sqrt()
    assert 0.02 < float(scale) < 1.0


def test_nuts_runs_and_predictive_follows():
    y = data()
    kernel = NUTS(model, jit_compile=False)
    mcmc = MCMC(kernel, num_samples=60, warmup_steps=60, disable_progbar=True)
    mcmc.run(y)
    samples = mcmc.get_samples()
    assert float(samples["log_mean"].mean()) == pytest.approx(1.6, abs=0.5)
    predictive = Predictive(model, samples)()
    assert predictive["y"].shape == (60, 36)
    parallel = Predictive(model, samples, parallel=True)()
    assert parallel["y"].shape == (60, 36)
    # posterior draws of the parameters, as a batch, condition in one call
    K = pc.CARPrecision(GRID)(rho=samples["rho"], tau=1.0)
    rate = samples["log_mean"].exp().unsqueeze(-1).expand(60, 36)
    conditional = pc.GaussianCopula(dist.Poisson(rate), precision=K).condition(y)
    assert conditional.sample().shape == (60, 8)


def test_poutine_condition_sets_the_value():
    y = data()
    trace = poutine.trace(poutine.condition(model, {"y": y})).get_trace()
    assert torch.equal(trace.nodes["y"]["value"].isnan(), y.isnan())
    assert trace.nodes["y"]["is_observed"]
    assert math.isfinite(trace.log_prob_sum())


def test_plate_of_replicates():
    def replicated(y):
        rho = pyro.sample("rho", dist.Uniform(0.0, 1.0))
        K = pc.CARPrecision(GRID)(rho=rho, tau=1.0)
        with pyro.plate("years", 3):
            return pyro.sample(
                "y", pc.GaussianCopula(dist.Poisson(torch.full((36,), 5.0)), precision=K), obs=y
            )

    y = torch.stack([data(), data(), data()])
    y[1, 2] = math.nan
    trace = poutine.trace(poutine.condition(replicated, {"rho": torch.tensor(0.5)})).get_trace(y)
    trace.compute_log_prob()
    K = pc.CARPrecision(GRID)(rho=0.5, tau=1.0)
    copula = pc.GaussianCopula(dist.Poisson(torch.full((36,), 5.0)), precision=K)
    expected = torch.stack([copula.log_prob(row) for row in y])
    torch.testing.assert_close(trace.nodes["y"]["log_prob"], expected)
    unobserved = poutine.trace(replicated).get_trace(None)
    assert unobserved.nodes["y"]["value"].shape == (3, 36)
    draws = unobserved.nodes["y"]["value"]
    assert not torch.equal(draws[0], draws[1])


def test_precision_module_is_trained_by_svi():
    y = data()
    module = pc.CARPrecision(GRID, rho=0.5)

    def mle(y):
        pyro.module("precision", module)
        log_mean = pyro.param("log_mean", torch.tensor(1.0))
        copula = pc.GaussianCopula(dist.Poisson(log_mean.exp().expand(36)), precision=module())
        pyro.sample("y", copula, obs=y)

    svi = SVI(mle, lambda y: None, Adam({"lr": 0.05}), Trace_ELBO())
    before = float(module.rho().detach())
    first = svi.step(y)
    for _ in range(60):
        last = svi.step(y)
    assert last < first
    assert float(module.rho().detach()) != before


@pytest.mark.parametrize("kind", ["copula", "normal"])
def test_obs_mask_over_nodes_is_an_error(kind):
    y = data().nan_to_num(1.0)
    observed = torch.arange(36) % 5 != 0

    def wrong():
        K = pc.CARPrecision(GRID)(rho=0.5, tau=1.0)
        law = (
            pc.GaussianCopula(dist.Poisson(torch.full((36,), 5.0)), precision=K)
            if kind == "copula"
            else pc.GraphNormal(torch.zeros(36), precision=K)
        )
        pyro.sample("y", law, obs=y, obs_mask=observed)

    with pytest.raises(ObsMaskError, match="NaN at missing nodes"):
        poutine.trace(wrong).get_trace()
    K = pc.CARPrecision(GRID)(rho=0.5, tau=1.0)
    with pytest.raises(ObsMaskError, match="once per node"):
        pc.GraphNormal(torch.zeros(36), precision=K).mask(observed)


def test_batch_masks_still_work():
    K = pc.CARPrecision(GRID)(rho=0.5, tau=1.0)
    d = pc.GraphNormal(torch.zeros(2, 36), precision=K)
    keep = torch.tensor([True, False])
    y = torch.zeros(2, 36)
    torch.testing.assert_close(d.mask(keep).log_prob(y), d.log_prob(y) * keep)
    assert d.mask(False).log_prob(y).eq(0).all()

    def replicated():
        with pyro.plate("years", 2), poutine.mask(mask=keep):
            return pyro.sample("y", d)

    assert replicated().shape == (2, 36)


@pytest.mark.parametrize("rule", ["normal", "midpoint", "exact", "ep", "augment"])
def test_a_handler_that_masks_nodes_of_an_observed_site_is_an_error(rule):
    """Pyro would count the joint density once per node, and NUTS sample without a word."""
    y = data().nan_to_num(1.0)

    def wrong():
        rho = pyro.sample("rho", dist.Uniform(0, 1))
        K = pc.CARPrecision(GRID)(rho=rho, tau=1.0)
        law = (
            pc.GraphNormal(torch.zeros(36), precision=K)
            if rule == "normal"
            else pc.GaussianCopula(dist.Poisson(torch.full((36,), 5.0)), K, discrete=rule)
        )
        with poutine.mask(mask=torch.arange(36) % 5 != 0):
            pyro.sample("y", law, obs=y)

    trace = poutine.trace(wrong).get_trace()
    with pytest.raises(ValueError, match="put NaN at missing nodes"):
        trace.log_prob_sum()
    with pytest.raises(ValueError, match="put NaN at missing nodes"):
        MCMC(NUTS(wrong), num_samples=1, warmup_steps=1, disable_progbar=True).run()


def test_a_handler_that_masks_replicates_masks_their_densities():
    K = pc.CARPrecision(GRID)(rho=0.5, tau=1.0)
    d = pc.GraphNormal(torch.zeros(36), precision=K)
    keep = torch.tensor([True, False])
    y = torch.arange(72.0).reshape(2, 36) / 36

    def replicated():
        with pyro.plate("years", 2), poutine.mask(mask=keep):
            pyro.sample("y", d, obs=y)

    found = poutine.trace(replicated).get_trace().log_prob_sum()
    torch.testing.assert_close(found, d.log_prob(y[0]))


@pytest.mark.parametrize("kind", ["copula", "normal", "missing"])
def test_a_plate_of_nodes_is_an_error(kind):
    """Pyro would count the joint density once per node."""
    y = data() if kind == "missing" else data().nan_to_num(1.0)
    K = pc.CARPrecision(GRID)(rho=0.5, tau=1.0)
    law = (
        pc.GraphNormal(torch.zeros(36), precision=K)
        if kind == "normal"
        else pc.GaussianCopula(dist.Poisson(torch.full((36,), 5.0)), precision=K)
    )

    def wrong():
        with pyro.plate("nodes", 36):
            pyro.sample("y", law, obs=y)

    with pytest.raises(ValueError, match="Draw this site outside"):
        poutine.trace(wrong).get_trace().log_prob_sum()


def test_as_many_replicates_or_draws_as_nodes_are_none():
    K = pc.CARPrecision(GRID)(rho=0.5, tau=1.0)
    law = pc.GraphNormal(torch.zeros(36), precision=K)
    y = torch.arange(36.0 * 36).reshape(36, 36) / 36

    def replicated(law, y):
        with pyro.plate("years", 36):
            pyro.sample("y", law, obs=y)

    found = poutine.trace(replicated).get_trace(law, y).log_prob_sum()
    torch.testing.assert_close(found, law.log_prob(y).sum())
    draws = pc.GraphNormal(torch.arange(36.0).unsqueeze(-1).expand(36, 36), precision=K)
    found = poutine.trace(replicated).get_trace(draws, y[0]).log_prob_sum()
    torch.testing.assert_close(found, draws.log_prob(y[0]).sum())

    def particles():
        pyro.sample("a", dist.Normal(0.0, 1.0))
        pyro.sample("y", law, obs=y[0])

    def guide():
        pyro.sample("a", dist.Normal(0.0, 1.0))

    elbo = Trace_ELBO(num_particles=36, vectorize_particles=True, max_plate_nesting=0)
    assert elbo.loss(particles, guide) == pytest.approx(-float(law.log_prob(y[0])), rel=1e-5)
