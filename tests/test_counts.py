"""Whole numbers as arguments: what counts as one, and what is said of the rest."""

from __future__ import annotations

import numpy as np
import pytest

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError
from pyro_copula.errors.counts import check_count


@pytest.mark.parametrize("value", [2, np.int64(2), np.uint8(2)])
def test_whole_numbers_become_pythons_own(value):
    found = check_count("restarts", value, "Use 1.")
    assert found == 2
    assert type(found) is int


@pytest.mark.parametrize(
    ("value", "limits", "expected"),
    [
        (0, {}, "a positive integer, but found 0"),
        (True, {}, "a positive integer, but found True"),
        (np.True_, {}, "a positive integer, but found np.True_"),
        (2.0, {}, "a positive integer, but found 2.0"),
        ("2", {}, "a positive integer, but found '2'"),
        (None, {"least": 0}, "an integer from 0 on, but found None"),
        (9, {"least": 2, "most": 8}, "an integer from 2 to 8, but found 9"),
    ],
)
def test_other_things_are_refused(value, limits, expected):
    with pytest.raises(InvalidArgumentError) as caught:
        check_count("restarts", value, "Use 1.", **limits)
    assert str(caught.value) == f"`restarts` must be {expected}.\n  Use 1."


def test_numbers_of_arrays_can_be_saved(tmp_path):
    data = pc.simulate.paper_setting("b")
    model = pc.CopulaGNN("mlp", "normal", "laplacian", hidden_channels=np.int64(4))
    schedule = pc.Schedule(max_epochs=np.int64(2))
    found = pc.fit(model, data, data.train_mask, seed=np.int64(3), schedule=schedule)
    found.save(tmp_path / "fit.pt")
    assert pc.load_fit(tmp_path / "fit.pt").settings["seed"] == 3
