"""The exact rules for discrete marginals, against rectangle probabilities."""

from __future__ import annotations

import itertools
import math
import warnings

import arviz as az
import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from laws import LAWS
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from scipy import stats

import pyro_copula as pc
from pyro_copula.distributions import exact as exact_rule
from pyro_copula.distributions.exact_report import ExactReport
from pyro_copula.errors import (
    InvalidArgumentError,
    MidpointWarning,
    ParticleWarning,
    PropagationWarning,
)
from pyro_copula.rectangle import probability
from pyro_copula.rectangle.particles import Particles, pareto_k
from pyro_copula.testing import rectangle_probability

GRAPHS = 200
#: A right estimate is further off than three standard errors in 0.27% of the graphs; six or more
#: of 200 has probability 2e-5, and one beyond five standard errors 1e-4.
MOST_OUTSIDE, NEVER = 5, 5.0


def random_problem(seed: int):
    """A graph, a precision, marginals of several kinds, and a value with a missing node."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.uniform() < 0.6]
    graph = pc.Graph.from_edges(pairs, num_nodes=n)
    precision = pc.NormalizedAdjacencyPrecision(graph)(alpha=rng.uniform(-0.5, 0.98), beta=1.0)
    rate = torch.tensor(np.exp(rng.uniform(math.log(0.1), math.log(5), size=n)))
    kind = seed % 4
    if kind == 0:
        law = dist.Poisson(rate)
        frozen = stats.poisson(rate.numpy())
    elif kind == 1:
        law = dist.Bernoulli(torch.special.expit(rate - 1.5))
        frozen = stats.bernoulli(torch.special.expit(rate - 1.5).numpy())
    elif kind == 2:
        law = dist.NegativeBinomial(rate + 0.3, torch.tensor(0.5))
        frozen = stats.nbinom(rate.numpy() + 0.3, 0.5)
    else:  # the first nodes are continuous
        which = torch.tensor([0 if i < n // 2 else 1 for i in range(n)])
        law = pc.marginals.Mixed(
            {0: dist.Normal(torch.zeros(n), 1.0), 1: dist.Poisson(rate)}, kind=which
        )
        frozen = stats.poisson(rate.numpy())
    y = pc.GaussianCopula(law, precision=precision).sample()
    if n > 3:
        y[int(rng.integers(n))] = math.nan
    return precision, law, frozen, y, kind


def oracle_log_prob(precision, frozen, y, kind) -> tuple[float, float]:
    """The log density by the dense oracle and the relative error of it."""
    covariance = np.linalg.inv(precision.to_dense().numpy())
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    n = len(y)
    value = y.numpy()
    continuous = np.array([kind == 3 and i < n // 2 for i in range(n)]) & ~np.isnan(value)
    discrete = ~np.isnan(value) & ~continuous
    lower, upper = (stats.norm.ppf(frozen.cdf(value - shift)) for shift in (1, 0))
    total, mean = 0.0, np.zeros(n)
    conditional = correlation
    if continuous.any():
        block = correlation[np.ix_(continuous, continuous)]
        total += stats.multivariate_normal(cov=block).logpdf(value[continuous])
        gain = np.linalg.solve(block, correlation[continuous]).T
        mean = gain @ value[continuous]
        conditional = correlation - gain @ correlation[continuous]
    if not discrete.any():
        return total, 0.0
    box = rectangle_probability(
        conditional[np.ix_(discrete, discrete)],
        (lower - mean)[discrete],
        (upper - mean)[discrete],
        log2_points=12,
    )
    return total + math.log(box.value), box.error / box.value


def test_200_random_graphs_match_the_rectangle_probability():
    scores = []
    for seed in range(GRAPHS):
        pyro.set_rng_seed(seed)
        precision, law, frozen, y, kind = random_problem(seed)
        copula = pc.GaussianCopula(
            law, precision=precision, discrete="exact", num_particles=400, seed=seed
        )
        want, error = oracle_log_prob(precision, frozen, y, kind)
        report = copula.exact_report(y)
        assert report.log_prob == pytest.approx(float(copula.log_prob(y)), abs=1e-12)
        # The stratified draws have at most the standard error of independent ones.
        spread = math.hypot(report.standard_error, error, 1e-9)
        scores.append(abs(report.log_prob - want) / spread)
        assert abs(report.ep_log_prob - want) < 0.5
    assert sum(score > 3 for score in scores) <= MOST_OUTSIDE
    assert max(scores) < NEVER


@pytest.mark.parametrize(("rule", "error"), [("exact", 1e-3), ("ghk", 1e-3)])
def test_total_mass_is_one(rule, error):
    correlation = torch.tensor([[1.0, 0.9], [0.9, 1.0]])
    law = dist.Poisson(torch.tensor([0.3, 0.3]))
    values = torch.tensor(list(itertools.product(range(12), repeat=2)), dtype=torch.float64)
    exact = pc.GaussianCopula(law, correlation_matrix=correlation, discrete=rule)
    assert float(exact.log_prob(values).exp().sum()) == pytest.approx(1.0, abs=error)
    midpoint = pc.GaussianCopula(law, correlation_matrix=correlation)
    assert float(midpoint.log_prob(values).exp().sum()) == pytest.approx(1.56, abs=0.01)
    with pytest.warns(MidpointWarning, match='discrete="exact" or "ep".*"augment"'):
        midpoint.log_prob(torch.zeros(2))


def lattice(side: int, rho: float = 0.9) -> tuple[pc.Graph, pc.SparsePrecision]:
    graph = pc.simulate.grid_graph(side, side)
    return graph, pc.CARPrecision(graph)(rho=rho, tau=1.0)


@pytest.mark.parametrize("rule", ["exact", "ep"])
@pytest.mark.parametrize("nugget", [None, 0.3])
def test_gradients_in_marginals_and_precision(rule, nugget):
    """Differences of the estimate, whose guide follows the parameters: noise, not bias."""
    graph, _ = lattice(4)
    y = torch.tensor([0.0, 1, 0, 2, 1, 0, math.nan, 3, 0, 0, 1, 1, math.nan, 0, 2, 1])

    def joint(log_rate, rho):
        precision = pc.CARPrecision(graph)(rho=rho, tau=1.0)
        law = dist.Poisson(log_rate.exp().expand(16))
        return pc.GaussianCopula(
            law, precision=precision, nugget=nugget, discrete=rule, num_particles=2000
        ).log_prob(y)

    at = [torch.tensor(0.1), torch.tensor(0.8)]
    inputs = [x.clone().requires_grad_() for x in at]
    gradients = torch.autograd.grad(joint(*inputs), inputs)
    h = 1e-3
    for k, gradient in enumerate(gradients):
        ends = [joint(*(x + (h if i == k else 0.0) * s for i, x in enumerate(at))) for s in (1, -1)]
        difference = float(ends[0] - ends[1]) / (2 * h)
        assert float(gradient) == pytest.approx(difference, rel=0.01, abs=0.01)


DISCRETE_LAWS = [law for law in LAWS if law.discrete]


def law_problem(law, seed=0):
    """A path of four nodes with this law, its values, and the frozen counterpart of scipy."""
    graph = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3)])
    precision = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
    parameters = law.parameters(4, seed)
    y = pc.GaussianCopula(law.build(**parameters), precision=precision).sample()
    return precision, parameters, y, law.frozen(parameters)


@pytest.mark.parametrize("law", DISCRETE_LAWS, ids=str)
def test_every_discrete_law_has_its_rectangle_probability(law):
    precision, parameters, y, frozen = law_problem(law)
    copula = pc.GaussianCopula(
        law.build(**parameters), precision=precision, discrete="exact", num_particles=4000
    )
    want, error = oracle_log_prob(precision, frozen, y, kind=0)
    report = copula.exact_report(y)
    # Five standard errors: one false alarm in 200,000 runs of the eight.
    assert abs(report.log_prob - want) < 5 * math.hypot(report.standard_error, error)
    assert report.standard_error < 0.01


@pytest.mark.parametrize("law", DISCRETE_LAWS, ids=str)
def test_gradients_in_every_parameter_of_every_discrete_law(law):
    """Without noise, for expectation propagation; the exact rule's share the ends' derivatives."""
    precision, parameters, y, _ = law_problem(law)

    def joint(rule, *values):
        built = law.build(**dict(zip(parameters, values, strict=True)))
        options = {"discrete": rule, "num_particles": 4000}
        return pc.GaussianCopula(built, precision=precision, **options).log_prob(y)

    inputs = [value.clone().requires_grad_() for value in parameters.values()]
    assert torch.autograd.gradcheck(
        lambda *values: joint("ep", *values), inputs, eps=1e-5, atol=1e-6, rtol=1e-5
    )
    exact, ep = (torch.autograd.grad(joint(rule, *inputs), inputs) for rule in ("exact", "ep"))
    for one, other in zip(exact, ep, strict=True):
        assert torch.allclose(one, other, rtol=0.05, atol=0.03)


def test_the_seed_decides_the_random_numbers():
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 0.8))

    def value(seed):
        exact_rule.fixed_uniforms.cache_clear()
        copula = pc.GaussianCopula(law, precision, discrete="exact", num_particles=20, seed=seed)
        return float(copula.log_prob(torch.ones(9)))

    assert value(3) == value(3) != value(4)


def test_the_estimate_moves_smoothly_with_the_parameters():
    """Fixed random numbers: its gap to expectation propagation never jumps by half its error.

    It may step where the guide takes one more update. With random numbers of each evaluation's
    own, second differences would be of 2.4 standard errors.
    """
    graph, precision = lattice(12, rho=0.96)
    law = dist.Poisson(torch.full((144,), 0.3))
    y = pc.GaussianCopula(law, precision=precision).sample()
    gaps, errors = [], []
    for logit in torch.arange(0, 9, 0.1):
        precision = pc.CARPrecision(graph)(rho=logit.sigmoid(), tau=1.0)
        report = pc.GaussianCopula(law, precision, discrete="exact", num_particles=64).exact_report(
            y
        )
        gaps.append(report.gap)
        errors.append(report.standard_error)
    jumps = np.abs(np.diff(gaps, 2)) / errors[1:-1]
    assert jumps.max() < 0.5
    assert np.median(jumps) < 0.1


@pytest.mark.parametrize("nugget", [None, 0.3])
def test_conditional_law_against_all_outcomes(nugget):
    """``P(y_m | y_o)`` as a ratio of joint probabilities, outcome by outcome."""
    graph = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (1, 3)])
    precision = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
    law = dist.Poisson(torch.tensor([0.3, 1.0, 2.0, 0.7]))
    copula = pc.GaussianCopula(
        law, precision=precision, nugget=nugget, discrete="exact", num_particles=20_000
    )
    y = torch.tensor([1.0, 2.0, 1.0, math.nan])
    conditional = copula.condition(y)
    outcomes = torch.arange(15.0)
    joint = y.repeat(15, 1)
    joint[:, 3] = outcomes
    probability = (copula.log_prob(joint) - copula.log_prob(y)).exp()
    assert float(probability.sum()) == pytest.approx(1.0, abs=2e-3)
    got = conditional.marginal_log_prob(outcomes.unsqueeze(-1)).exp().squeeze(-1)
    assert torch.allclose(got, probability, atol=5e-3)
    cdf = conditional.cdf(outcomes.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(cdf, probability.cumsum(0), atol=5e-3)
    mean = float((outcomes * probability).sum())
    assert float(conditional.mean) == pytest.approx(mean, abs=0.01)
    variance = float((outcomes.square() * probability).sum()) - mean**2
    assert float(conditional.variance) == pytest.approx(variance, abs=0.03)
    for level in (0.05, 0.5, 0.95):
        quantile = float(conditional.quantile(level))
        assert float(cdf[int(quantile)]) >= level - 1e-6
        assert quantile == 0 or float(cdf[int(quantile) - 1]) < level + 1e-6
    draws = conditional.sample((4000,)).squeeze(-1)
    assert float(draws.mean()) == pytest.approx(mean, abs=5 * math.sqrt(variance / 4000))
    held_out = conditional.log_prob(torch.tensor([1.0]))
    assert float(held_out) == pytest.approx(float(probability[1].log()), abs=1e-9)


def test_predictions_weigh_the_particles():
    """Few particles of different weight: the missing node given each of them, densely."""
    graph = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0), (1, 3)])
    precision = pc.CARPrecision(graph)(rho=0.999, tau=1.0)
    rate = torch.tensor([0.3, 0.2, 0.4, 0.7])
    copula = pc.GaussianCopula(
        dist.Poisson(rate), precision=precision, discrete="exact", num_particles=5
    )
    y = torch.tensor([0.0, 0.0, 0.0, math.nan])
    row = exact_rule.rows_of(copula, y)[0][0]
    weights = np.exp(row.box.particles.log_weights)
    weights /= weights.sum()
    assert weights.max() > 1.1 * weights.min()
    covariance = np.linalg.inv(precision.to_dense().numpy())
    gain = np.linalg.solve(covariance[:3, :3], covariance[:3, 3])
    mean = row.vectors()[:, :3].numpy() @ gain
    spread = math.sqrt(covariance[3, 3] - gain @ covariance[:3, 3])
    outcomes = np.arange(12)
    ends = stats.norm.ppf(stats.poisson(0.7).cdf(outcomes[:, None])) * math.sqrt(covariance[3, 3])
    want = stats.norm.cdf((ends - mean) / spread) @ weights
    got = copula.condition(y).cdf(torch.tensor(outcomes[:, None], dtype=torch.float64))
    assert np.allclose(got.squeeze(-1), want, atol=1e-9)


@pytest.mark.parametrize("rule", ["exact", "ep"])
def test_pointwise_is_a_difference_of_joint_log_densities(rule):
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 0.8))
    copula = pc.GaussianCopula(law, precision=precision, discrete=rule)
    y = torch.tensor([0.0, 1, 2, 0, math.nan, 1, 0, 0, 3])
    got = copula.pointwise_log_prob(y)
    for node in range(9):
        if math.isnan(y[node]):
            assert math.isnan(got[node])
            continue
        without = y.clone()
        without[node] = math.nan
        want = float(copula.log_prob(y) - copula.log_prob(without))
        assert float(got[node]) == pytest.approx(want, abs=1e-9)


def test_pointwise_on_a_larger_graph_is_close_to_the_differences(monkeypatch):
    _, precision = lattice(6)
    law = dist.Poisson(torch.full((36,), 1.0))
    copula = pc.GaussianCopula(law, precision=precision, discrete="exact")
    y = copula.sample()
    y[3] = math.nan
    want = copula.pointwise_log_prob(y)
    monkeypatch.setattr(exact_rule, "_DIFFERENCES", 0)
    got = copula.pointwise_log_prob(y)
    observed = ~torch.isnan(y)
    assert torch.equal(torch.isnan(got), ~observed)
    error = (got - want)[observed]
    assert float(error.abs().max()) < 0.2
    assert float(error.square().mean().sqrt()) < 0.04


@pytest.mark.parametrize("differences", [256, 0])
def test_pointwise_has_the_dtype_of_the_law(differences, monkeypatch):
    monkeypatch.setattr(exact_rule, "_DIFFERENCES", differences)
    _, precision = lattice(3)
    y = torch.tensor([0, 1, 2, 0, 1, 1, 0, 0, 3])
    for dtype in (torch.float32, torch.float64):
        law = dist.Poisson(torch.full((9,), 0.8, dtype=dtype))
        copula = pc.GaussianCopula(law, precision=precision, discrete="exact", num_particles=16)
        for value in (y.float(), y.double()):
            assert copula.pointwise_log_prob(value).dtype == copula.log_prob(value).dtype == dtype


def test_continuous_marginals_are_not_touched():
    _, precision = lattice(3)
    law = dist.Normal(torch.zeros(9), 2.0)
    y = torch.linspace(-2, 2, 9)
    plain = pc.GaussianCopula(law, precision=precision)
    for rule in ("exact", "ep", "augment"):
        copula = pc.GaussianCopula(law, precision=precision, discrete=rule)
        assert float(copula.log_prob(y)) == float(plain.log_prob(y))


def test_batches_are_loops():
    graph, _ = lattice(3)
    rates = torch.rand(2, 9) + 0.2
    rho = torch.tensor([0.5, 0.9])
    y = torch.tensor([0.0, 1, 2, 0, math.nan, 1, 0, 0, 3])
    precision = pc.CARPrecision(graph)
    both = pc.GaussianCopula(
        dist.Poisson(rates), precision=precision(rho=rho, tau=torch.ones(2)), discrete="exact"
    )
    assert both.batch_shape == (2,)
    one_by_one = [
        pc.GaussianCopula(
            dist.Poisson(rates[k]), precision=precision(rho=rho[k], tau=1.0), discrete="exact"
        )
        for k in range(2)
    ]
    want = torch.stack([copula.log_prob(y) for copula in one_by_one])
    assert torch.allclose(both.log_prob(y), want, rtol=1e-12)
    conditional = both.condition(y)
    assert conditional.quantile(torch.tensor([0.1, 0.9])).shape == (2, 2, 1)
    for k, copula in enumerate(one_by_one):
        torch.testing.assert_close(conditional.mean[k], copula.condition(y).mean)


def report_of(effective: float, k_hat: float) -> ExactReport:
    return ExactReport(-10.0, 0.1, 64, effective, k_hat, -10.1, 8)


def test_the_report_says_when_not_to_trust():
    assert report_of(60.0, 0.2).reliable
    assert report_of(60.0, 0.9).reliable  # heavy-tailed, but all but equal
    assert not report_of(30.0, 0.9).reliable
    assert not report_of(3.0, 0.2).reliable
    assert "NOT reliable" in repr(report_of(3.0, 0.2))
    assert not report_of(60.0, math.nan).reliable
    assert "too few particles" in repr(report_of(60.0, math.nan))
    assert report_of(60.0, 0.2).gap == pytest.approx(-0.1)
    assert "settled" not in repr(report_of(60.0, 0.2))


@pytest.mark.parametrize("rule", ["exact", "ghk", "ep"])
def test_the_error_of_a_log_density_is_that_of_its_particles(rule):
    _, precision = lattice(3)
    which = torch.arange(9) % 3 == 0
    law = pc.marginals.Mixed(
        {0: dist.Poisson(torch.full((9,), 0.8)), 1: dist.Normal(torch.zeros(9), 1.0)},
        kind=which.long(),
    )
    copula = pc.GaussianCopula(law, precision=precision, discrete=rule, num_particles=50)
    y = torch.stack([copula.sample() for _ in range(3)])
    y[2, ~which] = math.nan  # continuous nodes alone: no particle has a part in it
    errors = copula.log_prob_error(y)
    want = [copula.exact_report(row).standard_error if rule != "ep" else 0.0 for row in y[:2]]
    assert errors.tolist() == pytest.approx([*want, 0.0], abs=1e-12)
    assert rule == "ep" or bool((errors[:2] > 1e-4).all())


def test_one_particle_has_no_error():
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 0.8))
    copula = pc.GaussianCopula(law, precision=precision, discrete="exact", num_particles=1)
    report = copula.exact_report(torch.ones(9))
    assert math.isnan(report.standard_error)
    assert "too few particles" in repr(report)


@pytest.mark.parametrize("count", [200, 400, 10_000])
@pytest.mark.parametrize("shape", [0.1, 0.6, 1.5])
def test_k_hat_is_that_of_arviz(count, shape):
    """At these counts both take the same share of the weights for their tail."""
    log_weights = np.log1p(np.random.default_rng(count).pareto(1 / shape, size=count))
    want = float(az.psislw(log_weights)[1])
    assert pareto_k(log_weights) == pytest.approx(want, abs=1e-9)


def test_expectation_propagation_that_has_not_settled_is_told(monkeypatch):
    monkeypatch.setattr(probability, "MAX_SWEEPS", 1)
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 0.8))
    copula = pc.GaussianCopula(law, precision=precision, discrete="ep")
    with pytest.warns(PropagationWarning, match='after 1 updates.*\\n.*\\n.*discrete="exact"'):
        copula.log_prob(torch.ones(9))
    report = copula.exact_report(torch.ones(9))
    assert not report.ep_settled
    assert "(which has not settled)" in repr(report)


def test_uneven_weights_are_told(monkeypatch):
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 0.8))
    copula = pc.GaussianCopula(law, precision=precision, discrete="exact")
    monkeypatch.setattr(Particles, "effective_size", property(lambda self: 2.0))
    with pytest.warns(ParticleWarning, match="few of the particles"):
        copula.log_prob(torch.ones(9))


#: Normal errors exceed this many standard errors in one of 40 runs of all 24 cases.
STRESS = 4.0


@pytest.mark.parametrize("rho", [0.5, 0.99999])
@pytest.mark.parametrize("mean", [0.02, 1.0, 1000.0])
@pytest.mark.parametrize("case", ["drawn", "outlier", "checkerboard", "one observed"])
def test_stress_is_finite_or_says_so(rho, mean, case):
    graph, _ = lattice(6)
    precision = pc.CARPrecision(graph)(rho=rho, tau=1.0)
    rate = torch.full((36,), mean, requires_grad=True)
    law = dist.Poisson(rate)
    y = pc.GaussianCopula(law, precision=precision).sample()
    if case == "outlier":
        y[7] = math.ceil(mean + 30 * math.sqrt(mean))
    elif case == "checkerboard":
        spread = math.ceil(math.sqrt(mean))
        y = torch.tensor([float(2 * spread * ((i // 6 + i % 6) % 2)) for i in range(36)])
    elif case == "one observed":
        y[1:] = math.nan
    copula = pc.GaussianCopula(law, precision=precision, discrete="exact")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value = copula.log_prob(y)
    assert math.isfinite(value.detach())
    assert bool(torch.isfinite(torch.autograd.grad(value, rate)[0]).all())
    report = copula.exact_report(y)
    assert report.reliable or report.standard_error > 0.05
    told = any(isinstance(w.message, ParticleWarning) for w in caught)
    assert told == (report.effective_size < 0.1 * report.num_particles)
    # What is called reliable is what many more particles say.
    many = pc.GaussianCopula(
        law, precision=precision, discrete="exact", num_particles=20_000, seed=1
    ).exact_report(y)
    truth = many.log_prob
    rounding = 1e-11 * abs(truth)
    error = math.hypot(report.standard_error, many.standard_error, rounding)
    assert not report.reliable or abs(report.log_prob - truth) < STRESS * error
    if case == "one observed":
        alone = float(law.log_prob(y.nan_to_num())[0].detach())
        assert abs(report.log_prob - alone) < STRESS * math.hypot(report.standard_error, rounding)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ep = float(pc.GaussianCopula(law, precision=precision, discrete="ep").log_prob(y).detach())
    unsettled = any(isinstance(w.message, PropagationWarning) for w in caught)
    assert math.isfinite(ep)
    assert unsettled == (not report.ep_settled)
    assert unsettled or abs(ep - truth) < 0.5


@pytest.mark.parametrize("nugget", [1e-6, 1e-3, 0.1, 0.6])
def test_noise_beside_the_field_costs_no_particles(nugget):
    """The oracle is the same law with its correlation written out, which needs no pendants."""
    _, precision = lattice(8)
    law = dist.Poisson(torch.full((64,), 0.5))
    options = {"discrete": "exact", "num_particles": 64}
    copula = pc.GaussianCopula(law, precision=precision, nugget=torch.tensor(nugget), **options)
    y = copula.sample()
    y[::3] = math.nan
    root = precision.scale()
    field = torch.linalg.inv(precision.to_dense()) / (root[:, None] * root)
    correlation = (1 - nugget) * field + nugget * torch.eye(64)
    oracle = pc.GaussianCopula(law, correlation_matrix=correlation, **options).exact_report(y)
    report = copula.exact_report(y)
    assert report.effective_size > 55
    error = math.hypot(report.standard_error, oracle.standard_error)
    assert abs(report.log_prob - oracle.log_prob) < 4 * error


def test_augment_integrates_to_the_exact_likelihood():
    """The mean over prior scores of the augmented density is the likelihood."""
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 0.8))
    y = torch.tensor([0.0, 1, 2, 0, math.nan, 1, 0, 0, 3])
    want = pc.GaussianCopula(law, precision=precision, discrete="exact").log_prob(y)
    values = []
    for _ in range(400):
        copula = pc.GaussianCopula(law, precision=precision, discrete="augment")
        values.append(copula.log_prob(y))
    values = torch.stack(values)
    estimate = torch.logsumexp(values, 0) - math.log(len(values))
    error = float((values - estimate).exp().std()) / math.sqrt(len(values))
    assert abs(float(estimate - want)) < 4 * error + 1e-3


@pytest.mark.parametrize("rule", ["exact", "augment"])
def test_values_that_are_all_but_impossible_have_density_zero(rule):
    """Where a sampler's first steps may lead, as with a mean of 1e38; no NaN, and no warning."""
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 1e38))
    copula = pc.GaussianCopula(
        law, precision=precision, discrete=rule, num_particles=64, scores=torch.zeros(9)
    )
    assert float(copula.log_prob(torch.ones(9))) < -1e30


