"""What Pyro checks of its own distributions: shapes, expand, pickle, goodness of fit."""

from __future__ import annotations

import io
import math
import pickle

import pyro.distributions as dist
import pytest
import torch
from pyro.distributions.testing.gof import auto_goodness_of_fit
from scipy import stats

import pyro_copula as pc
from pyro_copula.testing import SMALL_GRAPHS

#: Probability that a correct sampler fails one statistical test below.
FAILURE_RATE = 1e-6
DRAWS = 50_000

PATH = SMALL_GRAPHS["path"]


def precision(batch=()):
    rho = torch.linspace(0.3, 0.9, max(1, math.prod(batch))).reshape(batch)
    return pc.CARPrecision(PATH)(rho=rho, tau=torch.tensor(1.0))


def normal(batch=(), k=()):
    return pc.GaussianCopula(dist.Normal(torch.zeros(*batch, 4), 1.5), precision=precision(k))


def gamma(batch=(), k=()):
    return pc.GaussianCopula(dist.Gamma(torch.full((*batch, 4), 2.0), 1.5), precision=precision(k))


def poisson(batch=(), k=()):
    return pc.GaussianCopula(dist.Poisson(torch.full((*batch, 4), 6.0)), precision=precision(k))


def graph_normal(batch=(), k=()):
    return pc.GraphNormal(torch.zeros(*batch, 4), precision=precision(k))


def mixed(batch=(), k=()):
    marginal = pc.marginals.Mixed(
        {"count": dist.Poisson(torch.full((*batch, 4), 6.0)), "size": dist.Gamma(2.0, 1.5)},
        kind=["count", "size", "size", "count"],
    )
    return pc.GaussianCopula(marginal, precision=precision(k))


def correlation(batch=(), k=()):
    R = torch.full((4, 4), 0.5) + 0.5 * torch.eye(4)
    return pc.GaussianCopula(
        dist.Gamma(torch.full((*batch, 4), 2.0), 1.5), correlation_matrix=R.expand(*k, 4, 4)
    )


