"""A batch of laws is its elements, wherever in its shape the precision has size one.

A parameter of an outer plate has shape ``(3, 1)`` where the data of an inner one have ``(3, 4)``.
"""

from __future__ import annotations

import itertools
import math

import networkx as nx
import pyro.distributions as dist
import pytest
import torch

import pyro_copula as pc
from pyro_copula.linalg import Iterative
from pyro_copula.testing import SMALL_GRAPHS

#: Without noise: a small graph has no more nodes than this has eigenvectors.
EXACT = Iterative(dtype=torch.float64, tolerance=1e-12, solve_tolerance=1e-12, num_probes=16)
#: Five standard errors of a correlation of independent draws; it is exceeded once in 1e6 times.
DRAWS, BOUND = 400, 5 / 400**0.5

GRAPH = SMALL_GRAPHS["grid"]
WIDE = (3, 4)
BACKENDS = pytest.mark.parametrize(
    "backend", ["dense", "sparse", EXACT], ids=["dense", "sparse", "iterative"]
)
KINDS = pytest.mark.parametrize("kind", ["normal", "normal with nugget", "gamma", "poisson"])
SHAPES = pytest.mark.parametrize("batch", [(3, 1), (1, 4)])


def law(kind, rho, loc, backend="dense", graph=GRAPH):
    K = pc.CARPrecision(graph, backend=backend)(rho=rho, tau=torch.tensor(2.0))
    if kind == "gamma":
        return pc.GaussianCopula(dist.Gamma(loc.exp(), 1.0), precision=K)
    if kind == "poisson":
        return pc.GaussianCopula(dist.Poisson(3 + loc.exp()), precision=K)
    return pc.GraphNormal(loc, K, nugget=0.3 if kind == "normal with nugget" else None)


def parameters(batch):
    torch.manual_seed(1)
    return (2 * torch.rand(batch) - 1).mul(0.95).requires_grad_(), torch.randn(*WIDE, 9)


def values(common):
    """Values with missing nodes: the same ones everywhere, or some at random."""
    y = 1.0 + torch.arange(2 * math.prod(WIDE) * 9).reshape(2, *WIDE, 9) % 5
    if common:
        y[..., 1] = y[..., 5] = math.nan
        return y
    return y.masked_fill(torch.rand(y.shape) < 0.2, math.nan)


def one_by_one(kind, rho, loc, y, function):
    """The same of each element by itself, on the dense backend."""
    rho = rho.expand(WIDE)
    rows = [
        torch.stack([function(law(kind, rho[at], loc[at]), y[k][at]) for k in range(len(y))])
        for at in itertools.product(*map(range, WIDE))
    ]
    return torch.stack(rows, 1).unflatten(1, WIDE)


FUNCTIONS = {
    "log_prob": lambda law, y: law.log_prob(y),
    "pointwise": lambda law, y: law.pointwise_log_prob(y),
    "leave_one_out": lambda law, y: law.leave_one_out(y).cdf(),
    "mean": lambda law, y: law.condition(y).mean,
    "quantile": lambda law, y: law.condition(y).quantile(0.3),
    "held out": lambda law, y: law.condition(y).log_prob(torch.full((2,), 2.0)),
}


def with_gradient(result, rho):
    """The result and, if it has one, the derivative of a sum with a weight of its own for each."""
    if not result.requires_grad:
        return [result]
    weight = torch.linspace(-1, 1, result.numel()).reshape(result.shape)
    return [result.detach(), torch.autograd.grad((result * weight).nansum(), rho)[0]]


@BACKENDS
@KINDS
@SHAPES
def test_a_batch_is_its_elements_in_values_and_gradients(batch, kind, backend):
    y = values(common=True)
    for function in FUNCTIONS.values():
        rho, loc = parameters(batch)
        found = with_gradient(function(law(kind, rho, loc, backend), y), rho)
        expected = with_gradient(one_by_one(kind, rho, loc, y, function), rho)
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8, equal_nan=True)


@BACKENDS
@KINDS
def test_missing_nodes_may_differ_from_row_to_row(kind, backend):
    rho, loc = parameters((3, 1))
    y = values(common=False)
    for name in ("log_prob", "pointwise"):
        found = FUNCTIONS[name](law(kind, rho, loc, backend), y)
        expected = one_by_one(kind, rho, loc, y, FUNCTIONS[name])
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-8, equal_nan=True)


@BACKENDS
@pytest.mark.parametrize("kind", ["normal", "gamma"])
def test_draws_have_the_dependence_of_their_element(kind, backend):
    graph = pc.Graph.from_edges([(0, 1)])
    rho = torch.tensor([[-0.9], [0.0], [0.9]])
    K = pc.CARPrecision(graph, backend=backend)(rho=rho, tau=torch.tensor([[0.01], [1.0], [100.0]]))
    if kind == "normal":
        drawn = pc.GraphNormal(torch.zeros(*WIDE, 2), K).sample((DRAWS,))
        sd = drawn.std(0).log()
        torch.testing.assert_close(sd, K.scale().log().expand(sd.shape), rtol=0, atol=BOUND)
    else:
        drawn = pc.GaussianCopula(dist.Normal(torch.zeros(*WIDE, 2), 1.0), K).sample((DRAWS,))
    score = drawn - drawn.mean(0)
    score = score / score.square().sum(0).sqrt()
    found = (score[..., 0] * score[..., 1]).sum(0)
    torch.testing.assert_close(found, rho.expand(WIDE), rtol=0, atol=BOUND)


@pytest.mark.parametrize("kind", ["normal", "gamma"])
def test_standard_errors_are_those_of_the_element(kind):
    graph = pc.Graph.from_networkx(nx.barabasi_albert_graph(60, 3, seed=0))
    few = Iterative(num_probes=4, rank=1, seed=0)
    rho, _ = parameters((3, 1))
    loc = torch.randn(*WIDE, 60)
    y = loc.exp().masked_fill(torch.arange(60) % 3 == 1, math.nan)
    together = law(kind, rho.detach(), loc, few, graph).log_prob_error(y)
    assert float(together.min()) > 1e-6  # there is noise
    for k in range(WIDE[1]):
        alone = law(kind, rho.detach()[:, 0], loc[:, k], few, graph).log_prob_error(y[:, k])
        torch.testing.assert_close(together[:, k], alone)
