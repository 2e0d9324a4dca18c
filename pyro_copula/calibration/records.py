"""A file of finished replications, so that a run can go on where an earlier one ended.

One line of JSON a replication, after a first line that says which run they belong to. A line that
was cut off by the end of a process is dropped; a replication that failed is tried again. While a
run uses the file, another one that names it is refused.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from ..atomic import reported
from ..errors import InvalidArgumentError

try:
    import fcntl
except ImportError:  # not on Unix: two runs on one file are not found out there
    fcntl = None  # type: ignore[assignment]

#: What a finished replication must have, and of which type.
_PARTS = {
    "replication": int,
    "seed": int,
    "ranks": dict,
    "truths": dict,
    "health": dict,
    "digest": str,
}


class Records:
    """Records of replications in a file, or nowhere.

    Args:
        path: The file; None for nowhere.
        header: What all its records share.

    Raises:
        InvalidArgumentError: If the file belongs to another run, is used by one, or is damaged.
        OutputError: If it cannot be written.

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
        self._handle = -1
        if self.path is None:
            return
        if self.path.exists() and not self.path.is_file():
            raise InvalidArgumentError(
                "records", "a file", f"{str(self.path)!r}, which is none", "Name another place."
            )
        with reported(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            self._lock()
            self._read(header)
        except BaseException:
            self.close()
            raise

    def add(self, record: dict[str, Any]) -> None:
        """Appends a record; it is in the file when this returns.

        Raises:
            OutputError: If it cannot be written; the file is then as it was before.
        """
        if self.path is not None:
            self._append(record)

    def close(self) -> None:
        """Lets other runs use the file."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidArgumentError(
                "records",
                "a file that no other run is using",
                f"{str(self.path)!r}, which one is using now",
                "Wait for it to end, or name another file.",
            ) from None
        except OSError:
            pass  # a file system without locks

    def _read(self, header: dict[str, Any]) -> None:
        assert self.path is not None
        with reported(self.path), open(self._handle, "rb", closefd=False) as file:
            text = file.read()
        *whole, cut = text.split(b"\n")  # what follows the last newline was not finished
        rows = [_parsed(line, self.path) for line in whole if line]
        if rows:
            self._check(rows[0], header)
            most = header.get("num_draws", math.inf)
            for row in rows[1:]:
                if "ranks" in row:
                    _check_row(row, most, self.path)
                    self.finished[row["replication"]] = row
        if cut:
            if not rows and not json.dumps(header).encode().startswith(cut):
                self._check(_parsed(cut, self.path), header)  # not ours: it stays as it is
            with reported(self.path):
                os.ftruncate(self._handle, len(text) - len(cut))
        if not rows:
            self._append(header)

    def _append(self, record: dict[str, Any]) -> None:
        assert self.path is not None
        rest = (json.dumps(record) + "\n").encode()
        with reported(self.path):
            before = os.fstat(self._handle).st_size
            try:
                while rest:  # a disk that is nearly full takes a part of it first
                    rest = rest[os.write(self._handle, rest) :]
                os.fsync(self._handle)
            except BaseException:
                os.ftruncate(self._handle, before)
                raise

    def _check(self, found: dict[str, Any], header: dict[str, Any]) -> None:
        differing = [key for key in header if found.get(key) != header[key]]
        if differing:
            key = differing[0]
            raise InvalidArgumentError(
                "records",
                f"a file of this run, with {key} = {header[key]!r}",
                f"one with {key} = {found.get(key)!r:.80} in {self.path}",
                "Name another file, or delete this one.",
            )


def _parsed(line: bytes, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise InvalidArgumentError(
            "records",
            "a file that an earlier run wrote, or a new one",
            f"a line that is no record: {line[:40]!r} in {path}",
            "Name another file.",
        )
    return row


def _check_row(row: dict[str, Any], most: float, path: Path) -> None:
    """Refuses a record that no run wrote, before anything is computed from it."""
    whole = all(type(row.get(name)) is kind for name, kind in _PARTS.items())
    whole = whole and 0 <= row["replication"] < 2**32
    whole = whole and all(type(rank) is int and 0 <= rank <= most for rank in row["ranks"].values())
    whole = whole and row["truths"].keys() == row["ranks"].keys()
    numbers = [*row["truths"].values(), *row["health"].values()] if whole else []
    if not whole or any(type(number) is not float for number in numbers):
        raise InvalidArgumentError(
            "records",
            "a file of whole records",
            f"a damaged one of replication {row.get('replication')!r:.40} in {path}",
            "Delete that line, and its replication runs again.",
        )
