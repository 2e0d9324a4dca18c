"""Scores against hand-computed values, brute force and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from pyro_copula import metrics
from pyro_copula.errors import InvalidArgumentError

#: Probability that a correct implementation fails one of the statistical checks of this file.
FAILURE_RATE = 1e-6
Z = stats.norm.isf(FAILURE_RATE / 2)


def brute_force_crps(y: np.ndarray, samples: np.ndarray, fair: bool) -> float:
    size = len(samples)
    spread = np.abs(samples[:, None] - samples[None]).sum((0, 1))
    spread = spread / (2 * size * (size - 1 if fair else size))
    return float((np.abs(samples - y).mean(0) - spread).mean())


def test_r2_by_hand():
    assert metrics.r2([1.0, 2.0, 3.0, 6.0], [1.0, 2.0, 3.0, 4.0]) == pytest.approx(1 - 4 / 14)
    assert metrics.r2([1.0, 2.0, 6.0], [3.0, 3.0, 3.0]) == 0.0
    assert metrics.r2(np.array([1.0, 3.0]), torch.tensor([3.0, 1.0])) == -3.0


def test_r2_deviance_by_hand():
    # On 1 + y = (1, 3) and 1 + p = (2, 2), which is the mean: nothing is explained.
    assert metrics.r2_deviance([0.0, 2.0], [1.0, 1.0]) == pytest.approx(0.0, abs=1e-15)
    # On (1, 3) and (1, 4): 3 log(3/4) + 1 over log(1/2) + 3 log(3/2).
    expected = 1 - (3 * math.log(0.75) + 1) / (math.log(0.5) + 3 * math.log(1.5))
    assert metrics.r2_deviance([0, 2], [0, 3]) == pytest.approx(expected)
    assert metrics.r2_deviance([0.0, 2.0, 7.0], [0.0, 2.0, 7.0]) == 1.0


def test_intervals_by_hand():
    y, interval = [0.0, 3.0, 10.0], ([0.0, 1.0, 2.0], [1.0, 2.0, 4.0])
    assert metrics.coverage(y, interval) == pytest.approx(1 / 3)
    assert metrics.interval_width(interval) == pytest.approx(4 / 3)
    # 2 / alpha = 20: widths 1, 1, 2 and distances 0, 1, 6.
    assert metrics.interval_score(y, interval, 0.9) == pytest.approx((4 + 20 * 7) / 3)
    assert metrics.interval_score([-1.0], ([0.0], [1.0]), 0.5) == pytest.approx(5.0)
    assert metrics.coverage([1.0], ([-math.inf], [math.inf])) == 1.0


def test_the_interval_score_prefers_the_true_quantiles():
    y = torch.from_numpy(stats.norm.ppf((np.arange(20000) + 0.5) / 20000))
    true = stats.norm.isf(0.05)

    def score(half_width: float) -> float:
        ends = torch.full_like(y, half_width)
        return metrics.interval_score(y, (-ends, ends), 0.9)

    assert score(true) < min(score(true - 0.1), score(true + 0.1))


def test_log_score_is_the_mean():
    assert metrics.log_score(torch.tensor([-1.0, -2.0, -6.0])) == -3.0
    assert metrics.log_score([-1.0, -math.inf]) == -math.inf


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("chunk", [1, 37, 10**6])
def test_crps_is_the_double_sum(monkeypatch, fair, chunk):
    monkeypatch.setattr(metrics, "CRPS_CHUNK", chunk)
    rng = np.random.default_rng(1)
    y, samples = rng.poisson(3.0, 11).astype(float), rng.poisson(4.0, (13, 11)).astype(float)
    expected = brute_force_crps(y, samples, fair)
    assert metrics.crps_sample(y, samples, fair=fair) == pytest.approx(expected, rel=1e-12)
    shifted = metrics.crps_sample(y + 1e9, samples + 1e9, fair=fair)
    assert shifted == pytest.approx(expected, rel=1e-12)


def test_crps_of_normal_draws_is_the_closed_form():
    generator = torch.Generator().manual_seed(0)
    y = torch.linspace(-3, 3, 2000)
    draws = torch.randn((50, 2000), generator=generator)
    exact = y * (2 * torch.special.ndtr(y) - 1) - 1 / math.sqrt(math.pi)
    exact = exact + 2 * torch.exp(-y.square() / 2) / math.sqrt(2 * math.pi)
    one = torch.tensor(
        [metrics.crps_sample(y[i : i + 1], draws[:, i : i + 1]) for i in range(2000)]
    )
    z = float((one - exact).mean() / (one.std() / math.sqrt(2000)))
    assert abs(z) < Z
    biased = metrics.crps_sample(y, draws, fair=False) - float(exact.mean())
    # The plain score of S draws is too large by E|X - X'| / (2 S) = 1 / (S sqrt(pi)).
    standard_error = float((one - exact).std()) / math.sqrt(2000)
    assert abs(biased - 1 / (50 * math.sqrt(math.pi))) < Z * standard_error


def test_crps_takes_half_precision_and_any_node_shape():
    y, samples = torch.zeros(2, 3), torch.tensor([-1.0, 1.0, 3.0]).view(3, 1, 1).expand(3, 2, 3)
    assert metrics.crps_sample(y.half(), samples.half()) == pytest.approx(5 / 3 - 16 / 12)


def test_pit_is_uniform_for_the_true_law_and_not_for_another():
    y = stats.poisson(1.5).rvs(4000, random_state=3)
    generator = torch.Generator().manual_seed(2)
    u = metrics.pit(stats.poisson(1.5).cdf(y - 1), stats.poisson(1.5).cdf(y), generator)
    assert stats.kstest(u.numpy(), "uniform").pvalue > FAILURE_RATE
    wrong = metrics.pit(stats.poisson(2.5).cdf(y - 1), stats.poisson(2.5).cdf(y), generator)
    assert stats.kstest(wrong.numpy(), "uniform").pvalue < 1e-9
    assert abs(metrics.pit_coverage(u, 0.9) - 0.9) < Z * math.sqrt(0.09 / 4000)


def test_pit_is_reproducible_and_exact_without_atoms():
    ends = torch.tensor([0.1, 0.5]), torch.tensor([0.3, 0.5])
    first = metrics.pit(*ends, torch.Generator().manual_seed(1))
    second = metrics.pit(*ends, torch.Generator().manual_seed(1))
    assert torch.equal(first, second)
    assert 0.1 <= first[0] <= 0.3
    assert first[1] == 0.5
    state = torch.get_rng_state()
    metrics.pit(*ends, torch.Generator().manual_seed(1))
    assert torch.equal(state, torch.get_rng_state())


def test_pit_coverage_by_hand():
    assert metrics.pit_coverage([0.01, 0.3, 0.5, 0.99], 0.9) == 0.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.r2([1.0, 2.0], [1.0, 2.0, 3.0]), r"`prediction` must be of the shape"),
        (lambda: metrics.r2([1.0, 2.0], [[1.0], [2.0]]), r"shape \(2, 1\)"),
        (lambda: metrics.r2([1.0, math.nan], [1.0, 2.0]), r"`y` must be free of NaN.* 1 of 2"),
        (lambda: metrics.r2([1.0, 2.0], [math.nan, 2.0]), r"`prediction` must be free of NaN"),
        (lambda: metrics.r2([math.inf, 2.0], [1.0, 2.0]), "`y` must be finite"),
        (lambda: metrics.crps_sample([1.0], [[1.0], [math.inf]]), "`samples` must be finite"),
        (lambda: metrics.r2([2.0, 2.0], [1.0, 2.0]), "two different values"),
        (lambda: metrics.r2([0.1, 0.1, 0.1], [1, 2, 3]), "two different values"),
        (lambda: metrics.r2([], []), "one node or more"),
        (lambda: metrics.r2("ab", [1.0]), "`y` must be numbers"),
        (lambda: metrics.r2_deviance([0.1, 0.1, 0.1], [1, 2, 3]), "two different values"),
        (lambda: metrics.r2_deviance([-2.0, 1.0], [1.0, 1.0]), "`y` must be greater than -1"),
        (lambda: metrics.r2_deviance([2.0, 1.0], [-1.0, 1.0]), "`prediction` must be greater"),
        (lambda: metrics.coverage([1.0], [1.0]), r"a pair \(lower, upper\)"),
        (lambda: metrics.coverage([1.0, 2.0], ([0.0], [1.0])), "of the shape"),
        (lambda: metrics.interval_width(([2.0], [1.0])), r"\(2, 1\) at node 0"),
        (lambda: metrics.interval_score([1.0], ([0.0], [1.0]), 90), "strictly between"),
        (lambda: metrics.log_score([math.nan, 1.0]), "free of NaN"),
        (lambda: metrics.crps_sample([1.0, 2.0], [[1.0, 2.0]]), "two draws or more"),
        (lambda: metrics.crps_sample([1.0, 2.0], [1.0, 2.0]), "one draw a row"),
        (lambda: metrics.crps_sample([1.0], [[1.0], [math.nan]]), "`samples` must be free of NaN"),
        (lambda: metrics.pit([0.5], [0.4]), r"\(0.5, 0.4\) at node 0"),
        (lambda: metrics.pit_coverage([0.5], 1.0), "strictly between"),
    ],
)
def test_bad_input_says_what_is_wrong(call, message):
    with pytest.raises(InvalidArgumentError, match=message):
        call()
