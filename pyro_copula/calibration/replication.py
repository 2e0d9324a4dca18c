"""One replication: draw the truth and the data, sample the posterior, rank the truth."""

from __future__ import annotations

import hashlib
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyro
import torch
from pyro import poutine
from pyro.poutine.util import site_is_subsample
from pyro.util import get_rng_state, set_rng_state
from torch import Tensor

from ..errors import InvalidArgumentError
from .samplers import Draws

#: What the joint log likelihood is called among the quantities.
LOG_LIKELIHOOD = "log_likelihood"

#: The largest seed, with room for the two after it.
_MAX_SEED = 2**32 - 3


@dataclass(frozen=True)
class Setup:
    """What all replications share; see :func:`pyro_copula.simulation_based_calibration`.

    Attributes:
        model: The program.
        args: Its positional arguments.
        kwargs: Its keyword arguments, without the data.
        sites: The observed sites, and the arguments that take their values.
        observed: Which elements of a site are observed, by site; all of them if not there.
        parameters: The latent sites to rank, or None for every continuous one.
        sampler: Gives draws of the posterior.
        num_draws: The number of draws among which the truth is ranked.
        thin: Every so many draws of the sampler are one of them.
        quantities: Functions of the latent values and the data to rank too.
        log_likelihood: Whether to rank the joint log likelihood.
        params: The state of Pyro's parameter store.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    sites: Mapping[str, str]
    observed: Mapping[str, Tensor]
    parameters: tuple[str, ...] | None
    sampler: Callable[[Callable[[], Any], Any, int], Any]
    num_draws: int
    thin: int
    quantities: Mapping[str, Callable[[dict[str, Tensor], Any], Any]]
    log_likelihood: bool
    params: Any

    def program(self, values: Mapping[str, Tensor] | None = None) -> Callable[[], Any]:
        """The model with its arguments filled in, given values at the observed sites or not."""
        data = {
            argument: None if values is None else values[site]
            for site, argument in self.sites.items()
        }
        return lambda: self.model(*self.args, **self.kwargs, **data)


@dataclass(frozen=True)
class Truth:
    """What was drawn from the prior: all latent values, the data, and which sites to rank."""

    latent: dict[str, Tensor]
    values: dict[str, Tensor]
    ranked: tuple[str, ...]

    @property
    def digest(self) -> str:
        """The same for the same truth and data."""
        found = hashlib.sha256()
        for name, value in {**self.latent, **self.values}.items():
            found.update(name.encode())
            found.update(value.detach().double().numpy().tobytes())
        return found.hexdigest()[:16]


def replication_seed(seed: int, replication: int) -> int:
    """The seed of one replication: that of the truth; the next one is the sampler's."""
    state = np.random.SeedSequence([seed, replication]).generate_state(1)
    return int(state[0]) % _MAX_SEED


def run_replication(setup: Setup, replication: int, seed: int) -> dict[str, Any]:
    """The record of one replication: ranks and health, or the error that it ended with."""
    record: dict[str, Any] = {"replication": replication, "seed": seed}
    start = time.perf_counter()
    try:
        with _isolated(setup):
            record |= _ranked(setup, seed)
    except Exception as error:  # any failure is kept and reported, and stops no other replication
        record["error"] = f"{type(error).__name__}: {error}"
        record["traceback"] = traceback.format_exc()
    record["seconds"] = time.perf_counter() - start
    return record


def simulate(setup: Setup, seed: int) -> Truth:
    """Draws the latent values and the data from the model, as a replication does."""
    with _isolated(setup):
        return _simulated(setup, seed)


# ---------------------------------------------------------------- parts of a replication


@contextmanager
def _isolated(setup: Setup) -> Iterator[None]:
    """The parameters as they were given; the random numbers are left as they were."""
    before = get_rng_state()
    params = {name: dict(part) for name, part in setup.params.items()}  # the scope adds to it
    try:
        with pyro.get_param_store().scope(params):
            yield
    finally:
        set_rng_state(before)


def _simulated(setup: Setup, seed: int) -> Truth:
    pyro.set_rng_seed(seed)
    with torch.no_grad():
        trace = poutine.trace(setup.program()).get_trace()
    values = {}
    for site in setup.sites:
        if site not in trace.nodes or trace.nodes[site]["is_observed"]:
            raise InvalidArgumentError(
                "observed_site",
                f"drawn when the model is called with {setup.sites[site]}=None",
                f"{site!r}, which " + ("is not drawn" if site in trace.nodes else "is no site"),
                f"Write pyro.sample({site!r}, ..., obs={setup.sites[site]}).",
            )
        values[site] = _masked(trace.nodes[site]["value"], setup.observed.get(site), site)
    latent = {
        name: site["value"].detach() for name, site in _latent_sites(trace) if name not in values
    }
    if setup.parameters is not None:
        ranked = setup.parameters
    else:
        ranked = tuple(name for name in latent if _is_continuous(trace.nodes[name]["fn"]))
    unknown = [name for name in ranked if name not in latent]
    if unknown or not (ranked or setup.quantities or setup.log_likelihood):
        raise InvalidArgumentError(
            "parameters",
            f"some of the latent sites {sorted(latent)}",
            f"{unknown}" if unknown else "no site",
            "Name latent sites, or leave it out for every continuous one.",
        )
    return Truth(latent, values, ranked)


