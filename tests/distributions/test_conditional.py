"""The conditional laws of a copula as distributions: what they take as values, and expansion."""

from __future__ import annotations

import math

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch

import pyro_copula as pc
from pyro_copula.distributions.particle_conditional import ParticleConditional
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.testing import SMALL_GRAPHS

#: A mean of draws is further off than so many standard errors once in 2e6 times.
STANDARD_ERRORS = 5

NAN = math.nan
Y = torch.tensor([4.0, 5.0, NAN, 6.0, NAN, 3.0, 2.0, 0.0, 7.0])
RULES = pytest.mark.parametrize("discrete", ["midpoint", "exact"])


def conditional(discrete, batch=(), dtype=torch.float64):
    rho = torch.linspace(0.5, 0.9, math.prod(batch), dtype=dtype).reshape(batch)
    K = pc.CARPrecision(SMALL_GRAPHS["grid"])(rho=rho, tau=torch.ones((), dtype=dtype))
    marginal = dist.Poisson(torch.full((9,), 4.0, dtype=dtype))
    copula = pc.GaussianCopula(marginal, K, discrete=discrete, num_particles=40)
    return copula.condition(Y.to(dtype))


@RULES
@pytest.mark.parametrize(
    "counts", [torch.tensor([4, 5]), [4, 5], np.array([4, 5]), torch.tensor([4, 5]).int()]
)
def test_counts_may_be_integers(discrete, counts):
    law = conditional(discrete)
    numbers = torch.tensor([4.0, 5.0])
    for function in (law.cdf, law.marginal_log_prob, law.log_prob):
        torch.testing.assert_close(function(counts), function(numbers))
    assert bool(law.support.check(counts)) == bool(law.support.check(numbers)) is True
    assert not bool(law.support.check(torch.tensor([4, -1])))
    rows = torch.tensor([[4, 5], [0, 1], [2, 2]])
    assert law.support.check(rows).shape == (3,)


@RULES
@pytest.mark.parametrize("value", [torch.ones(3), torch.ones(2, 1), torch.tensor(1), [1, 2, 3]])
def test_a_value_of_another_length_is_refused(discrete, value):
    law = conditional(discrete)
    for function in (law.cdf, law.marginal_log_prob, law.log_prob, law.support.check):
        with pytest.raises(InvalidArgumentError, match=r"`y_missing` .* with 2 nodes, but found"):
            function(value)


@RULES
def test_a_distribution_function_is_unknown_where_its_value_is(discrete):
    law = conditional(discrete)
    assert bool(law.cdf(torch.tensor([NAN, NAN])).isnan().all())
    assert law.cdf(torch.tensor([NAN, 3.0])).isnan().tolist() == [True, False]


@RULES
@pytest.mark.parametrize(
    ("batch", "target"), [((), (3,)), ((), (2, 3)), ((2,), (3, 2)), ((1,), (3,)), ((2,), (2,))]
)
def test_an_expanded_law_is_its_rows(discrete, batch, target):
    law = conditional(discrete, batch)
    law.mean  # noqa: B018  (what is kept must not be found in the copy)
    wide = law.expand(target)
    assert type(wide) is type(law)
    assert wide.batch_shape == torch.Size(target)
    assert torch.equal(wide.nodes, law.nodes)
    value = torch.arange(2.0 * math.prod(target)).reshape(*target, 2) % 7
    for name in ("cdf", "marginal_log_prob", "log_prob"):
        found, expected = getattr(wide, name)(value), getattr(law, name)(value)
        torch.testing.assert_close(found, expected)
    for name in ("mean", "variance"):
        torch.testing.assert_close(getattr(wide, name), getattr(law, name).expand(*target, 2))
    for found, expected in zip(wide.interval(0.8), law.interval(0.8), strict=True):
        torch.testing.assert_close(found, expected.expand(*target, 2))
    assert wide.quantile(torch.tensor([0.1, 0.9])).shape == (2, *target, 2)
    draws = wide.sample((5,))
    assert draws.shape == (5, *target, 2)
    assert law.mean.shape == (*batch, 2)


@RULES
def test_a_plate_keeps_the_methods(discrete):
    law = conditional(discrete)
    with pyro.poutine.trace() as trace, pyro.plate("replicates", 4):
        pyro.sample("y", law)
    site = trace.trace.nodes["y"]["fn"]
    assert type(site) is type(law)
    assert site.interval(0.9).lower.shape == (4, 2)


def test_draws_of_an_expanded_mixture_differ_and_have_its_mean():
    law = conditional("exact")
    assert isinstance(law, ParticleConditional)
    draws = law.expand((2,)).sample((4000,))
    assert not torch.equal(draws[:, 0], draws[:, 1])
    error = (law.variance / 4000).sqrt()
    assert bool(((draws.mean(0) - law.mean).abs() < STANDARD_ERRORS * error).all())
