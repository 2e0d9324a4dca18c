"""The options of a fit: what was asked for, else what the model's recipe says, else the default."""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..crew import present_crew
from ..errors import InvalidArgumentError
from ..errors.counts import check_count
from ..models import CopulaGNN, NodeData
from ..models.data import read_mask
from ..partitions import Partition, check_partition
from .training import Schedule

METHODS = ("mle", "map", "svi", "nuts")

#: What holds if neither the call nor the model's recipe says otherwise. The rate of the global
#: parameters is five times that of the network: they are few, and on a log scale.
GENERAL: Mapping[str, Any] = {
    "validation": 0.2,
    "lr": 0.01,
    "scalar_lr": None,
    "weight_decay": 5e-4,
    "optimizer": torch.optim.Adam,
    "schedule": Schedule(),
    "restarts": 1,
    "refine": False,
}
_SCALAR_FACTOR = 5.0


@dataclass(frozen=True)
class Options:
    """The options of one call of ``fit``, checked; see there what they mean."""

    method: str
    seed: int
    validation: float | Tensor
    lr: tuple[float, ...]
    scalar_lr: float | None
    weight_decay: float
    optimizer: Callable[..., torch.optim.Optimizer]
    schedule: Schedule
    restarts: int
    refine: bool
    guide: Callable[..., Any] | None
    num_draws: int
    num_warmup: int
    num_chains: int
    progress: bool
    judge: Callable[[Any, Tensor], float] | None
    partition: Partition | None
    blocks_per_step: int | None

    def rate_of_scalars(self, lr: float) -> float:
        """The learning rate of the global parameters beside that of the network."""
        return _SCALAR_FACTOR * lr if self.scalar_lr is None else self.scalar_lr

    def settings(self, lr: float) -> dict[str, Any]:
        """What was really used, as plain values.

        Args:
            lr: The learning rate that was chosen.
        """
        found = {
            "seed": self.seed,
            "lr": lr,
            "lr_candidates": list(self.lr),
            "scalar_lr": self.rate_of_scalars(lr),
            "weight_decay": self.weight_decay,
            "optimizer": _name(self.optimizer),
            "schedule": asdict(self.schedule),
            "refine": self.refine,
            "judge": "log score" if self.judge is None else _name(self.judge),
        }
        if self.partition is not None:
            found |= {
                "num_blocks": self.partition.num_blocks,
                "cut": self.partition.cut,
                "blocks_per_step": self.blocks_per_step,
            }
        if self.method == "svi":
            found |= {"guide": "AutoNormal" if self.guide is None else _name(self.guide)}
        if self.method in ("svi", "nuts"):
            found |= {"num_draws": self.num_draws}
        if self.method == "nuts":
            found |= {"num_warmup": self.num_warmup, "num_chains": self.num_chains}
        return found

    def fingerprint(self) -> list[Any]:
        """What decides the result; not how it is shown or how often it is saved."""
        apart = ("progress", "schedule", "seed", "partition", "blocks_per_step")
        fields = {k: v for k, v in vars(self).items() if k not in apart}
        if self.partition is not None:
            fields |= {"partition": self.partition.labels, "blocks_per_step": self.blocks_per_step}
        schedule = {k: v for k, v in asdict(self.schedule).items() if k != "save_every"}
        return [fields, schedule]


def resolve(model: CopulaGNN, given: Mapping[str, Any], alone: bool) -> Options:
    """The options of a call.

    Args:
        model: Its recipe may set some, in ``fit_defaults``.
        given: What the call says, None where it says nothing.
        alone: Whether restarts are one unless the call says otherwise.

    Raises:
        InvalidArgumentError: If one of them cannot be.
    """
    recipe = dict(model.fit_defaults)
    unknown = sorted(set(recipe) - set(GENERAL))
    if unknown:
        raise InvalidArgumentError(
            "model.fit_defaults", f"among {sorted(GENERAL)}", f"{unknown}", "Drop the others."
        )
    if alone:
        recipe.pop("restarts", None)
    chosen = dict(given)
    for name, default in GENERAL.items():
        if chosen[name] is None:
            chosen[name] = recipe.get(name, default)
    _check_method(chosen["method"])
    chosen["lr"] = _rates(chosen["lr"])
    if chosen["scalar_lr"] is not None:
        chosen["scalar_lr"] = _number("scalar_lr", chosen["scalar_lr"], "Leave it out.")
    chosen["weight_decay"] = _number("weight_decay", chosen["weight_decay"], "Use 5e-4.", zero=True)
    for name, usual, least in (
        ("seed", 0, 0),
        ("restarts", 1, 1),
        ("num_draws", 500, 1),
        ("num_warmup", 300, 1),
        ("num_chains", 2, 1),
    ):
        chosen[name] = check_count(name, chosen[name], f"Use {usual}.", least=least)
    if not isinstance(chosen["schedule"], Schedule):
        raise InvalidArgumentError(
            "schedule",
            "a Schedule",
            type(chosen["schedule"]).__name__,
            "Pass pyro_copula.Schedule(max_epochs=500).",
        )
    if not isinstance(chosen["refine"], bool):
        raise InvalidArgumentError("refine", "True or False", repr(chosen["refine"]), "Use False.")
    for name in ("optimizer", "guide", "judge"):
        if chosen[name] is not None and not callable(chosen[name]):
            raise InvalidArgumentError(
                name, "a class or function", repr(chosen[name]), "Leave it out for the default."
            )
    if chosen["guide"] is not None and chosen["method"] != "svi":
        raise InvalidArgumentError(
            "guide",
            'None unless method="svi"',
            f"one with method={chosen['method']!r}",
            'Use method="svi", or leave `guide` out.',
        )
    _check_blocks(chosen["partition"], chosen["blocks_per_step"], chosen["method"])
    if chosen["progress"] is None:
        chosen["progress"] = sys.stderr.isatty()
    chosen["progress"] = chosen["progress"] and present_crew().leads
    return Options(**chosen)