def _ranked(setup: Setup, seed: int) -> dict[str, Any]:
    truth = _simulated(setup, seed)
    given = setup.program(truth.values)
    y: Any = truth.values if len(truth.values) > 1 else next(iter(truth.values.values()))
    # Not the seed of the truth: a sampler that sets it would draw the truth again.
    pyro.set_rng_seed(seed + 1)
    result = setup.sampler(given, y, seed + 1)
    draws, health = (result.values, result.health) if isinstance(result, Draws) else (result, {})
    draws = {
        name: _thinned(name, draws[name], truth.latent[name].shape, setup)
        for name in truth.latent
        if name in draws
    }
    missing = [name for name in truth.ranked if name not in draws]
    if missing:
        raise InvalidArgumentError(
            "sampler",
            f"one that gives draws of {missing[0]!r}",
            f"draws of {sorted(draws)}",
            "Name in `parameters` what it does give.",
        )
    with torch.no_grad():
        truths, drawn = _quantities(setup, truth, draws, given, y)
    generator = np.random.default_rng(seed + 2)
    return {
        "ranks": {name: _rank(truths[name], drawn[name], generator) for name in truths},
        "truths": truths,
        "health": {name: float(value) for name, value in health.items()},
        "digest": truth.digest,
    }


def _quantities(
    setup: Setup, truth: Truth, draws: dict[str, Tensor], given: Callable[[], Any], y: Any
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Every quantity at the truth and at the draws."""
    truths: dict[str, float] = {}
    drawn: dict[str, np.ndarray] = {}
    for name in truth.ranked:
        value = truth.latent[name]
        for place in np.ndindex(*value.shape):
            label = f"{name}[{','.join(map(str, place))}]" if place else name
            truths[label] = float(value[place])
            drawn[label] = draws[name][(slice(None), *place)].double().numpy()
    functions = dict(setup.quantities)
    if setup.log_likelihood and LOG_LIKELIHOOD not in functions:
        functions[LOG_LIKELIHOOD] = lambda latent, _: _log_likelihood(given, latent, setup.sites)
    for label, function in functions.items():
        truths[label] = float(function(truth.latent, y))
        rows = [{name: x[k] for name, x in draws.items()} for k in range(setup.num_draws)]
        drawn[label] = np.array([float(function(row, y)) for row in rows])
        if not (np.isfinite(truths[label]) and np.isfinite(drawn[label]).all()):
            raise ArithmeticError(f"{label} is not finite at the truth or at a draw")
    return truths, drawn


def _log_likelihood(
    given: Callable[[], Any], latent: Mapping[str, Tensor], sites: Mapping[str, str]
) -> float:
    """The log density of the data given all latent values."""
    trace = poutine.trace(poutine.condition(given, data=dict(latent))).get_trace()
    free = [name for name, _ in _latent_sites(trace)]
    if free:
        raise InvalidArgumentError(
            "log_likelihood",
            "False, or a function in `quantities`, where latent sites are not drawn by the sampler",
            f"the site {free[0]!r} without a value",
            f"Pass quantities={{'{LOG_LIKELIHOOD}': function of (latent, y)}}.",
        )
    trace.compute_log_prob(site_filter=lambda name, site: name in sites)
    return sum(float(trace.nodes[name]["log_prob_sum"]) for name in sites)


def _rank(truth: float, draws: np.ndarray, generator: np.random.Generator) -> int:
    """How many draws are below the truth; ties are broken at random, which keeps uniformity."""
    below, equal = int((draws < truth).sum()), int((draws == truth).sum())
    return below + int(generator.integers(0, equal + 1))


def _thinned(name: str, draws: Any, shape: torch.Size, setup: Setup) -> Tensor:
    """The draws that are ranked, ``(num_draws, *shape)``."""
    draws = torch.as_tensor(draws).detach()
    needed = setup.num_draws * setup.thin
    if draws.dim() == 0 or len(draws) < needed or draws.shape[1:] != shape:
        raise InvalidArgumentError(
            "sampler",
            f"one that gives draws of {name!r} of shape ({needed} or more, "
            f"{', '.join(map(str, shape))})",
            f"shape {tuple(draws.shape)}",
            "It needs num_draws * thin draws.",
        )
    draws = draws[len(draws) - needed :][setup.thin - 1 :: setup.thin]
    if not bool(torch.isfinite(draws).all()):
        raise ArithmeticError(f"a draw of {name} is not finite")
    return draws


def _masked(value: Tensor, observed: Tensor | None, site: str) -> Tensor:
    """The data of a site, NaN where they are not observed."""
    if observed is None:
        return value.detach()
    try:
        observed = observed.expand(value.shape)
    except RuntimeError:
        raise InvalidArgumentError(
            "observed",
            f"broadcastable to the values of {site!r}, of shape {tuple(value.shape)}",
            f"shape {tuple(observed.shape)}",
            "Pass one True or False per node.",
        ) from None
    if not value.is_floating_point():
        value = value.to(torch.get_default_dtype())
    return value.detach().masked_fill(~observed, torch.nan)


def _latent_sites(trace: Any) -> list[tuple[str, Any]]:
    return [
        (name, site)
        for name, site in trace.nodes.items()
        if site["type"] == "sample" and not site["is_observed"] and not site_is_subsample(site)
    ]


def _is_continuous(fn: Any) -> bool:
    try:
        return not fn.support.is_discrete
    except NotImplementedError:
        return not getattr(fn, "has_enumerate_support", False)
