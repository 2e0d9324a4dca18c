"""Log densities where a dispersion goes to zero or to infinity, against arithmetic of 60 digits."""

from __future__ import annotations

import math

import mpmath as mp
import pyro.distributions as dist
import pytest
import torch
import torch.distributions as td

import pyro_copula as pc
from pyro_copula import marginals
from pyro_copula.marginals.densities import LARGE

DIGITS = 60


def negative_binomial(total, logits, k):
    mass = mp.loggamma(k + total) - mp.loggamma(total) - mp.loggamma(k + 1)
    return mass - total * mp.log1p(mp.exp(logits)) - k * mp.log1p(mp.exp(-logits))


def gamma_poisson(shape, rate, k):
    return negative_binomial(shape, -mp.log(rate), k)


def binomial(total, logits, k):
    mass = mp.loggamma(total + 1) - mp.loggamma(k + 1) - mp.loggamma(total - k + 1)
    return mass - (total - k) * mp.log1p(mp.exp(logits)) - k * mp.log1p(mp.exp(-logits))


def poisson(rate, k):
    return k * mp.log(rate) - rate - mp.loggamma(k + 1)


def gamma(shape, rate, y):
    return shape * mp.log(rate) + (shape - 1) * mp.log(y) - rate * y - mp.loggamma(shape)


def inverse_gamma(shape, rate, y):
    return gamma(shape, rate, 1 / y) - 2 * mp.log(y)


def beta(a, b, y):
    constant = mp.loggamma(a + b) - mp.loggamma(a) - mp.loggamma(b)
    return constant + (a - 1) * mp.log(y) + (b - 1) * mp.log1p(-y)


def student_t(df, scale, y):
    constant = mp.loggamma((df + 1) / 2) - mp.loggamma(df / 2) - mp.log(df * mp.pi) / 2
    return constant - mp.log(scale) - (df + 1) / 2 * mp.log1p((y / scale) ** 2 / df)


def cases():
    """The law, what it should be, its parameters and a value, from one end to the other."""
    for total in (1e-18, 1e-6, 1.0, 2e4, 1e8, 1e12, 1e15, 1e18):
        logits = math.log(7 / total)
        for k in (0.0, 9.0, 300.0):
            yield (
                "negative_binomial",
                lambda r, t: td.NegativeBinomial(r, logits=t),
                (
                    total,
                    logits,
                ),
                k,
            )
    for shape in (1e8, 1e15):
        yield "gamma_poisson", dist.GammaPoisson, (shape, shape / 7), 9.0
    for total, p, k in (
        (1e7, 0.5, 5_001_000),
        (1e10, 0.3, 3e9),
        (1e12, 1e-11, 12),
        (1e15, 7e-15, 0),
        (1e15, 1 - 7e-8, 1e15),
    ):
        logits = math.log(p) - math.log1p(-p)
        yield "binomial", lambda n, t: td.Binomial(n, logits=t), (total, logits), float(k)
    for rate in (1e-8, 3.0, 1e8, 1e12, 1e15):
        for sd in (-40, 0, 1, 40):
            k = max(0.0, round(rate + sd * math.sqrt(rate)))
            yield "poisson", td.Poisson, (rate,), float(k)
    for shape in (1e-8, 1.0, 1e5, 1e8, 1e12, 1e15):
        y = (shape + math.sqrt(shape)) / 3
        yield "gamma", td.Gamma, (shape, 3.0), y
        yield "gamma", td.Gamma, (shape, 3.0), y * 2
        yield "inverse_gamma", td.InverseGamma, (shape, 3.0), 1 / y
    for total in (1e-8, 1e5, 1e8, 1e12, 1e15):
        y = 0.3 + math.sqrt(0.21 / (total + 1)) if total > 1 else 0.4
        yield "beta", td.Beta, (0.3 * total, 0.7 * total), y
        yield "beta", td.Beta, (0.5, total), min(0.9, 1 / total)
    for df in (1e-3, 1.0, 2e4, 1e6, 1e8, 1e12, 1e15):
        for y in (0.0, 1.5, 80.0, 1e6):
            yield "student_t", lambda df, s: td.StudentT(df, 0.0, s), (df, 2.0), y


CASES = [pytest.param(*case, id=f"{case[0]}-{case[2][0]:g}-{case[3]:g}") for case in cases()]


