"""Rows of a result, some at a time: the same numbers in less memory.

A network applied to all nodes keeps, for its derivatives, everything that it made on the way. In
batches it keeps only what goes in and what comes out; the rest is made again, batch by batch, when
the derivatives are asked for. Nothing is sampled and nothing is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .errors import InvalidArgumentError


def even_batches(count: int, size: int | None) -> list[slice]:
    """The rows ``0, ..., count - 1`` in batches.

    Args:
        count: How many there are.
        size: How many a batch has; None for all at once.

    Example:
        >>> even_batches(5, 2)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    if size is None or size >= count:
        return [slice(0, count)]
    return [slice(first, min(first + size, count)) for first in range(0, count, size)]


def in_batches(rows: Callable[[slice], Tensor], batches: list[slice]) -> Tensor:
    """The rows of a result, computed in batches.

    Random numbers that ``rows`` draws are the same when it is run again.

    Args:
        rows: Gives some of the rows, differentiably.
        batches: Which rows, one after the other; with one batch nothing is made again.

    Example:
        >>> x = torch.arange(5.0, requires_grad=True)
        >>> in_batches(lambda some: x[some].square(), even_batches(5, 2)).sum().backward()
        >>> x.grad
        tensor([0., 2., 4., 6., 8.])
    """
    if len(batches) == 1:
        return rows(batches[0])
    if not torch.is_grad_enabled():
        return torch.cat([rows(batch) for batch in batches])
    return torch.cat([checkpoint(rows, batch, use_reentrant=False) for batch in batches])


def check_size(argument: str, size: Any) -> int | None:
    """Returns a number of rows in a batch, or raises the error that says what it can be."""
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 1):
        return size
    raise InvalidArgumentError(
        argument, "a positive integer or None", repr(size), "Use None for all at once."
    )
