"""Advice for a name that is nearly one of those that exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def did_you_mean(value: Any, choices: Iterable[str], otherwise: str) -> str:
    """Asks for the name that was probably meant; without one, says what is said otherwise.

    Args:
        value: What was given.
        choices: The names that exist.
        otherwise: The advice if no name is near.

    Example:
        >>> did_you_mean("poison", ["normal", "poisson"], "Use one of them.")
        "Did you mean 'poisson'?"
        >>> did_you_mean("GCN", ["gcn", "gat"], "Use one of them.")
        "Did you mean 'gcn'?"
        >>> did_you_mean(3, ["normal", "poisson"], "Use one of them.")
        'Use one of them.'
    """
    if not isinstance(value, str):
        return otherwise
    names = {name.lower(): name for name in choices}
    near = difflib.get_close_matches(value.lower(), list(names), n=1)
    return f"Did you mean {names[near[0]]!r}?" if near else otherwise