ALL = [normal, gamma, poisson, graph_normal, mixed, correlation]
CONTINUOUS = [normal, gamma, graph_normal, correlation]
BATCHES = [((), ()), ((3,), ()), ((), (2,)), ((2,), (2,)), ((5, 1), (2,))]


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(("batch", "k"), BATCHES)
def test_shapes(make, batch, k):
    d = make(batch, k)
    shape = torch.broadcast_shapes(batch, k)
    assert d.batch_shape == shape
    assert d.event_shape == (4,)
    assert d.event_dim == 1
    for sample_shape in ((), (2,), (3, 2)):
        y = d.sample(sample_shape)
        assert y.shape == (*sample_shape, *shape, 4) == d.shape(torch.Size(sample_shape))
        assert d.log_prob(y).shape == (*sample_shape, *shape)
        assert d.pointwise_log_prob(y).shape == y.shape
        assert d.support.check(y).shape == (*sample_shape, *shape)
        assert bool(d.support.check(y).all())
    assert d.mean.shape == (*shape, 4)
    assert d.variance.shape == (*shape, 4)
    y = d.sample()
    y[..., 1] = math.nan
    conditional = d.condition(y)
    assert conditional.batch_shape == shape
    assert conditional.mean.shape == conditional.variance.shape == (*shape, 1)
    assert conditional.sample((7,)).shape == (7, *shape, 1)
    assert conditional.log_prob(conditional.sample((7,))).shape == (7, *shape)
    assert conditional.quantile(torch.tensor([0.1, 0.5, 0.9])).shape == (3, *shape, 1)
    assert all(end.shape == (*shape, 1) for end in conditional.interval(0.9))
    assert conditional.expand((6, *shape)).sample().shape == (6, *shape, 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("loc", [torch.tensor([0, 1, 2, 3]), torch.tensor(1), [0, 1, 2, 3], 2])
def test_means_may_be_integers(loc, dtype):
    K = pc.CARPrecision(PATH)(rho=torch.tensor(0.9, dtype=dtype), tau=torch.ones((), dtype=dtype))
    law = pc.GraphNormal(loc, K)
    same = pc.GraphNormal(torch.as_tensor(loc, dtype=dtype), K)
    assert law.loc.dtype == law.sample().dtype == dtype
    y = torch.linspace(-1, 1, 4, dtype=dtype)
    assert float(law.log_prob(y)) == float(same.log_prob(y))


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize(("batch", "k"), BATCHES)
def test_expand(make, batch, k):
    d = make(batch, k)
    y = d.sample((6,))
    for target in ((4, *d.batch_shape), (1, 4, *d.batch_shape), d.batch_shape):
        big = d.expand(target)
        assert type(big) is type(d)
        assert big.batch_shape == torch.Size(target)
        assert big.sample((2,)).shape == (2, *target, 4)
        assert big.mean.shape == (*target, 4)
        expected = (
            d.log_prob(y)
            .reshape(6, *(1,) * (len(target) - len(d.batch_shape)), *d.batch_shape)
            .expand(6, *target)
        )
        value = y.reshape(6, *(1,) * (len(target) - len(d.batch_shape)), *d.batch_shape, 4)
        torch.testing.assert_close(big.log_prob(value), expected)
        # draws in the new dimensions are independent, not copies
        if len(target) > len(d.batch_shape) and target[0] > 1:
            draws = big.sample()
            assert not torch.equal(draws[0], draws[1])


@pytest.mark.parametrize("make", ALL)
def test_batches_equal_loops(make):
    d = make((2,), (2,))
    y = d.sample((3,))
    y[0, 0, 1] = math.nan  # rows miss different nodes
    y[1, 1, 2:] = math.nan
    y[2, 0, 1] = math.nan
    found, pointwise = d.log_prob(y), d.pointwise_log_prob(y)
    for b in range(2):
        if d.latent.batch_shape and isinstance(d, pc.GraphNormal):
            one = pc.GraphNormal(d.loc[b], precision=d.precision[b])
        elif isinstance(d, pc.GraphNormal):
            one = pc.GraphNormal(d.loc[b], precision=d.precision)
        elif d.precision is not None:
            one = pc.GaussianCopula(make().marginal_dist, precision=d.precision[b])
        else:
            one = make()
        for s in range(3):
            torch.testing.assert_close(found[s, b], one.log_prob(y[s, b]))
            torch.testing.assert_close(
                pointwise[s, b], one.pointwise_log_prob(y[s, b]), equal_nan=True
            )


@pytest.mark.parametrize("make", ALL)
def test_pickle_and_repr(make):
    d = make()
    y = d.sample()
    buffer = io.BytesIO()
    pickle.dump(d, buffer)
    buffer.seek(0)
    torch.testing.assert_close(pickle.load(buffer).log_prob(y), d.log_prob(y))
    assert type(d).__name__ in repr(d)
    y[2] = math.nan
    assert "Conditional" in repr(d.condition(y))


@pytest.mark.parametrize("make", CONTINUOUS)
def test_goodness_of_fit_of_draws(make):
    """Draws of three nodes against the density: the check that Pyro ships."""
    d = make()
    samples = d.sample((DRAWS,))
    with torch.no_grad():
        probs = d.log_prob(samples).exp()
    assert auto_goodness_of_fit(samples, probs, dim=4) > FAILURE_RATE


@pytest.mark.parametrize("make", ALL)
def test_moments_of_draws(make):
    d = make()
    samples = d.sample((DRAWS,))
    bound = stats.norm.isf(FAILURE_RATE / 8)
    error = (samples.mean(0) - d.mean) / (d.variance / DRAWS).sqrt()
    assert float(error.abs().max()) < bound
    spread = (samples - d.mean).square()
    error = (spread.mean(0) - d.variance) / (spread.var(0) / DRAWS).sqrt()
    assert float(error.abs().max()) < bound


def test_covariance_of_normal_scores_of_draws():
    for graph in SMALL_GRAPHS.values():
        K = pc.LaplacianPrecision(graph)(tau=2.0, gamma=0.3)
        copula = pc.GaussianCopula(
            dist.Gamma(torch.full((graph.num_nodes,), 2.0), 1.0), precision=K
        )
        z = pc.marginals.normal_score(copula.marginal_dist, copula.sample((DRAWS,)))
        covariance = torch.linalg.inv(K.to_dense())
        s = covariance.diagonal().sqrt()
        R = covariance / (s[:, None] * s)
        # the product of two standard normals with correlation r has variance 1 + r^2
        error = (z.mT @ z / DRAWS - R) / ((1 + R.square()) / DRAWS).sqrt()
        tests = graph.num_nodes**2 * len(SMALL_GRAPHS)
        assert float(error.abs().max()) < stats.norm.isf(FAILURE_RATE / tests / 2)


def test_conditional_draws_have_the_conditional_law():
    y = torch.tensor([3.0, math.nan, math.nan, 0.5])
    copula = gamma()
    conditional = copula.condition(y)
    draws = conditional.sample((DRAWS,))
    with torch.no_grad():
        probs = conditional.log_prob(draws).exp()
    assert auto_goodness_of_fit(draws, probs, dim=2) > FAILURE_RATE
    bound = stats.norm.isf(FAILURE_RATE / 4)
    error = (draws.mean(0) - conditional.mean) / (conditional.variance / DRAWS).sqrt()
    assert float(error.abs().max()) < bound
    for level in (0.05, 0.5, 0.9):
        below = (draws <= conditional.quantile(level)).double().mean(0)
        error = (below - level) / math.sqrt(level * (1 - level) / DRAWS)
        assert float(error.abs().max()) < bound


def test_pairs_of_counts_have_their_exact_probabilities():
    """The sampler is exact for counts, whatever the rule of the density."""
    K = pc.CARPrecision(PATH)(rho=0.9, tau=1.0)
    copula = pc.GaussianCopula(dist.Bernoulli(torch.tensor([0.3, 0.5, 0.6, 0.5])), precision=K)
    draws = copula.sample((DRAWS,))
    covariance = torch.linalg.inv(K.to_dense())
    r = float(covariance[0, 1] / (covariance[0, 0] * covariance[1, 1]).sqrt())
    upper = stats.norm.ppf([0.7, 0.5])
    zero = stats.multivariate_normal(cov=[[1, r], [r, 1]]).cdf(upper)
    expected = torch.tensor([zero, 0.7 - zero, 0.5 - zero, 1 - 0.7 - 0.5 + zero])
    code = (2 * draws[:, 0] + draws[:, 1]).long()
    counts = torch.bincount(code, minlength=4).double()
    p = stats.chisquare(counts.numpy(), (expected * DRAWS).numpy()).pvalue
    assert p > FAILURE_RATE


@pytest.mark.parametrize("make", ALL)
def test_float32_gives_float32_close_to_float64(make):
    torch.set_default_dtype(torch.float32)
    single = make()
    torch.set_default_dtype(torch.float64)
    double = make()
    y = double.sample()
    y[1] = math.nan
    found = single.log_prob(y.float())
    assert found.dtype == torch.float32
    assert single.sample().dtype == torch.float32
    conditional = single.condition(y.float())
    assert conditional.mean.dtype == conditional.sample().dtype == torch.float32
    assert conditional.interval(0.9).lower.dtype == torch.float32
    assert float(found) == pytest.approx(float(double.log_prob(y)), rel=1e-5)
    assert float(conditional.mean) == pytest.approx(float(double.condition(y).mean), rel=1e-5)
