"""The section of the report on the engines, from what the scripts beside it measured."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import prose


def section(results: Path) -> str:
    """The section, empty without records.

    Args:
        results: The folder with ``scaling.md``, ``crossover.md`` and ``iterative.json``.
    """
    parts = []
    for name, words in (("scaling", prose.SCALING), ("crossover", prose.CROSSOVER)):
        if (results / f"{name}.md").exists():
            parts += [words.strip(), (results / f"{name}.md").read_text().strip()]
    if (results / "iterative.json").exists():
        found = json.loads((results / "iterative.json").read_text())
        parts += [prose.ITERATIVE.strip(), _accuracy(found["accuracy"]), _cost(found)]
        parts += [prose.ENGINES_AGREE.strip(), _fits(found["election"])]
        parts += [prose.PROCESSES.strip(), _processes(found["processes"])]
    return "\n\n".join(["## Engines", *parts]) if parts else ""


def _accuracy(found: dict[str, Any]) -> str:
    heads = ["wiki-squirrel: precision", "log det", "its RMSE", "error / stated error, RMS"]
    heads += ["edge gradients: relative RMSE", "diag(K^-1): relative RMSE"]
    lines = [
        [
            "softplus edge weights" if kind == "softplus" else f"alpha = {kind}",
            f"{row['logdet']:,.1f}",
            f"{row['logdet_rmse']:.3f}",
            f"{row['logdet_z_rms']:.2f}",
            f"{row['edge_gradient_relative_rmse']:.3f}",
            f"{row['variance_relative_rmse']:.4f}",
        ]
        for kind, row in found.items()
        if isinstance(row, dict)
    ]
    return prose.markdown(heads, lines)


def _cost(found: dict[str, Any]) -> str:
    step, large, growth = found["step"], found["large"], found["growth"]
    steps = [
        f"{row['nodes']:,} nodes, {row['edges']:,} edges: {row['wall_seconds']:.1f} s, "
        f"{row['peak_GiB']:.2f} GiB"
        for row in (step, large)
    ]
    return "\n".join(
        [
            *(f"- A Poisson training step on a power-law graph, {line}." for line in steps),
            f"- Predicting the missing 40% of {large['nodes']:,} nodes with 90% intervals: "
            f"{large['prediction_wall_seconds']:.0f} s.",
            f"- From {growth['nodes'][0]:,} to {growth['nodes'][-1]:,} nodes a step grows as "
            f"n^{growth['preferential_attachment']['exponent']:.2f} on power-law graphs and as "
            f"n^{growth['ring']['exponent']:.2f} on rings with as many edges, whose neighbours are "
            "beside each other in memory.",
        ]
    )


def _fits(found: dict[str, Sequence[dict[str, Any]]]) -> str:
    heads = ["marginal, mean", "fit", "splits", "R2 less exact: mean", "largest", "parameters"]
    lines = []
    for case, rows in found.items():
        for other in ("exact again", "iterative"):
            off = [row[other]["r2_off"] for row in rows]
            moved = [abs(v) for row in rows for k, v in row[other].items() if "errors off" in k]
            largest = max(off, key=abs)
            lines.append([case, other, str(len(rows)), f"{sum(off) / len(off):+.4f}"])
            lines[-1] += [f"{largest:+.4f}", f"{max(moved):.2f} s.e."]
    return prose.markdown(heads, lines)


def _processes(found: dict[str, dict[str, Any]]) -> str:
    heads = ["probes", "one process, s", "two, s", "ratio", "ratio that the machine allows"]
    lines = [
        [
            str(row["probes"]),
            f"{row['wall_seconds_alone']:.2f}",
            f"{row['wall_seconds_together']:.2f}",
            f"{row['wall_ratio']:.2f}",
            f"{row['wall_ratio_that_the_machine_allows']:.2f}",
        ]
        for row in found.values()
    ]
    return prose.markdown(heads, lines)
