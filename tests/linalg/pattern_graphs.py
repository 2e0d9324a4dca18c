"""Graphs of many shapes for the tests of the sparse engine."""

from __future__ import annotations

import os
from pathlib import Path

import networkx as nx
import numpy as np
import scipy.sparse

from pyro_copula.graph import Graph

#: How many random graphs there are.
NUM_RANDOM = 200

REAL_GRAPHS = ("election", "chameleon", "squirrel", "emnlp")


def grid_graph(side: int) -> Graph:
    """A square lattice."""
    node = np.arange(side * side).reshape(side, side)
    across = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], axis=1)
    down = np.stack([node[:-1].ravel(), node[1:].ravel()], axis=1)
    return Graph(np.concatenate([across, down]), side * side)


def random_graph(seed: int) -> Graph:
    """One of six kinds of graph with at most 70 nodes, its nodes in random order."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 70))
    kind = seed % 6
    if kind == 0:
        graph = nx.from_prufer_sequence(rng.integers(0, n, max(n - 2, 0)).tolist())
    elif kind == 1:
        graph = nx.complete_graph(min(n, 40))
    elif kind == 2:
        graph = nx.disjoint_union(nx.gnp_random_graph(n // 2 + 1, 0.2, seed=seed), nx.path_graph(5))
    elif kind == 3:
        graph = nx.gnp_random_graph(n, 0.03, seed=seed)  # mostly isolated nodes
    elif kind == 4:
        graph = nx.barabasi_albert_graph(n + 3, 3, seed=seed)
    else:
        graph = nx.random_geometric_graph(n, 0.25, seed=seed)
    number = rng.permutation(graph.number_of_nodes())
    edges = np.array(graph.edges(), dtype=np.int64).reshape(-1, 2)
    return Graph(number[edges], graph.number_of_nodes())


def medium_graphs() -> dict[str, Graph]:
    """Graphs whose fronts are large enough for BLAS."""
    dense = nx.gnp_random_graph(250, 0.15, seed=1)
    power = nx.barabasi_albert_graph(500, 4, seed=2)
    return {
        "grid": grid_graph(24),
        "dense": Graph.from_networkx(dense),
        "power_law": Graph.from_networkx(power),
        "clique": Graph.from_networkx(nx.complete_graph(150)),
        "star": Graph.from_networkx(nx.star_graph(400)),
    }


def real_graph(name: str) -> Graph | None:
    """A graph of the published data, or None without the data."""
    if "PYRO_COPULA_DATA" not in os.environ:
        return None
    folder = Path(os.environ["PYRO_COPULA_DATA"])
    if name == "election":
        pairs = np.loadtxt(folder / "election/2012_adj.csv", delimiter=",", skiprows=1)
        return Graph(pairs.astype(np.int64) - 1, 3234)
    if name == "emnlp":
        return Graph.from_scipy(scipy.sparse.load_npz(folder / "emnlp/emnlp-adj.npz"))
    num_nodes = len(np.load(folder / f"wiki/wiki-{name}-y.npy"))
    return Graph.from_edge_index(np.load(folder / f"wiki/wiki-{name}-edge.npy"), num_nodes)
