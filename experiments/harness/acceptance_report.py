"""The acceptance section of the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import prose
from .acceptance import CELLS, LAWS
from .problems import ELECTION
from .stats import by_seed

Records = Sequence[Mapping[str, Any]]

#: The model of spatial statistics that the recipe is held against.
_PEER = "linear + CAR + nugget"

_EMNLP: list[tuple[str, str, Callable[[float], bool] | None]] = [
    ("r2_deviance", "at least .74", lambda v: v >= 0.74),
    ("coverage", ".87 to .96", lambda v: 0.87 <= v <= 0.96),
]

#: What a cell must reach: the metric, in words, and the test of its value.
TARGETS: dict[tuple[str, str], list[tuple[str, str, Callable[[float], bool] | None]]] = {
    ("unemployment", "ab-C-SAGE, library"): [("r2", "at least .81", lambda v: v >= 0.81)],
    ("unemployment", "R-C-SAGE, learned scale"): [("r2", "at least .81", lambda v: v >= 0.81)],
    ("emnlp", "NB-R-C-SAGE"): _EMNLP,
    ("emnlp", "NB-R-C-SAGE, power"): _EMNLP,
    ("emnlp", "NB-R-C-SAGE + graph features"): _EMNLP,
    ("emnlp", "shifted NB-R-C-SAGE"): _EMNLP,
    ("wiki-chameleon", "NB-ab-C-SAGE"): [
        ("coverage", ".87 to .94", lambda v: 0.87 <= v <= 0.94),
    ],
    ("wiki-chameleon", "Poisson-ab-C-SAGE"): [
        ("coverage", "near .5 (.3 to .7)", lambda v: 0.3 <= v <= 0.7),
    ],
    **{
        (outcome, "recipe"): [
            ("r2", f"at least .{100 * least:.0f}", lambda v, least=least: v >= least),
            ("coverage", ".86 to .94", lambda v: 0.86 <= v <= 0.94),
        ]
        for outcome, least in (
            ("education", 0.72),
            ("election", 0.74),
            ("income", 0.80),
            ("unemployment", 0.81),
        )
    },
    # What spatial statistics has for the same splits: how hard they are.
    **{(outcome, _PEER): [("r2", "", None)] for outcome in ELECTION},
}


def section(records: Records, counties: Records) -> str:
    """The section, empty without records.

    Args:
        records: Those of the study.
        counties: Those of Table 2, which say how hard its splits are.
    """
    if not records:
        return ""
    parts = [prose.ACCEPTANCE.strip(), _recovery(records), prose.CELLS.strip(), _cells(records)]
    return "\n\n".join([*parts, *_splits(counties)])


def _recovery(records: Records) -> str:
    heads = ["setting", "marginals", "fit", "n", "gamma", "log error: mean, RMS"]
    heads += [
        "its posterior sd",
        "90% posterior covers",
        "coverage",
        "sums, joint",
        "sums, independent",
    ]
    lines = []
    for setting in ("b", "c"):
        for law, (family, _, methods) in LAWS.items():
            for method in methods:
                name = f"recovery:{setting}:{law}"
                rows = [
                    r["metrics"] for r in records if r["dataset"] == name and r["model"] == method
                ]
                if rows:
                    lines.append([setting, law, method, *_row(rows, family)])
    return prose.markdown(heads, lines)


def _row(rows: Sequence[Mapping[str, float]], family: str) -> list[str]:
    def mean(name: str) -> float:
        values = [row[name] for row in rows if name in row]
        return float(np.mean(values)) if values else math.nan

    errors = np.array([row["log_error"] for row in rows])
    covers, spread = mean("posterior_covers"), mean("posterior_log_sd")
    coverage = mean("coverage")
    words = f"{coverage:.3f}"
    if family != "normal":
        words += f" (PIT {mean('pit_coverage'):.3f})"
    return [
        str(len(rows)),
        f"{mean('gamma'):.3f}",
        f"{errors.mean():+.2f}, {math.sqrt(float(np.square(errors).mean())):.2f}",
        "" if math.isnan(spread) else f"{spread:.2f}",
        "" if math.isnan(covers) else f"{covers:.0%}",
        words,
        f"{mean('sum_coverage_joint'):.3f}",
        f"{mean('sum_coverage_independent'):.3f}",
    ]


def _cells(records: Records) -> str:
    lines = []
    for dataset, row, _ in CELLS:
        for metric, words, met in TARGETS[dataset, row]:
            values = by_seed(records, row, dataset, metric)
            if not values:
                continue
            mean = float(np.mean(list(values.values())))
            everything = by_seed(records, row, dataset, f"all_{metric}")
            all_mean = float(np.mean(list(everything.values()))) if everything else math.nan
            verdict = "" if met is None else "yes" if met(mean) else "no"
            if met is not None and not met(mean) and met(all_mean):
                verdict = "yes, given all"
            seeds = ", ".join(str(seed) for seed in sorted(values))
            numbers = [f"{mean:.3f}", f"{all_mean:.3f}"]
            lines.append([dataset, row, seeds, metric, *numbers, words, verdict])
    heads = ["data set", "model", "seeds", "score", "given training", "given all observed"]
    return prose.markdown([*heads, "target", "met"], lines)


def _splits(counties: Records) -> list[str]:
    """Unemployment, the target that was missed, split by split."""
    rows = {row: by_seed(counties, row, "unemployment", "r2") for row in ("recipe", _PEER)}
    worst = by_seed(counties, "recipe", "unemployment", "worst_five")
    common = sorted(rows["recipe"].keys() & rows[_PEER].keys() & worst.keys())
    if not common:
        return []
    lines = []
    for seed in common:
        ours, theirs = rows["recipe"][seed], rows[_PEER][seed]
        numbers = [f"{ours:.3f}", f"{theirs:.3f}", f"{ours - theirs:+.3f}", f"{worst[seed]:.3f}"]
        lines.append([str(seed), *numbers])
    heads = ["split", "recipe: R2", f"{_PEER}: R2", "gain", "the five worst counties cost"]
    return [prose.SPLITS.strip(), prose.markdown(heads, lines)]
