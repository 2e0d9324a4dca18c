"""``simulation_based_calibration``: does a sampler find the posterior of a model?"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyro
import torch
from torch import Tensor

from ..errors import CalibrationError, InvalidArgumentError
from ..errors.counts import check_count
from ..parallel import run_each
from .records import Records
from .replication import Setup, replication_seed, run_replication, simulate
from .result import Failure, SBCResult
from .samplers import NUTSSampler

#: A run that starts with so many failures is ended: something is wrong in every replication.
_MAX_FIRST_FAILURES = 5

#: NUTS keeps every so manyth draw, for ranks are uniform only if draws are nearly independent.
_NUTS_THIN = 3


def simulation_based_calibration(
    model: Callable[..., Any],
    *,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    observed_site: str | Sequence[str] = "y",
    data_argument: str | Sequence[str] | None = None,
    observed: Tensor | Mapping[str, Tensor] | None = None,
    parameters: Sequence[str] | None = None,
    quantities: Mapping[str, Callable[[dict[str, Tensor], Any], Any]] | None = None,
    log_likelihood: bool = True,
    num_simulations: int = 200,
    sampler: Callable[[Callable[[], Any], Any, int], Any] | None = None,
    num_draws: int = 99,
    thin: int | None = None,
    jobs: int = 1,
    seed: int = 0,
    progress: bool | None = None,
    records: str | Path | None = None,
) -> SBCResult:
    r"""Checks a sampler, and the model that it samples, on data whose truth is known.

    In each replication parameters :math:`\theta` and data :math:`y` are drawn from the model, the
    sampler is run on :math:`y`, and the true :math:`\theta` is ranked among the draws. If the
    sampler gives the posterior of this very model, all ranks are uniform, whatever the model. The
    joint log likelihood :math:`\log p(y \mid \theta)` is ranked as well: ranks of the parameters
    alone do not see a sampler that uses only a part of the data, or none of them.

    The state of the random numbers and Pyro's parameter store are left as they were. A replication
    depends on ``seed`` and on its number only, so that any number of jobs gives the same ranks.
    Ctrl-C ends the run with the ranks so far.

    Args:
        model: A Pyro program. Called with None as its data it draws them at ``observed_site``;
            called with data it conditions on them: ``pyro.sample("y", law, obs=y)``.
        args: Its positional arguments.
        kwargs: Its keyword arguments, without the data.
        observed_site: The site of the data, or several.
        data_argument: The argument of the model that takes the data, or one a site; by default
            the names of the sites.
        observed: Boolean: where False, the data are hidden (NaN) after they are drawn, which a
            copula site takes as missing nodes. One for all, or one a site by name.
        parameters: The latent sites to rank, element by element; by default every continuous one.
        quantities: More to rank: functions of the latent values (a dictionary) and the data (a
            tensor, or a dictionary if there are several sites), by name. One called
            ``"log_likelihood"`` takes the place of the built-in one.
        log_likelihood: Whether to rank the joint log likelihood.
        num_simulations: The number of replications.
        sampler: A function ``(model, y, seed)`` of the program, already conditioned and without
            arguments, the data, and a seed. It returns draws by site, each ``(draws, *shape)``, or
            :class:`~pyro_copula.calibration.Draws` to report its health too. By default
            :class:`~pyro_copula.calibration.NUTSSampler`.
        num_draws: Each truth is ranked among so many draws: 99 give 100 ranks.
        thin: Every so many draws of the sampler are one of them; its last ``num_draws * thin`` are
            used. By default 3 for NUTS, and 1 for a sampler of your own.
        jobs: The number of processes.
        seed: Of everything random.
        progress: Whether to show a progress bar; by default if this is a terminal.
        records: A file that keeps finished replications, from which the same call goes on. That
            the model is still the same is checked by drawing one of them again; the sampler is
            not checked.

    Returns:
        A :class:`~pyro_copula.calibration.SBCResult`.

    Raises:
        CalibrationError: If the first five replications all fail.
        InvalidArgumentError: If `records` is of another run, used by one, or damaged.
        OutputError: If `records` cannot be written; what it holds already stays.

    Example:
        >>> import pyro.distributions as dist
        >>> def model(y=None):
        ...     mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        ...     pyro.sample("y", dist.Normal(mu, 1.0), obs=y)
        >>> def exact(model, y, seed):
        ...     return {"mu": y / 2 + 0.5**0.5 * torch.randn(99)}
        >>> simulation_based_calibration(model, sampler=exact, num_simulations=20)
        SBCResult: 20 replications, each truth ranked among 99 draws
          ...
          no quantity departs from uniform ranks at 1% after Holm's correction
          next: .summary()  .plot()  .to_frame()  .ranks

    References:
        Talts, Betancourt, Simpson, Vehtari and Gelman, Validating Bayesian inference algorithms
        with simulation-based calibration, 2018.
        Modrák, Moon, Kim, Bürkner, Huurre, Faltejsková, Gelman and Vehtari, Simulation-based
        calibration checking for Bayesian computation: the choice of test quantities shapes
        sensitivity, Bayesian Analysis 2023 (quantities that depend on the data).
    """
    thin = thin if thin is not None else (_NUTS_THIN if sampler is None else 1)
    counts = {"num_simulations": num_simulations, "num_draws": num_draws, "thin": thin}
    for name, value, usual in zip((*counts, "jobs"), (*counts.values(), jobs), (200, 99, 3, 1)):
        check_count(name, value, f"Use {usual}.")
    check_count("seed", seed, "Use 0.", least=0)
    setup = Setup(
        model=model,
        args=tuple(args),
        kwargs=dict(kwargs or {}),
        sites=_sites(model, args, kwargs or {}, observed_site, data_argument),
        observed=_masks(observed, observed_site),
        parameters=None if parameters is None else tuple(parameters),
        sampler=sampler or NUTSSampler(num_draws=num_draws * thin),
        num_draws=num_draws,
        thin=thin,
        quantities=dict(quantities or {}),
        log_likelihood=log_likelihood,
        params=pyro.get_param_store().get_state(),
    )
    simulate(setup, replication_seed(seed, 0))  # says what is wrong before anything long is run
    header = {
        "seed": seed,
        "num_draws": num_draws,
        "thin": thin,
        "sites": list(setup.sites),
        "parameters": None if parameters is None else list(parameters),
        "quantities": sorted(setup.quantities),
        "log_likelihood": log_likelihood,
    }
    interrupted = False
    shown = sys.stderr.isatty() if progress is None else progress
    with closing(Records(records, header)) as store:
        _check_same_model(setup, store, seed)
        rows = [row for k, row in store.finished.items() if k < num_simulations]
        todo = [k for k in range(num_simulations) if k not in store.finished]
        try:
            _run(setup, todo, seed, jobs, shown, store, rows)
        except KeyboardInterrupt:
            if not any("ranks" in row for row in rows):
                raise
            interrupted = True
    return _result(rows, num_draws, num_simulations, interrupted)


def _run(
    setup: Setup,
    todo: Sequence[int],
    seed: int,
    jobs: int,
    progress: bool,
    store: Records,
    rows: list[dict[str, Any]],
) -> None:
    """Adds the records of the replications to ``rows``, as they finish."""
    from tqdm.auto import tqdm

    work = partial(_numbered, setup, seed)
    with (
        tqdm(total=len(todo), desc="calibration", disable=not progress) as bar,
        closing(run_each(work, todo, jobs)) as results,
    ):
        for row in results:
            rows.append(row)
            store.add(row)
            bar.update()
            failed = [row for row in rows if "error" in row]
            if len(failed) == len(rows) and len(failed) >= min(_MAX_FIRST_FAILURES, len(todo)):
                first = failed[0]
                raise CalibrationError(first["replication"], first["seed"], first["error"])


def _numbered(setup: Setup, seed: int, replication: int) -> dict[str, Any]:
    return run_replication(setup, replication, replication_seed(seed, replication))


def _result(
    rows: list[dict[str, Any]], num_draws: int, requested: int, interrupted: bool
) -> SBCResult:
    rows = sorted(rows, key=lambda row: row["replication"])
    good = [row for row in rows if "ranks" in row]
    for row in good:
        if row["ranks"].keys() != good[0]["ranks"].keys():
            raise _foreign(f"other quantities in its replication {row['replication']}")
    shared = [name for name in good[0]["health"] if all(name in row["health"] for row in good)]
    return SBCResult(
        ranks={name: np.array([row["ranks"][name] for row in good]) for name in good[0]["ranks"]},
        num_draws=num_draws,
        truths={
            name: np.array([row["truths"][name] for row in good]) for name in good[0]["truths"]
        },
        seeds=np.array([row["seed"] for row in good]),
        failures=[
            Failure(row["replication"], row["seed"], row["error"], row["traceback"])
            for row in rows
            if "error" in row
        ],
        health={name: np.array([row["health"][name] for row in good]) for name in shared},
        requested=requested,
        interrupted=interrupted,
    )


# ---------------------------------------------------------------- checks


def _sites(
    model: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    observed_site: str | Sequence[str],
    data_argument: str | Sequence[str] | None,
) -> dict[str, str]:
    """The argument of the model that takes the values of each observed site."""
    sites = _names(observed_site)
    arguments = sites if data_argument is None else _names(data_argument)
    if len(arguments) != len(sites) or not sites:
        raise InvalidArgumentError(
            "data_argument",
            f"one name a site of {sites}",
            f"{arguments}",
            "Leave it out if the arguments are called as the sites.",
        )
    try:
        inspect.signature(model).bind(*args, **kwargs, **dict.fromkeys(arguments))
    except TypeError as error:
        raise InvalidArgumentError(
            "model",
            f"callable with `args`, `kwargs` and the data as {', '.join(arguments)}",
            f"{error}",
            "Name the arguments of the data in `data_argument`; they may not be in `kwargs`.",
        ) from None
    return dict(zip(sites, arguments, strict=True))


def _masks(observed: Any, observed_site: str | Sequence[str]) -> dict[str, Tensor]:
    sites = _names(observed_site)
    masks = {} if observed is None else observed
    if not isinstance(masks, Mapping):
        masks = dict.fromkeys(sites, observed)
    for name, mask in masks.items():
        if name not in sites or not torch.is_tensor(mask) or mask.dtype != torch.bool:
            raise InvalidArgumentError(
                "observed",
                f"a boolean tensor, or one for each of {sites} by name",
                f"{mask.dtype if torch.is_tensor(mask) else type(mask).__name__} for {name!r}",
                "Pass one True or False per node.",
            )
    return dict(masks)


def _check_same_model(setup: Setup, store: Records, seed: int) -> None:
    """Draws one of the recorded replications again and compares."""
    for k, row in store.finished.items():
        if row["seed"] != replication_seed(seed, k):
            raise _foreign(f"another seed in its replication {k}")
    if store.finished:
        k, row = next(iter(store.finished.items()))
        if simulate(setup, replication_seed(seed, k)).digest != row["digest"]:
            raise _foreign(f"other data in its replication {k} than this model draws")


def _foreign(found: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "records", "a file of this model", found, "Name another file, or delete this one."
    )


def _names(names: str | Sequence[str]) -> list[str]:
    return [names] if isinstance(names, str) else list(names)
