"""Writes the report of the committed records; nothing in it comes from anywhere else."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyro_copula.atomic import write_whole

from . import (
    ablations,
    acceptance_report,
    ceiling,
    committed,
    discrete_report,
    engine_report,
    figures,
    noise,
    pilot,
    prose,
    splits,
    summary,
    targets,
)
from .models import ABLATIONS, CONTINUOUS, COUNT, DENSITIES, PAPER
from .problems import COUNTS, ELECTION, short
from .prose import markdown
from .stats import (
    Cell,
    Published,
    asterisks,
    base_of,
    by_seed,
    paired_gains,
    paired_p,
    read_published,
    summarise,
)
from .tables import TABLES, Table, all_names

#: Scores of a predictive law, with the words of the report.
LAW_SCORES = {
    "coverage": "90% coverage",
    "pit_coverage": "PIT coverage",
    "width": "width",
    "log_score": "log score",
    "crps": "CRPS",
}

Records = Sequence[Mapping[str, Any]]

#: The numbers in the paper.
PUBLISHED = Path(__file__).resolve().parents[1] / "results" / "published.csv"


def write(results: Path, path: Path) -> None:
    """Writes the report and its pictures.

    Args:
        results: The folder of the committed records; pictures go there too.
        path: The Markdown file.
    """
    records = {name: committed.read(results / f"{name}.jsonl") for name in all_names()}
    if records["figure1"]:
        figures.roles(role_curves(records["figure1"]), results / "figure1.png")
    rows = calibration_rows([*records["table2"], *records["table3"]])
    if rows:
        figures.calibration(rows, results / "calibration.png")
    discrete_report.picture(records["discrete"], results / "discrete.png")
    main = summary.main_table(records, read_published(PUBLISHED))
    if main:
        # what the project's README quotes
        write_whole(results / "summary.md", (main + "\n").encode())
    write_whole(path, text(results).encode())


def text(results: Path) -> str:
    """The report in Markdown."""
    records = {name: committed.read(results / f"{name}.jsonl") for name in all_names()}
    published = read_published(PUBLISHED)
    cut_short = any("max_epochs" in r.get("options", {}) for rows in records.values() for r in rows)
    parts = [prose.INTRODUCTION]
    parts += [prose.CUT_SHORT if cut_short else targets.section(records, published)]
    for name, table in TABLES.items():
        if records[name]:
            words = prose.CAPTIONS.get(name, "")
            if records.get(f"{name}-published"):
                words = f"{words} {prose.COMPARE.get(name, '')}".strip()
            parts += [_section(table, records[name], published, words)]
        if name == "table1-published":
            parts += [noise.section(records["noise"], records[name], published)]
        if name == "table3":
            parts += [splits.section(records[name], published)]
        if name == "table3-published":
            parts += [_calibration(records)]
    parts += [_pilot(records["pilot"])]
    parts += [acceptance_report.section(records["acceptance"], records["table2"])]
    parts += [ceiling.section(records["ceiling"])]
    parts += [discrete_report.section(records["discrete"])]
    parts += [engine_report.section(results)]
    if (results / "figure3.png").exists():
        parts += [prose.FIGURE3]
    parts += [_time(records, results)]
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


# ---------------------------------------------------------------- one table


def score_name(table: Table, row: str) -> str:
    """The metric of a row: clamped as published where its protocol is followed, else plain."""
    if row in PAPER:
        return "published"
    return "r2_deviance" if table.name.startswith("table3") else "r2"


def cell(table: Table, records: Records, row: str, column: str) -> Cell | None:
    """One cell of a table, with the paired test against the base model."""
    metric = score_name(table, row)
    values = by_seed(records, row, column, metric)
    if not values:
        return None
    base = base_of(row)
    p = None if base is None else paired_p(values, by_seed(records, base, column, metric))
    return summarise(list(values.values()), p)


def _section(
    table: Table,
    records: Records,
    published: Mapping[tuple[str, str, str], Published],
    caption: str,
) -> str:
    columns = [c for c in table.columns if any(r["dataset"] == c for r in records)]
    parts = [f"## {table.title}", caption]
    parts += [_main_table(table, records, columns, published)]
    if table.published is not None:
        parts += [_verdict(table, records, columns, published)]
    if table.name == "figure1":
        parts += ["![Figure 1](results/figure1.png)"]
    elif not table.as_run:
        parts += [ablations.section(table, records), _law_gains(table, records, columns)]
        parts += [_law_table(table, records, column) for column in columns]
    return "\n\n".join(part for part in parts if part)


def _main_table(
    table: Table,
    records: Records,
    columns: Sequence[str],
    published: Mapping[tuple[str, str, str], Published],
) -> str:
    lines = []
    most = {column: max(_seeds(records, column).values()) for column in columns}
    for row in table.rows:
        cells = []
        for column in columns:
            found = cell(table, records, row, column)
            words = "" if found is None else str(found)
            if found is not None and found.count < most[column]:
                words += f" [{found.count}]"
            known = published.get((table.published or "", row, short(column)))
            if known is not None and found is not None:
                words += f" ({known})"
            cells.append(words)
        if any(cells):
            lines.append([_named(row, table), *cells])
        if table.paper and row == table.paper[-1]:
            lines.append(["**beyond the paper**", *[""] * len(columns)])
    if len(lines) and lines[-1][0] == "**beyond the paper**":
        lines.pop()
    heads = [f"{short(c)} (n = {_count(records, c)})" for c in columns]
    return markdown(["model", *heads], lines)


def _named(row: str, table: Table) -> str:
    notes = COUNT if table.name.startswith("table3") else CONTINUOUS
    note = notes[row].note if row in notes and row not in table.paper else ""
    if row in ABLATIONS:
        note = f"without {ABLATIONS[row].note}"
    return f"{row} ({note})" if note else row


def _seeds(records: Records, column: str) -> dict[str, int]:
    """How many seeds each row has."""
    seeds: dict[str, int] = defaultdict(int)
    for record in records:
        if record["dataset"] == column:
            seeds[record["model"]] += 1
    return seeds


def _count(records: Records, column: str) -> str:
    seeds = _seeds(records, column).values()
    low, high = min(seeds), max(seeds)
    return str(low) if low == high else f"{low} to {high}"


def _verdict(
    table: Table,
    records: Records,
    columns: Sequence[str],
    published: Mapping[tuple[str, str, str], Published],
) -> str:
    """Which cells are below the published mean minus two of its standard errors."""
    below, total, chance = [], 0, []
    for row in table.paper:
        for column in columns:
            known = published.get((table.published or "", row, short(column)))
            found = cell(table, records, row, column)
            if known is None or found is None:
                continue
            total += 1
            if found.count > 1:
                chance.append((found.mean - known.mean) / math.hypot(found.error, known.error))
            if found.mean < known.least:
                below.append(f"{row} on {short(column)} ({found.mean:.3f}, {known})")
    words = f"{total - len(below)} of {total} cells are at or above the published mean minus two "
    words += "of its standard errors."
    words += f" Below: {'; '.join(below)}." if below else ""
    if table.name == "table2-published" and chance:  # one split: else trials share data sets
        square = sum(z * z for z in chance) / len(chance)
        words += " The difference from the published mean, over the standard error of both, has a "
        words += f"root mean square of {math.sqrt(square):.1f} and a mean of "
        words += f"{sum(chance) / len(chance):+.1f}: by chance alone they would be 1 and 0."
    return words


def _law_gains(table: Table, records: Records, columns: Sequence[str]) -> str:
    """The CRPS of the paper's copula models less that of their base models."""
    lines = []
    for row in table.paper:
        base = base_of(row)
        if base is None:
            continue
        words = []
        for column in columns:
            ours, theirs = (by_seed(records, one, column, "crps") for one in (row, base))
            gains = list(paired_gains(ours, theirs).values())
            mark = asterisks(paired_p(ours, theirs))
            middle = f" ({statistics.median(gains):+.3f})" if gains else ""
            words.append(f"{summarise(gains).mean:+.3f}{mark}{middle}" if gains else "")
        if any(words):
            lines.append([row, *words])
    if not lines:
        return ""
    heads = ["model", *(short(column) for column in columns)]
    text = prose.LAW_GAINS_FIRST if table.name == "table1" else prose.LAW_GAINS
    return f"{text.strip()}\n\n{markdown(heads, lines)}"


