"""The exact rules over batches of laws, beside a nugget, and with one node left out."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine

import pyro_copula as pc
from pyro_copula.distributions import exact
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.inference import Prediction

GRAPH = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (1, 3)])
LADDER = pc.Graph.from_edges([(i, i + 1) for i in range(29)] + [(i, i + 5) for i in range(25)])


@pytest.fixture(autouse=True)
def double():
    torch.set_default_dtype(torch.float64)


def ladder(batch=(), rate=1.0, **options):
    """The same law of 30 counts, as often as asked."""
    precision = pc.CARPrecision(LADDER)(rho=torch.full(batch, 0.97), tau=1.0)
    marginal = dist.Poisson(torch.full((*batch, 30), rate))
    return pc.GaussianCopula(marginal, precision=precision, discrete="exact", **options)


def counts(rate):
    pyro.set_rng_seed(0)
    y = ladder((), rate).sample()
    y[::3] = math.nan
    return y


# ---------------------------------------------------------------- batches


def test_every_row_of_a_batch_has_all_of_its_particles():
    y = counts(1.0)
    alone, batch = ladder().condition(y), ladder((70,)).condition(y)
    torch.testing.assert_close(batch.mean, alone.mean.expand(70, -1))
    torch.testing.assert_close(batch.quantile(0.9), alone.quantile(0.9).expand(70, -1))


@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_a_mixture_of_many_draws_does_not_hang_on_one_particle(rate):
    y = counts(rate)
    want = Prediction([ladder((), rate, num_particles=5000).condition(y)])
    got = Prediction([ladder((200,), rate).condition_mixture(y)])
    sd = want.variance.sqrt()
    assert float(((got.mean - want.mean).abs() / sd).max()) < 0.05
    torch.testing.assert_close(got.variance.sqrt(), sd, rtol=0.05, atol=0)


def test_a_posterior_predicts_as_the_mixture_of_its_draws():
    data = pc.datasets.nc_sids()
    model = pc.CopulaGNN("linear", "poisson", "car", exposure="exposure", discrete="ep")
    observed = torch.arange(100) % 5 != 0
    short = pc.Schedule(max_epochs=30)
    found = pc.fit(
        model, data, observed, method="svi", num_draws=120, schedule=short, progress=False
    )
    laws = found._laws()
    each = [law[k] for law in [_rows(laws)] for k in range(len(law))]
    want = torch.stack([law.condition(found.model.data.y).mean for law in each]).mean(0)
    sd = found.predict().variance.sqrt()
    assert float(((found.predict().mean - want) / sd).abs().max()) < 0.08


def _rows(laws):
    """The laws of every draw, without batch dimensions."""
    rows = []
    for law in laws:
        for k in range(law.batch_shape.numel()):
            marginal = dist.Poisson(law.marginal_dist.rate.reshape(-1, law.num_nodes)[k])
            K = law.precision
            diagonal = K.diagonal.expand(*law.batch_shape, -1).reshape(-1, law.num_nodes)[k]
            edges = K.off_diagonal.expand(*law.batch_shape, -1)
            precision = pc.SparsePrecision(K.graph, diagonal, edges.reshape(-1, edges.shape[-1])[k])
            rows.append(pc.GaussianCopula(marginal, precision=precision, discrete=law.discrete))
    return rows


# ---------------------------------------------------------------- one node left out


@pytest.mark.parametrize("nugget", [None, 0.02, 0.3])
@pytest.mark.parametrize("missing", [False, True])
def test_left_out_nodes_against_ratios_of_joint_probabilities(nugget, missing):
    precision = pc.CARPrecision(GRAPH)(rho=0.95, tau=1.0)
    law = dist.Poisson(torch.tensor([0.5, 1.0, 2.0, 0.7]))
    many = {"nugget": nugget, "discrete": "exact", "num_particles": 20_000}
    copula = pc.GaussianCopula(law, precision=precision, **many)
    y = torch.tensor([1.0, 0.0, 3.0, math.nan if missing else 2.0])
    found = copula.leave_one_out(y)
    for node in (~y.isnan()).nonzero().squeeze(-1).tolist():
        every = y.repeat(40, 1)
        every[:, node] = torch.arange(40.0)
        share = torch.softmax(copula.log_prob(every), 0).cumsum(0)
        assert float(found.cdf()[node]) == pytest.approx(float(share[int(y[node])]), abs=0.01)


def test_a_node_by_itself_has_its_marginal():
    precision = pc.LaplacianPrecision(pc.Graph.from_edges([], num_nodes=1))(tau=1.0, gamma=0.1)
    law = dist.Poisson(torch.tensor([2.0]))
    copula = pc.GaussianCopula(law, precision=precision, nugget=0.2, discrete="exact")
    got = copula.leave_one_out(torch.tensor([3.0])).cdf()
    torch.testing.assert_close(got, pc.marginals.cdf(law, torch.tensor([3.0])), rtol=1e-8, atol=0)


@pytest.mark.parametrize("nugget", [0.02, 0.2])
def test_terms_of_many_mixed_nodes_are_those_of_differences(nugget, monkeypatch):
    """Continuous nodes beside counts, by the quick way that large graphs take and the slow one."""
    side = 8
    graph = pc.simulate.grid_graph(side, side)
    n = side * side
    parts = {"count": dist.Poisson(torch.ones(n)), "size": dist.Normal(torch.zeros(n), 1.0)}
    marginal = pc.marginals.Mixed(parts, kind=(["count", "size", "size"] * n)[:n])
    precision = pc.CARPrecision(graph)(rho=0.95, tau=1.0)
    copula = pc.GaussianCopula(marginal, precision=precision, nugget=nugget, discrete="exact")
    pyro.set_rng_seed(0)
    y = copula.sample()
    slow = copula.pointwise_log_prob(y)
    monkeypatch.setattr(exact, "_DIFFERENCES", 0)
    quick = copula.pointwise_log_prob(y)
    assert float((quick - slow).abs().max()) < 0.1
    assert float(quick.sum()) == pytest.approx(float(slow.sum()), abs=0.5)


# ---------------------------------------------------------------- latent scores of rows


def augmented():
    precision = pc.CARPrecision(pc.Graph.from_edges([(0, 1), (1, 2), (2, 3)]))(rho=0.8, tau=1.0)
    return pc.GaussianCopula(dist.Poisson(torch.ones(4)), precision=precision, discrete="augment")


def test_rows_do_not_share_latent_scores():
    y = torch.tensor([[1.0, 0, 2, 1], [0, 0, 3, 1]])

    def outside():
        law = augmented()
        with pyro.plate("rows", 2):
            pyro.sample("y", law, obs=y)

    def inside():
        with pyro.plate("rows", 2):
            pyro.sample("y", augmented(), obs=y)

    with pytest.raises(InvalidArgumentError, match="Make the copula inside of the plate"):
        poutine.trace(outside).get_trace()
    trace = poutine.trace(inside).get_trace()
    assert trace.nodes["scores"]["value"].shape == (2, 4)
    assert trace.log_prob_sum().isfinite()
    with pytest.raises(InvalidArgumentError, match=r"found \(3,\)"):
        poutine.trace(lambda: augmented().expand([3])).get_trace()


# ---------------------------------------------------------------- what is given


def test_a_correlation_matrix_is_taken_as_it_was():
    matrix = torch.eye(4) + 0.4 * (1 - torch.eye(4))
    law = pc.GaussianCopula(dist.Normal(torch.zeros(4), 1.0), correlation_matrix=matrix)
    y = torch.tensor([[0.3, -1.0, 2.0, 0.1], [0.3, math.nan, 2.0, 0.1]])
    before = law.log_prob(y)
    matrix.copy_(torch.eye(4))
    torch.testing.assert_close(law.log_prob(y), before)


@pytest.mark.parametrize("discrete", ["midpoint", "exact", "ep"])
def test_no_rows_have_no_densities(discrete):
    law = ladder() if discrete == "exact" else small(discrete)
    nothing = torch.zeros(0, law.num_nodes)
    assert law.log_prob(nothing).shape == (0,)
    with pytest.raises(InvalidArgumentError, match="one row or more"):
        law.condition(nothing)


def small(discrete):
    precision = pc.CARPrecision(GRAPH)(rho=0.8, tau=1.0)
    return pc.GaussianCopula(dist.Poisson(torch.ones(4)), precision=precision, discrete=discrete)


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.PyroCopulaWarning")
@pytest.mark.parametrize("discrete", ["exact", "ep"])
@pytest.mark.parametrize("rate", [1e12, 1e17, 1e22])
def test_rates_that_only_a_warm_up_tries_give_no_warning_of_numpy(rate, discrete):
    """Small counts under huge rates: NUTS takes a density that is no number for zero."""
    rates = torch.full((4,), rate, requires_grad=True)
    precision = pc.CARPrecision(GRAPH)(rho=0.8, tau=1.0)
    law = pc.GaussianCopula(dist.Poisson(rates), precision=precision, discrete=discrete)
    found = law.log_prob(torch.tensor([1.0, 0.0, math.nan, 3.0]))
    found.backward()
    assert not found > -1e10
