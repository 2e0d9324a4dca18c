"""The contract checks accept what is right and refuse what is wrong."""

from __future__ import annotations

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from laws import LAWS
from scipy import stats

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.linalg import DenseSolver, cholesky_solve
from pyro_copula.testing import SMALL_GRAPHS, check_marginal_law, check_solver
from pyro_copula.testing.contracts import dominant_values
from pyro_copula.testing.rectangle import rectangle_probability


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_every_law_keeps_the_contract(law):
    check_marginal_law(law.build(**law.parameters(3)))


class Triangular(dist.Uniform):
    """A law on (0, 1) with density 2 y, whose cdf is to be registered."""

    def __init__(self, size: int) -> None:
        super().__init__(torch.zeros(size), torch.ones(size))

    def log_prob(self, value):
        return (2 * value).log()


@pytest.mark.parametrize("right", [True, False])
def test_a_registered_law_is_checked(right, monkeypatch):
    from pyro_copula.marginals import registry

    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    power = 2 if right else 3
    pc.marginals.register_cdf(
        Triangular, cdf=lambda d, y: y**power, icdf=lambda d, u: u ** (1 / power)
    )
    if right:
        check_marginal_law(Triangular(2))
    else:
        with pytest.raises(AssertionError, match="d cdf / dy"):
            check_marginal_law(Triangular(2))


class Wrong(DenseSolver):
    """A backend whose log determinant is off by a constant factor."""

    name = "wrong"

    def logdet(self):
        return 1.0001 * super().logdet()


@pytest.mark.parametrize("graph", SMALL_GRAPHS.values(), ids=SMALL_GRAPHS.keys())
@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_backend_is_checked(graph, batch):
    values = dominant_values(graph, batch)
    check_solver(DenseSolver, graph, values)
    with pytest.raises(AssertionError, match=r"wrong, batch .* logdet"):
        check_solver(Wrong, graph, values)


class Mixing(DenseSolver):
    """A backend that takes the dimensions of right-hand sides for those of the batch."""

    name = "mixing"

    def solve(self, b):
        count = self.diagonal.shape[:-1].numel()
        flat = self.factor.reshape(count, *self.factor.shape[-2:])
        return cholesky_solve(flat, b.reshape(-1, count, b.shape[-1])).reshape(b.shape)


def test_a_backend_that_mixes_up_a_batch_is_found_out():
    graph = SMALL_GRAPHS["grid"]
    with pytest.raises(AssertionError, match=r"mixing, batch \(3, 1\), solve: value"):
        check_solver(Mixing, graph)


def test_the_rectangle_rule_says_how_many_nodes_it_takes():
    for n, size in ((13, 13), (2, 3)):
        with pytest.raises(InvalidArgumentError, match=r"shape \(n, n\) with n from 1 to 12"):
            rectangle_probability(np.eye(size), np.zeros(n), np.ones(n))


@pytest.mark.parametrize("n", [2, 5, 10])
def test_the_rectangle_rule_knows_an_orthant(n):
    """With all correlations one half, n variables are all positive once in n + 1 times."""
    found = rectangle_probability(0.5 * (np.eye(n) + 1), np.zeros(n), np.full(n, np.inf))
    assert found.value == pytest.approx(1 / (n + 1), rel=1e-5)
    assert abs(found.value * (n + 1) - 1) < 5 * (n + 1) * found.error + 1e-9


def test_the_rectangle_rule_knows_one_normal_pair():
    """That of scipy, which integrates in another way."""
    covariance = np.array([[1.0, -0.8], [-0.8, 1.0]])
    upper = np.array([0.3, -1.2])
    want = stats.multivariate_normal(cov=covariance).cdf(upper)
    found = rectangle_probability(covariance, np.full(2, -np.inf), upper)
    assert found.value == pytest.approx(want, rel=1e-5)
