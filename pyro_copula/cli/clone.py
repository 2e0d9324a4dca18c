"""Running the experiments of a clone; an installed package does not carry them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyro_copula as pc

from ..errors import InvalidArgumentError


def run_script(name: str, arguments: list[str]) -> int:
    """Runs a script of the folder ``experiments`` beside the package, in a process of its own.

    Args:
        name: The file in that folder.
        arguments: What follows it on the command line.

    Returns:
        Its exit code.

    Raises:
        InvalidArgumentError: If there is no such file, for the package was not cloned.
    """
    folder = experiments_folder()
    script = folder / name
    if not script.is_file():
        raise InvalidArgumentError(
            "experiments",
            f"the folder of a clone, with {name!r} in it",
            f"no {str(script)!r}",
            "Clone the repository and install it with: pip install -c constraints.txt -e .",
        )
    return subprocess.run([sys.executable, str(script), *arguments], check=False).returncode


def experiments_folder() -> Path:
    """Where the experiments are if the package runs from a clone."""
    return Path(pc.__file__).resolve().parents[1] / "experiments"