def test_augment_has_the_gradient_of_its_density():
    """Leapfrog steps need it: the density at fixed scores, not on average over them."""
    graph, _ = lattice(4)
    y = torch.tensor([0.0, 1, 2, 0, math.nan, 1, 0, 0, 3, 0, 4, math.nan, 1, 0, 7, 0])
    scores = torch.randn(16)

    def density(rho, mean, scores):
        copula = pc.GaussianCopula(
            dist.Poisson(mean.expand(16)),
            precision=pc.CARPrecision(graph)(rho=rho, tau=1.0),
            discrete="augment",
            scores=scores,
        )
        return copula.log_prob(y)

    inputs = [torch.tensor(0.9), torch.tensor(0.8), scores]
    inputs = [x.double().requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(density, inputs, eps=1e-5, rtol=1e-5, atol=1e-6)


def augmented(y=None, rule="augment"):
    graph, _ = lattice(3)
    rho = pyro.sample("rho", dist.Beta(4.0, 1.0))
    precision = pc.CARPrecision(graph)(rho=rho, tau=1.0)
    law = dist.Poisson(torch.full((9,), 0.8))
    return pyro.sample("y", pc.GaussianCopula(law, precision=precision, discrete=rule), obs=y)


def test_augment_is_one_word_in_a_pyro_model():
    trace = pyro.poutine.trace(augmented).get_trace()
    assert trace.nodes["scores"]["value"].shape == (9,)
    assert trace.nodes["y"]["value"].shape == (9,)
    y = torch.tensor([0.0, 1, 2, 0, math.nan, 1, 0, 0, 3])
    chain = MCMC(NUTS(augmented), num_samples=20, warmup_steps=20, disable_progbar=True)
    chain.run(y)
    draws = chain.get_samples()
    assert draws["scores"].shape == (20, 9)
    assert 0 < float(draws["rho"].mean()) < 1


def test_augment_is_the_exact_joint_law_for_svi():
    """The best bound of a mean-field guide on the scores is just below the log likelihood."""
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 0.8))
    y = torch.tensor([0.0, 1, 2, 0, math.nan, 1, 0, 0, 3])
    exact = pc.GaussianCopula(law, precision=precision, discrete="exact")
    want, error = float(exact.log_prob(y)), float(exact.log_prob_error(y))

    def model():
        pyro.sample("y", pc.GaussianCopula(law, precision=precision, discrete="augment"), obs=y)

    guide = AutoNormal(model, init_scale=0.9)
    svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.03}), Trace_ELBO())
    start = -np.mean([svi.evaluate_loss() for _ in range(100)])
    for _ in range(200):
        svi.step()
    bounds = -np.array([svi.evaluate_loss() for _ in range(200)])
    noise = bounds.std(ddof=1) / math.sqrt(len(bounds))
    # One false alarm in 30,000 runs, as four standard errors have.
    assert bounds.mean() < want + 4 * math.hypot(noise, error)
    assert bounds.mean() > want - 0.1 - 4 * math.hypot(noise, error)
    assert start < want - 0.2  # there was something to learn


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discrete": "exactly"}, "one of"),
        ({"discrete": "exakt"}, "but found 'exakt'.\n  Did you mean 'exact'?"),
        ({"discrete": "GHK"}, "Did you mean 'ghk'?"),
        ({"discrete": "quadrature"}, 'Use discrete="exact"'),
        ({"discrete": "exact", "seed": -1}, "`seed` must be an integer from 0 on, but found -1"),
        ({"discrete": "exact", "seed": 1.5}, "`seed`"),
        ({"discrete": "augment", "scores": 3}, "`scores` must be the name of a site"),
        ({"discrete": "augment", "scores": torch.zeros(5)}, r"batch, 9\), but found shape \(5,\)"),
        ({"discrete": "augment", "scores": torch.zeros(9).long()}, "torch.int64"),
        ({"num_particles": 0}, "num_particles"),
        ({"num_particles": 2.5}, "num_particles"),
        ({"discrete": "exact", "tail_clip": 1e-3}, "tail_clip"),
    ],
)
def test_bad_arguments(options, message):
    _, precision = lattice(3)
    with pytest.raises(InvalidArgumentError, match=message):
        pc.GaussianCopula(dist.Poisson(torch.ones(9)), precision=precision, **options)


