"""Couples Poisson counts on a grid, hides a fifth of them, and predicts those with intervals."""

from __future__ import annotations

import math

import pyro
import pyro.distributions as dist
import torch

import pyro_copula as pc

SIDE = 12


def main() -> None:
    pyro.set_rng_seed(0)
    node = torch.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    edges = torch.cat(
        [
            torch.stack([node[:, :-1].reshape(-1), node[:, 1:].reshape(-1)]),
            torch.stack([node[:-1].reshape(-1), node[1:].reshape(-1)]),
        ],
        dim=1,
    )
    graph = pc.Graph.from_edge_index(edges, num_nodes=SIDE * SIDE)
    rate = torch.full((graph.num_nodes,), 8.0)
    K = pc.CARPrecision(graph)(rho=0.99, tau=1.0)
    copula = pc.GaussianCopula(dist.Poisson(rate), precision=K)

    truth = copula.sample()
    missing = torch.randperm(graph.num_nodes)[: graph.num_nodes // 5].sort().values
    y = truth.clone()
    y[missing] = math.nan
    conditional = copula.condition(y)

    print(graph)
    print(copula)
    print(conditional)
    print(f"\n{'node':>5} {'truth':>6} {'alone: 90%':>12} {'given neighbours: mean, 90%':>30}")
    alone, given = copula.interval(0.9), conditional.interval(0.9)
    for k, i in enumerate(missing.tolist()):
        print(
            f"{i:5d} {int(truth[i]):6d} {int(alone.lower[i]):5d} -{int(alone.upper[i]):4d}"
            f" {float(conditional.mean[k]):16.1f}"
            f" {int(given.lower[k]):6d} -{int(given.upper[k]):4d}"
        )

    def report(name: str, lower: torch.Tensor, upper: torch.Tensor) -> None:
        inside = ((truth[missing] >= lower) & (truth[missing] <= upper)).double().mean()
        print(
            f"{name}: coverage {float(inside):.2f}, mean width {float((upper - lower).mean()):.1f}"
        )

    print()
    report("marginal 90% intervals   ", alone.lower[missing], alone.upper[missing])
    report("conditional 90% intervals", given.lower, given.upper)


if __name__ == "__main__":
    main()
