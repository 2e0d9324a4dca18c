"""The iterative backend against the dense oracle: exact where it can be, else unbiased."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

import pyro_copula as pc
from pyro_copula.graph import Graph
from pyro_copula.linalg import DenseSolver, Iterative
from pyro_copula.linalg.iterative.solver import IterativeSolver
from pyro_copula.testing import SMALL_GRAPHS, check_solver, check_unbiased_solver
from pyro_copula.testing.contracts import dominant_values

#: The chance that any one test here fails without a fault.
FAILURE_RATE = 1e-4

EXACT = Iterative(dtype=torch.float64, tolerance=1e-12, solve_tolerance=1e-12, num_probes=16)


class Exact(IterativeSolver):
    """On a graph with no more nodes than eigenvectors nothing is left to the probes."""

    def __init__(self, graph, diagonal, off_diagonal, options=None, **rest):
        super().__init__(graph, diagonal, off_diagonal, options or EXACT, **rest)


def noisy(rank, dtype=torch.float64, tolerance=1e-9):
    """A backend that leaves most of the work to its probes."""

    def make(graph, diagonal, off, seed):
        options = Iterative(rank=rank, seed=seed, dtype=dtype, num_probes=8, tolerance=tolerance)
        return IterativeSolver(graph, diagonal, off, options)

    return make


def of(graph):
    return Graph.from_networkx(graph)


def components():
    """Three components of different size, and two isolated nodes."""
    parts = [nx.barabasi_albert_graph(20, 2, seed=1), nx.cycle_graph(7), nx.complete_graph(4)]
    graph = nx.disjoint_union_all(parts)
    graph.add_nodes_from([31, 32])
    return of(graph)


GRAPHS = {
    "connected": of(nx.barabasi_albert_graph(40, 3, seed=0)),
    "components": components(),
    "star": of(nx.star_graph(30)),
}


def normalized(graph, alpha):
    K = pc.NormalizedAdjacencyPrecision(graph)(alpha=alpha, beta=1.5)
    return K.diagonal.detach().clone(), K.off_diagonal.detach().clone()


@pytest.mark.parametrize("batch", [(), (2,)])
@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_the_contract_of_exact_backends_where_eigenvectors_are_all_there_is(name, batch):
    graph = SMALL_GRAPHS[name]
    check_solver(Exact, graph, dominant_values(graph, batch), tolerance=1e-8)


@pytest.mark.parametrize("rank", [0, 3])
@pytest.mark.parametrize("name", GRAPHS)
def test_unbiased(name, rank):
    check_unbiased_solver(noisy(rank), GRAPHS[name], failure_rate=FAILURE_RATE)


@pytest.mark.parametrize("alpha", [0.95, -0.95])
@pytest.mark.parametrize("name", GRAPHS)
def test_unbiased_for_strong_dependence_of_either_sign(name, alpha):
    graph = GRAPHS[name]
    check_unbiased_solver(
        noisy(4), graph, normalized(graph, alpha), failure_rate=FAILURE_RATE, seeds=range(40)
    )


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99])
def test_unbiased_from_few_to_nearly_all_nodes_missing(share):
    graph = of(nx.barabasi_albert_graph(100, 3, seed=3))
    missing = np.random.default_rng(0).permutation(100) < round(100 * share)
    check_unbiased_solver(
        noisy(4),
        graph,
        normalized(graph, 0.9),
        observed=torch.from_numpy(~missing),
        failure_rate=FAILURE_RATE,
        seeds=range(40),
    )


def test_unbiased_in_single_precision():
    graph = GRAPHS["connected"]
    check_unbiased_solver(
        noisy(4, torch.float32, 1e-4),
        graph,
        normalized(graph, 0.9),
        failure_rate=FAILURE_RATE,
        tolerance=1e-4,
    )


def test_unbiased_where_a_hub_makes_exact_powers_too_dear(monkeypatch):
    from pyro_copula.linalg.iterative import operator

    monkeypatch.setattr(operator, "_MOST_WEDGES", 0)
    check_unbiased_solver(noisy(3), GRAPHS["star"], failure_rate=FAILURE_RATE)


def test_a_biased_backend_is_found_out():
    def make(graph, diagonal, off, seed):
        return noisy(3)(graph, diagonal * 1.01, off, seed)

    with pytest.raises(AssertionError, match="standard errors"):
        check_unbiased_solver(make, GRAPHS["connected"], failure_rate=FAILURE_RATE)


def test_standard_errors_are_those_of_independent_seeds():
    graph = of(nx.barabasi_albert_graph(150, 3, seed=3))
    diagonal, off = normalized(graph, 0.9)
    exact = DenseSolver(graph, diagonal, off)
    solvers = [noisy(4)(graph, diagonal, off, seed) for seed in range(100)]
    z = torch.stack([(s.logdet() - exact.logdet()) / s.logdet_error() for s in solvers])
    # with 8 probes each is nearly Student's with 7 degrees of freedom, of variance 1.4
    assert 0.9 < float(z.square().mean()) < 2.2  # five standard deviations of that mean
    variance = exact.inverse_diagonal()
    ratio = [
        ((s.inverse_diagonal() - variance) / s.inverse_diagonal_error()).square().median()
        for s in solvers
    ]
    assert 0.35 < float(torch.stack(ratio).mean()) < 0.65  # 0.506 for Student's


def test_solves_and_roots_are_as_accurate_as_asked():
    graph = GRAPHS["components"]
    diagonal, off = dominant_values(graph, (2,))
    b = torch.randn(3, 2, graph.num_nodes)
    solver, dense = IterativeSolver(graph, diagonal, off), DenseSolver(graph, diagonal, off)
    torch.testing.assert_close(solver.solve(b), dense.solve(b), rtol=0, atol=1e-7)
    eye = torch.eye(graph.num_nodes).unsqueeze(1).expand(-1, 2, -1)
    root = solver.half_solve(eye).movedim(0, -1)
    torch.testing.assert_close(root @ root.mT, dense.inverse, rtol=0, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.95, -0.95])
@pytest.mark.parametrize("name", GRAPHS)
def test_draws_have_the_covariance(name, alpha):
    graph, count = GRAPHS[name], 4000
    diagonal, off = normalized(graph, alpha)
    draws = IterativeSolver(graph, diagonal, off).draw((count, graph.num_nodes), torch.float64)
    exact = DenseSolver(graph, diagonal, off).inverse
    scale = exact.diagonal().sqrt()
    found = draws.T @ draws / count
    deviation = ((scale[:, None] * scale).square() + exact.square()).sqrt() / count**0.5
    z = ((found - exact) / deviation).abs()
    assert float(z.max()) < 6.5  # of 900 entries at most: below 1e-7


def test_draws_where_no_scaling_gives_a_dominant_diagonal():
    # positive definite, but not with all edges made negative: no sum of squares over edges
    graph = of(nx.complete_graph(4))
    diagonal, off = torch.ones(4), torch.full((6,), 0.5)
    solver = IterativeSolver(graph, diagonal, off)
    assert solver.factors.parts[0]._edge_root is None
    draws = solver.draw((4000, 4), torch.float64)
    exact = DenseSolver(graph, diagonal, off).inverse
    deviation = (exact.diagonal()[:, None] * exact.diagonal() + exact.square()).sqrt() / 4000**0.5
    assert float(((draws.T @ draws / 4000 - exact) / deviation).abs().max()) < 5.5


def test_the_same_seed_gives_the_same_numbers_and_another_does_not():
    graph = of(nx.barabasi_albert_graph(150, 3, seed=3))
    values = normalized(graph, 0.9)

    def run(seed):
        torch.manual_seed(seed)
        return IterativeSolver(graph, *(v.clone().requires_grad_() for v in values)).logdet()

    assert run(1) == run(1)
    assert run(1) != run(2)
    one, other = (IterativeSolver(graph, *values, Iterative(seed=k)).logdet() for k in (5, 6))
    assert one != other
    assert one == IterativeSolver(graph, *values, Iterative(seed=5)).logdet()


def test_evaluation_repeats_itself_and_leaves_torch_generator_alone():
    graph = of(nx.barabasi_albert_graph(150, 3, seed=3))
    values = normalized(graph, 0.9)
    before = torch.get_rng_state()
    first, second = (IterativeSolver(graph, *values).logdet() for _ in range(2))
    assert first == second
    assert torch.equal(torch.get_rng_state(), before)


def test_training_is_single_precision_and_evaluation_double():
    graph = GRAPHS["connected"]
    leaves = [v.requires_grad_() for v in dominant_values(graph)]
    training = IterativeSolver(graph, *leaves)
    assert (training.num_probes, training.factors.parts[0].dtype) == (16, np.float32)
    with torch.no_grad():
        evaluation = IterativeSolver(graph, *leaves)
    assert (evaluation.num_probes, evaluation.factors.parts[0].dtype) == (64, np.float64)
