"""The rows of the tables: the paper's models, what the library adds, and baselines.

Every row is a function of a problem, a seed and options that gives metrics on the test nodes.
Metrics of the plain names condition on training values only, as published; with the prefix
``all_`` they condition on the validation values too, which a user has and would use.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyro
import torch
from torch import Tensor

import pyro_copula as pc
from pyro_copula.errors import MidpointWarning

from . import baselines, fleet, published
from .problems import Problem
from .trials import Trial

#: The published schedule: a look every 20 epochs, patience of 50 looks, 10,000 epochs at most.
PUBLISHED_SCHEDULE = pc.Schedule(max_epochs=10_000, check_every=20, patience=50, tolerance=0.0)
LEVEL = 0.9

#: Rows of the paper: the network and the precision.
PAPER = {
    "MLP": ("mlp", "none"),
    "GCN": ("gcn", "none"),
    "ab-C-GCN": ("gcn", "alpha_beta"),
    "R-C-GCN": ("gcn", "regression"),
    "SAGE": ("sage", "none"),
    "ab-C-SAGE": ("sage", "alpha_beta"),
    "R-C-SAGE": ("sage", "regression"),
    # Figure 1 only.
    "GAT": ("gat", "none"),
    "APPNP": ("appnp", "none"),
    "APPNP, two steps": ("short appnp", "none"),
    "ab-C-MLP": ("mlp", "alpha_beta"),
    "R-C-MLP": ("mlp", "regression"),
}


@dataclass(frozen=True)
class Row:
    """A row beyond the paper: the arguments of a model and of its fit.

    Attributes:
        model: Of ``CopulaGNN``.
        fit: Of ``pc.fit``, and ``early_stopping``; by default the library's.
        note: What it is, for the table.
    """

    model: dict[str, Any]
    fit: dict[str, Any] = field(default_factory=dict)
    note: str = ""


#: Regressions are fitted by maximum likelihood proper: no weight decay, no early stopping.
_REGRESSION = {"weight_decay": 0.0, "lr": 0.05, "scalar_lr": 0.05, "early_stopping": False}
#: Long enough for a regression with few parameters to converge.
ML_SCHEDULE = pc.Schedule(max_epochs=801, check_every=100, patience=100)
_GRAPH = {"graph_features": True}
_FREE = {"family": "normal", "scale": "global"}
_NODE = {"family": "normal", "scale": "node"}
_GLM = {"backbone": "linear", "precision": "none", **_GRAPH, "neighbour_outcomes": True}

CONTINUOUS: dict[str, Row] = {
    "R-C-SAGE, learned scale": Row(
        {"backbone": "sage", "marginal": "normal", "precision": "edge_regression"},
        note="edge regression whose overall scale is learned",
    ),
    "ab-C-SAGE, library": Row(
        {"backbone": "sage", "marginal": "normal", "precision": "normalized_adjacency"},
        note="the library's SAGE and stopping rule",
    ),
    "R-C-SAGE, free scale": Row(
        {"backbone": "sage", "marginal": _FREE, "precision": "edge_regression"},
        note="one scale for all marginals, not tied to the precision",
    ),
    "R-C-SAGE, node scale": Row(
        {"backbone": "sage", "marginal": _NODE, "precision": "edge_regression"},
        note="a scale per node from the network",
    ),
    "R-C-SAGE, Student-t": Row(
        {"backbone": "sage", "marginal": "student_t", "precision": "edge_regression"},
        note="heavy-tailed marginals",
    ),
    "linear + CAR": Row(
        {"backbone": "linear", "marginal": "normal", "precision": "car"},
        _REGRESSION,
        "proper CAR by maximum likelihood",
    ),
    "linear + CAR + nugget": Row(
        {"backbone": "linear", "marginal": "normal", "precision": "car", "nugget": True},
        _REGRESSION,
        "the same with independent noise",
    ),
    "linear + CAR + nugget + graph features": Row(
        {
            **{"backbone": "linear", "marginal": "normal", "precision": "car", "nugget": True},
            **_GRAPH,
        },
        _REGRESSION,
        "the same with log degree and neighbour means",
    ),
    "recipe": Row({"recipe": "continuous"}, note='recipe="continuous", a stack of five'),
}

COUNT: dict[str, Row] = {
    "NB-R-C-SAGE": Row(
        {"backbone": "sage", "marginal": "negative_binomial", "precision": "edge_regression"},
        note="negative-binomial marginals",
    ),
    "NB-R-C-SAGE, power": Row(
        {
            **{"backbone": "sage", "precision": "edge_regression"},
            **{"marginal": {"family": "negative_binomial", "power": True}},
        },
        note="a dispersion that varies as a power of the mean",
    ),
    "NB-R-C-SAGE + graph features": Row(
        {
            **{"backbone": "sage", "marginal": "negative_binomial"},
            **{"precision": "edge_regression", **_GRAPH},
        },
        note="the same with log degree and neighbour means",
    ),
    "shifted NB-R-C-SAGE": Row(
        {
            **{"backbone": "sage", "marginal": "shifted_negative_binomial"},
            **{"precision": "edge_regression"},
        },
        {"lr": (0.01, 0.003, 0.001)},
        note="the law of y - 1, the learning rate chosen by validation score",
    ),
    "NB-ab-C-SAGE": Row(
        {"backbone": "sage", "marginal": "negative_binomial", "precision": "normalized_adjacency"},
        note="negative-binomial marginals",
    ),
    "Poisson-ab-C-SAGE": Row(
        {"backbone": "sage", "marginal": "poisson", "precision": "normalized_adjacency"},
        note="Poisson marginals, the library's SAGE and stopping rule",
    ),
    "LN-ab-C-SAGE": Row(
        {"backbone": "sage", "marginal": "lognormal", "precision": "normalized_adjacency"},
        note="lognormal marginals: no count is zero; its log score is a density",
    ),
    "Poisson GLM": Row({**_GLM, "marginal": "poisson"}, _REGRESSION, "graph features and outcomes"),
    "NB GLM": Row(
        {**_GLM, "marginal": "negative_binomial"}, _REGRESSION, "graph features and outcomes"
    ),
    "shifted NB GLM": Row(
        {**_GLM, "marginal": "shifted_negative_binomial"},
        _REGRESSION,
        "the law of y - 1",
    ),
    "NB + CAR": Row(
        {
            **{"backbone": "linear", "marginal": "negative_binomial", "precision": "car"},
            **{"nugget": True, **_GRAPH},
        },
        _REGRESSION,
        "negative-binomial regression, CAR copula with a nugget, graph features",
    ),
    "recipe": Row({"recipe": "counts"}, note='recipe="counts", a stack of five'),
}

#: The recipes without a part, which the note names, as changes of the model and of its fit.
ABLATIONS: dict[str, Row] = {
    "recipe, independent nodes": Row({"precision": "none", "nugget": False}, note="the copula"),
    "recipe, no nugget": Row({"nugget": False}, note="the nugget"),
    "recipe, one model": Row({}, {"restarts": 1}, "the other four models of the stack"),
}

#: The log scores of these rows are densities, those of other counts are probabilities.
DENSITIES = ("LN-ab-C-SAGE",)

BASELINES: dict[str, Callable[[Problem], dict[str, float]]] = {
    "label propagation": baselines.label_propagation,
}


def recipe_version(*, counts: bool) -> str:
    """A word for what the recipe says today: trials of an older one stay apart."""
    recipe = pc.models.RECIPES["counts" if counts else "continuous"]
    said = repr([sorted(recipe.model.items()), sorted(recipe.fit.items()), recipe.variants])
    return hashlib.sha256(said.encode()).hexdigest()[:8]


def run_model(trial: Trial, problem: Problem) -> dict[str, float]:
    """The metrics of a row on a problem.

    Args:
        trial: Has the row's name, the seed of the fit and options.
        problem: The data.
    """
    if trial.model in BASELINES:
        return BASELINES[trial.model](problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MidpointWarning)  # the paper's rule, on the paper's data
        if trial.model in PAPER:
            return _run_published(trial, problem)
        return _run_row(trial, problem)


def _run_published(trial: Trial, problem: Problem) -> dict[str, float]:
    result = _fit_published(trial, problem, limited(trial, PUBLISHED_SCHEDULE))
    published.set_residual_scale(result, problem.validation)
    return _scores(result, problem, trial.seed)


def _fit_published(trial: Trial, problem: Problem, schedule: pc.Schedule) -> Any:
    network, precision = PAPER[trial.model]
    y_train = problem.data.y[problem.train]
    return pc.fit(
        published.published_model(network, precision, problem.data, counts=problem.counts),
        problem.data,
        problem.observed,
        validation=problem.validation,
        seed=trial.seed,
        lr=[float(lr) for lr in trial.option("lr", (0.01, 0.001))],
        optimizer=published.one_group_adam,
        schedule=schedule,
        judge=published.published_judge(y_train, counts=problem.counts),
        progress=False,
    )


def can_join_a_fleet(trial: Trial) -> bool:
    """Whether the model can be trained beside others: see :mod:`harness.fleet`."""
    return trial.model in PAPER and len(trial.option("lr", ())) == 1


def run_fleet(trials: Sequence[Trial], problems: Sequence[Problem]) -> list[dict[str, float]]:
    """The metrics of trials of one published model on data sets of one size.

    Args:
        trials: Trials that differ in their data and seeds only.
        problems: Their data.
    """
    members = []
    for trial, problem in zip(trials, problems):
        # A look comes before the first step, so that this is the first state.
        first = _fit_published(trial, problem, pc.Schedule(max_epochs=1))
        members.append(fleet.Member(problem, first))
    schedule = limited(trials[0], PUBLISHED_SCHEDULE)
    network, lr = PAPER[trials[0].model][0], float(trials[0].option("lr")[0])
    fleet.train_together(members, network, lr, schedule)
    metrics = []
    for trial, member in zip(trials, members):
        published.set_residual_scale(member.fit, member.problem.validation)
        metrics.append(_scores(member.fit, member.problem, trial.seed))
    return metrics


def row_of(name: str, *, counts: bool) -> Row:
    """A row beyond the paper by its name."""
    rows = COUNT if counts else CONTINUOUS
    if name in ABLATIONS:
        whole, change = rows["recipe"], ABLATIONS[name]
        return Row({**whole.model, **change.model}, {**whole.fit, **change.fit}, change.note)
    return rows[name]


def _run_row(trial: Trial, problem: Problem) -> dict[str, float]:
    row = row_of(trial.model, counts=problem.counts)
    options = {} if trial.option("restarts") is None else {"restarts": trial.option("restarts")}
    return _scores(fit_row(trial, problem, row, **options), problem, trial.seed)


def fit_row(
    trial: Trial, problem: Problem, row: Row, *, model: pc.CopulaGNN | None = None, **given: Any
) -> Any:
    """Fits a row beyond the paper.

    Args:
        trial: Has the seed, and ``max_epochs`` if it is to be cut short.
        problem: The data.
        row: The row.
        model: In place of the row's.
        given: Options of the fit, in place of the row's.
    """
    options = {**row.fit, **given}
    default = pc.Schedule()
    if not options.pop("early_stopping", True):
        default = ML_SCHEDULE
        options["judge"] = LastState()
    return pc.fit(
        pc.CopulaGNN(**row.model) if model is None else model,
        problem.data,
        problem.observed,
        validation=problem.validation,
        seed=trial.seed,
        schedule=limited(trial, default),
        progress=False,
        **options,
    )


class LastState:
    """A validation score that always improves: the fit ends in its last state."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self, conditional: Any, values: Any) -> float:
        self.looks += 1
        return float(self.looks)


