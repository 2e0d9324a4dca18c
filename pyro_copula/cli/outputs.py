"""Writing results: all of them or none, nothing overwritten unasked, nothing a spreadsheet runs."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError, PyroCopulaError

#: What the commands write into a directory; only these may be overwritten.
FILES = frozenset({"predictions.csv", "summary.txt", "fit.pyrocopula", "picture.png", "scores.csv"})

_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)


def check_directory(path: Path, overwrite: bool) -> None:
    """Refuses a directory that cannot be written, before any work is done.

    Args:
        path: The directory to be.
        overwrite: Whether results that are there already may go.

    Raises:
        InvalidArgumentError: If it is a file, or holds something that may not go.
    """
    if path.exists() and not path.is_dir():
        raise InvalidArgumentError(
            "--out", "a directory", f"the file {str(path)!r}", "Name another place."
        )
    if path.is_dir():
        found = sorted(entry.name for entry in path.iterdir())
        foreign = [name for name in found if name not in FILES]
        if found and not overwrite:
            raise InvalidArgumentError(
                "--out",
                "a new or empty directory",
                f"{str(path)!r}, which holds {found[0]!r}",
                "Name another one, or pass --overwrite to replace earlier results.",
            )
        if foreign:
            raise InvalidArgumentError(
                "--out",
                "a directory with nothing but earlier results",
                f"{str(path)!r}, which also holds {foreign[0]!r}",
                "Name another one: --overwrite replaces only what this command writes.",
            )
    _check_parent(path)


def check_file(path: Path, overwrite: bool) -> None:
    """Refuses a file that cannot be written, before any work is done."""
    if path.is_dir():
        raise InvalidArgumentError(
            "--out", "a file", f"the directory {str(path)!r}", "Pass --out predictions.csv."
        )
    if path.exists() and not overwrite:
        raise InvalidArgumentError(
            "--out",
            "a new file",
            f"{str(path)!r}, which exists",
            "Name another one, or pass --overwrite.",
        )
    _check_parent(path)


@contextmanager
def new_directory(path: Path) -> Iterator[Path]:
    """A directory to write into, which takes its final place only if all went well.

    Args:
        path: The final place, checked by :func:`check_directory`.
    """
    with _reported(path):
        work = Path(tempfile.mkdtemp(dir=_existing_parent(path), prefix=f".{path.name}."))
    try:
        with _reported(path):
            yield work
            work.chmod(0o777 & ~_umask())
            path.parent.mkdir(parents=True, exist_ok=True)
            _swap(work, path)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file beside its final place and moves it there when it is complete.

    Args:
        path: The final place.
        write: Writes to the path that it is given.
    """
    with (
        _reported(path),
        tempfile.TemporaryDirectory(dir=_existing_parent(path), prefix=f".{path.name}.") as work,
    ):
        part = Path(work) / path.name
        write(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        os.replace(part, path)


def harmless(text: str) -> str:
    """A cell that a spreadsheet shows and does not run.

    A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a return is taken for a formula by
    spreadsheets. It gets an apostrophe in front, unless it is a plain negative number.

    Example:
        >>> harmless("=1+1"), harmless("-7"), harmless("Ashe")
        ("'=1+1", '-7', 'Ashe')
    """
    if text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and not _PLAIN_NUMBER.fullmatch(text):
        return f"'{text}"
    return text


# ---------------------------------------------------------------- parts


def _existing_parent(path: Path) -> Path:
    parent = path.absolute().parent
    while not parent.exists():
        parent = parent.parent
    return parent


def _check_parent(path: Path) -> None:
    parent = _existing_parent(path)
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise InvalidArgumentError(
            "--out",
            "in a directory that can be written",
            f"{str(path)!r}",
            "Name another place, or change its permissions.",
        )


def _swap(work: Path, path: Path) -> None:
    """Puts a directory in place of another; the old one is there until the new one is."""
    if not path.exists():
        os.rename(work, path)
        return
    old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
    os.rename(path, old / path.name)
    try:
        os.rename(work, path)
    except OSError:
        os.rename(old / path.name, path)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turns a refusal of the file system into an error of this package."""
    try:
        yield
    except PyroCopulaError:  # some of them are OSErrors too
        raise
    except OSError as error:
        raise InvalidArgumentError(
            "--out",
            "a place that can be written",
            f"{str(path)!r} ({error.strerror or error})",
            "Nothing was written. Check the free space and the permissions.",
        ) from error
