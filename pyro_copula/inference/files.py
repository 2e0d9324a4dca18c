"""Files that hold fits and checkpoints: written atomically, checked before they are read.

A file is one line of text (what it is, its version, the SHA-256 of the rest) and then tensors and
plain values in torch's format, read with ``weights_only=True``: nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

import torch

from ..errors import FitFileError

_VERSION = 1


def write_record(path: Path, kind: str, record: dict[str, Any]) -> None:
    """Writes tensors and plain values; the file is either complete or as it was before.

    Args:
        path: Where to.
        kind: What it is, in one word.
        record: Nested dictionaries, lists and tuples of tensors, numbers, strings and None.
    """
    buffer = io.BytesIO()
    torch.save(record, buffer)
    body = buffer.getvalue()
    header = f"pyro-copula {kind} {_VERSION} {hashlib.sha256(body).hexdigest()}\n".encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(header)
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_kind(path: Path) -> str:
    """The kind that a file says it is; an empty string if it says nothing."""
    try:
        with path.open("rb") as file:
            words = file.readline(200).split(b" ")
    except OSError:
        return ""
    return words[1].decode(errors="replace") if len(words) == 4 else ""


def read_record(path: Path, kind: str) -> dict[str, Any]:
    """Reads what :func:`write_record` wrote, after checking that it is that.

    Raises:
        FitFileError: If the file is missing, of another kind, damaged or not ours.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise FitFileError(str(path), f"cannot be read ({error.strerror})", _WHERE) from None
    header, _, body = content.partition(b"\n")
    words = header.split(b" ")
    if len(words) != 4 or words[0] != b"pyro-copula":
        raise FitFileError(str(path), "is not a file of this package", _WHERE)
    if words[1] != kind.encode():
        found = words[1].decode(errors="replace")
        raise FitFileError(str(path), f"is a {found}, not a {kind}", _WHERE)
    if words[2] != str(_VERSION).encode():
        raise FitFileError(str(path), "was written by another version", "Write it again.")
    if hashlib.sha256(body).hexdigest().encode() != words[3]:
        raise FitFileError(
            str(path), "is damaged: its checksum differs", "Restore it from a copy, or fit again."
        )
    try:
        return torch.load(io.BytesIO(body), weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError) as error:
        raise FitFileError(str(path), "cannot be decoded", _WHERE) from error


_WHERE = "Pass the path of a file that fit.save or a checkpoint wrote."
