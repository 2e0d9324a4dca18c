"""Randomised quantile residuals: definitions, uniformity, both tails."""

from __future__ import annotations

import math

import pyro.distributions as dist
import pytest
import torch
from law_examples import law, values
from scipy import stats

import pyro_copula as pc
from pyro_copula.diagnostics.residuals import atom_places
from pyro_copula.errors import InvalidArgumentError

#: The chance that the statistical tests fail although all is well, for each number they look at.
FAILURE_RATE = 1e-4


@pytest.mark.parametrize("kind", ["marginal", "conditional"])
@pytest.mark.parametrize("family", ["gamma", "graph_normal", "negative_binomial", "mixed"])
def test_residuals_lie_between_the_two_ends_of_the_distribution_function(kind, family):
    found = law(family)
    y = values(found, missing=[2, 9])
    u = pc.quantile_residuals(found, y, kind=kind, seed=3)
    if kind == "conditional":
        left_out = found.leave_one_out(y)
        lower, upper = left_out.cdf_below(), left_out.cdf()
    elif family == "graph_normal":
        lower = upper = torch.special.ndtr((y - found.loc) / found.variance.sqrt())
    else:
        d, discrete = found.marginal_dist, found.discrete_nodes
        filled = torch.where(torch.isnan(y), 1.0, y)
        upper = pc.marginals.cdf(d, filled)
        lower = pc.marginals.cdf(d, torch.where(discrete, filled - 1, filled))
    v = atom_places(20, seed=3)
    expected = lower + v * (upper - lower)
    known = ~torch.isnan(y)
    assert torch.isnan(u).tolist() == (~known).tolist()
    torch.testing.assert_close(u[known], expected[known], rtol=0, atol=1e-9)
    z = pc.quantile_residuals(found, y, kind=kind, scale="normal", seed=3)
    torch.testing.assert_close(torch.special.ndtr(z), u, rtol=0, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("kind", ["marginal", "conditional"])
@pytest.mark.parametrize("family", ["gamma", "graph_normal", "negative_binomial"])
def test_residuals_of_drawn_values_are_uniform_at_every_node(kind, family):
    """Across independent data sets: within one, residuals depend on each other."""
    found = law(family, rows=3, columns=3, rho=0.95)
    rows = [
        pc.quantile_residuals(found, y, kind=kind, seed=k)
        for k, y in enumerate(found.sample((250,)))
    ]
    u = torch.stack(rows).numpy()
    for node in range(9):
        assert stats.kstest(u[:, node], "uniform").pvalue > FAILURE_RATE


def test_conditional_residuals_of_neighbours_have_negative_correlations():
    """As the module says: those of the precision, scaled; so they must not be tested as if 0."""
    found = law("normal", rows=3, columns=3, rho=0.95)
    count = 3000
    z = found.leave_one_out(found.sample((count,))).limits[1]
    Q = found.precision.to_dense()
    expected = Q / (Q.diagonal().sqrt()[:, None] * Q.diagonal().sqrt())
    bound = stats.norm.ppf(1 - FAILURE_RATE / 2) / math.sqrt(count)
    assert float((torch.corrcoef(z.T) - expected).abs().max()) < bound
    assert float(expected[0, 1]) < -0.3


def test_the_seed_moves_values_within_their_atoms_only():
    found = law("mixed")
    y = values(found)
    first, again, other = (pc.quantile_residuals(found, y, seed=seed) for seed in (0, 0, 1))
    assert bool((first == again).all())
    assert (first != other).tolist() == found.discrete_nodes.tolist()


def test_the_places_within_atoms_do_not_follow_from_the_seed_of_the_data():
    """Values drawn after ``torch.manual_seed(0)`` must not share random numbers with seed 0."""
    count = 2000
    places = atom_places(count, seed=0).numpy()
    assert stats.kstest(places, "uniform").pvalue > FAILURE_RATE
    bound = stats.norm.ppf(1 - FAILURE_RATE / 2) / math.sqrt(count)
    for draw in (torch.rand, torch.randn):
        torch.manual_seed(0)
        drawn = draw(count, dtype=torch.float64).numpy()
        assert abs(stats.spearmanr(places, drawn).statistic) < bound


def test_a_value_far_out_has_a_finite_normal_residual_in_either_tail():
    K = pc.CARPrecision(pc.simulate.grid_graph(2, 2))(rho=0.5, tau=1.0)
    found = pc.GaussianCopula(dist.Normal(torch.zeros(4), 1.0), precision=K)
    y = torch.tensor([30.0, 0.0, 0.0, -30.0])
    z = pc.quantile_residuals(found, y, scale="normal")
    torch.testing.assert_close(z, y)
    z = pc.quantile_residuals(found, y, kind="conditional", scale="normal")
    assert bool(torch.isfinite(z).all())


@pytest.mark.parametrize("kind", ["marginal", "conditional"])
def test_the_distribution_functions_of_a_batch_are_averaged(kind):
    graph = pc.simulate.grid_graph(3, 4)
    loc = torch.randn(5, 12)
    K = pc.CARPrecision(graph)(rho=torch.linspace(0.1, 0.9, 5), tau=torch.ones(5))
    batch = pc.GaussianCopula(dist.Normal(loc, 1.3), precision=K)
    y = torch.randn(12)
    y[3] = math.nan
    each = []
    for k in range(5):
        one = pc.CARPrecision(graph)(rho=float(0.1 + 0.2 * k), tau=1.0)
        single = pc.GaussianCopula(dist.Normal(loc[k], 1.3), precision=one)
        each.append(pc.quantile_residuals(single, y, kind=kind))
    found = pc.quantile_residuals(batch, y, kind=kind)
    torch.testing.assert_close(found, torch.stack(each).mean(0), rtol=1e-9, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    ("change", "argument", "found"),
    [
        ({"law": dist.Normal(0.0, 1.0)}, "law", "Normal"),
        ({"y": torch.zeros(3)}, "y", r"shape \(3,\)"),
        ({"kind": "joint"}, "kind", "'joint'"),
        ({"scale": "log"}, "scale", "'log'"),
        ({"seed": -1}, "seed", "-1"),
    ],
)
def test_bad_arguments_are_named(change, argument, found):
    good = law("normal")
    options = {"law": good, "y": torch.zeros(20), **change}
    first, y = options.pop("law"), options.pop("y")
    with pytest.raises(InvalidArgumentError, match=f"`{argument}` .*{found}"):
        pc.quantile_residuals(first, y, **options)


def test_values_outside_of_the_support_are_refused():
    with pytest.raises(InvalidArgumentError, match="non-negative integer"):
        pc.quantile_residuals(law("poisson"), torch.full((20,), 0.5))
