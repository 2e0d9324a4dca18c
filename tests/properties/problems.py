"""Strategies: graphs, precisions, laws, missing patterns, and problems made of all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from laws import LAWS, Law

import pyro_copula as pc

#: The midpoint rule says that it is rough where counts are small; what is compared here are two
#: ways to the same number, rough or not.
IGNORE_MIDPOINT = "ignore::pyro_copula.errors.MidpointWarning"

#: Relative, for two ways to a number on precisions of modest condition.
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Problem:
    """A law at every node, a precision, and values of which some are missing."""

    law: Law
    parameters: dict[str, torch.Tensor]
    graph: pc.Graph
    diagonal: torch.Tensor
    off_diagonal: torch.Tensor
    y: torch.Tensor
    observed: torch.Tensor

    @property
    def num_nodes(self) -> int:
        return self.graph.num_nodes

    @property
    def y_missing(self) -> torch.Tensor:
        """The values, NaN where missing."""
        return self.y.masked_fill(~self.observed, math.nan)

    def precision(self, backend: str = "dense") -> pc.SparsePrecision:
        return pc.SparsePrecision(self.graph, self.diagonal, self.off_diagonal, backend=backend)

    def copula(self, backend: str = "dense", **options: Any) -> pc.GaussianCopula:
        law = self.law.build(**self.parameters)
        return pc.GaussianCopula(law, precision=self.precision(backend), **options)

    def take(self, nodes: torch.Tensor) -> Problem:
        """The same problem with node ``nodes[k]`` as its k-th, and no other."""
        number = {int(node): k for k, node in enumerate(nodes)}
        kept = {
            tuple(sorted((number[i], number[j]))): float(value)
            for (i, j), value in zip(self.graph.edges.tolist(), self.off_diagonal)
            if i in number and j in number
        }
        graph = pc.Graph.from_edges(
            np.array(list(kept), dtype=np.int64).reshape(-1, 2), num_nodes=len(nodes)
        )
        return replace(
            self,
            parameters={name: values[nodes] for name, values in self.parameters.items()},
            graph=graph,
            diagonal=self.diagonal[nodes],
            off_diagonal=torch.tensor([kept[tuple(edge)] for edge in graph.edges.tolist()]),
            y=self.y[nodes],
            observed=self.observed[nodes],
        )

    def with_isolated_node(self) -> Problem:
        """The same problem with one more node, alone and missing, after the others."""
        more = self.law.parameters(1, seed=99)
        return replace(
            self,
            parameters={k: torch.cat([v, more[k]]) for k, v in self.parameters.items()},
            graph=pc.Graph(self.graph.edges, self.num_nodes + 1),
            diagonal=torch.cat([self.diagonal, torch.tensor([3.7])]),
            y=torch.cat([self.y, torch.tensor([math.nan])]),
            observed=torch.cat([self.observed, torch.tensor([False])]),
        )


@st.composite
def graphs(draw, min_nodes: int = 1, max_nodes: int = 9) -> pc.Graph:
    """Any graph: without edges, a clique, in pieces, and everything between."""
    n = draw(st.integers(min_nodes, max_nodes), label="num_nodes")
    pairs = list(combinations(range(n), 2))
    kept = draw(st.lists(st.booleans(), min_size=len(pairs), max_size=len(pairs)), label="edges")
    edges = [pair for pair, keep in zip(pairs, kept) if keep]
    return pc.Graph.from_edges(np.array(edges, dtype=np.int64).reshape(-1, 2), num_nodes=n)


def _numbers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(low, high, allow_nan=False).map(lambda x: round(x, 3))


@st.composite
def precision_values(draw, graph: pc.Graph) -> tuple[torch.Tensor, torch.Tensor]:
    """Diagonal and edges of a family of the package, or of any dominant matrix."""
    family = draw(st.sampled_from(["laplacian", "adjacency", "car", "dominant"]))
    if family == "laplacian":
        gamma = draw(_numbers(0.05, 3))
        K = pc.LaplacianPrecision(graph)(tau=draw(_numbers(0.1, 5)), gamma=gamma)
    elif family == "adjacency":
        alpha = draw(_numbers(-0.95, 0.95))
        K = pc.NormalizedAdjacencyPrecision(graph)(alpha=alpha, beta=draw(_numbers(0.1, 5)))
    elif family == "car":
        K = pc.CARPrecision(graph)(rho=draw(_numbers(-0.95, 0.95)), tau=draw(_numbers(0.1, 5)))
    else:
        rng = np.random.default_rng(draw(st.integers(0, 2**16)))
        off = torch.tensor(rng.normal(size=graph.num_edges))
        total = torch.zeros(graph.num_nodes).index_add(0, graph.rows, off.abs())
        total = total.index_add(0, graph.cols, off.abs())
        return total + torch.tensor(rng.uniform(0.05, 2, graph.num_nodes)), off
    return K.diagonal.detach(), K.off_diagonal.detach()


@st.composite
def missing_patterns(draw, n: int, min_missing: int = 0) -> torch.Tensor:
    """Which nodes are observed: one at least, and not more than all but ``min_missing``."""
    observed = draw(st.lists(st.booleans(), min_size=n, max_size=n), label="observed")
    order = draw(st.permutations(range(n)))
    observed[order[0]] = True
    for node in order[1 : 1 + min_missing]:
        observed[node] = False
    return torch.tensor(observed)


@st.composite
def problems(
    draw, min_nodes: int = 1, max_nodes: int = 9, min_missing: int = 0, laws: Any = LAWS
) -> Problem:
    """A law of the package at the nodes of a graph, with values from tail to tail."""
    graph = draw(graphs(min_nodes, max_nodes))
    n = graph.num_nodes
    law = draw(st.sampled_from(laws), label="law")
    seed = draw(st.integers(0, 2**16), label="seed")
    parameters = law.parameters(n, seed)
    u = np.random.default_rng(seed + 1).uniform(1e-3, 1 - 1e-3, n)
    diagonal, off_diagonal = draw(precision_values(graph))
    return Problem(
        law,
        parameters,
        graph,
        diagonal,
        off_diagonal,
        torch.tensor(law.frozen(parameters).ppf(u)),
        draw(missing_patterns(n, min_missing)),
    )


def assert_close(found: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    """Compares within a relative tolerance, absolute below one."""
    found, expected = (
        v.detach().numpy() if torch.is_tensor(v) else np.asarray(v) for v in (found, expected)
    )
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
