"""A pytest plugin that adds up what a run went through: ``pytest --reliability FILE``.

``make test-all`` runs every test with it, writes ``experiments/results/reliability.json``, and then
``python tests/reliability.py`` puts the `sentences` of that file between two marks in the README.
Counts come from the fixture ``tally`` of conftest.py, and the cases of hypothesis are counted here.
A run that fails writes nothing and leaves the file of an earlier run alone.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import textwrap
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
#: Where `make test-all` writes, and what the README quotes.
RESULTS = ROOT / "experiments" / "results" / "reliability.json"
README = ROOT / "README.md"
#: Between these two lines of the README are the sentences, and nothing before the first run.
MARKS = ("<!-- the next lines: python tests/reliability.py -->\n", "<!-- end of those lines -->\n")
#: How every test is selected, the slow ones too.
ALL = "slow or not slow"
PACKAGES = ("pyro-copula", "torch", "pyro-ppl", "numpy", "scipy", "numba", "torch-geometric")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--reliability",
        metavar="FILE",
        default=None,
        help="write what the tests went through to this file, if all of them pass",
    )


def pytest_configure(config: pytest.Config) -> None:
    file = config.getoption("--reliability")
    if file is None:
        return
    config.pluginmanager.register(CaseCounter(), "reliability-cases")
    if not hasattr(config, "workerinput"):  # not in the processes of xdist, which only report
        config.pluginmanager.register(Summary(config, Path(file)), "reliability-summary")


class CaseCounter:
    """Counts the cases that hypothesis puts through each property."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Any:
        function = getattr(item, "obj", None)
        if not getattr(function, "is_hypothesis_test", False):
            return (yield)
        handle = function.hypothesis
        inner, passed = handle.inner_test, 0

        def counted(*args: Any, **kwargs: Any) -> Any:
            nonlocal passed
            result = inner(*args, **kwargs)  # a case that is rejected or fails raises
            passed += 1
            return result

        handle.inner_test = counted
        try:
            return (yield)
        finally:
            handle.inner_test = inner
            item.user_properties.append(("tally", ("property cases", passed)))


class Summary:
    """Collects the reports of all processes, and writes the file when the run is over."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self.config, self.file = config, file
        self.started = time.monotonic()
        self.outcomes: Counter[str] = Counter()
        self.skipped: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.message = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome == "skipped":
            expected_failure = hasattr(report, "wasxfail")
            self.outcomes["xfailed" if expected_failure else report.outcome] += 1
            if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
                self.skipped[report.longrepr[2].removeprefix("Skipped: ")] += 1
        if report.when == "teardown":  # every phase repeats the properties; this is the last
            for name, value in report.user_properties:
                if name == "tally":
                    self.counts[value[0]] += value[1]

    @pytest.hookimpl(trylast=True)  # after the coverage of all processes has been put together
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus != pytest.ExitCode.OK:
            self.message = f"the run did not pass: {self.file} is left as it was"
            return
        write(self.file, self.summary())
        self.message = f"written: {self.file}"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.write_sep("-", "reliability")
        terminalreporter.write_line(self.message)
        for name, count in sorted(self.counts.items()):
            terminalreporter.write_line(f"{name}: {count:,}")

    def summary(self) -> dict[str, Any]:
        return {
            "complete": is_complete(self.config),
            "tests": {
                "passed": self.outcomes["passed"],
                "skipped": self.outcomes["skipped"],
                "xfailed": self.outcomes["xfailed"],
            },
            "skipped": dict(sorted(self.skipped.items())),
            "counts": dict(sorted(self.counts.items())),
            **coverage_found(self.config),
            "versions": versions(),
            "seconds": round(time.monotonic() - self.started),
        }


def is_complete(config: pytest.Config) -> bool:
    """Whether nothing was left out: no path, no name and no mark was asked for."""
    option = config.option
    return (
        config.args_source is pytest.Config.ArgsSource.TESTPATHS
        and option.markexpr in ("", ALL)
        and not option.keyword
        and not option.deselect
        and not getattr(option, "lf", False)
    )


def coverage_found(config: pytest.Config) -> dict[str, Any]:
    """Shares of lines and branches, and the errors reached, if coverage was measured."""
    plugin = config.pluginmanager.getplugin("_cov")
    controller = getattr(plugin, "cov_controller", None)
    if controller is None:
        return {}
    import coverage

    measured = coverage.Coverage()
    measured.load()
    report = Path(measured.config.data_file).with_name(".coverage.json")
    measured.json_report(outfile=str(report))
    contents = json.loads(report.read_text())
    report.unlink()
    totals = contents["totals"]
    lines, branches = totals["num_statements"], totals["num_branches"]
    return {
        "coverage": {
            "percent": round(totals["percent_covered"], 2),
            "lines": [totals["covered_lines"], lines],
            "branches": [totals["covered_branches"], branches],
        },
        "raises": raises_reached(contents["files"]),
    }


def raises_reached(files: dict[str, Any]) -> list[int]:
    """How many of the statements that raise were reached, and how many there are.

    ``python tests/error_paths.py`` lists those that were not.
    """
    from error_paths import raise_lines  # which imports coverage

    reached = total = 0
    for name, lines in files.items():
        executed = set(lines["executed_lines"])
        measured = executed | set(lines["missing_lines"])
        raises = set(raise_lines(Path(name).read_text()))
        reached += len(raises & executed)
        total += len(raises & measured)
    return [reached, total]


def versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def write(file: Path, summary: dict[str, Any]) -> None:
    """All of it or nothing: a reader never sees half a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_text(json.dumps(summary, indent=2) + "\n")
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def sentences(summary: dict[str, Any]) -> str:
    """The lines that the README quotes."""
    tests, counts, covered = summary["tests"], summary["counts"], summary["coverage"]
    lines = [f"{tests['passed']:,} tests passed, {tests['skipped']:,} skipped."]
    if counts:
        listed = [f"{number:,} {name}" for name, number in counts.items()]
        lines.append(f"In them: {', '.join(listed)}.")
    reached = f"Lines and branches reached: {covered['percent']:.1f}%"
    if "raises" in summary:
        reached += "; statements that raise an error: {} of {}".format(*summary["raises"])
    lines.append(f"{reached} (compiled kernels are not counted).")
    return "".join(textwrap.fill(f"- {line}", 100, subsequent_indent="  ") + "\n" for line in lines)


def quoting(readme: str, quoted: str) -> str:
    """The text of the README with other lines between the marks."""
    before, found, rest = readme.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not (found and end):
        raise ValueError("README.md has no place for the lines: " + " ".join(MARKS))
    return before + found + quoted + end + after


if __name__ == "__main__":
    README.write_text(quoting(README.read_text(), sentences(json.loads(RESULTS.read_text()))))
    print(f"quoted in {README}")
