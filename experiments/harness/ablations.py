"""What each part of a recipe brings: the whole against itself without that part."""

from __future__ import annotations

from . import prose
from .gains import Records, gain, probability
from .models import ABLATIONS
from .problems import COUNTS, short
from .summary import RECOMMENDED
from .tables import Table


def section(table: Table, records: Records) -> str:
    """The section of a table, empty without trials of a shortened recipe."""
    lines = []
    for column in table.columns:
        for row, part in ABLATIONS.items():
            gains = [
                gain(records, RECOMMENDED, row, column, metric, sign=sign, overlap=table.overlap)
                for metric, sign in (
                    ("r2_deviance" if column in COUNTS else "r2", 1.0),
                    ("log_score", 1.0),
                    ("crps", -1.0),
                )
            ]
            found = [one for one in gains if one is not None]
            if found:
                words = [_said(one.mean, one.p) for one in found]
                lines.append([short(column), part.note, str(found[0].count), *words])
    if not lines:
        return ""
    heads = ["data set", "without", "splits", "R2", "log score", "CRPS"]
    return f"{prose.ABLATIONS.strip()}\n\n{prose.markdown(heads, lines)}"


def _said(mean: float, p: float | None) -> str:
    return f"{mean:+.3f}" if p is None else f"{mean:+.3f} (p = {probability(p)})"
