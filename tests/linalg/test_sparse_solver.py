"""The sparse backend against the dense oracle: values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pattern_graphs import NUM_RANDOM, grid_graph, medium_graphs, random_graph

from pyro_copula.graph import Graph
from pyro_copula.linalg import DenseSolver, to_dense
from pyro_copula.linalg.sparse import SparseSolver
from pyro_copula.linalg.symbolic import Symbolic
from pyro_copula.testing.contracts import check_solver, dominant_values
from pyro_copula.testing.graphs import SMALL_GRAPHS

MEDIUM_GRAPHS = medium_graphs()


def everything(solver, b, observed):
    """Each operation's result, for comparing two solvers."""
    return {
        "logdet": solver.logdet(),
        "solve": solver.solve(b),
        "half_solve": solver.half_solve(b),
        "inverse_diagonal": solver.inverse_diagonal(),
        "selected_inverse": torch.cat(solver.selected_inverse(), -1),
        "schur_diagonal": solver.schur_diagonal(observed),
    }


def with_gradients(graph, diagonal, off, b, observed):
    """Every result, and the gradients of a function of all of them."""
    leaves = [v.clone().requires_grad_() for v in (diagonal, off)]
    results = everything(SparseSolver(graph, *leaves), b, observed)
    grads = torch.autograd.grad(sum(r.sin().sum() for r in results.values()), leaves)
    return [*(r.detach() for r in results.values()), *grads]


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_small_graphs(name, batch):
    graph = SMALL_GRAPHS[name]
    check_solver(SparseSolver, graph, dominant_values(graph, batch))


@pytest.mark.parametrize("chunk", range(8))
def test_random_graphs(chunk):
    for seed in range(chunk, NUM_RANDOM, 8):
        graph = random_graph(seed)
        check_solver(SparseSolver, graph, dominant_values(graph, seed=seed))


@pytest.mark.parametrize("name", MEDIUM_GRAPHS)
def test_fronts_large_enough_for_blas(name):
    check_solver(SparseSolver, MEDIUM_GRAPHS[name])


@pytest.mark.parametrize("num_nodes", [1, 2, 7])
def test_no_edges(num_nodes):
    check_solver(SparseSolver, Graph(np.zeros((0, 2), dtype=int), num_nodes))


@pytest.mark.parametrize("name", MEDIUM_GRAPHS)
def test_minimum_degree_order(name):
    graph = Graph(MEDIUM_GRAPHS[name].edges, MEDIUM_GRAPHS[name].num_nodes)
    graph.cached("symbolic", lambda: Symbolic(graph, "minimum_degree"))
    check_solver(SparseSolver, graph)


@pytest.mark.parametrize("share", [0.0, 0.03, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("name", ["grid", "dense"])
def test_schur_diagonal_at_any_share_of_observed_nodes(name, share):
    graph = MEDIUM_GRAPHS[name]
    observed = torch.rand(graph.num_nodes) < share
    weight = torch.randn(int(observed.sum()))
    results = []
    for kind in (DenseSolver, SparseSolver):
        leaves = [v.requires_grad_() for v in dominant_values(graph)]
        value = kind(graph, *leaves).schur_diagonal(observed)
        assert value.shape == weight.shape
        grads = torch.autograd.grad((value * weight).sum(), leaves, materialize_grads=True)
        results.append([value.detach(), *grads])
    for expected, found in zip(*results):
        scale = float(expected.abs().max()) if expected.numel() else 1.0
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10 * max(scale, 1e-300))


@pytest.mark.parametrize("columns", [1, 2, 63, 64, 65, 200])
def test_many_right_hand_sides(columns):
    graph = MEDIUM_GRAPHS["power_law"]
    diagonal, off = dominant_values(graph)
    b = torch.randn(columns, graph.num_nodes)
    found = SparseSolver(graph, diagonal, off).solve(b)
    expected = torch.linalg.solve(to_dense(graph, diagonal, off), b.mT).mT
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ["grid", "dense", "star"])
def test_half_solve_is_a_square_root_of_the_inverse(name):
    graph = MEDIUM_GRAPHS[name]
    diagonal, off = dominant_values(graph)
    root = SparseSolver(graph, diagonal, off).half_solve(torch.eye(graph.num_nodes)).mT
    inverse = torch.linalg.inv(to_dense(graph, diagonal, off))
    torch.testing.assert_close(root @ root.mT, inverse, rtol=1e-10, atol=1e-13)


def test_half_solve_is_differentiable_in_its_argument():
    graph = SMALL_GRAPHS["grid"]
    solver = SparseSolver(graph, *dominant_values(graph))
    b = torch.randn(3, graph.num_nodes, requires_grad=True)
    assert torch.autograd.gradcheck(solver.half_solve, (b,))


def test_one_right_hand_side_is_shared_by_a_batch():
    graph = SMALL_GRAPHS["grid"]
    diagonal, off = dominant_values(graph, (4,))
    results = []
    for kind in (DenseSolver, SparseSolver):
        b = torch.linspace(-1, 1, graph.num_nodes).requires_grad_()
        x = kind(graph, diagonal, off).solve(b.expand(4, -1) if kind is DenseSolver else b)
        results.append((x, *torch.autograd.grad(x.sin().sum(), b)))
    for expected, found in zip(*results):
        torch.testing.assert_close(found, expected)


def test_a_batch_equals_its_elements():
    graph = grid_graph(12)
    diagonal, off = dominant_values(graph, (3,))
    observed = torch.rand(graph.num_nodes) < 0.5
    b = torch.randn(5, 3, graph.num_nodes)
    together = with_gradients(graph, diagonal, off, b, observed)
    for k in range(3):
        alone = with_gradients(graph, diagonal[k], off[k], b[:, k], observed)
        for whole, part in zip(together, alone):
            dim = 1 if whole.dim() == 3 else 0
            assert torch.equal(whole.select(dim, k), part)


@pytest.mark.parametrize("name", ["grid", "dense"])
def test_the_same_bits_twice(name):
    graph = MEDIUM_GRAPHS[name]
    diagonal, off = dominant_values(graph)
    observed = torch.rand(graph.num_nodes) < 0.5
    b = torch.randn(10, graph.num_nodes)
    first = with_gradients(graph, diagonal, off, b, observed)
    for arrays in graph.cached("pool", None)._free.values():
        for array in arrays:
            array[:] = np.nan  # whatever was left in reused memory must not matter
    second = with_gradients(graph, diagonal, off, b, observed)
    other = Graph(graph.edges, graph.num_nodes)  # analysed afresh
    third = with_gradients(other, diagonal, off, b, observed)
    for one, two, three in zip(first, second, third):
        assert torch.equal(one, two)
        assert torch.equal(one, three)


def test_results_without_gradients_do_not_leak_into_those_with():
    graph = SMALL_GRAPHS["path"]
    leaves = [v.requires_grad_() for v in dominant_values(graph)]
    solver = SparseSolver(graph, *leaves)
    with torch.no_grad():
        assert not solver.inverse_diagonal().requires_grad
    assert solver.inverse_diagonal().requires_grad


def test_float32_values_are_computed_in_float64():
    graph = grid_graph(6)
    diagonal, off = (v.float() for v in dominant_values(graph))
    found = SparseSolver(graph, diagonal, off).inverse_diagonal()
    expected = SparseSolver(graph, diagonal.double(), off.double()).inverse_diagonal()
    assert found.dtype == torch.float32
    assert torch.equal(found, expected.float())
