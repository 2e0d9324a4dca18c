"""Ctrl-C and a request to end, in a run of many fits."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(BaseException):
    """The user ended the run.

    This is no KeyboardInterrupt: on that a fit ends its training and is used as it is, and its
    trial would be kept as a finished one.

    Args:
        number: The signal.
        kept: What is kept, in words.
    """

    def __init__(self, number: int, kept: str = "finished trials are kept") -> None:
        self.number, self.kept = number, kept
        super().__init__(number, kept)

    def __str__(self) -> str:
        return f"{self.kept}; the same command goes on from there"


@contextmanager
def stoppable() -> Iterator[None]:
    """Makes Ctrl-C and a request to end raise :class:`Stopped`, unless they are ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets signals
        return
    before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    ours = [n for n, handler in before.items() if handler not in (signal.SIG_IGN, None)]
    for number in ours:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, before[number])


def _stop(number: int, _: object) -> None:
    raise Stopped(number)
