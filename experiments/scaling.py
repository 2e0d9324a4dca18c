"""Time and memory of a training step, and how they grow with the graph.

    python experiments/scaling.py                 # everything; about half an hour
    python experiments/scaling.py --smoke         # small cases only, seconds
    python experiments/scaling.py --families      # both engines on graphs that fill in, hours

Two engines do the same work on the same machine in the same run, and only ratios of their times
are quoted: the package, and a dense baseline that does what the published code does (a dense
inverse of the precision, a dense Cholesky factor of the observed block of the covariance, autograd
through both). Each case runs in a process of its own, on one thread, so that its peak memory is
its own. Results go to ``experiments/results/scaling.json``, ``scaling.md`` and ``scaling.png``.

The real graphs are read from ``PYRO_COPULA_DATA``. The power-law and random-regular families, with
the iterative engine beside the exact one, are measured by ``crossover.py``, which ``--families``
runs: it resumes, and its options are described there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyro.distributions as dist
import torch
from torch import Tensor

import pyro_copula as pc

RESULTS = Path(__file__).parent / "results"
REAL = ("election", "emnlp", "chameleon", "squirrel")
GRIDS = (100, 300, 500, 1000)
#: The sides of the two grids whose times say how a step grows.
GROWTH = (300, 1000)
SMOKE = ("grid30",)


# ------------------------------------------------------------------- the two engines


class Package:
    """The step as a user of the package writes it."""

    def __init__(self, graph: pc.Graph, observed: Tensor) -> None:
        self.precision = pc.NormalizedAdjacencyPrecision(graph).double()
        self.observed = observed

    def normal(self, loc: Tensor, y: Tensor) -> Tensor:
        return pc.GraphNormal(loc, precision=self.precision()).log_prob(self._missing(y))

    def poisson(self, rate: Tensor, y: Tensor) -> Tensor:
        copula = pc.GaussianCopula(dist.Poisson(rate), precision=self.precision())
        return copula.log_prob(self._missing(y))

    def predict(self, rate: Tensor, y: Tensor) -> tuple[Tensor, Any]:
        copula = pc.GaussianCopula(dist.Poisson(rate), precision=self.precision())
        conditional = copula.condition(self._missing(y))
        return conditional.sample((1000,)), conditional.interval(0.9)

    def _missing(self, y: Tensor) -> Tensor:
        return y.masked_fill(~self.observed, math.nan)


class Dense:
    """The step as the published code has it: dense matrices and autograd throughout."""

    def __init__(self, graph: pc.Graph, observed: Tensor) -> None:
        A = torch.tensor(graph.to_scipy().toarray())
        half = A.sum(0).clamp(min=1).rsqrt()
        self.S = half[:, None] * A * half
        self.eye = torch.eye(graph.num_nodes, dtype=torch.float64)
        self.observed = observed
        self.raw_alpha = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
        self.raw_beta = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)

    def covariance(self) -> Tensor:
        K = self.raw_beta.exp() * (self.eye - self.raw_alpha.tanh() * self.S)
        return torch.inverse(K)

    def correlation(self) -> Tensor:
        covariance = self.covariance()
        scale = covariance.diagonal().sqrt()
        return covariance / (scale[:, None] * scale)

    def normal(self, loc: Tensor, y: Tensor) -> Tensor:
        o = self.observed
        law = torch.distributions.MultivariateNormal(loc[o], self.covariance()[o][:, o])
        return law.log_prob(y[o])

    def scores(self, rate: Tensor, y: Tensor) -> Tensor:
        upper = torch.special.gammaincc(y.double() + 1, rate)
        lower = torch.where(y > 0, torch.special.gammaincc(y.double().clamp(min=1), rate), 0.0)
        u = ((upper + lower) / 2).clamp(1e-3, 1 - 1e-3)
        return torch.special.ndtri(u)

    def poisson(self, rate: Tensor, y: Tensor) -> Tensor:
        o = self.observed
        z = self.scores(rate, y)[o]
        R = self.correlation()[o][:, o]
        joint = torch.distributions.MultivariateNormal(torch.zeros_like(z), R).log_prob(z)
        independent = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum()
        return joint - independent + torch.distributions.Poisson(rate[o]).log_prob(y[o]).sum()

    def predict(self, rate: Tensor, y: Tensor) -> tuple[Tensor, Any]:
        o, R = self.observed, self.correlation().detach()
        z = self.scores(rate, y)[o]
        gain = R[~o][:, o] @ torch.inverse(R[o][:, o])
        mean = gain @ z
        covariance = R[~o][:, ~o] - gain @ R[o][:, ~o]
        law = torch.distributions.MultivariateNormal(mean, covariance)
        u = torch.distributions.Normal(0.0, 1.0).cdf(law.sample((1000,)))
        draws = torch.tensor(_poisson_quantile(u.numpy(), rate[~o].detach().numpy()))
        return draws, (draws.quantile(0.05, 0), draws.quantile(0.95, 0))


def _poisson_quantile(u: np.ndarray, rate: np.ndarray) -> np.ndarray:
    from scipy.stats import poisson

    return poisson.ppf(u, rate)


# ------------------------------------------------------------------- cases


def load_graph(name: str) -> pc.Graph:
    """A real graph by name, or ``grid<side>``."""
    if name.startswith("grid"):
        side = int(name.removeprefix("grid"))
        node = np.arange(side * side).reshape(side, side)
        across = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()], 1)
        down = np.stack([node[:-1].ravel(), node[1:].ravel()], 1)
        return pc.Graph.from_edges(np.concatenate([across, down]), num_nodes=side * side)
    data = {
        "election": lambda: pc.datasets.election("unemployment"),
        "emnlp": pc.datasets.emnlp,
        "chameleon": lambda: pc.datasets.wikipedia("chameleon"),
        "squirrel": lambda: pc.datasets.wikipedia("squirrel"),
    }[name]()
    return pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)


def problem(name: str) -> tuple[pc.Graph, Tensor, Tensor, Tensor]:
    """The graph, which nodes are observed (60%), and values for normal and Poisson outcomes."""
    graph = load_graph(name)
    generator = torch.Generator().manual_seed(0)
    observed = torch.rand(graph.num_nodes, generator=generator) < 0.6
    y = torch.randn(graph.num_nodes, generator=generator, dtype=torch.float64)
    rate = torch.full((graph.num_nodes,), 6.0, dtype=torch.float64)
    return graph, observed, y, torch.poisson(rate, generator=generator)


def seconds(step: Callable[[], Any], repeats: int) -> float:
    """The median time of a step, after one that is not counted."""
    step()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def stepper(name: str, work: str, engine: str) -> tuple[pc.Graph, Callable[[], None]]:
    """A graph, and one step of the work on it."""
    graph, observed, y, counts = problem(name)
    made = {"package": Package, "dense": Dense}[engine](graph, observed)

    def step() -> None:
        if work == "normal":
            loc = torch.zeros(graph.num_nodes, dtype=torch.float64, requires_grad=True)
            made.normal(loc, y).backward()
        elif work == "poisson":
            rate = torch.full((graph.num_nodes,), 6.0, dtype=torch.float64, requires_grad=True)
            made.poisson(rate, counts).backward()
        else:
            with torch.no_grad():
                made.predict(torch.full((graph.num_nodes,), 6.0, dtype=torch.float64), counts)

    return graph, step


def measure(name: str, work: str, engine: str, repeats: int) -> dict[str, Any]:
    """Times one case, in this process."""
    torch.set_num_threads(1)
    graph, step = stepper(name, work, engine)
    first = time.perf_counter()
    step()
    first = time.perf_counter() - first
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "graph": name,
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "work": work,
        "engine": engine,
        "first": first,
        "seconds": seconds(step, repeats),
        "peak_gib": peak,
    }


def network_ratio(repeats: int) -> dict[str, Any]:
    """Time of a copula training step over that of the network alone, on election counties."""
    from torch_geometric.nn import SAGEConv

    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = pc.datasets.election("unemployment")
    graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
    observed = torch.rand(graph.num_nodes) < 0.6
    first, second = SAGEConv(data.num_features, 16), SAGEConv(16, 1)
    x, y = data.x.float(), data.y.float()
    precision = pc.NormalizedAdjacencyPrecision(graph)
    parameters = [*first.parameters(), *second.parameters(), *precision.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    missing = y.masked_fill(~observed, math.nan)

    def forward() -> Tensor:
        return second(first(x, data.edge_index).relu(), data.edge_index).squeeze(-1)

    def base() -> None:
        optimizer.zero_grad()
        (forward()[observed] - y[observed]).square().mean().backward()
        optimizer.step()

    def copula() -> None:
        optimizer.zero_grad()
        (-pc.GraphNormal(forward(), precision=precision()).log_prob(missing)).backward()
        optimizer.step()

    times = {"base": [], "copula": []}
    for step in (base, copula):
        seconds(step, 3)
    for _ in range(repeats):  # interleaved, so that a busy moment hits both
        for kind, step in (("base", base), ("copula", copula)):
            start = time.perf_counter()
            step()
            times[kind].append(time.perf_counter() - start)
    medians = {kind: float(np.median(values)) for kind, values in times.items()}
    return {"ratio": medians["copula"] / medians["base"], **medians}


def growth(repeats: int) -> dict[str, Any]:
    """How the time of a step grows from the smaller grid to the larger, as a power of n.

    The two alternate, so that a busy moment of the machine hits both, and the shortest time of
    each counts: whatever else the machine does only adds to it.
    """
    torch.set_num_threads(1)
    result: dict[str, Any] = {"grids": GROWTH}
    for work in ("normal", "poisson"):
        steps = [stepper(f"grid{side}", work, "package")[1] for side in GROWTH]
        times = np.empty((repeats, 2))
        for step in steps:
            step()
        for row in times:
            for column, step in enumerate(steps):
                row[column] = seconds(step, 1)
        small, large = times.min(axis=0)
        result[work] = float(math.log(large / small) / (2 * math.log(GROWTH[1] / GROWTH[0])))
        result[f"{work}_seconds"] = [float(small), float(large)]
    return result


def cholmod_ratio(side: int, repeats: int) -> dict[str, Any]:
    """Time of our numeric factor over that of CHOLMOD's supernodal one, on a square grid.

    CHOLMOD comes with cvxopt, which is installed by hand for this measurement and is no
    dependency. Both factor the same values in the same order, on one thread.
    """
    import cvxopt
    from cvxopt import cholmod

    from pyro_copula.linalg.sparse import SparseSolver
    from pyro_copula.linalg.symbolic import analyze

    graph = load_graph(f"grid{side}")
    K = pc.CARPrecision(graph, rho=0.99).double()().detach()
    order = analyze(graph).order
    position = np.empty(graph.num_nodes, dtype=np.int64)
    position[order] = np.arange(graph.num_nodes)
    i, j = position[graph.edges].T
    nodes = np.arange(graph.num_nodes)
    matrix = cvxopt.spmatrix(
        np.concatenate([K.diagonal.numpy()[order], K.off_diagonal.numpy()]),
        np.concatenate([nodes, np.maximum(i, j)]),
        np.concatenate([nodes, np.minimum(i, j)]),
    )
    cholmod.options["supernodal"] = 2
    factor = cholmod.symbolic(matrix, p=cvxopt.matrix(nodes))
    ours, theirs = [], []
    for _ in range(repeats + 1):  # interleaved, so that a busy moment hits both
        start = time.perf_counter()
        SparseSolver(graph, K.diagonal, K.off_diagonal).factors.logdet()
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        cholmod.numeric(matrix, factor)
        theirs.append(time.perf_counter() - start)
    medians = {"ours": float(np.median(ours[1:])), "cholmod": float(np.median(theirs[1:]))}
    return {"grid": side, "ratio": medians["ours"] / medians["cholmod"], **medians}


def import_ratio(repeats: int) -> dict[str, Any]:
    """Time to import the package over that to import Pyro and PyTorch Geometric."""
    # Its names are imported when they are asked for: so ask for all but the one that needs arviz.
    every = (
        "import pyro_copula as pc; [getattr(pc, n) for n in {*pc.__all__} - {'to_inference_data'}]"
    )
    times: dict[str, list[float]] = {every: [], "import pyro, torch_geometric": []}
    for _ in range(repeats):
        for script, values in times.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", script], check=True)
            values.append(time.perf_counter() - start)
    medians = [float(np.median(values)) for values in times.values()]
    return {"ratio": medians[0] / medians[1]}


# ------------------------------------------------------------------- the whole run


EXTRA = {
    "growth": lambda: growth(9),
    "network": lambda: network_ratio(200),
    "cholmod": lambda: cholmod_ratio(300, 9),
    "import": lambda: import_ratio(5),
}


def run_script(*arguments: str) -> dict[str, Any]:
    """Runs this script with other arguments in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(output.splitlines()[-1])


