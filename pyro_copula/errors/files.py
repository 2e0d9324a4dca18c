"""Errors about files: fits, checkpoints and data sets."""

from __future__ import annotations

from .base import PyroCopulaError

__all__ = [
    "ChecksumError",
    "DatasetError",
    "DownloadError",
    "FitFileError",
    "MissingFileError",
    "OutputError",
]


class _PathError(PyroCopulaError, OSError):
    """Something is wrong with a file of the user's: its path, the problem and what to do."""

    def __init__(self, path: str, problem: str, hint: str) -> None:
        self.path = path
        self.problem = problem
        self.hint = hint
        super().__init__(f"`{path}` {problem}.\n  {hint}")

    def __reduce__(self) -> tuple:
        return type(self), (self.path, self.problem, self.hint)


class FitFileError(_PathError):
    """A file that should hold a fit or a checkpoint does not.

    Args:
        path: The file.
        problem: What is wrong with it, as the rest of a sentence that begins with its name.
        hint: What to do about it.

    Example:
        >>> import pyro_copula as pc
        >>> pc.load_fit("no such file")
        Traceback (most recent call last):
        FitFileError: ...
    """


class OutputError(_PathError):
    """A file cannot be written: a full disk, no permission, a place that is no file.

    What was there before is unchanged, and nothing half-written is left.

    Args:
        path: The file.
        problem: What happened, as the rest of a sentence that begins with its name.
        hint: What to do about it.

    Example:
        >>> print(OutputError("a.fit", "cannot be written (No space left)", "Free some space."))
        `a.fit` cannot be written (No space left).
          Free some space.
    """


class DatasetError(PyroCopulaError):
    """A file of a data set cannot be had or cannot be trusted.

    Args:
        name: The file, by its path in the data directory.
        found: What happened.
        hint: What to do about it.

    Example:
        >>> print(DatasetError("a.csv", "is empty", "Download it again."))
        The file `a.csv` is empty.
          Download it again.
    """

    def __init__(self, name: str, found: str, hint: str) -> None:
        self.name = name
        self.found = found
        self.hint = hint
        super().__init__(f"The file `{name}` {found}.\n  {hint}")

    def __reduce__(self) -> tuple:
        return type(self), (self.name, self.found, self.hint)


class MissingFileError(DatasetError):
    """The data directory does not have the file.

    Example:
        >>> import pyro_copula as pc
        >>> pc.datasets.election(root="no such folder")
        Traceback (most recent call last):
        MissingFileError: ...
    """


class ChecksumError(DatasetError):
    """The file is not the published one.

    Example:
        >>> issubclass(ChecksumError, DatasetError)
        True
    """


class DownloadError(DatasetError):
    """The file could not be downloaded.

    Example:
        >>> issubclass(DownloadError, DatasetError)
        True
    """
