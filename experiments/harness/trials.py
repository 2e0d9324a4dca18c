"""Trials, and a runner that can be killed: every finished trial is one file.

A trial is a table, a data set, a model, a seed and options. Its key is a hash of these, so the
same trial has the same file on every machine and a second start goes on where the first one
ended. Files appear atomically; a trial that fails leaves a file too, is reported at the end and
tried again at the next start.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import platform
import textwrap
import time
import traceback
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyro_copula.atomic import reported, write_whole
from pyro_copula.errors import InvalidArgumentError, PyroCopulaError
from pyro_copula.parallel import survive_replacements

from . import backends
from .stopping import Stopped, stoppable

#: Raised by one when trials of the same description give other results: old files then stay apart.
PROTOCOL = 1


@dataclass(frozen=True, order=True)
class Trial:
    """One fit and its scores.

    Attributes:
        table: The table or figure that it belongs to.
        dataset: The data set, a column of the table.
        model: The model, a row of the table.
        seed: The seed of the data or split, and of the fit.
        options: What else the trial depends on, as sorted pairs.
    """

    table: str
    dataset: str
    model: str
    seed: int
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> str:
        """The same for the same trial on every machine."""
        text = json.dumps([PROTOCOL, *asdict(self).values()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def option(self, name: str, default: Any = None) -> Any:
        """The value of an option."""
        return dict(self.options).get(name, default)


Execute = Callable[[Trial], dict[str, Any]]


@dataclass(frozen=True)
class Together:
    """How to run several trials at once, where that is faster.

    Attributes:
        groups: Splits trials into groups; a group of one is run by itself.
        execute: Gives the metrics of the trials of a group.
    """

    groups: Callable[[Sequence[Trial]], Sequence[Sequence[Trial]]]
    execute: Callable[[Sequence[Trial]], list[dict[str, Any]]]


@dataclass
class Outcome:
    """How a run went.

    Attributes:
        folder: Where records are kept, and the tracebacks of what failed.
        finished: Trials finished in this run.
        skipped: Trials that had been finished before.
        failed: The records of trials that failed.
    """

    folder: Path
    finished: int = 0
    skipped: int = 0
    failed: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.finished} trials finished, {self.skipped} had been finished before, "
            f"{len(self.failed)} failed"
        ]
        alike: dict[str, list[dict[str, Any]]] = {}
        for record in self.failed:
            alike.setdefault(record["message"], []).append(record)
        for message, records in alike.items():
            first = records[0]
            name = f"{first['table']} {first['dataset']} {first['model']} seed {first['seed']}"
            more = f" and {len(records) - 1} more" if len(records) > 1 else ""
            lines.append(f"  failed: {name}{more}:\n{textwrap.indent(message, '    ')}")
        if self.failed:
            folders = sorted({str(self.folder / record["table"]) for record in self.failed})
            lines.append(f"  tracebacks: the .error files in {', '.join(folders)}")
        return "\n".join(lines)


class Runner:
    """Runs trials in parallel and keeps one record a trial.

    Args:
        folder: Where records are kept, one folder a table.
        jobs: The number of processes; with a cluster, the number of trials under way.
        backend: ``"loky"`` (processes of this machine), ``"dask"`` or ``"ray"`` (a cluster).
        address: The scheduler of the cluster; without it a local one is started.
        progress: Whether to show a bar with the time left.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        jobs: int = 1,
        backend: str = "loky",
        address: str | None = None,
        progress: bool = True,
    ) -> None:
        if backend not in backends.NAMES:
            raise InvalidArgumentError(
                "backend", f"one of {backends.NAMES}", repr(backend), 'Use backend="loky".'
            )
        if jobs < 1:
            raise InvalidArgumentError("jobs", "one or more", repr(jobs), "Use jobs=1.")
        if address is not None and backend == "loky":
            raise InvalidArgumentError(
                "address",
                'left away with backend="loky", whose processes are on this machine',
                repr(address),
                'Use backend="dask" or backend="ray" for a cluster.',
            )
        backends.check_installed(backend)
        self.folder = Path(folder)
        self.jobs, self.backend, self.address = jobs, backend, address
        self.progress = progress

    def run(
        self,
        trials: Iterable[Trial],
        execute: Execute,
        *,
        known: Container[str] = (),
        together: Together | None = None,
    ) -> Outcome:
        """Runs the trials that have no record yet.

        Args:
            trials: The trials.
            execute: Gives the metrics of a trial; runs in another process.
            known: Keys of trials whose records are kept elsewhere.
            together: How to run several at once.

        Raises:
            Stopped: If the user ends the run; it says how many trials are kept.
        """
        from joblib import Parallel, delayed
        from tqdm.auto import tqdm

        trials = list(dict.fromkeys(trials))
        todo = self.pending(trials, known)
        groups = [(trial,) for trial in todo] if together is None else together.groups(todo)
        outcome = Outcome(self.folder, skipped=len(trials) - len(todo))
        if not todo:
            return outcome
        survive_replacements()
        with (
            backends.started(self.backend, self.jobs, self.address),
            tqdm(total=len(todo), desc="trials", disable=not self.progress, smoothing=0.05) as bar,
        ):
            parallel = Parallel(
                n_jobs=self.jobs,
                return_as="generator_unordered",
                pre_dispatch=self.jobs,
                batch_size=1,
            )
            work = (delayed(run_group)(group, execute, together) for group in groups)
            try:
                for record in itertools.chain.from_iterable(parallel(work)):
                    self.keep(record)
                    if "error" in record:
                        outcome.failed.append(record)
                    else:
                        outcome.finished += 1
                    bar.update()
            except Stopped as stop:
                kept = outcome.skipped + outcome.finished
                said = f"{kept} of {len(trials)} trials of {trials[0].table} are kept"
                raise Stopped(stop.number, said) from None
        return outcome

    def pending(self, trials: Iterable[Trial], known: Container[str] = ()) -> list[Trial]:
        """The trials that have no record yet, each once.

        Args:
            trials: The trials.
            known: Keys of trials whose records are kept elsewhere.

        Raises:
            InvalidArgumentError: If a record is damaged: better now than after hours of work.
        """
        todo = []
        for trial in dict.fromkeys(trials):
            if self.path(trial).exists():
                read_trial(self.path(trial))
            elif trial.key not in known:
                todo.append(trial)
        return todo

    def path(self, trial: Trial) -> Path:
        """The file of a finished trial."""
        return self.folder / trial.table / f"{trial.key}.json"

    def keep(self, record: dict[str, Any]) -> None:
        """Writes the record of a trial; it is there as a whole or not at all."""
        path = self.folder / record["table"] / f"{record['key']}.json"
        if "error" in record:
            path = path.with_suffix(".error")
        with reported(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(record).encode())
        if "error" not in record:
            path.with_suffix(".error").unlink(missing_ok=True)

    def records(self, table: str) -> Iterator[dict[str, Any]]:
        """The records of the finished trials of a table."""
        for path in sorted((self.folder / table).glob("*.json")):
            yield read_trial(path)


