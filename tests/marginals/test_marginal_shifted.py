"""Counts that start at another number: everything equals the base law, moved."""

from __future__ import annotations

import pyro.distributions as dist
import pytest
import torch
from law_checks import (
    check_draws_of_counts,
    check_in_copula,
    check_low_precision,
    check_pyro_manners,
)
from test_marginal_zero_truncated import OwnGeometric

from pyro_copula import marginals
from pyro_copula.errors import InvalidArgumentError, SupportError
from pyro_copula.marginals import Mixed, Shifted, ZeroTruncated
from pyro_copula.testing import check_marginal_law

SHIFT = torch.tensor([1, -7, 1990])
BASES = {
    "poisson": lambda: dist.Poisson(torch.tensor([0.4, 6.0, 50.0])),
    "negative_binomial": lambda: dist.NegativeBinomial(
        torch.tensor([0.5, 3.0, 20.0]), logits=torch.tensor([1.0, 0.0, 0.5])
    ),
    "binomial": lambda: dist.Binomial(torch.tensor([1.0, 6.0, 30.0]), probs=torch.tensor(0.4)),
    "zero_truncated": lambda: ZeroTruncated(dist.Poisson(torch.tensor([0.4, 6.0, 50.0]))),
    "zero_inflated": lambda: dist.ZeroInflatedPoisson(
        torch.tensor([0.4, 6.0, 50.0]), gate=torch.tensor([0.1, 0.2, 0.3])
    ),
    "own": lambda: OwnGeometric(torch.tensor([0.3, 0.6, 0.9])),
    "shifted": lambda: Shifted(dist.Poisson(torch.tensor([0.4, 6.0, 50.0])), 3),
}


