"""A file of finished replications, so that a run can go on where an earlier one ended.

One line of JSON a replication, after a first line that says which run they belong to. A line that
was cut off by the end of a process is dropped; a replication that failed is tried again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError


class Records:
    """Records of replications in a file, or nowhere.

    Args:
        path: The file; None for nowhere.
        header: What all its records share.

    Raises:
        InvalidArgumentError: If the file belongs to another run.

    Example:
        >>> records = Records(None, {"seed": 0})
        >>> records.add({"replication": 0})
        >>> records.finished
        {}
    """

    def __init__(self, path: str | Path | None, header: dict[str, Any]) -> None:
        self.path = None if path is None else Path(path)
        #: The records that were in the file, by replication; those that failed are left out.
        self.finished: dict[int, dict[str, Any]] = {}
        if self.path is None:
            return
        text = self.path.read_bytes() if self.path.exists() else b""
        *whole, cut = text.split(b"\n")  # what follows the last newline was not finished
        rows = [_parsed(line, self.path) for line in whole if line]
        if rows:
            self._check(rows[0], header)
            self.finished = {row["replication"]: row for row in rows[1:] if "ranks" in row}
        if cut or not rows:
            self._rewrite(rows or [header])

    def add(self, record: dict[str, Any]) -> None:
        """Appends a record; it is in the file when this returns."""
        if self.path is None:
            return
        with open(self.path, "a") as file:
            file.write(json.dumps(record) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _rewrite(self, rows: list[dict[str, Any]]) -> None:
        assert self.path is not None
        self.path.parent.mkdir(parents=True, exist_ok=True)
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        partial.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.replace(partial, self.path)

    def _check(self, found: dict[str, Any], header: dict[str, Any]) -> None:
        differing = [key for key in header if found.get(key) != header[key]]
        if differing:
            key = differing[0]
            raise InvalidArgumentError(
                "records",
                f"a file of this run, with {key} = {header[key]!r}",
                f"one with {key} = {found.get(key)!r} in {self.path}",
                "Name another file, or delete this one.",
            )


def _parsed(line: bytes, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise InvalidArgumentError(
            "records",
            "a file that an earlier run wrote, or a new one",
            f"a line that is no record: {line[:40]!r} in {path}",
            "Name another file.",
        )
    return row
