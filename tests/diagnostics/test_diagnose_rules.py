"""The rule for discrete nodes in a diagnosis: that of the law, or midpoints on request."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from law_examples import values
from scipy import stats
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.diagnostics.reference import simulate
from pyro_copula.errors import InvalidArgumentError

#: The chance that a statistical test fails although all is well.
FAILURE_RATE = 1e-4

#: The fewest simulations of the usual false-alarm rate.
SIMULATIONS = 361

RULES = ["midpoint", "exact", "ep"]

pytestmark = pytest.mark.filterwarnings("ignore::pyro_copula.errors.MidpointWarning")


def rare_counts(rule, rows=4, columns=5, mean=0.5, **options):
    """Counts mostly 0 and 1, strongly dependent: where the rules differ."""
    graph = pc.simulate.grid_graph(rows, columns)
    K = pc.CARPrecision(graph)(rho=0.96, tau=1.0)
    rate = torch.full((graph.num_nodes,), mean)
    return pc.GaussianCopula(dist.Poisson(rate), precision=K, discrete=rule, **options)


@pytest.mark.parametrize("rule", RULES)
def test_residuals_are_those_of_the_law_and_its_rule(rule):
    found = rare_counts(rule, num_particles=50)
    y = values(found, missing=[3])
    diagnosis = pc.diagnose(found, y, num_simulations=SIMULATIONS)
    expected = pc.quantile_residuals(found, y, kind="conditional")
    torch.testing.assert_close(diagnosis.conditional.u, expected, equal_nan=True)


@pytest.mark.parametrize("rule", ["exact", "ep"])
def test_midpoints_can_be_asked_for(rule):
    found = rare_counts(rule, num_particles=50)
    y = values(found)
    quick = pc.diagnose(found, y, num_simulations=SIMULATIONS, discrete="midpoint")
    other = pc.diagnose(rare_counts("midpoint"), y, num_simulations=SIMULATIONS)
    assert torch.equal(quick.conditional.u, other.conditional.u)
    assert quick.conditional.shape == other.conditional.shape
    exact = pc.quantile_residuals(found, y, kind="conditional")
    assert float((quick.conditional.u - exact).abs().max()) > 0.02


def test_another_rule_is_refused():
    with pytest.raises(InvalidArgumentError, match='`discrete` must be None or "midpoint"'):
        pc.diagnose(rare_counts("exact"), torch.zeros(20), discrete="ep")


def test_residuals_of_draws_are_uniform_under_the_exact_rule():
    """Given the other values a node has the law that its residual takes it to have."""
    found = rare_counts("exact", num_particles=200)
    observed = torch.arange(20) != 7
    reference = simulate([found], observed, None, 400, seed=1)
    heights = reference.heights["conditional"]  # a mean of 1 in each of ten bars
    assert heights.shape == (400, 10)
    error = (heights.mean(0) - 1) / (heights.std(0) / math.sqrt(400))
    assert float(error.abs().max()) < stats.t.ppf(1 - FAILURE_RATE / 20, 399)


def test_draws_of_mixed_nodes_are_treated_as_their_values_are():
    """Scores go straight to the particles: the same as by way of values."""
    graph = pc.simulate.grid_graph(3, 4)
    kinds = {"real": dist.Normal(torch.zeros(12), 2.0), "count": dist.Poisson(torch.ones(12))}
    mixed = pc.marginals.Mixed(kinds, kind=torch.arange(12) % 2)
    K = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
    found = pc.GaussianCopula(mixed, precision=K, discrete="exact", num_particles=100)
    y = values(found, missing=[0, 5])
    left_out = found.leave_one_out(torch.stack([y, y + 1]))
    for k in range(2):
        alone = found.leave_one_out(y + k)
        torch.testing.assert_close(left_out.cdf()[k], alone.cdf(), equal_nan=True)
        for node in (2, 3):
            without = (y + k).clone()
            without[node] = math.nan
            conditional = found.condition(without)
            place = conditional.nodes.tolist().index(node)
            given = torch.full((3,), math.nan)
            given[place] = y[node] + k
            expected = float(conditional.cdf(given)[place])
            assert float(alone.cdf()[node]) == pytest.approx(expected, abs=0.05)  # 100 particles


@pytest.mark.parametrize("rule", ["exact", "ep"])
def test_a_fit_is_diagnosed_by_the_rule_of_its_copula(rule):
    law = rare_counts("midpoint", rows=5, columns=6)
    torch.manual_seed(2)
    y = law.sample()
    y[::7] = math.nan
    data = Data(x=torch.ones(30, 1), edge_index=law.precision.graph.edge_index, y=y)
    model = pc.CopulaGNN("linear", "poisson", "car", discrete=rule, num_particles=40)
    found = pc.fit(model, data, schedule=pc.Schedule(max_epochs=20), lr=0.05)
    diagnosis = found.diagnose(num_simulations=91, false_alarm_rate=0.2)
    assert diagnosis.num_simulations == 91
    with torch.no_grad():
        expected = pc.quantile_residuals(found.model.joint(), y, kind="conditional")
    torch.testing.assert_close(diagnosis.conditional.u, expected, equal_nan=True)
    assert "midpoint" not in [finding.code for finding in diagnosis.findings]
