"""Figures in the README are those that the committed scripts produced."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]


def rows(text):
    return [line for line in text.splitlines() if line.startswith("|") and "x |" in line]


def test_speed_table_is_that_of_the_last_run():
    readme = (ROOT / "README.md").read_text()
    section = readme[readme.index("## How fast") : readme.index("## What it does not do")]
    produced = (ROOT / "experiments/results/scaling.md").read_text()
    quoted = rows(section)
    assert len(quoted) >= 2  # a small graph and a large one
    for line in quoted:
        assert line in produced, f"not in scaling.md: {line}"
    for sentence in ("Growth of", "copula training step takes", "that of CHOLMOD"):
        line = next(line for line in produced.splitlines() if sentence in line)
        assert line in section, f"not quoted as produced: {line}"


def test_main_table_is_that_of_the_records():
    """Written by ``pyro-copula experiment``: to be pasted again after a run."""
    produced = (ROOT / "experiments/results/summary.md").read_text()
    assert produced in (ROOT / "README.md").read_text()
