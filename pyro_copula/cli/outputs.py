"""Writing results: all of them or none, nothing overwritten unasked, nothing a spreadsheet runs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..atomic import leftover_name, remove_leftovers
from ..errors import InvalidArgumentError, OutputError, PyroCopulaError

#: What the commands write into a directory; only these may be overwritten.
FILES = frozenset({"predictions.csv", "summary.txt", "fit.pyrocopula", "picture.png", "scores.csv"})

_PLAIN_NUMBER = re.compile(r"-?\d+(\.\d+)?", re.ASCII)

#: What a spreadsheet may take for a formula, and the same after it got apostrophes.
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def check_directory(path: Path, overwrite: bool) -> None:
    """Refuses a directory that cannot be written, before any work is done.

    Args:
        path: The directory to be.
        overwrite: Whether results that are there already may go.

    Raises:
        InvalidArgumentError: If it is a file, or holds something that may not go.
    """
    with _reported(path):
        _put_back(path)
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
def new_directory(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """A directory to write into, which takes its final place only if all went well.

    Args:
        path: The final place, checked by :func:`check_directory`.
        overwrite: Whether results that are there already may go.
    """
    with _reported(path):
        work = _hidden_directory(path)
    try:
        with _reported(path):
            yield work
            path.parent.mkdir(parents=True, exist_ok=True)
            _swap(work, path, overwrite)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file beside its final place and moves it there when it is complete.

    Args:
        path: The final place.
        write: Writes to the path that it is given.
    """
    with _reported(path):
        work = _hidden_directory(path)
        try:
            part = work / path.name
            write(part)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(part, path)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def harmless(text: str) -> str:
    """A cell that a spreadsheet shows and does not run.

    A cell that begins with ``=``, ``+``, ``-``, ``@``, a tab or a return is taken for a formula by
    spreadsheets. It gets an apostrophe in front, unless it is a plain negative number. So does one
    that looks as if it had got its apostrophe here: :func:`original` undoes it without a doubt.

    Example:
        >>> harmless("=1+1"), harmless("-7"), harmless("Ashe")
        ("'=1+1", '-7', 'Ashe')
    """
    return f"'{text}" if _FORMULA.match(text) and not _PLAIN_NUMBER.fullmatch(text) else text


def original(cell: str) -> str:
    """The text that :func:`harmless` made a cell of.

    Example:
        >>> original("'=1+1"), original("-7"), original("'Ashe'")
        ('=1+1', '-7', "'Ashe'")
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


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


def _hidden_directory(path: Path) -> Path:
    """A new directory for what is not finished, on the file system of its final place."""
    beside = _existing_parent(path) / (path.name or "results")
    remove_leftovers(beside)
    work = leftover_name(beside)
    work.mkdir()
    return work


def _swap(work: Path, path: Path, overwrite: bool) -> None:
    """Puts a directory in its place, or in place of another.

    Between the two renames neither is at its place. A process that is killed just there leaves
    the old one under a name that :func:`_put_back` knows.
    """
    if not overwrite or not path.exists():
        with suppress(OSError):
            path.rmdir()  # an empty one may go
        os.rename(work, path)  # and one that someone else has filled meanwhile is refused
        return
    old = _old_name(path)
    os.rename(path, old)
    try:
        os.rename(work, path)
    except BaseException:
        os.rename(old, path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _put_back(path: Path) -> None:
    """Puts earlier results back that a killed process had moved aside, or removes them."""
    old = _old_name(path)
    if not old.is_dir() or any(entry.name not in FILES for entry in old.iterdir()):
        return
    if path.exists():
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.rename(old, path)


def _old_name(path: Path) -> Path:
    whole = Path(os.path.abspath(path))
    return whole.parent / f".{whole.name}.pyro-copula-old"


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turns a refusal of the file system into an error of this package."""
    try:
        yield
    except PyroCopulaError as error:  # some of them are OSErrors too
        if not isinstance(error, OutputError):
            raise
        reason = error.problem  # its path is that of a hidden file, which is gone
        raise _refused(path, reason) from error
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error


def _refused(path: Path, reason: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "--out",
        "a place that can be written",
        f"{str(path)!r} ({reason})",
        "Nothing was written. Check the free space and the permissions.",
    )
