"""Conditions under which nothing can be written, in a process of their own.

``refused(condition)`` is a context in which writing fails the way it does on a real machine: a
limit on the size of files (the kernel refuses after some bytes, as a full disk does), or a user
who may not write to a directory.
"""

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

from unmeasured import environment

HERE = Path(__file__).parent

#: The user that owns nothing.
NOBODY = 65534

PRELUDE = """
import os, sys, warnings
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["MPLBACKEND"] = "Agg"
import torch
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
sys.path[:0] = [sys.argv[1], os.path.dirname(sys.argv[1])]
import limits
from pathlib import Path
folder = Path(sys.argv[2])
import pyro_copula as pc
from pyro_copula import errors

def check(name, work, *kinds):
    try:
        work()
    except kinds as error:
        text = str(error)
        assert "\\n  " in text, f"{name}: no hint in {text!r}"
        print(name, type(error).__name__, text.replace("\\n", " | "))
    else:
        print(name, "nothing happened")
"""


def small_files(size: int) -> None:
    """From now on the kernel refuses to make a file longer than so many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # so that a write fails instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def any_files() -> None:
    """Lifts the limit again."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def become_nobody() -> None:
    """From now on this process may write only where everyone may."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def full_disk(*_: object, **__: object) -> int:
    """In place of a function of ``os``: what it says when the disk is full."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def run(program: str, folder: Path) -> dict[str, str]:
    """Runs a program after :data:`PRELUDE`; what it prints, by the first word of each line."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + program, str(HERE), str(folder)],
        env=environment(),  # coverage could write only half of its file, or nothing
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())
