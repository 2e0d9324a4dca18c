"""Expectation propagation where its updates, all at once, would jump to and fro."""

from __future__ import annotations

import math

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from scipy import stats

import pyro_copula as pc
from pyro_copula.distributions.exact import fixed_uniforms
from pyro_copula.rectangle.probability import Box


def one_site_at_a_time(covariance: np.ndarray, upper: np.ndarray, rounds: int) -> float:
    """Expectation propagation of ``x < upper``, dense, in the form of Rasmussen and Williams.

    Their equation 3.65 of Gaussian Processes for Machine Learning, with moments by scipy.
    """
    n = len(upper)
    t, eta = np.zeros(n), np.zeros(n)
    posterior, mean = covariance.copy(), np.zeros(n)
    for _ in range(rounds):
        for i in range(n):
            precision, shift = _cavity(posterior[i, i], mean[i], t[i], eta[i])
            end = (upper[i] - shift) * math.sqrt(precision)
            ratio = math.exp(stats.norm.logpdf(end) - stats.norm.logcdf(end))
            moved = shift - ratio / math.sqrt(precision)
            variance = (1 - ratio * (end + ratio)) / precision
            t[i], eta[i] = 1 / variance - precision, moved / variance - shift * precision
            posterior = np.linalg.inv(np.linalg.inv(covariance) + np.diag(t))
            mean = posterior @ eta
    total = 0.0
    noise, center = np.diag(1 / t), eta / t
    for i in range(n):
        precision, shift = _cavity(posterior[i, i], mean[i], t[i], eta[i])
        both = 1 / precision + noise[i, i]
        total += stats.norm.logcdf((upper[i] - shift) * math.sqrt(precision))
        total += 0.5 * math.log(both) + 0.5 * (shift - center[i]) ** 2 / both
    _, logdet = np.linalg.slogdet(covariance + noise)
    return total - 0.5 * logdet - 0.5 * center @ np.linalg.solve(covariance + noise, center)


def _cavity(variance: float, mean: float, t: float, eta: float) -> tuple[float, float]:
    precision = 1 / variance - t
    return precision, (mean / variance - eta) / precision


def tied(side: int, rho: float, level: float) -> Box:
    """A lattice whose nodes are all but equal, all of them below the same end.

    It has a gradient, for which the updates go on for longest.
    """
    graph = pc.simulate.grid_graph(side, side)
    precision = pc.CARPrecision(graph)(rho=rho, tau=1.0)
    upper = (level * precision.scale()).requires_grad_()
    uniforms = fixed_uniforms(side * side, 64, 0)
    return Box(precision, torch.full_like(upper, -math.inf), upper, uniforms)


@pytest.mark.parametrize(("side", "rho"), [(3, 0.5), (3, 0.999), (6, 0.999)])
def test_tied_nodes_settle_where_one_site_at_a_time_does(side, rho):
    """Undamped, the last of these answers -0.71 after any even number of updates."""
    box = tied(side, rho, level=2.05)
    covariance = np.linalg.inv(box.precision.to_dense().numpy())
    want = one_site_at_a_time(covariance, box.upper.detach().numpy(), rounds=15 * side)
    assert float(box.ep_log_prob().detach()) == pytest.approx(want, abs=1e-6)
    assert box.converged_sites.settled


@pytest.mark.parametrize("side", [6, 24])
@pytest.mark.parametrize("rho", [0.999, 0.99999])
@pytest.mark.parametrize("level", [-1.0, 0.0, 2.05])
def test_tied_nodes_settle(side, rho, level):
    box = tied(side, rho, level)
    assert box.converged_sites.settled
    assert abs(float((box.ep_log_prob() - box.log_prob()).detach())) < 1.0


@pytest.mark.parametrize("side", [6, 24])
def test_particles_that_need_no_guide_are_not_spoilt_by_one(side):
    """The first node drawn leaves the others no choice; converged sites leave 49 of 64."""
    assert tied(side, rho=0.99999, level=2.05).particles.effective_size > 60


def test_updates_end_where_only_rounding_moves_them():
    """Sharp intervals far out leave the last digits jumping about for ever."""
    graph = pc.simulate.grid_graph(6, 6)
    precision = pc.CARPrecision(graph)(rho=0.5, tau=1.0)
    black = torch.tensor([(i // 6 + i % 6) % 2 for i in range(36)]).bool()
    lower = torch.where(black, -37.0, -44.0) * precision.scale()
    box = Box(precision, lower.requires_grad_(), lower + 0.02, torch.rand(36, 1))
    assert box.converged_sites.settled
    assert box.converged_sites.sweeps < 150


@pytest.mark.parametrize("rho", [0.5, 0.96, 0.9999])
def test_a_value_alone_takes_fewer_updates_and_loses_nothing(rho):
    graph = pc.simulate.grid_graph(16, 16)
    precision = pc.CARPrecision(graph)(rho=rho, tau=1.0)
    y = pc.GaussianCopula(dist.Poisson(torch.full((256,), 0.3)), precision=precision).sample()
    ends = [stats.norm.ppf(stats.poisson(0.3).cdf(y.numpy() - k)) for k in (1, 0)]
    lower, upper = (torch.from_numpy(end) * precision.scale() for end in ends)
    alone = Box(precision, lower, upper, torch.rand(256, 1))
    both = Box(precision, lower, upper.clone().requires_grad_(), torch.rand(256, 1))
    want = float(both.ep_log_prob().detach())
    assert float(alone.ep_log_prob()) == pytest.approx(want, abs=1e-8)
    assert alone.converged_sites.sweeps < 0.75 * both.converged_sites.sweeps
