"""What the rules for discrete outcomes cost and what they get right: the trials.

``bias`` fits rho and the mean of Poisson counts on a lattice by maximum likelihood under every
rule; ``noise`` repeats one evaluation with other random numbers; ``cost`` times a value and a
gradient against one evaluation of the midpoint rule. ``posteriors`` has full Bayes.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyro.distributions as dist
import scipy.optimize
import torch
from torch import Tensor

import pyro_copula as pc
from pyro_copula.errors import MidpointWarning

from . import posteriors
from .trials import Trial

RULES = ("midpoint", "exact", "ep")
RHO, MEANS, SIDE = 0.96, (0.3, 1.0, 3.0), 32
BIAS_SEEDS = tuple(range(1, 37))
#: Where noise and cost are measured.
GRAPHS = ("lattice 64 x 64, Poisson 0.3", "emnlp, negative binomial", "election, Poisson 1")
REPEATS = 20


def trials(*, smoke: bool = False, seeds: Sequence[int] | None = None) -> list[Trial]:
    """The trials; ``smoke`` takes one of each kind on a small lattice."""
    if smoke:
        small = (("side", 8),)
        return [
            *(Trial("discrete", "bias:mean=1.0", rule, 1, small) for rule in RULES),
            Trial("discrete", f"noise:{GRAPHS[0]}", "exact", 1, (*small, ("repeats", 2))),
            Trial("discrete", f"cost:{GRAPHS[0]}", "exact", 1, (*small, ("repeats", 2))),
        ]
    made = [
        Trial("discrete", f"bias:mean={mean}", rule, seed)
        for seed in seeds or BIAS_SEEDS
        for mean in MEANS
        for rule in RULES
    ]
    made += posteriors.trials(seeds)
    made += [
        Trial("discrete", f"{kind}:{g}", "exact", 1) for g in GRAPHS for kind in ("noise", "cost")
    ]
    return made


def execute(trial: Trial) -> dict[str, Any]:
    """The metrics of a trial."""
    kind, _, what = trial.dataset.partition(":")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MidpointWarning)  # its bias is what is measured
        if kind in ("nuts", "sbc"):
            return posteriors.execute(trial)
        if kind == "bias":
            return bias(trial, float(what.removeprefix("mean=")))
        return (noise if kind == "noise" else cost)(trial, what)


# ---------------------------------------------------------------- bias


def square(side: int) -> pc.Graph:
    """A square lattice."""
    return pc.simulate.grid_graph(side, side)


def bias(trial: Trial, mean: float) -> dict[str, float]:
    """Maximum likelihood of rho and the mean, on data drawn with known ones."""
    graph = square(trial.option("side", SIDE))
    torch.manual_seed(1000 * trial.seed + int(100 * mean))
    truth = pc.GaussianCopula(
        dist.Poisson(torch.full((graph.num_nodes,), mean)),
        precision=pc.CARPrecision(graph)(rho=RHO, tau=1.0),
    )
    y = truth.sample()
    precision = pc.CARPrecision(graph)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        logit, log_mean = torch.tensor(theta, requires_grad=True).unbind()
        both = torch.stack([logit, log_mean])
        both.retain_grad()
        law = dist.Poisson(both[1].exp().expand(graph.num_nodes))
        copula = pc.GaussianCopula(
            law, precision=precision(rho=both[0].sigmoid(), tau=1.0), discrete=trial.model
        )
        loss = -copula.log_prob(y)
        loss.backward()
        return float(loss.detach()), both.grad.numpy()

    start = np.array([2.0, math.log(max(float(y.mean()), 0.05))])
    found = scipy.optimize.minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=[(-4.0, 14.0), (-6.0, 6.0)]
    )
    logit, log_mean = found.x
    return {
        "rho": float(1 / (1 + math.exp(-logit))),
        "logit_error": float(logit - math.log(RHO / (1 - RHO))),
        "mean": math.exp(log_mean),
        "log_mean_error": float(log_mean - math.log(mean)),
        "loss": float(found.fun),
        "evaluations": float(found.nfev),
    }


# ---------------------------------------------------------------- noise and cost


def problem(name: str, side: int) -> tuple[Callable[..., Any], Tensor]:
    """A function of the rule's options that gives a copula and its leaves, and the values."""
    torch.manual_seed(0)
    if name.startswith("lattice"):
        graph, law = square(side), dist.Poisson
        parameters: tuple[Any, ...] = (torch.full((graph.num_nodes,), 0.3),)
    elif name.startswith("election"):
        data = pc.datasets.election("unemployment")
        graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
        law, parameters = dist.Poisson, (torch.ones(graph.num_nodes),)
    else:
        data = pc.datasets.emnlp()
        graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
        # Mean and overdispersion of the data, the same at every node.
        mean, variance = float(data.y.mean()), float(data.y.var())
        count = mean**2 / (variance - mean)
        law = dist.NegativeBinomial
        parameters = (torch.full((graph.num_nodes,), count), torch.tensor(mean / (mean + count)))
    rho = torch.tensor(RHO, requires_grad=True)
    leaves = [rho, *(p.clone().requires_grad_() for p in parameters)]

    def make(**options: Any) -> tuple[Any, list[Tensor]]:
        precision = pc.CARPrecision(graph)(rho=leaves[0], tau=1.0)
        return pc.GaussianCopula(law(*leaves[1:]), precision=precision, **options), leaves

    if name.startswith("emnlp"):
        y = data.y.double().clone()
        y[torch.rand(graph.num_nodes) > 0.34] = math.nan  # as many observed as the protocol has
    else:
        y = make()[0].sample()
    return make, y


