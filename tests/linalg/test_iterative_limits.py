"""What the iterative backend refuses or warns about, and when it is chosen."""

from __future__ import annotations

import logging
import pickle
import re

import networkx as nx
import numpy as np
import pytest
import torch

import pyro_copula as pc
from pyro_copula.errors import (
    ConvergenceError,
    ConvergenceWarning,
    CurvatureError,
    EstimateError,
    InvalidArgumentError,
    MemoryLimitError,
    NotPositiveDefiniteError,
    SecondOrderError,
)
from pyro_copula.graph import Graph
from pyro_copula.linalg import Iterative, choose_backend, make_solver, resources
from pyro_copula.linalg.iterative import solver as solver_module
from pyro_copula.linalg.iterative.solver import IterativeSolver
from pyro_copula.testing.contracts import dominant_values


def cycle(n=400):
    """A graph on which conjugate gradients are slow: information goes one node a step."""
    return Graph.from_networkx(nx.cycle_graph(n))


def nearly_singular(graph, alpha):
    K = pc.NormalizedAdjacencyPrecision(graph)(alpha=alpha, beta=1.0)
    return K.diagonal.detach(), K.off_diagonal.detach()


def test_an_iteration_that_ends_short_of_its_tolerance_warns_with_the_residual():
    graph = cycle()
    options = Iterative(solve_tolerance=1e-10, max_iterations=60)
    solver = IterativeSolver(graph, *nearly_singular(graph, 0.97), options)
    b = torch.randn(graph.num_nodes)
    with pytest.warns(ConvergenceWarning, match="relative residual") as caught:
        x = solver.solve(b)
    warning = caught[0].message
    assert isinstance(warning, ConvergenceWarning)
    K = pc.SparsePrecision(graph, solver.diagonal, solver.off_diagonal)
    true = float((K.matvec(x) - b).norm() / b.norm())
    assert warning.residual == pytest.approx(true, rel=1e-6)
    assert (warning.tolerance, warning.iterations) == (1e-10, 60)


@pytest.mark.parametrize(
    "operation",
    [
        lambda s: s.solve(torch.randn(400)),
        lambda s: s.logdet(),
        lambda s: s.inverse_diagonal(),
        lambda s: s.schur_diagonal(torch.arange(400) > 200),
        lambda s: s.half_solve(torch.randn(400)),
        lambda s: s.draw((400,), torch.float64),
    ],
    ids=["solve", "logdet", "inverse_diagonal", "schur_diagonal", "half_solve", "draw"],
)
def test_an_iteration_far_from_a_solution_is_an_error_with_the_residual(operation):
    graph = cycle()
    options = Iterative(max_iterations=12)
    solver = IterativeSolver(graph, *nearly_singular(graph, 1 - 1e-6), options)
    with pytest.raises(ConvergenceError, match="12 iterations") as caught:
        operation(solver)
    assert caught.value.residual > 1e-3
    copy = pickle.loads(pickle.dumps(caught.value))
    assert copy.residual == caught.value.residual


def test_rounding_that_keeps_single_precision_from_its_tolerance_is_noticed():
    graph = cycle()
    options = Iterative(dtype=torch.float32, tolerance=1e-7, num_probes=4)
    solver = IterativeSolver(graph, *nearly_singular(graph, 0.9999), options)
    with pytest.warns(ConvergenceWarning):
        solver.logdet()


@pytest.mark.parametrize("value", [-3.0, 0.0, float("nan"), float("inf")])
def test_a_bad_diagonal_names_its_node(value):
    graph = cycle(50)
    diagonal, off = dominant_values(graph, (2,))
    diagonal[1, 37] = value
    with pytest.raises(NotPositiveDefiniteError, match="node 37 of batch element 1"):
        IterativeSolver(graph, diagonal, off).logdet()


@pytest.mark.parametrize("num_nodes", [30, 400])
def test_a_matrix_that_is_not_positive_definite_is_found_out(num_nodes):
    graph = cycle(num_nodes)
    diagonal, off = torch.ones(num_nodes), torch.full((num_nodes,), -0.55)
    solver = IterativeSolver(graph, diagonal, off)
    with pytest.raises(CurvatureError, match="not positive definite") as caught:
        solver.logdet()
    assert caught.value.pivot < 0
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args
    with pytest.raises((CurvatureError, ConvergenceError)):
        IterativeSolver(graph, diagonal, off).solve(torch.randn(num_nodes))


