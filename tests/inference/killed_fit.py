"""A process that runs fits in children of its own, and kills them.

It reads one job a line (JSON: ``kind``, ``checkpoint``, ``out``, ``kill_after`` in seconds or
null), forks, sends the child SIGKILL after that time unless it has ended, and writes its exit code.
Forking saves the seconds that importing takes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import pyro
import torch
from fit_examples import example

import pyro_copula as pc

SCHEDULE = pc.Schedule(max_epochs=60, check_every=2, patience=200, save_every=1)
KINDS = {
    "mle": {"method": "mle", "lr": (0.01, 0.03), "restarts": 2},
    "map": {"method": "map", "lr": (0.01, 0.03)},
    "svi": {"method": "svi", "num_draws": 20},
    "nuts": {"method": "nuts", "num_draws": 15, "num_warmup": 15, "num_chains": 4},
}


def run(job):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    data = example()
    pyro.set_rng_seed(int.from_bytes(os.urandom(3), "big"))  # what comes before must not matter
    model = pc.CopulaGNN("sage", "normal", "car", dropout=0.3)
    found = pc.fit(
        model,
        data,
        data.observed,
        seed=3,
        schedule=SCHEDULE,
        checkpoint=job["checkpoint"],
        progress=False,
        **KINDS[job["kind"]],
    )
    fits = found.fits if isinstance(found, pc.Ensemble) else [found]
    results = [
        [f.model.state_dict(), f.posterior, f.history.losses, f.settings["lr"]] for f in fits
    ]
    torch.save(results, job["out"])


def main():
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            try:
                run(job)
                os._exit(0)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(1)
        deadline = None if job["kill_after"] is None else time.monotonic() + job["kill_after"]
        print(wait(pid, deadline), flush=True)


def wait(pid, deadline):
    """The exit code of a child, which is killed at the deadline."""
    while deadline is not None:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
            break
        time.sleep(0.002)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    print("ready", flush=True)
    main()
