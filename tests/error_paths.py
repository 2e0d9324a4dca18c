"""Which errors no test has seen: every ``raise`` of the package that was not executed.

    coverage run -m pytest && coverage combine
    python tests/error_paths.py                  # reads .coverage
    python tests/error_paths.py other.coverage --minimum 95

An error that is never raised in a test may well be wrong itself when it is needed. The script
ends with 1 if there is such a ``raise``, or if less of the package was executed than asked for.
"""

from __future__ import annotations

import argparse
import ast
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import coverage

#: Statements and branches of the package that the fast suite should execute, in per cent.
MINIMUM = 95.0


@dataclass(frozen=True)
class ErrorPath:
    """One ``raise`` statement.

    Attributes:
        path: The file, from the folder of the package on.
        line: Its line.
        text: The line itself.
        reached: Whether it was executed.
    """

    path: str
    line: int
    text: str
    reached: bool

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def raise_lines(source: str) -> list[int]:
    """The lines of the ``raise`` statements of a file.

    Args:
        source: Its text.

    Returns:
        Line numbers from 1, in order.
    """
    return sorted(
        node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)
    )


def error_paths(measured: coverage.Coverage, package: Path) -> list[ErrorPath]:
    """Every ``raise`` of a package, except those in compiled code.

    Args:
        measured: The data, loaded.
        package: The folder of the package.

    Returns:
        The statements, in the order of files and lines.
    """
    found = []
    for path in sorted(package.rglob("*.py")):
        source = path.read_text()
        lines = raise_lines(source)
        if not lines:
            continue
        _, statements, excluded, missing, _ = measured.analysis2(str(path))
        text = source.splitlines()
        for line in lines:
            if line not in excluded:
                reached = line in statements and line not in missing
                name = str(path.relative_to(package.parent))
                found.append(ErrorPath(name, line, text[line - 1].strip(), reached))
    return found


def main(arguments: list[str] | None = None) -> int:
    """Prints what was not reached.

    Args:
        arguments: Those of the command line.

    Returns:
        The exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", default=".coverage", help="a coverage data file")
    parser.add_argument("--package", type=Path, default=Path("pyro_copula"))
    parser.add_argument("--minimum", type=float, default=MINIMUM, help="per cent")
    options = parser.parse_args(arguments)
    measured = coverage.Coverage(data_file=options.data)
    measured.load()
    package = options.package.resolve()
    found = error_paths(measured, package)
    left = [each for each in found if not each.reached]
    total = measured.report(file=StringIO(), include=[f"{package}/*"])
    for each in left:
        print(each)
    print(f"{len(found) - len(left)} of {len(found)} raise statements reached")
    print(f"{total:.1f}% of statements and branches executed")
    return 1 if left or total < options.minimum else 0


if __name__ == "__main__":
    sys.exit(main())
