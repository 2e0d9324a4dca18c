"""The sparse engine gives what the dense oracle gives, through the distributions."""

from __future__ import annotations

import math

import numpy as np
import pyro.distributions as dist
import pytest
import torch

import pyro_copula as pc
from pyro_copula.errors import MemoryLimitError, SecondOrderError
from pyro_copula.linalg import choose_backend, resources
from pyro_copula.testing import SMALL_GRAPHS

TOLERANCE = 1e-9


def random_graph(seed):
    """A sparse random graph with isolated nodes and several components."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    return pc.Graph.from_edges(rng.integers(0, n, size=(int(rng.integers(0, 2 * n)), 2)), n)


GRAPHS = [*SMALL_GRAPHS.values(), *(random_graph(seed) for seed in range(12))]


def laws(graph, backend, alpha, beta, nugget, mean):
    """One law of each kind, as functions of leaves that take derivatives."""
    K = pc.NormalizedAdjacencyPrecision(graph, backend=backend)(alpha=alpha, beta=beta)
    return {
        "normal": pc.GraphNormal(mean, precision=K),
        "normal with nugget": pc.GraphNormal(mean, precision=K, nugget=nugget),
        "poisson": pc.GaussianCopula(dist.Poisson(3 + mean.square()), precision=K),
        "gamma with nugget": pc.GaussianCopula(
            dist.Gamma(1 + mean.square(), 1.0), precision=K, nugget=nugget
        ),
    }


def everything(graph, backend, observed):
    """Values and gradients of all that can be asked of the laws."""
    results = {}
    for name in laws(graph, backend, *leaves(graph)):
        parameters = leaves(graph)
        law = laws(graph, backend, *parameters)[name]
        y = 1 + torch.arange(graph.num_nodes) % 5
        y = y.double().masked_fill(~observed, math.nan)
        value = law.log_prob(y) + law.pointwise_log_prob(y).nansum()
        results[name, "log_prob"] = value.detach()
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
        for k, gradient in enumerate(gradients):
            if gradient is not None:
                results[name, f"gradient {k}"] = gradient
        if not observed.all():
            conditional = law.condition(y)
            results[name, "mean"] = conditional.mean.detach()
            results[name, "variance"] = conditional.variance.detach()
            results[name, "interval"] = torch.stack(conditional.interval(0.9)).detach()
            held_out = torch.full((len(conditional.nodes),), 2.0)
            results[name, "held out"] = conditional.log_prob(held_out).detach()
    return results


def leaves(graph):
    mean = torch.linspace(-1, 1, graph.num_nodes)
    return [torch.tensor(v, requires_grad=True) for v in (0.8, 1.3, 0.4)] + [mean.requires_grad_()]


@pytest.mark.parametrize("k", range(len(GRAPHS)))
@pytest.mark.parametrize("share", [1.0, 0.6, 0.1])
def test_sparse_equals_dense(k, share):
    graph = GRAPHS[k]
    observed = torch.tensor(np.random.default_rng(k).random(graph.num_nodes) < share)
    observed[0] = True
    dense, sparse = (everything(graph, backend, observed) for backend in ("dense", "sparse"))
    assert dense.keys() == sparse.keys()
    for key, expected in dense.items():
        size = max(1.0, float(expected.abs().max()))
        error = float((sparse[key] - expected).abs().max()) / size
        assert error < TOLERANCE, f"{key}: {error:.1e}"


def test_draws_have_the_covariance():
    graph = SMALL_GRAPHS["grid"]
    K = pc.CARPrecision(graph, backend="sparse")(rho=0.9, tau=1.0)
    noise = torch.eye(9)
    root = K.color(noise)  # rows are columns of A
    torch.testing.assert_close(root.mT @ root, torch.linalg.inv(K.to_dense()))
    y = torch.linspace(-1, 1, 9)
    y[2:5] = math.nan
    draws = pc.GraphNormal(torch.zeros(9), precision=K).condition(y).sample((1000,))
    assert draws.shape == (1000, 3)


def test_batches_of_precisions_with_different_patterns():
    graph = SMALL_GRAPHS["grid"]
    y = torch.arange(54.0).reshape(3, 2, 9) % 7
    y[0, 0, 1] = y[1, 1, 4] = y[2, 0, :3] = math.nan
    found = {}
    for backend in ("dense", "sparse"):
        rho = torch.tensor([0.5, 0.9], requires_grad=True)
        K = pc.CARPrecision(graph, backend=backend)(rho=rho, tau=1.0)
        value = pc.GaussianCopula(dist.Poisson(torch.full((9,), 3.0)), precision=K).log_prob(y)
        found[backend] = (value.detach(), torch.autograd.grad(value.sum(), rho)[0])
    for dense, sparse in zip(found["dense"], found["sparse"]):
        torch.testing.assert_close(sparse, dense)


@pytest.mark.parametrize("kind", ["normal", "missing", "nugget", "copula"])
def test_second_derivatives_are_refused_not_wrong(kind):
    graph = SMALL_GRAPHS["grid"]
    a = torch.tensor(0.3, requires_grad=True)
    K = pc.LaplacianPrecision(graph, backend="sparse")(tau=a.exp(), gamma=0.5)
    y = torch.linspace(0.5, 2, 9)
    if kind != "normal":
        y[3] = math.nan
    if kind == "copula":
        law = pc.GaussianCopula(dist.LogNormal(torch.zeros(9), 1.0), precision=K)
    else:
        law = pc.GraphNormal(torch.zeros(9), K, nugget=0.3 if kind == "nugget" else None)
    (first,) = torch.autograd.grad(law.log_prob(y), a, create_graph=True)
    with pytest.raises(SecondOrderError, match="dense"):
        torch.autograd.grad(first, a)


def test_auto_chooses_from_the_analysis_and_says_so():
    small = SMALL_GRAPHS["grid"]
    clique = pc.Graph.from_edges([(i, j) for i in range(150) for j in range(i)])
    path = pc.Graph.from_edges([(i, i + 1) for i in range(300)])
    assert choose_backend(small, "auto") == "dense"
    assert choose_backend(path, "auto") == "sparse"
    assert choose_backend(small, "sparse") == "sparse"
    assert "backend='sparse'" in repr(pc.CARPrecision(path)())
    assert "backend='dense'" in repr(pc.CARPrecision(small)())
    K = pc.CARPrecision(clique)()
    assert K.solver.name == choose_backend(clique, "auto")
    torch.testing.assert_close(K.logdet(), torch.logdet(K.to_dense()))


def test_a_dense_factor_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(resources, "available_memory", lambda: 2**30)
    path = pc.Graph.from_edges([(i, i + 1) for i in range(20_000)])
    K = pc.CARPrecision(path, backend="dense")()
    with pytest.raises(MemoryLimitError, match=r"17\.9 GiB(.|\n)*backend=\"sparse\""):
        K.logdet()
    assert math.isfinite(float(pc.CARPrecision(path, backend="sparse")().logdet().detach()))


def test_bitwise_the_same_twice():
    graph = random_graph(3)
    runs = []
    for _ in range(2):
        parameters = leaves(graph)
        law = laws(graph, "sparse", *parameters)["poisson"]
        y = torch.arange(graph.num_nodes).double() % 4
        y[1] = math.nan
        value = law.log_prob(y)
        gradients = torch.autograd.grad(value, parameters, allow_unused=True)
        runs.append([value.detach(), *[g for g in gradients if g is not None]])
    assert all(torch.equal(a, b) for a, b in zip(*runs))
