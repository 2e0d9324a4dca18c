"""Several processes that share the work of one fit.

All of them run the same program on the same data. What is random and averaged, the probes of the
iterative engine, is divided among them; the sums go back to all, so that every process has the same
numbers at every step. The rest of the program knows two words: its *share*, and the *sum*.
"""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from .errors import DistributedError, InvalidArgumentError

Result = TypeVar("Result")

_BACKENDS = ("gloo", "nccl")


class Crew:
    """The processes of one fit, as one of them sees it.

    Args:
        rank: The number of this process, from 0.
        size: How many there are.
        device: Where tensors must be to travel.

    Example:
        >>> Crew(rank=1, size=2).share(16)
        slice(8, 16, None)
        >>> Crew().sum(lambda: [np.ones(2)])
        [array([1., 1.])]
    """

    def __init__(self, rank: int = 0, size: int = 1, device: str = "cpu") -> None:
        self.rank, self.size, self.device = rank, size, device
        self._calls = 0

    @property
    def leads(self) -> bool:
        """Whether this process shows progress and writes files."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Which of so many equal pieces of work are this process's."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def sum(self, work: Callable[[], Sequence[np.ndarray]]) -> list[np.ndarray]:
        """The sums over all processes of what each makes of its share.

        An error in the share of one process is raised in all of them.

        Args:
            work: Gives arrays of the same shapes and dtypes in every process.
        """
        if self.size == 1:
            return list(work())
        result: Sequence[np.ndarray] = []
        error: Exception | None = None
        try:
            result = work()
        except Exception as problem:
            error = problem
        self._raise_together(error)
        return [self._summed(array) for array in result]

    def _summed(self, array: np.ndarray) -> np.ndarray:
        tensor = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        with self._answered():
            dist.all_reduce(tensor)
        return tensor.cpu().numpy()

    def _raise_together(self, error: Exception | None) -> None:
        """Raises an error of any process in all; also finds out that they went different ways."""
        self._calls += 1
        state = torch.tensor([error is not None, self._calls, -self._calls], device=self.device)
        with self._answered():
            dist.all_reduce(state, op=dist.ReduceOp.MAX)
        if int(state[1]) != -int(state[2]):
            raise DistributedError(
                self.rank, self.size, "the processes do not run the same program on the same data"
            )
        if not bool(state[0]):
            return
        for found in self._gathered(_portable(error)):
            if found is not None:
                raise error if error is not None else found

    def first(self, work: Callable[[], Result]) -> Result:
        """What the first process makes, in all of them; the others do not run it."""
        if self.size == 1:
            return work()
        made: list[Any] = [None, None]
        if self.leads:
            try:
                made[0] = work()
            except Exception as problem:
                made[1] = _portable(problem)
        with self._answered():
            dist.broadcast_object_list(made, src=0, device=torch.device(self.device))
        if made[1] is not None:
            raise made[1]
        return made[0]

    def agree(self, value: Result) -> Result:
        """The value of the first process, in all of them."""
        return value if self.size == 1 else self.first(lambda: value)

    def agree_(self, tensors: Iterable[Tensor]) -> None:
        """Gives tensors, in place, the values of the first process: one message for all."""
        if self.size == 1:
            return
        several = [tensor for tensor in tensors if tensor.numel()]
        if not several:
            return
        flat = torch.cat([t.detach().reshape(-1).double() for t in several]).to(self.device)
        with self._answered():
            dist.broadcast(flat, src=0)
        parts = flat.cpu().split([t.numel() for t in several])
        with torch.no_grad():
            for tensor, part in zip(several, parts, strict=True):
                tensor.copy_(part.reshape(tensor.shape))

    def check_same(self, what: Mapping[str, str]) -> None:
        """Refuses to begin where the processes differ in something, and says in what."""
        if self.size == 1:
            return
        found = self._gathered(dict(what))
        differing = [name for name in what if any(one[name] != what[name] for one in found)]
        # Every process must say so: one that has what the first has does not see it by itself.
        differing = sorted({name for each in self._gathered(differing) for name in each})
        if differing:
            raise DistributedError(
                self.rank, self.size, f"the processes have different {' and '.join(differing)}"
            )

    def _gathered(self, value: Any) -> list[Any]:
        every: list[Any] = [None] * self.size
        with self._answered():
            dist.all_gather_object(every, value)
        return every

    @contextmanager
    def _answered(self) -> Iterator[None]:
        """Says in our words that another process is gone, or does not answer."""
        try:
            yield
        except RuntimeError as error:  # what torch raises for a lost connection and a timeout
            # torch's text without the place in its sources, and without its advice
            lines = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip()).splitlines()
            reason = lines[0].split(". ")[0] if lines else "no reason given"
            raise DistributedError(self.rank, self.size, reason) from error

    def __repr__(self) -> str:
        return f"Crew(rank={self.rank}, size={self.size})"


def _portable(error: Exception | None) -> Exception | None:
    """The error itself if it can travel, else one that quotes it."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


