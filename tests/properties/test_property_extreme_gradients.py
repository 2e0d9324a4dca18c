"""Derivatives at extremes, against arithmetic of 80 digits and closed forms: right, never NaN."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pyro.distributions as dist
import pytest
import torch
from problems import IGNORE_MIDPOINT
from scipy import stats
from test_property_extremes import pair_law, poisson_log_mass, poisson_midpoint_score
from test_property_graph_extremes import star

import pyro_copula as pc
from pyro_copula.testing import SMALL_GRAPHS

pytestmark = pytest.mark.filterwarnings(IGNORE_MIDPOINT)

DIGITS = 80


def _correlation() -> float:
    """That of the first two nodes of the path that ``pair_law`` uses."""
    covariance = np.linalg.inv(np.array([[1, -0.9, 0], [-0.9, 2, -0.9], [0, -0.9, 1]]))
    return float(covariance[0, 1] / math.sqrt(covariance[0, 0] * covariance[1, 1]))


R = _correlation()


def copula_slope(a: float, b: float) -> float:
    """The derivative of the log copula density of two nodes in the score of the first."""
    return -(R**2 * a - R * b) / (1 - R**2)


@pytest.mark.parametrize("exponent", [-8, -4, 0, 2, 5, 7, 8])
@pytest.mark.parametrize("sd", [-40, -3, 0, 3, 40])
def test_poisson_rates_over_sixteen_decades(exponent, sd, tally):
    """``dz/drate`` has a closed form: the derivative of a Poisson tail is a probability."""
    rate = 10.0**exponent
    y = float(max(0, round(rate + sd * math.sqrt(rate))))
    beside = float(round(rate))
    parameter = torch.full((3,), rate, requires_grad=True)
    found = pair_law(dist.Poisson(parameter)).log_prob(torch.tensor([y, beside, math.nan]))
    (gradient,) = torch.autograd.grad(found, parameter)
    assert torch.isfinite(gradient).all()
    assert float(gradient[2]) == 0
    z = [poisson_midpoint_score(k, rate) for k in (y, beside)]
    for node, (k, own, other) in enumerate(((y, z[0], z[1]), (beside, z[1], z[0]))):
        log_half = poisson_log_mass(k, rate) + math.log((1 + k / rate) / 2)
        rise = -math.exp(log_half - stats.norm.logpdf(own))
        terms = [k / rate - 1, copula_slope(own, other) * rise]
        # A score near zero has an absolute error of its own, by which the slope is off.
        tolerance = 1e-7 * sum(map(abs, terms)) + 1e-9 * abs(rise) + 1e-12 * (1 + 1 / rate)
        assert float(gradient[node]) == pytest.approx(sum(terms), abs=tolerance)
    tally("extreme cases", 1)


# ---------------------------------------------------------------- scores in 80 digits


def score(log_tail, upper: bool):
    """The normal score of a tail probability."""
    z = -mp.sqrt(-2 * log_tail)
    for _ in range(60):
        p = mp.erfc(-z / mp.sqrt(2)) / 2
        step = (mp.log(p) - log_tail) * p / mp.npdf(z)
        z -= step
        if abs(step) < mp.mpf(10) ** (10 - DIGITS):
            break
    return -z if upper else z


def negative_binomial_mass(size, logits, k):
    log_mass = mp.loggamma(k + size) - mp.loggamma(size) - mp.loggamma(k + 1)
    return log_mass - size * mp.log1p(mp.exp(logits)) - k * mp.log1p(mp.exp(-logits))


def negative_binomial(size, logits, k):
    """The log mass and the midpoint score."""
    masses = [mp.exp(negative_binomial_mass(size, logits, j)) for j in range(int(k) + 1)]
    below = mp.fsum(masses) - masses[-1] / 2
    if below < 0.5:
        return mp.log(masses[-1]), score(mp.log(below), upper=False)
    return mp.log(masses[-1]), score(mp.log1p(-below), upper=True)


def gamma(shape, rate, y):
    x, density = rate * y, (shape - 1) * mp.log(y) + shape * mp.log(rate) - rate * y
    density -= mp.loggamma(shape)
    upper = x > shape
    ends = (x, mp.inf) if upper else (0, x)
    return density, score(mp.log(mp.gammainc(shape, *ends, regularized=True)), upper)


def student_t(df, scale, y):
    x = y / scale
    density = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
    density -= mp.log(scale) + (df + 1) / 2 * mp.log1p(x**2 / df)
    tail = mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + x**2), regularized=True) / 2
    return density, score(mp.log(tail), upper=x > 0)


def check_pair(reference, law, parameters, values, tally, tolerance=1e-7):
    """The density of two nodes with the same law, and its derivatives in the parameters."""

    def log_density(given):
        (first, a), (second, b) = (reference(*given, mp.mpf(y)) for y in values)
        quadratic = R**2 * (a**2 + b**2) - 2 * R * a * b
        return first + second - mp.log1p(-(R**2)) / 2 - quadratic / (2 - 2 * R**2)

    with mp.workdps(DIGITS):
        exact = [mp.mpf(p) for p in parameters]
        expected = float(log_density(exact))
        slopes = []
        for i, p in enumerate(exact):
            step = abs(p) * mp.mpf(10) ** -15
            pair = [[q + s * step * (i == j) for j, q in enumerate(exact)] for s in (1, -1)]
            up, down = (log_density(each) for each in pair)
            slopes.append(float((up - down) / (2 * mp.mpf(10) ** -15)))
    tensors = [torch.tensor(p, requires_grad=True) for p in parameters]
    found = pair_law(law(*(t.expand(3) for t in tensors))).log_prob(
        torch.tensor([*values, math.nan])
    )
    assert float(found.detach()) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    for p, slope, gradient in zip(parameters, slopes, torch.autograd.grad(found, tensors)):
        assert float(gradient) * abs(p) == pytest.approx(slope, rel=tolerance, abs=1e-8)
    tally("extreme cases", 1)


@pytest.mark.parametrize("size", [1e-15, 1e-8, 1e-3, 1.0, 1e4, 1e8, 1e12, 1e16])
@pytest.mark.parametrize("values", [(0.0, 9.0), (40.0, 3.0)], ids=["zero", "far"])
def test_dispersion_to_zero_and_to_infinity(size, values, tally):
    check_pair(
        negative_binomial,
        lambda r, t: dist.NegativeBinomial(r, logits=t),
        (size, math.log(7 / size)),
        values,
        tally,
    )


@pytest.mark.parametrize("sd", [-40, -10, 10, 40])
def test_gamma_values_forty_standard_deviations_out(sd, tally):
    shape = 4000.0
    values = ((shape + sd * math.sqrt(shape)) / 3, shape / 3)
    check_pair(gamma, dist.Gamma, (shape, 3.0), values, tally)


@pytest.mark.parametrize("sd", [-40, -10, 10, 40])
@pytest.mark.parametrize("df", [3.0, 1e3, 1e6])
def test_student_values_forty_standard_deviations_out(df, sd, tally):
    check_pair(
        student_t,
        lambda df, scale: dist.StudentT(df, 0.0, scale),
        (df, 2.0),
        (2.0 * sd, 1.0),
        tally,
    )


# ---------------------------------------------------------------- graphs


@pytest.mark.parametrize("backend", ["dense", "sparse"])
@pytest.mark.parametrize("gap", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_derivatives_in_alpha_next_to_one(backend, gap, sign, tally):
    alpha = torch.tensor(sign * (1 - gap), requires_grad=True)
    graph = pc.Graph.from_edges([(0, 1)])
    K = pc.NormalizedAdjacencyPrecision(graph, backend=backend)(alpha=alpha, beta=1.0)
    copula = pc.GaussianCopula(dist.Normal(torch.zeros(2), 1.0), precision=K)
    z = [0.3, sign * (0.3 + math.sqrt(gap))]
    (found,) = torch.autograd.grad(copula.log_prob(torch.tensor(z)), alpha)
    with mp.workdps(DIGITS):

        def log_density(r):
            a, b = (mp.mpf(v) for v in z)
            return -mp.log1p(-(r**2)) / 2 - (r**2 * (a**2 + b**2) - 2 * r * a * b) / (2 - 2 * r**2)

        expected = float(
            mp.diff(log_density, mp.mpf(float(alpha.detach())), h=mp.mpf(gap) / 10**12)
        )
    assert float(found) == pytest.approx(expected, rel=1e-15 / gap + 1e-8)
    tally("extreme cases", 1)


@pytest.mark.parametrize(
    "num_leaves", [200, pytest.param(100_000, marks=pytest.mark.slow)], ids="{} leaves".format
)
def test_derivatives_on_a_star(num_leaves, tally):
    m = num_leaves
    gamma = torch.tensor(0.5, requires_grad=True)
    K = pc.LaplacianPrecision(star(m), backend="sparse")(tau=1.0, gamma=gamma)
    (found,) = torch.autograd.grad(K.logdet(), gamma)
    leaf, left = 1.5, m + 0.5 - m / 1.5
    assert float(found) == pytest.approx(m / leaf + (1 + m / leaf**2) / left, rel=1e-10)
    K = pc.LaplacianPrecision(star(m), backend="sparse")(tau=1.0, gamma=gamma)
    (found,) = torch.autograd.grad(K.variance()[0], gamma)
    assert float(found) == pytest.approx(-(1 + m / leaf**2) / left**2, rel=1e-9)
    tally("extreme cases", 1)


@pytest.mark.parametrize(
    "n", [60, pytest.param(2000, marks=pytest.mark.slow)], ids="{} nodes".format
)
@pytest.mark.parametrize("backend", ["dense", "sparse"])
def test_derivatives_on_a_clique(backend, n, tally):
    gamma = torch.tensor(0.5, requires_grad=True)
    pairs = np.stack(np.triu_indices(n, 1), 1)
    K = pc.LaplacianPrecision(pc.Graph.from_edges(pairs, n), backend=backend)(tau=1.0, gamma=gamma)
    first, second = K.logdet(), K.variance()[n // 2]
    (found,) = torch.autograd.grad(first, gamma, retain_graph=True)
    assert float(found) == pytest.approx(1 / 0.5 + (n - 1) / (n + 0.5), rel=1e-9)
    (found,) = torch.autograd.grad(second, gamma)
    assert float(found) == pytest.approx(-(1 / 0.25 + (n - 1) / (n + 0.5) ** 2) / n, rel=1e-9)
    tally("extreme cases", 1)


@pytest.mark.parametrize("backend", ["dense", "sparse"])
@pytest.mark.parametrize("seed", range(4))
def test_derivatives_with_weights_over_twelve_decades(backend, seed, tally):
    """``d log det K / dK`` is the inverse on the pattern, to the digits that are left."""
    graph = SMALL_GRAPHS["grid"]
    torch.manual_seed(seed)
    weight = 10.0 ** torch.linspace(-6, 6, graph.num_edges)[torch.randperm(graph.num_edges)]
    diagonal = torch.full((graph.num_nodes,), 1e-2)
    diagonal = diagonal.index_add(0, graph.rows, weight).index_add(0, graph.cols, weight)
    leaves = [diagonal.requires_grad_(), (-weight).requires_grad_()]
    K = pc.SparsePrecision(graph, *leaves, backend=backend)
    on_diagonal, on_edges = torch.autograd.grad(K.logdet(), leaves)
    with mp.workdps(DIGITS):
        inverse = mp.inverse(mp.matrix(K.to_dense().detach().tolist()))
        nodes = torch.tensor([float(inverse[i, i]) for i in range(graph.num_nodes)])
        edges = torch.tensor([2 * float(inverse[i, j]) for i, j in graph.edges.tolist()])
    accuracy = 1e-10 + 1e-16 * float(K.condition_number())
    torch.testing.assert_close(on_diagonal, nodes, rtol=accuracy, atol=0)
    torch.testing.assert_close(on_edges, edges, rtol=accuracy, atol=accuracy * float(nodes.max()))
    tally("extreme cases", 1)
