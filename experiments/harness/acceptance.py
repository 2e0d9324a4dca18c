"""What the model and its fits must hold, measured: recovery, calibration, known data.

Trials of the kind ``recovery`` simulate from the model itself (settings b and c, normal and
negative binomial, 2,000 nodes, 40% missing) and fit it in all four ways. The others are cells of
the tables on splits that the search for recipes did not see, or that were named beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyro
import torch
from torch import Tensor

import pyro_copula as pc

from .models import ML_SCHEDULE, LastState, limited, recipe_version, run_model
from .problems import ELECTION, load
from .trials import Trial

NUM_NODES, NUM_EDGES, MISSING = 2000, 8000, 0.4
GAMMA, TAU = 0.1, 1.0
METHODS = ("mle", "map", "svi", "nuts")
#: The laws of the recovery trials: family, mean count, and the ways to fit. Counts of mean 50 are
#: many enough for the midpoint rule; those of mean 5 show whether it matters there.
LAWS: dict[str, tuple[str, float, tuple[str, ...]]] = {
    "normal": ("normal", 5.0, METHODS),
    "negative binomial, mean 50": ("negative_binomial", 50.0, METHODS),
    "negative binomial, mean 5": ("negative_binomial", 5.0, METHODS[:1]),
}
#: Seeds of the recovery trials: many where they are cheap, to tell a bias from chance.
RECOVERY_SEEDS = {"mle": range(1, 11), "map": range(1, 11), "svi": (1, 2), "nuts": (1, 2)}
LEVEL = 0.9

#: Cells of the tables that have a target: data set, row, seeds.
CELLS: tuple[tuple[str, str, tuple[int, ...]], ...] = (
    ("unemployment", "ab-C-SAGE, library", (1,)),
    ("unemployment", "R-C-SAGE, learned scale", (1,)),
    ("emnlp", "NB-R-C-SAGE", (1, 2, 3)),
    ("emnlp", "NB-R-C-SAGE, power", (1, 2, 3)),
    ("emnlp", "NB-R-C-SAGE + graph features", (1, 2, 3)),
    ("emnlp", "shifted NB-R-C-SAGE", (1, 2, 3)),
    ("wiki-chameleon", "NB-ab-C-SAGE", (1, 2, 3)),
    ("wiki-chameleon", "Poisson-ab-C-SAGE", (1, 2, 3)),
    *((outcome, "recipe", (4, 5, 6)) for outcome in ELECTION),
    *((outcome, "linear + CAR + nugget", (4, 5, 6)) for outcome in ELECTION),
)


def trials(*, smoke: bool = False, seeds: Sequence[int] | None = None) -> list[Trial]:
    """The trials.

    Args:
        smoke: A few of them, on small graphs.
        seeds: Of the recovery trials, in place of the usual ones.
    """
    made = []
    options: tuple[tuple[str, Any], ...] = (("max_epochs", 20), ("num_nodes", 150)) if smoke else ()
    for setting in ("b", "c"):
        for law, (_, _, methods) in LAWS.items():
            name = f"recovery:{setting}:{law}"
            for method in METHODS[:1] if smoke else methods:
                for seed in (1,) if smoke else seeds or RECOVERY_SEEDS[method]:
                    made.append(Trial("acceptance", name, method, seed, options))
    if not smoke:
        for column, row, chosen in CELLS:
            options = (("recipe", recipe_version(counts=False)),) if row == "recipe" else ()
            made += [Trial("acceptance", column, row, seed, options) for seed in chosen]
    return made


def execute(trial: Trial) -> dict[str, Any]:
    """The metrics of a trial."""
    if trial.dataset.startswith("recovery:"):
        return recover(trial)
    return run_model(trial, load(trial.dataset, trial.seed))


def recover(trial: Trial) -> dict[str, float]:
    """Fits the law that the data were drawn from, and scores parameters and intervals."""
    _, setting, law = trial.dataset.split(":")
    family, count_level, _ = LAWS[law]
    num_nodes = trial.option("num_nodes", NUM_NODES)
    data = pc.simulate.paper_setting(
        setting,
        family=family,
        tau=TAU,
        gamma=GAMMA,
        seed=trial.seed,
        num_nodes=num_nodes,
        num_edges=NUM_EDGES * num_nodes // NUM_NODES,
        edge_count="undirected",
        count_level=count_level,
    )
    graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=num_nodes)
    if setting == "c":  # the mean is linear in these
        data.x = _neighbourhood_mean(graph, data.x)
    generator = torch.Generator().manual_seed(trial.seed)
    observed = torch.rand(num_nodes, generator=generator) >= MISSING
    result = pc.fit(
        pc.CopulaGNN(backbone="linear", marginal=family, precision="laplacian"),
        data,
        observed,
        method=trial.model,
        seed=trial.seed,
        validation=0.02,  # maximum likelihood proper, so next to nothing is held out
        judge=LastState(),
        schedule=limited(trial, ML_SCHEDULE),
        lr=0.02,
        weight_decay=0.0,
        num_draws=150,
        num_warmup=150,
        progress=False,
    )
    pyro.set_rng_seed(trial.seed)
    prediction = result.predict(num_samples=1000)
    scores = prediction.score(data.y, level=LEVEL)
    metrics = {name: scores[name] for name in scores}
    metrics |= _dependence(result)
    metrics |= _sums(prediction.samples, data.y[prediction.nodes], prediction.nodes, graph)
    return metrics


def _dependence(result: Any) -> dict[str, float]:
    """The estimate of gamma, its error in logs, and what the posterior says of it."""
    estimate = result.scalars["gamma"]
    found = {"gamma": estimate, "log_error": math.log(estimate / GAMMA)}
    if result.posterior is not None:
        draws = result.posterior["gamma"].reshape(-1)
        tail = (1 - LEVEL) / 2
        low, high = float(draws.quantile(tail)), float(draws.quantile(1 - tail))
        found |= {
            "posterior_low": low,
            "posterior_high": high,
            "posterior_log_sd": float(draws.log().std()),
            "posterior_covers": float(low <= GAMMA <= high),
        }
    return found


def _sums(samples: Tensor, y: Tensor, nodes: Tensor, graph: pc.Graph) -> dict[str, float]:
    """Coverage of intervals for sums over a node and its neighbours, as far as missing.

    Once from joint draws, once from the same draws with each node's order shuffled: these have
    the same marginals and no dependence.
    """
    adjacency = graph.to_scipy().tocsr()
    chosen = nodes.numpy()
    members = torch.from_numpy(adjacency[chosen][:, chosen].toarray()).to(samples.dtype)
    members += torch.eye(len(chosen), dtype=samples.dtype)
    members = members[members.sum(1) >= 3]
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(samples.shape, generator=generator).argsort(0)
    shuffled = samples.gather(0, order)
    truth = members @ y.to(samples.dtype)
    found = {"groups": float(len(members))}
    tail = (1 - LEVEL) / 2
    for name, draws in (("joint", samples), ("independent", shuffled)):
        sums = draws @ members.T
        interval = (sums.quantile(tail, dim=0), sums.quantile(1 - tail, dim=0))
        found[f"sum_coverage_{name}"] = pc.metrics.coverage(truth, interval)
        found[f"sum_width_{name}"] = pc.metrics.interval_width(interval)
    return found


def _neighbourhood_mean(graph: pc.Graph, x: Tensor) -> Tensor:
    total = torch.from_numpy(graph.to_scipy() @ x.numpy()) + x
    return total / (graph.degree + 1).unsqueeze(-1).to(x.dtype)
