"""Means, tests and pictures against independent computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from harness import figures, stats
from harness.report import PUBLISHED


def test_paired_test_is_scipys():
    rng = np.random.default_rng(0)
    base = dict(enumerate(rng.normal(size=12)))
    model = {k: v + 0.3 + 0.2 * rng.normal() for k, v in base.items()}
    model[99] = 50.0  # no partner: left out
    keys = sorted(base)
    expected = scipy.stats.ttest_rel([model[k] for k in keys], [base[k] for k in keys]).pvalue
    assert stats.paired_p(model, base) == pytest.approx(expected, rel=1e-10)


def test_a_test_needs_pairs():
    assert stats.paired_p({1: 0.5}, {1: 0.4}) is None
    assert stats.paired_p({1: 0.5, 2: 0.5}, {1: 0.4, 2: 0.4}) is None


def test_a_test_of_means():
    values = [0.1, 0.3, 0.2, -0.1]
    expected = scipy.stats.ttest_1samp(values, 0.0).pvalue
    assert stats.mean_p(values) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("p", "stars"), [(None, 0), (0.2, 0), (0.09, 1), (0.04, 2), (0.009, 3)])
def test_asterisks(p, stars):
    assert stats.asterisks(p).count("*") == stars


def test_standard_error():
    cell = stats.summarise([1.0, 2.0, 4.0])
    assert cell.mean == pytest.approx(7 / 3)
    assert cell.error == pytest.approx(scipy.stats.sem([1.0, 2.0, 4.0]))
    assert math.isnan(stats.summarise([1.0]).error)


def test_base_models():
    assert stats.base_of("R-C-GCN") == "GCN"
    assert stats.base_of("ab-C-SAGE") == "SAGE"
    assert stats.base_of("SAGE") is None
    assert stats.base_of("R-C-SAGE, learned scale") is None


def test_published_numbers():
    published = stats.read_published(PUBLISHED)
    assert len(published) == 7 * (4 + 4 + 3)
    one = published["table2_election", "ab-C-SAGE", "unemployment"]
    assert one.least == pytest.approx(0.805)


@pytest.mark.parametrize("name", figures.COPULAS)
def test_copulas_have_uniform_marginals(name):
    density = figures.COPULAS[name]
    for u in (0.15, 0.5, 0.9):
        mass, _ = scipy.integrate.quad(
            lambda v, u=u: density(np.array(u), np.array(v)), 0, 1, limit=400, points=[u]
        )
        assert mass == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("name", figures.COPULAS)
def test_copulas_have_the_stated_dependence(name):
    """Kendall's tau, 4 E[C(U, V)] - 1, with C summed up on a grid of cells."""
    m = 1200
    middle = (np.arange(m) + 0.5) / m
    u, v = np.meshgrid(middle, middle)
    mass = figures.COPULAS[name](u, v) / m**2
    mass /= mass.sum()
    whole = mass.cumsum(0).cumsum(1)
    # the distribution function at the middle of a cell
    before = np.pad(whole, ((1, 0), (1, 0)))
    centre = (before[1:, 1:] + before[:-1, 1:] + before[1:, :-1] + before[:-1, :-1]) / 4
    assert 4 * (mass * centre).sum() - 1 == pytest.approx(figures.KENDALL, abs=5e-3)


def test_pictures_are_written(tmp_path):
    figures.copula_densities(tmp_path / "three.png")
    curves = {"a": {"MLP": [(2.5, 0.5, 0.01), (5.0, 0.4, 0.01)]}, "b": {}}
    figures.roles(curves, tmp_path / "one.png")
    figures.calibration({"income": {"interval": (0.9, 0.01)}}, tmp_path / "two.png")
    for name in ("one", "two", "three"):
        assert (tmp_path / f"{name}.png").stat().st_size > 5000


def test_overlapping_splits_are_corrected_for():
    """By hand: four values of mean 2 and variance 8 / 3, test nodes a third of training nodes."""
    values = [0.0, 2.0, 2.0, 4.0]
    t = 2 / math.sqrt((1 / 4 + 1 / 3) * 8 / 3)
    assert stats.mean_p(values, 1 / 3) == pytest.approx(2 * scipy.stats.t.sf(t, 3))
    assert stats.mean_p(values) == pytest.approx(scipy.stats.ttest_1samp(values, 0).pvalue)
    assert stats.mean_p([1.0], 1 / 3) is None
