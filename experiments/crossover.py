"""Where the iterative engine overtakes the exact one, on graphs whose factor fills in.

    python experiments/crossover.py --largest 10000     # the small sizes, minutes
    python experiments/crossover.py --engines iterative # all sizes of one engine, half an hour
    python experiments/crossover.py                     # all, hours; an idle machine
    python experiments/crossover.py --report-only

Two families of mean degree 10: preferential attachment (a power law of degrees) and random regular
graphs (an expander). A training step is one log density of a Poisson copula, 60% of the nodes
observed, with all gradients. Each measurement runs in a process of its own, on one thread, and is
one line of ``experiments/results/crossover.jsonl``: what is there is not run again. Times are CPU
seconds. The exact engine is run up to ``--operations`` of its factor, which the symbolic analysis
predicts, and where its factor fits in memory. Beyond that, errors of the iterative engine are the
spread of independent steps, beside what these steps state themselves. ``crossover.md`` and
``crossover.png`` are made of the records.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyro.distributions as dist
import torch
from iterative import cpu, peak, preferential_attachment

import pyro_copula as pc
from pyro_copula.linalg.resources import available_memory
from pyro_copula.linalg.symbolic import analyze

RESULTS = Path(__file__).parent / "results"
RECORDS = RESULTS / "crossover.jsonl"
SIZES = (300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
ENGINES = ("sparse", "iterative")
#: Up to this size the error is also that of an evaluation with 64 probes, minutes on larger ones.
EVALUATED = 30_000
#: How many independent steps the error of a training step is averaged over. The spread of 16 is
#: within a third of the truth, 19 times in 20; that of 5 within a factor of about two.
STEPS = {True: 16, False: 5}
#: Exact ones differ in their time only, of which the shortest counts.
EXACT_STEPS = 3


def random_regular(num_nodes: int, degree: int, seed: int = 0) -> pc.Graph:
    """The union of random cycles through all nodes; the few edges that coincide count once."""
    rng = np.random.default_rng(seed)
    cycles = [rng.permutation(num_nodes) for _ in range(degree // 2)]
    ends = [np.stack([cycle, np.roll(cycle, 1)], 1) for cycle in cycles]
    return pc.Graph.from_edges(np.concatenate(ends), num_nodes)


FAMILIES = {
    "power law": lambda n: preferential_attachment(n, 5),
    "random regular": lambda n: random_regular(n, 10),
}


class Problem:
    """Counts on a graph, and the law that a step looks at."""

    def __init__(self, family: str, num_nodes: int, engine: str) -> None:
        self.graph = FAMILIES[family](num_nodes)
        generator = torch.Generator().manual_seed(0)
        self.y = torch.poisson(torch.full((num_nodes,), 6.0), generator=generator)
        self.y[torch.rand(num_nodes, generator=generator) < 0.4] = math.nan
        self.precision = pc.NormalizedAdjacencyPrecision(self.graph, alpha=0.9, backend=engine)

    def law(self) -> pc.GaussianCopula:
        rate = torch.full((self.graph.num_nodes,), 6.0, requires_grad=True)
        return pc.GaussianCopula(dist.Poisson(rate), precision=self.precision())

    def step(self) -> tuple[float, float, float, float]:
        """The log density, its derivative in the raw parameter of alpha, and CPU seconds.

        Last is the standard error that the law states of this very log density.
        """
        self.precision.zero_grad()
        start = cpu()
        law = self.law()
        value = law.log_prob(self.y)
        value.backward()
        seconds = cpu() - start
        error = float(law.log_prob_error(self.y))
        return float(value.detach()), float(self.precision.alpha.raw.grad), seconds, error


def measure(family: str, num_nodes: int, engine: str, operations: float) -> dict[str, Any]:
    """One measurement, in this process."""
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    problem = Problem(family, num_nodes, engine)
    found: dict[str, Any] = {"edges": problem.graph.num_edges}
    if engine == "sparse":
        symbolic = analyze(problem.graph)
        found |= {"operations": float(symbolic.flops), "bytes": float(symbolic.predicted_bytes)}
        if symbolic.flops > operations or symbolic.predicted_bytes > available_memory():
            return {**found, "skipped": True}
    Problem(family, 500, engine).step()  # loads the compiled kernels
    problem.step()  # and what depends on the graph alone
    torch.manual_seed(1)
    count = EXACT_STEPS if engine == "sparse" else STEPS[num_nodes <= EVALUATED]
    steps = [problem.step() for _ in range(count)]
    values, gradients, seconds, errors = (list(column) for column in zip(*steps, strict=True))
    found |= {"values": values, "gradients": gradients, "seconds": min(seconds), "peak_gib": peak()}
    if engine == "iterative":
        found["step_error"] = float(np.sqrt(np.mean(np.square(errors))))
        if num_nodes <= EVALUATED:
            found |= evaluation(problem)
    return found


def evaluation(problem: Problem) -> dict[str, float]:
    """The log density by the 64 probes of an evaluation, and the error that it states."""
    with torch.no_grad():
        law = problem.law()
        return {
            "evaluation": float(law.log_prob(problem.y)),
            "evaluation_error": float(law.log_prob_error(problem.y)),
        }


# ---------------------------------------------------------------- records


def load() -> dict[tuple[str, int, str], dict[str, Any]]:
    """The records by family, size and engine; of two, the later one."""
    if not RECORDS.exists():
        return {}
    rows = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    return {(r["family"], r["nodes"], r["engine"]): r for r in rows}


def run(largest: int, operations: float, engines: Sequence[str] = ENGINES) -> None:
    """Measures what is not there yet; small sizes first."""
    for nodes in (size for size in SIZES if size <= largest):
        for family in FAMILIES:
            for engine in engines:
                key = {"family": family, "nodes": nodes, "engine": engine}
                known = load().get((family, nodes, engine))
                if known and not (known.get("skipped") and known["operations"] <= operations):
                    continue
                case = json.dumps([family, nodes, engine, operations])
                command = [sys.executable, __file__, "--case", case]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
                if done.returncode:
                    print(f"{key}: {done.stderr.strip().splitlines()[-1]}", flush=True)
                    continue
                record = key | json.loads(done.stdout.splitlines()[-1])
                RESULTS.mkdir(exist_ok=True)
                with RECORDS.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print({**key, "seconds": record.get("seconds", "skipped")}, flush=True)


# ---------------------------------------------------------------- report


def crossover(records: dict, family: str) -> float | None:
    """The number of nodes at which both engines take the same time, between two sizes."""
    sizes = [n for n in SIZES if all("seconds" in records.get((family, n, e), {}) for e in ENGINES)]
    gaps = [
        math.log(
            records[family, n, "sparse"]["seconds"] / records[family, n, "iterative"]["seconds"]
        )
        for n in sizes
    ]
    for k in range(1, len(sizes)):
        if gaps[k - 1] < 0 <= gaps[k]:
            share = gaps[k - 1] / (gaps[k - 1] - gaps[k])
            return float(sizes[k - 1] * (sizes[k] / sizes[k - 1]) ** share)
    return None


def exponent(records: dict, family: str) -> float | None:
    """The growth of an iterative step as a power of the number of nodes, from 10,000 on."""
    found = [
        (n, records[family, n, "iterative"]["seconds"])
        for n in SIZES
        if n >= 10_000 and "seconds" in records.get((family, n, "iterative"), {})
    ]
    if len(found) < 2:
        return None
    return float(np.polyfit(*np.log(np.array(found)).T, 1)[0])


def error_cells(exact: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Errors of iterative steps against exact ones; without those, their standard deviation."""
    values, gradients = np.array(found["values"]), np.array(found["gradients"])
    known = "seconds" in exact
    if known:
        truth, slope = exact["values"][0], exact["gradients"][0]
        step = np.sqrt(np.mean((values - truth) ** 2))
        gradient = np.sqrt(np.mean((gradients / slope - 1) ** 2))
    else:
        step = values.std(ddof=1)
        gradient = gradients.std(ddof=1) / abs(gradients.mean())
    spread = "" if known else "spread "
    evaluation = ""
    if "evaluation" in found:
        error = f"{found['evaluation'] - truth:+.3f} " if known else ""
        evaluation = f"{error}({found['evaluation_error']:.3f})"
    stated = f"{found['step_error']:.2f}" if "step_error" in found else ""
    return [f"{spread}{step:.2f}", stated, evaluation, f"{spread}{gradient:.1%}"]


