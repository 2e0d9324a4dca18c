"""The summary of a run adds up what its tests went through, in all processes, if it passed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from error_paths import MINIMUM
from reliability import MARKS, README, RESULTS, quoting, sentences

TESTS = Path(__file__).parent
#: A small project of its own, run as this one is: two processes, coverage, and a tally.
PROJECT = {
    "conftest.py": 'pytest_plugins = ["reliability"]\n',
    "small.py": """
def half(x):
    if x < 0:
        raise ValueError("negative")
    if x > 100:
        return 50
    return x / 2
""",
    "test_small.py": """
import pytest
from hypothesis import assume, given, settings, strategies as st
from small import half

@pytest.mark.parametrize("n", [2, 3, 4])
def test_counts(n, record_property):
    record_property("tally", ("kills survived", n))
    record_property("tally", ("fuzz inputs", 10))
    assert half(n) == n / 2

@settings(max_examples=30, database=None)
@given(st.integers(0, 10))
def test_property(n):
    assume(n != 3)
    assert half(n) <= n

@pytest.mark.skip(reason="no data")
def test_skipped():
    pass

def test_switched(pytestconfig):
    assert not pytestconfig.getoption("--fail")
""",
    "pytest.ini": "[pytest]\ntestpaths = .\n",
    ".coveragerc": "[run]\nbranch = true\nparallel = true\nsource_pkgs = small\n",
}
PROJECT["conftest.py"] += """
def pytest_addoption(parser):
    parser.addoption("--fail", action="store_true")
"""


@pytest.fixture
def run(tmp_path):
    """Runs the tests of the project with some options; gives the exit code and what was written."""
    for name, text in PROJECT.items():
        (tmp_path / name).write_text(text)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(TESTS), str(tmp_path)])
    file = tmp_path / "found" / "reliability.json"

    def run(*options):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        command += ["--reliability", str(file)]
        ended = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
        )
        return ended, json.loads(file.read_text()) if file.exists() else None

    return run


def test_counts_of_all_processes_are_added_up(run, tmp_path):
    ended, found = run("-n", "2", "--cov", "--cov-report=")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert found["complete"]
    assert found["tests"] == {"passed": 5, "skipped": 1, "xfailed": 0}
    assert found["skipped"] == {"no data": 1}
    cases = found["counts"].pop("property cases")
    assert 8 <= cases <= 30  # of 11 integers hypothesis may try each once, and one is refused
    assert found["counts"] == {"fuzz inputs": 30, "kills survived": 9}
    # neither the error nor the way out of large numbers is reached, nor the branches to them
    assert found["coverage"]["lines"] == [4, 6]
    assert found["coverage"]["branches"] == [2, 4]
    assert found["coverage"]["percent"] == pytest.approx(60.0)
    assert found["raises"] == [0, 1]
    assert found["versions"]["python"].startswith("3.")
    assert "kills survived: 9" in ended.stdout
    assert [path.name for path in (tmp_path / "found").iterdir()] == ["reliability.json"]


def test_a_failed_run_leaves_the_file_alone(run):
    _, before = run("-k", "counts")
    assert not before["complete"]
    ended, after = run("--fail")
    assert ended.returncode == 1
    assert after == before
    assert "is left as it was" in ended.stdout


SUMMARY = {
    "tests": {"passed": 2345, "skipped": 6, "xfailed": 0},
    "counts": {"fuzz inputs": 12000, "kills survived": 150},
    "coverage": {"percent": 97.26, "lines": [9, 10], "branches": [5, 6]},
    "raises": [310, 312],
}


def test_sentences_say_every_figure():
    text = sentences(SUMMARY)
    for figure in ("2,345", "6 skipped", "12,000 fuzz inputs", "150 kills", "97.3%", "310 of 312"):
        assert figure in text
    assert max(map(len, text.splitlines())) <= 100


def test_sentences_take_the_place_of_the_earlier_ones():
    readme = f"# Title\n\n{MARKS[0]}old\n{MARKS[1]}\n## Next\n"
    once = quoting(readme, sentences(SUMMARY))
    assert once == f"# Title\n\n{MARKS[0]}{sentences(SUMMARY)}{MARKS[1]}\n## Next\n"
    assert quoting(once, sentences(SUMMARY)) == once
    for broken in ("# Title\n", MARKS[0], MARKS[1], MARKS[1] + MARKS[0]):
        with pytest.raises(ValueError, match="no place"):
            quoting(broken, "")


def test_the_readme_quotes_the_last_run():
    """Before the first one it has no figures: nothing is claimed that was not measured."""
    quoted = sentences(json.loads(RESULTS.read_text())) if RESULTS.exists() else ""
    readme = README.read_text()
    assert quoting(readme, quoted) == readme, "run `python tests/reliability.py`"


@pytest.mark.skipif(not RESULTS.exists(), reason="`make test-all` has not been run to its end")
def test_the_last_run_went_through_what_was_promised():
    summary = json.loads(RESULTS.read_text())
    assert summary["complete"]
    assert summary["tests"]["passed"] > 4000
    counts = summary["counts"]
    assert counts["kills survived"] >= 50
    assert counts["fuzz inputs"] >= 10_000
    assert counts["fits of a soak"] >= 2000
    assert counts["nodes of the largest fit"] >= 1_000_000
    assert counts["property cases"] >= 400
    assert summary["coverage"]["percent"] >= MINIMUM
    reached, total = summary["raises"]
    assert reached == total > 300