def plan(smoke: bool) -> list[tuple[str, str, str, str]]:
    if smoke:
        works = ("normal", "poisson", "predict")
        return [(g, w, e, "2") for g in SMOKE for w in works for e in ("package", "dense")]
    cases = []
    for name in REAL:
        for work in ("normal", "poisson", "predict"):
            cases += [(name, work, "package", "15"), (name, work, "dense", "1")]
    for side in GRIDS:
        for work in ("normal", "poisson"):
            cases.append((f"grid{side}", work, "package", "3"))
    return cases


def table(records: list[dict[str, Any]], extra: dict[str, Any]) -> str:
    """The results as Markdown: ratios, and memory."""
    found = {(r["graph"], r["work"], r["engine"]): r for r in records}
    lines = [
        "| graph | nodes | edges | work | faster than dense | peak memory | dense peak |",
        "|---|---|---|---|---|---|---|",
    ]
    for (name, work, engine), record in found.items():
        if engine != "package":
            continue
        dense = found.get((name, work, "dense"))
        ratio = f"{dense['seconds'] / record['seconds']:.0f}x" if dense else "dense not run"
        memory = f"{dense['peak_gib']:.2f} GiB" if dense else ""
        lines.append(
            f"| {name} | {record['nodes']:,} | {record['edges']:,} | {work} | {ratio} | "
            f"{record['peak_gib']:.2f} GiB | {memory} |"
        )
    if "growth" in extra:
        small, large = (f"{side**2:,}" for side in extra["growth"]["grids"])
        lines.append(
            f"\nGrowth of a step from {small} to {large} nodes: "
            f"n^{extra['growth']['normal']:.2f} normal, n^{extra['growth']['poisson']:.2f} poisson."
        )
    if "network" in extra:
        lines.append(
            f"\nElection, normal outcomes: a copula training step takes "
            f"{extra['network']['ratio']:.2f} times a step of the network alone."
        )
    if "cholmod" in extra:
        lines.append(
            f"\nGrid of {extra['cholmod']['grid']} x {extra['cholmod']['grid']}: the numeric "
            f"factor takes {extra['cholmod']['ratio']:.2f} times that of CHOLMOD, supernodal."
        )
    if "import" in extra:
        lines.append(
            f"\n`import pyro_copula`, with every name, takes {extra['import']['ratio']:.2f} times "
            "`import pyro, torch_geometric`."
        )
    return "\n".join(lines) + "\n"


