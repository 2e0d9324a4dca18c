"""The script that finds errors which no test has seen."""

from __future__ import annotations

import os
import subprocess
import sys

import error_paths
import pytest

MODULE = """
from numba import njit


def positive(x):
    if x < 0:
        raise ValueError("negative")
    if x == 0:
        raise KeyError("zero")
    return x


@njit
def compiled(x):
    raise RuntimeError("out of sight")


def later(x):
    raise NotImplementedError
"""


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "small_package"
    folder.mkdir()
    (folder / "__init__.py").write_text(MODULE)
    settings = 'exclude_also = ["^@njit", "^\\\\s*raise NotImplementedError$"]'
    (tmp_path / "pyproject.toml").write_text(f"[tool.coverage.report]\n{settings}\n")
    return folder


def measure(package, calls):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COV")}
    program = f"import contextlib\nfrom small_package import positive\n{calls}"
    (package.parent / "program.py").write_text(program)
    subprocess.run(
        [sys.executable, "-m", "coverage", "run", "--source=small_package", "program.py"],
        cwd=package.parent,
        env=environment,
        check=True,
    )


def test_a_raise_that_was_not_reached_is_listed(package, monkeypatch, capsys):
    monkeypatch.chdir(package.parent)
    measure(package, "with contextlib.suppress(ValueError):\n    positive(-1)")
    assert error_paths.main(["--package", str(package), "--minimum", "0"]) == 1
    said = capsys.readouterr().out
    assert 'small_package/__init__.py:9: raise KeyError("zero")' in said
    assert "1 of 2 raise statements reached" in said
    assert "negative" not in said
    assert "out of sight" not in said


def test_nothing_left_is_success_unless_too_little_was_executed(package, monkeypatch, capsys):
    monkeypatch.chdir(package.parent)
    calls = "\n".join(
        f"with contextlib.suppress(ValueError, KeyError):\n    positive({x})" for x in (-1, 0)
    )
    measure(package, calls)
    assert error_paths.main(["--package", str(package), "--minimum", "50"]) == 0
    assert "2 of 2 raise statements reached" in capsys.readouterr().out
    assert error_paths.main(["--package", str(package), "--minimum", "99"]) == 1
