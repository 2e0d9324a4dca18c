"""What must not matter does not: names of nodes, bystanders, repetition, the shape of a batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import (
    IGNORE_MIDPOINT,
    assert_close,
    graphs,
    missing_patterns,
    precision_values,
    problems,
)

import pyro_copula as pc

pytestmark = pytest.mark.filterwarnings(IGNORE_MIDPOINT)

BACKENDS = pytest.mark.parametrize("backend", ["dense", "sparse"])


@BACKENDS
@given(data=st.data())
def test_permuting_nodes_permutes_results(backend, data):
    problem = data.draw(problems(min_nodes=2, min_missing=1))
    order = torch.tensor(data.draw(st.permutations(range(problem.num_nodes))))
    other = problem.take(order)
    first, second = problem.copula(backend), other.copula(backend)
    assert_close(second.precision.variance(), first.precision.variance()[order])
    assert_close(second.log_prob(other.y_missing), first.log_prob(problem.y_missing))
    assert_close(
        second.pointwise_log_prob(other.y_missing),
        first.pointwise_log_prob(problem.y_missing)[order],
    )
    before, after = first.condition(problem.y_missing), second.condition(other.y_missing)
    place = {int(node): k for k, node in enumerate(before.nodes)}
    index = torch.tensor([place[int(order[node])] for node in after.nodes])
    for name in ("score_mean", "score_scale", "mean", "variance"):
        assert_close(getattr(after, name), getattr(before, name)[index])


@BACKENDS
@given(problem=problems(min_nodes=2))
def test_the_pieces_of_a_graph_add_their_log_densities(backend, problem):
    labels = torch.as_tensor(problem.graph.components)
    total, logdet = torch.zeros(()), torch.zeros(())
    for label in labels.unique():
        piece = problem.take((labels == label).nonzero().squeeze(-1))
        logdet = logdet + piece.precision(backend).logdet()
        if piece.observed.any():
            total = total + piece.copula(backend).log_prob(piece.y_missing)
    assert_close(problem.precision(backend).logdet(), logdet)
    assert_close(problem.copula(backend).log_prob(problem.y_missing), total)


@BACKENDS
@given(problem=problems(min_nodes=2, min_missing=1))
def test_a_missing_isolated_node_changes_nothing(backend, problem):
    other = problem.with_isolated_node()
    first, second = problem.copula(backend), other.copula(backend)
    assert_close(second.log_prob(other.y_missing), first.log_prob(problem.y_missing))
    pointwise = second.pointwise_log_prob(other.y_missing)
    assert_close(pointwise[:-1], first.pointwise_log_prob(problem.y_missing))
    assert torch.isnan(pointwise[-1])
    before, after = first.condition(problem.y_missing), second.condition(other.y_missing)
    assert_close(after.mean[:-1], before.mean)
    assert_close(after.quantile(0.9)[:-1], before.quantile(0.9))
    # And nothing is learned about it: its law is its marginal.
    assert_close(after.score_mean[-1], 0.0)
    assert_close(after.score_scale[-1], 1.0)


@BACKENDS
@given(problem=problems(min_nodes=2, min_missing=1))
def test_factoring_the_same_values_again_gives_the_same_bits(backend, problem):
    def everything():
        leaves = [v.clone().requires_grad_() for v in (problem.diagonal, problem.off_diagonal)]
        graph = pc.Graph(problem.graph.edges, problem.num_nodes)  # with nothing remembered
        K = pc.SparsePrecision(graph, *leaves, backend=backend)
        copula = pc.GaussianCopula(problem.law.build(**problem.parameters), precision=K)
        value = copula.log_prob(problem.y_missing)
        conditional = copula.condition(problem.y_missing)
        torch.manual_seed(7)
        return [
            value,
            K.variance(),
            copula.pointwise_log_prob(problem.y_missing)[problem.observed],
            conditional.mean,
            conditional.sample((2,)),
            # Without an edge nothing depends on the precision.
            *(torch.autograd.grad(value, leaves) if problem.graph.num_edges else ()),
        ]

    for first, second in zip(everything(), everything(), strict=True):
        assert torch.equal(first, second)


@BACKENDS
@given(data=st.data())
def test_a_batch_is_a_loop(backend, data):
    problem = data.draw(problems(min_nodes=2))
    n, size = problem.num_nodes, data.draw(st.integers(1, 4))
    values = [data.draw(precision_values(problem.graph)) for _ in range(size)]
    rows = [data.draw(missing_patterns(n)) for _ in range(size)]
    y = torch.stack([problem.y.masked_fill(~row, torch.nan) for row in rows])
    law = problem.law.build(**problem.parameters)
    K = pc.SparsePrecision(problem.graph, *(torch.stack(v) for v in zip(*values)), backend=backend)
    batch = pc.GaussianCopula(law, precision=K)
    single = [
        pc.GaussianCopula(law, precision=pc.SparsePrecision(problem.graph, *v, backend=backend))
        for v in values
    ]
    assert batch.batch_shape == (size,)
    loop = torch.stack([c.log_prob(row) for c, row in zip(single, y)])
    assert_close(batch.log_prob(y), loop)
    loop = torch.stack([c.pointwise_log_prob(row) for c, row in zip(single, y)])
    assert_close(batch.pointwise_log_prob(y), loop)
    # Every value under every precision: values lead, precisions follow.
    table = torch.stack([torch.stack([c.log_prob(row) for c in single]) for row in y])
    assert_close(batch.log_prob(y.unsqueeze(1)), table)


@BACKENDS
@given(data=st.data())
def test_right_hand_sides_and_predictions_in_a_batch_are_a_loop(backend, data):
    problem = data.draw(problems(min_nodes=2, min_missing=1))
    K = problem.precision(backend)
    b = torch.tensor(np.random.default_rng(0).normal(size=(2, 3, problem.num_nodes)))
    loop = torch.stack([torch.stack([K.solve(v) for v in row]) for row in b])
    assert_close(K.solve(b), loop)
    copula = problem.copula(backend)
    median = torch.tensor(problem.law.frozen(problem.parameters).ppf(0.5))
    y = torch.stack([problem.y, median]).masked_fill(~problem.observed, torch.nan)
    batch = copula.condition(y)
    for k in range(2):
        one = copula.condition(y[k])
        assert_close(batch.mean[k], one.mean)
        assert_close(batch.quantile(0.1)[k], one.quantile(0.1))


@given(data=st.data())
def test_a_factor_of_the_precision_does_not_change_the_copula(data):
    problem = data.draw(problems())
    factor = 2.0 ** data.draw(st.integers(-60, 60))  # a power of two rounds nothing
    K = problem.precision("sparse")
    law = problem.law.build(**problem.parameters)
    first, second = (pc.GaussianCopula(law, precision=p) for p in (K, K * factor))
    assert_close(second.log_prob(problem.y_missing), first.log_prob(problem.y_missing))


@given(graph=graphs(min_nodes=2))
def test_a_graph_does_not_depend_on_how_its_edges_are_told(graph):
    edges = graph.edges
    told = np.concatenate([edges[::-1, ::-1], edges, np.array([[0, 0]])])
    assert pc.Graph.from_edges(told, num_nodes=graph.num_nodes) == graph
    assert pc.Graph.from_edge_index(graph.edge_index, num_nodes=graph.num_nodes) == graph
    assert pc.Graph.from_scipy(graph.to_scipy()) == graph
