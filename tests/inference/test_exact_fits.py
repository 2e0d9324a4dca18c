"""Fits and predictions under the exact rules for discrete marginals."""

from __future__ import annotations

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError, MidpointWarning

SIDE, MEAN = 8, 0.6


@pytest.fixture(scope="module")
def counts() -> tuple[Data, torch.Tensor]:
    """Small counts on a lattice, a fifth of them missing."""
    torch.manual_seed(0)
    graph = pc.simulate.grid_graph(SIDE, SIDE)
    law = dist.Poisson(torch.full((SIDE * SIDE,), MEAN, dtype=torch.float64))
    y = pc.GaussianCopula(law, precision=pc.CARPrecision(graph)(rho=0.95, tau=1.0)).sample()
    data = Data(
        x=torch.ones(SIDE * SIDE, 1), edge_index=graph.edge_index, y=y, num_nodes=SIDE * SIDE
    )
    return data, torch.arange(SIDE * SIDE) % 5 != 0


def model(**options) -> pc.CopulaGNN:
    return pc.CopulaGNN(backbone="linear", marginal="poisson", precision="car", **options)


def fitted(counts, **options) -> pc.Fit:
    data, observed = counts
    schedule = pc.Schedule(max_epochs=60, check_every=20)
    return pc.fit(
        model(**options),
        data,
        observed,
        schedule=schedule,
        refine=True,
        lr=0.05,
        seed=0,
        progress=False,
    )


def test_exact_and_ep_agree_and_the_midpoint_sees_more_dependence(counts):
    exact = fitted(counts, discrete="exact", num_particles=32)
    ep = fitted(counts, discrete="ep")
    with pytest.warns(MidpointWarning):
        midpoint = fitted(counts)
    assert exact.scalars["rho"] == pytest.approx(ep.scalars["rho"], abs=0.02)
    assert midpoint.scalars["rho"] > exact.scalars["rho"] + 0.01


def test_predictions_have_the_interface_of_every_fit(counts, tmp_path):
    data, observed = counts
    fit = fitted(counts, discrete="exact", num_particles=32)
    prediction = fit.predict(num_samples=50)
    missing = int((~observed).sum())
    assert prediction.samples.shape == (50, missing)
    lower, upper = prediction.interval(0.9)
    assert bool((lower <= prediction.quantile(0.5)).all())
    assert bool((prediction.quantile(0.5) <= upper).all())
    assert np.isfinite(list(prediction.score(data.y).values())).all()
    fit.save(tmp_path / "fit")
    again = pc.load_fit(tmp_path / "fit")
    assert again.model.arguments["discrete"] == "exact"
    assert "precision='car', discrete='exact', num_particles=32)" in repr(again)
    assert again.model.arguments["num_particles"] == 32
    with pytest.raises(InvalidArgumentError, match="load_fit"):
        pc.load_fit(tmp_path / "fit", data)
    assert torch.equal(again.predict(num_samples=5).mean, fit.predict(num_samples=5).mean)


@pytest.mark.parametrize("rule", ["exact", "ep"])
def test_nuts_samples_the_global_parameters(counts, rule):
    fit = fitted(counts, discrete=rule, num_particles=16)
    posterior = fit.refit(method="nuts", num_draws=8, num_warmup=8, num_chains=1, progress=False)
    assert posterior.posterior["rho"].shape == (1, 8)
    prediction = posterior.predict(num_samples=20)
    assert bool(torch.isfinite(prediction.mean).all())


def test_latent_scores_are_for_models_of_your_own():
    with pytest.raises(InvalidArgumentError, match="integrate them out"):
        model(discrete="augment")
    with pytest.raises(InvalidArgumentError, match="num_particles"):
        model(discrete="exact", num_particles=-1)
