"""Orders, elimination tree, supernodes and the plan, against the dense definition of fill."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
from pattern_graphs import NUM_RANDOM, grid_graph, medium_graphs, random_graph

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.graph import Graph
from pyro_copula.linalg.numeric import Factor, Pool
from pyro_copula.linalg.ordering import IMBALANCES, METHODS, default_method, fill_reducing_order
from pyro_copula.linalg.symbolic import Symbolic, analyze, analyze_leaves_last
from pyro_copula.testing.graphs import SMALL_GRAPHS

INSTALLED = [m for m in METHODS if m != "metis" or importlib.util.find_spec("pymetis")]


def filled(graph: Graph, order: np.ndarray) -> np.ndarray:
    """The pattern of the factor in this order, by eliminating one node after the other."""
    pattern = (graph.to_scipy().toarray() != 0)[np.ix_(order, order)]
    pattern |= np.eye(len(order), dtype=bool)
    for j in range(len(order)):
        below = np.flatnonzero(pattern[j + 1 :, j]) + j + 1
        pattern[np.ix_(below, below)] = True
    return np.tril(pattern)


@pytest.mark.parametrize("method", INSTALLED)
@pytest.mark.parametrize("name", SMALL_GRAPHS)
def test_an_order_is_a_permutation(method, name):
    graph = SMALL_GRAPHS[name]
    order = fill_reducing_order(graph, method)
    assert sorted(order) == list(range(graph.num_nodes))


@pytest.mark.parametrize("method", INSTALLED)
def test_an_order_reduces_fill(method):
    graph = grid_graph(40)
    natural = 40 * 1600  # the band of the lattice in its own order
    assert Symbolic(graph, method).factor_nonzeros < 0.5 * natural


@pytest.mark.skipif("metis" not in INSTALLED, reason="needs pymetis")
def test_of_several_orders_the_one_with_the_least_work_is_taken(monkeypatch):
    graph = grid_graph(40)
    orders = [fill_reducing_order(graph, "metis", imbalance) for imbalance in IMBALANCES]
    columns = [filled(graph, order).sum(axis=0) for order in orders]
    works = [float((count.astype(float) ** 2).sum()) for count in columns]
    best = int(np.argmin(works))
    assert works[best] < works[0]  # or this graph could not tell
    assert Symbolic(graph).factor_nonzeros == columns[0].sum()  # cheap: the first one does
    monkeypatch.setattr("pyro_copula.linalg.symbolic._CHEAP", 0.0)
    assert Symbolic(graph).factor_nonzeros == columns[best].sum()


def test_an_unknown_order_is_refused():
    with pytest.raises(InvalidArgumentError, match="method"):
        fill_reducing_order(SMALL_GRAPHS["path"], "random")


def test_metis_is_the_default_where_installed():
    assert default_method() == INSTALLED[0]


@pytest.mark.parametrize("method", INSTALLED)
@pytest.mark.parametrize("seed", range(0, NUM_RANDOM, 7))
def test_counts_and_rows_cover_the_fill_exactly(method, seed):
    graph = random_graph(seed)
    symbolic = Symbolic(graph, method)
    plan = symbolic.plan
    assert symbolic.factor_nonzeros == filled(graph, fill_reducing_order(graph, method)).sum()
    pattern = filled(graph, symbolic.order)  # the columns of a supernode in another order
    for s in range(symbolic.num_supernodes):
        first, last = plan.start[s], plan.start[s + 1]
        rows = plan.rows[plan.row_pointer[s] : plan.row_pointer[s + 1]]
        assert (np.diff(rows.astype(int)) > 0).all()
        expected = np.flatnonzero(pattern[last:, first:last].any(axis=1)) + last
        np.testing.assert_array_equal(rows, expected)


@pytest.mark.parametrize("name", medium_graphs())
def test_update_blocks_never_overlap(name):
    symbolic = Symbolic(medium_graphs()[name])
    plan = symbolic.plan
    owner = np.full(symbolic.stack_size, -1)
    for s in range(symbolic.num_supernodes):
        size = (plan.row_pointer[s + 1] - plan.row_pointer[s]) ** 2
        block = slice(plan.stack[s], plan.stack[s] + size)
        assert (owner[block] == -1).all()  # nothing alive there
        owner[block] = s
        for c in plan.children[plan.child_pointer[s] : plan.child_pointer[s + 1]]:
            below = (plan.row_pointer[c + 1] - plan.row_pointer[c]) ** 2
            theirs = owner[plan.stack[c] : plan.stack[c] + below]
            assert (theirs == c).all()
            theirs[:] = -1


def test_every_value_has_its_own_place():
    symbolic = Symbolic(grid_graph(15))
    plan = symbolic.plan
    owner = np.repeat(np.arange(symbolic.num_supernodes), np.diff(plan.entry_pointer))
    places = plan.panel[owner] + plan.entry_place
    assert len(np.unique(places)) == len(places) == symbolic.num_nodes + symbolic.num_edges
    assert sorted(plan.entry_value) == list(range(len(places)))


def test_a_clamped_plan_puts_the_missing_nodes_first():
    graph = grid_graph(15)
    symbolic = Symbolic(graph)
    observed = np.random.default_rng(0).random(graph.num_nodes) < 0.5
    plan = symbolic.clamped_plan(observed)
    assert plan.pivots.sum() == (~observed).sum()
    for s in range(symbolic.num_supernodes):
        inside = observed[plan.order[plan.start[s] : plan.start[s + 1]]]
        assert not inside[: plan.pivots[s]].any()
        assert inside[plan.pivots[s] :].all()


def test_the_analysis_is_made_once_per_graph():
    graph = grid_graph(5)
    assert analyze(graph) is analyze(graph)
    assert "order=" in repr(analyze(graph))


def test_predicted_sizes_grow_with_the_fill():
    small, large = Symbolic(grid_graph(10)), Symbolic(grid_graph(40))
    assert 0 < small.bytes_needed(1, derivatives=False) < small.predicted_bytes
    assert small.predicted_bytes < large.predicted_bytes
    assert small.predicted_bytes < small.bytes_needed(2, derivatives=True)
    assert 0 < small.flops < large.flops


def test_leaves_are_eliminated_right_after_their_neighbours():
    """Whatever the order, the factor is one of the same matrix, and no leaf comes first."""
    grid = grid_graph(6)
    nodes = np.arange(36)
    edges = np.concatenate([grid.edges, np.stack([nodes, nodes + 36], 1)])
    graph = Graph(edges, 72)
    leaves = np.arange(72) >= 36
    symbolic = analyze_leaves_last(graph, leaves)
    assert analyze_leaves_last(graph, leaves) is symbolic
    place = np.empty(72, int)
    place[symbolic.order] = np.arange(72)
    assert (place[36:] > place[:36]).all()
    values = np.concatenate([np.full(72, 6.0), -np.ones(len(graph.edges))])
    factor = Factor(symbolic, symbolic.plan, Pool(), values)
    dense = np.diag(values[:72])
    dense[tuple(graph.edges.T)] = dense[tuple(graph.edges.T[::-1])] = -1.0
    assert factor.logdet == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-12)
    # one more non-zero a row, not the fill of a bad order
    assert symbolic.factor_nonzeros < 3 * analyze(graph).factor_nonzeros
