"""Fingerprints tell values and functions apart, and are the same in every process."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path

import numba
import numpy as np
import pyro.distributions as dist
import pytest
import torch
from fit_examples import SHORT
from torch.distributions.transforms import AffineTransform

import pyro_copula as pc
from pyro_copula.inference.fingerprints import digest


def test_values_are_told_apart():
    values = [torch.ones(2), torch.ones(2).float(), torch.ones(1, 2), [1, 2], (1, [2]), {"a": 1}]
    values += [dist.Beta(1.0, 2.0), dist.Beta(1.0, 3.0), None, "1", 1, 1.0, print, len, SHORT]
    values += [{1: "a"}, {"1": "b"}, {1, 2}, {1, 3}, np.ones(2), np.array([None, {}]), torch]
    values += [torch.eye(2).to_sparse(), torch.zeros(2, 2).to_sparse(), torch.ones(2).bfloat16()]
    values += [dist.TransformedDistribution(dist.Normal(0, 1), AffineTransform(0, k)) for k in "12"]
    assert len({digest(value) for value in values}) == len(values)
    assert digest(dist.Beta(1.0, 2.0)) == digest(dist.Beta(1.0, 2.0))


def made(source, line=1, file="a.py", **names):
    """The function ``f`` of a source, at some line of a file."""
    names["__name__"] = "mine"
    exec(compile("\n" * line + source, file, "exec"), names)
    return names["f"]


def test_where_a_function_is_does_not_count():
    source = "def f(law, y):\n    return [law(k) for k in y if k in {'a', 'b'}]"
    assert digest(made(source)) == digest(made(source, line=70, file="b.py"))
    assert digest(made("f = lambda y: -y")) == digest(made("def f(y): return -y"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f = lambda y: y + 1", "f = lambda y: y + 2"),
        ("f = lambda y: y + 1", "f = lambda y: y - 1"),
        ("f = lambda y: y.mean()", "f = lambda y: y.sum()"),
        ("f = lambda y, k=1: y", "f = lambda y, k=2: y"),
        ("f = lambda y, *, k=1: y", "f = lambda y, *, k=2: y"),
        ("f = lambda y: y in {1, 2}", "f = lambda y: y in {1, 3}"),
        ("f = lambda: lambda y: y + 1", "f = lambda: lambda y: y + 2"),
        ("f = (lambda k: lambda y: y + k)(1)", "f = (lambda k: lambda y: y + k)(2)"),
        ("k = 1\nf = lambda y: y + k", "k = 2\nf = lambda y: y + k"),
        ("k = 1\nf = lambda: lambda y: y + k", "k = 2\nf = lambda: lambda y: y + k"),
        ("h = lambda y: 1\nf = lambda y: h(y)", "h = lambda y: 2\nf = lambda y: h(y)"),
        ("def f(y):\n try: y()\n except KeyError: y()", "def f(y):\n y()"),
    ],
)
def test_functions_count_by_what_they_do(one, other):
    assert digest(made(one)) == digest(made(one))
    assert digest(made(one)) != digest(made(other))


class Judge:
    def __init__(self, weight):
        self.weight, self.lock, self.me = weight, threading.Lock(), self

    def __call__(self, law, y):
        return self.weight

    def score(self, law, y):
        return -self.weight


def plus(k):
    return numba.njit(lambda y: y + k)


@pytest.mark.parametrize(
    "make",
    [
        Judge,
        lambda k: Judge(k).score,
        lambda k: functools.partial(torch.optim.SGD, momentum=k),
        plus,
        lambda k: functools.cache(lambda y: y + k),
        lambda k: torch.nn.HuberLoss(delta=k),
    ],
)
def test_objects_count_by_their_class_and_their_state(make):
    found = make(1.0)
    before = digest(found)
    assert digest(make(1.0)) == before
    assert digest(make(2.0)) != before
    for _ in range(50):  # Python makes code faster after some calls, numba compiles it
        found if isinstance(found, functools.partial) else made("f = lambda g: g")(found)
    assert digest(found) == before


def test_use_does_not_count():
    def optimizer(groups):
        return torch.optim.Adam(groups, betas=(0.5, 0.9))

    law = dist.TransformedDistribution(dist.Normal(0.0, 1.0), AffineTransform(0.0, 2.0))
    compiled = plus(1)
    before = [digest(value) for value in (optimizer, law, compiled, torch.optim.Adam)]
    for _ in range(100):
        weight = torch.ones(1, requires_grad=True)
        weight.square().backward()
        optimizer([weight]).step()
    assert law.transforms[0].inv(torch.ones(1)) == 0.5
    assert compiled(1) == 2
    assert [digest(value) for value in (optimizer, law, compiled, torch.optim.Adam)] == before


def test_circles_end():
    def first(n):
        return second(n - 1) if n else 0

    def second(n):
        return first(n)

    inside = []
    inside.append(inside)
    empty = (lambda: lambda: later)() if inside else None
    for value in (first, inside, lambda: (inside, first), empty):
        assert digest(value) == digest(value)
    later = 1
    assert digest(empty) == digest(empty)


PROGRAM = """
import functools, torch
from pyro_copula.inference.fingerprints import digest
class Judge:
    def __init__(self): self.names, self.start = {"x", "y", "z"}, object()
    def __call__(self, law, y): return law in {"a", "b", "c", "d"}
def around(k): return lambda groups, lr: torch.optim.SGD(groups, lr=lr, momentum=k)
judge = Judge()
scale = torch.ones(3)
f = lambda law, y: judge(law, y) * scale if y in {"a", "b", "c", "d"} else helper(y)
def helper(y): return functools.reduce(max, y)
print(digest(f, around(0.9), functools.partial(around, k=2), judge.__call__, {"a", "b", "c"}))
"""


def test_another_process_finds_the_same():
    root = str(Path(pc.__file__).parents[1])
    said = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root},
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1]
    assert len(said[0].strip()) == 64
