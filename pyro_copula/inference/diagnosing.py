"""Diagnosing a fit: its laws, its data, and what its model is called, for the words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..diagnostics import Diagnosis, diagnose
from ..diagnostics.advice import Setup


def diagnose_fit(fit: Any, **options: Any) -> Diagnosis:
    """The diagnosis of a fit or an ensemble.

    Args:
        fit: A :class:`~pyro_copula.Fit` or :class:`~pyro_copula.Ensemble`.
        **options: As in :func:`pyro_copula.diagnose`.
    """
    data = fit.model.data
    return diagnose(fit._laws(), data.y, graph=data.graph, setup=_setup(fit), **options)


def _setup(fit: Any) -> Setup:
    said = fit.model.specification()
    family, options = _named(said["marginal"])
    return Setup(
        family,
        options,
        precision=_named(said["precision"])[0],
        nugget=bool(said["nugget"]),
        graph_features=bool(said["graph_features"]),
        discrete=said["discrete"],
        refined=bool(fit.settings.get("refine")) or fit.method in ("svi", "nuts"),
        is_model=True,
        ended="" if fit.converged else _ended(fit),
        untrained=any(_untrained(part) for part in getattr(fit, "fits", [fit])),
        name=repr(fit.model),
    )


def _named(given: Any) -> tuple[str, dict[str, Any]]:
    """The name and the options of a part of a model; no name if it is the user's own."""
    options = dict(given) if isinstance(given, Mapping) else {"family": given}
    name = options.pop("family", "")
    return ("" if name == "<own>" else str(name)), options


def _untrained(fit: Any) -> bool:
    """Whether the parameters are those that training started from."""
    return bool(fit.history.losses) and fit.history.best_epoch == 0


def _ended(fit: Any) -> str:
    parts = getattr(fit, "fits", None)
    if parts is not None:
        bad = [part for part in parts if not part.converged]
        return f"{len(bad)} of {len(parts)} restarts ({_ended(bad[0])})"
    if fit.method == "nuts":
        return fit._sampler()
    second = fit.diagnostics.get("posterior", "")
    return second if fit.history.converged and second else fit.history.verdict