def _law_table(table: Table, records: Records, column: str) -> str:
    counts = table.name.startswith("table3")
    score, name = ("r2_deviance", "R2-deviance") if counts else ("r2", "R2")
    heads = ["model", name, f"{name}, clamped", *LAW_SCORES.values()]
    heads += [f"{name}, all observed", "log score, all observed"]
    metrics = [score, "published", *LAW_SCORES, f"all_{score}", "all_log_score"]
    lines = []
    for row in table.rows:
        if row in ABLATIONS:  # on fewer seeds: their gains are told apart
            continue
        means = []
        for metric in metrics:
            values = list(by_seed(records, row, column, metric).values())
            words = f"{summarise(values).mean:.3f}" if values else ""
            density = words and row in DENSITIES and metric.endswith("log_score")
            means.append(f"{words} (density)" if density else words)
        if any(means):
            lines.append([row, *means])
    keep = [0] + [k for k in range(1, len(heads)) if any(line[k] for line in lines)]
    lines = [[line[k] for k in keep] for line in lines]
    return f"**{short(column)}**\n\n" + markdown([heads[k] for k in keep], lines)


# ---------------------------------------------------------------- figures


def role_curves(records: Records) -> dict[str, dict[str, list[tuple[float, float, float]]]]:
    """The points of Figure 1 by setting and model."""
    table = TABLES["figure1"]
    curves: dict[str, dict[str, list[tuple[float, float, float]]]] = {"a": {}, "b": {}}
    for column in table.columns:
        setting, value = column[0], float(column.split("=")[1])
        for row in table.rows:
            found = cell(table, records, row, column)
            if found is not None:
                curves[setting].setdefault(row, []).append((value, found.mean, found.error))
    return curves


