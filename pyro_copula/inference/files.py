"""Files that hold fits and checkpoints: written atomically, checked before they are read.

A file is one line of text (what it is, its version, the SHA-256 of the rest) and then tensors and
plain values in torch's format, read with ``weights_only=True``: nothing in it is ever executed.
The checksum finds accidents. Against malice the content is looked at before it is used: it may
unfold to no more than the size of the file, and hold nothing but tensors and plain values.
"""

from __future__ import annotations

import hashlib
import io
import math
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..atomic import reported, write_whole
from ..errors import FitFileError, InvalidArgumentError

_VERSION = 1

#: Records are at most so deeply nested; those that this package writes have less than ten levels.
_MAX_DEPTH = 50


def write_record(path: Path, kind: str, record: dict[str, Any]) -> None:
    """Writes tensors and plain values; the file is either complete or as it was before.

    Args:
        path: Where to.
        kind: What it is, in one word.
        record: Nested dictionaries, lists and tuples of tensors, numbers, strings and None.

    Raises:
        OutputError: If it cannot be written.
    """
    buffer = io.BytesIO()
    torch.save(record, buffer)
    body = buffer.getvalue()
    with reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, header(kind, body) + body)


def as_path(argument: str, path: Any) -> Path:
    """A path as an object.

    Raises:
        InvalidArgumentError: If it is none.
    """
    try:
        return Path(path)
    except TypeError:
        raise InvalidArgumentError(
            argument, "the path of a file", repr(path), 'Pass a text or a Path, such as "my.fit".'
        ) from None


def header(kind: str, body: bytes) -> bytes:
    """The first line of a file."""
    return f"pyro-copula {kind} {_VERSION} {hashlib.sha256(body).hexdigest()}\n".encode()


def read_kind(path: Path) -> str:
    """The kind that a file says it is; an empty string if it says nothing."""
    try:
        if not path.is_file():
            return ""
        with path.open("rb") as file:
            words = file.readline(200).split(b" ")
    except (OSError, ValueError):
        return ""
    return words[1].decode(errors="replace") if len(words) == 4 else ""


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """Reads what :func:`write_record` wrote, after checking that it is that.

    Raises:
        FitFileError: If the file is missing, of another kind, damaged or not ours.
    """
    try:
        if path.exists() and not path.is_file():  # a device may have no end
            raise FitFileError(str(path), "is not a file", _WHERE)
        content = path.read_bytes()
    except FitFileError:
        raise
    except (OSError, ValueError) as error:  # a path with a zero byte is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise FitFileError(str(path), f"cannot be read ({reason})", _WHERE) from None
    first, _, body = content.partition(b"\n")
    words = first.split(b" ")
    if len(words) != 4 or words[0] != b"pyro-copula":
        raise FitFileError(str(path), "is not a file of this package", _WHERE)
    if words[1] != kind.encode():
        found = words[1][:40].decode(errors="replace")
        raise FitFileError(str(path), f"is a {found}, not a {kind}", _WHERE)
    if words[2] != str(_VERSION).encode():
        raise FitFileError(str(path), "was written by another version", "Write it again.")
    if hashlib.sha256(body).hexdigest().encode() != words[3]:
        raise FitFileError(
            str(path), "is damaged: its checksum differs", "Restore it from a copy, or fit again."
        )
    try:
        _check_archive(body)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch thinks of a crafted file is no news
            record = torch.load(io.BytesIO(body), weights_only=True)
        _check_plain(record, len(body))
    except Exception as error:  # a crafted file can make torch raise anything
        raise FitFileError(str(path), "cannot be decoded", _WHERE) from error
    if not isinstance(record, dict):
        raise FitFileError(str(path), "holds no record", _WHERE)
    return record


def _check_archive(body: bytes) -> None:
    """Refuses what torch never writes: compressed or overlapping members, which could unfold."""
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("a compressed member")
    if sum(member.file_size for member in members) > len(body):
        raise ValueError("members larger than the file")


def _check_plain(record: Any, size: int) -> None:
    """Refuses values that are not plain, too deep, or larger than the file they came from.

    What is shared is counted as often as it is met, so that lists of lists of the same lists,
    which a small file can hold, do not unfold later.
    """
    budget = size
    todo: list[tuple[Any, int]] = [(record, 0)]
    while todo:
        value, depth = todo.pop()
        budget -= 1
        if budget < 0 or depth > _MAX_DEPTH:
            raise ValueError("values that unfold to more than the file")
        if isinstance(value, dict):
            todo.extend((part, depth + 1) for pair in value.items() for part in pair)
        elif isinstance(value, list | tuple):
            todo.extend((part, depth + 1) for part in value)
        elif isinstance(value, Tensor):
            _check_tensor(value, size)
        elif value is not None and not isinstance(value, str | int | float | bool):
            raise ValueError(f"a {type(value).__name__}")


def _check_tensor(value: Tensor, size: int) -> None:
    if type(value) is not Tensor or value.layout != torch.strided or value.device.type != "cpu":
        raise ValueError("a tensor that is not plain")
    # strides of zero make a large tensor of a small storage
    if math.prod(value.shape) * value.element_size() > size:
        raise ValueError("a tensor larger than the file")


_WHERE = "Pass the path of a file that fit.save or a checkpoint wrote."