@pytest.mark.parametrize("name", BASES)
def test_everything_equals_the_base_law(name):
    base = BASES[name]()
    d = Shifted(base, SHIFT)
    z = torch.tensor([[-3.0], [-1.0], [0.3], [1.5], [3.0]]).expand(-1, 3)
    k = marginals.from_normal_score(base, z)
    assert bool((marginals.from_normal_score(d, z) == k + SHIFT).all())
    for function in ("cdf", "sf", "log_cdf", "log_sf", "normal_score", "midpoint_score"):
        f = getattr(marginals, function)
        torch.testing.assert_close(f(d, k + SHIFT), f(base, k), rtol=1e-13, atol=0)
    torch.testing.assert_close(d.log_prob(k + SHIFT), base.log_prob(k))
    u = torch.linspace(0.01, 0.99, 30)[:, None]
    assert bool((marginals.icdf(d, u) == marginals.icdf(base, u) + SHIFT).all())
    assert bool((marginals.isf(d, u) == marginals.isf(base, u) + SHIFT).all())
    m, s = torch.tensor([0.3, -1.0, 0.0]), torch.tensor([0.5, 0.9, 1.0])
    mean, variance = marginals.score_moments(base, m, s)
    shifted = marginals.score_moments(d, m, s)
    torch.testing.assert_close(shifted, (mean + SHIFT, variance), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(d.mean, base.mean + SHIFT)
    torch.testing.assert_close(d.variance, base.variance)
    check_marginal_law(d)


def test_long_sums():
    base = dist.NegativeBinomial(torch.tensor([0.4]), logits=torch.tensor([7.0]))
    for d in (Shifted(base, -5), Shifted(ZeroTruncated(base), 12)):
        mean, variance = marginals.score_moments(d, torch.zeros(1), torch.ones(1))
        torch.testing.assert_close(mean, d.mean, rtol=1e-10, atol=0)
        torch.testing.assert_close(variance, d.variance, rtol=1e-9, atol=0)


def test_tails_to_thirty():
    d = Shifted(dist.Poisson(torch.tensor([0.5, 900.0])), torch.tensor([4, -1000]))
    z = torch.tensor([[-30.0], [-8.0], [8.0], [30.0]])
    k = marginals.from_normal_score(d, z)
    assert bool((marginals.normal_score(d, k) >= z).all())
    assert bool((marginals.normal_score(d, k - 1) < z).all())
    assert bool(torch.isfinite(marginals.log_sf(d, k)).all())


def test_probabilities_sum_to_one_and_gradients_are_those_of_the_base():
    rate = torch.tensor([0.4, 6.0, 50.0], requires_grad=True)
    k = torch.arange(200.0)[:, None] + SHIFT
    total = Shifted(dist.Poisson(rate), SHIFT).log_prob(k).exp().sum(0)
    torch.testing.assert_close(total, torch.ones(3), rtol=1e-12, atol=0)

    def outputs(rate):
        d = Shifted(dist.Poisson(rate), SHIFT)
        return d.log_prob(k[:3]), marginals.midpoint_score(d, k[:3]), d.mean

    assert torch.autograd.gradcheck(outputs, (rate,), rtol=1e-5)


def test_draws_have_the_law():
    check_draws_of_counts(Shifted(BASES["negative_binomial"](), SHIFT))


def test_manners():
    d, y = Shifted(BASES["negative_binomial"](), SHIFT), torch.tensor([1.0, -3.0, 2011.0])
    check_pyro_manners(d, y)
    check_pyro_manners(Shifted(BASES["binomial"](), SHIFT), torch.tensor([2.0, -3.0, 2011.0]))
    low = dist.NegativeBinomial(d.base_dist.total_count.float(), logits=d.base_dist.logits.float())
    check_low_precision(Shifted(low, SHIFT), d, y)
    assert repr(d).endswith("shift: torch.Size([3]))")
    assert repr(Shifted(dist.Poisson(2.0), 1)) == "Shifted(Poisson(rate: 2.0), shift: 1)"
    # One law, many shifts.
    many = Shifted(dist.Poisson(torch.tensor(2.0)), SHIFT)
    assert many.batch_shape == many.sample().shape == many.variance.shape == (3,)
    whole = Shifted(dist.Poisson(torch.ones(2)), torch.tensor([1.0, 2.0]))
    assert whole.shift.dtype == torch.int64


def test_values_outside():
    d = Shifted(dist.Poisson(torch.tensor([2.0, 2.0])), 3, validate_args=True)
    for bad in (2.0, 3.5):
        with pytest.raises(ValueError, match="support"):
            d.log_prob(torch.tensor([3.0, bad]))
    with pytest.raises(SupportError, match="an integer of at least 3"):
        marginals.check_support(d, torch.tensor([3.0, 2.0]))
    loose = Shifted(dist.Poisson(torch.tensor(2.0), validate_args=False), 3, validate_args=False)
    assert loose.log_prob(torch.tensor(1.0)).item() == -torch.inf
    assert loose.log_prob(torch.tensor(4)).item() == loose.log_prob(torch.tensor(4.0)).item()


@pytest.mark.parametrize(
    ("shift", "message"),
    [
        (1.5, "`shift` must be a whole number or an integer tensor, but found 1.5"),
        (torch.tensor([1.0, 0.25]), "found 0.25"),
        (torch.tensor([1.0, torch.nan]), "found nan"),
        (True, "found True"),
        ("one", "found 'one'"),
        (torch.tensor([True, False]), "found a torch.bool tensor"),
        (torch.tensor([1, 2, 3]), r"broadcastable to batch shape \(2,\), but found shape \(3,\)"),
    ],
)
def test_bad_shifts(shift, message):
    with pytest.raises(InvalidArgumentError, match=message) as error:
        Shifted(dist.Poisson(torch.ones(2)), shift)
    assert error.value.argument == "shift"
    assert error.value.hint


def test_bad_base():
    with pytest.raises(InvalidArgumentError, match="Gamma, which is continuous"):
        Shifted(dist.Gamma(1.0, 1.0), 1)


def test_in_a_copula_and_mixed():
    d, y = Shifted(dist.Poisson(torch.tensor([6.0, 4.0, 9.0])), 2), torch.tensor([9.0, 4.0, 11.0])
    check_in_copula(d, y)
    truncated = ZeroTruncated(dist.Poisson(torch.full((3,), 6.0)))
    mixed = Mixed({"shifted": d, "truncated": truncated}, ["truncated", "shifted", "shifted"])
    check_in_copula(mixed, y)
