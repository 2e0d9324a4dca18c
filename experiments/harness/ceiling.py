"""How good a stack could be: the best mixture of many models, chosen on the test values themselves.

No honest choice of weights can do better than weights that have seen the answers. Where even those
stay below a target, the target asks for more than these models know of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

import pyro_copula as pc

from . import prose
from .models import CONTINUOUS, fit_row, forget_validation, recipe_version
from .problems import Problem, load
from .stats import by_seed
from .trials import Trial

COLUMN, SEEDS = "unemployment", range(4, 7)
#: The row of the study: all models at once.
ROW = "best mixture"
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
    """What the recipe, the best model and the best mixture score, given training values and all."""
    problem = load(trial.dataset, trial.seed)
    recipe = CONTINUOUS["recipe"]
    fits = [fit_row(trial, problem, recipe)]
    members = pc.CopulaGNN(**recipe.model).variants()
    fits += [fit_row(trial, problem, recipe, model=one, restarts=1) for one in members]
    fits += [fit_row(trial, problem, row) for name, row in CONTINUOUS.items() if name != "recipe"]
    metrics: dict[str, float] = {"models": len(fits)}
    metrics |= {f"all_{k}": v for k, v in _compare(fits, problem).items()}
    for one in fits:
        forget_validation(one, problem)
    return metrics | _compare(fits, problem)


def _compare(fits: Sequence[Any], problem: Problem) -> dict[str, float]:
    nodes = problem.test.nonzero().squeeze(-1)
    means = torch.stack([fit.predict(nodes=nodes).mean for fit in fits])
    scores = [pc.metrics.r2(problem.y_test, mean) for mean in means]
    mixture = best_weights(means, problem.y_test) @ means
    return {
        "r2": scores[0],
        "best_r2": max(scores),
        "mixture_r2": pc.metrics.r2(problem.y_test, mixture),
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
    names = ("r2", "best_r2", "mixture_r2")
    found = {
        name: by_seed(records, ROW, COLUMN, name)
        for name in (*names, *(f"all_{name}" for name in names), "models")
    }
    seeds = sorted(found["r2"])
    if not seeds:
        return ""
    lines = [
        [str(seed), *(f"{found[n][seed]:.3f}" for n in (*names, *(f"all_{n}" for n in names)))]
        for seed in seeds
    ]
    means = [
        f"{np.mean([found[n][s] for s in seeds]):.3f}"
        for n in (*names, *(f"all_{n}" for n in names))
    ]
    lines.append(["mean", *means])
    heads = ["recipe", "best model", "best mixture"]
    heads = ["split", *heads, *(f"{head}, all observed" for head in heads)]
    count = int(found["models"][seeds[0]])
    return f"{prose.CEILING.format(models=count).strip()}\n\n{prose.markdown(heads, lines)}"