def noise(trial: Trial, name: str) -> dict[str, float]:
    """The spread of the log likelihood over other random numbers, with 64 particles."""
    make, y = problem(name, trial.option("side", 64))
    with torch.no_grad():
        reports = [
            make(discrete="exact", num_particles=64, seed=seed)[0].exact_report(y)
            for seed in range(trial.option("repeats", REPEATS))
        ]
    values = np.array([report.log_prob for report in reports])
    return {
        "mean": float(values.mean()),
        "sd": float(values.std(ddof=1)),
        "reported_error": float(np.mean([report.standard_error for report in reports])),
        "effective_size": float(np.mean([report.effective_size for report in reports])),
        "largest_k_hat": float(np.max([report.k_hat for report in reports])),
        "ep": reports[0].ep_log_prob,
    }


def cost(trial: Trial, name: str) -> dict[str, float]:
    """Time of a value and of a gradient over those of the midpoint rule, in alternation."""
    make, y = problem(name, trial.option("side", 64))
    rules = {
        "midpoint": {"discrete": "midpoint"},
        "exact": {"discrete": "exact", "num_particles": 64},
        "ep": {"discrete": "ep"},
    }
    times: dict[str, list[tuple[float, float]]] = {rule: [] for rule in rules}
    for _ in range(trial.option("repeats", REPEATS) + 1):
        for rule, options in rules.items():
            start = time.perf_counter()
            copula, leaves = make(**options)
            value = copula.log_prob(y)
            middle = time.perf_counter()
            torch.autograd.grad(value, leaves)
            times[rule].append((middle - start, time.perf_counter() - start))
    median = {rule: np.median(np.array(pairs[1:]), axis=0) for rule, pairs in times.items()}
    with torch.no_grad():  # a value alone, as nobody who needs no gradient pays for one
        alone: dict[str, list[float]] = {rule: [] for rule in rules}
        for _ in range(trial.option("repeats", REPEATS) + 1):
            for rule, options in rules.items():
                start = time.perf_counter()
                make(**options)[0].log_prob(y)
                alone[rule].append(time.perf_counter() - start)
    value_time = {rule: float(np.median(values[1:])) for rule, values in alone.items()}
    result = {}
    for rule in ("exact", "ep"):
        result[f"{rule}_value"] = value_time[rule] / value_time["midpoint"]
        result[f"{rule}_gradient"] = float(median[rule][1] / median["midpoint"][1])
    return result
