"""What happened in training, and how it is read from a file."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class History:
    """What happened in training.

    Attributes:
        losses: The loss at every step.
        scores: The validation score at every look, higher being better.
        best_epoch: The step of the best score.
        best_score: That score.
        verdict: How training ended, in words.
        setbacks: The steps at which the loss was not finite.

    Example:
        >>> History(losses=[1.2, 1.1], verdict="converged: best validation score at step 1")
        History(2 steps, converged: best validation score at step 1)
    """

    losses: list[float] = field(default_factory=list)
    scores: list[tuple[int, float]] = field(default_factory=list)
    best_epoch: int = 0
    best_score: float = -math.inf
    verdict: str = "not trained"
    setbacks: list[int] = field(default_factory=list)

    @property
    def converged(self) -> bool:
        """Whether training ended because the score stopped improving."""
        return self.verdict.startswith("converged")

    @property
    def interrupted(self) -> bool:
        """Whether training ended because the user wished it."""
        return self.verdict.startswith("interrupted")

    def __repr__(self) -> str:
        again = f", {len(self.setbacks)} setbacks" if self.setbacks else ""
        return f"History({len(self.losses)} steps, {self.verdict}{again})"


def read_history(parts: Any) -> History:
    """What happened in training."""
    history = History(**parts)
    require(all(is_number(loss) for loss in listed(history.losses)), "losses")
    require(all(is_count(step) for step in listed(history.setbacks)), "setbacks")
    require(is_count(history.best_epoch) and is_number(history.best_score), "a best score")
    require(isinstance(history.verdict, str), "a verdict")
    for epoch, score in listed(history.scores):
        require(is_count(epoch) and is_number(score), "scores by step")
    history.scores = [(int(epoch), float(score)) for epoch, score in history.scores]
    return history


# ---------------------------------------------------------------- checks of what a file holds


def require(condition: bool, what: str) -> None:
    """Raises a ``ValueError`` that says what is required."""
    if not condition:
        raise ValueError(what)


def is_number(value: Any) -> bool:
    """Whether it is a number, and not a truth value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_count(value: Any) -> bool:
    """Whether it is a whole number from zero on."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def listed(value: Any) -> list[Any]:
    """The entries of a list or tuple."""
    require(isinstance(value, list | tuple), "a list")
    return list(value)
