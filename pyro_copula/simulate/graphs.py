"""Graphs of any size: grids, preferential attachment, random regular graphs.

All of them are array programs without a Python loop over nodes, so that a million nodes take
seconds.
"""

from __future__ import annotations

import numpy as np
import torch

from ..errors import InvalidArgumentError, PyroCopulaError
from ..errors.counts import check_count
from ..graph import Graph

#: Rounds of repair after which a random graph is given up; a handful is usual.
MAX_ROUNDS = 10_000


def grid_graph(rows: int, columns: int) -> Graph:
    """The grid in which node ``r * columns + c`` is joined to the next in its row and column.

    Args:
        rows: The number of rows.
        columns: The number of columns.

    Example:
        >>> grid_graph(2, 3).edges.tolist()
        [[0, 1], [0, 3], [1, 2], [1, 4], [2, 5], [3, 4], [4, 5]]
    """
    check_count("rows", rows, "Pass 1 or more.")
    check_count("columns", columns, "Pass 1 or more.")
    node = np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], axis=1)
    down = np.stack([node[:-1].ravel(), node[1:].ravel()], axis=1)
    return Graph(np.concatenate([across, down]), rows * columns)


def power_law_graph(num_nodes: int, edges_per_node: int, seed: int = 0) -> Graph:
    r"""A graph with hubs, grown by preferential attachment.

    The first ``edges_per_node + 1`` nodes are a star around node 0. Each later node is joined to
    ``edges_per_node`` different earlier ones, picked with probability proportional to their degree
    at that moment. The share of nodes with degree :math:`d` falls off as :math:`d^{-3}`, and the
    graph has ``edges_per_node * (num_nodes - edges_per_node)`` edges in one component.

    To pick proportionally to degree is to pick an end of an earlier edge at random. Nodes come in
    blocks that double in size: the picks of a block are made together, a pick of an end that is
    itself a pick of the block is followed to where it leads, and a node that picked the same
    neighbour twice picks again.

    Args:
        num_nodes: The number of nodes, more than ``edges_per_node``.
        edges_per_node: The number of edges that each node brings.
        seed: The seed.

    Returns:
        The graph.

    Example:
        >>> graph = power_law_graph(1000, 2, seed=1)
        >>> graph.num_edges, int(graph.degree.max()) > 30
        (1996, True)

    References:
        Barabási and Albert, Emergence of scaling in random networks, Science 1999.
        Batagelj and Brandes, Efficient generation of large random networks, Phys. Rev. E 2005.
    """
    m = edges_per_node
    check_count("edges_per_node", m, "Pass 1 or more.")
    check_count("num_nodes", num_nodes, f"Pass {m + 1} or more.", least=m + 1)
    generator = _generator(seed)
    # Edge e joins ends[2 e], the newer node, to ends[2 e + 1], the older one.
    newer = np.concatenate([np.arange(1, m + 1), np.repeat(np.arange(m + 1, num_nodes), m)])
    ends = np.zeros(2 * len(newer), dtype=np.int64)
    ends[::2] = newer
    start = m + 1
    while start < num_nodes:
        stop = min(2 * start, num_nodes)
        _attach(ends, start, stop, m, generator)
        start = stop
    return Graph(ends.reshape(-1, 2), num_nodes)


