"""The fits behind ``graph_roles``: four models, each without one fold at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..distributions.conditional_copula import log_normal_interval
from ..errors import InvalidArgumentError, MidpointWarning
from ..models import CopulaGNN, NodeData
from ..parallel import run_each
from .fitting import fit
from .role_report import MODELS, GraphRoles


@dataclass(frozen=True)
class RoleFits:
    """What all fits share. ``data`` has every value, those to be scored included."""

    data: NodeData
    networks: tuple[Any, Any]
    precision: Any
    model_options: Mapping[str, Any]
    fit_options: Mapping[str, Any]
    held_out: Tensor | None
    folds: int
    seed: int

    def hidden(self, fold: int) -> Tensor:
        """Which values a fold's fits do not see, boolean of shape ``(num_nodes,)``."""
        if self.held_out is not None:
            return self.held_out
        known = self.data.observed.nonzero().squeeze(-1)
        order = torch.randperm(len(known), generator=torch.Generator().manual_seed(self.seed))
        hidden = torch.zeros(self.data.num_nodes, dtype=torch.bool)
        hidden[known[order[fold :: self.folds]]] = True
        return hidden

    def model(self, name: str) -> CopulaGNN:
        """One of the four models."""
        sees_graph, has_copula = MODELS[name]
        return CopulaGNN(
            self.networks[sees_graph],
            precision=self.precision if has_copula else "none",
            **self.model_options,
        )

    def check(self) -> None:
        """Whether there are values enough for every fold, and models can be made."""
        known = int(self.data.observed.sum())
        if self.held_out is None and not 2 <= self.folds <= known // 2:
            raise InvalidArgumentError(
                "folds",
                f"from 2 to {known // 2} with {known} observed nodes",
                repr(self.folds),
                "Use 5, or pass `held_out` for a single split.",
            )
        for name in MODELS:
            self.model(name)

    def run(self, jobs: int, progress: bool) -> GraphRoles:
        """Fits and scores all models; if it is interrupted, the finished folds."""
        results, interrupted = _run(self, jobs, progress)
        return _report(self, results, interrupted)


def _run(
    setup: RoleFits, jobs: int, progress: bool
) -> tuple[dict[tuple[int, str], dict[str, Any]], bool]:
    """What every finished fit gave, by fold and model, and whether the user ended it."""
    from tqdm.auto import tqdm

    tasks = [(fold, name) for fold in range(setup.folds) for name in MODELS]
    results: dict[tuple[int, str], dict[str, Any]] = {}
    try:
        with (
            tqdm(total=len(tasks), desc="graph roles", disable=not progress) as bar,
            closing(run_each(partial(_fitted, setup), tasks, jobs)) as finished,
        ):
            for result in finished:
                if result["interrupted"]:
                    raise KeyboardInterrupt
                results[result["task"]] = result
                bar.update()
    except KeyboardInterrupt:
        complete = {k for k in range(setup.folds) if all((k, name) in results for name in MODELS)}
        if not complete:
            raise
        return {task: x for task, x in results.items() if task[0] in complete}, True
    return results, False


def _fitted(setup: RoleFits, task: tuple[int, str]) -> dict[str, Any]:
    """Fits one model without one fold, and scores that fold."""
    fold, name = task
    hidden = setup.hidden(fold)
    data = setup.data.hide(hidden)
    options = {"progress": False, "seed": setup.seed + fold, **setup.fit_options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fit(setup.model(name), data, **options)
        nodes = hidden.nonzero().squeeze(-1)
        if setup.held_out is None:
            scores = _leave_one_out(found, setup.data.y)[nodes]
        else:
            scores = found.predict(nodes=nodes).log_prob(setup.data.y[nodes])
    midpoint = [w for w in caught if issubclass(w.category, MidpointWarning)]
    for warning in caught:
        if warning not in midpoint:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    fits = getattr(found, "fits", [found])
    family = found.model.specification()["marginal"]
    return {
        "task": task,
        "nodes": nodes,
        "scores": scores.double(),
        "converged": found.converged,
        "interrupted": any(one.interrupted for one in fits),
        "midpoint": bool(midpoint) and MODELS[name][1],  # without a copula the rule has no say
        "marginal": family if isinstance(family, str) else family["family"],
    }


def _leave_one_out(found: Any, y: Tensor) -> Tensor:
    """The log density of every observed node given the others, ``(num_nodes,)``.

    Restarts and posterior draws are averaged as predictions are: an equal mixture.
    """
    with torch.no_grad():
        rows = [_log_density(law, y).reshape(-1, len(y)) for law in found._laws()]
    stacked = torch.cat(rows)
    return torch.logsumexp(stacked, 0) - math.log(len(stacked))


def _log_density(law: Any, y: Tensor) -> Tensor:
    """The same under one law; at a discrete node the mass of its value.

    Masses add up to one, whatever the rule by which other nodes are conditioned on. Pointwise
    terms do not under the midpoint rule, and models with and without a copula would not compare.
    """
    discrete = getattr(law, "discrete_nodes", torch.zeros(len(y), dtype=torch.bool))
    if not bool(discrete.any()):
        return law.pointwise_log_prob(y)
    mass = log_normal_interval(*law.leave_one_out(y).limits)
    return mass if bool(discrete.all()) else torch.where(discrete, mass, law.pointwise_log_prob(y))


def _report(
    setup: RoleFits, results: dict[tuple[int, str], dict[str, Any]], interrupted: bool
) -> GraphRoles:
    finished = sorted({fold for fold, _ in results})
    nodes = torch.cat([results[fold, "neither"]["nodes"] for fold in finished])
    order = torch.argsort(nodes)
    scores = {
        name: torch.cat([results[fold, name]["scores"] for fold in finished])[order]
        for name in MODELS
    }
    for name, values in scores.items():
        if not bool(torch.isfinite(values).all()):
            node = int(nodes[order][~torch.isfinite(values)][0])
            raise InvalidArgumentError(
                "marginal",
                "one under which every scored value is possible",
                f"a log density that is not finite at node {node} in the model {name!r}",
                "Name a family with heavier tails or a larger support.",
            )
    if any(result["midpoint"] for result in results.values()):
        warnings.warn(
            "The midpoint rule, by which the copula is fitted, is a poor approximation here "
            '(counts mostly 0 and 1?): discrete="exact" may bring more than is found.',
            MidpointWarning,
            stacklevel=4,
        )
    first = results[finished[0], "both"]
    if setup.held_out is None:
        scored = f"in {len(finished)} folds, each given all others"
    else:
        scored = "held out, each given the observed ones"
    return GraphRoles(
        scores,
        nodes[order],
        networks=(_word(setup.networks[0]), _word(setup.networks[1])),
        scored=scored,
        marginal=first["marginal"],
        precision=_word(setup.precision),
        unconverged=sum(not result["converged"] for result in results.values()),
        num_fits=len(results),
        interrupted=interrupted,
        settings={
            "seed": setup.seed,
            "folds": setup.folds,
            **{k: v for k, v in setup.model_options.items() if k != "marginal"},
            **setup.fit_options,
        },
    )


def _word(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("family"))
    return value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__)
