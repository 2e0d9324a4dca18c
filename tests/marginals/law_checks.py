"""What every distribution of the package must do: Pyro's manners, and its place in a copula."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pyro
import pyro.distributions as dist
import scipy.stats as st
import torch

import pyro_copula as pc
from pyro_copula import marginals

#: The share of seeds with which a test that compares draws with a law fails: one in ten thousand.
FAILURE_RATE = 1e-4


def check_pyro_manners(d, y):
    """Check shapes, expansion, pickling and a sample site of a law with batch shape (n,)."""
    (n,) = d.batch_shape
    assert d.event_shape == ()
    assert d.log_prob(y).shape == d.mean.shape == d.variance.shape == (n,)
    assert d.sample((5,)).shape == (5, n)
    assert bool(d.support.check(d.sample((5,))).all())
    assert d.log_prob(y.expand(3, n)).shape == (3, n)

    wide = d.expand([2, n])
    assert type(wide) is type(d)
    assert wide.batch_shape == wide.mean.shape == wide.variance.shape == (2, n)
    assert wide.sample((4,)).shape == (4, 2, n)
    torch.testing.assert_close(wide.log_prob(y), d.log_prob(y).expand(2, n))
    torch.testing.assert_close(marginals.cdf(wide, y), marginals.cdf(d, y).expand(2, n))
    assert repr(wide).startswith(f"{type(d).__name__}(")

    copy = pickle.loads(pickle.dumps(d))
    torch.testing.assert_close(copy.log_prob(y), d.log_prob(y))
    torch.testing.assert_close(marginals.normal_score(copy, y), marginals.normal_score(d, y))

    def model():
        with pyro.plate("nodes", n):
            return pyro.sample("y", d, obs=y)

    trace = pyro.poutine.trace(model).get_trace()
    torch.testing.assert_close(trace.log_prob_sum(), d.log_prob(y).sum())


def check_low_precision(d, wide, y):
    """Check a float32 law against the same one in float64."""
    y = y.float()
    outputs = {
        "log_prob": (d.log_prob(y), wide.log_prob(y.double())),
        "mean": (d.mean, wide.mean),
        "variance": (d.variance, wide.variance),
        "score": (marginals.midpoint_score(d, y), marginals.midpoint_score(wide, y.double())),
    }
    for low, high in outputs.values():
        assert low.dtype == torch.float32
        torch.testing.assert_close(low.double(), high, rtol=3e-5, atol=1e-6)
    assert d.sample((3,)).dtype == torch.float32


def check_draws_of_counts(d, num_draws=4000):
    """Compare draws with the probabilities, by a chi-square test over the first points."""
    (n,) = d.batch_shape
    y = d.sample((num_draws,))
    first = d.support.lower_bound + torch.zeros(n)
    for node in range(n):
        k = first[node] + torch.arange(400.0)
        with torch.no_grad():
            single = marginals.cdf(d, k[:, None].expand(-1, n))[:, node]
        p = torch.diff(single, prepend=torch.zeros(1)).numpy()
        counts = np.array([(y[:, node] == value).sum().item() for value in k])
        large = p * num_draws > 8
        observed = [*counts[large], num_draws - counts[large].sum()]
        expected = [*(p[large] * num_draws), num_draws * (1 - p[large].sum())]
        if expected[-1] < 1e-6:
            assert observed.pop() == 0
            expected.pop()
        scale = sum(observed) / sum(expected)
        p_value = st.chisquare(observed, np.array(expected) * scale).pvalue
        assert len(observed) == 1 or p_value > FAILURE_RATE / n


def check_in_copula(d, y):
    """Check a copula of three nodes on a path against the dense formulas; ``y`` has no gaps."""
    graph = pc.Graph.from_edges([(0, 1), (1, 2)])
    precision = pc.CARPrecision(graph)(rho=0.8, tau=1.0)
    copula = pc.GaussianCopula(d, precision=precision)
    covariance = torch.linalg.inv(precision.to_dense().double())
    scale = covariance.diagonal().sqrt()
    correlation = covariance / scale[:, None] / scale

    z = marginals.midpoint_score(d, y)
    joint = dist.MultivariateNormal(torch.zeros(3), correlation).log_prob(z)
    expected = joint - dist.Normal(0.0, 1.0).log_prob(z).sum() + d.log_prob(y).sum()
    torch.testing.assert_close(copula.log_prob(y), expected, rtol=1e-10, atol=0)

    conditional = copula.condition(torch.where(torch.arange(3) == 1, math.nan, y))
    others = torch.tensor([0, 2])
    weight = torch.linalg.solve(correlation[others][:, others], correlation[others, 1])
    mean, sd = weight @ z[others], (1 - weight @ correlation[others, 1]).sqrt()
    moments = [m[1:2] for m in marginals.score_moments(d, mean.expand(3), sd.expand(3))]
    torch.testing.assert_close(conditional.mean, moments[0], rtol=1e-9, atol=0)
    torch.testing.assert_close(conditional.variance, moments[1], rtol=1e-8, atol=0)
    for bound, sign in zip(conditional.interval(0.9), (-1, 1)):
        quantile = marginals.from_normal_score(d, (mean + sign * 1.6448536269514722 * sd).expand(3))
        torch.testing.assert_close(bound, quantile[1:2])
    marginals.check_support(d, copula.sample((50,)))
    draws = conditional.sample((2000,))
    assert draws.shape == (2000, 1)
    # Four standard errors, about the stated failure rate.
    assert abs(draws.mean() - moments[0]) < 4 * (moments[1] / 2000).sqrt()
