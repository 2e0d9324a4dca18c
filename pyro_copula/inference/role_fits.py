"""The fits behind ``graph_roles``: four models, each without one fold at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..distributions.conditional_copula import log_normal_interval
from ..errors import ConditioningWarning, InvalidArgumentError, MidpointWarning
from ..models import CopulaGNN, NodeData
from ..models.specification import SIZES
from ..parallel import run_each
from .fitting import fit
from .role_report import MODELS, GraphRoles

#: The fold, whether the network sees the graph, its place among those, whether there is a copula.
Task = tuple[int, bool, int, bool]


class Network(NamedTuple):
    """A network that may stand for its kind.

    Attributes:
        name: What the report calls it.
        options: The arguments of a model that make it.
    """

    name: str
    options: Mapping[str, Any]

    @classmethod
    def of(cls, backbone: Any) -> Network:
        """A backbone as it is."""
        return cls(_word(backbone), {"backbone": backbone})


#: A network is taken in place of a simpler one if its mean validation score is better by about one
#: standard error: two networks differ by so many nats at a node, as a standard deviation.
_SPREAD = 1.0

#: What is tried by default, the simplest first. With few nodes a hidden layer may cost more than it
#: brings: hence a linear network of each kind.
WITHOUT_GRAPH = (
    Network("linear", {"backbone": "linear"}),
    Network("mlp", {"backbone": "mlp", "linear_skip": True}),
)
WITH_GRAPH = (
    Network("linear gcn", {"backbone": "gcn", "num_layers": 1, "linear_skip": True}),
    Network("sage", {"backbone": "sage", "linear_skip": True}),
)


@dataclass(frozen=True)
class RoleFits:
    """What all fits share. ``data`` has every value, those to be scored included.

    Attributes:
        data: The data.
        networks: Networks that do not see the graph, and networks that do, the simplest first. Of
            several, the first is taken unless another has a clearly better validation score.
        precision: The precision of the copula.
        model_options: Arguments of every model.
        fit_options: Arguments of every fit.
        held_out: The nodes to score, or None for folds.
        folds: The number of folds.
        seed: Of everything random.
    """

    data: NodeData
    networks: tuple[Sequence[Network], Sequence[Network]]
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

    def model(self, network: Network, has_copula: bool) -> CopulaGNN:
        """A model with a network, with or without the copula."""
        precision = self.precision if has_copula else "none"
        options = self.model_options
        by_name = [isinstance(one.options["backbone"], str) for one in chain(*self.networks)]
        if any(by_name) and not isinstance(network.options["backbone"], str):
            # Sizes of layers are meant for the networks by name.
            options = {name: value for name, value in options.items() if name not in SIZES}
        return CopulaGNN(**{**network.options, **options, "precision": precision})

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
        for network in chain(*self.networks):
            for has_copula in (False, True):
                self.model(network, has_copula)

    def run(self, jobs: int, progress: bool) -> GraphRoles:
        """Fits and scores all models; if it is interrupted, the finished folds."""
        results, interrupted = _run(self, jobs, progress)
        return _report(self, results, interrupted)


def _run(
    setup: RoleFits, jobs: int, progress: bool
) -> tuple[dict[tuple[int, str], dict[str, Any]], bool]:
    """What every finished fit gave, by fold and model, and whether the user ended it."""
    from tqdm.auto import tqdm

    tasks = [
        (fold, sees_graph, place, has_copula)
        for fold in range(setup.folds)
        for sees_graph, has_copula in MODELS.values()
        for place in range(len(setup.networks[sees_graph]))
    ]
    done: dict[Task, dict[str, Any]] = {}
    interrupted = False
    with tqdm(total=len(tasks), desc="graph roles", disable=not progress) as bar:
        try:
            for result in _each(setup, tasks, jobs):
                done[result["task"]] = result
                bar.update()
        except KeyboardInterrupt:
            interrupted = True
    folds = [k for k in range(setup.folds) if all(t in done for t in tasks if t[0] == k)]
    if not folds:
        raise KeyboardInterrupt
    results = {}
    for name, (sees_graph, has_copula) in MODELS.items():
        place = _choice(setup, done, folds, sees_graph, has_copula)
        results.update({(k, name): done[k, sees_graph, place, has_copula] for k in folds})
    return results, interrupted


def _each(setup: RoleFits, tasks: Sequence[Task], jobs: int) -> Iterator[dict[str, Any]]:
    """What fits give, as they end.

    Raises:
        KeyboardInterrupt: If one of them was interrupted.
    """
    with closing(run_each(partial(_fitted, setup), tasks, jobs)) as finished:
        for result in finished:
            if result["interrupted"]:
                raise KeyboardInterrupt
            yield result


def _choice(
    setup: RoleFits,
    done: Mapping[Task, dict[str, Any]],
    folds: Sequence[int],
    sees_graph: bool,
    has_copula: bool,
) -> int:
    """The place of a model's network: the first, unless another is clearly better.

    Each of the four models has its own: a network that is best by itself may fit what the copula
    beside it would explain. Validation nodes of all folds count together, for those of one fold
    are too few to tell. So a fold's values have a say in the choice of its network, and in
    nothing else.
    """
    best, best_score = 0, math.nan
    for place in range(len(setup.networks[sees_graph])):
        found = [done[k, sees_graph, place, has_copula] for k in folds]
        score = sum(result["validation"] for result in found) / len(found)
        margin = _SPREAD / math.sqrt(sum(result["judged"] for result in found))
        if place == 0 or score > best_score + margin:
            best, best_score = place, score
    return best


def _fitted(setup: RoleFits, task: Task) -> dict[str, Any]:
    """Fits one model without one fold, and scores that fold."""
    fold, sees_graph, place, has_copula = task
    network = setup.networks[sees_graph][place]
    hidden = setup.hidden(fold)
    data = setup.data.hide(hidden)
    options = {"progress": False, "seed": setup.seed + fold, **setup.fit_options}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fit(setup.model(network, has_copula), data, **options)
        nodes = hidden.nonzero().squeeze(-1)
        if setup.held_out is None:
            scores = _leave_one_out(found, setup.data.y)[nodes]
        else:
            scores = found.predict(nodes=nodes).log_prob(setup.data.y[nodes])
    # Said once, of all fits together.
    midpoint = [w for w in caught if issubclass(w.category, MidpointWarning)]
    singular = [w for w in caught if issubclass(w.category, ConditioningWarning)]
    for warning in caught:
        if warning not in (*midpoint, *singular):
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    fits = getattr(found, "fits", [found])
    family = found.model.specification()["marginal"]
    name = next(name for name, uses in MODELS.items() if uses == (sees_graph, has_copula))
    return {
        "task": task,
        "fold": fold,
        "name": name,
        "network": network.name,
        "nodes": nodes,
        "scores": scores.double(),
        "validation": sum(one.history.best_score for one in fits) / len(fits),
        "judged": fits[0].settings["validation_nodes"],
        "converged": found.converged,
        "interrupted": any(one.interrupted for one in fits),
        "nearly_singular": bool(singular),
        "midpoint": bool(midpoint) and has_copula,  # without a copula the rule has no say
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
    finished = sorted({k for k, _ in results})
    nodes = torch.cat([results[k, "neither"]["nodes"] for k in finished])
    fold = torch.cat([torch.full_like(results[k, "neither"]["nodes"], k) for k in finished])
    order = torch.argsort(nodes)
    scores = {
        name: torch.cat([results[k, name]["scores"] for k in finished])[order] for name in MODELS
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
    poor_midpoint = any(result["midpoint"] for result in results.values())
    if poor_midpoint:
        warnings.warn(
            "The midpoint rule, by which the copulas are fitted, is a poor approximation here "
            "(counts mostly 0 and 1?): the gain as correlation may come out wrong. Call "
            'graph_roles(..., discrete="exact"), or discrete="ep", which is quicker.',
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
        fold=None if setup.held_out is not None else fold[order],
        networks={name: results[finished[0], name]["network"] for name in MODELS},
        scored=scored,
        marginal=first["marginal"],
        precision=_word(setup.precision),
        unconverged=sum(not result["converged"] for result in results.values()),
        nearly_singular=sum(result["nearly_singular"] for result in results.values()),
        num_fits=len(results),
        interrupted=interrupted,
        poor_midpoint=poor_midpoint,
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
