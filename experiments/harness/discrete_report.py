"""The section of the report on the rules for discrete outcomes, and its picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from . import figures, posterior_report, prose
from .discrete import GRAPHS, MEANS, RHO, RULES

Records = Sequence[Mapping[str, Any]]


def section(records: Records) -> str:
    """The section, empty without records."""
    if not records:
        return ""
    parts = [prose.DISCRETE.strip(), _bias(records), prose.DISCRETE_NOISE.strip(), _noise(records)]
    parts.append(posterior_report.section(records))
    return "\n\n".join(part for part in parts if part)


def errors(records: Records, mean: float, rule: str, metric: str) -> np.ndarray:
    """The errors of one rule, in the order of the seeds."""
    rows = [r for r in records if r["dataset"] == f"bias:mean={mean}" and r["model"] == rule]
    return np.array([r["metrics"][metric] for r in sorted(rows, key=lambda r: r["seed"])])


def _bias(records: Records) -> str:
    lines = []
    for mean in MEANS:
        for rule in RULES:
            logit = errors(records, mean, rule, "logit_error")
            level = errors(records, mean, rule, "log_mean_error")
            if len(logit) < 2:
                continue
            rho = errors(records, mean, rule, "rho")
            found = errors(records, mean, rule, "mean")
            lines.append(
                [
                    f"{mean:g}",
                    rule,
                    str(len(logit)),
                    f"{np.median(rho):.4f}",
                    _with_error(logit),
                    f"{found.mean():.3f}",
                    _with_error(level),
                ]
            )
    heads = ["true mean", "rule", "data sets", f"rho, median (true {RHO:g})"]
    heads += ["logit rho: error", "mean", "log mean: error"]
    return prose.markdown(heads, lines) if lines else ""


def _with_error(values: np.ndarray) -> str:
    error = values.std(ddof=1) / math.sqrt(len(values))
    return f"{values.mean():+.3f} +- {error:.3f} ({values.mean() / error:+.1f} se)"


def _noise(records: Records) -> str:
    found = {r["dataset"]: r["metrics"] for r in records}
    lines = []
    for graph in GRAPHS:
        noise, cost = found.get(f"noise:{graph}"), found.get(f"cost:{graph}")
        if noise is None or cost is None:
            continue
        lines.append(
            [
                graph,
                f"{noise['mean']:.2f}",
                f"{noise['sd']:.3f}",
                f"{noise['reported_error']:.3f}",
                f"{noise['effective_size']:.0f}",
                f"{noise['largest_k_hat']:.2f}",
                f"{noise['ep'] - noise['mean']:+.2f}",
                f"{cost['exact_value']:.1f}x, {cost['exact_gradient']:.1f}x",
                f"{cost['ep_value']:.1f}x, {cost['ep_gradient']:.1f}x",
            ]
        )
    heads = ["graph and law", "log likelihood", "sd", "reported error", "effective", "k-hat"]
    heads += ["EP minus exact", "cost of exact: value, gradient", "cost of EP"]
    return prose.markdown(heads, lines) if lines else ""


def picture(records: Records, path: Path) -> None:
    """Estimates of rho by rule and mean, one dot a data set."""
    values = {
        mean: {rule: errors(records, mean, rule, "logit_error") for rule in RULES} for mean in MEANS
    }
    if all(len(of) > 1 for by_rule in values.values() for of in by_rule.values()):
        figures.rule_bias(values, math.log(RHO / (1 - RHO)), path)
