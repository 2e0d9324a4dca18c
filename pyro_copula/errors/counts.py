"""The check of whole numbers that many arguments share."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .arguments import InvalidArgumentError


def check_count(
    argument: str, value: Any, hint: str, *, least: int = 1, most: float = math.inf
) -> int:
    """Returns a whole number, or raises the error that says what it must be.

    Args:
        argument: The name of the argument.
        value: What was given; truth values are no numbers.
        hint: What to do otherwise.
        least: The smallest number.
        most: The largest number.

    Example:
        >>> check_count("restarts", 3, "Use 1.")
        3
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if whole and least <= value <= most:
        return int(value)
    expected = "a positive integer" if least == 1 else f"an integer from {least} on"
    if most < math.inf:
        expected = f"an integer from {least} to {most}"
    raise InvalidArgumentError(argument, expected, repr(value), hint)
