"""Checkpoints: a fit that is killed again and again ends as if it had not been."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyro.distributions as dist
import pytest
import torch
from fit_examples import SHORT, example

import pyro_copula as pc
from pyro_copula.errors import FitFileError, InvalidArgumentError
from pyro_copula.inference import nuts, training
from pyro_copula.inference.checkpoint import Slot, random_state, set_random_state

HERE = Path(__file__).parent


class Mortal:
    """Runs fits in processes that can be killed."""

    def __init__(self):
        environment = {**os.environ, "PYTHONPATH": str(HERE)}
        self.server = subprocess.Popen(
            [sys.executable, str(HERE / "killed_fit.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        assert self.server.stdout.readline() == "ready\n"

    def run(self, job, kill_after=None):
        """Runs a job, or kills it after some seconds; returns its exit code and its duration."""
        began = time.monotonic()
        self.server.stdin.write(json.dumps({**job, "kill_after": kill_after}) + "\n")
        self.server.stdin.flush()
        return int(self.server.stdout.readline()), time.monotonic() - began

    def close(self):
        self.server.stdin.close()
        self.server.wait(timeout=60)
        self.server.stdout.close()


@pytest.fixture
def mortal():
    made = Mortal()
    yield made
    made.close()


def same(a, b):
    """Whether nested results are equal bit by bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def check_killing(mortal, tmp_path, kind, kills, pieces):
    """Kills a fit ``kills`` times, each time about 1/``pieces`` of its duration after its start."""
    job = {"kind": kind, "checkpoint": None, "out": str(tmp_path / "undisturbed")}
    code, duration = mortal.run(job)
    assert code == 0
    expected = torch.load(tmp_path / "undisturbed", weights_only=True)
    job = {"kind": kind, "checkpoint": str(tmp_path / "state"), "out": str(tmp_path / "killed")}
    moments = random.Random(kind)
    killed = 0
    while killed < kills:
        code, _ = mortal.run(job, kill_after=moments.uniform(0.0, 2 * duration / pieces))
        if code == 0:  # finished between two kills: once more from the start
            assert same(torch.load(tmp_path / "killed", weights_only=True), expected)
            (tmp_path / "state").unlink()
            continue
        assert code == -signal.SIGKILL
        killed += 1
    assert mortal.run(job)[0] == 0
    assert same(torch.load(tmp_path / "killed", weights_only=True), expected)
    state = os.stat(tmp_path / "state").st_mtime_ns
    assert mortal.run({**job, "out": str(tmp_path / "again")})[0] == 0
    assert same(torch.load(tmp_path / "again", weights_only=True), expected)
    assert os.stat(tmp_path / "state").st_mtime_ns == state  # all of it was finished: nothing ran


def test_a_killed_fit_ends_in_the_same_state(mortal, tmp_path, tally):
    check_killing(mortal, tmp_path, "mle", kills=6, pieces=8)
    tally("kills survived", 6)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "pieces"), [("mle", 30), ("map", 20), ("svi", 20), ("nuts", 3)])
def test_a_fit_killed_many_times_ends_in_the_same_state(mortal, tmp_path, kind, pieces, tally):
    # of NUTS a kill loses the chain it hits, so it needs longer moments to get on at all
    check_killing(mortal, tmp_path, kind, kills=25, pieces=pieces)
    tally("kills survived", 25)


def checkpointed(path, data=None, model=None, **options):
    data = example() if data is None else data
    model = model or pc.CopulaGNN("linear", "normal", "car")
    options = {"schedule": SHORT, "observed": data.observed, **options}
    return pc.fit(model, data, checkpoint=path, **options)


def test_finished_candidates_are_not_run_again(tmp_path, monkeypatch):
    path = tmp_path / "state"
    first = checkpointed(path, lr=(0.01, 0.05), restarts=2)
    step, steps = training._step, []
    monkeypatch.setattr(training, "_step", lambda *a: (steps.append(1), step(*a)))
    second = checkpointed(path, lr=(0.01, 0.05), restarts=2)
    assert not steps
    assert [f.history for f in second.fits] == [f.history for f in first.fits]
    assert torch.equal(second.predict().mean, first.predict().mean)


