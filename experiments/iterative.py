"""Accuracy, time and memory of the iterative engine.

    python experiments/iterative.py accuracy election step growth large

Writes ``experiments/results/iterative.json``; a part that is not run keeps its old record. Times
are CPU seconds of one thread (user time), which a busy machine hardly changes.

- ``accuracy``: wiki-squirrel, 16 probes, against the exact engine over independent seeds.
- ``election``: fits of the election data with the iterative and with the exact engine.
- ``step``: one training step on a preferential-attachment graph of 100,000 nodes.
- ``growth``: the same from 10,000 to 1,000,000 nodes, and the exponent of the growth.
- ``large``: a step and a prediction at 1,000,000 nodes.
- ``processes``: a step of two processes against that of one; see ``processes.py``.
- ``batches``: memory of networks in batches of nodes; see ``batches.py``.
"""

# ruff: noqa: E402  (threads are limited before numpy is imported)

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when numpy is imported
    os.environ[name] = "1"

import argparse
import itertools
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyro.distributions as dist
import torch
from harness.models import LastState
from torch.nn.functional import softplus
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula import Iterative
from pyro_copula.linalg.iterative.solver import IterativeSolver
from pyro_copula.linalg.sparse import SparseSolver

RESULTS = Path(__file__).parent / "results" / "iterative.json"
SEEDS = 20
#: Splits of the election data.
SPLITS = 5
EPOCHS = 1000


