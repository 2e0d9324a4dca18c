"""The errors and warnings of pyro_copula.

Every error a user can cause has the same four parts, in this order: the argument, what was
expected, what was found, and what to do about it. The parts are kept as attributes, so that a
program can react to them without parsing text.
"""

from __future__ import annotations

__all__ = [
    "CalibrationError",
    "ChecksumError",
    "ConvergenceError",
    "ConvergenceWarning",
    "CurvatureError",
    "CutWarning",
    "DatasetError",
    "DownloadError",
    "EstimateError",
    "FitFileError",
    "GraphError",
    "InvalidArgumentError",
    "MemoryLimitError",
    "MidpointWarning",
    "MissingCDFError",
    "MissingFileError",
    "NotPositiveDefiniteError",
    "ObsMaskError",
    "ParameterRangeError",
    "ParticleWarning",
    "PyroCopulaError",
    "PyroCopulaWarning",
    "SecondOrderError",
    "SupportError",
    "TrainingError",
]


class PyroCopulaError(Exception):
    """The base class of every error raised on purpose by this package.

    Example:
        >>> import pyro_copula as pc
        >>> try:
        ...     pc.Graph.from_edges([(0, 5)], num_nodes=3)
        ... except PyroCopulaError as error:
        ...     print(type(error).__name__)
        GraphError
    """


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
    """The description of a graph does not describe one.

    Example:
        >>> import pyro_copula as pc
        >>> pc.Graph.from_edges([(0, 5)], num_nodes=3)
        Traceback (most recent call last):
        GraphError: `edge_index` must be made of node numbers from 0 to 2, but found (0, 5) ...
    """


class ParameterRangeError(InvalidArgumentError):
    """A parameter is at or beyond the end of its range.

    Example:
        >>> import pyro_copula as pc
        >>> pc.CARPrecision(pc.Graph.from_edges([(0, 1)]))(rho=1.0, tau=1.0)
        Traceback (most recent call last):
        ParameterRangeError: `rho` must be strictly between -1 and 1, but found 1.
    """


class SupportError(InvalidArgumentError):
    """A value lies outside the support of its node's marginal.

    Args:
        argument: The name of the argument.
        node: The first node at fault.
        value: Its value.
        support: The support in words, for example ``a non-negative integer``.
        hint: What to do about it.

    Example:
        >>> print(SupportError("y", 3, -1.0, "a non-negative integer", "Check that value."))
        `y` must be a non-negative integer at every node, but found -1 at node 3.
          Check that value.
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
    """A marginal has no cumulative distribution function that the package knows.

    Example:
        >>> import pyro_copula as pc
        >>> import torch
        >>> import pyro.distributions as dist
        >>> pc.marginals.cdf(dist.VonMises(0.0, 1.0), torch.tensor(0.5))
        Traceback (most recent call last):
        MissingCDFError: ...
    """


class ObsMaskError(InvalidArgumentError):
    """A node mask was given where Pyro expects a batch mask.

    Example:
        >>> import pyro_copula as pc
        >>> import torch
        >>> import pyro.distributions as dist
        >>> K = pc.CARPrecision(pc.Graph.from_edges([(0, 1)]))(rho=0.9, tau=1.0)
        >>> pc.GraphNormal(torch.zeros(2), K).mask(torch.tensor([True, False]))
        Traceback (most recent call last):
        ObsMaskError: `mask` must be broadcastable to the batch shape (), but found shape (2,).
    """


class NotPositiveDefiniteError(PyroCopulaError, ArithmeticError):
    """A precision or correlation matrix is not positive definite.

    Args:
        argument: The name of the argument.
        node: The node whose pivot is not positive.
        pivot: The value of that pivot.
        hint: The probable causes and what to try.
        element: The flat position in the batch, if there is one.

    Example:
        >>> import pyro_copula as pc
        >>> pc.SparsePrecision(pc.Graph.from_edges([(0, 1)]), [1.0, 1.0], [-2.0]).logdet()
        Traceback (most recent call last):
        NotPositiveDefiniteError: `precision` is not positive definite: the pivot at node 1 is -3.
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


class CurvatureError(NotPositiveDefiniteError):
    """A precision is not positive definite, as the iterative backend finds out.

    Args:
        argument: The name of the argument.
        node: The node with the largest entry of the vector v found.
        curvature: ``v'Mv / v'v`` of the matrix M, scaled to a diagonal of ones.
        element: The flat position in the batch, if there is one.

    Example:
        >>> print(CurvatureError("precision", 17, -0.25))
        `precision` is not positive definite: scaled to a diagonal of ones, it has the curvature
        -0.25 along a vector that is largest at node 17. ...
    """

    def __init__(
        self, argument: str, node: int, curvature: float, element: int | None = None
    ) -> None:
        super().__init__(argument, node, curvature, "", element)
        where = "" if element is None else f" of batch element {element}"
        self.args = (
            f"`{argument}`{where} is not positive definite: scaled to a diagonal of ones, it has "
            f"the curvature {curvature:.3g} along a vector that is largest at node {node}.\n  "
            "Probably: (a) an edge weight is negative or too large for its diagonal; (b) a "
            "parameter ran to the end of its range.\n  Check the values at that node, or try "
            "`NormalizedAdjacencyPrecision(graph)`, positive definite by construction.",
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.argument, self.node, self.pivot, self.element)