def read_validation(validation: Any, data: NodeData, y: Tensor) -> Any:
    """A share as it is; a mask as a boolean tensor, true at observed nodes only.

    Args:
        validation: What the call says.
        data: The data, with all observed values.
        y: The values at all nodes, those included that are not observed. A node without a value
            may be in the mask, and does not count.
    """
    if not isinstance(validation, Tensor | np.ndarray | list | tuple):
        return validation
    chosen = read_mask("validation", validation, data.num_nodes)
    outside = chosen & ~data.observed & ~torch.isnan(y.reshape(-1))
    if bool(outside.any()):
        raise InvalidArgumentError(
            "validation",
            "true at observed nodes only",
            f"{int(outside.sum())} of its {int(chosen.sum())} nodes outside `observed`, the first "
            f"of them node {int(outside.nonzero()[0])}",
            "Pass observed=train_mask | val_mask: what is trained on is the observed nodes that "
            "are not\n  for validation.",
        )
    return chosen


def validation_nodes(validation: float | Tensor, data: NodeData, seed: int) -> Tensor:
    """The observed nodes that are held out of training, boolean ``(num_nodes,)``."""
    observed = data.observed
    if torch.is_tensor(validation):
        chosen = validation & observed
        if not bool(chosen.any()) or bool((chosen == observed).all()):
            raise InvalidArgumentError(
                "validation",
                "true at some observed nodes, not all",
                f"{int(chosen.sum())} of {int(observed.sum())} observed nodes",
                "Both training and validation need values.",
            )
        return chosen
    if not _is_number(validation) or not 0 < validation < 1:
        raise InvalidArgumentError(
            "validation",
            "a share strictly between 0 and 1, or a boolean mask",
            reprlib.repr(validation),
            "Use 0.2, or a mask such as data.val_mask.",
        )
    known = observed.nonzero().squeeze(-1)
    count = min(max(1, round(float(validation) * len(known))), len(known) - 1)
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.zeros_like(observed)
    chosen[known[torch.randperm(len(known), generator=generator)[:count]]] = True
    return chosen


# ---------------------------------------------------------------- checks


def _check_method(method: Any) -> None:
    if method not in METHODS:
        raise InvalidArgumentError("method", f"one of {METHODS}", repr(method), 'Use "mle".')


def _check_blocks(partition: Any, blocks_per_step: Any, method: str) -> None:
    if partition is None:
        if blocks_per_step is not None:
            raise InvalidArgumentError(
                "blocks_per_step",
                "None without `partition`",
                repr(blocks_per_step),
                "Pass partition=pyro_copula.partition(graph, num_blocks).",
            )
        return
    check_partition(partition)
    if method != "mle":
        raise InvalidArgumentError(
            "partition",
            'None unless method="mle"',
            f"one with method={method!r}",
            "Fit by maximum likelihood with it, and go on with "
            f"fit.refit({method!r}): a posterior is that of the whole likelihood.",
        )
    if blocks_per_step is not None:
        check_count("blocks_per_step", blocks_per_step, "Use 1.")


def _rates(lr: Any) -> tuple[float, ...]:
    several = lr if isinstance(lr, list | tuple) else [lr]
    if not several:
        raise InvalidArgumentError("lr", "one learning rate at least", "none", "Use 0.01.")
    return tuple(_number("lr", rate, "Use 0.01, or several to choose from.") for rate in several)


def _number(argument: str, value: Any, hint: str, zero: bool = False) -> float:
    inside = _is_number(value) and value < math.inf and (value > 0 or (zero and value == 0))
    if not inside:
        expected = "finite and not negative" if zero else "positive and finite"
        raise InvalidArgumentError(argument, expected, repr(value), hint)
    return float(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _name(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)
