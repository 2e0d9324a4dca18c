"""The training loop that maximum likelihood, MAP and SVI share.

It takes a function that gives the loss and one that gives a validation score, moves parameters,
and remembers the best state. It survives a non-finite loss (back to the last good state, smaller
step), an impatient user (Ctrl-C ends it with the best state so far) and, with a checkpoint, the
end of the process.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from ..crew import present_crew
from ..errors import InvalidArgumentError, TrainingError
from ..errors.counts import check_count
from .checkpoint import NOWHERE, Slot, random_state, set_random_state
from .contents import check_training_state
from .history import History

#: More non-finite losses than this, and the fit is given up.
_MAX_SETBACKS = 10


@dataclass(frozen=True)
class Schedule:
    """How long to train, and when to look.

    Attributes:
        max_epochs: The largest number of steps.
        check_every: A look at the validation score every so many steps.
        patience: Training ends after so many looks without a better score.
        tolerance: A score counts as better from this difference on.
        save_every: A checkpoint is written every so many looks.

    Example:
        >>> Schedule(max_epochs=500)
        Schedule(max_epochs=500, check_every=5, patience=20, tolerance=1e-05, save_every=4)
    """

    max_epochs: int = 2000
    check_every: int = 5
    patience: int = 20
    tolerance: float = 1e-5
    save_every: int = 4

    def __post_init__(self) -> None:
        for name in ("max_epochs", "check_every", "patience", "save_every"):
            value = check_count(name, getattr(self, name), f"Use {getattr(Schedule, name)}.")
            object.__setattr__(self, name, value)
        if not 0 <= self.tolerance < math.inf:
            raise InvalidArgumentError(
                "tolerance", "finite and not negative", repr(self.tolerance), "Use 1e-5."
            )

    def look(self, history: History, epoch: int, score: float) -> bool:
        """Enters a validation score, and the verdict once patience is at its end.

        Args:
            history: What happened so far.
            epoch: The step.
            score: The score, higher being better.

        Returns:
            Whether it is the best so far.

        Example:
            >>> history = History()
            >>> [Schedule(check_every=5, patience=1).look(history, k, -k) for k in (0, 5)]
            [True, False]
            >>> history
            History(0 steps, converged: best validation score at step 0)
        """
        history.scores.append((epoch, score))
        if score > history.best_score + self.tolerance:
            history.best_score, history.best_epoch = score, epoch
            return True
        if epoch - history.best_epoch >= self.patience * self.check_every:
            history.verdict = f"converged: best validation score at step {history.best_epoch}"
        return False


def train(
    loss: Callable[[], Tensor],
    score: Callable[[], float],
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    *,
    progress: bool,
    label: str = "fit",
    slot: Slot = NOWHERE,
) -> History:
    """Minimises a loss; the module ends in the state with the best score.

    Args:
        loss: Evaluates the loss, differentiably, at the present parameters.
        score: Evaluates the validation score, without derivatives.
        module: Holds everything that training changes.
        optimizer: Moves the parameters.
        schedule: How long, and when to look.
        progress: Whether to show a progress bar.
        label: What the bar says.
        slot: Where to keep the state; resumed from if something is there.

    Raises:
        TrainingError: If the loss is not finite from the start, or again and again.
    """
    history, best, start = History(), _snapshot(module), 0
    record = slot.load()
    if record is not None:
        with slot.reading():
            history, best, start = _resume(record, module, optimizer, schedule)
    if record is not None and record["state"] is None:
        module.load_state_dict(best)
        return history
    good = _Good(module, optimizer)
    bar = tqdm(total=schedule.max_epochs, initial=start, desc=label, disable=not progress)
    try:
        for epoch in range(start, schedule.max_epochs):
            if history.converged:
                break
            looked = bool(history.scores) and history.scores[-1][0] == epoch  # before a resume
            if epoch % schedule.check_every == 0 and not looked:
                good = _Good(module, optimizer)
                if schedule.look(history, epoch, _score(score, history)):
                    best.update(good.module)
                if history.converged:
                    break
                if slot is not NOWHERE and len(history.scores) % schedule.save_every == 0:
                    slot.save(_record(epoch, history, best, good))
                bar.set_postfix(score=f"{history.scores[-1][1]:.4f}")
            _step(epoch, loss, module, optimizer, history, good)
            bar.update()
        else:
            history.verdict = f"stopped at {schedule.max_epochs} steps, still improving"
    except KeyboardInterrupt:
        if present_crew().size > 1:  # the others may be a step behind, and would wait for this one
            raise
        # Not marked as finished in the checkpoint: the same call goes on from the last save.
        history.verdict = f"interrupted at step {len(history.losses)}; the best state is kept"
    finally:
        bar.close()
    if not history.interrupted:
        if history.best_score == -math.inf:
            raise TrainingError(
                "The validation score was not finite at any look",
                "Check the values of the validation nodes, or choose others.",
            )
        finished = {"epoch": schedule.max_epochs, "history": asdict(history), "best": dict(best)}
        slot.save({**finished, "state": None})
    module.load_state_dict(best)
    return history


class _Good:
    """The state at the last look, to which a setback returns."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.module = _snapshot(module)
        self.optimizer = _copy(optimizer.state_dict())
        self.setbacks = 0

    def restore(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Goes back, with half the step of the last attempt from here."""
        self.setbacks += 1
        module.load_state_dict(self.module)
        optimizer.load_state_dict(_copy(self.optimizer))
        for group in optimizer.param_groups:
            group["lr"] *= 0.5**self.setbacks


def _step(
    epoch: int,
    loss: Callable[[], Tensor],
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    good: _Good,
) -> None:
    optimizer.zero_grad()
    try:
        value = loss()
    except (ValueError, ArithmeticError):  # parameters that no law can be made of
        if epoch == 0:
            raise
        value = torch.tensor(math.nan)
    crew = present_crew()
    finite = crew.agree(bool(torch.isfinite(value)))
    if finite:
        finite = crew.agree(_backward(value, epoch))
    if finite:
        crew.agree_([value.detach(), *_gradients(optimizer)])
        finite = _finite_gradients(optimizer)
    history.losses.append(float(value.detach()))
    if finite:
        _move(optimizer, epoch)
        return
    history.setbacks.append(epoch)
    if epoch == 0 or len(history.setbacks) > _MAX_SETBACKS:
        raise TrainingError(
            "The loss is not finite" + (" at the start" if epoch == 0 else f" at step {epoch}"),
            "Check the scale of the features and values, or lower `lr`.",
        )
    good.restore(module, optimizer)


def _move(optimizer: torch.optim.Optimizer, epoch: int) -> None:
    """One step; an optimizer shows at the first one whether it can be had without more."""
    try:
        optimizer.step()
    except (RuntimeError, TypeError) as error:
        if epoch:
            raise
        raise InvalidArgumentError(
            "optimizer",
            "one for dense gradients, whose step needs no arguments",
            f"{type(optimizer).__name__} ({error})",
            "Use torch.optim.Adam, AdamW or SGD.",
        ) from error


def _backward(value: Tensor, epoch: int) -> bool:
    """Whether derivatives can be had: the backward pass has solves of its own, which may fail."""
    try:
        value.backward()
    except ArithmeticError:
        if epoch == 0:
            raise
        return False
    return True


def _finite_gradients(optimizer: torch.optim.Optimizer) -> bool:
    """Whether all gradients are finite: NaN and infinity do not leave a sum."""
    return math.isfinite(sum(float(g.sum()) for g in _gradients(optimizer)))


def _gradients(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    every = (p.grad for group in optimizer.param_groups for p in group["params"])
    return [gradient for gradient in every if gradient is not None]


def _score(score: Callable[[], float], history: History) -> float:
    """The score, or the worst one where there is none."""
    try:
        value = score()
    except (ValueError, ArithmeticError):
        if history.losses and history.best_score == -math.inf:
            raise  # never a score, though losses are finite: the question is wrong
        value = -math.inf
    return present_crew().agree(value if math.isfinite(value) else -math.inf)


def _snapshot(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _copy(state: Any) -> Any:
    """A copy of an optimizer's state; ``copy.deepcopy`` takes ten times longer on tensors."""
    if isinstance(state, Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        return {key: _copy(value) for key, value in state.items()}
    if isinstance(state, list):
        return [_copy(value) for value in state]
    return copy.deepcopy(state)


def _record(epoch: int, history: History, best: dict[str, Tensor], good: _Good) -> dict[str, Any]:
    return {
        "epoch": epoch,
        "history": asdict(history),
        "best": dict(best),
        "state": good.module,
        "optimizer": good.optimizer,
        "random": random_state(),
    }


def _resume(
    record: dict[str, Any],
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
) -> tuple[History, dict[str, Tensor], int]:
    history = check_training_state(record, module, optimizer, schedule.max_epochs)
    if record["state"] is not None:  # else it is finished, and only the best state counts
        module.load_state_dict(record["state"])
        optimizer.load_state_dict(record["optimizer"])
        set_random_state(record["random"])
    return history, dict(record["best"]), record["epoch"]
