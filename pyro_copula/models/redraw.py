"""Another start of the same model: new first weights for modules that were given as objects.

A network by name, or from a function, is made anew for every fit, and so starts at weights of its
own. An object has weights already, and every fit of it would start, and perhaps end, at the same.
"""

from __future__ import annotations

import copy
import math

import torch
from torch import nn

from ..errors import InvalidArgumentError
from ..nn.lazy import uninitialised
from ..scalars import Constrained
from .copula_gnn import CopulaGNN

#: The arguments of a model that may be modules, and functions that make such modules.
_FACTORIES = {"backbone": "(in_channels, out_channels) -> module", "precision": "graph -> module"}


def redrawn(model: CopulaGNN) -> CopulaGNN:
    """A copy of a model in which modules given as objects have new weights.

    They are drawn by the ``reset_parameters`` of the modules within. What training does not move
    stays as it is, and so do global parameters, which start at a number and not at a draw, and
    lazy modules, which draw their weights when they see their first input.

    Args:
        model: The model, or its specification.

    Raises:
        InvalidArgumentError: If some weights cannot be drawn that way.
    """
    model = copy.deepcopy(model)
    for argument in _FACTORIES:
        given = model.arguments[argument]
        if isinstance(given, nn.Module):
            _redraw_(argument, given)
    return model


def _redraw_(argument: str, module: nn.Module) -> None:
    scalars = {
        id(p) for m in module.modules() if isinstance(m, Constrained) for p in m.parameters()
    }
    lazy = {
        id(p)
        for m in module.modules()
        if uninitialised(m, recurse=False)
        for p in m.parameters(recurse=False)
    }
    held = {name: p for name, p in module.named_parameters() if id(p) not in lazy}
    kept = {
        name: p.detach().clone()
        for name, p in held.items()
        if id(p) in scalars or not p.requires_grad
    }
    with torch.no_grad():
        for name, parameter in held.items():
            if name not in kept:
                parameter.fill_(math.nan)  # which stays where no reset comes
        module.apply(_reset)
        for name, value in kept.items():
            held[name].copy_(value)
    missed = [name for name, p in held.items() if name not in kept and bool(p.isnan().any())]
    if missed:
        more = f" and {len(missed) - 3} more" if len(missed) > 3 else ""
        raise InvalidArgumentError(
            argument,
            "one whose weights can be drawn anew, with more than one restart",
            f"{type(module).__name__}, without reset_parameters for {', '.join(missed[:3])}{more}",
            f"Pass a function {_FACTORIES[argument]}, or give the module that has these a method "
            "reset_parameters(self) that draws them; with restarts=1 they stay as they are.",
        )


def _reset(module: nn.Module) -> None:
    """Resets one module; called for those within it before, so that its own word is the last."""
    reset = getattr(module, "reset_parameters", None)
    if reset is not None and any(p.requires_grad for p in module.parameters()):
        reset()
