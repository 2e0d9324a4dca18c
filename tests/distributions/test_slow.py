"""Long statistical tests: every law's draws against its density, and NUTS against a grid."""

from __future__ import annotations

import math
import warnings

import pyro
import pyro.distributions as dist
import pytest
import torch
from laws import LAWS
from pyro.distributions.testing.gof import auto_goodness_of_fit
from pyro.infer import MCMC, NUTS
from scipy import stats

import pyro_copula as pc
from pyro_copula.errors import MidpointWarning
from pyro_copula.testing import SMALL_GRAPHS, rectangle_probability

pytestmark = pytest.mark.slow

#: Probability that a correct program fails one test below.
FAILURE_RATE = 1e-6
DRAWS = 50_000


@pytest.mark.parametrize("graph", ["path", "isolated_node"])
@pytest.mark.parametrize("law", [law for law in LAWS if not law.discrete], ids=str)
def test_draws_of_every_continuous_law_fit_its_density(law, graph):
    """In the coordinates of scipy's normal scores, where the density has no pole at an end."""
    graph = SMALL_GRAPHS[graph]
    K = pc.LaplacianPrecision(graph)(tau=1.0, gamma=0.3)
    parameters = law.parameters(graph.num_nodes)
    copula = pc.GaussianCopula(law.build(**parameters), precision=K)
    draws = copula.sample((DRAWS,))
    frozen = law.frozen(parameters)
    z = stats.norm.ppf(frozen.cdf(draws.numpy()))
    jacobian = (stats.norm.logpdf(z) - frozen.logpdf(draws.numpy())).sum(-1)
    with torch.no_grad():
        density = (copula.log_prob(draws) + torch.tensor(jacobian)).exp()
    assert auto_goodness_of_fit(torch.tensor(z), density, dim=graph.num_nodes) > FAILURE_RATE


@pytest.mark.parametrize("law", [law for law in LAWS if law.discrete], ids=str)
def test_draws_of_every_discrete_law_have_its_marginals(law):
    graph = SMALL_GRAPHS["star"]
    K = pc.LaplacianPrecision(graph)(tau=1.0, gamma=0.3)
    parameters = law.parameters(graph.num_nodes)
    draws = pc.GaussianCopula(law.build(**parameters), precision=K).sample((DRAWS,))
    for node in range(graph.num_nodes):
        frozen = law.frozen({name: value[node] for name, value in parameters.items()})
        count = torch.bincount(draws[:, node].long()).numpy()
        support = range(len(count))
        expected = DRAWS * torch.exp(torch.tensor([float(frozen.logpmf(k)) for k in support]))
        common = expected.numpy() >= 10  # the rest is pooled into one class
        observed = [*count[common], DRAWS - count[common].sum()]
        expected = [*expected.numpy()[common], DRAWS - expected.numpy()[common].sum()]
        if expected[-1] < 1e-6 * DRAWS:
            observed, expected = observed[:-1], expected[:-1]
        p = stats.chisquare(observed, expected, sum_check=False).pvalue
        assert p > FAILURE_RATE / graph.num_nodes


def _rsample_derivative(rho, draws):
    K = pc.CARPrecision(SMALL_GRAPHS["path"])(rho=rho, tau=torch.tensor(1.0))
    return {
        "graph_normal": lambda: pc.GraphNormal(torch.zeros(4), precision=K),
        "normal": lambda: pc.GaussianCopula(dist.Normal(torch.zeros(4), 1.5), precision=K),
        "gamma": lambda: pc.GaussianCopula(dist.Gamma(torch.full((4,), 2.0), 1.5), precision=K),
    }[draws]()


@pytest.mark.parametrize("law", ["graph_normal", "normal", "gamma"])
def test_reparameterised_draws_have_unbiased_derivatives(law):
    """d E[y_0 y_1] / d rho by pathwise derivatives, against differences with common noise."""
    rho = torch.tensor(0.6, requires_grad=True)
    d = _rsample_derivative(rho, law)
    assert d.has_rsample
    chunks = torch.stack(
        [
            torch.autograd.grad((y[:, 0] * y[:, 1]).mean(), rho, retain_graph=True)[0]
            for y in d.rsample((200, 250))
        ]
    )
    h, ends = 0.02, []
    for sign in (1, -1):
        torch.manual_seed(1)
        with torch.no_grad():
            y = _rsample_derivative(rho + sign * h, law).sample((400_000,))
        ends.append(y[:, 0] * y[:, 1])
    difference = (ends[0] - ends[1]) / (2 * h)
    expected, noise = difference.mean(), difference.std() / len(difference) ** 0.5
    spread = float((chunks.var() / len(chunks) + noise.square()).sqrt())
    bias = 0.01 * abs(float(expected))  # of central differences with this step
    error = abs(float(chunks.mean() - expected))
    assert error - bias < stats.norm.isf(FAILURE_RATE / 2) * spread


