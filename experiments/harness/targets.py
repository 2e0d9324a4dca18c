"""What was asked of the tables when they were planned, and whether it was reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import prose
from .models import DENSITIES
from .problems import COUNTS, ELECTION, short
from .stats import Published, base_of, by_seed, paired_gains, paired_p
from .summary import RECOMMENDED, best_published
from .tables import FIGURE_ROWS, TABLES, Table

Records = Sequence[Mapping[str, Any]]
Numbers = Mapping[tuple[str, str, str], Published]

#: The edge regressions, which the paper says beat their base models.
REGRESSIONS = ("R-C-GCN", "R-C-SAGE")
LEARNED_SCALE = "R-C-SAGE, learned scale"
LEVEL = 0.05
COVERAGE = (0.87, 0.93)

#: What the recommended model's targets are of, on the planned tables and on fresh splits.
PLANNED, FRESH = "Recommended model", "Recommended model, fresh splits"


@dataclass(frozen=True)
class Target:
    """A target.

    Attributes:
        of: What it is about.
        asked: What was to be reached.
        found: What was reached.
        met: Whether it was.
        see: Where to read more, if not.
    """

    of: str
    asked: str
    found: str
    met: bool
    see: str = ""


@dataclass(frozen=True)
class Gain:
    """By how much a row is above another in a column."""

    row: str
    over: str
    column: str
    mean: float
    p: float | None

    def __str__(self) -> str:
        p = "" if self.p is None else f", p = {_probability(self.p)}"
        return f"{self.mean:+.3f} ({self.row} over {self.over}, {short(self.column)}{p})"

    @property
    def is_significant(self) -> bool:
        """Whether the paired t-test says so at the usual level."""
        return self.mean > 0 and self.p is not None and self.p < LEVEL


def section(records: Mapping[str, Records], published: Numbers) -> str:
    """The section, empty without records.

    Args:
        records: By table.
        published: The numbers in the paper.
    """
    found = [*targets(records, published)]
    if not found:
        return ""
    lines = []
    for target in found:
        verdict = "yes" if target.met else f"**no**{': ' if target.see else ''}{target.see}"
        lines.append([target.of, target.asked, target.found, verdict])
    table = prose.markdown(["", "target", "reached", "met"], lines)
    text = _counted(prose.TARGETS, [target for target in found if target.of != FRESH])
    again = [target for target in found if target.of == FRESH]
    if again:
        text = f"{text}\n{_counted(prose.TARGETS_FRESH, again)}"
    return f"{text}\n\n{table}"


def targets(records: Mapping[str, Records], published: Numbers) -> Iterator[Target]:
    """All targets whose tables have records."""
    yield from _figure1(records.get("figure1", ()))
    for name in ("table1", "table2", "table3"):
        as_run = records.get(f"{name}-published", ())
        yield from _paper(TABLES[name], records.get(name, ()), as_run, published)
    yield from _learned_scale(records.get("table2", ()), published)
    for name in ("table2", "table3", "table2-fresh", "table3-fresh"):
        for column in TABLES[name].columns:
            yield from _recommended(TABLES[name], column, records.get(name, ()), published)


def _counted(text: str, found: Sequence[Target]) -> str:
    return text.strip().format(met=sum(target.met for target in found), count=len(found))


# ---------------------------------------------------------------- the paper's claims


def _figure1(records: Records) -> Iterator[Target]:
    columns = TABLES["figure1"].columns
    networks = FIGURE_ROWS[1:]
    a, b = ([c for c in columns if c.startswith(f"{setting}:")] for setting in "ab")
    for asked, pairs in (
        ("(a) every graph network above MLP", _pairs(networks, ["MLP"], a)),
        ("(b) MLP above every graph network", _pairs(["MLP"], networks, b)),
    ):
        gains = [*_gains(records, pairs)]
        if gains:
            smallest = min(gains, key=lambda gain: gain.mean)
            found = f"smallest gain {smallest}"
            yield Target("Figure 1", asked, found, smallest.mean > 0)
    gains = [*_gains(records, _pairs(["ab-C-MLP", "R-C-MLP"], ["MLP"], b))]
    if gains:
        smallest, doubtful = min(gains, key=lambda g: g.mean), max(gains, key=lambda g: g.p or 0)
        found = f"smallest gain {smallest}; largest p = {_probability(doubtful.p or 0)}"
        asked = "(b) copula models above MLP"
        yield Target("Figure 1", asked, found, smallest.mean > 0)


def _paper(table: Table, records: Records, as_run: Records, published: Numbers) -> Iterator[Target]:
    """The published cells, and edge regressions above their base models.

    Args:
        table: The table.
        records: Its records.
        as_run: Those of the trials of the published code.
        published: The numbers in the paper.
    """
    name = table.title.split(":")[0]
    cells = [*_cells(table, records, published)]
    if not cells:
        return
    asked = "every cell of the paper at or above published - 2 s.e."
    enough, words = _enough(cells)
    see = prose.TARGETS_SEE.get(f"{table.name} cells", "")
    see = see.format(as_run=_enough([*_cells(table, as_run, published)])[1])
    yield Target(name, asked, words, enough == len(cells), see)
    if table.name == "table3":
        for column in COUNTS:
            best, known = best_published(table.name, column, published)
            means = {row: _mean(records, row, column, _metric(table, row)) for row in table.rows}
            ours = {row: mean for row, mean in means.items() if mean is not None}
            if not ours:
                continue
            row = max(ours, key=lambda row: ours[row])
            asked = f"{column}: the best model at or above the best published one, "
            asked += f"{known.mean:.3f} ({best})"
            yield Target(name, asked, f"{ours[row]:.3f} ({row})", ours[row] >= known.mean)
        return
    pairs = [(row, base_of(row) or "", c) for row in REGRESSIONS for c in table.columns]
    gains = [*_gains(records, pairs)]
    if not gains:
        return
    smallest = min(gains, key=lambda gain: gain.mean)
    asked = "R-C-GCN and R-C-SAGE above their base models in every column"
    yield Target(name, asked, f"smallest gain {smallest}", smallest.mean > 0)
    if table.name == "table1":
        gains = [gain for gain in gains if "tau=5" not in gain.column]
    asked = "the same with p < 0.05" + (" at tau 0.5, 1 and 2" if table.name == "table1" else "")
    sure = sum(gain.is_significant for gain in gains)
    found = f"{sure} of {len(gains)}"
    if sure < len(gains):
        found += "; " + "; ".join(_tests(row, gains) for row in REGRESSIONS)
    law = _gains(records, [(g.row, g.over, g.column) for g in gains], "crps", -1.0)
    see = prose.TARGETS_SEE.get(f"{table.name} gains", "")
    see = see.format(crps=f"{sum(gain.is_significant for gain in law)} of {len(gains)}")
    yield Target(name, asked, found, sure == len(gains), see)


def _enough(cells: Sequence[tuple[float, Published]]) -> tuple[int, str]:
    """How many cells are not below the published mean minus two of its standard errors."""
    enough = sum(found >= known.least for found, known in cells)
    return enough, f"{enough} of {len(cells)}"


def _tests(row: str, gains: Sequence[Gain]) -> str:
    return f"{row} p = " + ", ".join(_probability(g.p or 1.0) for g in gains if g.row == row)


def _learned_scale(records: Records, published: Numbers) -> Iterator[Target]:
    """The edge regression whose scale is learned, against the published copula models."""
    found = {column: _mean(records, LEARNED_SCALE, column, "r2") for column in ELECTION}
    if any(value is None for value in found.values()):
        return
    name = "Table 2, learned scale"
    value = found["unemployment"] or 0.0
    yield Target(name, "unemployment at least 0.79", f"{value:.3f}", value >= 0.79)
    rows = ("ab-C-SAGE", "R-C-SAGE")
    least = {
        column: max(published["table2_election", row, column].mean for row in rows) - 0.01
        for column in ELECTION
    }
    short = [column for column in ELECTION if (found[column] or 0.0) < least[column]]
    words = ", ".join(f"{c} {found[c]:.3f} ({least[c]:.3f})" for c in ELECTION)
    asked = "no outcome below the better published copula model less 0.01 (in brackets)"
    here = {
        column: max(_mean(records, row, column, "r2") or 0.0 for row in rows) for column in ELECTION
    }
    see = prose.TARGETS_SEE["learned scale"].format(
        here=", ".join(f"{column} {here[column]:.3f}" for column in ELECTION)
    )
    yield Target(name, asked, words, not short, see)


# ---------------------------------------------------------------- the recommended model


def _recommended(
    table: Table, column: str, records: Records, published: Numbers
) -> Iterator[Target]:
    """The recommended model against every other row and the paper; its coverage."""
    base, _, fresh = table.name.partition("-")
    name = FRESH if fresh else PLANNED
    words, least = [], []
    for title, metric, sign in (
        ("R2", "r2_deviance" if column in COUNTS else "r2", 1.0),
        ("log score", "log_score", 1.0),
        ("CRPS", "crps", -1.0),
    ):
        ours = by_seed(records, RECOMMENDED, column, metric)
        if not ours:
            return
        mean = float(np.mean(list(ours.values())))
        margins = {}
        for row in table.rows:
            if row == RECOMMENDED or (title == "log score" and row in DENSITIES):
                continue
            # The paper's rows have an R2 with their clamp and one without: the better one counts.
            both = (metric, "published") if title == "R2" and row in table.paper else (metric,)
            gains = [paired_gains(ours, by_seed(records, row, column, one)) for one in both]
            if all(gains):
                margins[row] = min(sign * float(np.mean(list(gain.values()))) for gain in gains)
        if title == "R2":
            best, known = best_published(base, column, published)
            margins[f"{best} as published"] = mean - known.mean
        if margins:
            row = min(margins, key=lambda row: margins[row])
            word = "better" if margins[row] > 0 else "worse"
            words.append(f"{title} {mean:.3f} ({abs(margins[row]):.3f} {word} than {row})")
            least.append(margins[row])
    asked = f"{column}: better than every other row and the paper in R2, log score and CRPS"
    yield Target(name, asked, "; ".join(words), min(least) > 0)
    kind = "pit_coverage" if column in COUNTS else "coverage"
    covers = _mean(records, RECOMMENDED, column, kind)
    if covers is not None:
        by = ", by the randomised PIT" if column in COUNTS else ""
        asked = f"{column}: 90% intervals cover 0.87 to 0.93{by}"
        yield Target(name, asked, f"{covers:.3f}", COVERAGE[0] <= covers <= COVERAGE[1])


# ---------------------------------------------------------------- parts


def _pairs(
    rows: Iterable[str], over: Iterable[str], columns: Iterable[str]
) -> list[tuple[str, str, str]]:
    over, columns = list(over), list(columns)
    return [(row, other, column) for row in rows for other in over for column in columns]


def _gains(
    records: Records,
    pairs: Iterable[tuple[str, str, str]],
    metric: str = "published",
    sign: float = 1.0,
) -> Iterator[Gain]:
    """Gains where both rows have been run, by default in the paper's metric."""
    for row, over, column in pairs:
        ours, theirs = (by_seed(records, one, column, metric) for one in (row, over))
        gains = paired_gains(ours, theirs)
        if gains:
            mean = sign * float(np.mean(list(gains.values())))
            yield Gain(row, over, column, mean, paired_p(ours, theirs))


def _cells(table: Table, records: Records, published: Numbers) -> Iterator[tuple[float, Published]]:
    for row in table.paper:
        for column in table.columns:
            known = published.get((table.published or "", row, short(column)))
            found = _mean(records, row, column, "published")
            if known is not None and found is not None:
                yield found, known


def _metric(table: Table, row: str) -> str:
    return "published" if row in table.paper else "r2_deviance"


def _mean(records: Records, row: str, column: str, metric: str) -> float | None:
    values = list(by_seed(records, row, column, metric).values())
    return float(np.mean(values)) if values else None


def _probability(p: float) -> str:
    return f"{p:.2f}" if p >= 0.01 else f"{p:.1g}"
