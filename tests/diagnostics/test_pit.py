"""Histograms, coverage and their bands; the three numbers and their p-values."""

from __future__ import annotations

import math

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from scipy import stats

import pyro_copula as pc
from pyro_copula import metrics
from pyro_copula.diagnostics import uniformity
from pyro_copula.errors import InvalidArgumentError

matplotlib.use("Agg")

#: The chance that the statistical tests fail although all is well, for each number they look at.
FAILURE_RATE = 1e-4


def shifted(shift=0.0, scale=1.0, n=400):
    """Residuals of normal values under a law that is off."""
    return torch.special.ndtr(shift + scale * torch.randn(n))


def test_heights_are_those_of_numpy():
    u = torch.rand(137)
    found = pc.pit_histogram(u, bins=7)
    expected = np.histogram(u.numpy(), bins=7, range=(0, 1))[0] * 7 / 137
    np.testing.assert_allclose(found.height.numpy(), expected, rtol=1e-12)
    assert pc.pit_histogram(torch.tensor([0.0, 1.0]), bins=2).height.tolist() == [1.0, 1.0]


def test_coverage_is_that_of_the_metric():
    u = torch.rand(57)
    curve = pc.coverage_curve(u)
    expected = [metrics.pit_coverage(u, level) for level in curve.levels.tolist()]
    np.testing.assert_allclose(curve.coverage.numpy(), expected, atol=1e-12)
    assert curve.at(0.9) == pytest.approx(metrics.pit_coverage(u, 0.9))
    assert curve.at(0.925) == pytest.approx((curve.at(0.9) + curve.at(0.95)) / 2)


@pytest.mark.parametrize("function", [pc.pit_histogram, pc.coverage_curve])
@pytest.mark.parametrize("with_reference", [False, True])
def test_independent_residuals_leave_the_band_as_rarely_as_it_says(function, with_reference):
    count, band = 300, 0.9
    reference = torch.rand(2000, 60) if with_reference else None
    left = sum(
        bool(function(torch.rand(60), band=band, reference=reference).outside.any())
        for _ in range(count)
    )
    low, high = stats.binom.ppf([FAILURE_RATE / 2, 1 - FAILURE_RATE / 2], count, 1 - band)
    assert left <= high
    if with_reference:  # the others may be wider than they must
        assert left >= low


def test_the_reference_carries_the_dependence():
    """Residuals that all move together leave a band for independent ones far too often."""
    shared = torch.special.ndtr(math.sqrt(0.5) * (torch.randn(1000, 1) + torch.randn(1000, 80)))
    reference, rows = shared[:800], shared[800:]
    alarms = {
        name: sum(bool(pc.pit_histogram(u, reference=given).outside.any()) for u in rows)
        for name, given in (("independent", None), ("reference", reference))
    }
    assert alarms["reference"] <= stats.binom.ppf(1 - FAILURE_RATE, 200, 0.05 + 0.01)
    assert alarms["independent"] > 100


def test_missing_residuals_are_left_out():
    u = torch.rand(50)
    with_gaps = torch.cat([u, torch.full((10,), math.nan)])
    for function in (pc.pit_histogram, pc.coverage_curve, uniformity):
        assert repr(function(with_gaps)) == repr(function(u))


# -------------------------------------------------------------------- three numbers


def test_the_distance_and_its_p_value_are_those_of_scipy():
    u = torch.rand(80) ** 1.2
    found, expected = uniformity(u), stats.kstest(u.numpy(), "uniform")
    assert found.distance == pytest.approx(expected.statistic, rel=1e-12)
    assert found.p_distance == pytest.approx(expected.pvalue, rel=1e-9)


@pytest.mark.parametrize("with_reference", [False, True])
def test_p_values_of_uniform_residuals_are_uniform(with_reference):
    reference = torch.rand(999, 100) if with_reference else None
    found = [uniformity(torch.rand(100), reference=reference) for _ in range(250)]
    for name in ("p_bias", "p_dispersion", "p_tails", "p_distance"):
        p = np.array([getattr(one, name) for one in found])
        # ranks among one set of simulations share its luck, and those of counts have steps
        if name != "p_tails":
            assert stats.kstest(p, "uniform").statistic < 0.15
        assert np.mean(p < 0.05) < stats.binom.ppf(1 - FAILURE_RATE, 250, 0.065) / 250


def test_each_number_reads_its_own_shape():
    narrow, wide = uniformity(shifted(scale=1.6)), uniformity(shifted(scale=0.6))
    high, low = uniformity(shifted(0.7)), uniformity(shifted(-0.7))
    assert narrow.dispersion > 1.2
    assert narrow.p_dispersion < 1e-4
    assert wide.dispersion < 0.8
    assert wide.p_dispersion < 1e-4
    assert high.bias > 0.1 > -0.1 > low.bias
    assert max(high.p_bias, low.p_bias) < 1e-4
    # a bias is not read as a dispersion, nor the other way round
    assert min(high.p_dispersion, low.p_dispersion) > FAILURE_RATE
    assert min(narrow.p_bias, wide.p_bias) > FAILURE_RATE


def test_the_tails_are_what_wide_intervals_leave_out():
    u = torch.cat([torch.rand(70), torch.full((30,), 0.98)])
    found = uniformity(u)
    assert found.tails == pytest.approx(1 - metrics.pit_coverage(u, 0.9))
    count = round(100 * found.tails)
    assert found.p_tails == pytest.approx(stats.binomtest(count, 100, 0.1).pvalue)


def test_residuals_of_zero_and_one_are_numbers():
    found = uniformity(torch.tensor([0.0, 0.0, 1.0, 1.0, 0.5]))
    assert math.isfinite(found.dispersion)
    assert math.isfinite(uniformity(torch.ones(5)).dispersion)


# -------------------------------------------------------------------- pictures and errors


def test_plots_show_every_bin_and_level():
    axes = pc.pit_histogram(shifted(scale=1.6)).plot()
    assert len(axes.patches) >= 10
    assert {text.get_text() for text in axes.get_legend().get_texts()} == {
        "95% band",
        "outside the band",
    }
    axes = pc.coverage_curve(torch.rand(100)).plot()
    assert axes.get_xlabel() == "level of the interval"
    plt.close("all")


@pytest.mark.parametrize(
    ("call", "argument", "found"),
    [
        (lambda: pc.pit_histogram(torch.tensor([0.2, 1.4])), "u", "1.4"),
        (lambda: pc.pit_histogram(torch.full((3,), math.nan)), "u", "none"),
        (lambda: pc.pit_histogram(torch.rand(9), bins=1), "bins", "1"),
        (lambda: pc.coverage_curve(torch.rand(9), band=95), "band", "95"),
        (
            lambda: pc.pit_histogram(torch.rand(9), reference=torch.rand(9)),
            "reference",
            r"shape \(9,\)",
        ),
    ],
)
def test_bad_arguments_are_named(call, argument, found):
    with pytest.raises(InvalidArgumentError, match=f"`{argument}` .*{found}"):
        call()
