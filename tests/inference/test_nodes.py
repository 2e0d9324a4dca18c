"""Nodes and values as users give them: every form that means the same, and what means nothing."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.inference.nodes import read_nodes, read_values

NAMES = ["Ashe", "Bertie", "Hertford", "Wake"]
MASK = torch.tensor([False, True, False, True])


@pytest.mark.parametrize(
    "nodes",
    [
        MASK,
        MASK.numpy(),
        MASK.tolist(),
        list(MASK.numpy()),
        list(MASK),
        pd.Series(MASK.numpy(), index=NAMES),
        torch.tensor([1, 3]),
        np.array([1, 3], dtype=np.int32),
        np.array([1.0, 3.0]),
        [np.int64(1), 3],
        list(MASK.nonzero()),
        (1, 3),
        range(1, 4, 2),
        ["Bertie", "Wake"],
        np.array(["Bertie", "Wake"]),
        pd.Index(["Bertie", "Wake"]),
        ["Bertie", 3],
    ],
)
def test_forms_of_the_same_nodes(nodes):
    assert read_nodes(nodes, NAMES, 4) == [1, 3]


@pytest.mark.parametrize(
    ("nodes", "match"),
    [
        (5, r"a list of numbers .* found 5.\n  .* nodes=\[5\]"),
        (torch.tensor(5), r"found tensor\(5\).\n  .* nodes=\[5\]"),
        (np.int64(5), r"found np.int64\(5\).\n  .* nodes=\[5\]"),
        ("Hertford", r"found 'Hertford'.\n  .* nodes=\['Hertford'\]"),
        ([math.inf], "numbers of nodes, .* found inf.\n  Pass whole numbers"),
        ([math.nan], "found nan"),
        ([None], "found None"),
        ([1, True], "found True"),
        ([1.5], "found 1.5"),
        (torch.tensor([[1], [3]]), r"found \[1\].\n  Pass whole numbers in one dimension"),
        (["Hertfort"], "found 'Hertfort'.\n  Did you mean 'Hertford'"),
        (["zzz"], "Check the spelling"),
        (MASK.numpy() * 1.0, "a boolean mask, but found 4 times 0 or 1, for 4 nodes"),
        (MASK[:3], "of length 4 if it is a mask, .* found length 3"),
    ],
)
def test_what_is_no_list_of_nodes(nodes, match):
    with pytest.raises(InvalidArgumentError, match=match):
        read_nodes(nodes, NAMES, 4)


def test_without_names():
    with pytest.raises(InvalidArgumentError, match="These data have no names"):
        read_nodes(["Ashe"], None, 4)


def test_values_that_cannot_be_written_to_or_are_none():
    array = np.array([1.0, 2.0])
    array.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_values(array, torch.arange(2), 2).tolist() == [1.0, 2.0]
    for y in ([[1], [1, 2]], "ab", None):
        with pytest.raises(InvalidArgumentError, match="`y` must be one number for each node"):
            read_values(y, torch.arange(2), 2)


def test_the_length_of_values_says_what_they_are():
    nodes = torch.tensor([2, 0])
    here = torch.tensor([20.0, 0.0])
    for y in (here, torch.tensor([0, 10, 20]), np.array([0, 10, 20]), [0.0, 10.0, 20.0]):
        torch.testing.assert_close(read_values(y, nodes, 3), here, check_dtype=False)
    assert read_values(torch.tensor([True, False]), nodes, 3).tolist() == [1.0, 0.0]
    assert read_values([0, 1, 2], nodes, None).tolist() == [2.0, 0.0]
    with pytest.raises(InvalidArgumentError, match="of length 2, or one value per node"):
        read_values([1.0, 2.0, 3.0, 4.0], nodes, 3)


def test_values_of_all_nodes_in_another_order_are_refused():
    y = [0.0, 1.0, 2.0]
    assert read_values(y, torch.arange(3), 3).tolist() == y
    for nodes in ([2, 0, 1], [0, 1, 1]):
        with pytest.raises(InvalidArgumentError, match="`y` must be in one order without doubt"):
            read_values(y, torch.tensor(nodes), 3)
