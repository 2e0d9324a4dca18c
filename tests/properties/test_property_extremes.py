"""Extreme values and parameters: a finite right answer or a named error, never NaN.

The judge of Poisson tails is their series, summed here in logarithms, which has no trouble in
places where a distribution function is 0 or 1 in floating point.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pyro.distributions as dist
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from problems import IGNORE_MIDPOINT, assert_close
from scipy import special, stats

import pyro_copula as pc
from pyro_copula.errors import PyroCopulaError

pytestmark = pytest.mark.filterwarnings(IGNORE_MIDPOINT)

PATH = pc.Graph.from_edges([(0, 1), (1, 2)])

#: Powers of ten.
DECADES = st.floats(-8, 8, allow_nan=False)

#: Whole numbers to ten million, small ones as likely as large ones.
COUNTS = st.floats(0, 7, allow_nan=False).map(lambda e: float(round(10**e) - 1)) | st.just(1e7)


def _at(value: float) -> torch.Tensor:
    """One number at every node."""
    return torch.full((3,), value)


def pair_law(marginal) -> pc.GaussianCopula:
    """Three nodes of one law with correlation, the last of which will be missing."""
    return pc.GaussianCopula(marginal, precision=pc.CARPrecision(PATH)(rho=0.9, tau=1.0))


def pair_log_density(z: np.ndarray, log_marginal: np.ndarray) -> float:
    """The copula of the first two nodes of that path, written down."""
    matrix = np.array([[1, -0.9, 0], [-0.9, 2, -0.9], [0, -0.9, 1]])
    covariance = np.linalg.inv(matrix)
    r = covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1])
    a, b = z
    copula = -0.5 * math.log(1 - r**2) - (r**2 * (a**2 + b**2) - 2 * r * a * b) / (2 - 2 * r**2)
    return copula + log_marginal.sum()


def poisson_log_mass(y: float, rate: float) -> float:
    with mpmath.workdps(40):  # a difference of numbers of the size of the count
        y, rate = mpmath.mpf(y), mpmath.mpf(rate)
        return float(y * mpmath.log(rate) - rate - mpmath.loggamma(y + 1))


def poisson_midpoint_score(y: float, rate: float) -> float:
    """The midpoint score from the series of the tail on the side of ``y``."""
    terms = int(40 * math.sqrt(max(y, rate, 100)))
    if y > rate:  # P(Y >= y) = p(y) (1 + rate / (y + 1) + ...)
        ratios = math.log(rate) - np.log(y + np.arange(1, terms))
    else:  # P(Y <= y) = p(y) (1 + y / rate + ...)
        down = y - np.arange(0, min(terms, int(y)))
        ratios = np.log(down) - math.log(rate)
    series = np.concatenate([[0.0], np.cumsum(ratios)])
    beyond = special.logsumexp(series[1:]) if len(series) > 1 else -math.inf
    log_p = poisson_log_mass(y, rate) + np.logaddexp(beyond, math.log(0.5))
    z = float(special.ndtri_exp(min(log_p, 0.0)))
    return -z if y > rate else z


@given(y=COUNTS, exponent=DECADES)
@example(y=1e7, exponent=-8.0)
@example(y=0.0, exponent=8.0)
@example(y=0.0, exponent=-8.0)
@example(y=1e7, exponent=7.0)
def test_poisson_counts_to_ten_million_at_any_rate(y, exponent):
    rate = 10.0**exponent
    law = dist.Poisson(_at(rate))
    z = poisson_midpoint_score(y, rate)
    found = float(pc.marginals.midpoint_score(law, _at(y))[0])
    assert found == pytest.approx(z, rel=1e-8, abs=1e-9)
    near = float(np.clip(round(rate), 0, 1e7))
    value = torch.tensor([y, near, math.nan])
    scores = np.array([z, poisson_midpoint_score(near, rate)])
    marginal = np.array([poisson_log_mass(v, rate) for v in (y, near)])
    expected = pair_log_density(scores, marginal)
    found = float(pair_law(law).log_prob(value))
    assert math.isfinite(found)
    assert found == pytest.approx(expected, rel=1e-8, abs=1e-8)


@given(y=COUNTS, exponent=DECADES)
@example(y=1e7, exponent=-8.0)
@example(y=0.0, exponent=8.0)
def test_predictions_and_gradients_beside_an_absurd_count_are_finite(y, exponent):
    rate = torch.full((3,), 10.0**exponent, requires_grad=True)
    copula = pair_law(dist.Poisson(rate))
    value = torch.tensor([y, math.nan, math.nan])
    conditional = copula.condition(value)
    lower, upper = conditional.interval(0.9)
    for found in (conditional.mean, conditional.variance, lower, upper):
        assert torch.isfinite(found).all()
    assert (lower <= upper).all()
    assert (lower >= 0).all()
    (gradient,) = torch.autograd.grad(copula.log_prob(value), rate)
    assert torch.isfinite(gradient).all()
    # One observed node: the copula is one, and the derivative of log p is y / rate - 1.
    ratio = y / 10.0**exponent
    assert float(gradient[0]) == pytest.approx(ratio - 1, abs=1e-6 * (1 + ratio))


@given(
    log_dispersion=st.floats(-18, 18, allow_nan=False),
    mean=st.floats(0.5, 500),
    u=st.floats(0.01, 0.99),
)
@example(log_dispersion=-18.0, mean=7.0, u=0.7)
@example(log_dispersion=18.0, mean=7.0, u=0.7)
def test_negative_binomials_from_poisson_to_all_mass_at_zero(log_dispersion, mean, u):
    size = math.exp(-log_dispersion)
    law = dist.NegativeBinomial(_at(size), logits=_at(math.log(mean) + log_dispersion))
    y = float(stats.poisson(mean).ppf(u))
    value = torch.tensor([y, math.nan, 0.0])
    copula = pair_law(law)
    assert torch.isfinite(copula.log_prob(value))
    conditional = copula.condition(value)
    assert torch.isfinite(conditional.mean).all()
    assert torch.isfinite(conditional.quantile(torch.tensor([0.01, 0.5, 0.99]))).all()
    with torch.no_grad():
        assert torch.isfinite(copula.pointwise_log_prob(value)[[0, 2]]).all()
    if log_dispersion < -12:
        # The variance grows by the factor 1 + mean / size, and scores shrink accordingly.
        poisson = dist.Poisson(_at(mean))
        limit = pair_law(poisson)
        score, scores = (pc.marginals.midpoint_score(d, _at(y)) for d in (law, poisson))
        bound = 10 * (mean + 1) / size
        assert_close(score, scores, 1e-9 + bound)
        assert_close(limit.condition(value).mean, conditional.mean, 1e-6 + bound)


@given(distance=st.floats(0, 12), sign=st.sampled_from([-1.0, 1.0]))
def test_normal_values_far_in_a_tail_keep_their_scores(distance, sign):
    z = sign * 10.0**distance
    law = dist.Normal(torch.tensor([0.0, 1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0]))
    value = torch.tensor([z, 1.0, math.nan])
    marginal = stats.norm.logpdf([z, 0.0]) - np.log([1.0, 2.0])
    expected = pair_log_density(np.array([z, 0.0]), marginal)
    assert float(pair_law(law).log_prob(value)) == pytest.approx(expected, rel=1e-9)


#: Laws, made when a test runs, in float64, and increasing values to their far tails.
FAR = {
    "gamma": (lambda: dist.Gamma(_at(2.0), _at(1.0)), [1e-150, 1e-9, 700.0, 1e6]),
    "lognormal": (lambda: dist.LogNormal(_at(0.0), _at(1.0)), [1e-200, 1e-9, 1e9, 1e200]),
    "laplace": (lambda: dist.Laplace(_at(0.0), _at(1.0)), [-1e6, -800.0, 800.0, 1e6]),
    "student_t": (lambda: dist.StudentT(_at(3.0)), [-1e60, -1e9, 1e9, 1e60]),
    "beta": (lambda: dist.Beta(_at(2.0), _at(3.0)), [1e-150, 1e-9, 1 - 1e-12]),
    "exponential": (lambda: dist.Exponential(_at(1.0)), [1e-300, 1e-9, 800.0, 1e6]),
    "weibull": (lambda: dist.Weibull(_at(1.0), _at(1.5)), [1e-150, 1e-9, 90.0, 1e5]),
    "binomial": (lambda: dist.Binomial(1000, probs=_at(0.5)), [0.0, 1.0, 999.0, 1000.0]),
    "geometric": (lambda: dist.Geometric(_at(0.5)), [0.0, 1e3, 1e7]),
}


@pytest.mark.parametrize(("build", "far"), FAR.values(), ids=FAR)
def test_values_far_in_a_tail_give_finite_densities_and_ordered_scores(build, far):
    law = build()
    copula = pair_law(law)
    scores = [float(pc.marginals.midpoint_score(law, _at(y))[0]) for y in far]
    assert np.isfinite(scores).all()
    assert (np.diff(scores) > 0).all()
    for y in far:
        assert torch.isfinite(copula.log_prob(torch.tensor([y, far[1], math.nan])))
        assert torch.isfinite(copula.log_prob(torch.tensor([far[0], y, far[-1]])))


@given(total=st.integers(1, 10_000), probability=st.floats(0.01, 0.99))
@example(total=100, probability=0.5)
def test_the_last_binomial_count_has_a_finite_score(total, probability):
    law = dist.Binomial(total, probs=_at(probability))
    # Half of the last atom lies above its midpoint: p^n / 2.
    expected = -float(special.ndtri_exp(total * math.log(probability) - math.log(2)))
    value = torch.tensor([float(total), float(total), math.nan])
    found = pc.marginals.midpoint_score(law, value)[0]
    assert float(found) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    marginal = np.full(2, total * math.log(probability))
    density = pair_log_density(np.full(2, expected), marginal)
    assert float(pair_law(law).log_prob(value)) == pytest.approx(density, rel=1e-7, abs=1e-7)


@given(
    st.lists(
        st.sampled_from([0.0, 1.0, 1e7, 0.5, -1.0, math.inf, -math.inf, math.nan, 1e300]),
        min_size=3,
        max_size=3,
    )
)
def test_any_value_gives_a_number_or_a_named_error(values):
    law = dist.Poisson(torch.tensor([0.1, 3.0, 1e6]))
    try:
        found = pair_law(law).log_prob(torch.tensor(values))
    except PyroCopulaError:
        bad = [v for v in values if not math.isnan(v) and (v < 0 or v % 1 != 0)]
        assert bad or all(math.isnan(v) for v in values)
    else:
        assert not torch.isnan(found)
        assert all(math.isnan(v) or v >= 0 for v in values)
