"""A process that makes many small fits and says what it holds on the way, one JSON line a look.

``python soak.py 2000 200`` makes 2,000 fits and looks after every 200. Graphs, marginals and
methods change from fit to fit, so that nothing is held because it is used again.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import psutil
import pyro
import torch
from torch_geometric.data import Data

import pyro_copula as pc

SCHEDULE = pc.Schedule(max_epochs=4, check_every=2, patience=5, save_every=1)
MODELS = [
    {"backbone": "linear", "marginal": "normal", "precision": "car"},
    {"backbone": "mlp", "marginal": "poisson", "precision": "laplacian"},
    {"backbone": "gcn", "marginal": "negative_binomial", "precision": "normalized_adjacency"},
    {"backbone": "sage", "marginal": "gamma", "precision": "edge_regression"},
    {"backbone": "linear", "marginal": "poisson", "precision": "car", "discrete": "ep"},
    {"backbone": "linear", "marginal": "normal", "precision": "car", "nugget": True},
]
#: One fit in so many draws with NUTS or SVI; one in so many is also scored, or saved and loaded.
NUTS_EVERY, SVI_EVERY, SCORE_EVERY, FILES_EVERY = 41, 17, 5, 9


def problem(number: int, family: str) -> tuple[Data, torch.Tensor]:
    """A grid of its own for each fit, with values that its family takes; a quarter is missing."""
    rows, columns = 4 + number % 3, 5 + number % 4
    graph = pc.simulate.grid_graph(rows, columns)
    n = rows * columns
    x = torch.randn(n, 2)
    y = x[:, 0] + torch.randn(n)
    if family != "normal":
        y = 1 + torch.poisson(y.exp())
    return Data(x=x, edge_index=graph.edge_index, y=y), torch.arange(n) % 4 != number % 4


def one_fit(number: int, folder: Path) -> float:
    """A fit and its predictions; what it returns depends on the number only."""
    pyro.set_rng_seed(number)
    options = MODELS[number % len(MODELS)]
    data, observed = problem(number, options["marginal"])
    method = "map" if number % 4 == 0 else "mle"
    if number % NUTS_EVERY == 0:
        method = "nuts"
    elif number % SVI_EVERY == 0:
        method = "svi"
    draws = {} if method in ("mle", "map") else {"num_draws": 4}
    if method == "nuts":
        draws.update(num_warmup=4, num_chains=1)
    files = number % FILES_EVERY == 1
    checkpoint = folder / f"{number}.ckpt" if files else None
    fit = pc.fit(
        pc.CopulaGNN(**options),
        data,
        observed=observed,
        method=method,
        seed=number,
        schedule=SCHEDULE,
        progress=False,
        checkpoint=checkpoint,
        **draws,
    )
    prediction = fit.predict(num_samples=20)
    if number % SCORE_EVERY == 0:
        prediction.score(data.y)
    if files:
        fit.save(folder / "fit.pt")
        pc.load_fit(folder / "fit.pt")
        checkpoint.unlink(missing_ok=True)
    repr(fit), repr(prediction)
    return float(prediction.mean.sum())


def look(number: int, started: float, check: float) -> None:
    """Prints what the process holds after so many fits."""
    gc.collect()
    process = psutil.Process()
    held = {
        "fits": number,
        "seconds": round(time.monotonic() - started, 1),
        "rss": process.memory_info().rss,
        "files": process.num_fds(),
        "threads": process.num_threads(),
        "python_threads": threading.active_count(),
        "children": len(process.children(recursive=True)),
        "parameters": len(pyro.get_param_store()),
        "tensors": sum(issubclass(type(o), torch.Tensor) for o in gc.get_objects()),
        "objects": len(gc.get_objects()),
        "check": check,
    }
    print(json.dumps(held), flush=True)


def main(total: int, every: int) -> None:
    warnings.simplefilter("ignore")  # these fits are far too short, and the fits say so
    torch.set_num_threads(1)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(total):
            check = one_fit(number, Path(folder))
            if (number + 1) % every == 0:
                look(number + 1, started, check)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
