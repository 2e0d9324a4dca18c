"""The loops of the iterative backend against dense matrices: products in tiles, short cycles."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from pyro_copula.crew import Crew
from pyro_copula.graph import Graph
from pyro_copula.linalg.iterative import tiles
from pyro_copula.linalg.iterative.controls import Control
from pyro_copula.linalg.iterative.cycles import Cycles, _share
from pyro_copula.linalg.iterative.operator import Operator
from pyro_copula.linalg.iterative.tiles import Tiles

GRAPHS = {
    "hubs": nx.barabasi_albert_graph(60, 5, seed=0),
    "complete": nx.complete_graph(9),
    "no cycles": nx.balanced_tree(3, 3),
    "quadrangles only": nx.complete_bipartite_graph(4, 7),
    "isolated nodes": nx.disjoint_union(nx.empty_graph(3), nx.cycle_graph(4)),
    "no edges": nx.empty_graph(4),
}


def dense(graph, edges):
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    i, j = graph.edges.T
    matrix[i, j] = matrix[j, i] = edges
    return matrix


@pytest.fixture(params=GRAPHS)
def graph(request):
    """A graph whose numbers say nothing about degrees."""
    found = GRAPHS[request.param]
    names = np.random.default_rng(1).permutation(found.number_of_nodes())
    return Graph.from_networkx(nx.relabel_nodes(found, dict(enumerate(names.tolist()))))


@pytest.fixture
def edges(graph):
    return np.random.default_rng(0).standard_normal(graph.num_edges)


@pytest.mark.parametrize("width", [1, 2, 7, 100])
def test_tiles_are_the_matrix(graph, edges, width):
    found = Tiles.build(graph, width)
    matrix = np.zeros((graph.num_nodes, graph.num_nodes))
    np.add.at(matrix, (np.repeat(found.row, np.diff(found.start)), found.column), edges[found.edge])
    np.testing.assert_array_equal(matrix, dense(graph, edges))
    assert (np.diff(found.column // width) >= 0).all()
    tile = found.column[found.start[:-1][np.diff(found.start) > 0]] // width
    rows = found.row[np.diff(found.start) > 0]
    assert (np.diff(tile * graph.num_nodes + rows) > 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_product_in_tiles_has_the_same_bits(graph, edges, dtype, monkeypatch):
    values = np.concatenate([np.full(graph.num_nodes, 2.0), edges])
    x = np.random.default_rng(2).standard_normal((graph.num_nodes, 3)).astype(dtype)
    whole = Operator(graph, values).product(x)
    np.testing.assert_allclose(whole, -dense(graph, edges) @ x / 2, rtol=0, atol=1e-5)
    monkeypatch.setattr(tiles, "_WIDTH", 3)
    again = Graph(graph.edges, graph.num_nodes)
    np.testing.assert_array_equal(Operator(again, values).product(x), whole)


@pytest.mark.parametrize("size", [1, 3])
def test_triangles_and_quadrangles(graph, edges, size, monkeypatch):
    n, (i, j) = graph.num_nodes, graph.edges.T
    matrix, weight = dense(graph, edges), np.random.default_rng(3).standard_normal(n)
    monkeypatch.setattr(Crew, "sum", lambda self, work: list(work()))  # the share alone
    crews = [Crew(rank, size) for rank in range(size)]
    cycles = Cycles(graph)
    triangles = sum(cycles.triangles(edges, weight, crew) for crew in crews)
    np.testing.assert_allclose(triangles, (matrix * weight @ matrix)[i, j], rtol=0, atol=1e-12)
    quadrangles = sum(cycles.quadrangles(edges, crew) for crew in crews)
    square = (matrix**2).sum(0)
    turning_back = edges * (square[i] + square[j] - edges**2)
    expected = (matrix @ matrix @ matrix)[i, j] - turning_back
    np.testing.assert_allclose(quadrangles, expected, rtol=0, atol=1e-12)


def test_powers_of_the_matrix(graph, edges):
    n, (i, j) = graph.num_nodes, graph.edges.T
    diagonal = np.full(n, 1 + np.abs(dense(graph, edges)).sum(0).max())
    operator = Operator(graph, np.concatenate([diagonal, edges]))
    control = Control(operator, 2, np.float64, np.random.default_rng(0), Crew())
    square, cube, fourth = control._powers
    matrix = dense(graph, operator.edges)
    for found, power in ((square, 2), (cube, 3)):
        expected = np.linalg.matrix_power(matrix, power)
        np.testing.assert_allclose(found[:n], expected.diagonal(), rtol=0, atol=1e-14)
        np.testing.assert_allclose(found[n:], expected[i, j], rtol=0, atol=1e-14)
    assert abs(fourth - np.trace(np.linalg.matrix_power(matrix, 4))) < 1e-13


def test_a_crew_shares_the_pairs_of_edges():
    graph = Graph.from_networkx(nx.barabasi_albert_graph(2_000, 5, seed=0))
    cycles = Cycles(graph)
    for done in (cycles._triangle_work, cycles._quadrangle_work):
        spans = [_share(done, Crew(rank, 3)) for rank in range(3)]
        assert [first for first, _ in spans[1:]] == [last for _, last in spans[:-1]]
        assert (spans[0][0], spans[-1][1]) == (0, graph.num_nodes)
        before = np.append(0, done)
        work = [before[last] - before[first] for first, last in spans]
        assert max(work) < 1.5 * sum(work) / 3  # what one node gives cannot be divided
