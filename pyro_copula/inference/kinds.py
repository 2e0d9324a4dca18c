"""Which laws can be mixed or compared: not a discrete one with a continuous one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError


def discrete_nodes(law: Any) -> Tensor:
    """Which nodes of a law are discrete, boolean; none of those of a normal law.

    Args:
        law: A law of nodes, conditional or not.
    """
    flags = getattr(law, "discrete_nodes", None)
    return torch.zeros(law.event_shape[0], dtype=torch.bool) if flags is None else flags


def check_kinds(argument: str, laws: Sequence[Any], hint: str) -> None:
    """Refuses laws that are discrete and continuous at one node.

    A probability and a density have no common scale: which is larger depends on the unit of the
    values, and their average means nothing.

    Args:
        argument: What the user gave.
        laws: Laws of the same nodes.
        hint: What to do about it.
    """
    first = discrete_nodes(laws[0])
    for law in laws[1:]:
        differing = discrete_nodes(law) != first
        if bool(differing.any()):
            place = int(differing.nonzero()[0])
            node = int(getattr(law, "nodes", torch.arange(len(first)))[place])
            raise InvalidArgumentError(
                argument,
                "all discrete or all continuous at each node",
                f"both kinds of laws at node {node}",
                hint,
            )
