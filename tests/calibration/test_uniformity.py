"""The test of uniform ranks is exact: checked by counting every outcome of small cases."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pyro_copula.calibration import uniformity
from pyro_copula.calibration.uniformity import holm, uniformity_band, uniformity_p_value

#: The number of standard errors within which a simulated rate must be: fails once in 30,000.
ERRORS = 4.0


@pytest.mark.parametrize(("size", "num_ranks"), [(5, 4), (8, 2), (4, 6), (1, 5)])
def test_p_values_are_exact(size, num_ranks):
    every = np.array(list(itertools.product(range(num_ranks), repeat=size)))
    p = np.array([uniformity_p_value(ranks, num_ranks) for ranks in every])
    assert len(np.unique(p.round(9))) > 1
    for value in np.unique(p):
        # an exact p-value is at most a with probability a, for every a that it takes
        assert (p <= value + 1e-9).mean() == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_the_band_is_the_test(level):
    size, num_ranks = 6, 4
    band = uniformity_band(size, num_ranks, level)
    inside = []
    for ranks in itertools.product(range(num_ranks), repeat=size):
        share = (np.array(ranks)[:, None] < band.position * num_ranks).mean(0)
        inside.append(bool(((share >= band.lower) & (share <= band.upper)).all()))
        assert inside[-1] == (uniformity_p_value(np.array(ranks), num_ranks) > 1 - level + 1e-9)
    assert np.mean(inside) >= level


@pytest.mark.parametrize("num_ranks", [100, 1000])  # the second has fewer thresholds than ranks
def test_the_band_holds_as_often_as_it_says(num_ranks):
    generator = np.random.default_rng(3)
    runs, size, level = 4000, 150, 0.9
    band = uniformity_band(size, num_ranks, level)
    ranks = generator.integers(0, num_ranks, (runs, size))
    places = np.round(band.position * num_ranks)
    share = np.stack([(ranks < place).mean(1) for place in places], axis=1)
    held = ((share >= band.lower - 1e-12) & (share <= band.upper + 1e-12)).all(1)
    error = ERRORS * np.sqrt(level * (1 - level) / runs)
    assert level - error < held.mean() < level + error + 0.01  # steps of counts: a little more


@pytest.mark.parametrize(
    "deform", [lambda u: u**1.5, lambda u: (2 * u + 1) / 4, lambda u: np.sin(np.pi * u / 2) ** 2]
)
def test_ranks_that_are_not_uniform_are_found(deform):
    u = np.random.default_rng(4).random(400)
    assert uniformity_p_value((100 * deform(u)).astype(int), 100) < 1e-4
    assert uniformity_p_value((100 * u).astype(int), 100) > 0.01


def test_the_order_of_ranks_does_not_matter_and_mirrors_agree():
    ranks = np.random.default_rng(5).integers(0, 20, 60)
    p = uniformity_p_value(ranks, 20)
    assert uniformity_p_value(ranks[::-1], 20) == p
    assert uniformity_p_value(19 - ranks, 20) == pytest.approx(p, rel=1e-6)


def test_holm_is_the_step_down_procedure():
    p = np.array([0.2, 0.001, 0.02, 0.012])
    corrected = holm(p)
    for level in (0.003, 0.01, 0.03, 0.05, 0.1):
        order, accepted = np.argsort(p), False
        for step, k in enumerate(order):  # the definition: reject until one is not small enough
            accepted |= p[k] > level / (len(p) - step)
            assert (corrected[k] > level) == accepted
    assert holm(np.array([0.7, 0.9])).max() <= 1


def test_thresholds_are_ranks():
    for num_ranks in (2, 3, 100, 101, 102, 1000):
        places = uniformity.thresholds(num_ranks)
        assert places[0] == 1
        assert places[-1] == num_ranks - 1
        assert len(places) == min(num_ranks - 1, uniformity.MAX_THRESHOLDS)
