"""What the sparse backend refuses, and what it leaves alone: errors, threads, memory."""

from __future__ import annotations

import pickle

import pytest
import scipy.linalg.blas  # noqa: F401 (loads scipy's BLAS)
import torch
from pattern_graphs import grid_graph, medium_graphs
from threadpoolctl import threadpool_info

from pyro_copula.errors import MemoryLimitError, NotPositiveDefiniteError, SecondOrderError
from pyro_copula.linalg import resources
from pyro_copula.linalg.sparse import SparseSolver
from pyro_copula.testing.contracts import dominant_values

MEDIUM_GRAPHS = medium_graphs()


@pytest.mark.parametrize("name", MEDIUM_GRAPHS)
@pytest.mark.parametrize("value", [-3.0, 0.0, float("nan"), float("inf")])
def test_a_bad_pivot_names_its_node(name, value):
    graph = MEDIUM_GRAPHS[name]
    diagonal, off = dominant_values(graph)
    off = torch.zeros_like(off)  # so that the pivot is the value itself
    diagonal[37] = value
    with pytest.raises(NotPositiveDefiniteError, match="node 37 ") as caught:
        SparseSolver(graph, diagonal, off).logdet()
    assert caught.value.node == 37
    assert caught.value.element is None
    assert caught.value.pivot == pytest.approx(value, nan_ok=True)


@pytest.mark.parametrize("name", MEDIUM_GRAPHS)
def test_a_pivot_that_elimination_makes_negative_is_reported(name):
    graph = MEDIUM_GRAPHS[name]
    diagonal, off = dominant_values(graph)
    with pytest.raises(NotPositiveDefiniteError) as caught:
        SparseSolver(graph, diagonal * 0.02, off).logdet()
    assert caught.value.pivot < 0
    # Every leading block before that pivot is positive definite, so it is a Schur complement.
    assert caught.value.pivot < float(diagonal[caught.value.node] * 0.02)


def test_a_bad_pivot_names_its_batch_element():
    graph = grid_graph(4)
    diagonal, off = dominant_values(graph, (2, 3))
    diagonal[1, 0, 5] = -50.0
    with pytest.raises(NotPositiveDefiniteError) as caught:
        SparseSolver(graph, diagonal, off).solve(torch.ones(16))
    assert (caught.value.node, caught.value.element) == (5, 3)


def test_a_solver_works_after_a_failure():
    graph = grid_graph(4)
    diagonal, off = dominant_values(graph)
    with pytest.raises(NotPositiveDefiniteError):
        SparseSolver(graph, -diagonal, off).logdet()
    assert torch.isfinite(SparseSolver(graph, diagonal, off).logdet())


@pytest.mark.parametrize(
    "operation",
    [
        lambda s, b: s.logdet(),
        lambda s, b: s.solve(b),
        lambda s, b: s.inverse_diagonal(),
        lambda s, b: s.selected_inverse()[1],
        lambda s, b: s.schur_diagonal(torch.arange(16) % 2 == 0),
    ],
    ids=["logdet", "solve", "inverse_diagonal", "selected_inverse", "schur_diagonal"],
)
def test_second_derivatives_are_refused(operation):
    graph = grid_graph(4)
    leaves = [v.requires_grad_() for v in dominant_values(graph)]
    value = operation(SparseSolver(graph, *leaves), torch.ones(16)).sum()
    first = torch.autograd.grad(value, leaves, create_graph=True)
    expected = torch.autograd.grad(
        operation(SparseSolver(graph, *leaves), torch.ones(16)).sum(), leaves
    )
    for one, two in zip(first, expected):
        assert torch.equal(one, two)  # the first derivatives themselves are there
    with pytest.raises(SecondOrderError, match='backend="dense"'):
        sum(g.sum() for g in first).backward()


def test_second_derivatives_in_the_right_hand_side_are_refused():
    graph = grid_graph(4)
    b = torch.ones(16, requires_grad=True)
    x = SparseSolver(graph, *dominant_values(graph)).solve(b)
    (first,) = torch.autograd.grad(x.square().sum(), b, create_graph=True)
    with pytest.raises(SecondOrderError):
        first.sum().backward()


def test_blas_threads_are_held_and_given_back():
    libraries = resources._scipy_blas()
    before = [library.get_num_threads() for library in libraries]
    torch_threads = torch.get_num_threads()
    for library in libraries:
        library.set_num_threads(2)
    try:
        with resources.SingleThreadedBLAS(), resources.SingleThreadedBLAS():
            assert all(library.get_num_threads() == 1 for library in libraries)
            assert torch.get_num_threads() == torch_threads
        assert all(library.get_num_threads() == 2 for library in libraries)
    finally:
        for library, count in zip(libraries, before):
            library.set_num_threads(count)


def test_only_scipys_blas_is_held():
    paths = {x["filepath"] for x in threadpool_info() if x["user_api"] == "blas"}
    held = {library.filepath for library in resources._scipy_blas()}
    assert held <= paths
    assert not any("torch" in path or "numpy.libs" in path for path in held)


def test_work_beyond_the_free_memory_is_refused_with_the_figures(monkeypatch):
    with pytest.raises(MemoryLimitError, match="GiB") as caught:
        resources.check_memory(2**60, "This test", "Try less.")
    assert caught.value.needed == 2**60
    assert isinstance(caught.value, MemoryError)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    monkeypatch.setattr(resources, "_NEGLIGIBLE", 0)
    monkeypatch.setattr(resources, "available_memory", lambda: 1000)
    graph = grid_graph(20)
    with pytest.raises(MemoryLimitError, match="400 nodes"):
        SparseSolver(graph, *dominant_values(graph)).logdet()


def test_some_memory_is_available():
    assert resources.available_memory() > 2**20
