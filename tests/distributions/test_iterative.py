"""The distributions on the iterative backend: errors, missing nodes, draws."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from scipy import stats

import pyro_copula as pc
from pyro_copula.distributions import estimates
from pyro_copula.distributions.latent import PrecisionLatent
from pyro_copula.errors import EstimateError
from pyro_copula.linalg import Iterative
from pyro_copula.testing import SMALL_GRAPHS, DenseOracle

#: The chance that any one test here fails without a fault.
FAILURE_RATE = 1e-4
SEEDS = 60
N = 80


def graph():
    """A power-law component, a small one, and two isolated nodes."""
    parts = [nx.barabasi_albert_graph(N - 7, 3, seed=3), nx.cycle_graph(5)]
    both = nx.disjoint_union_all(parts)
    both.add_nodes_from([N - 2, N - 1])
    return pc.Graph.from_networkx(both)


def copula(alpha=0.9, backend="dense"):
    K = pc.NormalizedAdjacencyPrecision(graph(), backend=backend)(alpha=alpha, beta=2.0).detach()
    return pc.GaussianCopula(dist.Poisson(4 + torch.arange(N) % 7), precision=K)


def noisy(seed, **options):
    """Few probes and few eigenvectors, so that there is noise to speak of."""
    return Iterative(**{"num_probes": 16, "rank": 3, "seed": seed, **options})


def values(share):
    pyro.set_rng_seed(1)
    y = copula().sample()
    missing = torch.randperm(N) < round(share * N)
    return y.masked_fill(missing, math.nan)


def bound(count):
    return float(stats.t.isf(FAILURE_RATE / 2 / count, SEEDS - 1))


@pytest.mark.parametrize("alpha", [0.95, -0.9])
@pytest.mark.parametrize("share", [0.02, 0.4, 0.98])
def test_log_prob_is_unbiased_and_its_error_is_its_error(share, alpha):
    y = values(share)
    exact = float(copula(alpha).log_prob(y))
    laws = [copula(alpha, noisy(seed)) for seed in range(SEEDS)]
    found = np.array([float(law.log_prob(y)) for law in laws])
    errors = np.array([float(law.log_prob_error(y)) for law in laws])
    z = (found.mean() - exact) / (found.std(ddof=1) / math.sqrt(SEEDS))
    assert abs(z) < bound(1)
    # the ratio of two standard deviations, of 59 and 60 x 15 degrees of freedom: 1 +- 0.1
    assert 0.6 < found.std(ddof=1) / np.sqrt(np.square(errors).mean()) < 1.5


def test_the_correction_takes_the_bias_of_a_curved_function_away():
    class Estimated:
        """Variances of one, estimated by two halves with an error of 20% each."""

        def __init__(self):
            halves = 1 + 0.2 * torch.randn(2, 200)
            self.variance, self.spread = halves.mean(0), (halves[0] - halves[1]) / 2

        def scale(self):
            return self.variance.sqrt()

        def variance_spread(self):
            return self.spread

    latents = [Estimated() for _ in range(SEEDS)]
    values = torch.stack([estimates.scales(latent, 0).log().sum(-1) for latent in latents])
    plain, corrected = values[:, 0], estimates.corrected(values.T)
    for found, right in ((plain, False), (corrected, True)):
        z = float(found.mean() / found.std()) * math.sqrt(SEEDS)  # the truth is zero
        assert (abs(z) < bound(1)) == right


def test_exact_backends_have_no_error():
    y = values(0.4)
    for backend in ("dense", "sparse"):
        assert float(copula(backend=backend).log_prob_error(y)) == 0
    normal = pc.GraphNormal(torch.zeros(N), precision=copula().precision)
    assert float(normal.log_prob_error(y)) == 0


def test_normal_outcomes():
    y = values(0.4)
    K = pc.NormalizedAdjacencyPrecision(graph())(alpha=0.9, beta=2.0).detach()
    exact = float(pc.GraphNormal(torch.full((N,), 5.0), precision=K).log_prob(y))
    z = []
    for seed in range(SEEDS):
        precision = pc.SparsePrecision(K.graph, K.diagonal, K.off_diagonal, backend=noisy(seed))
        law = pc.GraphNormal(torch.full((N,), 5.0), precision=precision)
        z.append((float(law.log_prob(y)) - exact) / float(law.log_prob_error(y)))
    assert abs(np.mean(z)) < 4.5 / math.sqrt(SEEDS)  # each Student's with 15 degrees of freedom
    assert 0.5 < np.std(z) < 1.8


def test_several_rows_and_a_batch_of_precisions():
    y = torch.stack([values(0.4), values(0.4) + 1, values(0.1)])
    backend = noisy(0)
    K = pc.NormalizedAdjacencyPrecision(graph(), backend=backend)
    law = pc.GaussianCopula(dist.Poisson(4 + torch.arange(N) % 7), precision=K(alpha=0.9, beta=2.0))
    errors = law.log_prob_error(y)
    each = torch.stack([law.log_prob_error(row) for row in y])
    torch.testing.assert_close(errors, each)
    batch = K(alpha=torch.tensor([0.5, 0.9]), beta=2.0)
    law = pc.GaussianCopula(dist.Poisson((4 + torch.arange(N) % 7).expand(2, N)), precision=batch)
    assert law.log_prob_error(y[0]).shape == (2,)
    assert law.log_prob(y[0]).shape == (2,)


def test_prediction_at_missing_nodes():
    y = values(0.4)
    observed = ~torch.isnan(y)
    exact = copula().condition(y)
    found = copula(backend=Iterative(num_probes=256, seed=0)).condition(y)
    assert torch.equal(found.nodes, exact.nodes)
    # the conditional means of x are exact, those of the scores have the error of the scale
    torch.testing.assert_close(found.score_mean, exact.score_mean, rtol=0.03, atol=0.01)
    torch.testing.assert_close(found.score_scale, exact.score_scale, rtol=0.03, atol=0.0)
    level = found.interval(0.9)
    assert bool((level.upper >= level.lower).all())
    assert torch.isfinite(found.log_prob(torch.full((int((~observed).sum()),), 5.0)))


def test_the_scale_behind_intervals_has_its_error():
    y = values(0.4)
    exact = copula().condition(y)
    assert float(exact.score_scale_error.abs().max()) == 0
    laws = [copula(backend=noisy(seed)).condition(y) for seed in range(SEEDS)]
    found = torch.stack([law.score_scale * law.node_scale for law in laws])
    errors = torch.stack([law.score_scale_error * law.node_scale for law in laws])
    ratio = found.std(0) / errors.square().mean(0).sqrt()
    estimated = found.std(0) > 1e-6  # where no neighbour is missing, nothing is left to estimate
    assert int(estimated.sum()) > 10
    assert 0.6 < float(ratio[estimated].median()) < 1.5
    bias = (found.mean(0) - exact.score_scale * exact.node_scale)[estimated]
    z = bias / (found.std(0)[estimated] / math.sqrt(SEEDS))
    assert float(z.abs().max()) < bound(int(estimated.sum())) + 0.5  # a root bends averages


def test_joint_draws_of_missing_nodes():
    y = values(0.4)
    observed = ~torch.isnan(y)
    law = copula(backend=Iterative(num_probes=256, seed=0))
    conditional = law.condition(y)
    count = 4000
    draws = conditional.latent.sample(torch.Size((count, len(conditional.nodes))))
    K = copula().precision.to_dense()
    exact = torch.linalg.inv(K[~observed][:, ~observed])
    deviation = (exact.diagonal()[:, None] * exact.diagonal() + exact.square()).sqrt()
    z = (draws.T @ draws / count - exact) / deviation * count**0.5
    assert float(z.abs().max()) < stats.norm.isf(FAILURE_RATE / z.numel()) + 0.5
    assert conditional.sample((3,)).shape == (3, len(conditional.nodes))


def test_pointwise_log_prob():
    y = values(0.4)
    observed = ~torch.isnan(y)
    oracle = DenseOracle(copula().precision.to_dense().numpy())
    found = copula(backend=Iterative(num_probes=512, seed=0)).pointwise_log_prob(y)
    exact = copula().pointwise_log_prob(y)
    assert torch.equal(torch.isnan(found), ~observed)
    assert oracle.scale.shape == (N,)
    torch.testing.assert_close(found, exact, rtol=0, atol=0.1, equal_nan=True)


def test_gradients_through_the_copula_are_unbiased():
    y = values(0.4)
    marginal = 4.0 + torch.arange(N) % 7

    def gradients(backend):
        alpha, rate = torch.tensor(0.9, requires_grad=True), marginal.clone().requires_grad_()
        K = pc.NormalizedAdjacencyPrecision(graph(), backend=backend)(alpha=alpha, beta=2.0)
        value = pc.GaussianCopula(dist.Poisson(rate), precision=K).log_prob(y)
        d_alpha, d_rate = torch.autograd.grad(value, (alpha, rate))
        return torch.cat([d_alpha.reshape(1), d_rate])

    def accurate(seed):  # at isolated nodes nothing is random, and all that the iterations leave
        return noisy(seed, dtype=torch.float64, tolerance=1e-9)

    exact = gradients("dense")
    found = torch.stack([gradients(accurate(seed)) for seed in range(SEEDS)])
    noise = found.std(0) / math.sqrt(SEEDS)
    z = (found.mean(0) - exact) / noise.clamp(min=1e-6)
    assert float(z.abs().max()) < bound(len(exact))


def test_training_follows_the_seed_of_pyro_and_evaluation_repeats_itself():
    y = values(0.4)
    family = pc.NormalizedAdjacencyPrecision(graph(), backend=Iterative(rank=3))

    def run(seed):
        pyro.set_rng_seed(seed)
        law = pc.GaussianCopula(dist.Poisson(torch.full((N,), 5.0)), precision=family())
        return float(law.log_prob(y).detach())

    assert run(1) == run(1)
    assert run(1) != run(2)
    with torch.no_grad():
        assert run(1) == run(2)


def with_nugget(backend, normal):
    K = pc.NormalizedAdjacencyPrecision(graph(), backend=backend)(alpha=0.95, beta=2.0).detach()
    if normal:
        return pc.GraphNormal(torch.full((N,), 5.0), precision=K, nugget=0.4)
    return pc.GaussianCopula(dist.Poisson(4 + torch.arange(N) % 7), precision=K, nugget=0.3)


@pytest.mark.parametrize("normal", [True, False])
@pytest.mark.parametrize("share", [0.02, 0.6])
def test_the_error_with_a_nugget_is_that_of_independent_seeds(share, normal):
    y = values(share)
    exact = float(with_nugget("dense", normal).log_prob(y))
    laws = [with_nugget(noisy(seed, num_probes=32), normal) for seed in range(SEEDS)]
    found = np.array([float(law.log_prob(y)) for law in laws])
    errors = np.array([float(law.log_prob_error(y)) for law in laws])
    # the ratio of two standard deviations, of 59 and 60 x 31 degrees of freedom: 1 +- 0.1
    assert 0.6 < found.std(ddof=1) / np.sqrt(np.square(errors).mean()) < 1.5
    # a gain that is estimated leaves a bias of second order, which must be below the error
    assert abs(found.mean() - exact) < np.sqrt(np.square(errors).mean())
    assert float(with_nugget("dense", normal).log_prob_error(y)) == 0


def test_the_error_with_a_nugget_in_training_has_probes_of_its_own():
    y = values(0.4)
    family = pc.NormalizedAdjacencyPrecision(graph(), alpha=0.95, backend=Iterative(rank=3))
    found, errors = [], []
    for seed in range(SEEDS):
        pyro.set_rng_seed(seed)
        law = pc.GaussianCopula(
            dist.Poisson(4 + torch.arange(N) % 7), precision=family(), nugget=0.3
        )
        found.append(float(law.log_prob(y).detach()))
        errors.append(float(law.log_prob_error(y)))
    assert 0.6 < np.std(found, ddof=1) / np.sqrt(np.square(errors).mean()) < 1.5


@pytest.mark.parametrize("kind", ["copula", "normal", "copula with a nugget"])
def test_pointwise_errors_are_those_of_independent_seeds(kind):
    y = values(0.4)
    observed = ~torch.isnan(y)

    def law(backend):
        if kind == "copula":
            return copula(0.9, backend)
        return with_nugget(backend, kind == "normal")

    laws = [law(noisy(seed, num_probes=64)) for seed in range(20)]
    found = torch.stack([each.pointwise_log_prob(y) for each in laws])[:, observed]
    errors = torch.stack([each.pointwise_log_prob_error(y) for each in laws[:4]])
    assert torch.equal(torch.isnan(errors[0]), ~observed)
    # over all nodes together: ratios of standard deviations of hundreds of numbers
    ratio = found.std(0).square().mean().sqrt() / errors[:, observed].square().mean().sqrt()
    assert 0.6 < float(ratio) < 1.6
    zero = law("dense").pointwise_log_prob_error(y)
    assert float(zero[observed].abs().max()) == 0
    assert torch.equal(torch.isnan(zero), ~observed)


def test_halves_that_disagree_on_the_sign_of_a_variance_are_an_error():
    """The mean of the two estimates is positive, but one of them is not."""
    K = pc.CARPrecision(SMALL_GRAPHS["path"], backend="iterative")(rho=0.5, tau=1.0)
    latent = PrecisionLatent(K)
    latent.scale = lambda: torch.ones(4)
    latent.variance_spread = lambda: torch.tensor([0.0, 0.5, 1.5, 0.0])
    with pytest.raises(EstimateError, match=r"variance at node 2 is -0\.5 with") as caught:
        estimates.scales(latent, 0)
    assert caught.value.probes == K.solver.num_probes // 2
