"""A normal variable on an interval, against fifty digits."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from pyro_copula.rectangle import interval


def cases() -> list[tuple[float, float]]:
    rng = np.random.default_rng(0)
    result = []
    for k in range(400):
        middle = rng.normal() * [1, 3, 10, 30, 100][k % 5]
        half = 10 ** rng.uniform(-6, 1.5) / 2
        lower, upper = middle - half, middle + half
        result.append((-math.inf if k % 7 == 0 else lower, math.inf if k % 11 == 0 else upper))
    return result


def probability(lower: float, upper: float) -> mp.mpf:
    a, b = mp.mpf(lower), mp.mpf(upper)
    return mp.ncdf(-a) - mp.ncdf(-b) if lower > 0 else mp.ncdf(b) - mp.ncdf(a)


@pytest.fixture(autouse=True)
def _fifty_digits():
    with mp.workdps(400):  # differences of probabilities far out
        yield


def test_log_mass_has_twelve_digits():
    for lower, upper in cases():
        want = mp.log(probability(lower, upper))
        assert abs(interval.log_mass(lower, upper) - want) <= 1e-12 * (1 + abs(want))


def test_moments():
    for lower, upper in cases():
        if min(abs(lower), abs(upper)) > 30 and not lower < 0 < upper:
            continue  # far out the variance loses digits; only guides use it, which need few
        mass = probability(lower, upper)
        density = [mp.npdf(mp.mpf(e)) if math.isfinite(e) else mp.mpf(0) for e in (lower, upper)]
        ends = [e if math.isfinite(e) else 0.0 for e in (lower, upper)]
        mean = (density[0] - density[1]) / mass
        variance = 1 + (ends[0] * density[0] - ends[1] * density[1]) / mass - mean**2
        _, got_mean, got_variance = interval.moments(lower, upper)
        assert abs(got_mean - mean) <= 1e-7 * mp.sqrt(variance) + 1e-14 * abs(mean)
        assert abs(got_variance - variance) <= 1e-5 * variance


def test_a_draw_is_the_quantile():
    rng = np.random.default_rng(1)
    for lower, upper in cases():
        u = rng.uniform()
        z = interval.draw(lower, upper, u, interval.log_mass(lower, upper))
        assert lower <= z <= upper
        share = probability(lower, z) / probability(lower, upper)
        # No better than the rounding of z itself allows.
        rounding = 2e-16 * abs(z) * mp.npdf(z) / probability(lower, upper)
        assert abs(share - u) <= 1e-6 + 4 * rounding
