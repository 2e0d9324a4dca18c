"""Guides: what MAP and SVI move in place of the sampled parameters.

Whatever the user gives becomes a module that trains like any other: an automatic guide is one, and
what a function calls ``pyro.param`` become parameters of one. What a guide says of the parameters
is asked of its draws, unless it is an automatic guide that knows its median.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping
from typing import Any

import pyro
import torch
from pyro import poutine
from pyro.infer.autoguide import (
    AutoDelta,
    AutoGuide,
    AutoLaplaceApproximation,
    AutoMessenger,
    AutoNormal,
)
from pyro.infer.autoguide.initialization import init_to_value
from torch import Tensor, nn
from torch.distributions import transform_to

from ..errors import InvalidArgumentError, PyroCopulaError, SecondOrderError, TrainingError
from ..models import CopulaGNN
from .options import Options

#: The median of a guide that does not know it is that of so many draws, always the same ones.
_MEDIAN_DRAWS = 99

_AUTOMATIC = (AutoGuide, AutoMessenger)
_MAKER = (
    "Pass a function of the model, such as lambda model: AutoNormal(model, init_scale=0.05), or "
    "one of the values that draws the parameters."
)


def make_guide(model: CopulaGNN, options: Options) -> nn.Module:
    """The guide of a method, started where the priors allow the values that the model holds.

    Raises:
        InvalidArgumentError: If the user's own is no guide of the parameters of this model.
    """
    if not model.priors:
        raise InvalidArgumentError(
            "method",
            '"mle" for a model without global parameters',
            repr(options.method),
            'Use method="mle", or a precision or family with parameters.',
        )
    if options.guide is not None:
        return _read_guide(options.guide, model)
    kind = AutoNormal if options.method == "svi" else AutoDelta
    guide = kind(model.model, init_loc_fn=init_to_value(values=model.start_values()))
    guide(model.data.y)  # makes its parameters
    return guide


def guide_median(guide: nn.Module, model: CopulaGNN) -> dict[str, Tensor]:
    """The median of each parameter under a guide.

    Args:
        guide: The guide.
        model: Its model, with its values.
    """
    if isinstance(guide, _AUTOMATIC) and hasattr(guide, "median"):
        with contextlib.suppress(NotImplementedError), torch.no_grad():
            known = guide.median(model.data.y)
            if set(model.priors) <= set(known):
                return {name: known[name].detach() for name in model.priors}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        draws = _draws(guide, model, _MEDIAN_DRAWS)
    return {name: values.median(dim=0).values for name, values in draws.items()}


def guide_draws(guide: nn.Module, model: CopulaGNN, count: int) -> dict[str, Tensor]:
    """Draws from a guide, each ``(1, count, ...)``: one chain.

    Args:
        guide: The guide.
        model: Its model, with its values.
        count: The number of draws.
    """
    if isinstance(guide, AutoLaplaceApproximation):
        guide = _around_the_mode(guide, model)
    return {name: values[None] for name, values in _draws(guide, model, count).items()}


def _draws(guide: nn.Module, model: CopulaGNN, count: int) -> dict[str, Tensor]:
    with torch.no_grad():
        rows = [poutine.trace(guide).get_trace(model.data.y).nodes for _ in range(count)]
    return {name: torch.stack([row[name]["value"] for row in rows]) for name in model.priors}


def _around_the_mode(guide: AutoLaplaceApproximation, model: CopulaGNN) -> nn.Module:
    """The normal law that the curvature at the mode implies.

    Raises:
        InvalidArgumentError: If the model has no second derivatives.
        TrainingError: If the curvature is not that of a mode.
    """
    try:
        return guide.laplace_approximation(model.data.y)
    except SecondOrderError as error:
        raise InvalidArgumentError(
            "guide",
            "one that needs first derivatives only",
            f"AutoLaplaceApproximation ({error.operation} has no second ones)",
            'Use pyro.infer.autoguide.AutoMultivariateNormal, or method="nuts".',
        ) from error
    except torch.linalg.LinAlgError as error:
        raise TrainingError(
            "The posterior density is not curved downwards where AutoLaplaceApproximation ended",
            'Train longer, or use pyro.infer.autoguide.AutoMultivariateNormal or method="nuts".',
        ) from error


# ---------------------------------------------------------------- guides of the user


class Written(nn.Module):
    """A guide that calls ``pyro.param``, with what it calls so as parameters of this module.

    Args:
        guide: The guide.
        parameters: Their unconstrained values and their constraints, by name.
    """

    def __init__(
        self, guide: Callable[..., Any], parameters: Mapping[str, tuple[Tensor, Any]]
    ) -> None:
        super().__init__()
        self.guide = guide
        self.constraints = {name: constraint for name, (_, constraint) in parameters.items()}
        self.raw = nn.ParameterList(value.detach().clone() for value, _ in parameters.values())

    def forward(self, y: Tensor) -> None:
        """Runs the guide.

        Args:
            y: The values, NaN at missing nodes.
        """
        values = {
            name: transform_to(constraint)(raw)
            for (name, constraint), raw in zip(self.constraints.items(), self.raw)
        }
        # a guide that runs the model meets its values too, which are not drawn
        with poutine.block(hide_fn=_is_observed), poutine.substitute(data=values):
            self.guide(y)


def _is_observed(site: Any) -> bool:
    return site["type"] == "sample" and site["is_observed"]


def _read_guide(given: Callable[..., Any], model: CopulaGNN) -> nn.Module:
    """A guide from what the user gives, which makes guides or is one."""
    if isinstance(given, _AUTOMATIC):
        kind = type(given).__name__
        raise _no_guide(
            f"a guide of another model, {kind}", f"Pass {kind}, or lambda model: {kind}(model)."
        )
    name = getattr(given, "__name__", type(given).__name__)
    guide, failure = given, ""
    if isinstance(given, nn.Module):
        guide = copy.deepcopy(given)  # the next fit starts from the user's own again
    else:
        try:
            made = given(model.model)
            guide = made if callable(made) else given
        except Exception as error:  # a guide written by hand takes the values, not the model
            if isinstance(given, type):
                raise _no_guide(f"{name}, which raised {_short(error)}", _MAKER) from error
            failure = f", and given the model {_short(error)}"
    try:
        trace = poutine.trace(guide).get_trace(model.data.y)  # makes its parameters
    except PyroCopulaError:
        raise
    except Exception as error:
        raise _no_guide(f"{name}, which raised {_short(error)}{failure}", _MAKER) from error
    _check_sites(name, guide, trace, model)
    return _as_module(name, guide, trace, model)


def _check_sites(name: str, guide: Any, trace: Any, model: CopulaGNN) -> None:
    """Refuses a guide that does not draw what is to be drawn, or that observes."""
    wanted = {k: tuple(value.shape) for k, value in model.site_values().items()}
    drawn = {k: tuple(trace.nodes[k]["value"].shape) for k in trace.stochastic_nodes}
    if any(drawn.get(k) != shape for k, shape in wanted.items()):
        raise InvalidArgumentError(
            "guide",
            f"a law of sites with these shapes: {wanted}",
            f"{name}, which draws {drawn}",
            "Draw each of them with pyro.sample(name, law), whatever the guide is made of.",
        )
    if trace.observation_nodes and not isinstance(guide, AutoMessenger):
        raise _no_guide(
            f"{name}, which observes {trace.observation_nodes}",
            "A guide draws the parameters alone; their model is given by the fit.",
        )


def _as_module(name: str, guide: Any, trace: Any, model: CopulaGNN) -> nn.Module:
    """A guide as a module that holds all that training moves."""
    modules = [one for one in (model, guide) if isinstance(one, nn.Module)]
    held = {id(p) for module in modules for p in module.parameters()}
    store = pyro.get_param_store().get_state()
    own = {
        k: (store["params"][k], store["constraints"][k])
        for k in trace.param_nodes
        if k in store["params"] and id(store["params"][k]) not in held
    }
    if any("$$$" in k for k in own):  # how Pyro names what pyro.module registers
        raise _no_guide(
            f"{name}, which calls pyro.module",
            "Make it a pyro.nn.PyroModule that has the network as an attribute.",
        )
    if own or not isinstance(guide, nn.Module):
        guide = Written(guide, own)
    if not any(p.requires_grad for p in guide.parameters()):
        raise _no_guide(
            f"{name}, which has no parameters", "Call pyro.param for what is to be learnt."
        )
    if isinstance(guide, AutoLaplaceApproximation):
        with contextlib.suppress(TrainingError):  # is asked again at the mode
            _around_the_mode(guide, model)
    return guide


def _no_guide(found: str, hint: str) -> InvalidArgumentError:
    expected = "an automatic guide, a function of the model that makes a guide, or a guide"
    return InvalidArgumentError("guide", expected, found, hint)


def _short(error: Exception) -> str:
    """An error without the shapes that Pyro adds to its text."""
    return f"{type(error).__name__}: {str(error).partition('Trace Shapes:')[0].strip()}"