def cpu() -> float:
    """User CPU seconds of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def peak() -> float:
    """The largest memory of this process so far, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def preferential_attachment(num_nodes: int, edges_per_node: int, seed: int = 0) -> pc.Graph:
    """Every node joins some older ones, chosen in proportion to their degree.

    Batagelj and Brandes, Efficient generation of large random networks, 2005, with the copies
    followed for all edges at once.
    """
    rng = np.random.default_rng(seed)
    count = num_nodes * edges_per_node
    place = np.arange(count)
    copied = rng.integers(0, 2 * place + 1)  # the end of which earlier half edge
    target = copied.copy()
    while (target % 2).any():
        odd = target % 2 == 1
        target[odd] = copied[target[odd] // 2]
    ends = np.stack([place // edges_per_node, target // 2 // edges_per_node], 1)
    return pc.Graph.from_edges(ends, num_nodes)


def ring(num_nodes: int, edges_per_node: int) -> pc.Graph:
    """Every node joins the next few: as many edges, and each between neighbours in memory."""
    nodes = np.arange(num_nodes)
    ends = [np.stack([nodes, (nodes + k) % num_nodes], 1) for k in range(1, edges_per_node + 1)]
    return pc.Graph.from_edges(np.concatenate(ends), num_nodes)


def precision_values(graph: pc.Graph, kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The values of a precision: an alpha, or edge weights that are softplus of normals."""
    if kind != "softplus":
        K = pc.NormalizedAdjacencyPrecision(graph)(alpha=float(kind), beta=1.0)
        return K.diagonal.detach(), K.off_diagonal.detach()
    generator = torch.Generator().manual_seed(0)
    weight = softplus(torch.randn(graph.num_edges, generator=generator))
    diagonal = torch.ones(graph.num_nodes)
    diagonal = diagonal.index_add(0, graph.rows, weight).index_add(0, graph.cols, weight)
    return diagonal, -weight


def accuracy() -> dict:
    """Errors at 16 probes on wiki-squirrel, in the precision of training."""
    data = pc.datasets.wikipedia("squirrel")
    graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
    record = {"seeds": SEEDS, "probes": 16}
    for kind in ("0.9", "0.99", "0.999", "softplus"):
        diagonal, off = precision_values(graph, kind)
        exact = SparseSolver(graph, diagonal, off)
        variance, covariance = exact.selected_inverse()
        logdet, z, on_edges, on_nodes, seconds = [], [], [], [], []
        for seed in range(SEEDS):
            leaves = diagonal.clone().requires_grad_(), off.clone().requires_grad_()
            start = cpu()
            solver = IterativeSolver(graph, *leaves, Iterative(seed=seed))
            value = solver.logdet()
            _, gradient = torch.autograd.grad(value, leaves)
            seconds.append(cpu() - start)
            error = float(value.detach() - exact.logdet())
            logdet.append(error)
            z.append(error / float(solver.logdet_error()))
            on_edges.append(float((gradient / 2 - covariance).square().sum()))
            relative = solver.inverse_diagonal().detach() / variance - 1
            on_nodes.append(float(relative.square().mean()))
        record[kind] = {
            "logdet": float(exact.logdet()),
            "logdet_rmse": math.sqrt(np.mean(np.square(logdet))),
            "logdet_mean_error": float(np.mean(logdet)),
            "logdet_z_rms": math.sqrt(np.mean(np.square(z))),
            "edge_gradient_relative_rmse": math.sqrt(
                np.mean(on_edges) / float(covariance.square().sum())
            ),
            "variance_relative_rmse": math.sqrt(np.mean(on_nodes)),
            "cpu_seconds": float(np.median(seconds)),
        }
        print(kind, record[kind], flush=True)
    return record


class Setting:
    """Poisson counts on a graph of mean degree 10, with 40% of the nodes missing.

    The network and the features are float32, torch's default.
    """

    def __init__(
        self,
        num_nodes: int,
        channels: int = 8,
        make: Callable[[int, int], pc.Graph] = preferential_attachment,
    ) -> None:
        torch.set_default_dtype(torch.float32)
        torch.manual_seed(0)
        self.graph = make(num_nodes, 5)
        self.x = torch.randn(num_nodes, channels)
        self.y = torch.poisson(torch.full((num_nodes,), 5.0))
        self.y[torch.rand(num_nodes) < 0.4] = math.nan
        self.rate = torch.nn.Linear(channels, 1)
        self.precision = pc.EdgeRegressionPrecision(
            self.graph, in_channels=channels, backend="iterative"
        )

    def copula(self) -> pc.GaussianCopula:
        """The law at the present parameters."""
        rate = (1.5 + 0.1 * self.rate(self.x).squeeze(-1)).exp()
        return pc.GaussianCopula(dist.Poisson(rate), precision=self.precision(self.x))

    def step(self) -> tuple[float, float]:
        """CPU and wall seconds of one log density with all gradients."""
        start, wall = cpu(), time.perf_counter()
        (-self.copula().log_prob(self.y)).backward()
        return cpu() - start, time.perf_counter() - wall


def step(
    num_nodes: int = 100_000,
    repeats: int = 3,
    make: Callable[[int, int], pc.Graph] = preferential_attachment,
) -> dict:
    """A training step; the first one, which loads compiled kernels, does not count."""
    Setting(2_000).step()
    before = peak()
    setting = Setting(num_nodes, make=make)
    times = [setting.step() for _ in range(repeats)]
    record = {
        "nodes": num_nodes,
        "edges": setting.graph.num_edges,
        "cpu_seconds": float(np.median([t for t, _ in times])),
        "wall_seconds": float(np.median([t for _, t in times])),
        "peak_GiB": peak(),
        "peak_GiB_above_imports": peak() - before,
    }
    print(record, flush=True)
    return record


def growth(rounds: int = 4) -> dict:
    """CPU seconds of a step against the number of nodes, at mean degree 10.

    The sizes take turns, so that a machine whose speed changes slows all of them, and the shortest
    step of each counts. On the ring a row's neighbours are in the cache whatever the size, so that
    the difference between the two is the price of memory, not of the method.
    """
    record: dict = {"nodes": [10_000, 30_000, 100_000, 300_000, 1_000_000], "rounds": rounds}
    for make in (preferential_attachment, ring):
        settings = [Setting(n, make=make) for n in record["nodes"]]
        times: list[list[float]] = [[] for _ in settings]
        for number in range(rounds + 1):
            for setting, found in zip(settings, times, strict=True):
                seconds = setting.step()[0]
                if number:  # the first one makes what depends on the graph alone
                    found.append(seconds)
            print(make.__name__, [found[-1:] for found in times], flush=True)
        best = [min(found) for found in times]
        slope = float(np.polyfit(np.log(record["nodes"]), np.log(best), 1)[0])
        print(make.__name__, "exponent", slope, flush=True)
        record[make.__name__] = {"cpu_seconds": best, "exponent": slope}
    return record


def large(num_nodes: int = 1_000_000) -> dict:
    """A step and a prediction with intervals of the 40% missing nodes."""
    record = step(num_nodes)
    setting = Setting(num_nodes)
    start, wall = cpu(), time.perf_counter()
    with torch.no_grad():
        conditional = setting.copula().condition(setting.y)
        interval = conditional.interval(0.9)
    assert bool((interval.upper >= interval.lower).all())
    record["prediction_cpu_seconds"] = cpu() - start
    record["prediction_wall_seconds"] = time.perf_counter() - wall
    record["peak_GiB"] = peak()
    print(record, flush=True)
    return record


def curvature_error(fit, y: torch.Tensor, name: str, step: float = 0.05) -> float:
    """The standard error of one raw parameter with the others fixed, by second differences."""
    parameter = dict(fit.model.named_parameters())[name]
    centre, values = parameter.detach().clone(), []
    with torch.no_grad():
        for shift in (-step, 0.0, step):
            parameter.copy_(centre + shift)
            values.append(float(fit.model.joint().log_prob(y)))
        parameter.copy_(centre)
    return (-(values[0] - 2 * values[1] + values[2]) / step**2) ** -0.5


def election_data(marginal: str) -> Data:
    """County incomes; or counts whose logarithm they are, up to scale."""
    data = pc.datasets.election("income")
    if marginal == "poisson":
        rate = (1.5 + 0.5 * data.y).exp()
        data.y = torch.poisson(rate, generator=torch.Generator().manual_seed(1))
    return data


def one_fit(data: Data, observed: torch.Tensor, marginal: str, **case) -> tuple[pc.Fit, dict]:
    """A fit, and what it says: learned parameters, and R2 at the nodes that were not observed."""
    model = pc.CopulaGNN(case["backbone"], marginal, "normalized_adjacency", backend=case["engine"])
    start = cpu()
    fit = pc.fit(
        model,
        data,
        observed=observed,
        seed=case["seed"],
        lr=case["lr"],
        judge=LastState() if case["backbone"] == "linear" else None,
        schedule=pc.Schedule(max_epochs=EPOCHS),
        progress=False,
    )
    truth = data.y[~observed]
    error = (truth - fit.predict(num_samples=2).mean).square().sum()
    record = {
        **fit.scalars,
        "r2": 1 - float(error / (truth - truth.mean()).square().sum()),
        "steps": len(fit.history.losses),
        "cpu_seconds": cpu() - start,
    }
    print(marginal, case, record, flush=True)
    return fit, record


def election() -> dict:
    """Fits with both engines on several splits, and with the exact one at a rate 1% smaller.

    The last is the yardstick: what the fit itself does not determine. A linear mean is fitted to
    the maximum of its likelihood, where the engines must agree. A network is stopped early, on a
    path that the smallest difference changes, so that only averages over splits can be compared.
    """
    torch.set_default_dtype(torch.float32)
    record: dict = {}
    for marginal, backbone in itertools.product(("normal", "poisson"), ("linear", "mlp")):
        data, rows = election_data(marginal), []
        for seed in range(SPLITS):
            generator = torch.Generator().manual_seed(seed)
            observed = torch.rand(data.num_nodes, generator=generator) < 0.6
            fits, found = {}, {}
            for name, engine, lr in (
                ("exact", "sparse", 0.01),
                ("exact again", "sparse", 0.0099),
                ("iterative", "iterative", 0.01),
            ):
                case = {"backbone": backbone, "engine": engine, "lr": lr, "seed": seed}
                fits[name], found[name] = one_fit(data, observed, marginal, **case)
            seen = torch.where(observed, data.y, math.nan)
            exact = dict(fits["exact"].model.named_parameters())
            for name in exact:
                if not name.startswith("precision") or (marginal == "poisson" and "beta" in name):
                    continue  # a copula does not depend on the overall scale
                error = curvature_error(fits["exact"], seen, name)
                for other in ("exact again", "iterative"):
                    moved = dict(fits[other].model.named_parameters())[name] - exact[name]
                    found[other][f"standard errors off: {name.split('.')[-2]}"] = (
                        float(moved.detach()) / error
                    )
            for other in ("exact again", "iterative"):
                found[other]["r2_off"] = found[other]["r2"] - found["exact"]["r2"]
                print(seed, other, found[other], flush=True)
            rows.append(found)
        record[f"{marginal}, {backbone}"] = rows
    return record


def script(name: str, *arguments: str, processes: int | None = None) -> dict:
    """The record that another script of this folder prints, run by itself or by torchrun."""
    start = [] if processes is None else ["-m", "torch.distributed.run", "--standalone"]
    start += [] if processes is None else ["--nproc-per-node", str(processes)]
    command = [sys.executable, *start, str(Path(__file__).with_name(name)), *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    record = json.loads(done.stdout.splitlines()[-1])
    print(record, flush=True)
    return record


def processes() -> dict:
    """Two processes against one: with many probes, those of an evaluation, a block for each."""
    counts = ("256", "64", "32", "16")
    return {f"{n} probes": script("processes.py", "--probes", n, processes=2) for n in counts}


def batches() -> list[dict]:
    """Each backbone at all nodes at once and in batches."""
    return [script("batches.py", name, size) for name in ("sage", "gat") for size in ("0", "5000")]


PARTS = {
    "accuracy": accuracy,
    "election": election,
    "step": step,
    "growth": growth,
    "large": large,
    "processes": processes,
    "batches": batches,
}


def main() -> None:
    """Runs the parts named on the command line, each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=["accuracy", "step"])
    names = parser.parse_args().parts
    if len(names) > 1:  # the largest memory so far would be that of another part
        for name in names:
            subprocess.run([sys.executable, __file__, name], check=True)
        return
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    found = PARTS[names[0]]()
    record = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.write_text(json.dumps({**record, names[0]: found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
