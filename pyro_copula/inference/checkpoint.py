"""Checkpoints: one file that lets the same call go on where it was stopped.

The file holds the state of everything that is under way or finished in one call of ``fit``: each
learning-rate candidate, each restart, each chain, under a name of its own. It also holds a
fingerprint of the call, so that another call cannot go on from it by mistake.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..crew import present_crew
from ..errors import FitFileError, InvalidArgumentError
from .files import read_record, write_record


class Slot:
    """The place of one part of a fit in a checkpoint.

    Args:
        load: Gives what was saved there, or None.
        save: Saves it.
        path: The file, for messages.
    """

    def __init__(
        self,
        load: Callable[[], dict[str, Any] | None],
        save: Callable[[dict[str, Any]], None],
        path: Path | None = None,
    ) -> None:
        self.load = load
        self.save = save
        self.path = path

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever goes wrong with what was loaded is an error that names the file."""
        try:
            yield
        except Exception as error:
            raise FitFileError(
                str(self.path),
                "holds a state that this fit cannot go on from",
                "Delete it to start anew, or restore it from a copy.",
            ) from error


_ANEW = "Delete it to start anew, or pass another path."

#: Where nothing is kept.
NOWHERE = Slot(lambda: None, lambda record: None)


class Checkpoint:
    """A file with the parts of a fit, always complete on disk.

    Args:
        path: The file; None keeps nothing.
        fingerprint: What the call is made of: a name and a digest each.

    Raises:
        FitFileError: If the file belongs to another call, or is damaged.
        OutputError: If it cannot be written, now or later.
        InvalidArgumentError: If the directory does not exist.
    """

    def __init__(self, path: Path | None, fingerprint: Mapping[str, str]) -> None:
        self.path = path
        self._fingerprint = dict(fingerprint)
        self._parts: dict[str, Any] = {}
        if path is not None:
            # In a crew only the first process has the file; the others may be elsewhere.
            self._parts = present_crew().first(lambda: self._read(path))

    def _read(self, path: Path) -> dict[str, Any]:
        if not path.absolute().parent.is_dir():
            raise InvalidArgumentError(
                "checkpoint",
                "a file in a directory that exists",
                f"{str(path)!r}",
                "Make the directory first, so that a typing error does not lose the work.",
            )
        if not path.exists():
            return {}
        record = read_record(path, "checkpoint")
        found, parts = record.get("fingerprint"), record.get("parts")
        if not isinstance(found, dict) or not isinstance(parts, dict):
            raise FitFileError(str(path), "lacks a part of a checkpoint", _ANEW)
        self._check(found)
        return parts

    def slot(self, *name: Any) -> Slot:
        """The place with this name."""
        if self.path is None:
            return NOWHERE
        key = "/".join(str(word) for word in name)
        return Slot(lambda: self._parts.get(key), functools.partial(self._save, key), self.path)

    def _save(self, key: str, part: dict[str, Any]) -> None:
        assert self.path is not None
        parts = {**self._parts, key: part}
        if present_crew().leads:
            record = {"fingerprint": self._fingerprint, "parts": parts}
            write_record(self.path, "checkpoint", record)
        self._parts = parts

    def _check(self, found: Mapping[str, str]) -> None:
        mine = self._fingerprint
        differing = [name for name in mine if found.get(name) != mine[name]]
        if differing:
            raise FitFileError(
                str(self.path),
                f"is a checkpoint of another call, with other {' and '.join(differing)}",
                _ANEW,
            )

    def __repr__(self) -> str:
        return f"Checkpoint({str(self.path)!r}, {len(self._parts)} parts)"


# ---------------------------------------------------------------- randomness


def random_state() -> dict[str, Any]:
    """The state of torch's, numpy's and Python's random numbers, as plain values and tensors."""
    name, keys, *rest = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "numpy": (name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest),
        "python": random.getstate(),
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Goes back to a state that :func:`random_state` gave."""
    torch.set_rng_state(state["torch"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    random.setstate(state["python"])