def test_an_estimate_that_cannot_be_a_variance_is_an_error():
    graph = cycle()
    options = Iterative(num_probes=2, rank=0, max_iterations=2000, seed=0)
    solver = IterativeSolver(graph, *nearly_singular(graph, 0.9999), options)
    with pytest.raises(EstimateError, match="more probes"):
        solver.inverse_diagonal()


def test_a_root_of_a_matrix_that_is_not_positive_definite_names_a_node():
    graph = cycle()
    diagonal, off = torch.ones(400), torch.full((400,), -0.3)
    off[250:300] = -0.9  # the only nodes at fault
    with pytest.raises(CurvatureError, match="not positive definite") as caught:
        IterativeSolver(graph, diagonal, off).half_solve(torch.randn(400))
    bad = set(graph.edges[250:300].reshape(-1).tolist())
    assert caught.value.node in bad
    assert caught.value.pivot < 0


def test_an_estimate_that_cannot_be_a_precision_is_an_error(monkeypatch):
    graph = cycle(40)
    solver = IterativeSolver(graph, *nearly_singular(graph, 0.5))
    observed = torch.arange(40) % 2 == 1
    noisy = torch.ones(40)
    noisy[7] = -0.25
    monkeypatch.setattr(solver_module._Schur, "apply", lambda *arguments: noisy)
    with pytest.raises(EstimateError, match=r"conditional precision at node 7 is -0\.25"):
        solver.schur_diagonal(observed)


def test_second_derivatives_are_refused():
    graph = cycle(30)
    leaves = [v.requires_grad_() for v in dominant_values(graph)]
    value = IterativeSolver(graph, *leaves).logdet()
    first = torch.autograd.grad(value, leaves, create_graph=True)
    with pytest.raises(SecondOrderError, match="iterative backend"):
        torch.autograd.grad(first[0].sum(), leaves)


def test_memory_is_asked_for_before_it_is_taken(monkeypatch):
    graph = cycle(40_000)
    monkeypatch.setattr(resources, "available_memory", lambda: 10**6)
    with pytest.raises(MemoryLimitError, match="iterative engine"):
        IterativeSolver(graph, *nearly_singular(graph, 0.5)).logdet()


@pytest.mark.parametrize(
    "options", [{"num_probes": 1}, {"rank": -1}, {"tolerance": 0.0}, {"dtype": torch.float16}]
)
def test_bad_options_are_named(options):
    with pytest.raises(InvalidArgumentError, match=next(iter(options))):
        Iterative(**options)


def test_auto_is_exact_while_the_factor_is_affordable_and_says_when_not(monkeypatch, caplog):
    import pyro_copula.linalg as linalg

    edges = np.asarray(nx.random_regular_graph(6, 300, seed=0).edges())
    graph = Graph.from_edges(edges, 300)
    assert choose_backend(graph, "auto") == "sparse"
    assert not caplog.records
    monkeypatch.setattr(linalg, "_MOST_FLOPS", 1e3)
    again = Graph.from_edges(edges, 300)
    with caplog.at_level(logging.WARNING, "pyro_copula"):
        assert choose_backend(again, "auto") == "iterative"
        assert choose_backend(again, "auto") == "iterative"
    assert len(caplog.records) == 1
    assert "chose 'iterative' for 300 nodes and 900 edges" in caplog.text
    assert re.search(r"the exact factor needs \S+ operations and \S+ GiB", caplog.text)
    K = pc.CARPrecision(again)(rho=0.9, tau=1.0)
    assert isinstance(K.solver, IterativeSolver)
    assert "backend='iterative'" in repr(K)


def test_auto_is_iterative_where_the_factor_does_not_fit(monkeypatch):
    import pyro_copula.linalg as linalg

    graph = Graph.from_networkx(nx.random_regular_graph(6, 300, seed=0))
    monkeypatch.setattr(linalg, "available_memory", lambda: 1000)
    assert choose_backend(graph, "auto") == "iterative"


def test_options_are_a_backend():
    graph = cycle(30)
    options = Iterative(num_probes=8, seed=3)
    solver = make_solver(options, graph, *dominant_values(graph))
    assert isinstance(solver, IterativeSolver)
    assert solver.backend == options
    K = pc.CARPrecision(graph, backend=options)(rho=0.5, tau=1.0)
    assert K.restrict(torch.arange(30) < 10).backend == options
    assert (2 * K).backend == options
    assert pickle.loads(pickle.dumps(K)).backend == options
