"""Nodes, and values at nodes, as a user gives them: masks, numbers, names, true values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..errors.spelling import did_you_mean

#: True or false at each node of the graph.
Mask = Tensor | np.ndarray | Sequence[bool]

#: Some nodes: a mask, their numbers, or their names.
Nodes = Mask | Sequence[int] | Sequence[str]


def read_nodes(nodes: Any, names: Sequence[str] | None, num_nodes: int | None) -> list[int]:
    """The numbers of some nodes.

    Args:
        nodes: Numbers, names or a boolean mask, as a tensor, an array or a list.
        names: The names of all nodes, if they have any.
        num_nodes: The number of all nodes, if it is known.

    Example:
        >>> read_nodes([True, False, True], None, 3), read_nodes(["b", 0], ["a", "b"], 2)
        ([0, 2], [1, 0])
    """
    given = nodes.tolist() if hasattr(nodes, "tolist") else nodes
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidArgumentError(
            "nodes",
            "a list of numbers or names, or a mask",
            repr(nodes),
            f"Pass a list also for a single node: nodes=[{given!r}].",
        )
    items = [_plain(item) for item in given]
    if items and all(isinstance(item, bool) for item in items):
        if num_nodes is not None and len(items) != num_nodes:
            raise InvalidArgumentError(
                "nodes",
                f"of length {num_nodes} if it is a mask, one entry for each node",
                f"length {len(items)}",
                "Pass a mask such as data.test_mask, or numbers of nodes.",
            )
        return [node for node, chosen in enumerate(items) if chosen]
    place = {name: node for node, name in enumerate(names or ())}
    numbers = [place.get(item, item) if isinstance(item, str) else item for item in items]
    for number in numbers:
        if not _is_whole(number):
            raise InvalidArgumentError(
                "nodes",
                "numbers of nodes, or names if the data have `names`",
                repr(number),
                _advice(number, place),
            )
    if num_nodes is not None and len(numbers) == num_nodes > 2 and set(numbers) <= {0, 1}:
        raise InvalidArgumentError(
            "nodes",
            "numbers of nodes, or a boolean mask",
            f"{num_nodes} times 0 or 1, for {num_nodes} nodes",
            "Pass mask.bool(), or mask.astype(bool) of an array.",
        )
    return [int(number) for number in numbers]


def read_values(y: Any, nodes: Tensor, num_nodes: int | None) -> Tensor:
    """Values in the order of the nodes, from values there or at all nodes.

    Args:
        y: One value for each of the nodes, or one for every node of the graph.
        nodes: The nodes, ``(count,)``.
        num_nodes: The number of all nodes, if it is known.

    Returns:
        Floating, ``(count,)``.

    Raises:
        InvalidArgumentError: Also if both are possible and differ.
    """
    if not torch.is_tensor(y):
        y = _read_numbers(y)
    if not y.is_floating_point():
        y = y.double()
    here = y.dim() == 1 and len(y) == len(nodes)
    everywhere = y.dim() == 1 and len(y) == (num_nodes or int(nodes.max()) + 1)
    if here and everywhere and not bool((nodes.diff() > 0).all()):
        raise InvalidArgumentError(
            "y",
            "in one order without doubt: that of the predicted nodes, or of all nodes of the graph",
            f"{len(y)} values, as many as there are of both, which have different orders",
            "Leave `nodes` out of predict(), or sort it: then both orders are the same.",
        )
    if here:
        return y
    if everywhere:
        return y[nodes]
    raise InvalidArgumentError(
        "y",
        f"of length {len(nodes)}, or one value per node of the graph",
        f"length {len(y)}" if y.dim() == 1 else f"shape {tuple(y.shape)}",
        "Give the true values in the order of `prediction.nodes`.",
    )


def _read_numbers(y: Any) -> Tensor:
    """An array, a column of a table or a list as a tensor."""
    try:
        # A copy, because torch cannot hold an array that is not writable.
        return torch.as_tensor(np.array(y) if hasattr(y, "__array__") else y)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise InvalidArgumentError(
            "y",
            "one number for each node",
            type(y).__name__,
            "Pass a tensor, an array or a list.",
        ) from error


def _plain(item: Any) -> Any:
    """An entry of a list without the array around it."""
    single = isinstance(item, np.generic) or (torch.is_tensor(item) and item.numel() == 1)
    return item.item() if single else item


def _is_whole(number: Any) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    return float(number).is_integer()


def _advice(wrong: Any, names: dict[str, int]) -> str:
    """What to do about something that is no node."""
    if isinstance(wrong, str):
        otherwise = "Check the spelling." if names else "These data have no names."
        return did_you_mean(wrong, names, otherwise)
    return "Pass whole numbers in one dimension, or a mask of all nodes."
