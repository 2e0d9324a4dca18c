"""Writing a file as a whole: it is there complete, or as it was before.

The content goes to a hidden file beside its place, which then takes that place by one rename. A
process that is killed in between leaves the hidden file, which nothing reads; its name says who
wrote it, and the next writer at the same place removes it if that process is gone.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import OutputError

#: Names of files are at most 255 bytes; so many characters of them are in that of the hidden one.
_MAX_NAME = 40

_HINT = "Check the free space and the permissions. What was there before is unchanged."


def write_whole(path: str | Path, content: bytes) -> None:
    """Writes a file that is complete from the moment it is there.

    Args:
        path: The file. Its directory must exist.
        content: What it will hold.

    Raises:
        OutputError: If it cannot be written; nothing is left behind then.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     write_whole(Path(directory) / "a.txt", b"hello")
        ...     (Path(directory) / "a.txt").read_bytes()
        b'hello'
    """
    path = Path(path)
    with reported(path):
        _check_place(path)
        remove_leftovers(path)
        partial = leftover_name(path)
        # made with the permissions that any new file gets, which mkstemp would not do
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def leftover_name(path: Path) -> Path:
    """A new hidden name beside a place, which says which process made it.

    Args:
        path: The place.

    Example:
        >>> leftover_name(Path("a.txt")).name.startswith(".a.txt.")
        True
    """
    return path.with_name(f"{_prefix(path)}{os.getpid()}-{secrets.token_hex(4)}.part")


def remove_leftovers(path: Path) -> None:
    """Removes what processes that are gone left half-written beside a place.

    Args:
        path: The place. What another process is writing there now stays.
    """
    prefix = _prefix(path)
    try:
        names = os.listdir(path.parent)
    except OSError:
        return  # the write that follows says what is wrong
    for name in names:
        if not (name.startswith(prefix) and name.endswith(".part")):
            continue
        pid = name[len(prefix) :].split("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)):
            _remove(path.parent / name)


@contextmanager
def reported(path: Path) -> Iterator[None]:
    """Turns a refusal of the file system into an error of this package.

    Args:
        path: What was to be written.
    """
    try:
        yield
    except OutputError:
        raise
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        raise OutputError(str(path), problem, _HINT) from error


# ---------------------------------------------------------------- parts


def _check_place(path: Path) -> None:
    """Only a regular file may be replaced: a rename would put one in place of a device."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
        raise OutputError(str(path), f"cannot be written: it is {what}", "Name another place.")


def _prefix(path: Path) -> str:
    return f".{path.name[:_MAX_NAME]}.{_place()}-"


@functools.cache
def _place() -> str:
    """Where the number of a process means something: this machine, and this container of it."""
    try:
        space = str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        space = ""
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _is_alive(pid: int) -> bool:
    """Whether a process may still be there; elsewhere than on Unix that cannot be asked."""
    if os.name != "posix":
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass
    return True


def _remove(path: Path) -> None:
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    except OSError:
        pass  # it is in nobody's way
