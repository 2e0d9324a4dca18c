"""Spoilt inputs by the thousand: an error of the package or a good load, and nothing else."""

from __future__ import annotations

import random
import signal

import fuzz_targets
import pytest
from peak_memory import forget_peak, peak_memory

from pyro_copula import datasets
from pyro_copula.datasets import sources
from pyro_copula.errors import PyroCopulaError

#: Seconds that one input may take, on a busy machine.
LIMIT = 20

#: Bytes by which memory may rise while inputs of a kind are read.
MEMORY = 400 * 2**20

#: By kind: how many inputs in the fast suite, and how many in the slow one.
COUNTS = {
    "fits": (60, 3_200),
    "checkpoints": (10, 800),
    "tables": (40, 2_500),
    "trial_records": (30, 1_200),
    "compact_records": (20, 600),
    "calibration_records": (20, 800),
    "cache": (10, 700),
    "parsers": (10, 700),
}


class Hang(BaseException):
    """An input took too long; no reader may catch it."""


@pytest.fixture(autouse=True)
def patched(monkeypatch, tmp_path):
    """What the targets replace is put back; a hanging input raises; a bomb has a marker."""
    for name in ("_write_body", "cache_directory", "FILES"):
        monkeypatch.setattr(sources, name, getattr(sources, name))
    monkeypatch.setattr(datasets.published, "locate", datasets.published.locate)
    monkeypatch.delenv(sources.ROOT_VARIABLE, raising=False)
    monkeypatch.setattr(fuzz_targets.Bomb, "marker", str(tmp_path / "executed"))

    def hang(number, frame):
        raise Hang

    before = signal.signal(signal.SIGALRM, hang)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def fuzz(kind, count, folder):
    """Reads spoilt inputs; returns how many were refused and how many were read."""
    target = getattr(fuzz_targets, kind)(folder)
    rng = random.Random(f"{kind} {count}")
    path = folder / "input"
    for content in target.seeds:  # the good ones are read
        target.spoil(content, random.Random(0))
        path.write_bytes(content)
        target.read(path)
    refused = 0
    forget_peak()
    peak = peak_memory()
    for k in range(count):
        content = target.spoil(rng.choice(target.seeds), rng)
        path.write_bytes(content)
        signal.alarm(LIMIT)
        try:
            target.read(path)
        except PyroCopulaError as error:
            refused += 1
            message, _, hint = str(error).partition("\n")
            assert message.strip(), f"input {k}"
            assert hint.strip(), f"input {k}: no hint in {message!r}"
        except (Exception, Hang) as error:
            kept = folder / f"bad input {k}"
            kept.write_bytes(content)
            raise AssertionError(f"{kept}: {type(error).__name__}: {error}") from error
        finally:
            signal.alarm(0)
    assert peak_memory() - peak < MEMORY
    assert not (folder / "executed").exists(), "something in a file was run"
    assert not list(folder.rglob("evil*"))
    return refused, count - refused


@pytest.mark.parametrize("kind", COUNTS)
def test_some_spoilt_inputs(kind, tmp_path, tally):
    refused, _ = fuzz(kind, COUNTS[kind][0], tmp_path)
    assert refused or kind == "cache"
    tally("fuzz inputs", COUNTS[kind][0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", COUNTS)
def test_many_spoilt_inputs(kind, tmp_path, tally):
    assert sum(count for _, count in COUNTS.values()) >= 10_000
    refused, read = fuzz(kind, COUNTS[kind][1], tmp_path)
    assert (refused == 0) == (kind == "cache")  # where a spoilt file is fetched again
    print(f"{kind}: {refused} refused, {read} read")
    tally("fuzz inputs", COUNTS[kind][1])
