"""Running the experiments of a clone; an installed package does not carry them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyro_copula as pc

from ..errors import InvalidArgumentError

#: On Windows, to become another program means to end and leave it behind.
CAN_BECOME_ANOTHER = os.name == "posix"


def run_script(name: str, arguments: list[str]) -> int:
    """Runs a script of the folder ``experiments`` beside the package.

    Where it can, this process becomes the script and nothing returns: a signal sent to it reaches
    the work, and no work is left behind. Elsewhere the script has a process of its own.

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
    return run_command([sys.executable, str(script), *arguments])


def run_command(command: list[str]) -> int:
    """Runs a program in place of this one or, where that cannot be, below it.

    Args:
        command: The program and its arguments.

    Returns:
        Its exit code, if it ran below.
    """
    if CAN_BECOME_ANOTHER:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode


def experiments_folder() -> Path:
    """Where the experiments are if the package runs from a clone."""
    return Path(pc.__file__).resolve().parents[1] / "experiments"