def random_regular_graph(num_nodes: int, degree: int, seed: int = 0) -> Graph:
    """A graph in which every node has the same number of neighbours, otherwise random.

    Nodes are paired at random, ``degree`` times each; a pair that is a self loop or a repetition
    exchanges an end with a random other pair, where that helps, until none is left. The result is
    close to uniform over such graphs when ``degree`` is small beside ``num_nodes``.

    Args:
        num_nodes: The number of nodes.
        degree: The number of neighbours of each, less than ``num_nodes``; the product of the two
            must be even.
        seed: The seed.

    Returns:
        The graph.

    Example:
        >>> random_regular_graph(10, 3, seed=1).degree
        tensor([3, 3, 3, 3, 3, 3, 3, 3, 3, 3])

    References:
        McKay and Wormald, Uniform generation of random regular graphs of moderate degree, 1990.
    """
    check_count("num_nodes", num_nodes, "Pass 1 or more.")
    check_count("degree", degree, "Pass 0 or more.", least=0)
    if degree >= num_nodes or num_nodes * degree % 2:
        raise InvalidArgumentError(
            "degree",
            f"less than num_nodes = {num_nodes}, with an even product of the two",
            f"{degree}",
            "Add a node, or change the degree by one.",
        )
    generator = _generator(seed)
    if degree > (num_nodes - 1) // 2:
        # The graph of the absent edges is regular too, and the sparser of the two is the easier.
        absent = _random_regular_edges(num_nodes, num_nodes - 1 - degree, generator)
        code = np.arange(num_nodes**2).reshape(num_nodes, num_nodes)
        code = code[np.triu_indices(num_nodes, 1)]
        code = np.setdiff1d(code, _codes(absent, num_nodes))
        return Graph(np.stack([code // num_nodes, code % num_nodes], axis=1), num_nodes)
    return Graph(_random_regular_edges(num_nodes, degree, generator), num_nodes)


# ---------------------------------------------------------------- preferential attachment


def _attach(ends: np.ndarray, start: int, stop: int, m: int, generator: torch.Generator) -> None:
    """Fills in the picks of the nodes from ``start`` to ``stop``; all earlier ones are there."""
    first = 2 * m * (start - m)  # where the ends of this block begin
    available = first + 2 * m * np.repeat(np.arange(stop - start), m)  # ends before each node

    def pick(which: np.ndarray) -> np.ndarray:
        return (_uniform(len(which), generator) * available[which]).astype(np.int64)

    everything = np.arange(len(available))
    place = pick(everything)
    picks = ends[first + 1 : first + 2 * len(available) : 2]  # a view
    for _ in range(MAX_ROUNDS):
        origin = place.copy()
        todo = everything
        while len(todo):
            # A newer end and any end before the block are known; another is a pick of the block.
            todo = todo[(origin[todo] >= first) & (origin[todo] % 2 == 1)]
            origin[todo] = place[(origin[todo] - first) // 2]
        picks[:] = ends[origin]
        again = _repeated_in_row(picks.reshape(-1, m))
        if not len(again):
            return
        place[again] = pick(again)
    raise _gave_up("power_law_graph")


def _repeated_in_row(rows: np.ndarray) -> np.ndarray:
    """The flat positions of entries that repeat another one of their row."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    row, k = np.nonzero(ordered[:, 1:] == ordered[:, :-1])
    return row * rows.shape[1] + order[row, k + 1]


# ---------------------------------------------------------------- regular graphs


def _random_regular_edges(num_nodes: int, degree: int, generator: torch.Generator) -> np.ndarray:
    stubs = np.repeat(np.arange(num_nodes), degree)
    edges = stubs[_permutation(len(stubs), generator)].reshape(-1, 2)
    for _ in range(MAX_ROUNDS):
        present, first = np.unique(_codes(edges, num_nodes), return_index=True)
        good = np.zeros(len(edges), dtype=bool)
        good[first] = True
        good &= edges[:, 0] != edges[:, 1]
        bad = np.flatnonzero(~good)
        if not len(bad):
            return edges
        # Each bad pair (a, b) and a good partner (c, d) become (a, d) and (c, b), or with c and d
        # exchanged. No edge is in two exchanges.
        partner = np.unique((_uniform(len(bad), generator) * len(edges)).astype(np.int64))
        partner = partner[good[partner]]
        partner = partner[_permutation(len(partner), generator)]
        bad = bad[: len(partner)]
        flip = _uniform(len(partner), generator) < 0.5
        edges[partner[flip]] = edges[partner[flip], ::-1]
        new = edges[np.concatenate([bad, partner])]
        new[:, 1] = np.roll(new[:, 1], len(bad))
        fine = np.logical_and(*_are_new(new, present, num_nodes).reshape(2, -1))
        if len(fine) and not fine.any():
            fine[0] = True  # a step aside: no single exchange may help on a small graph
        keep = np.tile(fine, 2)
        edges[np.concatenate([bad, partner])[keep]] = new[keep]
    raise _gave_up("random_regular_graph")


def _are_new(edges: np.ndarray, present: np.ndarray, num_nodes: int) -> np.ndarray:
    """Which are no self loop, not in the sorted codes ``present``, and not twice among these."""
    codes = _codes(edges, num_nodes)
    place = np.minimum(np.searchsorted(present, codes), len(present) - 1)
    _, inverse, count = np.unique(codes, return_inverse=True, return_counts=True)
    return (edges[:, 0] != edges[:, 1]) & (present[place] != codes) & (count[inverse] == 1)


def _codes(edges: np.ndarray, num_nodes: int) -> np.ndarray:
    return edges.min(axis=1) * num_nodes + edges.max(axis=1)


# ---------------------------------------------------------------- randomness and checks


def _generator(seed: int) -> torch.Generator:
    check_count("seed", seed, "Pass 0 or more.", least=0)
    return torch.Generator().manual_seed(int(seed))


def _uniform(size: int, generator: torch.Generator) -> np.ndarray:
    return torch.rand(size, dtype=torch.float64, generator=generator).numpy()


def _permutation(size: int, generator: torch.Generator) -> np.ndarray:
    return torch.randperm(size, generator=generator).numpy()


def _gave_up(function: str) -> PyroCopulaError:
    return PyroCopulaError(
        f"`{function}` found no graph in {MAX_ROUNDS} rounds.\n  Try another seed, or fewer edges."
    )
