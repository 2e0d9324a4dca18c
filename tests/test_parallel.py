"""Parallel work: what it gives, and that it ends."""

import builtins
import time

import pytest
import torch

from pyro_copula.parallel import run_each


def default_dtype(_item):
    """The default dtype where the work is done."""
    return torch.get_default_dtype()


def grow(item):
    """Keeps more memory with every item, so that joblib replaces the process on the way."""
    kept = builtins.__dict__.setdefault("kept_by_the_test", [])
    if item > 1:  # joblib compares with the memory after the first items
        kept.append(bytearray(b"x" * 200_000_000))
    time.sleep(1.2)  # joblib looks once a second
    return item


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_item_is_worked_on(jobs):
    assert sorted(run_each(abs, [-1, 2, -3], jobs=jobs)) == [1, 2, 3]


def test_the_default_dtype_goes_along():
    torch.set_default_dtype(torch.float64)
    assert set(run_each(default_dtype, [0, 1], jobs=2)) == {torch.float64}
    torch.set_default_dtype(torch.float32)
    assert set(run_each(default_dtype, [0, 1], jobs=2)) == {torch.float32}


@pytest.mark.slow
def test_a_process_that_grows_is_replaced_and_the_run_ends():
    """Warnings are errors in these tests, and joblib warns of a replacement in its own thread."""
    assert sorted(run_each(grow, range(10), jobs=2)) == list(range(10))
