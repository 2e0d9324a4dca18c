"""Composite log likelihoods against exact ones and against dense matrices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyro.distributions as dist
import pytest
import torch
from scipy import stats

import pyro_copula as pc
from pyro_copula.errors import CutWarning, InvalidArgumentError
from pyro_copula.testing.oracle import DenseOracle

#: A path of three, a triangle, a pair and a single node: nothing lies between them.
APART = pc.Graph.from_edges([(0, 3), (3, 6), (1, 2), (2, 8), (1, 8), (4, 7)], num_nodes=9)
#: The same and three edges between them.
JOINED = pc.Graph.from_edges(
    [*APART.edges.tolist(), (0, 1), (5, 4), (6, 8)],
    num_nodes=9,
)
BLOCKS = APART.components
Y = torch.tensor([1.2, 0.4, math.nan, 2.0, 0.7, 1.5, 0.3, math.nan, 3.1], dtype=torch.float64)


def laws(graph: pc.Graph, rho: torch.Tensor, a: torch.Tensor) -> dict:
    K = pc.CARPrecision(graph)(rho=rho, tau=1.3)
    shape = a + torch.arange(9.0) / 9
    gamma = dist.Gamma(shape, 1.0)
    poisson = dist.Poisson(6 * shape)
    return {
        "normal": pc.GraphNormal(shape, K),
        "normal, nugget": pc.GraphNormal(shape, K, nugget=0.4),
        "gamma": pc.GaussianCopula(gamma, K),
        "gamma, nugget": pc.GaussianCopula(gamma, K, nugget=0.3),
        "gamma, sparse": pc.GaussianCopula(gamma, pc.CARPrecision(graph, backend="sparse")(rho)),
        "midpoint": pc.GaussianCopula(poisson, K),
        "ep": pc.GaussianCopula(poisson, K, discrete="ep"),
        "exact": pc.GaussianCopula(poisson, K, discrete="exact"),
    }


NAMES = list(laws(APART, torch.tensor(0.8), torch.tensor(2.0)))
DISCRETE = {"midpoint", "ep", "exact"}


def value_for(name: str) -> torch.Tensor:
    return (6 * Y).round() if name in DISCRETE else Y


@pytest.fixture
def parameters():
    return (torch.tensor(0.8, requires_grad=True), torch.tensor(2.0, requires_grad=True))


def value_and_gradients(log_prob, parameters):
    return torch.stack([log_prob, *torch.autograd.grad(log_prob, parameters, retain_graph=True)])


@pytest.mark.parametrize("name", NAMES)
def test_without_cut_edges_it_is_the_log_density(name, parameters):
    y, blocks = value_for(name), pc.Partition(APART, BLOCKS)
    law = laws(APART, *parameters)[name]
    exact = value_and_gradients(law.log_prob(y), parameters)
    composite = value_and_gradients(law.composite_log_prob(y, blocks), parameters)
    torch.testing.assert_close(composite, exact, rtol=1e-9, atol=1e-9)
    one = pc.Partition(APART, torch.zeros(9, dtype=torch.long))
    composite = value_and_gradients(law.composite_log_prob(y, one), parameters)
    torch.testing.assert_close(composite, exact, rtol=1e-9, atol=1e-9)


def block_diagonal(law) -> np.ndarray:
    """The dense precision without its entries between blocks, the diagonal of the whole kept."""
    K = law.precision.to_dense().detach().numpy()
    return K * (BLOCKS[:, None] == BLOCKS[None, :])


@pytest.mark.parametrize("name", ["normal", "normal, nugget"])
def test_with_cut_edges_a_normal_has_the_dense_block_diagonal_precision(name, parameters):
    law = laws(JOINED, *parameters)[name]
    covariance = np.linalg.inv(block_diagonal(law)) + (0.4 if "nugget" in name else 0) * np.eye(9)
    seen = ~torch.isnan(Y).numpy()
    expected = stats.multivariate_normal(
        law.loc.detach().numpy()[seen], covariance[np.ix_(seen, seen)]
    ).logpdf(Y.numpy()[seen])
    with pytest.warns(CutWarning, match=r"leaves out 33.3% of the edges"):
        found = law.composite_log_prob(Y, pc.Partition(JOINED, BLOCKS))
    assert float(found.detach()) == pytest.approx(expected, abs=1e-9)
    assert abs(float(law.log_prob(Y).detach()) - expected) > 0.01


@pytest.mark.parametrize("name", ["gamma", "gamma, sparse"])
def test_with_cut_edges_a_copula_has_the_dense_block_diagonal_precision(name, parameters):
    law = laws(JOINED, *parameters)[name]
    seen = ~torch.isnan(Y).numpy()
    filled, shape = np.nan_to_num(Y.numpy(), nan=1.0), law.marginal_dist.concentration.detach()
    gamma = stats.gamma(shape.numpy())
    z, density = stats.norm.ppf(gamma.cdf(filled)), gamma.logpdf(filled)
    expected = DenseOracle(block_diagonal(law)).log_prob(z, density, seen)
    with pytest.warns(CutWarning):
        found = law.composite_log_prob(Y, pc.Partition(JOINED, BLOCKS))
    assert float(found.detach()) == pytest.approx(expected, abs=1e-9)
    assert abs(float(law.log_prob(Y).detach()) - expected) > 0.01


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.CutWarning")
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"exact"}))
@pytest.mark.parametrize("size", [1, 2, 3])
def test_minibatches_are_unbiased(name, size, parameters):
    """The mean over all subsets is the whole, in value and gradients: block 3 has no value."""
    y, blocks = value_for(name).clone(), pc.Partition(JOINED, BLOCKS)
    y[5] = math.nan
    assert blocks.num_blocks == 4
    law = laws(JOINED, *parameters)[name]
    whole = value_and_gradients(law.composite_log_prob(y, blocks), parameters)
    some = []
    for subset in itertools.combinations(range(4), size):
        part = laws(JOINED, *parameters)[name].composite_log_prob(y, blocks, blocks=subset)
        found = torch.autograd.grad(part, parameters, allow_unused=True)
        some.append(torch.stack([part, *(torch.zeros(()) if g is None else g for g in found)]))
    assert len(some) == math.comb(4, size)
    torch.testing.assert_close(torch.stack(some).mean(0), whole, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.CutWarning")
@pytest.mark.parametrize("name", ["normal", "gamma", "midpoint"])
def test_batches_of_laws_and_values_with_missing_nodes_of_their_own(name):
    rho = torch.tensor([[0.2], [0.9]])
    K = pc.CARPrecision(JOINED)(rho=rho, tau=1.0)
    blocks = pc.Partition(JOINED, BLOCKS)

    def make(precision):
        if name == "normal":
            return pc.GraphNormal(torch.ones(9), precision)
        marginal = dist.Gamma(torch.full((9,), 2.0), 1.0)
        poisson = dist.Poisson(torch.full((9,), 9.0))
        return pc.GaussianCopula(poisson if name == "midpoint" else marginal, precision)

    values = torch.stack([value_for(name), value_for(name).roll(1)])
    found = make(K).composite_log_prob(values, blocks, blocks=[0, 1])
    assert found.shape == (2, 2)
    for i, j in itertools.product(range(2), range(2)):
        one = make(pc.CARPrecision(JOINED)(rho=rho[i, 0], tau=1.0))
        expected = one.composite_log_prob(values[j], blocks, blocks=[0, 1])
        torch.testing.assert_close(found[i, j], expected, rtol=1e-9, atol=1e-9)


def test_bad_input():
    law = laws(JOINED, torch.tensor(0.8), torch.tensor(2.0))["gamma"]
    with pytest.raises(InvalidArgumentError, match="`partition` must be a Partition, but found"):
        law.composite_log_prob(Y, BLOCKS)
    with pytest.raises(InvalidArgumentError, match="`partition` must be of the graph of the"):
        law.composite_log_prob(Y, pc.Partition(APART, BLOCKS))
    dense = pc.GaussianCopula(dist.Normal(torch.zeros(2), 1.0), correlation_matrix=torch.eye(2))
    with pytest.raises(InvalidArgumentError, match="but found a correlation matrix"):
        dense.composite_log_prob(torch.zeros(2), pc.Partition(JOINED, BLOCKS))
    uncut = laws(APART, torch.tensor(0.8), torch.tensor(2.0))["gamma"]
    with pytest.raises(InvalidArgumentError, match="`blocks` must be different numbers"):
        uncut.composite_log_prob(Y, pc.Partition(APART, BLOCKS), blocks=[4])
    with pytest.raises(InvalidArgumentError, match="`y` must be of shape"):
        uncut.composite_log_prob(Y[:3], pc.Partition(APART, BLOCKS))
    augmented = pc.GaussianCopula(
        dist.Poisson(torch.ones(9)), uncut.precision, discrete="augment", scores=torch.zeros(9)
    )
    with pytest.raises(InvalidArgumentError, match="`discrete` must be"):
        augmented.composite_log_prob(torch.ones(9), pc.Partition(APART, BLOCKS))