def table(records: dict) -> str:
    """The records as Markdown."""
    lines = [
        "| graph | nodes | edges | exact: operations | CPU s | GiB | iterative: CPU s | GiB "
        "| log density of a step: error, spread | its own estimate "
        "| of an evaluation: error (its own estimate) | gradient: error, spread |",
        "|" + "---|" * 12,
    ]
    for family in FAMILIES:
        for n in SIZES:
            exact, found = (records.get((family, n, engine), {}) for engine in ENGINES)
            if not exact and not found:
                continue
            cells = [family, f"{n:,}", f"{(exact or found)['edges']:,}"]
            cells.append(f"{exact['operations']:.1e}" if exact else "")
            for record in (exact, found):
                done = "seconds" in record
                cells.append(f"{record['seconds']:.2g}" if done else "not run")
                cells.append(f"{record['peak_gib']:.2f}" if done else "")
            cells += error_cells(exact, found) if "seconds" in found else [""] * 4
            lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    for family in FAMILIES:
        where, power = crossover(records, family), exponent(records, family)
        said = (
            f"both engines take the same time at about {where:,.0f} nodes"
            if where
            else ("no size measured at which the engines change places")
        )
        grows = f"; an iterative step grows as n^{power:.2f} from 10,000 nodes" if power else ""
        lines.append(f"- {family}: {said}{grows}.")
    return "\n".join(lines) + "\n"


