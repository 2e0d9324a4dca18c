"""The errors and warnings of pyro_copula.

Every error a user can cause has the same four parts, in this order: the argument, what was
expected, what was found, and what to do about it. The parts are kept as attributes, so that a
program can react to them without parsing text.
"""

from __future__ import annotations


class PyroCopulaError(Exception):
    """The base class of every error raised on purpose by this package."""


class InvalidArgumentError(PyroCopulaError, ValueError):
    """An argument is not what the function needs.

    Args:
        argument: The name of the argument, as the user wrote it.
        expected: What it should have been.
        found: What it was.
        hint: What to do about it.

    With one argument only, it is the finished message: Pyro raises an error again that way, with
    the shapes of the trace added to the text.

    Example:
        >>> print(InvalidArgumentError("num_nodes", "a positive integer", "-3", "Pass n >= 1."))
        `num_nodes` must be a positive integer, but found -3.
          Pass n >= 1.
    """

    def __init__(self, argument: str, expected: str = "", found: str = "", hint: str = "") -> None:
        self.argument = argument
        self.expected = expected
        self.found = found
        self.hint = hint
        super().__init__(
            f"`{argument}` must be {expected}, but found {found}.\n  {hint}"
            if expected
            else argument
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.argument, self.expected, self.found, self.hint)


class GraphError(InvalidArgumentError):
    """The description of a graph does not describe one."""


class ParameterRangeError(InvalidArgumentError):
    """A parameter is at or beyond the end of its range."""


class SupportError(InvalidArgumentError):
    """A value lies outside the support of its node's marginal.

    Args:
        argument: The name of the argument.
        node: The first node at fault.
        value: Its value.
        support: The support in words, for example ``a non-negative integer``.
        hint: What to do about it.
    """

    def __init__(
        self,
        argument: str,
        node: int = -1,
        value: float = float("nan"),
        support: str = "",
        hint: str = "",
    ) -> None:
        self.node = node
        self.value = value
        self.support = support
        expected = f"{support} at every node" if support else ""
        super().__init__(argument, expected, f"{value:g} at node {node}", hint)

    def __reduce__(self) -> tuple:
        return type(self), (self.argument, self.node, self.value, self.support, self.hint)


class MissingCDFError(InvalidArgumentError, NotImplementedError):
    """A marginal has no cumulative distribution function that the package knows."""


class ObsMaskError(InvalidArgumentError):
    """A node mask was given where Pyro expects a batch mask."""


class NotPositiveDefiniteError(PyroCopulaError, ArithmeticError):
    """A precision or correlation matrix is not positive definite.

    Args:
        argument: The name of the argument.
        node: The node whose pivot is not positive.
        pivot: The value of that pivot.
        hint: The probable causes and what to try.
        element: The flat position in the batch, if there is one.
    """

    def __init__(
        self, argument: str, node: int, pivot: float, hint: str, element: int | None = None
    ) -> None:
        self.argument = argument
        self.node = node
        self.pivot = pivot
        self.hint = hint
        self.element = element
        where = "" if element is None else f" of batch element {element}"
        super().__init__(
            f"`{argument}` is not positive definite: the pivot at node {node}{where} is "
            f"{pivot:.3g}.\n  {hint}"
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.argument, self.node, self.pivot, self.hint, self.element)


class SecondOrderError(PyroCopulaError, NotImplementedError):
    """A second derivative was asked for where only exact first derivatives exist.

    Args:
        operation: The operation that has no second derivative.
        hint: What to do instead.
    """

    def __init__(self, operation: str, hint: str = "") -> None:
        self.operation = operation
        self.hint = hint
        super().__init__(
            f"{operation} has exact first derivatives only.\n  {hint}" if hint else operation
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.operation, self.hint)


class MemoryLimitError(PyroCopulaError, MemoryError):
    """The work would need more memory than the machine has free.

    Args:
        what: The work, as the subject of a sentence.
        needed: The predicted bytes.
        available: The free bytes.
        hint: What to do about it.
    """

    def __init__(self, what: str, needed: int, available: int, hint: str) -> None:
        self.what = what
        self.needed = needed
        self.available = available
        self.hint = hint
        super().__init__(
            f"{what} needs about {needed / 2**30:.3g} GiB, but only {available / 2**30:.3g} GiB "
            f"of memory are available.\n  {hint}"
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.what, self.needed, self.available, self.hint)


class TrainingError(PyroCopulaError, ArithmeticError):
    """Training cannot go on.

    Args:
        problem: What happened, as a sentence without its full stop.
        hint: What to do about it.
    """

    def __init__(self, problem: str, hint: str) -> None:
        self.problem = problem
        self.hint = hint
        super().__init__(f"{problem}.\n  {hint}")

    def __reduce__(self) -> tuple:
        return type(self), (self.problem, self.hint)


class CalibrationError(PyroCopulaError, RuntimeError):
    """Every replication of a calibration run fails.

    Args:
        replication: The number of the first one.
        seed: Its seed.
        error: What it ended with.
    """

    def __init__(self, replication: int, seed: int, error: str) -> None:
        self.replication = replication
        self.seed = seed
        self.error = error
        super().__init__(
            f"The first replications all failed, replication {replication} (seed {seed}) with\n"
            f"  {error}\n"
            "  Run the sampler on data drawn after pyro.set_rng_seed of that seed."
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.replication, self.seed, self.error)


class FitFileError(PyroCopulaError, OSError):
    """A file that should hold a fit or a checkpoint does not.

    Args:
        path: The file.
        problem: What is wrong with it, as the rest of a sentence that begins with its name.
        hint: What to do about it.
    """

    def __init__(self, path: str, problem: str, hint: str) -> None:
        self.path = path
        self.problem = problem
        self.hint = hint
        super().__init__(f"`{path}` {problem}.\n  {hint}")

    def __reduce__(self) -> tuple:
        return type(self), (self.path, self.problem, self.hint)


class DatasetError(PyroCopulaError):
    """A file of a data set cannot be had or cannot be trusted.

    Args:
        name: The file, by its path in the data directory.
        found: What happened.
        hint: What to do about it.
    """

    def __init__(self, name: str, found: str, hint: str) -> None:
        self.name = name
        self.found = found
        self.hint = hint
        super().__init__(f"The file `{name}` {found}.\n  {hint}")

    def __reduce__(self) -> tuple:
        return type(self), (self.name, self.found, self.hint)


class MissingFileError(DatasetError):
    """The data directory does not have the file."""


class ChecksumError(DatasetError):
    """The file is not the published one."""


class DownloadError(DatasetError):
    """The file could not be downloaded."""


class PyroCopulaWarning(UserWarning):
    """The base class of every warning of this package."""


class MidpointWarning(PyroCopulaWarning):
    """The midpoint rule for discrete marginals is used where it is a poor approximation."""


class ParticleWarning(PyroCopulaWarning):
    """The particles of the exact rule for discrete marginals are too few or too uneven."""
