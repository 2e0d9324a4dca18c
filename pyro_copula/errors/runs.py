"""Errors that end a long run: training and calibration."""

from __future__ import annotations

from .base import PyroCopulaError

__all__ = [
    "CalibrationError",
    "DistributedError",
    "TrainingError",
]


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


class DistributedError(PyroCopulaError, RuntimeError):
    """The processes of one fit cannot go on together.

    One of them ended or does not answer, or they do not do the same.

    Args:
        rank: The process that says so.
        size: How many there were.
        reason: What happened, as far as this process knows.

    Example:
        >>> print(DistributedError(0, 2, "Connection closed by peer"))
        Process 0 of 2 cannot go on without the others: Connection closed by peer.
          Start all of them again; with the same `checkpoint`, the fit goes on from its last save.
    """

    def __init__(self, rank: int, size: int, reason: str) -> None:
        self.rank = rank
        self.size = size
        self.reason = reason
        super().__init__(
            f"Process {rank} of {size} cannot go on without the others: {reason.rstrip('.')}.\n"
            "  Start all of them again; with the same `checkpoint`, the fit goes on from its last "
            "save."
        )

    def __reduce__(self) -> tuple:
        return type(self), (self.rank, self.size, self.reason)