def plot(records: list[dict[str, Any]], path: Path) -> None:
    """Time of a step against the number of nodes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), constrained_layout=True)
    styles = {
        ("package", "normal"): ("#0072B2", "o", "pyro-copula, normal"),
        ("package", "poisson"): ("#009E73", "s", "pyro-copula, Poisson"),
        ("dense", "normal"): ("#D55E00", "^", "dense baseline, normal"),
        ("dense", "poisson"): ("#CC79A7", "v", "dense baseline, Poisson"),
    }
    for (engine, work), (colour, marker, label) in styles.items():
        for grid in (True, False):
            points = sorted(
                (r["nodes"], r["seconds"])
                for r in records
                if r["engine"] == engine
                and r["work"] == work
                and r["graph"].startswith("grid") == grid
            )
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    color=colour,
                    marker=marker,
                    linestyle="-" if grid else "none",
                    markerfacecolor=colour if grid else "none",
                    label=f"{label} ({'grids' if grid else 'real graphs'})",
                )
    axes.set(xscale="log", yscale="log", xlabel="nodes", ylabel="seconds per training step")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="small cases only, no files written")
    parser.add_argument("--case", nargs=4, metavar=("GRAPH", "WORK", "ENGINE", "REPEATS"))
    parser.add_argument("--extra", choices=EXTRA, help="one of the other ratios, alone")
    parser.add_argument("--again", choices=EXTRA, help="measure one of them again, in the results")
    parser.add_argument("--families", action="store_true", help="runs crossover.py instead")
    arguments = parser.parse_args()
    if arguments.families:
        subprocess.run([sys.executable, Path(__file__).with_name("crossover.py")], check=True)
        return
    if arguments.case:
        graph, work, engine, repeats = arguments.case
        print(json.dumps(measure(graph, work, engine, int(repeats))))
        return
    if arguments.extra:
        print(json.dumps(EXTRA[arguments.extra]()))
        return
    if arguments.again:
        known = json.loads((RESULTS / "scaling.json").read_text())
        write(known | {arguments.again: run_script("--extra", arguments.again)})
        return
    records = []
    for case in plan(arguments.smoke):
        records.append(run_script("--case", *case))
        print(
            f"{records[-1]['graph']:>10} {records[-1]['work']:>8} {records[-1]['engine']:>8} "
            f"{records[-1]['seconds']:9.4f} s {records[-1]['peak_gib']:6.2f} GiB",
            flush=True,
        )
    if arguments.smoke:
        print(table(records, {}))
        return
    extra = {}
    for name in EXTRA:
        try:
            extra[name] = run_script("--extra", name)
        except subprocess.CalledProcessError as error:
            print(f"{name}: not measured ({error.stderr.splitlines()[-1]})")
    write({"cases": records, **extra})


def write(results: dict[str, Any]) -> None:
    """Writes the results as numbers, table and picture."""
    extra = {name: results[name] for name in EXTRA if name in results}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "scaling.json").write_text(json.dumps(results, indent=1))
    (RESULTS / "scaling.md").write_text(table(results["cases"], extra))
    plot(results["cases"], RESULTS / "scaling.png")
    print(table(results["cases"], extra))


if __name__ == "__main__":
    main()
