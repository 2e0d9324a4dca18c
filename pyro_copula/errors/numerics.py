"""Errors and warnings of the linear algebra: what floating point or the memory cannot give."""

from __future__ import annotations

from .base import PyroCopulaError, PyroCopulaWarning

__all__ = [
    "ConditioningWarning",
    "ConvergenceError",
    "ConvergenceWarning",
    "CurvatureError",
    "EstimateError",
    "MemoryLimitError",
    "NotPositiveDefiniteError",
    "SecondOrderError",
]

_ULP = 2.0**-52
_NOISY = "Results have an error of that order on top of their standard error."
_NO_RESULT = "That is too far off for any result."


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

    def __reduce__(self) -> tuple:
        return type(self), (self.residual, self.tolerance, self.iterations)


class ConditioningWarning(PyroCopulaWarning):
    """A precision is so nearly singular that float64 does not give six digits of a result.

    Args:
        condition: The condition number, the precision being scaled to a diagonal of ones.

    Example:
        >>> print(ConditioningWarning(3e12))
        The precision is nearly singular: its condition number is about 3e+12, so that results may
          have a relative error of 0.0007.
          Keep its parameters off the ends of their ranges, by a prior or by a larger `gamma`.
    """

    def __init__(self, condition: float) -> None:
        self.condition = condition
        super().__init__(
            f"The precision is nearly singular: its condition number is about {condition:.1g}, so "
            f"that results may\n  have a relative error of {min(1.0, condition * _ULP):.1g}.\n  "
            "Keep its parameters off the ends of their ranges, by a prior or by a larger `gamma`."
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.condition,)


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


def _unconverged(residual: float, tolerance: float, iterations: int, meaning: str) -> str:
    return (
        f"Conjugate gradients left a relative residual of {residual:.3g} after {iterations} "
        f"iterations, not {tolerance:g}.\n  {meaning}\n  The precision is nearly singular: keep "
        "its parameters off the ends of their ranges,\n  raise `max_iterations` of `Iterative`, "
        'or use backend="sparse" where its factor fits.'
    )