def plot(records: dict, path: Path) -> None:
    """Time and memory of a step against the number of nodes."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.8), constrained_layout=True)
    colours = {"sparse": "#D55E00", "iterative": "#0072B2"}
    styles = {"power law": ("o", "-"), "random regular": ("s", "--")}
    for axes, key, label in zip(
        panels, ("seconds", "peak_gib"), ("CPU seconds per training step", "peak memory, GiB")
    ):
        for family, (marker, line) in styles.items():
            for engine, colour in colours.items():
                points = [
                    (n, records[family, n, engine][key])
                    for n in SIZES
                    if key in records.get((family, n, engine), {})
                ]
                if points:
                    name = "exact" if engine == "sparse" else engine
                    axes.plot(
                        *zip(*points, strict=True),
                        color=colour,
                        marker=marker,
                        linestyle=line,
                        label=f"{name}, {family}",
                    )
        axes.set(xscale="log", yscale="log", xlabel="nodes (mean degree 10)", ylabel=label)
        axes.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    panels[1].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panels[1].yaxis.set_major_formatter("{x:g}")
    panels[1].yaxis.set_minor_formatter(NullFormatter())
    figure.savefig(path, dpi=150)


def main() -> None:
    """Runs, and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="number of nodes")
    parser.add_argument("--operations", type=float, default=3e12, help="of an exact factor")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=ENGINES)
    parser.add_argument("--report-only", action="store_true")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        print(json.dumps(measure(*json.loads(arguments.case))))
        return
    if not arguments.report_only:
        run(arguments.largest, arguments.operations, arguments.engines)
    records = load()
    (RESULTS / "crossover.md").write_text(table(records))
    plot(records, RESULTS / "crossover.png")
    print(table(records))


if __name__ == "__main__":
    main()
