"""The arguments of a model: checked, as plain values that make it again, and as one line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from torch import nn

from ..batches import check_size
from ..distributions.exact import check_particles
from ..distributions.scores import check_rule
from ..errors import InvalidArgumentError
from ..errors.counts import check_count
from ..linalg import Iterative
from ..nn.backbones import check_backbone
from ..nn.lazy import check_copies
from .data import check_exposure
from .families import make_family
from .mixed_family import MixedFamily
from .precisions import read_precision
from .priors import Priors, describe_prior
from .recipes import PLAIN

OWN = "<own>"

#: The arguments that make the layers of a network by name, and of no other.
SIZES = ("hidden_channels", "num_layers", "dropout")

#: Those that are True or False.
SWITCHES = ("linear_skip", "graph_features", "neighbour_outcomes", "nugget")

#: The arguments as a model prints them: the first of them always, others if they are not as usual.
_ALWAYS = ("backbone", "marginal", "precision")
_SHOWN = (
    *("recipe", *_ALWAYS, *SIZES, *SWITCHES, "clip_features", "discrete", "num_particles"),
    *("tail_clip", "exposure", "priors", "last_layer_prior", "backend", "batch_nodes"),
)
_USUAL = {**PLAIN, "discrete": "midpoint", "backend": "auto", "priors": {}}


def check_arguments(arguments: Mapping[str, Any], given: Collection[str]) -> None:
    """Finds mistakes in the arguments of a model before there are data.

    Args:
        arguments: The arguments.
        given: The names of those that were given, and are not by default.
    """
    if not _is(arguments["marginal"], "auto"):
        make_family(arguments["marginal"])
    if not callable(arguments["precision"]):
        read_precision(arguments["precision"])
    backbone = arguments["backbone"]
    if isinstance(backbone, str):
        check_backbone(backbone)
    elif isinstance(backbone, nn.Module):
        check_copies(backbone)
    _check_sizes(arguments, given)
    for name in SWITCHES:
        if not isinstance(arguments[name], bool):
            hint = ": its size is learned." if name == "nugget" else ", or leave it out."
            raise InvalidArgumentError(
                name, "True or False", repr(arguments[name]), f"Use {name}=True{hint}"
            )
    for name in ("last_layer_prior", "clip_features"):
        value = arguments[name]
        if value is not None and not (_is_number(value) and value > 0):
            raise InvalidArgumentError(name, "a positive number or None", repr(value), "Use None.")
    check_exposure(arguments["exposure"])
    check_size("batch_nodes", arguments["batch_nodes"])
    _check_discrete(arguments["discrete"], arguments["num_particles"])


def _check_sizes(arguments: Mapping[str, Any], given: Collection[str]) -> None:
    for name in SIZES:
        if name in given and not isinstance(arguments["backbone"], str):
            raise InvalidArgumentError(
                name,
                "left out for a backbone of your own, which has layers of its own",
                repr(arguments[name]),
                'Set it inside your module, or use a backbone by name such as "sage".',
            )
    for name in ("hidden_channels", "num_layers"):
        check_count(name, arguments[name], "Use the default.")
    dropout = arguments["dropout"]
    if not (_is_number(dropout) and 0 <= dropout < 1):
        raise InvalidArgumentError(
            "dropout", "at least 0 and below 1", repr(dropout), "Use 0.0 for none."
        )


def _check_discrete(discrete: Any, num_particles: Any) -> None:
    if check_rule(discrete) == "augment":
        raise InvalidArgumentError(
            "discrete",
            '"midpoint", "exact" or "ep"',
            '"augment"',
            "Latent scores are for Pyro models of your own; the fits here integrate them out.",
        )
    check_particles(num_particles, 1)


def specification(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a model as plain values (of JSON); what cannot be one is ``"<own>"``.

    Args:
        arguments: The arguments of :class:`~pyro_copula.CopulaGNN`, with priors as distributions.
    """
    result = dict(arguments)
    if not isinstance(result["backbone"], str):
        result["backbone"] = OWN
    if not isinstance(result["marginal"], str):
        result["marginal"] = make_family(result["marginal"]).specification()
    if not isinstance(result["precision"], str):
        given = result["precision"]
        result["precision"] = dict(given) if isinstance(given, Mapping) else OWN
    if isinstance(result["backend"], Iterative):
        result["backend"] = result["backend"].changed()
    priors = {name: describe_prior(prior) for name, prior in (result["priors"] or {}).items()}
    result["priors"] = OWN if OWN in priors.values() else priors
    return result


def describe(arguments: Mapping[str, Any]) -> str:
    """The arguments that say what a model is, as they would be written in a call."""
    unused = () if _has_layers(arguments["backbone"]) else SIZES
    shown = [
        name
        for name in _SHOWN
        if name in _ALWAYS or (arguments[name] != _USUAL.get(name) and name not in unused)
    ]
    return ", ".join(f"{name}={_short(arguments[name])}" for name in shown)


def _has_layers(backbone: Any) -> bool:
    """Whether the sizes of layers are of any use to it."""
    return isinstance(backbone, str) and backbone != "linear"


def _short(value: Any) -> str:
    if isinstance(value, str | int | Iterative | Priors):
        return repr(value)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, MixedFamily) or (isinstance(value, Mapping) and "kind" in value):
        return repr(make_family(value))
    if isinstance(value, Mapping):
        options = [k for k in value if k not in ("family", "reason", "kind", "families")]
        if not options:
            return repr(value.get("family"))
        return repr({k: value[k] for k in ("family", *options) if k in value})
    return getattr(value, "__name__", None) or type(value).__name__


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word
