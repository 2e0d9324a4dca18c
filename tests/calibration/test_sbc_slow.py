"""NUTS is right for models with a copula site, and found out where it is given a wrong one."""

from __future__ import annotations

from functools import partial

import pyro
import pyro.distributions as dist
import pytest
import torch
from calibration_models import GRID

import pyro_copula as pc
from pyro_copula.calibration import NUTSSampler

pytestmark = pytest.mark.slow

#: A right sampler is rejected with this probability, over the choice of the seed.
FALSE_ALARM = 1e-3

OBSERVED = torch.arange(9) != 4

calibrate = partial(
    pc.simulation_based_calibration,
    observed=OBSERVED,
    num_simulations=24,
    num_draws=19,
    sampler=NUTSSampler(num_draws=38, num_warmup=60),
    thin=2,
    progress=False,
)


def lognormal_copula(factor, y=None):
    """Positive values on a grid: a level, a scale and a dependence, one node missing.

    Args:
        factor: What the data that are conditioned on are multiplied by; 1 is right.
        y: The data.
    """
    rho = pyro.sample("rho", dist.Beta(2.0, 2.0))
    level = pyro.sample("level", dist.Normal(0.0, 1.0))
    scale = pyro.sample("scale", dist.LogNormal(0.0, 0.5))
    K = pc.CARPrecision(GRID)(rho=rho, tau=1.0)
    law = pc.GaussianCopula(dist.LogNormal(level, scale).expand([9]), K)
    pyro.sample("y", law, obs=None if y is None else factor * y)


def test_nuts_is_right_for_a_copula_with_a_missing_node():
    found = calibrate(lognormal_copula, args=[1.0])
    assert list(found.ranks) == ["rho", "level", "scale", "log_likelihood"]
    assert found.rejected(FALSE_ALARM) == [], found.summary()
    assert not found.failures
    # with 38 independent draws one of three parameters is above 1.2 in one case in a hundred
    assert float((found.health["max_r_hat"] > 1.2).mean()) < 0.25


def counts_copula(rule, y=None):
    """Counts that are mostly zeros, given under one rule; draws of them need none."""
    rho = pyro.sample("rho", dist.Beta(4.0, 1.0))
    mean = pyro.sample("mean", dist.LogNormal(-0.5, 0.5))
    K = pc.CARPrecision(GRID)(rho=rho, tau=1.0)
    law = pc.GaussianCopula(dist.Poisson(mean.expand(9)), K, discrete=rule, num_particles=64)
    pyro.sample("y", law, obs=y)


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.ParticleWarning")  # far out, in warm-up
@pytest.mark.parametrize("rule", ["exact", "augment"])
def test_nuts_is_right_for_counts_with_wide_atoms(rule):
    # Counts are drawn as they are, not from the latent scores beside them, of which the density
    # of "augment" is one: no truth to rank it with.
    joint = rule == "exact"
    found = calibrate(counts_copula, args=[rule], parameters=["rho", "mean"], log_likelihood=joint)
    assert list(found.ranks) == ["rho", "mean"] + ["log_likelihood"] * joint
    assert found.rejected(FALSE_ALARM) == [], found.summary()
    assert not found.failures


def test_a_wrong_program_is_found_out():
    found = calibrate(lognormal_copula, args=[3.0], num_simulations=8)
    assert "level" in found.rejected(FALSE_ALARM), found.summary()
