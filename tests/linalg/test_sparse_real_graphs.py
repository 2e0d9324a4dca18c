"""The sparse backend on the published graphs, against one dense inverse.

Gradients are compared with their closed forms on the pattern, which need no second dense matrix:
differentiating the dense oracle would take minutes.
"""

from __future__ import annotations

import os

import pytest
import scipy.sparse
import torch
from pattern_graphs import REAL_GRAPHS, real_graph

from pyro_copula.linalg import to_dense
from pyro_copula.linalg.sparse import SparseSolver
from pyro_copula.testing.contracts import dominant_values

TOLERANCE = 1e-9

pytestmark = pytest.mark.skipif(
    "PYRO_COPULA_DATA" not in os.environ, reason="PYRO_COPULA_DATA is not set"
)
names = pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n == "squirrel" else ()) for n in REAL_GRAPHS],
)


def assert_near(found, expected):
    assert float((found - expected).abs().max()) <= TOLERANCE * float(expected.abs().max())


def symmetric(graph, diagonal, off):
    """A sparse matrix with these values on the pattern."""
    upper = scipy.sparse.coo_array((off.numpy(), graph.edges.T), shape=(graph.num_nodes,) * 2)
    return (scipy.sparse.diags_array(diagonal.numpy()) + upper + upper.T).tocsr()


def pattern_product(graph, left, right):
    """The entries of ``left @ right.mT`` on the diagonal and, both ways, on the edges."""
    i, j = graph.rows, graph.cols
    diagonal = (left * right).sum(-1)
    parts = zip(i.split(4096), j.split(4096))
    edges = [(left[a] * right[b]).sum(-1) + (left[b] * right[a]).sum(-1) for a, b in parts]
    return diagonal, torch.cat(edges)


@names
def test_values_and_gradients(name):
    graph = real_graph(name)
    diagonal, off = (v.requires_grad_() for v in dominant_values(graph))
    solver = SparseSolver(graph, diagonal, off)
    factor = torch.linalg.cholesky(to_dense(graph, diagonal.detach(), off.detach()))
    inverse = torch.cholesky_inverse(factor)
    selected = inverse.diagonal(), inverse[graph.rows, graph.cols]

    logdet = solver.logdet()
    assert_near(logdet.detach(), 2 * factor.diagonal().log().sum())
    grads = torch.autograd.grad(logdet, (diagonal, off))
    assert_near(grads[0], selected[0])
    assert_near(grads[1], 2 * selected[1])

    b, weight = torch.randn(2, 3, graph.num_nodes)
    x = solver.solve(b)
    assert_near(x.detach(), b @ inverse)
    grads = torch.autograd.grad((x * weight).sum(), (diagonal, off))
    expected = pattern_product(graph, -(weight @ inverse).mT, (b @ inverse).mT)
    for found, value in zip(grads, expected):
        assert_near(found, value)

    found = solver.selected_inverse()
    for one, two in zip(found, selected):
        assert_near(one.detach(), two)
    towards = torch.randn(graph.num_nodes), torch.randn(graph.num_edges)
    grads = torch.autograd.grad(sum((f * t).sum() for f, t in zip(found, towards)), (diagonal, off))
    moved = symmetric(graph, towards[0], towards[1] / 2) @ inverse.numpy()
    expected = pattern_product(graph, -inverse, torch.from_numpy(moved.T.copy()))
    for one, two in zip(grads, expected):
        assert_near(one, two)


@names
def test_schur_diagonal(name):
    graph = real_graph(name)
    diagonal, off = (v.requires_grad_() for v in dominant_values(graph))
    observed = torch.rand(graph.num_nodes) < 0.5
    matrix = to_dense(graph, diagonal.detach(), off.detach())
    cross = matrix[~observed][:, observed]
    weights = torch.linalg.solve(matrix[~observed][:, ~observed], cross)
    found = SparseSolver(graph, diagonal, off).schur_diagonal(observed)
    assert_near(found.detach(), matrix.diagonal()[observed] - (cross * weights).sum(0))

    towards = torch.randn(len(found))
    grads = torch.autograd.grad((found * towards).sum(), (diagonal, off))
    directions = torch.zeros(graph.num_nodes, len(found))  # d Q_ii = v_i' dK v_i
    directions[observed] = torch.eye(len(found))
    directions[~observed] = -weights
    for one, two in zip(grads, pattern_product(graph, directions * towards, directions)):
        assert_near(one, two)


@names
def test_log_density(name):
    graph = real_graph(name)
    diagonal, off = (v.requires_grad_() for v in dominant_values(graph))
    observed = torch.rand(graph.num_nodes) < 0.6
    x = torch.randn(graph.num_nodes, requires_grad=True)
    found = SparseSolver(graph, diagonal, off).log_density(x, observed)

    # By the covariance of the observed nodes, which the sparse path never forms.
    covariance = torch.linalg.inv(to_dense(graph, diagonal.detach(), off.detach()))
    inner = torch.linalg.inv(covariance[observed][:, observed])
    pull = inner @ x.detach()[observed]
    assert_near(found.detach(), (torch.linalg.slogdet(inner)[1] - x.detach()[observed] @ pull) / 2)
    grads = torch.autograd.grad(found, (diagonal, off, x))
    expected = torch.zeros(graph.num_nodes)
    expected[observed] = -pull
    assert_near(grads[2], expected)
    spread = covariance[:, observed] @ torch.linalg.cholesky(inner)
    moved = covariance[:, observed] @ pull
    left = torch.cat([spread, moved[:, None]], -1)
    right = torch.cat([spread, -moved[:, None]], -1)
    for one, two in zip(grads[:2], pattern_product(graph, left / 2, right)):
        assert_near(one, two)
