"""Regenerates the tables and figures: ``python experiments/run.py table2 --jobs 2``.

Finished trials are kept in ``experiments/work`` and, at the end of a run, in the committed records
in ``experiments/results``; the next start skips what either has, on another machine too. The tables
are written from the committed records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:  # so that worker processes find the harness too
    sys.path.insert(0, str(HERE))

from harness import committed, figures, report, tables, trials  # noqa: E402

from pyro_copula.errors import InvalidArgumentError, PyroCopulaError  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    """Runs experiments.

    Args:
        argv: The arguments of the command line; see ``--help``.

    Returns:
        The exit code: 1 if a trial failed, 2 if nothing could be done.
    """
    try:
        return _main(_parser().parse_args(argv))
    except PyroCopulaError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2


def _main(arguments: argparse.Namespace) -> int:
    out = _out(arguments)
    if arguments.report_only and not any((out / "results").glob("*.jsonl")):
        raise InvalidArgumentError(
            "out",
            "a folder with records of trials, for --report-only",
            f"no results/*.jsonl in {str(out)!r}",
            "Run a table there first, or leave --out away.",
        )
    failed = False
    if arguments.what == "calibration":  # the recommended models' cells of two tables
        arguments.models = ["recipe"]
    if not arguments.report_only:
        for name in _names(arguments.what):
            failed |= _run(name, arguments, out)
    if arguments.what in ("figure3", "all"):
        figures.copula_densities(out / "results" / "figure3.png")
    if not arguments.no_report:
        report.write(out / "results", out / "README.md")
    if arguments.smoke:
        print(f"smoke: everything is in {out}", file=sys.stderr)
    return int(failed)


def _out(arguments: argparse.Namespace) -> Path:
    """Where everything goes: a smoke run has its own place, away from the committed records."""
    if arguments.out is not None:
        return Path(arguments.out)
    return HERE / "work" / "smoke" if arguments.smoke else HERE


def _names(what: str) -> tuple[str, ...]:
    """The tables whose trials a word stands for."""
    groups = {"all": tables.all_names(), "calibration": ("table2", "table3"), "figure3": ()}
    return groups.get(what, (what,))


def _run(name: str, arguments: argparse.Namespace, out: Path) -> bool:
    runner = trials.Runner(
        out / "work" / ("smoke" if arguments.smoke else "full"),
        jobs=arguments.jobs,
        backend=arguments.backend,
        address=arguments.address,
        progress=not arguments.quiet,
    )
    todo = tables.table_trials(
        name,
        seeds=arguments.seeds,
        trials=arguments.trials,
        rows=arguments.models,
        columns=arguments.datasets,
        smoke=arguments.smoke,
    )
    path = out / "results" / f"{name}.jsonl"
    known = {r["key"]: r for r in committed.read_trials(name, path)}
    outcome = runner.run(todo, tables.execute, known=known, together=tables.TOGETHER)
    print(f"{name}: {outcome}", file=sys.stderr)
    known |= {r["key"]: r for r in runner.records(name)}
    kept = (r for r in known.values() if tables.is_current(r, smoke=arguments.smoke))
    committed.write(kept, path)
    return bool(outcome.failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pyro-copula experiment", description=__doc__)
    parser.add_argument("what", choices=[*tables.all_names(), "calibration", "figure3", "all"])
    parser.add_argument("--trials", type=int, help="at most so many seeds a cell")
    parser.add_argument("--seeds", type=_seeds, help="these seeds, such as 4-13 or 1,2,5")
    parser.add_argument("--jobs", type=int, default=1, help="trials at the same time")
    parser.add_argument("--backend", choices=trials.BACKENDS, default="loky")
    parser.add_argument("--address", help="the scheduler of a Dask or Ray cluster")
    parser.add_argument("--models", nargs="+", help="these rows only")
    parser.add_argument("--datasets", nargs="+", help="these columns only")
    parser.add_argument("--smoke", action="store_true", help="a minute-long version, kept apart")
    parser.add_argument("--out", help="where work, results and README.md go")
    parser.add_argument("--report-only", action="store_true", help="tables from kept records")
    parser.add_argument("--no-report", action="store_true", help="trials only")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    return parser


def _seeds(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


if __name__ == "__main__":
    sys.exit(main())