def calibration_rows(records: Records) -> dict[str, dict[str, tuple[float, float]]]:
    """Coverage of the recommended models by data set and kind, with standard errors."""
    kinds = {"interval": "coverage", "randomised PIT": "pit_coverage"}
    rows: dict[str, dict[str, tuple[float, float]]] = {}
    for column in (*ELECTION, *COUNTS):
        for kind, metric in kinds.items():
            values = list(by_seed(records, "recipe", column, metric).values())
            if values:
                found = summarise(values)
                error = 0.0 if found.count == 1 else found.error
                rows.setdefault(column, {})[kind] = (found.mean, error)
    return rows


def _calibration(records: Mapping[str, Records]) -> str:
    """Coverage of the recommended models in the tables, and on the splits nothing was chosen on."""
    planned = [*records["table2"], *records["table3"]]
    fresh = [*records["table2-fresh"], *records["table3-fresh"]]
    lines = []
    for column in (*ELECTION, *COUNTS):
        kinds = ("coverage", "pit_coverage", "coverage_50", "pit_coverage_50")
        words = [_covered(planned, column, kind) for kind in kinds]
        usual = ("pit_coverage", "pit_coverage_50") if column in COUNTS else kinds[::2]
        words += [_covered(fresh, column, kind) for kind in usual]
        if any(words):
            lines.append([column, *words])
    if not lines:
        return ""
    heads = ["data set", "90% intervals cover", "by PIT", "50% intervals cover", "by PIT"]
    heads += ["fresh splits: 90%", "50%"]
    table = markdown(heads, lines)
    return f"{prose.CALIBRATION.strip()}\n\n{table}\n\n![Calibration](results/calibration.png)"


def _covered(records: Records, column: str, kind: str) -> str:
    values = list(by_seed(records, "recipe", column, kind).values())
    return f"{summarise(values).mean:.3f}" if values else ""


# ---------------------------------------------------------------- words


def _pilot(records: Records) -> str:
    """The learning rates that the pilot fixed."""
    rates, as_run = pilot.chosen(records), pilot.chosen(records, as_run=True)
    columns = [c for c in (*ELECTION, *COUNTS) if any(name.startswith(f"{c} ") for name in rates)]
    lines = []
    for row in pilot.ROWS:
        words = []
        for column in columns:
            fixed, other = rates.get(f"{column} {row}"), as_run.get(f"{column} {row}")
            word = "both" if fixed is None else f"{fixed[0]:g}"
            words.append(word if other in (None, fixed) else f"{word} ({other[0]:g})")
        lines.append([row, *words])
    if not columns:
        return ""
    margins, near = pilot.margins(records), prose.PILOT_NEAR
    close = sum(margin < near for margin in margins)
    text = prose.PILOT.format(seed=pilot.SEED, close=close, count=len(margins), near=near)
    return f"{text.strip()}\n\n{markdown(['model', *columns], lines)}"


def _time(records: Mapping[str, Records], results: Path) -> str:
    lines = []
    for name, rows in records.items():
        if rows:
            lines.append([name, str(len(rows)), f"{_hours(rows):.1f}"])
    used: dict[str, set[str]] = {}
    for name in records:
        for versions in committed.read_versions(results / f"{name}.jsonl"):
            for package, version in versions.items():
                used.setdefault(package, set()).add(version)
    words = ", ".join(f"{package} {' and '.join(sorted(v))}" for package, v in used.items())
    table = markdown(["table", "trials", "hours, one core"], lines)
    return f"{prose.TIME.format(versions=words).strip()}\n\n{table}"


def _hours(rows: Records) -> float:
    """Each cell takes its number of trials times their median: a stalled machine counts little."""
    cells: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        cells[row["dataset"], row["model"]].append(row["seconds"])
    return sum(len(cell) * statistics.median(cell) for cell in cells.values()) / 3600
