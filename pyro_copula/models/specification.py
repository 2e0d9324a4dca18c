"""The arguments of a model: checked, as plain values that make it again, and as one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..batches import check_size
from ..distributions.exact import check_particles
from ..distributions.scores import check_rule
from ..errors import InvalidArgumentError
from ..linalg import Iterative
from ..nn.backbones import check_backbone
from .data import check_exposure
from .families import make_family
from .mixed_family import MixedFamily
from .precisions import read_precision
from .priors import Priors, describe_prior

OWN = "<own>"


def check_arguments(arguments: Mapping[str, Any]) -> None:
    """Finds mistakes in the arguments of a model before there are data."""
    if not _is(arguments["marginal"], "auto"):
        make_family(arguments["marginal"])
    if not callable(arguments["precision"]):
        read_precision(arguments["precision"])
    if isinstance(arguments["backbone"], str):
        check_backbone(arguments["backbone"])
    for name in ("hidden_channels", "num_layers"):
        value = arguments[name]
        if not isinstance(value, int) or value < 1:
            raise InvalidArgumentError(name, "a positive integer", repr(value), "Use the default.")
    dropout = arguments["dropout"]
    if not (isinstance(dropout, float | int) and 0 <= dropout < 1):
        raise InvalidArgumentError(
            "dropout", "at least 0 and below 1", repr(dropout), "Use 0.0 for none."
        )
    for name in ("last_layer_prior", "clip_features"):
        value = arguments[name]
        if value is not None and not (isinstance(value, float | int) and value > 0):
            raise InvalidArgumentError(name, "a positive number or None", repr(value), "Use None.")
    check_exposure(arguments["exposure"])
    check_size("batch_nodes", arguments["batch_nodes"])
    _check_discrete(arguments["discrete"], arguments["num_particles"])


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
    shown = {name: arguments[name] for name in ("backbone", "marginal", "precision")}
    parts = [f"{name}={_short(value)}" for name, value in shown.items()]
    if arguments["recipe"] is not None:
        parts.insert(0, f"recipe={arguments['recipe']!r}")
    if arguments["nugget"]:
        parts.append("nugget=True")
    if arguments["discrete"] != "midpoint":
        parts.append(f"discrete={arguments['discrete']!r}")
    if arguments["exposure"] is not None:
        parts.append(f"exposure={arguments['exposure']!r}")
    if arguments["priors"]:
        parts.append(f"priors={Priors(arguments['priors'])!r}")
    if arguments["last_layer_prior"] is not None:
        parts.append(f"last_layer_prior={arguments['last_layer_prior']:g}")
    return ", ".join(parts)


def _short(value: Any) -> str:
    if isinstance(value, MixedFamily) or (isinstance(value, Mapping) and "kind" in value):
        return repr(make_family(value))
    if isinstance(value, Mapping):
        options = [k for k in value if k not in ("family", "reason", "kind", "families")]
        if not options:
            return repr(value.get("family"))
        return repr({k: value[k] for k in ("family", *options) if k in value})
    return (
        repr(value)
        if isinstance(value, str)
        else getattr(value, "__name__", None) or (type(value).__name__)
    )


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word