_ALONE = Crew()
_present = _ALONE


def present_crew() -> Crew:
    """The crew whose work is shared now; a process alone is one too.

    Example:
        >>> present_crew()
        Crew(rank=0, size=1)
    """
    return _present


@contextmanager
def distributed(*, backend: str = "gloo", timeout: float = 300.0) -> Iterator[Crew]:
    """Lets the processes that ``torchrun`` started share the work of what is inside.

    Every process runs the same script on the same data. Inside, the iterative backend divides its
    probes among the processes: each works on its share, and all get the sums. The probes are those
    of one process with the same seed, so that the results are the same up to rounding,
    and all processes end with the same parameters. Exact backends have nothing to divide.

    What is divided is the work on probes, not what all of them share: give the backend many, such
    as ``Iterative(num_probes=256)`` for quieter gradients. With the 16 that training has by
    default a second process gains nothing; ``experiments/results/iterative.json`` has the ratios.

    Only the first process shows progress and writes checkpoints and files; the others return from
    ``save`` without writing. Alone, without ``torchrun``, nothing changes::

        # train.py
        with pc.distributed():
            fit = pc.fit(model, data, seed=0, checkpoint="fit.checkpoint")
            fit.save("county.fit")

        torchrun --nproc-per-node 2 train.py

    With two or more machines, ``torchrun --nnodes 2 --rdzv-endpoint ...`` as its manual says. If
    ``torch.distributed`` is initialised already, that process group is used, with its timeout.

    Args:
        backend: ``"gloo"``, or ``"nccl"`` where every process has a GPU for its messages.
        timeout: A process that does not answer for so many seconds is lost. It must be longer than
            the longest step of the slowest one.

    Yields:
        The crew: its ``rank``, its ``size``, and whether this process ``leads``.

    Raises:
        DistributedError: In every process that is left when one of them is lost: at once if it
            ended, after ``timeout`` if it hangs. Start all of them again with the same
            ``checkpoint``.

    Example:
        >>> with distributed() as crew:  # without torchrun: alone
        ...     print(crew)
        Crew(rank=0, size=1)
    """
    global _present
    if backend not in _BACKENDS:
        raise InvalidArgumentError("backend", f"one of {_BACKENDS}", repr(backend), 'Use "gloo".')
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < 1e9:
        raise InvalidArgumentError(
            "timeout", "a positive number of seconds", repr(timeout), "Use 300."
        )
    if not dist.is_available() or not (dist.is_initialized() or "WORLD_SIZE" in os.environ):
        yield _ALONE
        return
    mine = not dist.is_initialized()
    before = _present
    _present = _started(backend, timeout) if mine else _joined()
    try:
        yield _present
    finally:
        _present = before
        if mine:
            dist.destroy_process_group()


def _started(backend: str, timeout: float) -> Crew:
    rank, size = (int(os.environ.get(name, k)) for k, name in enumerate(("RANK", "WORLD_SIZE")))
    if backend == "nccl":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    try:
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    except (RuntimeError, ValueError) as error:
        reason = f"the processes did not find each other ({error})"
        raise DistributedError(rank, size, reason) from error
    return _joined()


def _joined() -> Crew:
    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    return Crew(dist.get_rank(), dist.get_world_size(), device)
