"""Quantiles: round trips, the definition for counts, and implicit derivatives."""

from __future__ import annotations

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from marginal_laws import CONTINUOUS, DISCRETE, LAWS

from pyro_copula import marginals
from pyro_copula.errors import InvalidArgumentError, SecondOrderError

#: Laws with an end of the support that is not zero: y itself cannot resolve the tail next to it.
HARD_ENDS = {"uniform": (1, 1), "beta": (0, 1), "pareto": (1, 0), "negated_gamma": (0, 1)}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_round_trip_from_both_tails(name):
    d = CONTINUOUS[name].make()
    u = torch.tensor([[1e-250], [1e-40], [1e-5], [0.3], [0.5], [0.97]])
    lower, upper = (u[2:] if hard else u for hard in HARD_ENDS.get(name, (0, 0)))
    rtol = 1e-7 if name in HARD_ENDS else 1e-10
    up, down = marginals.icdf(d, lower), marginals.isf(d, upper)
    torch.testing.assert_close(marginals.cdf(d, up), lower, rtol=rtol, atol=0.0)
    torch.testing.assert_close(marginals.sf(d, down), upper, rtol=rtol, atol=0.0)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles_equal_scipy(name):
    law = CONTINUOUS[name]
    u = np.array([1e-9, 1e-3, 0.2, 0.5, 0.9, 0.9999])
    for function, theirs in (("icdf", "ppf"), ("isf", "isf")):
        actual = getattr(marginals, function)(law.make(), torch.as_tensor(u)[:, None])[:, 0]
        expected = torch.as_tensor(getattr(law.reference, theirs)(u))
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_scores_round_trip_to_forty(name):
    d = CONTINUOUS[name].make()
    z = torch.tensor([-45.0, -30.0, -8.0, -1.0, 0.0, 0.5, 8.0, 30.0, 45.0])[:, None]
    below, above = HARD_ENDS.get(name, (0, 0))
    z = z[(z > (-5 if below else -50)) & (z < (5 if above else 50))][:, None]
    y = marginals.from_normal_score(d, z)
    # The values of some laws leave the range of float64 before their scores reach 45.
    resolved = (y.abs() > 1e-300) & (y.abs() < 1e300)
    assert bool(resolved[z.abs() < 31].all())
    y, z = y[resolved][:, None], z[resolved][:, None]
    torch.testing.assert_close(marginals.normal_score(d, y), z, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_quantiles_by_definition(name):
    law = DISCRETE[name]
    d = law.make()
    start, stop = (float(law.reference.ppf(1e-7)), float(law.reference.isf(1e-7)))
    k = torch.arange(max(start, 0.0), stop + 1)[:, None]
    lower, upper = marginals.cdf(d, k), marginals.sf(d, k)
    # At a step the quantile is that step, and just beyond it the next.
    assert bool((marginals.icdf(d, lower) == k).all())
    assert bool((marginals.isf(d, upper)[:-1] == k[:-1]).all())
    after = torch.nextafter(lower[:-1], torch.ones(()))
    assert bool((marginals.icdf(d, after) == k[1:]).all())
    before = torch.nextafter(upper[:-1], torch.zeros(()))
    assert bool((marginals.isf(d, before) == k[1:]).all())
    u = torch.linspace(0.001, 0.999, 301)[:, None]
    expected = torch.as_tensor(law.reference.ppf(u.numpy()))
    assert bool((marginals.icdf(d, u) == expected).all())


@pytest.mark.parametrize(
    "d",
    [
        dist.Poisson(torch.tensor([1e9], dtype=torch.float64)),
        dist.NegativeBinomial(torch.tensor([0.05]).double(), logits=torch.tensor([20.0]).double()),
        dist.Binomial(torch.tensor([1e10]).double(), probs=torch.tensor([0.25]).double()),
        dist.Geometric(torch.tensor([1e-9]).double()),
        dist.ZeroInflatedPoisson(torch.tensor([1e8]).double(), gate=torch.tensor([0.3]).double()),
    ],
    ids=lambda d: type(d).__name__,
)
def test_huge_counts(d):
    u = torch.tensor([[1e-12], [0.01], [0.31], [0.5], [0.9], [1 - 1e-12]])
    k = marginals.icdf(d, u)
    assert bool((k == k.floor()).all())
    assert bool((marginals.cdf(d, k) >= u).all())
    assert bool(((marginals.cdf(d, k - 1) < u) | (k == 0)).all())
    k = marginals.isf(d, u)
    assert bool((marginals.sf(d, k) <= u).all())
    assert bool(((marginals.sf(d, k - 1) > u) | (k == 0)).all())


@pytest.mark.parametrize("name", DISCRETE)
def test_float32_quantiles_agree_with_float32_cdf(name):
    d = DISCRETE[name].make(torch.float32)
    k = torch.arange(0, 2 if name == "bernoulli" else 6, dtype=torch.float32)[:, None]
    if name == "poisson_large":
        k = k + 4000
    u = marginals.cdf(d, k)
    assert u.dtype == torch.float32
    assert bool((marginals.icdf(d, u) == k).all())


@pytest.mark.parametrize("name", DISCRETE)
def test_many_draws_use_the_same_definition(name):
    # Enough draws per node for a table, against few at a time, which are searched one by one.
    d = DISCRETE[name].make()
    z = torch.linspace(-6.0, 6.0, 200)[:, None]
    together = marginals.from_normal_score(d, z)
    apart = torch.cat([marginals.from_normal_score(d, part) for part in z.split(10)])
    assert bool((together == apart).all())
    assert bool((marginals.normal_score(d, together) >= z).all())
    earlier = marginals.normal_score(d, together - 1)
    assert bool((earlier < z).all())


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("function", ["icdf", "isf", "from_normal_score"])
def test_quantile_gradients(name, function):
    law = CONTINUOUS[name]
    if function == "from_normal_score":
        u = torch.tensor([[-3.0], [-1.0], [0.3], [2.5]])
    else:
        u = torch.tensor([[1e-4], [0.2], [0.5], [0.97]])
    parameters = [p.requires_grad_() for p in law.tensors()]

    def evaluate(u, *parameters):
        return getattr(marginals, function)(law.build(*parameters), u)

    arguments = (u.requires_grad_(), *parameters)
    assert torch.autograd.gradcheck(evaluate, arguments, eps=1e-6, atol=1e-5, rtol=1e-4)


def test_quantiles_at_the_ends():
    zero, one = torch.zeros(1), torch.ones(1)
    for name, ends in {
        "normal": (-torch.inf, torch.inf),
        "beta": (0, 1),
        "binomial": (0, 12),
    }.items():
        d = LAWS[name].make()
        assert marginals.icdf(d, zero).item() == ends[0]
        assert marginals.icdf(d, one).item() == ends[1]
        assert marginals.isf(d, zero).item() == ends[1]
        assert marginals.from_normal_score(d, torch.tensor([-torch.inf])).item() == ends[0]
        assert bool(torch.isnan(marginals.from_normal_score(d, torch.tensor([torch.nan]))))
    assert marginals.icdf(LAWS["poisson"].make(), one).item() == torch.inf


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_stay_inside_an_open_support(dtype):
    # Rounding alone would put these on the ends, where the normal score is infinite.
    z = torch.tensor([[-9.0], [9.0], [30.0]], dtype=dtype)
    for d in (
        dist.Beta(torch.full((1,), 0.05, dtype=dtype), torch.full((1,), 0.05, dtype=dtype)),
        dist.Uniform(torch.full((1,), -1.0, dtype=dtype), torch.full((1,), 3.0, dtype=dtype)),
        dist.Gamma(torch.full((1,), 0.01, dtype=dtype), torch.full((1,), 1.0, dtype=dtype)),
    ):
        y = marginals.from_normal_score(d, z)
        assert y.dtype == dtype
        marginals.check_support(d, y)
        assert bool(torch.isfinite(marginals.normal_score(d, y)).all())


def test_second_derivatives_are_refused():
    rate = torch.tensor([1.0], requires_grad=True)
    y = marginals.icdf(dist.Gamma(torch.tensor([2.0]), rate), torch.tensor([0.3]))
    (slope,) = torch.autograd.grad(y.sum(), rate, create_graph=True)
    with pytest.raises(SecondOrderError, match="quantile"):
        torch.autograd.grad(slope.sum(), rate)


@pytest.mark.parametrize("bad", [-0.1, 1.2, float("nan")])
def test_not_a_probability(bad):
    with pytest.raises(InvalidArgumentError, match="`u` must be a probability") as error:
        marginals.icdf(LAWS["normal"].make(), torch.tensor([bad]))
    assert "from_normal_score" in str(error.value)


@pytest.mark.parametrize("num_nodes", [1, 7, 50])
def test_a_count_of_zero_is_not_minus_zero(num_nodes):
    # Which zero torch.maximum gives depends on the place within the vector.
    z = torch.linspace(-3, 0, num_nodes)
    counts = marginals.from_normal_score(dist.Poisson(torch.full((num_nodes,), 0.3)), z)
    assert bool((counts == 0).all())
    assert not bool(torch.signbit(counts).any())
