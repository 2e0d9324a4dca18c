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
import sys
import time
import traceback
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyro_copula.atomic import reported, write_whole
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.parallel import survive_replacements

#: Raised by one when trials of the same description give other results: old files then stay apart.
PROTOCOL = 1

BACKENDS = ("loky", "dask", "ray")

_SIGNIFICANT_DIGITS = 6


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
        finished: Trials finished in this run.
        skipped: Trials that had been finished before.
        failed: The records of trials that failed.
    """

    finished: int = 0
    skipped: int = 0
    failed: list[dict[str, Any]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [
            f"{self.finished} trials finished, {self.skipped} had been finished before, "
            f"{len(self.failed)} failed"
        ]
        for record in self.failed:
            name = f"{record['table']} {record['dataset']} {record['model']} seed {record['seed']}"
            lines.append(f"  failed: {name}: {record['error'].strip().splitlines()[-1]}")
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
        if backend not in BACKENDS:
            raise InvalidArgumentError(
                "backend", f"one of {BACKENDS}", repr(backend), 'Use backend="loky".'
            )
        if jobs < 1:
            raise InvalidArgumentError("jobs", "one or more", repr(jobs), "Use jobs=1.")
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
        """
        from joblib import Parallel, delayed
        from tqdm.auto import tqdm

        trials = list(dict.fromkeys(trials))
        kept = [trial for trial in trials if self.path(trial).exists()]
        for trial in kept:
            read_trial(self.path(trial))  # a damaged record is found now, not after hours of work
        done = {trial.key for trial in kept}
        todo = [t for t in trials if t.key not in done and t.key not in known]
        groups = [(trial,) for trial in todo] if together is None else together.groups(todo)
        outcome = Outcome(skipped=len(trials) - len(todo))
        survive_replacements()
        with (
            _backend(self.backend, self.jobs, self.address),
            tqdm(total=len(todo), desc="trials", disable=not self.progress, smoothing=0.05) as bar,
        ):
            parallel = Parallel(
                n_jobs=self.jobs,
                return_as="generator_unordered",
                pre_dispatch=self.jobs,
                batch_size=1,
            )
            work = (delayed(run_group)(group, execute, together) for group in groups)
            for record in itertools.chain.from_iterable(parallel(work)):
                self.keep(record)
                if "error" in record:
                    outcome.failed.append(record)
                else:
                    outcome.finished += 1
                bar.update()
        return outcome

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
_PARTS = {
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


#: The same for a line of a committed file.
_ROW = {name: _PARTS[name] for name in ("dataset", "model", "seed", "metrics", "seconds")}


def _has(record: dict[str, Any], parts: dict[str, type]) -> bool:
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
    whole = isinstance(record, dict) and _has(record, _PARTS)
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
    except Exception:  # any failure of one trial is kept and reported, and stops no other
        record["error"] = traceback.format_exc()
    record["seconds"] = time.perf_counter() - start
    return record


def versions() -> dict[str, str]:
    """The versions of what runs."""
    import importlib.metadata as metadata

    names = ("pyro-copula", "torch", "pyro-ppl", "torch-geometric", "numpy", "scipy", "numba")
    found = {"python": platform.python_version()}
    return found | {name: metadata.version(name) for name in names}


@contextmanager
def _backend(name: str, jobs: int, address: str | None) -> Iterator[None]:
    """The joblib backend, with one thread a worker: trials are the unit of parallelism."""
    import joblib

    if name == "loky":
        with joblib.parallel_config("loky", inner_max_num_threads=1):
            yield
    elif name == "dask":
        from dask.distributed import Client, LocalCluster

        if address is not None:
            with Client(address) as client, joblib.parallel_config("dask", client=client):
                yield
        else:
            with (
                LocalCluster(
                    n_workers=jobs, threads_per_worker=1, dashboard_address=None
                ) as cluster,
                Client(cluster) as client,
                joblib.parallel_config("dask", client=client),
            ):
                yield
    else:
        import ray
        from ray.util.joblib import register_ray

        register_ray()
        ray.init(address=address)
        try:
            with joblib.parallel_config("ray"):
                yield
        finally:
            ray.shutdown()


# ---------------------------------------------------------------- committed records


def compact(records: Iterable[dict[str, Any]], path: Path) -> int:
    """Writes records as one sorted JSON-lines file; the first line has the versions.

    Args:
        records: Records of one table.
        path: The file.

    Returns:
        The number of records.
    """
    rows = sorted(
        records, key=lambda r: (r["dataset"], r["model"], json.dumps(r["options"]), r["seed"])
    )
    known: list[dict[str, str]] = []
    lines = []
    for row in rows:
        if row["versions"] not in known:
            known.append(row["versions"])
        line = {name: row[name] for name in ("dataset", "model", "seed")}
        line |= {"options": row["options"]} if row["options"] else {}
        line |= {"metrics": _rounded(row["metrics"]), "seconds": round(row["seconds"], 2)}
        line |= {"version": known.index(row["versions"])} if len(known) > 1 else {}
        lines.append(json.dumps(line, separators=(",", ":")))
    header = json.dumps({"protocol": PROTOCOL, "versions": known}, separators=(",", ":"))
    with reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, ("\n".join([header, *lines]) + "\n").encode())
    return len(rows)


def read_compact(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that :func:`compact` wrote, without its first line.

    Raises:
        InvalidArgumentError: If a line is damaged.
    """
    return _lines(path)[1:]


def _lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of records, each of them checked."""
    if not path.exists():
        return []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict) or not (_is_row(row, rows[0]) if rows else _is_header(row)):
            raise InvalidArgumentError(
                "results",
                "a folder with whole records",
                f"{str(path)!r}, damaged in line {number}",
                "Restore it from git, or run the table again.",
            )
        rows.append(row)
    return rows


def _is_header(row: dict[str, Any]) -> bool:
    whole = _has(row, {"protocol": int, "versions": list})
    return whole and all(isinstance(known, dict) for known in row["versions"])


def _is_row(row: dict[str, Any], header: dict[str, Any]) -> bool:
    version = row.get("version", 0)
    whole = _has(row, _ROW) and isinstance(row.get("options", {}), dict)
    return whole and type(version) is int and 0 <= version < len(header["versions"])


def read_records(table: str, path: Path) -> list[dict[str, Any]]:
    """The same rows as records of trials, with their keys and versions.

    Args:
        table: The table that the file is of.
        path: The file; no records if there is none.

    Raises:
        InvalidArgumentError: If a line is damaged.
    """
    header, *rows = _lines(path) or [{}]
    if header.get("protocol") != PROTOCOL:
        return []
    records = []
    for row in rows:
        options = tuple(sorted(row.get("options", {}).items()))
        trial = Trial(table, row["dataset"], row["model"], row["seed"], options)
        parts = {"options": dict(options), "versions": header["versions"][row.get("version", 0)]}
        parts |= {name: row[name] for name in ("metrics", "seconds")}
        records.append({"key": trial.key, **asdict(trial), **parts})
    return records


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_SIGNIFICANT_DIGITS}g}")
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_rounded(part) for part in value]
    return value


def report(outcome: Outcome) -> None:
    """Prints how a run went."""
    print(outcome, file=sys.stderr)
