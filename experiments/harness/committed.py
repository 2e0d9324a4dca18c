"""The committed records: one file a table, in which a trial is a line.

A file is sorted and has rounded numbers, so that the same trials give the same bytes. Its first
line has the versions of what ran. A damaged line is named and refused, and so are the records of
another protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyro_copula.atomic import reported, write_whole
from pyro_copula.errors import InvalidArgumentError

from .trials import PARTS, PROTOCOL, Trial, has_parts

_SIGNIFICANT_DIGITS = 6
#: What a line must have, and of which type.
_ROW = {name: PARTS[name] for name in ("dataset", "model", "seed", "metrics", "seconds")}


def write(records: Iterable[dict[str, Any]], path: Path) -> int:
    """Writes records as one sorted JSON-lines file; the first line has the versions.

    Args:
        records: Records of one table.
        path: The file.

    Returns:
        The number of records.
    """
    rows = sorted(
        records, key=lambda r: (r["dataset"], r["model"], json.dumps(r["options"]), r["seed"])
    )
    known: list[dict[str, str]] = []
    lines = []
    for row in rows:
        if row["versions"] not in known:
            known.append(row["versions"])
        line = {name: row[name] for name in ("dataset", "model", "seed")}
        line |= {"options": row["options"]} if row["options"] else {}
        line |= {"metrics": _rounded(row["metrics"]), "seconds": round(row["seconds"], 2)}
        line |= {"version": known.index(row["versions"])} if len(known) > 1 else {}
        lines.append(json.dumps(line, separators=(",", ":")))
    header = json.dumps({"protocol": PROTOCOL, "versions": known}, separators=(",", ":"))
    with reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, ("\n".join([header, *lines]) + "\n").encode())
    return len(rows)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that :func:`write` wrote, without its first line.

    Raises:
        InvalidArgumentError: If a line is damaged, or of another protocol.
    """
    return _lines(path)[1:]


def read_versions(path: Path) -> list[dict[str, str]]:
    """The versions of what the trials of a file were run with; none if there is no file.

    Raises:
        InvalidArgumentError: If a line is damaged, or of another protocol.
    """
    return next(iter(_lines(path)), {}).get("versions", [])


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of records, each of them checked."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_bytes().removesuffix(b"\n").split(b"\n"), start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not (_is_row(row, rows[0]) if rows else _is_header(row)):
            raise InvalidArgumentError(
                "out",
                "a folder with whole records",
                f"{str(path)!r}, damaged in line {number}",
                "Restore that file from git, or delete it and run its table again.",
            )
        if not rows and row["protocol"] != PROTOCOL:
            raise InvalidArgumentError(
                "out",
                f"a folder with records of protocol {PROTOCOL}",
                f"{str(path)!r}, of protocol {row['protocol']}",
                "Use another folder: trials of two protocols cannot be compared.",
            )
        rows.append(row)
    return rows


def _is_header(row: dict[str, Any]) -> bool:
    whole = has_parts(row, {"protocol": int, "versions": list})
    return whole and all(isinstance(known, dict) for known in row["versions"])


def _is_row(row: dict[str, Any], header: dict[str, Any]) -> bool:
    version = row.get("version", 0)
    whole = has_parts(row, _ROW) and isinstance(row.get("options", {}), dict)
    return whole and type(version) is int and 0 <= version < len(header["versions"])


def read_trials(table: str, path: Path) -> list[dict[str, Any]]:
    """The same rows as records of trials, with their keys and versions.

    Args:
        table: The table that the file is of.
        path: The file; no records if there is none.

    Raises:
        InvalidArgumentError: If a line is damaged, or of another protocol.
    """
    header, *rows = _lines(path) or [{}]
    records = []
    for row in rows:
        options = tuple(sorted(row.get("options", {}).items()))
        trial = Trial(table, row["dataset"], row["model"], row["seed"], options)
        parts = {"options": dict(options), "versions": header["versions"][row.get("version", 0)]}
        parts |= {name: row[name] for name in ("metrics", "seconds")}
        records.append({"key": trial.key, **asdict(trial), **parts})
    return records


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(part) for part in value]
    return value
