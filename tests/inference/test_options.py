"""Which nodes are for validation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from fit_examples import SHORT, example

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError

NODE = torch.arange(60)
TRAIN, VALIDATION = NODE % 3 == 0, NODE % 3 == 1


def fit(observed, validation, data=None):
    model = pc.CopulaGNN("linear", "normal", "car")
    data = example() if data is None else data
    return pc.fit(model, data, observed, validation=validation, schedule=SHORT)


@pytest.mark.parametrize("convert", [torch.clone, torch.Tensor.numpy, torch.Tensor.tolist, tuple])
def test_masks_may_be_tensors_arrays_or_lists(convert):
    expected = fit(TRAIN | VALIDATION, VALIDATION)
    found = fit(TRAIN | VALIDATION, convert(VALIDATION))
    assert found.settings["validation_nodes"] == 20
    assert found.history == expected.history


@pytest.mark.parametrize(
    ("observed", "found"),
    [
        (TRAIN, "20 of its 20 nodes outside `observed`, the first of them node 1"),
        (TRAIN | (VALIDATION & (NODE < 30)), "10 of its 20 nodes .* node 31"),
    ],
)
def test_nodes_for_validation_are_observed(observed, found):
    with pytest.raises(InvalidArgumentError, match=found) as caught:
        fit(observed, VALIDATION)
    assert "observed=train_mask | val_mask" in str(caught.value)


def test_nodes_without_a_value_do_not_count():
    data = example()
    data.y[NODE < 12] = math.nan
    for observed in (None, TRAIN | VALIDATION, (TRAIN | VALIDATION) & ~torch.isnan(data.y)):
        assert fit(observed, VALIDATION, data).settings["validation_nodes"] == 16


@pytest.mark.parametrize(
    ("validation", "found"),
    [
        (np.arange(60), r"torch.int64 of shape \(60,\).\n.*torch.isin"),
        ((NODE % 3 == 1).long(), r"torch.int64 of shape \(60,\).\n.*Pass validation.bool\(\)"),
        (np.ones(50, dtype=bool), r"torch.bool of shape \(50,\).\n.*every node an entry"),
        ([None] * 60, r"\[None, None, None, None, None, None, ...\]"),
        ("val_mask", "'val_mask'.\n  Use 0.2, or a mask such as data.val_mask"),
        ("x" * 999, r"'xxx\S{20,30}'"),
    ],
)
def test_what_is_no_mask_is_said_in_short(validation, found):
    with pytest.raises(InvalidArgumentError, match=rf"`validation` must be .*found {found}") as e:
        fit(None, validation)
    assert len(str(e.value)) < 250
