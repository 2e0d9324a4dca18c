"""Data that are not as they should be, or not quite."""

from __future__ import annotations

import math
import re
import warnings

import numpy as np
import pytest
import torch
from model_examples import example

import pyro_copula as pc
from pyro_copula.errors import InvalidArgumentError, UnusedDataWarning
from pyro_copula.models import NodeData


@pytest.mark.parametrize(
    ("name", "change", "match"),
    [
        ("x", torch.Tensor.numpy, r"tensor `x`, but found ndarray.\n.*torch.as_tensor\(data.x\)"),
        ("x", torch.Tensor.tolist, r"tensor `x`, but found list.\n.*torch.as_tensor\(data.x\)"),
        ("x", lambda x: x + 1j, r"`data.x` must be real.*complex128.\n.*data.x.real"),
        ("y", lambda y: y + 1j, r"`data.y` must be real.*complex128.\n.*data.y.abs\(\)"),
        ("births", lambda b: b + 1j, r"`data.births` must be real"),
    ],
)
def test_values_of_another_kind(name, change, match):
    data = example()
    data.births = torch.ones(40)
    data[name] = change(data[name])
    with pytest.raises(InvalidArgumentError, match=match):
        NodeData.from_pyg(data, exposure="births")


@pytest.mark.parametrize("exposure", [torch.ones(40), np.ones(40), [1.0] * 40, 3])
def test_an_exposure_that_is_no_name(exposure):
    match = r"`exposure` must be the name .*\n.*exposure=\"exposure\""
    with pytest.raises(InvalidArgumentError, match=match):
        pc.CopulaGNN("linear", "poisson", exposure=exposure)
    with pytest.raises(InvalidArgumentError, match=match):
        NodeData.from_pyg(example(), exposure=exposure)


@pytest.mark.parametrize(
    ("observed", "found"),
    [
        ("train_mask", "'train_mask'.\n  Pass a mask such as data.train_mask"),
        ([True, None] * 20, r"\[True, None, True, None, True, None, ...\]"),
        ([[True], []], r"\[\[True\], \[\]\]"),
    ],
)
def test_a_mask_that_is_none(observed, found):
    with pytest.raises(InvalidArgumentError, match=rf"`observed` must be boolean.*found {found}"):
        NodeData.from_pyg(example(), observed)


def test_masks_as_arrays_and_lists():
    mask = torch.arange(40) % 3 == 0
    for observed in (mask, mask.numpy(), mask.numpy()[::-1][::-1], mask.tolist()):
        assert torch.equal(NodeData.from_pyg(example(), observed).observed, mask)


@pytest.mark.parametrize("weight", [torch.arange(3.0).repeat(50), torch.rand(150, 1)])
def test_weights_of_edges_are_said_to_be_unused(weight):
    data = example()
    data.edge_weight = weight[: data.edge_index.shape[1]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pc.fit(pc.CopulaGNN("linear", "normal"), data, schedule=pc.Schedule(max_epochs=1))
    (said,) = [w for w in caught if issubclass(w.category, UnusedDataWarning)]
    assert said.filename == __file__
    assert re.search(r"`data.edge_weight` is not used.*SparsePrecision", str(said.message), re.S)
    assert "EdgeRegressionPrecision" in str(said.message)


@pytest.mark.parametrize("weight", [None, torch.ones(3), torch.ones(3, 1), torch.zeros(0)])
def test_equal_weights_are_not_told_of(weight):
    data = example()
    data.edge_weight = weight
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        NodeData.from_pyg(data)


NOISE = torch.randn(40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(
    "y",
    [
        1e8 + NOISE,
        1e6 + NOISE,
        1e-50 * NOISE,
        1e50 * NOISE,
        10**9 + torch.arange(40),
        (1e8 + NOISE).masked_fill(torch.arange(40) < 20, math.nan),
    ],
)
def test_values_too_close_for_the_dtype_are_refused(y):
    data = example()
    data.y = y
    assert torch.equal(NodeData.from_pyg(data).y.nan_to_num(), y.double().nan_to_num())
    torch.set_default_dtype(torch.float32)
    match = r"`data.y` must be .* torch.float32 can tell apart.*\n.*set_default_dtype.*centre"
    with pytest.raises(InvalidArgumentError, match=match):
        NodeData.from_pyg(data)


@pytest.mark.parametrize(
    "y",
    [
        NOISE,
        2000 + 10 * NOISE,
        1.7e9 + 1e5 * NOISE,
        NOISE.mul(20).exp(),
        torch.full((40,), 0.1, dtype=torch.float64),
        0.3 + 1e-16 * NOISE,
        torch.zeros(40, dtype=torch.float64),
        torch.arange(40),
        torch.arange(40) % 2 == 0,
        torch.cat([NOISE[:39], torch.tensor([1e12], dtype=torch.float64)]),
        1e8 + NOISE.float(),
    ],
)
def test_usual_values_are_rounded(y):
    data = example()
    data.y = y
    torch.set_default_dtype(torch.float32)
    assert torch.equal(NodeData.from_pyg(data).y, y.float())


def test_only_observed_values_are_looked_at():
    data = example()
    data.y = NOISE.clone()
    data.y[:5] = 1e300
    torch.set_default_dtype(torch.float32)
    assert int(NodeData.from_pyg(data, torch.arange(40) >= 5).observed.sum()) == 35
