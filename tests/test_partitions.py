"""Blocks of nodes."""

from __future__ import annotations

import importlib.util
import pickle

import numpy as np
import pytest
import torch

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.testing.graphs import SMALL_GRAPHS

CASES = [(name, k) for name, g in SMALL_GRAPHS.items() for k in (1, 2, 3, g.num_nodes)]


def grid(side: int) -> pc.Graph:
    number = np.arange(side * side).reshape(side, side)
    across = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], 1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], 1)
    return pc.Graph.from_edges(np.concatenate([across, down]), num_nodes=side * side)


@pytest.mark.parametrize(("name", "num_blocks"), CASES)
def test_every_node_is_in_one_block(name, num_blocks):
    pytest.importorskip("pymetis")
    graph = SMALL_GRAPHS[name]
    found = pc.partition(graph, num_blocks)
    assert 1 <= found.num_blocks <= num_blocks
    assert all(len(block) for block in found.blocks)
    assert torch.cat(found.blocks).sort().values.tolist() == list(range(graph.num_nodes))
    for number, block in enumerate(found.blocks):
        assert (found.labels[block] == number).all()
        assert (block.diff() > 0).all()


def test_a_grid_is_cut_along_few_edges_into_even_blocks():
    pytest.importorskip("pymetis")
    graph = grid(12)
    found = pc.partition(graph, 4)
    assert found.num_blocks == 4
    assert max(len(b) for b in found.blocks) <= 1.2 * 36
    block = {int(i): k for k, nodes in enumerate(found.blocks) for i in nodes}
    cut = sum(block[i] != block[j] for i, j in graph.edges.tolist())
    assert found.cut == pytest.approx(cut / graph.num_edges)
    assert 0 < cut <= 36  # a cross of straight lines cuts 24; blocks at random, about 200


def test_blocks_of_ones_own_are_numbered_again():
    graph = SMALL_GRAPHS["path"]
    found = pc.Partition(graph, torch.tensor([7, 7, -1, 7]))
    assert found.labels.tolist() == [1, 1, 0, 1]
    assert [b.tolist() for b in found.blocks] == [[2], [0, 1, 3]]
    assert found.cut == pytest.approx(2 / 3)
    assert repr(found) == "Partition(num_blocks=2, sizes 1 to 3, 66.7% of 3 edges cut)"
    assert pc.Partition(pc.Graph.from_edges([], num_nodes=2), [0, 1]).cut == 0


def test_the_graph_within_blocks_is_the_induced_one_without_edges_between_them():
    graph = grid(4)
    found = pc.Partition(graph, np.arange(16) // 4)  # rows
    nodes, inside, kept = found.within([3, 1])
    assert nodes.tolist() == [4, 5, 6, 7, 12, 13, 14, 15]
    own = nodes[torch.from_numpy(inside.edges)].tolist()
    assert own == [[4, 5], [5, 6], [6, 7], [12, 13], [13, 14], [14, 15]]
    assert graph.edges[kept].tolist() == own
    assert found.within((1, 3))[1] is inside  # remembered
    for k in range(4):
        for j in range(k):
            found.within([j, k])
    assert len(found._kept) <= found.num_blocks + 1


def test_pickles():
    found = pc.Partition(SMALL_GRAPHS["path"], [0, 0, 1, 1])
    found.within()
    again = pickle.loads(pickle.dumps(found))
    assert again.labels.equal(found.labels)
    assert again.within([1])[1] == found.within([1])[1]


@pytest.mark.parametrize("num_blocks", [0, -1, 5, 2.0, True, "two", None])
def test_bad_numbers_of_blocks(num_blocks):
    with pytest.raises(InvalidArgumentError, match="`num_blocks` must be an integer from 1 to"):
        pc.partition(SMALL_GRAPHS["path"], num_blocks)


def test_bad_graphs_and_labels():
    with pytest.raises(InvalidArgumentError, match=r"`graph` must be a pyro_copula\.Graph"):
        pc.partition(torch.eye(3), 2)
    for labels in ([0, 1], [0.0, 1.0, 0.0, 1.0], [[0], [1], [0], [1]], "abcd"):
        with pytest.raises(InvalidArgumentError, match="`labels` must be integers of shape"):
            pc.Partition(SMALL_GRAPHS["path"], labels)


@pytest.mark.parametrize("blocks", [[], [2], [-1], [0, 0], 1, "ab"])
def test_bad_blocks(blocks):
    halves = pc.Partition(SMALL_GRAPHS["path"], [0, 0, 1, 1])
    with pytest.raises(InvalidArgumentError, match="`blocks` must be different numbers from 0 to"):
        halves.within(blocks)


def test_without_pymetis_the_error_says_what_to_do(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pymetis" else find(name)
    )
    with pytest.raises(InvalidArgumentError, match=r"pip install pymetis.*Partition"):
        pc.partition(SMALL_GRAPHS["path"], 2)
    assert pc.partition(SMALL_GRAPHS["path"], 1).num_blocks == 1  # nothing to cut
