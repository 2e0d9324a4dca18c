"""Runs that are parallel, interrupted, resumed, or have replications that fail."""

from __future__ import annotations

import json
import signal
from functools import partial

import numpy as np
import pyro
import pyro.distributions as dist
import pytest
import torch
from calibration_models import Conjugate, normal_model
from pyro.util import get_rng_state

import pyro_copula as pc
from pyro_copula.calibration import records
from pyro_copula.errors import CalibrationError, InvalidArgumentError

calibrate = partial(
    pc.simulation_based_calibration, num_simulations=20, num_draws=9, progress=False
)


@pytest.fixture(autouse=True)
def listening_to_ctrl_c():
    """As in a terminal: shells start background jobs, such as those of CI, deaf to SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def assert_same(first, second):
    assert list(first.ranks) == list(second.ranks)
    for name, ranks in first.ranks.items():
        np.testing.assert_array_equal(ranks, second.ranks[name])
        np.testing.assert_allclose(first.truths[name], second.truths[name], rtol=1e-12)
    np.testing.assert_array_equal(first.seeds, second.seeds)


def test_the_seed_decides_and_jobs_do_not_matter():
    one = calibrate(normal_model, sampler=Conjugate(), seed=7)
    assert_same(one, calibrate(normal_model, sampler=Conjugate(), seed=7))
    assert_same(one, calibrate(normal_model, sampler=Conjugate(), seed=7, jobs=2))
    other = calibrate(normal_model, sampler=Conjugate(), seed=8)
    assert not np.array_equal(one.truths["mu"], other.truths["mu"])


def test_more_replications_add_to_fewer():
    few = calibrate(normal_model, sampler=Conjugate(), num_simulations=5)
    many = calibrate(normal_model, sampler=Conjugate(), num_simulations=9)
    np.testing.assert_array_equal(many.ranks["mu"][:5], few.ranks["mu"])


def test_random_numbers_and_the_parameter_store_are_left_alone():
    pyro.param("a", torch.tensor(3.0))
    seen = []

    def model(y=None):
        offset = pyro.param("a")
        other = pyro.param("b", lambda: torch.rand(()))
        seen.append((float(offset), float(other)))
        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        pyro.sample("y", dist.Normal(mu, 1.0).expand([4]).to_event(1), obs=y)

    before = get_rng_state()
    calibrate(model, sampler=Conjugate(), num_simulations=2, num_draws=3)
    after = get_rng_state()
    assert torch.equal(before["torch"], after["torch"])
    assert before["random"] == after["random"]
    np.testing.assert_array_equal(before["numpy"][1], after["numpy"][1])
    assert set(pyro.get_param_store().keys()) == {"a"}
    assert {offset for offset, _ in seen} == {3.0}
    # the first look, and in each replication a parameter that is the same to truth and draws
    others = [other for _, other in seen]
    assert len(set(others[1:6])) == 1
    assert len(set(others[6:11])) == 1


# ---------------------------------------------------------------- failures


def fails_sometimes(model, y, seed):
    if y.sum() > 2:
        raise RuntimeError("the chain is stuck")
    return Conjugate()(model, y, seed)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_replication_that_fails_is_reported_with_its_seed(jobs):
    found = calibrate(normal_model, sampler=fails_sometimes, jobs=jobs)
    assert found.failures
    assert found.num_replications + len(found.failures) == 20
    failure = found.failures[0]
    assert failure.error == "RuntimeError: the chain is stuck"
    assert "fails_sometimes" in failure.traceback
    text = repr(found)
    assert f"{found.num_replications} of 20 replications" in text
    assert f"{failure.replication} (seed {failure.seed}): RuntimeError: the chain is stuck" in text
    pyro.set_rng_seed(failure.seed)  # draws the data of that replication again
    assert pyro.poutine.trace(normal_model).get_trace().nodes["y"]["value"].sum() > 2


def test_a_run_that_only_fails_is_ended():
    calls = []

    def broken(model, y, seed):
        calls.append(seed)
        raise ZeroDivisionError("always")

    with pytest.raises(CalibrationError, match="ZeroDivisionError: always") as caught:
        calibrate(normal_model, sampler=broken)
    assert len(calls) == 5
    assert caught.value.replication == 0
    assert caught.value.seed == calls[0] - 1


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        ({"mu": torch.zeros(5)}, r"shape \(9 or more, \).*but found shape \(5,\)"),
        ({"mu": torch.zeros(99, 2)}, r"but found shape \(99, 2\)"),
        ({"nu": torch.zeros(99)}, "gives draws of 'mu'"),
        ({"mu": torch.full((99,), torch.nan)}, "a draw of mu is not finite"),
    ],
)
def test_draws_that_cannot_be_ranked_are_failures(draws, message):
    with pytest.raises(CalibrationError, match=message):
        calibrate(normal_model, sampler=lambda model, y, seed: draws)


def test_a_quantity_that_is_not_finite_is_a_failure():
    with pytest.raises(CalibrationError, match="wild is not finite at the truth or at a draw"):
        calibrate(normal_model, sampler=Conjugate(), quantities={"wild": lambda p, y: np.inf})


def test_latent_sites_without_draws_are_not_guessed():
    def model(y=None):
        mu = pyro.sample("mu", dist.Normal(0.0, 1.0))
        z = pyro.sample("z", dist.Normal(0.0, 1.0))
        pyro.sample("y", dist.Normal(mu + z, 1.0).expand([4]).to_event(1), obs=y)

    with pytest.raises(CalibrationError, match="the site 'z' without a value"):
        calibrate(model, parameters=["mu"], sampler=Conjugate())
    found = calibrate(model, parameters=["mu"], sampler=Conjugate(), log_likelihood=False)
    assert list(found.ranks) == ["mu"]


# ---------------------------------------------------------------- Ctrl-C


def test_ctrl_c_returns_the_ranks_so_far():
    calls = []

    def impatient(model, y, seed):
        calls.append(seed)
        if len(calls) == 8:
            signal.raise_signal(signal.SIGINT)
        return Conjugate()(model, y, seed)

    found = calibrate(normal_model, sampler=impatient)
    assert found.interrupted
    assert found.num_replications == 7
    assert "7 of 20 replications" in repr(found)
    assert "interrupted" in found.summary()
    whole = calibrate(normal_model, sampler=Conjugate())
    np.testing.assert_array_equal(found.ranks["mu"], whole.ranks["mu"][:7])


def test_ctrl_c_in_a_parallel_run(monkeypatch):
    add, count = records.Records.add, []

    def impatient(self, record):
        count.append(1)
        add(self, record)
        if len(count) == 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(records.Records, "add", impatient)
    found = calibrate(normal_model, sampler=Conjugate(), jobs=2, num_simulations=200)
    assert found.interrupted
    assert found.num_replications == 5


def test_ctrl_c_before_the_first_rank_goes_through():
    def impatient(model, y, seed):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        calibrate(normal_model, sampler=impatient)


# ---------------------------------------------------------------- records


def test_a_run_goes_on_where_an_earlier_one_ended(tmp_path):
    path = tmp_path / "deep" / "ranks.jsonl"
    calls = []

    def counted(model, y, seed):
        calls.append(seed)
        return Conjugate()(model, y, seed)

    calibrate(normal_model, sampler=counted, num_simulations=6, records=path)
    with open(path, "a") as file:
        file.write('{"replication": 6, "se')  # a process that died while it wrote
    found = calibrate(normal_model, sampler=counted, records=path)
    assert len(calls) == len(set(calls)) == 20
    whole = calibrate(normal_model, sampler=Conjugate())
    assert_same(found, whole)
    lines = path.read_text().splitlines()
    assert sorted(json.loads(line)["replication"] for line in lines[1:]) == list(range(20))
    assert_same(calibrate(normal_model, sampler=counted, records=path), whole)
    assert len(calls) == 20


def test_failed_replications_are_tried_again(tmp_path):
    path = tmp_path / "ranks.jsonl"
    first = calibrate(normal_model, sampler=fails_sometimes, records=path)
    assert first.failures
    second = calibrate(normal_model, sampler=Conjugate(), records=path)
    assert not second.failures
    assert_same(second, calibrate(normal_model, sampler=Conjugate()))


def test_records_of_another_run_are_refused(tmp_path):
    path = tmp_path / "ranks.jsonl"
    calibrate(normal_model, sampler=Conjugate(), num_simulations=3, records=path)
    with pytest.raises(InvalidArgumentError, match="with seed = 1, but found one with seed = 0"):
        calibrate(normal_model, sampler=Conjugate(), seed=1, records=path)

    def other(y=None):
        mu = pyro.sample("mu", dist.Normal(0.0, 2.0))
        pyro.sample("y", dist.Normal(mu, 1.0).expand([4]).to_event(1), obs=y)

    with pytest.raises(InvalidArgumentError, match="other data in its replication 0"):
        calibrate(other, sampler=Conjugate(), records=path)
    path.write_text("something else\n")
    with pytest.raises(InvalidArgumentError, match="a line that is no record"):
        calibrate(normal_model, sampler=Conjugate(), records=path)


def test_a_file_that_was_tampered_with_is_refused(tmp_path):
    path = tmp_path / "ranks.jsonl"
    calibrate(normal_model, sampler=Conjugate(), num_simulations=3, records=path)
    lines = path.read_text().splitlines()
    rows = [json.loads(line) for line in lines]

    def with_row(place, **changes):
        changed = [*lines[:place], json.dumps({**rows[place], **changes}), *lines[place + 1 :]]
        path.write_text("\n".join(changed) + "\n")
        calibrate(normal_model, sampler=Conjugate(), num_simulations=3, records=path)

    with pytest.raises(InvalidArgumentError, match="another seed in its replication"):
        with_row(1, seed=rows[1]["seed"] + 1)
    with pytest.raises(InvalidArgumentError, match="a damaged one of replication"):
        with_row(1, ranks={"mu": -1})
    with pytest.raises(InvalidArgumentError, match="other quantities in its replication"):
        with_row(2, ranks={"nu": 1}, truths={"nu": 0.5})


def test_records_need_a_file(tmp_path):
    with pytest.raises(InvalidArgumentError, match="`records` must be a file"):
        calibrate(normal_model, sampler=Conjugate(), num_simulations=1, records=tmp_path)


def test_a_rate_of_false_alarms_is_a_probability():
    found = calibrate(normal_model, sampler=Conjugate(), num_simulations=3)
    with pytest.raises(InvalidArgumentError, match="`level` must be between 0 and 1"):
        found.rejected(5)