def test_finished_chains_are_not_run_again(tmp_path, monkeypatch):
    path = tmp_path / "state"
    sizes = {"num_draws": 6, "num_warmup": 6, "num_chains": 2}
    expected = checkpointed(tmp_path / "other", method="nuts", **sizes)
    chain, ran = nuts._chain, []

    def mortal_chain(*arguments):
        if len(ran) == 1:
            raise MemoryError  # the end of the process, in the second chain
        ran.append(1)
        return chain(*arguments)

    monkeypatch.setattr(nuts, "_chain", mortal_chain)
    with pytest.raises(MemoryError):
        checkpointed(path, method="nuts", **sizes)
    monkeypatch.setattr(nuts, "_chain", lambda *a: (ran.append(1), chain(*a))[1])
    found = checkpointed(path, method="nuts", **sizes)
    assert len(ran) == 2
    for name, draws in expected.posterior.items():
        assert torch.equal(found.posterior[name], draws), name
    assert found.diagnostics["gradients"] == expected.diagnostics["gradients"]


def other_values():
    data = example()
    data.y[0] += 1
    return data


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda: {"seed": 1}, "seed"),
        (lambda: {"data": other_values()}, "data"),
        (lambda: {"model": pc.CopulaGNN("sage", "normal", "car")}, "model"),
        (
            lambda: {
                "model": pc.CopulaGNN("linear", "normal", "car", priors={"rho": dist.Beta(2, 2)})
            },
            "model",
        ),
        (lambda: {"lr": 0.02}, "options"),
        (lambda: {"schedule": pc.Schedule(max_epochs=61)}, "options"),
        (lambda: {"method": "map"}, "options"),
        (lambda: {"observed": torch.arange(60) % 4 != 2}, "data"),
        (lambda: {"validation": torch.arange(60) % 4 == 2}, "options"),
        (lambda: {"optimizer": lambda groups, **options: torch.optim.SGD(groups)}, "options"),
    ],
)
def test_a_checkpoint_of_another_call_is_refused(tmp_path, change, match):
    path = tmp_path / "state"
    first = checkpointed(path)
    content = path.read_bytes()
    with pytest.raises(FitFileError, match=rf"another call, with other .*{match}"):
        checkpointed(path, **change())
    assert path.read_bytes() == content
    # how often it is saved and what it shows are no part of the result
    again = checkpointed(path, schedule=pc.Schedule(60, 5, 5, save_every=1), progress=False)
    assert torch.equal(again.predict().mean, first.predict().mean)


def with_momentum(momentum):
    return lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=momentum)


JUDGES = [
    lambda law, values: -float((law.mean - values).square().nanmean()),
    lambda law, values: -float((law.mean - values).abs().nanmean()),
]


@pytest.mark.parametrize(
    ("option", "first", "same_again", "other"),
    [
        ("optimizer", with_momentum(0.9), with_momentum(0.9), with_momentum(0.5)),
        ("judge", JUDGES[0], JUDGES[0], JUDGES[1]),
    ],
)
def test_functions_of_one_name_are_told_apart(tmp_path, option, first, same_again, other):
    path = tmp_path / "state"
    found = checkpointed(path, **{option: first})
    again = checkpointed(path, **{option: same_again})
    assert again.history == found.history
    assert first.__qualname__ == other.__qualname__
    with pytest.raises(FitFileError, match="another call, with other options"):
        checkpointed(path, **{option: other})


def test_bad_places_for_a_checkpoint(tmp_path):
    with pytest.raises(InvalidArgumentError, match="directory that exists"):
        checkpointed(tmp_path / "nowhere" / "state")
    path = tmp_path / "state"
    path.write_text("something else")
    with pytest.raises(FitFileError, match="not a file of this package"):
        checkpointed(path)
    found = checkpointed(tmp_path / "good")
    found.save(path)
    with pytest.raises(FitFileError, match="is a fit, not a checkpoint"):
        checkpointed(path)


def test_random_states():
    state = random_state()
    first = torch.rand(3), random.random()
    set_random_state(state)
    assert torch.equal(torch.rand(3), first[0])
    assert random.random() == first[1]


def test_a_state_of_another_kind_names_the_file(tmp_path):
    slot = Slot(lambda: {}, lambda record: None, tmp_path / "fit.checkpoint")
    message = "a state that this fit cannot go on from"
    with pytest.raises(FitFileError, match=message), slot.reading():
        slot.load()["epoch"]
