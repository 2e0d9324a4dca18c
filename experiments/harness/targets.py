"""What was asked of the tables when they were planned, and whether it was reached."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from . import prose, recommended
from .gains import LEVEL, Gain, Records, gains, probability
from .problems import COUNTS, ELECTION, published_split, short
from .stats import Published, base_of, by_seed, mean_p, paired_gains
from .summary import best_published
from .tables import FIGURE_ROWS, TABLES, Table
from .target import Target

Numbers = Mapping[tuple[str, str, str], Published]

#: The edge regressions, which the paper says beat their base models.
REGRESSIONS = ("R-C-GCN", "R-C-SAGE")
LEARNED_SCALE = "R-C-SAGE, learned scale"


def section(records: Mapping[str, Records], published: Numbers) -> str:
    """The section, empty without records.

    Args:
        records: By table.
        published: The numbers in the paper.
    """
    found = [*targets(records, published)]
    if not found:
        return ""
    lines = [[target.of, target.asked, target.found, target.verdict] for target in found]
    table = prose.markdown(["", "target", "reached", "met"], lines)
    again = [target for target in found if target.of == recommended.FRESH]
    text = _counted(prose.TARGETS, [target for target in found if target not in again])
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
    for name in ("table1", "table2", "table3", "table2-fresh", "table3-fresh"):
        some, as_run = (records.get(key, ()) for key in (name, f"{name}-published"))
        for column in TABLES[name].columns:
            yield from recommended.targets(TABLES[name], column, some, as_run, published)


def _counted(text: str, found: Sequence[Target]) -> str:
    met = [target for target in found if target.met]
    unsure = sum(not target.sure for target in met)
    return text.strip().format(met=len(met), count=len(found), unsure=unsure)


# ---------------------------------------------------------------- the paper's claims


def _figure1(records: Records) -> Iterator[Target]:
    columns = TABLES["figure1"].columns
    networks = FIGURE_ROWS[1:]
    a, b = ([c for c in columns if c.startswith(f"{setting}:")] for setting in "ab")
    for asked, pairs in (
        ("(a) every graph network above MLP", _pairs(networks, ["MLP"], a)),
        ("(b) MLP above every graph network", _pairs(["MLP"], networks, b)),
    ):
        yield from _all_above("Figure 1", asked, [*gains(records, pairs)])
    pairs = _pairs(["ab-C-MLP", "R-C-MLP"], ["MLP"], b)
    yield from _all_above("Figure 1", "(b) copula models above MLP", [*gains(records, pairs)])


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
    again = [*_cells(table, as_run, published)]
    if again:
        words += f"; in the trials of the published code {_enough(again)[1]}"
    see = prose.TARGETS_SEE.get(f"{table.name} cells", "")
    yield Target(name, asked, words, enough == len(cells), see)
    if table.name == "table3":
        for column in COUNTS:
            best, known = best_published(table.name, column, published)
            means = {row: _mean(records, row, column, "published") for row in table.rows}
            ours = {row: mean for row, mean in means.items() if mean is not None}
            if not ours:
                continue
            row = max(ours, key=lambda row: ours[row])
            asked = f"{column}: the best model at or above the best published one, "
            asked += f"{known.mean:.3f} ({best}), both clamped"
            yield Target(name, asked, f"{ours[row]:.3f} ({row})", ours[row] >= known.mean)
        return
    pairs = [(row, base_of(row) or "", c) for row in REGRESSIONS for c in table.columns]
    found = [*gains(records, pairs)]
    asked = "R-C-GCN and R-C-SAGE above their base models in every column"
    yield from _all_above(name, asked, found)
    if table.name == "table1":
        found = [one for one in found if "tau=5" not in one.column]
    if found:
        yield _all_sure(table, name, found, records, as_run)


def _all_above(name: str, asked: str, found: Sequence[Gain]) -> Iterator[Target]:
    """That every row is above another, and whether the least of it is more than chance."""
    if found:
        smallest = min(found, key=lambda one: one.mean)
        sure = all(one.is_significant for one in found)
        yield Target(name, asked, f"smallest gain {smallest}", smallest.mean > 0, sure=sure)


def _all_sure(
    table: Table, name: str, found: Sequence[Gain], records: Records, as_run: Records
) -> Target:
    """That every gain is significant, as the paper tests it."""
    pairs = [(one.row, one.over, one.column) for one in found]
    asked = "the same with p < 0.05" + (" at tau 0.5, 1 and 2" if table.name == "table1" else "")
    sure = _significant(found)
    words = f"{sure} of {len(found)}"
    if sure < len(found):
        words += "; " + "; ".join(_tests(row, found) for row in REGRESSIONS)
    if table.overlap:
        corrected = _significant(gains(records, pairs, overlap=table.overlap))
        words += f"; corrected for the overlap of splits {corrected}"
    see = prose.TARGETS_SEE.get(f"{table.name} gains", "").format(
        as_run=sum(_by_data_set(as_run, *pair) for pair in pairs),
        crps=_significant(gains(records, pairs, "crps", sign=-1.0)),
        count=len(pairs),
    )
    return Target(name, asked, words, sure == len(found), see if sure < len(found) else "")


def _significant(found: Iterable[Gain]) -> int:
    return sum(one.is_significant for one in found)


def _by_data_set(as_run: Records, row: str, over: str, column: str) -> bool:
    """Whether a gain is significant over data sets, each with the mean of its trials."""
    ours, theirs = (by_seed(as_run, one, column, "published") for one in (row, over))
    sets: dict[int, list[float]] = {}
    for seed, value in paired_gains(ours, theirs).items():
        sets.setdefault(published_split(seed), []).append(value)
    means = [float(np.mean(values)) for values in sets.values()]
    p = mean_p(means)
    return p is not None and p < LEVEL and np.mean(means) > 0


def _enough(cells: Sequence[tuple[float, Published]]) -> tuple[int, str]:
    """How many cells are not below the published mean minus two of its standard errors."""
    enough = sum(found >= known.least for found, known in cells)
    return enough, f"{enough} of {len(cells)}"


def _tests(row: str, found: Sequence[Gain]) -> str:
    said = ("none" if one.p is None else probability(one.p) for one in found if one.row == row)
    return f"{row} p = " + ", ".join(said)


def _learned_scale(records: Records, published: Numbers) -> Iterator[Target]:
    """The edge regression whose scale is learned, against the published copula models."""
    found = {column: _mean(records, LEARNED_SCALE, column, "r2") for column in ELECTION}
    if any(value is None for value in found.values()):
        return
    name = "Table 2, learned scale"
    value = found["unemployment"] or 0.0
    clamped = _mean(records, LEARNED_SCALE, "unemployment", "published")
    words = f"{value:.3f}" + ("" if clamped is None else f" (clamped {clamped:.3f})")
    yield Target(name, "unemployment at least 0.79", words, value >= 0.79)
    rows = ("ab-C-SAGE", "R-C-SAGE")
    least = {
        column: max(published["table2_election", row, column].mean for row in rows) - 0.01
        for column in ELECTION
    }
    met = all((found[column] or 0.0) >= least[column] for column in ELECTION)
    words = ", ".join(f"{c} {found[c]:.3f} ({least[c]:.3f})" for c in ELECTION)
    asked = "no outcome below the better published copula model less 0.01 (in brackets)"
    here = {
        column: max(_mean(records, row, column, "r2") or 0.0 for row in rows) for column in ELECTION
    }
    see = prose.TARGETS_SEE["learned scale"].format(
        here=", ".join(f"{column} {here[column]:.3f}" for column in ELECTION)
    )
    yield Target(name, asked, words, met, "" if met else see)


# ---------------------------------------------------------------- parts


def _pairs(
    rows: Iterable[str], over: Iterable[str], columns: Iterable[str]
) -> list[tuple[str, str, str]]:
    over, columns = list(over), list(columns)
    return [(row, other, column) for row in rows for other in over for column in columns]


def _cells(table: Table, records: Records, published: Numbers) -> Iterator[tuple[float, Published]]:
    for row in table.paper:
        for column in table.columns:
            known = published.get((table.published or "", row, short(column)))
            found = _mean(records, row, column, "published")
            if known is not None and found is not None:
                yield found, known


def _mean(records: Records, row: str, column: str, metric: str) -> float | None:
    values = list(by_seed(records, row, column, metric).values())
    return float(np.mean(values)) if values else None