def limited(trial: Trial, default: pc.Schedule) -> pc.Schedule:
    """The schedule, cut short if the trial asks for it."""
    limit = trial.option("max_epochs")
    if limit is None:
        return default
    return pc.Schedule(int(limit), default.check_every, default.patience, default.tolerance)


# ---------------------------------------------------------------- scores


def _scores(result: Any, problem: Problem, seed: int) -> dict[str, float]:
    """Scores at the test nodes, given training values and given all observed ones."""
    fits = getattr(result, "fits", [result])
    nodes = problem.test.nonzero().squeeze(-1)
    y_train = problem.data.y[problem.train]
    metrics: dict[str, float] = {}
    pyro.set_rng_seed(seed)  # the CRPS is that of draws
    prediction = result.predict(nodes=nodes)
    metrics |= {f"all_{k}": v for k, v in _judged(prediction, problem).items()}
    forget_validation(result, problem)
    prediction = result.predict(nodes=nodes)
    metrics |= _judged(prediction, problem)
    if not problem.counts:
        metrics["worst_five"] = worst_nodes(problem.y_test, prediction.mean, 5)
    clamped = published.clamp_prediction(prediction.mean, y_train)
    metrics["published"] = published.metric(problem.counts)(problem.y_test, clamped)
    metrics["validation"] = sum(one.history.best_score for one in fits) / len(fits)
    metrics["lr"] = float(fits[0].settings["lr"])  # the one that validation chose
    metrics["epochs"] = sum(len(one.history.losses) for one in fits)
    metrics["best_epoch"] = sum(one.history.best_epoch for one in fits) / len(fits)
    metrics |= {f"parameter_{name}": value for name, value in result.scalars.items()}
    return metrics


def _judged(prediction: Any, problem: Problem) -> dict[str, float]:
    """The scores of a prediction; counts are judged as counts under a continuous law too."""
    scores = prediction.score(problem.y_test, level=LEVEL)
    if problem.counts:
        scores["r2_deviance"] = pc.metrics.r2_deviance(problem.y_test, prediction.mean)
    return scores


def forget_validation(result: Any, problem: Problem) -> None:
    """Predictions condition on training values only from here on."""
    for one in getattr(result, "fits", [result]):  # also in features that are made of values
        one.model.observe(one.model.data.hide(problem.validation))


def worst_nodes(y: Tensor, mean: Tensor, count: int) -> float:
    """What the worst predicted nodes cost in R2: their squared errors over the sum of squares."""
    squared = (y - mean).square().topk(min(count, len(y))).values
    return float(squared.sum() / (y - y.mean()).square().sum())


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread, since trials are the unit of parallelism, and float64, as in the tests."""
    before = torch.get_num_threads(), torch.get_default_dtype()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        torch.set_default_dtype(before[1])