@pytest.mark.parametrize(("name", "law", "parameters", "y"), CASES)
def test_values_and_gradients(name, law, parameters, y, tally):
    with mp.workdps(DIGITS):
        exact = [mp.mpf(p) for p in parameters]
        reference = globals()[name]
        expected = reference(*exact, mp.mpf(y))
        slopes = []  # in the logarithm of the parameter, or in the logit
        for i, p in enumerate(exact):
            step = abs(p) * mp.mpf(10) ** -20
            moved = [[q + s * step * (i == j) for j, q in enumerate(exact)] for s in (1, -1)]
            up, down = (reference(*each, mp.mpf(y)) for each in moved)
            slopes.append(float((up - down) / (2 * mp.mpf(10) ** -20)))
        expected = float(expected)
    tensors = [torch.tensor(p, requires_grad=True) for p in parameters]
    found = marginals.log_prob(law(*tensors), torch.tensor(y))
    # Rounding of the value and of the parameters alone changes the result by this much, a
    # standard deviation in the tail being 1 / sqrt(parameter).
    rounding = 2e-16 * sum(abs(s) for s in slopes) + 4e-16 * math.sqrt(max(parameters))
    assert float(found.detach()) == pytest.approx(expected, rel=1e-12, abs=2e-11 + 4 * rounding)
    for p, slope, gradient in zip(parameters, slopes, torch.autograd.grad(found, tensors)):
        assert float(gradient) * abs(p) == pytest.approx(
            slope, rel=1e-7, abs=1e-9 + 4 * rounding * math.sqrt(max(parameters))
        )
    tally("extreme cases", 1)


def test_ordinary_parameters_are_left_to_torch():
    y = torch.tensor([3.0, 0.0, 7.0])
    laws = [dist.Poisson(y + 1), dist.NegativeBinomial(y + 1, logits=y - 3), dist.Gamma(y + 1, 2.0)]
    for law in laws:
        value = y if law.support.is_discrete else y + 0.5
        assert torch.equal(marginals.log_prob(law, value), law.log_prob(value))


def test_laws_that_are_built_on_others():
    """Inflated, truncated, shifted, mixed, expanded and transformed: as good as their base."""
    total, logits = torch.tensor([1e15, 2.0]), torch.tensor([math.log(7e-15), 0.0])
    base = dist.NegativeBinomial(total, logits=logits)
    y = torch.tensor([9.0, 3.0])
    with mp.workdps(DIGITS):
        mass = [
            float(negative_binomial(mp.mpf(float(r)), mp.mpf(float(t)), mp.mpf(float(k))))
            for r, t, k in zip(total, logits, y)
        ]
        zero = [
            float(negative_binomial(mp.mpf(float(r)), mp.mpf(float(t)), 0))
            for r, t in zip(total, logits)
        ]
    mass, zero = torch.tensor(mass), torch.tensor(zero)
    gate = torch.tensor([0.2, 0.3])
    inflated = dist.ZeroInflatedDistribution(base, gate=gate)
    kind = torch.tensor([0, 1])
    mixed = marginals.Mixed({"a": base, "b": dist.Normal(torch.zeros(2), 1.0)}, kind=kind)
    found = {
        "inflated": (marginals.log_prob(inflated, y), torch.log1p(-gate) + mass),
        "zero": (
            marginals.log_prob(inflated, torch.zeros(2)),
            (gate + (1 - gate) * zero.exp()).log(),
        ),
        "truncated": (
            marginals.log_prob(marginals.ZeroTruncated(base), y),
            mass - torch.log(-torch.expm1(zero)),
        ),
        "shifted": (marginals.log_prob(marginals.Shifted(base, 2), y + 2), mass),
        "mixed": (
            marginals.log_prob(mixed, y),
            torch.stack([mass[0], dist.Normal(0.0, 1.0).log_prob(y[1])]),
        ),
        "expanded": (marginals.log_prob(base.expand((3, 2)), y), mass.expand(3, 2)),
    }
    for name, (value, expected) in found.items():
        torch.testing.assert_close(
            value, expected, rtol=1e-12, atol=1e-12, msg=lambda m, n=name: f"{n}: {m}"
        )


def test_float32_laws_stay_float32():
    law = dist.Poisson(torch.tensor([1e6], dtype=torch.float32))
    found = marginals.log_prob(law, torch.tensor([1e6], dtype=torch.float32))
    assert found.dtype == torch.float32
    assert float(found) == pytest.approx(-0.5 * math.log(2e6 * math.pi), rel=1e-6)


def test_a_copula_with_little_dispersion_is_the_poisson_one():
    rate = torch.tensor([7.0, 20.0, 3.0])
    K = pc.CARPrecision(pc.Graph.from_edges([(0, 1), (1, 2)]))(rho=0.9, tau=1.0)
    y = torch.tensor([9.0, 18.0, math.nan])
    limit = pc.GaussianCopula(dist.Poisson(rate), K)
    for size in (1e10, 1e13, 1e16):
        law = dist.NegativeBinomial(torch.full((3,), size), logits=(rate / size).log())
        copula = pc.GaussianCopula(law, K)
        for function in ("log_prob", "pointwise_log_prob"):
            found, expected = (getattr(c, function)(y) for c in (copula, limit))
            torch.testing.assert_close(
                found, expected, rtol=0, atol=1e-10 + 1e3 / size, equal_nan=True
            )


def test_a_law_of_large_parameters_is_told_from_a_small_one():
    assert marginals.log_prob(dist.Poisson(LARGE / 2), torch.tensor(LARGE / 2)).isfinite()
    law = dist.Poisson(torch.tensor([0.5, 2 * LARGE]))
    found = marginals.log_prob(law, torch.tensor([1.0, 2 * LARGE]))
    assert float(found[0]) == float(dist.Poisson(0.5).log_prob(torch.tensor(1.0)))
