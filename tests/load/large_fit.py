"""A process that fits a large grid and prints what it predicted it would hold, and what it held.

``python large_fit.py 1000 20``: a grid of 1,000 x 1,000 nodes, 20 steps, one JSON line.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import psutil
import torch
from peak_memory import peak_memory
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.linalg import sparse


def main(side: int, steps: int) -> None:
    warnings.simplefilter("ignore")  # a fit of so few steps says that it is short
    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph = pc.simulate.grid_graph(side, side)
    n = side * side
    data = Data(x=torch.randn(n, 2), edge_index=graph.edge_index, y=torch.randn(n))
    observed = torch.rand(n) < 0.6
    process = psutil.Process()
    check, promised = sparse.check_memory, []

    def recorded(bytes_needed: int, what: str, hint: str) -> None:
        """What the process may grow to, as the engine sees it before a factor."""
        promised.append(process.memory_info().rss + max(0, bytes_needed))
        check(bytes_needed, what, hint)

    sparse.check_memory = recorded
    before, started = process.memory_info().rss, time.monotonic()
    fit = pc.fit(
        pc.CopulaGNN("linear", "normal", "car"),
        data,
        observed=observed,
        schedule=pc.Schedule(max_epochs=steps, check_every=steps // 2),
        lr=0.02,
        progress=False,
    )
    losses = fit.history.losses
    found = {
        "nodes": n,
        "steps": len(losses),
        "improved": losses[-1] < losses[0],
        "checks": len(promised),
        "before": before,
        "promised": max(promised, default=0),
        "peak": peak_memory(),
        "after": process.memory_info().rss,
        "seconds": round(time.monotonic() - started, 1),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
