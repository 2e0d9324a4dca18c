"""How good a stack could be: the best mixture of many models, chosen on the test values themselves.

No honest choice of weights can do better than weights that have seen the answers, and no model can
be given more than the values of all other nodes. Where even those stay below a target, the target
asks for more than these models know of the data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

import pyro_copula as pc

from . import prose
from .models import CONTINUOUS, fit_row, forget_validation, recipe_version
from .problems import load
from .stats import by_seed
from .trials import Trial

COLUMN, SEEDS = "unemployment", range(4, 7)
#: The row of the study: all models at once.
ROW = "best mixture"
#: What predictions are given, by the prefix of a metric: training values, validation values too,
#: the values of every other node.
GIVEN = {"": "", "all_": ", all observed", "others_": ", all others"}
_COMPARED = ("recipe", "best model", "best mixture")
#: How much more the sum of the weights counts than a value.
_PENALTY = 1e4

Records = Sequence[Mapping[str, Any]]


def trials(*, smoke: bool = False, seeds: Sequence[int] | None = None) -> list[Trial]:
    """The trials, one a split.

    Args:
        smoke: One of them, with few steps.
        seeds: These splits, in place of the usual ones.
    """
    options: dict[str, Any] = {"recipe": recipe_version(counts=False)}
    if smoke:
        options["max_epochs"] = 2
    wanted = [SEEDS[0]] if smoke else SEEDS if seeds is None else seeds
    return [Trial("ceiling", COLUMN, ROW, seed, tuple(sorted(options.items()))) for seed in wanted]


def execute(trial: Trial) -> dict[str, float]:
    """What the recipe, the best model and the best mixture score, by what they are given."""
    problem = load(trial.dataset, trial.seed)
    recipe = CONTINUOUS["recipe"]
    fits = [fit_row(trial, problem, recipe)]
    members = pc.CopulaGNN(**recipe.model).variants()
    fits += [fit_row(trial, problem, recipe, model=one, restarts=1) for one in members]
    fits += [fit_row(trial, problem, row) for name, row in CONTINUOUS.items() if name != "recipe"]
    nodes = problem.test.nonzero().squeeze(-1)
    if trial.option("max_epochs") is not None:
        nodes = nodes[:5]
    y = problem.data.y
    means = {"others_": [means_given_others(fit, y, nodes) for fit in fits]}
    means["all_"] = [fit.predict(nodes=nodes).mean for fit in fits]
    for fit in fits:
        forget_validation(fit, problem)
    means[""] = [fit.predict(nodes=nodes).mean for fit in fits]
    metrics: dict[str, float] = {"models": len(fits)}
    for given, rows in means.items():
        scores = _compare(torch.stack(rows), y[nodes])
        metrics |= {f"{given}{name}": score for name, score in scores.items()}
    return metrics


@torch.no_grad()
def means_given_others(fit: Any, y: Tensor, nodes: Tensor) -> Tensor:
    """The mean of each of these nodes given the values of every other node, fitted to or not.

    Args:
        fit: A fit or an ensemble.
        y: The values of all nodes.
        nodes: The nodes to predict.
    """
    means = torch.zeros(len(nodes), dtype=y.dtype)
    for member, weight in getattr(fit, "members", [(fit, 1.0)]):
        law = member.model.eval().joint()
        for k, node in enumerate(nodes):
            means[k] += weight * law.condition(y.index_fill(0, node, math.nan)).mean.squeeze()
    return means


def _compare(means: Tensor, y: Tensor) -> dict[str, float]:
    scores = [pc.metrics.r2(y, mean) for mean in means]
    mixture = best_weights(means, y) @ means
    return {
        "r2": scores[0],
        "best_r2": max(scores),
        "mixture_r2": pc.metrics.r2(y, mixture),
    }


def best_weights(means: Tensor, y: Tensor) -> Tensor:
    """The weights of a mixture whose mean is closest to the values.

    Args:
        means: A row of predicted means per model; ``(models, values)``.
        y: The values.

    Returns:
        Weights that are not negative and sum to one.
    """
    # Least squares under signs, with the sum as one more equation that counts for nearly all.
    rows = np.vstack([means.T.numpy(), np.full(len(means), _PENALTY)])
    weights, _ = scipy.optimize.nnls(rows, np.append(y.numpy(), _PENALTY))
    return torch.from_numpy(weights / weights.sum())


def section(records: Records) -> str:
    """The section, empty without records."""
    names = [f"{given}{name}" for given in GIVEN for name in ("r2", "best_r2", "mixture_r2")]
    found = {name: by_seed(records, ROW, COLUMN, name) for name in (*names, "models")}
    seeds = sorted(found["r2"])
    if not seeds:
        return ""
    rows = {str(seed): [found[name][seed] for name in names] for seed in seeds}
    rows["mean"] = list(np.mean(list(rows.values()), axis=0))
    lines = [[first, *(f"{value:.3f}" for value in row)] for first, row in rows.items()]
    heads = [f"{what}{given}" for given in GIVEN.values() for what in _COMPARED]
    count = int(found["models"][seeds[0]])
    text = prose.CEILING.format(models=count).strip()
    return f"{text}\n\n{prose.markdown(['split', *heads], lines)}"
