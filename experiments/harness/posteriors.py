"""Full Bayes with discrete outcomes: two posteriors by NUTS, and whether they are calibrated.

Both models are negative-binomial regressions with a proper CAR copula: the deaths of the counties
of North Carolina given births, and a lattice of 144 nodes. ``nuts`` samples the posterior of real
or simulated data under every rule; ``sbc`` is one replication of simulation-based calibration.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyro
import pyro.distributions as dist
import torch
from torch import Tensor

import pyro_copula as pc
from pyro_copula.calibration import NUTSSampler

from .augmented import DENSITIES, Build
from .trials import Trial
from .whitened import WhitenedNUTS

MODELS = ("counties", "lattice")
#: The last two are no rules of the library; see ``augmented``.
RULES = ("exact", "ep", "augment", "guided", "uniform")
#: The rule that samples the global parameters alone, from the exact likelihood.
RECOMMENDED = "exact"
SBC_SEEDS = tuple(range(1, 201))
NUM_DRAWS, THIN, WARMUP = 49, 2, 50
CHAINS, CHAIN_DRAWS, CHAIN_WARMUP = 4, 500, 200


def trials(seeds: Sequence[int] | None = None) -> list[Trial]:
    """The trials: a posterior by rule and model, and the replications."""
    made = [Trial("discrete", f"nuts:{model}", rule, 1) for model in MODELS for rule in RULES]
    for seed in seeds or SBC_SEEDS:
        made += [Trial("discrete", f"sbc:{model}", RECOMMENDED, seed) for model in MODELS]
    return made


def execute(trial: Trial) -> dict[str, Any]:
    """The metrics of a trial."""
    kind, _, name = trial.dataset.partition(":")
    build, y = regression(name)
    if kind != "nuts":
        return replicate(trial, program(build, trial.model))
    if y is None:  # the same for every rule, of which some draw more than others
        pyro.set_rng_seed(trial.seed)
        with torch.no_grad():
            traced = pyro.poutine.trace(program(build, RECOMMENDED)).get_trace()
        y = traced.nodes["y"]["value"]
    return sample(trial, program(build, trial.model, y), y)


def regression(name: str) -> tuple[Build, Tensor | None]:
    """Priors that give marginals and a precision, and the values to condition on if real."""
    if name == "counties":
        data = pc.datasets.nc_sids()
        graph = pc.Graph.from_edge_index(data.edge_index, num_nodes=data.num_nodes)
        x, exposure = data.x[:, 0].double(), data.exposure.double()
        y, level = data.y.double(), float(np.log(0.002))
    else:
        graph = pc.simulate.grid_graph(12, 12)
        x = torch.tensor(np.random.default_rng(0).normal(size=graph.num_nodes))
        exposure, y, level = torch.ones(graph.num_nodes, dtype=torch.float64), None, 0.0
    x = (x - x.mean()) / x.std()
    precision = pc.CARPrecision(graph)
    centre = torch.tensor([level, 0.0], dtype=torch.float64)

    def build() -> tuple[Any, pc.SparsePrecision]:
        rho = pyro.sample("rho", dist.Beta(4.0, 1.0))
        dispersion = pyro.sample("dispersion", dist.LogNormal(-1.0, 0.5))
        weights = pyro.sample("weights", dist.Normal(centre, 0.5).to_event(1))
        mean = exposure * (weights[0] + weights[1] * x).exp()
        law = dist.NegativeBinomial(1 / dispersion, logits=(mean * dispersion).log())
        return law, precision(rho=rho, tau=1.0)

    return build, y


def program(build: Build, rule: str, y: Tensor | None = None) -> Callable[..., Any]:
    """The Pyro program under a rule; one that is not the library's needs the values beforehand."""
    if rule in DENSITIES:
        assert y is not None
        density = DENSITIES[rule](build, y)
        return lambda y: pyro.factor("y", density(*build()))

    def model(y: Tensor | None = None) -> None:
        law, K = build()
        copula = pc.GaussianCopula(law, precision=K, discrete=rule, num_particles=64)
        pyro.sample("y", copula, obs=y)

    return model


def sample(trial: Trial, model: Callable[..., Any], y: Tensor) -> dict[str, float]:
    """Convergence, divergences and cost of a posterior."""
    calls = 0

    def counted() -> None:
        nonlocal calls
        calls += 1
        model(y)

    few = trial.model not in ("augment", *DENSITIES)  # latents are as many as nodes
    sampler = (WhitenedNUTS if few else NUTSSampler)(CHAINS * CHAIN_DRAWS, CHAIN_WARMUP, CHAINS)
    start = time.perf_counter()
    draws = sampler(counted, y, trial.seed)
    seconds = time.perf_counter() - start
    result = {**draws.health, "gradients": float(calls), "sampling_seconds": seconds}
    for name in ("rho", "dispersion", "weights"):
        flat = draws.values[name].reshape(len(draws.values[name]), -1)
        for k, column in enumerate(flat.T):
            label = name if flat.shape[1] == 1 else f"{name}[{k}]"
            result[f"mean_{label}"], result[f"sd_{label}"] = (
                float(column.mean()),
                float(column.std()),
            )
            chains = column.reshape(CHAINS, -1)
            result[f"ess_{label}"] = float(pyro.ops.stats.effective_sample_size(chains))
    return result


def replicate(trial: Trial, model: Callable[..., Any]) -> dict[str, float]:
    """The ranks of one replication."""
    result = pc.simulation_based_calibration(
        model,
        sampler=WhitenedNUTS(NUM_DRAWS * THIN, WARMUP),
        num_draws=NUM_DRAWS,
        thin=THIN,
        num_simulations=1,
        seed=trial.seed,
        progress=False,
    )
    return {f"rank_{name}": float(ranks[0]) for name, ranks in result.ranks.items()}