class ConvergenceError(PyroCopulaError, ArithmeticError):
    """Conjugate gradients of the iterative backend are far from a solution.

    Args:
        residual: The largest relative residual that was left.
        tolerance: What was asked for.
        iterations: How many iterations were made.

    Example:
        >>> print(ConvergenceError(0.5, 1e-4, 500))
        Conjugate gradients left a relative residual of 0.5 after 500 iterations, not 0.0001. ...
    """

    def __init__(self, residual: float, tolerance: float, iterations: int) -> None:
        self.residual = residual
        self.tolerance = tolerance
        self.iterations = iterations
        super().__init__(_unconverged(residual, tolerance, iterations, _NO_RESULT))

    def __reduce__(self) -> tuple:
        return type(self), (self.residual, self.tolerance, self.iterations)


class EstimateError(PyroCopulaError, ArithmeticError):
    """An estimate of the iterative backend is too noisy to be what it stands for.

    Args:
        what: What is estimated, in words.
        node: The node at which it is not positive.
        value: The estimate.
        probes: The number of probes behind it.

    Example:
        >>> EstimateError("variance", 3, -0.1, 8).node
        3
    """

    def __init__(self, what: str, node: int, value: float, probes: int) -> None:
        self.what = what
        self.node = node
        self.value = value
        self.probes = probes
        super().__init__(
            f"The estimated {what} at node {node} is {value:.3g} with {probes} probes, but it must "
            "be positive.\n  Use backend=Iterative(num_probes=...) with more probes, or "
            'backend="sparse" where its factor fits.'
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.what, self.node, self.value, self.probes)


class SecondOrderError(PyroCopulaError, NotImplementedError):
    """A second derivative was asked for where only exact first derivatives exist.

    Args:
        operation: The operation that has no second derivative.
        hint: What to do instead.

    Example:
        >>> print(SecondOrderError("The selected inverse", "Use a method of first order."))
        The selected inverse has exact first derivatives only.
          Use a method of first order.
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

    Example:
        >>> print(MemoryLimitError("The factor", 2**36, 2**33, "Use a sparser graph."))
        The factor needs about 64 GiB, but only 8 GiB of memory are available.
          Use a sparser graph.
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

    Example:
        >>> print(TrainingError("The loss is not finite", "Lower `lr`."))
        The loss is not finite.
          Lower `lr`.
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

    Example:
        >>> CalibrationError(0, 7, "ValueError: no draws").seed
        7
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

    Example:
        >>> import pyro_copula as pc
        >>> pc.load_fit("no such file")
        Traceback (most recent call last):
        FitFileError: ...
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


class PyroCopulaWarning(UserWarning):
    """The base class of every warning of this package.

    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore", PyroCopulaWarning)  # all of them
    """


class MidpointWarning(PyroCopulaWarning):
    """The midpoint rule for discrete marginals is used where it is a poor approximation.

    Example:
        >>> import pyro_copula as pc
        >>> import torch
        >>> import pyro.distributions as dist
        >>> import warnings
        >>> K = pc.CARPrecision(pc.Graph.from_edges([(0, 1)]))(rho=0.9, tau=1.0)
        >>> copula = pc.GaussianCopula(dist.Poisson(torch.tensor([0.3, 0.3])), K)
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     _ = copula.log_prob(torch.tensor([0.0, 1.0]))
        >>> caught[0].category.__name__
        'MidpointWarning'
    """


class CutWarning(PyroCopulaWarning):
    """A composite likelihood leaves out edges, because they join different blocks.

    Args:
        cut: The share of edges left out.
        num_blocks: The number of blocks.

    Example:
        >>> print(CutWarning(0.573, 16))
        This composite likelihood leaves out 57.3% of the edges, which join different ones of the
          16 blocks. It is not the log density, and dependence fitted with it is too weak.
          Use it for a warm start or minibatches, and log_prob and the whole graph afterwards.
    """

    def __init__(self, cut: float, num_blocks: int) -> None:
        self.cut = cut
        self.num_blocks = num_blocks
        super().__init__(
            f"This composite likelihood leaves out {cut:.1%} of the edges, which join different "
            f"ones of the\n  {num_blocks} blocks. It is not the log density, and dependence fitted "
            "with it is too weak.\n  Use it for a warm start or minibatches, and log_prob and the "
            "whole graph afterwards."
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.cut, self.num_blocks)


class ParticleWarning(PyroCopulaWarning):
    """The particles of the exact rule for discrete marginals are too few or too uneven.

    Example:
        >>> issubclass(ParticleWarning, PyroCopulaWarning)
        True
    """


class ConvergenceWarning(PyroCopulaWarning):
    """Conjugate gradients of the iterative backend stopped short of their tolerance.

    Args:
        residual: The largest relative residual that was left.
        tolerance: What was asked for.
        iterations: How many iterations were made.

    Example:
        >>> print(ConvergenceWarning(2e-3, 1e-4, 500))
        Conjugate gradients left a relative residual of 0.002 after 500 iterations, not 0.0001.
          Results have an error of that order on top of their standard error.
          The precision is nearly singular: keep its parameters off the ends of their ranges,
          raise `max_iterations` of `Iterative`, or use backend="sparse" where its factor fits.
    """

    def __init__(self, residual: float, tolerance: float, iterations: int) -> None:
        self.residual = residual
        self.tolerance = tolerance
        self.iterations = iterations
        super().__init__(_unconverged(residual, tolerance, iterations, _NOISY))


_NOISY = "Results have an error of that order on top of their standard error."
_NO_RESULT = "That is too far off for any result."


def _unconverged(residual: float, tolerance: float, iterations: int, meaning: str) -> str:
    return (
        f"Conjugate gradients left a relative residual of {residual:.3g} after {iterations} "
        f"iterations, not {tolerance:g}.\n  {meaning}\n  The precision is nearly singular: keep "
        "its parameters off the ends of their ranges,\n  raise `max_iterations` of `Iterative`, "
        'or use backend="sparse" where its factor fits.'
    )