#: What the record of a finished trial must have, and of which type.
PARTS = {
    "key": str,
    "table": str,
    "dataset": str,
    "model": str,
    "seed": int,
    "options": dict,
    "versions": dict,
    "metrics": dict,
    "seconds": float,
}


def has_parts(record: dict[str, Any], parts: dict[str, type]) -> bool:
    return all(type(record.get(name)) is kind for name, kind in parts.items())


def read_trial(path: Path) -> dict[str, Any]:
    """The record of a finished trial, after checking that it is one.

    Raises:
        InvalidArgumentError: If the file is damaged, or has the name of another trial.
    """
    problem = ""
    try:
        record = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        record, problem = None, f" ({type(error).__name__})"
    whole = isinstance(record, dict) and has_parts(record, PARTS)
    if not whole or record["key"] != path.stem or record["table"] != path.parent.name:
        raise InvalidArgumentError(
            "out",
            "a folder with whole records of trials",
            f"{str(path)!r}, which is damaged{problem}",
            "Delete that file, and its trial runs again.",
        )
    return record


def run_group(
    group: Sequence[Trial], execute: Execute, together: Together | None
) -> list[dict[str, Any]]:
    """The records of a group of trials; if they fail together, each is run by itself."""
    with stoppable():
        return _run_group(group, execute, together)


def _run_group(
    group: Sequence[Trial], execute: Execute, together: Together | None
) -> list[dict[str, Any]]:
    if together is None or len(group) == 1:
        return [run_trial(trial, execute) for trial in group]
    start = time.perf_counter()
    try:
        metrics = together.execute(group)
    except Exception:  # one of them may be at fault: its own run says which, and why
        return [run_trial(trial, execute) for trial in group]
    seconds = (time.perf_counter() - start) / len(group)
    return [
        {**_description(trial), "metrics": own, "seconds": seconds}
        for trial, own in zip(group, metrics)
    ]


def _description(trial: Trial) -> dict[str, Any]:
    parts = {"key": trial.key, **asdict(trial), "options": dict(trial.options)}
    return {**parts, "versions": versions()}


def run_trial(trial: Trial, execute: Execute) -> dict[str, Any]:
    """The record of a trial: what it was, its metrics or its error, the time it took."""
    record = _description(trial)
    start = time.perf_counter()
    try:
        record["metrics"] = execute(trial)
    except Exception as error:  # any failure of one trial is kept and reported, and stops no other
        record["error"] = traceback.format_exc()
        record["message"] = _said(error)
    record["seconds"] = time.perf_counter() - start
    return record


def _said(error: Exception) -> str:
    """What an error says, as a whole; its type is told unless it is one of the package."""
    if isinstance(error, PyroCopulaError):
        return str(error)
    return "".join(traceback.format_exception_only(error)).strip()


def versions() -> dict[str, str]:
    """The versions of what runs."""
    import importlib.metadata as metadata

    names = ("pyro-copula", "torch", "pyro-ppl", "torch-geometric", "numpy", "scipy", "numba")
    found = {"python": platform.python_version()}
    return found | {name: metadata.version(name) for name in names}
