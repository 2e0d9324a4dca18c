"""Scalars with a range: the range as a constraint, and values that round to its end."""

from __future__ import annotations

import pytest
import torch

from pyro_copula.scalars import Correlation, Positive, Proportion, Real


@pytest.mark.parametrize("kind", [Positive, Correlation, Proportion, Real])
def test_the_support_is_the_range(kind):
    scalar = kind("x", 0.5)
    values = torch.tensor([-2.0, -0.5, 0.5, 2.0])
    assert torch.equal(scalar.support.check(values), scalar._inside(values))
    torch.testing.assert_close(scalar(), torch.tensor(0.5))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Positive, 1e-60),
        (Positive, 1e60),
        (Correlation, 1 - 1e-14),
        (Correlation, -1 + 1e-14),
        (Proportion, 1e-60),
        (Proportion, 1 - 1e-14),
        (Real, 1e60),
    ],
)
def test_a_value_that_rounds_to_the_end_of_the_range_is_held_inside(kind, value):
    torch.set_default_dtype(torch.float32)
    scalar = kind("x", 0.5)
    scalar.set_(value)
    held = scalar().detach()
    assert bool(scalar._inside(held))
    if abs(value) < 1:
        assert float(held) == pytest.approx(value, abs=1e-6)
