"""A process that uses the package in threads and in children at once, and prints their numbers.

``python at_once.py 4 4``: four threads, each of which imports the package, then four children.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"


def numbers() -> list[float]:
    """A density, its derivative, a prediction, and a fit with its predictions."""
    import torch

    import pyro_copula as pc

    graph = pc.simulate.grid_graph(12, 12)  # large enough for the sparse factor
    tau = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    y = torch.arange(144, dtype=torch.float64) % 7
    hidden = y.masked_fill(torch.arange(144) % 3 == 0, torch.nan)
    K = pc.NormalizedAdjacencyPrecision(graph, backend="sparse")(alpha=0.9, beta=1.0)
    law = torch.distributions.Poisson(3 * tau.expand(144))
    copula = pc.GaussianCopula(law, precision=K)
    value = copula.log_prob(hidden)
    value.backward()
    interval = copula.condition(hidden).interval(0.9)
    found = [value.detach(), tau.grad, interval.lower.sum(), interval.upper.sum()]

    data = pc.datasets.nc_sids()
    model = pc.CopulaGNN("sage", "normal", "car", dropout=0.3, hidden_channels=8)
    schedule = pc.Schedule(max_epochs=6, check_every=2)
    observed = torch.arange(100) % 4 != 0
    fit = pc.fit(model, data, observed, "map", seed=1, lr=0.01, schedule=schedule, progress=False)
    found += [fit.predict().mean.sum(), torch.tensor(fit.history.losses).sum()]
    return [float(x) for x in found]


def in_threads(count: int) -> list:
    """The numbers of some threads that start at the same moment."""
    results: list = [None] * count
    start = threading.Barrier(count)

    def work(k: int) -> None:
        start.wait()
        results[k] = attempt()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def in_processes(count: int) -> list:
    """The numbers of some children at once; forking saves the seconds that importing takes."""
    children = []
    for _ in range(count):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writer, json.dumps(attempt()).encode())
            os._exit(0)
        os.close(writer)
        children.append((pid, reader))
    results = []
    for pid, reader in children:
        with os.fdopen(reader) as stream:
            results.append(json.loads(stream.read() or '"nothing"'))
        os.waitpid(pid, 0)
    return results


def attempt() -> list[float] | str:
    try:
        return numbers()
    except BaseException as error:
        return repr(error)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # these fits are far too short, and say so
    num_threads, num_processes = int(sys.argv[1]), int(sys.argv[2])
    found = {"threads": in_threads(num_threads), "processes": in_processes(num_processes)}
    print(json.dumps({"alone": attempt(), **found}))
