"""Runs work in processes that are killed, and looks at what they leave."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib.image
import pandas as pd
import torch
from harness import committed, trials

import pyro_copula as pc
from pyro_copula.inference.files import read_record

HERE = Path(__file__).parent
EXPERIMENTS = Path(trials.__file__).parents[1]


class Mortal:
    """A server that runs jobs in children, and kills them when it is told to."""

    def __init__(self) -> None:
        paths = os.pathsep.join([str(HERE), str(EXPERIMENTS)])
        self.server = subprocess.Popen(
            [sys.executable, str(HERE / "victims.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert self.server.stdout.readline() == "ready\n"

    def run(self, kind: str, folder: Path, out: Path, **moment: Any) -> tuple[int, float]:
        """Runs a job, or kills it; returns its exit code and its duration."""
        began = time.monotonic()
        job = {"kind": kind, "folder": str(folder), "out": str(out), **moment}
        self.server.stdin.write(json.dumps(job) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline()), time.monotonic() - began

    def close(self) -> None:
        self.server.stdin.close()
        self.server.wait(timeout=60)
        self.server.stdout.close()


def check_killing(
    mortal: Mortal, tmp_path: Path, kind: str, *, kills: int, at_writes: int, share: float
) -> int:
    """Kills a run again and again; it must end as an undisturbed one does, with nothing lost.

    Args:
        mortal: Runs the work.
        tmp_path: For everything.
        kind: What work.
        kills: How often, at moments spread over the whole duration.
        at_writes: How often in addition, while something is being written.
        share: The mean moment of a kill, as a share of the undisturbed duration.

    Returns:
        The number of kills that hit a living process.
    """
    code, duration = mortal.run(kind, tmp_path / "calm", tmp_path / "calm.out")
    assert code == 0
    expected = contents(kind, tmp_path / "calm", tmp_path / "calm.out")
    folder, out = tmp_path / "rough", tmp_path / "rough.out"
    moments = random.Random(kind)
    plan = [{"kill_after": moments.uniform(0, 2 * share * duration)} for _ in range(kills)]
    plan += [{"kill_at_write": moments.randrange(1, 6)} for _ in range(at_writes)]
    moments.shuffle(plan)
    killed = finished = 0
    done: Any = None
    while plan:
        code, _ = mortal.run(kind, folder, out, **plan[-1])
        if code == 0:  # ended between two kills: once more from the start
            assert same(contents(kind, folder, out), expected)
            folder.rename(tmp_path / f"finished{finished}")
            finished, done = finished + 1, None
            assert finished < 20 * (kills + at_writes), "the kills do not land"
            if "kill_at_write" in plan[-1]:
                plan[-1] = {"kill_at_write": 1}
            continue
        assert code == -signal.SIGKILL, kind
        plan.pop()
        killed += 1
        found = finished_work(kind, folder)
        assert keeps(kind, done, found), f"finished work is lost: {done} became {found}"
        done = found
    assert mortal.run(kind, folder, out)[0] == 0
    assert same(contents(kind, folder, out), expected)
    assert not leftovers(folder), "the next run cleans up"
    return killed


def leftovers(folder: Path) -> list[Path]:
    """Hidden files and folders of processes that are gone."""
    return [path for path in folder.rglob(".*") if path.name != ".cache"]


def finished_work(kind: str, folder: Path) -> Any:
    """What has been finished, after checking that every file is whole or a hidden leftover."""
    hidden = leftovers(folder)
    found: Any = {} if kind in ("trials", "command") else 0
    for path in sorted(folder.rglob("*")):
        if path.is_dir() or any(path == h or h in path.parents for h in hidden):
            continue
        if path.name == "state":
            parts = read_record(path, "checkpoint")["parts"]
            found = sum(len(part["history"]["losses"]) for part in parts.values())
        elif path.name == "ranks.jsonl":
            lines = path.read_bytes().split(b"\n")[:-1]  # what follows is cut off by the next run
            found = max(0, len([json.loads(line) for line in lines]) - 1)
        elif path.suffix == ".json":
            trials.read_trial(path)
            found[str(path)] = path.read_bytes()
        elif path.name == "figure1.jsonl":
            committed.read(path)
        elif path.parent.name == "results":
            found[path.name] = read_result(path)
        else:
            assert path.name in ("nodes.csv", "edges.csv"), f"what is {path}?"
    return found


def keeps(kind: str, before: Any, after: Any) -> bool:
    """Whether nothing that had been finished before a kill is gone after it."""
    if before is None:
        return True
    if kind == "trials":
        return before.items() <= after.items()
    if kind == "command":  # between two renames the old results are hidden, and put back later
        return len(after) in (0, 4)
    return before <= after


def read_result(path: Path) -> Any:
    """A file that ``pyro-copula fit`` wrote, as what it must be."""
    if path.suffix == ".csv":
        return pd.read_csv(path).to_dict("list")
    if path.suffix == ".png":
        return matplotlib.image.imread(path).shape
    if path.suffix == ".txt":
        return path.read_text()
    return pc.load_fit(path).scalars


def contents(kind: str, folder: Path, out: Path) -> Any:
    """The result of a run, without what differs by itself, which is how long it took."""
    if kind in ("checkpoint", "calibration"):
        return torch.load(out, weights_only=True)
    if kind == "command":
        return {path.name: read_result(path) for path in (folder / "results").iterdir()}
    found = {}
    for path in (folder / "smoke" / "work").rglob("*.json"):
        record = trials.read_trial(path)
        found[record["key"]] = record["metrics"]
    rows = committed.read(folder / "smoke" / "results" / "figure1.jsonl")
    return found, [[row["dataset"], row["model"], row["metrics"]] for row in rows]


def same(a: Any, b: Any) -> bool:
    """Whether nested results are equal bit by bit; a NaN equals a NaN."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (a != a and b != b)
