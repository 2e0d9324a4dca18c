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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from ..errors import TrainingError
from .files import read_record, write_record


@dataclass(frozen=True)
class Schedule:
    """How long to train, and when to look.

    Attributes:
        max_epochs: The largest number of steps.
        check_every: A look at the validation score every so many steps.
        patience: Training ends after so many looks without a better score.
        tolerance: A score counts as better from this difference on.
        save_every: A checkpoint is written every so many looks.
    """

    max_epochs: int = 2000
    check_every: int = 5
    patience: int = 20
    tolerance: float = 1e-5
    save_every: int = 4


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


def train(
    loss: Callable[[], Tensor],
    score: Callable[[], float],
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    *,
    progress: bool,
    label: str = "fit",
    checkpoint: Path | None = None,
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
        checkpoint: Where to keep the state; resumed from if it exists.

    Raises:
        TrainingError: If the loss is not finite from the start, or again and again.
    """
    history = History()
    best = _snapshot(module)
    good = (_snapshot(module), copy.deepcopy(optimizer.state_dict()))
    start = 0
    if checkpoint is not None and checkpoint.exists():
        start, history, best = _resume(checkpoint, module, optimizer)
        good = (_snapshot(module), copy.deepcopy(optimizer.state_dict()))
    bar = tqdm(total=schedule.max_epochs, initial=start, desc=label, disable=not progress)
    try:
        for epoch in range(start, schedule.max_epochs):
            if history.converged:
                break
            looked = bool(history.scores) and history.scores[-1][0] == epoch  # before a resume
            if epoch % schedule.check_every == 0 and not looked:
                _look(epoch, _score(score), history, module, best, schedule)
                good = (_snapshot(module), copy.deepcopy(optimizer.state_dict()))
                looks = len(history.scores)
                if checkpoint is not None and (looks % schedule.save_every == 0):
                    _save(checkpoint, epoch, history, best, module, optimizer)
                bar.set_postfix(score=f"{history.scores[-1][1]:.4f}")
                if history.converged:
                    break
            _step(epoch, loss, module, optimizer, history, good)
            bar.update()
        else:
            history.verdict = f"stopped at {schedule.max_epochs} steps, still improving"
    except KeyboardInterrupt:
        history.verdict = f"interrupted at step {len(history.losses)}; the best state is kept"
    finally:
        bar.close()
    module.load_state_dict(best)
    return history


def _step(
    epoch: int,
    loss: Callable[[], Tensor],
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    history: History,
    good: tuple[dict[str, Tensor], dict[str, Any]],
) -> None:
    optimizer.zero_grad()
    try:
        value = loss()
    except (ValueError, ArithmeticError):  # parameters that no law can be made of
        if epoch == 0:
            raise
        value = torch.tensor(math.nan)
    finite = bool(torch.isfinite(value))
    if finite:
        value.backward()
        finite = all(
            p.grad is None or bool(torch.isfinite(p.grad).all()) for p in module.parameters()
        )
    history.losses.append(float(value.detach()))
    if finite:
        optimizer.step()
        return
    history.setbacks.append(epoch)
    if epoch == 0 or len(history.setbacks) > 10:
        raise TrainingError(
            "The loss is not finite" + (" at the start" if epoch == 0 else f" at step {epoch}"),
            "Check the scale of the features and values, or lower `lr`.",
        )
    module.load_state_dict(good[0])
    optimizer.load_state_dict(copy.deepcopy(good[1]))
    for group in optimizer.param_groups:
        group["lr"] *= 0.5 ** len(history.setbacks)


def _score(score: Callable[[], float]) -> float:
    """The score, or the worst one where there is none."""
    try:
        value = score()
    except (ValueError, ArithmeticError):
        return -math.inf
    return value if math.isfinite(value) else -math.inf


def _look(
    epoch: int,
    score: float,
    history: History,
    module: nn.Module,
    best: dict[str, Tensor],
    schedule: Schedule,
) -> None:
    history.scores.append((epoch, score))
    if score > history.best_score + schedule.tolerance:
        history.best_score, history.best_epoch = score, epoch
        best.update(_snapshot(module))
    elif epoch - history.best_epoch >= schedule.patience * schedule.check_every:
        history.verdict = f"converged: best validation score at step {history.best_epoch}"


def _snapshot(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.state_dict().items()}


def _save(
    path: Path,
    epoch: int,
    history: History,
    best: dict[str, Tensor],
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
) -> None:
    write_record(
        path,
        "checkpoint",
        {
            "epoch": epoch,
            "history": asdict(history),
            "best": best,
            "state": _snapshot(module),
            "optimizer": optimizer.state_dict(),
            "random": torch.get_rng_state(),
        },
    )


def _resume(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer
) -> tuple[int, History, dict[str, Tensor]]:
    record = read_record(path, "checkpoint")
    module.load_state_dict(record["state"])
    optimizer.load_state_dict(record["optimizer"])
    torch.set_rng_state(record["random"])
    history = History(**record["history"])
    history.scores = [(int(epoch), float(score)) for epoch, score in history.scores]
    return record["epoch"], history, record["best"]
