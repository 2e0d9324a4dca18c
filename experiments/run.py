"""Regenerates the tables and figures: ``python experiments/run.py table2 --jobs 2``.

Finished trials are kept in ``experiments/work`` and, at the end of a run, in the committed records
in ``experiments/results``; the next start skips what either has, on another machine too. The tables
are written from the committed records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:  # so that worker processes find the harness too
    sys.path.insert(0, str(HERE))

from harness import (  # noqa: E402
    backends,
    committed,
    figures,
    report,
    selection,
    stopping,
    tables,
    trials,
)

from pyro_copula.errors import InvalidArgumentError, PyroCopulaError  # noqa: E402

#: What a smoke run is.
SMOKE = "one short trial a row, kept apart in a folder smoke: a few minutes for all"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs experiments.

    Args:
        argv: The arguments of the command line; see ``--help``.

    Returns:
        The exit code: 1 if a trial failed, 2 if nothing could be done, 130 after Ctrl-C and
        143 after a request to end.
    """
    try:
        with stopping.stoppable():
            return _main(_parser().parse_args(argv))
    except PyroCopulaError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    except stopping.Stopped as stop:
        print(f"Interrupted: {stop}.", file=sys.stderr)
        return 128 + stop.number


def _main(arguments: argparse.Namespace) -> int:
    out = _out(arguments)
    failed = False
    if arguments.report_only:
        _check_records(out)
    else:
        failed = _run(_selected(arguments), arguments, out)
    if arguments.what in ("figure3", "all"):
        figures.copula_densities(out / "results" / "figure3.png")
        print(f"picture: {out / 'results' / 'figure3.png'}", file=sys.stderr)
    if not arguments.no_report and _has_records(out):  # figure3 alone needs none
        report.write(out / "results", out / "README.md")
        print(f"report: {out / 'README.md'}", file=sys.stderr)
    if arguments.smoke:
        print(f"smoke: everything is in {out}", file=sys.stderr)
    return int(failed)


def _out(arguments: argparse.Namespace) -> Path:
    """Where everything goes: a smoke run has its own place, away from the committed records."""
    if arguments.out is not None:
        return Path(arguments.out) / "smoke" if arguments.smoke else Path(arguments.out)
    return HERE / "work" / "smoke" if arguments.smoke else HERE


def _has_records(out: Path) -> bool:
    return any((out / "results").glob("*.jsonl"))


def _check_records(out: Path) -> None:
    if not _has_records(out):
        raise InvalidArgumentError(
            "out",
            "a folder with records of trials, for --report-only",
            f"no results/*.jsonl in {str(out)!r}",
            "Run a table there first, or leave --out away.",
        )


def _selected(arguments: argparse.Namespace) -> dict[str, list[trials.Trial]]:
    """The trials that are asked for, by table."""
    rows = arguments.models
    if arguments.what == "calibration":  # the recommended models' cells of two tables
        if rows is not None:
            raise InvalidArgumentError(
                "models",
                "left away with calibration, which is of the recipes",
                " ".join(rows),
                "Run table2 or table3 with these models.",
            )
        rows = ["recipe"]
    return selection.select(
        _names(arguments.what),
        seeds=None if arguments.seeds is None else selection.parse_seeds(arguments.seeds),
        trials=arguments.trials,
        rows=rows,
        columns=arguments.datasets,
        smoke=arguments.smoke,
    )


def _names(what: str) -> tuple[str, ...]:
    """The tables whose trials a word stands for."""
    groups = {"all": tables.all_names(), "calibration": ("table2", "table3"), "figure3": ()}
    return groups.get(what, (what,))


def _run(
    selected: Mapping[str, Sequence[trials.Trial]], arguments: argparse.Namespace, out: Path
) -> bool:
    """Runs trials, table by table; what can be known to be wrong is said before the first one.

    Returns:
        Whether a trial failed.
    """
    runner = trials.Runner(
        out / "work" / ("smoke" if arguments.smoke else "full"),
        jobs=arguments.jobs,
        backend=arguments.backend,
        address=arguments.address,
        progress=not arguments.quiet,
    )
    _make_folder(out / "results")
    known = {name: _known(name, out, smoke=arguments.smoke) for name in selected}
    pending = [t for name, own in selected.items() for t in runner.pending(own, known[name])]
    if arguments.address is None:  # else the workers have the data
        tables.read_data(pending)
    failed = False
    for name, own in selected.items():
        outcome = runner.run(own, tables.execute, known=known[name], together=tables.TOGETHER)
        print(f"{name}: {outcome}", file=sys.stderr)
        failed |= bool(outcome.failed)
        _keep(name, runner.records(name), out, smoke=arguments.smoke)
    return failed


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidArgumentError(
            "out",
            "a folder that is there or can be made",
            f"{str(folder)!r}, which cannot ({error.strerror})",
            "Name another folder.",
        ) from error


def _known(name: str, out: Path, *, smoke: bool) -> dict[str, dict[str, Any]]:
    """The committed records of a table by key; those of smoke runs and of others do not mix."""
    path = out / "results" / f"{name}.jsonl"
    records = committed.read_trials(name, path)
    if any(tables.is_smoke(record) != smoke for record in records):
        raise InvalidArgumentError(
            "out",
            f"a folder with records of {'smoke' if smoke else 'full'} runs only",
            f"{str(path)!r}, which has others",
            "Name another folder.",
        )
    return {record["key"]: record for record in records}


def _keep(name: str, records: Iterable[dict[str, Any]], out: Path, *, smoke: bool) -> None:
    """Adds records to the committed ones, as they are now, and leaves out what is of the past."""
    found = _known(name, out, smoke=smoke)
    found |= {record["key"]: record for record in records}
    current = [record for record in found.values() if tables.is_current(record, smoke=smoke)]
    if len(current) < len(found):
        print(
            f"{name}: {len(found) - len(current)} records are left out: the table no longer has "
            "their row, column or options",
            file=sys.stderr,
        )
    committed.write(current, out / "results" / f"{name}.jsonl")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pyro-copula experiment", description=__doc__)
    parser.add_argument("what", choices=[*tables.all_names(), "calibration", "figure3", "all"])
    parser.add_argument("--trials", type=int, help="at most so many seeds a cell, one or more")
    parser.add_argument("--seeds", help="these seeds only, such as 4-13 or 1,2,5")
    parser.add_argument("--jobs", type=int, default=1, help="trials at the same time")
    parser.add_argument("--backend", choices=backends.NAMES, default="loky")
    parser.add_argument("--address", help="the scheduler of a Dask or Ray cluster")
    parser.add_argument("--models", nargs="+", help="these rows only")
    parser.add_argument("--datasets", nargs="+", help="these columns only")
    parser.add_argument("--smoke", action="store_true", help=SMOKE)
    parser.add_argument("--out", help="where work, results and README.md go")
    parser.add_argument("--report-only", action="store_true", help="tables from kept records")
    parser.add_argument("--no-report", action="store_true", help="trials only")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


if __name__ == "__main__":
    sys.exit(main())
