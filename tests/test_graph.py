"""The canonical graph: every way in gives the same graph, and bad input is named."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse
import torch

import pyro_copula as pc
from pyro_copula.errors import GraphError, InvalidArgumentError

PAIRS = [(2, 1), (1, 2), (0, 1), (3, 3), (0, 1)]  # both directions, a self loop, a duplicate
EDGES = [[0, 1], [1, 2]]


def test_every_way_in_gives_the_same_graph():
    index = torch.tensor(PAIRS).T
    matrix = scipy.sparse.coo_array(
        (np.ones(5), (index[0].numpy(), index[1].numpy())), shape=(5, 5)
    )
    network = nx.Graph()
    network.add_nodes_from(range(5))
    network.add_edges_from(PAIRS)
    graphs = [
        pc.Graph.from_edge_index(index, num_nodes=5),
        pc.Graph.from_edge_index(index.numpy(), num_nodes=5),
        pc.Graph.from_scipy(matrix),
        pc.Graph.from_scipy(matrix.tocsr()),
        pc.Graph.from_networkx(network),
        pc.Graph.from_edges(PAIRS, num_nodes=5),
        pc.Graph.from_edges(np.array(PAIRS), num_nodes=5),
    ]
    for graph in graphs:
        assert graph.edges.tolist() == EDGES
        assert graph.num_nodes == 5
        assert graph == graphs[0]
        assert hash(graph) == hash(graphs[0])
    assert repr(graphs[0]) == "Graph(num_nodes=5, num_edges=2, components=3, isolated=2)"


def test_networkx_names_and_explicit_zeros():
    network = nx.Graph([("b", "a"), ("c", "a")])
    assert pc.Graph.from_networkx(network).edges.tolist() == [[0, 1], [1, 2]]
    matrix = scipy.sparse.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    matrix.data[:] = 0.0
    assert pc.Graph.from_scipy(matrix).num_edges == 0


def test_views():
    graph = pc.Graph.from_edges(PAIRS, num_nodes=5)
    assert graph.degree.tolist() == [1, 2, 1, 0, 0]
    assert graph.components.tolist() == [0, 0, 0, 1, 2]
    assert graph.edge_index.tolist() == [[0, 1, 1, 2], [1, 2, 0, 1]]
    assert pc.Graph.from_edge_index(graph.edge_index, num_nodes=5) == graph
    assert pc.Graph.from_scipy(graph.to_scipy()) == graph
    assert graph != pc.Graph.from_edges(PAIRS, num_nodes=4)
    assert graph != "graph"


def test_without_num_nodes_the_largest_number_counts():
    assert pc.Graph.from_edges([(0, 3)]).num_nodes == 4
    assert pc.Graph.from_edge_index(torch.tensor([[0], [3]])).num_nodes == 4


def test_no_edges_and_one_node():
    graph = pc.Graph.from_edge_index(torch.zeros(2, 0, dtype=torch.long), num_nodes=3)
    assert graph.num_edges == 0
    assert graph.degree.tolist() == [0, 0, 0]
    assert graph.components.tolist() == [0, 1, 2]
    assert pc.Graph.from_edges([], num_nodes=1).num_nodes == 1
    # PyG writes an empty edge list as a float tensor
    assert pc.Graph.from_edge_index(torch.zeros(2, 0), num_nodes=3) == graph


def test_subgraph_is_induced_and_remembered():
    graph = pc.Graph.from_edges([(0, 1), (1, 2), (2, 3), (0, 3)])
    keep = np.array([True, False, True, True])
    sub, edges = graph.subgraph(keep)
    assert sub.edges.tolist() == [[0, 2], [1, 2]]
    assert graph.edges[edges].tolist() == [[0, 3], [2, 3]]
    assert graph.subgraph(keep)[0] is sub
    for k in range(40):  # the memory is bounded
        graph.subgraph(np.random.default_rng(k).random(4) < 0.5)
    assert sum(isinstance(key, tuple) for key in graph._cache) <= 16


def test_pickle_drops_what_can_be_computed_again():
    graph = pc.Graph.from_edges(PAIRS, num_nodes=5)
    repr(graph)
    assert pickle.loads(pickle.dumps(graph)) == graph
    assert pickle.loads(pickle.dumps(graph))._cache == {}


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: pc.Graph.from_edge_index(torch.zeros(3, 2, dtype=torch.long)), r"shape \(3, 2\)"),
        (lambda: pc.Graph.from_edge_index(torch.zeros(2, dtype=torch.long)), r"\(2, E\)"),
        (lambda: pc.Graph.from_edge_index(torch.ones(2, 2)), "dtype float"),
        (
            lambda: pc.Graph.from_edge_index(torch.tensor([[0, 1], [1, 7]]), num_nodes=5),
            r"\(1, 7\) at edge 1",
        ),
        (
            lambda: pc.Graph.from_edge_index(torch.tensor([[0, -1], [1, 2]]), num_nodes=5),
            r"\(-1, 2\) at edge 1",
        ),
        (lambda: pc.Graph.from_scipy(np.eye(3)), "scipy.sparse.csr_array"),
        (lambda: pc.Graph.from_scipy(scipy.sparse.csr_array(np.ones((2, 3)))), "square"),
        (lambda: pc.Graph.from_networkx([(0, 1)]), "networkx graph"),
        (lambda: pc.Graph.from_edges([(0, 1, 2)]), "pairs"),
        (lambda: pc.Graph.from_edges([("a", "b")]), "number your node names"),
        (lambda: pc.Graph.from_edges([(0, 1), (2,)]), "pairs"),
        (lambda: pc.Graph.from_edges(3), "sequence of pairs"),
    ],
)
def test_bad_graphs(make, match):
    with pytest.raises(GraphError, match=match):
        make()


@pytest.mark.parametrize("num_nodes", [0, -1, 2.5, "three"])
def test_bad_number_of_nodes(num_nodes):
    with pytest.raises(InvalidArgumentError, match="`num_nodes`"):
        pc.Graph.from_edges([(0, 1)], num_nodes=num_nodes)


def test_edges_index_tensors_without_a_warning_and_do_not_change_the_graph():
    graph = pc.Graph.from_edges(PAIRS, num_nodes=5)
    values = torch.arange(5.0)
    assert torch.equal(values[graph.edges[:, 0]], values[graph.rows])
    assert torch.equal(torch.as_tensor(graph.edges)[:, 1], graph.cols)
    graph.edges[:] = 0  # a copy
    assert graph.edges.tolist() == EDGES
    assert pickle.loads(pickle.dumps(graph)) == graph


def test_what_a_graph_keeps_from_inference_mode_may_take_part_in_derivatives():
    graph = pc.Graph.from_edges([(0, 1), (1, 2)])
    with torch.inference_mode():
        kept = (graph.rows, graph.cols, graph.edge_index, graph.degree)
    assert not any(tensor.is_inference() for tensor in kept)
