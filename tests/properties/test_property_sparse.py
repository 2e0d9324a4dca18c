"""The sparse backend is the dense one, and conditioning takes a joint law apart without loss."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import IGNORE_MIDPOINT, assert_close, graphs, precision_values, problems

import pyro_copula as pc
from pyro_copula.testing import DenseOracle

pytestmark = pytest.mark.filterwarnings(IGNORE_MIDPOINT)


@given(st.data())
def test_the_sparse_factor_is_numpys_inverse(data):
    graph = data.draw(graphs(max_nodes=14))
    diagonal, off = data.draw(precision_values(graph))
    K = pc.SparsePrecision(graph, diagonal, off, backend="sparse")
    matrix = np.diag(diagonal.numpy())
    for (i, j), value in zip(graph.edges, off):
        matrix[i, j] = matrix[j, i] = value
    inverse = np.linalg.inv(matrix)
    b = torch.linspace(-1, 2, graph.num_nodes)
    assert_close(K.logdet(), np.linalg.slogdet(matrix)[1])
    assert_close(K.solve(b), inverse @ b.numpy())
    assert_close(K.variance(), np.diag(inverse))
    variances, covariances = K.selected_inverse()
    assert_close(variances, np.diag(inverse))
    assert_close(covariances, np.array([inverse[i, j] for i, j in graph.edges]))


@given(problems())
def test_both_backends_give_one_density_and_one_gradient(problem):
    results = []
    for backend in ("dense", "sparse"):
        leaves = [v.clone().requires_grad_() for v in (problem.diagonal, problem.off_diagonal)]
        K = pc.SparsePrecision(problem.graph, *leaves, backend=backend)
        copula = pc.GaussianCopula(problem.law.build(**problem.parameters), precision=K)
        pointwise = copula.pointwise_log_prob(problem.y_missing)
        value = copula.log_prob(problem.y_missing) + pointwise.nansum()
        assert torch.isnan(pointwise).equal(~problem.observed)
        results.append((value, *torch.autograd.grad(value, leaves)))
    for dense, sparse in zip(*results):
        # Derivatives of a law that is nearly singular are large, and so is their rounding.
        assert_close(sparse, dense, 1e-7)


@given(problems(min_nodes=2, min_missing=1))
def test_both_backends_predict_the_same(problem):
    dense, sparse = (
        problem.copula(backend).condition(problem.y_missing) for backend in ("dense", "sparse")
    )
    assert sparse.nodes.equal(dense.nodes)
    for name in ("score_mean", "score_scale", "mean", "variance"):
        assert_close(getattr(sparse, name), getattr(dense, name))
    held_out = problem.y[~problem.observed]
    assert_close(sparse.log_prob(held_out), dense.log_prob(held_out))
    assert_close(sparse.marginal_log_prob(held_out), dense.marginal_log_prob(held_out))


@given(problems(min_nodes=2))
def test_a_precision_and_its_correlation_are_one_copula(problem):
    copula = problem.copula("sparse")
    correlation = torch.tensor(DenseOracle(problem.precision().to_dense().numpy()).correlation)
    other = pc.GaussianCopula(copula.marginal_dist, correlation_matrix=correlation)
    assert_close(copula.log_prob(problem.y_missing), other.log_prob(problem.y_missing))


@pytest.mark.parametrize("backend", ["dense", "sparse"])
@given(problem=problems(min_nodes=2, min_missing=1))
def test_conditioning_then_multiplying_is_the_joint_law(backend, problem):
    copula = problem.copula(backend)
    conditional = copula.condition(problem.y_missing)
    rest = conditional.log_prob(problem.y[conditional.nodes])
    assert_close(copula.log_prob(problem.y_missing) + rest, copula.log_prob(problem.y))


@given(problem=problems(min_nodes=2, min_missing=1))
def test_the_chain_rule_node_by_node_is_the_joint_law(problem):
    copula = problem.copula()
    total = copula.log_prob(problem.y_missing)
    y = problem.y_missing
    for node in (~problem.observed).nonzero().squeeze(-1).tolist():
        conditional = copula.condition(y)
        # This node alone; NaN at the other missing ones integrates them out.
        alone = torch.where(conditional.nodes == node, problem.y[node], torch.nan)
        total = total + conditional.log_prob(alone)
        y = torch.where(torch.arange(problem.num_nodes) == node, problem.y, y)
    assert_close(total, copula.log_prob(problem.y))


@given(problem=problems(min_nodes=2))
def test_a_pointwise_term_is_the_joint_law_over_the_law_of_the_others(problem):
    copula = problem.copula("sparse")
    y = problem.y_missing
    pointwise, joint = copula.pointwise_log_prob(y), copula.log_prob(y)
    for node in problem.observed.nonzero().squeeze(-1).tolist():
        others = y.clone()
        others[node] = torch.nan
        if torch.isnan(others).all():
            assert_close(pointwise[node], joint)
        else:
            assert_close(pointwise[node], joint - copula.log_prob(others))