def test_a_report_needs_the_exact_rule():
    _, precision = lattice(3)
    copula = pc.GaussianCopula(dist.Poisson(torch.ones(9)), precision=precision)
    with pytest.raises(InvalidArgumentError, match='discrete="exact"'):
        copula.exact_report(torch.ones(9))


def test_a_report_is_about_one_value():
    _, precision = lattice(3)
    law = dist.Poisson(torch.full((9,), 0.8))
    copula = pc.GaussianCopula(law, precision=precision, discrete="exact")
    with pytest.raises(InvalidArgumentError, match=r"`y` must be one value of all nodes.* 2 of"):
        copula.exact_report(torch.zeros(2, 9))


def test_distribution_functions_of_missing_nodes_do_not_exceed_one():
    """Rounded weights of particles may add up to more than one, and a cdf may not."""
    graph = pc.simulate.grid_graph(6, 6)
    precision = pc.CARPrecision(graph)(rho=0.9, tau=1.0)
    law = pc.GaussianCopula(
        dist.Poisson(torch.ones(36, dtype=torch.float32)), precision=precision, discrete="exact"
    )
    for seed in range(10):
        pyro.set_rng_seed(seed)
        y = law.sample()
        y[::3] = math.nan
        conditional = law.condition(y)
        far = torch.full((len(conditional.nodes),), 50.0)
        assert bool((conditional.cdf(far) <= 1).all())