def test_nuts_agrees_with_the_posterior_on_a_grid():
    pyro.set_rng_seed(2)
    side = 8
    graph = pc.Graph.from_edges(
        [(side * r + c, side * r + c + 1) for r in range(side) for c in range(side - 1)]
        + [(side * r + c, side * r + c + side) for r in range(side - 1) for c in range(side)]
    )
    n = graph.num_nodes
    marginal = dist.Gamma(torch.full((n,), 2.0), 1.0)
    y = pc.GaussianCopula(marginal, precision=pc.CARPrecision(graph)(rho=0.9, tau=1.0)).sample()
    y[::4] = math.nan

    def model():
        rho = pyro.sample("rho", dist.Uniform(0.0, 1.0))
        K = pc.CARPrecision(graph)(rho=rho, tau=1.0)
        pyro.sample("y", pc.GaussianCopula(marginal, precision=K), obs=y)

    grid = (torch.arange(2000) + 0.5) / 2000
    K = pc.CARPrecision(graph)(rho=grid, tau=1.0)
    with torch.no_grad():
        log_posterior = torch.cat(
            [
                pc.GaussianCopula(marginal, precision=K[k : k + 100]).log_prob(y)
                for k in range(0, 2000, 100)
            ]
        )
    weight = torch.softmax(log_posterior, 0)
    mean = float((weight * grid).sum())
    sd = float((weight * (grid - mean).square()).sum().sqrt())

    mcmc = MCMC(NUTS(model), num_samples=800, warmup_steps=200, disable_progbar=True)
    mcmc.run()
    draws = mcmc.get_samples()["rho"]
    effective = float(mcmc.diagnostics()["rho"]["n_eff"])
    error = (float(draws.mean()) - mean) / (sd / effective**0.5)
    assert abs(error) < stats.norm.isf(FAILURE_RATE / 2)
    assert float(draws.std()) == pytest.approx(sd, rel=0.25)


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.ParticleWarning")  # far out, in warm-up
@pytest.mark.parametrize("rule", ["exact", "augment"])
def test_nuts_on_counts_agrees_with_rectangle_probabilities(rule):
    """Mostly zeros, where the midpoint rule is wrong; the grid is the dense oracle's."""
    pyro.set_rng_seed(3)
    graph = pc.simulate.grid_graph(3, 4)
    rate, y = 0.4, torch.tensor([0.0, 0, 1, 2, 0, 0, 0, 1, 0, 0, math.nan, 0])
    prior = dist.Uniform(0.0, 1.0)

    def law(rho, rule):
        K = pc.CARPrecision(graph)(rho=rho, tau=1.0)
        options = {"discrete": rule, "num_particles": 200}
        return pc.GaussianCopula(dist.Poisson(torch.full((12,), rate)), K, **options)

    def model():
        rho = pyro.sample("rho", prior)
        pyro.sample("y", law(rho, rule), obs=y)

    seen = (~torch.isnan(y)).numpy()
    ends = [stats.norm.ppf(stats.poisson(rate).cdf(y.numpy()[seen] - k)) for k in (1, 0)]

    def box(rho):
        covariance = torch.linalg.inv(law(float(rho), rule).precision.to_dense()).numpy()
        scale = covariance.diagonal() ** 0.5
        correlation = (covariance / scale / scale[:, None])[seen][:, seen]
        return rectangle_probability(correlation, *ends, log2_points=12).value

    def moments(weight):
        mean = float((weight * grid).sum() / weight.sum())
        return mean, float((weight * (grid - mean).square()).sum() / weight.sum()) ** 0.5

    grid = (torch.arange(60) + 0.5) / 60
    mean, sd = moments(torch.tensor([box(rho) for rho in grid]))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore", MidpointWarning)
        midpoint = torch.stack([law(rho, "midpoint").log_prob(y) for rho in grid]).exp()

    mcmc = MCMC(NUTS(model), num_samples=1500, warmup_steps=200, disable_progbar=True)
    mcmc.run()
    draws = mcmc.get_samples()["rho"]
    bound = stats.norm.isf(FAILURE_RATE / 2) / float(mcmc.diagnostics()["rho"]["n_eff"]) ** 0.5
    assert abs(float(draws.mean()) - mean) < bound * sd
    assert abs(moments(midpoint)[0] - mean) > bound * sd  # which it would have told apart
    assert float(draws.std()) == pytest.approx(sd, rel=0.25)
    assert sum(map(len, mcmc.diagnostics()["divergences"].values())) == 0
