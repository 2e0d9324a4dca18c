"""The main table of the project's README: the paper's best models and the recommended one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .problems import COUNTS, ELECTION
from .prose import markdown
from .stats import Cell, Published, by_seed, summarise
from .tables import TABLES

Records = Sequence[Mapping[str, Any]]
RECOMMENDED = "recipe"


def main_table(
    records: Mapping[str, Records], published: Mapping[tuple[str, str, str], Published]
) -> str:
    """A row for every real data set that has trials, in Markdown; empty without any.

    Args:
        records: By table.
        published: The numbers in the paper.
    """
    lines = []
    for name, columns, score in (("table2", ELECTION, "r2"), ("table3", COUNTS, "r2_deviance")):
        for column in columns:
            rows = [record for record in records[name] if record["dataset"] == column]
            best, known = best_published(name, column, published)
            here = _cell(rows, best, column, "published")
            clamped = _cell(rows, RECOMMENDED, column, "published")
            ours = _cell(rows, RECOMMENDED, column, score)
            if here is None and ours is None:
                continue
            counts = column in COUNTS
            laws = [_cell(rows, RECOMMENDED, column, m) for m in ("log_score", "crps")]
            covers = _cell(rows, RECOMMENDED, column, "pit_coverage" if counts else "coverage")
            lines.append(
                [
                    column,
                    f"{known.mean:.3f} ({best})",
                    _words(here),
                    "" if clamped is None else f"{clamped.mean:.3f}",
                    _words(ours),
                    *("" if law is None else f"{law.mean:.3f}" for law in laws),
                    "" if covers is None else f"{covers.mean:.2f}",
                ]
            )
    heads = ["data set", "best in the paper", "the same model here", "recommended, clamped too"]
    heads += ["recommended model", "log score", "CRPS", "90% coverage"]
    return markdown(heads, lines) if lines else ""


def best_published(
    name: str, column: str, published: Mapping[tuple[str, str, str], Published]
) -> tuple[str, Published]:
    """The paper's best model on a data set, and its score."""
    table = TABLES[name]
    found = {row: published[table.published or "", row, column] for row in table.paper}
    best = max(found, key=lambda row: found[row].mean)
    return best, found[best]


def _cell(rows: Records, row: str, column: str, metric: str) -> Cell | None:
    values = list(by_seed(rows, row, column, metric).values())
    return summarise(values) if values else None


def _words(cell: Cell | None) -> str:
    return "" if cell is None else f"{cell} (n = {cell.count})"
