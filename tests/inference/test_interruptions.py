"""Fits that do not go smoothly: Ctrl-C, and losses that are not finite."""

from __future__ import annotations

import math
import signal

import pytest
import torch
from fit_examples import SHORT, example, quick_fit

import pyro_copula as pc
from pyro_copula import CopulaGNN
from pyro_copula.crew import Crew
from pyro_copula.errors import ConvergenceError, TrainingError
from pyro_copula.inference import fitting, nuts, training
from pyro_copula.inference.job import Job


@pytest.fixture(autouse=True)
def listening_to_ctrl_c():
    """As in a terminal: shells start background jobs, such as those of CI, deaf to SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_at(monkeypatch, moment):
    """A real SIGINT to this process in a step of training."""
    step = training._step

    def interrupted(epoch, *rest):
        if epoch == moment:
            signal.raise_signal(signal.SIGINT)
        step(epoch, *rest)

    monkeypatch.setattr(training, "_step", interrupted)


@pytest.mark.parametrize("method", ["mle", "map", "svi"])
def test_ctrl_c_keeps_the_best_state(monkeypatch, method):
    interrupt_at(monkeypatch, 30)
    found = quick_fit(method=method, lr=(0.01, 0.02), num_draws=5)
    assert found.history.verdict == "interrupted at step 30; the best state is kept"
    assert "interrupted" in repr(found)
    assert found.interrupted
    assert not found.converged
    assert torch.isfinite(found.predict().mean).all()
    # the state is that of the best look, not of the last step
    monkeypatch.undo()
    epoch = found.history.best_epoch
    best = quick_fit(method=method, num_draws=5, schedule=pc.Schedule(max(1, epoch), 5))
    assert best.history.losses[:epoch] == found.history.losses[:epoch]


class Pair(Crew):
    """As if another process were there, and had the same numbers."""

    def agree(self, value):
        return value

    def agree_(self, tensors):
        pass


def test_ctrl_c_in_one_of_several_processes_is_no_result(monkeypatch):
    """The others may be a step behind: a state of this one alone is not that of the fit."""
    interrupt_at(monkeypatch, 30)
    monkeypatch.setattr(training, "present_crew", lambda: Pair(0, 2))
    with pytest.raises(KeyboardInterrupt):
        quick_fit()


def test_ctrl_c_ends_restarts_too(monkeypatch):
    interrupt_at(monkeypatch, 30)
    found = quick_fit(restarts=3)
    assert isinstance(found, pc.Ensemble)
    assert len(found.fits) == 1
    assert repr(found).startswith("Ensemble of 1 of 3 fits, 0 converged")
    assert found.interrupted


def test_a_stack_without_the_interrupted_fit_says_so_too(monkeypatch):
    monkeypatch.setattr(fitting, "stack", lambda fits, held_out: fits[:1])
    data = example()
    models = [CopulaGNN("linear", "normal", name) for name in ("car", "none")]
    runs = []
    run = Job.run

    def second_ends(job):
        runs.append(job)
        if len(runs) == 2:
            interrupt_at(monkeypatch, 3)
        return run(job)

    monkeypatch.setattr(Job, "run", second_ends)
    found = pc.fit(models, data, data.observed, schedule=SHORT)
    assert not found.fits[0].interrupted
    assert found.interrupted


def test_ctrl_c_in_refitting_several_keeps_those_fitted_so_far(monkeypatch):
    found = quick_fit(restarts=3, schedule=pc.Schedule(max_epochs=5))
    interrupt_at(monkeypatch, 3)
    again = found.refit("map", schedule=SHORT)
    assert len(again.fits) == 1
    assert again.interrupted
    assert repr(again).startswith("Ensemble of 1 of 3 fits, 0 converged")


def test_ctrl_c_in_the_fit_before_nuts(monkeypatch):
    interrupt_at(monkeypatch, 30)
    found = quick_fit(method="nuts")
    assert found.method == "map"
    assert found.interrupted


def interrupted_nuts(monkeypatch, moment):
    """NUTS with 5 warm-up steps and 12 draws, interrupted in one of these, counted over chains."""
    count = []
    sample = nuts.NUTS.sample

    def interrupted(self, params):
        count.append(1)
        if len(count) == moment:
            signal.raise_signal(signal.SIGINT)
        return sample(self, params)

    cheap = quick_fit(method="map")
    monkeypatch.setattr(nuts.NUTS, "sample", interrupted)
    return cheap.refit("nuts", num_draws=12, num_warmup=5, num_chains=2)


def test_ctrl_c_in_the_first_chain_keeps_its_draws(monkeypatch):
    found = interrupted_nuts(monkeypatch, 5 + 8)
    assert found.posterior["rho"].shape == (1, 7)
    assert "interrupted in chain 1 of 2" in repr(found)
    assert not found.converged
    assert torch.isfinite(found.predict().mean).all()


def test_ctrl_c_in_a_later_chain_keeps_the_finished_ones(monkeypatch):
    found = interrupted_nuts(monkeypatch, 17 + 5 + 8)
    assert found.posterior["rho"].shape == (1, 12)
    assert found.diagnostics["interrupted"] == "interrupted in chain 2 of 2"


def test_ctrl_c_before_the_first_draw_says_so(monkeypatch):
    with pytest.raises(KeyboardInterrupt, match="before its first draw"):
        interrupted_nuts(monkeypatch, 3)


def breaking(monkeypatch, moments):
    """Makes the loss NaN at some evaluations, counted from 1."""
    joint, calls = CopulaGNN.joint, []

    def broken(self, *arguments, **scalars):
        law = joint(self, *arguments, **scalars)
        if self.training:
            calls.append(1)
            if len(calls) in moments:
                nothing = law.loc * math.nan
                return pc.GraphNormal(nothing, precision=law.precision, validate_args=False)
        return law

    monkeypatch.setattr(CopulaGNN, "joint", broken)


@pytest.mark.filterwarnings("ignore:Encountered NaN")  # Pyro's own, by "map" and "svi"
@pytest.mark.parametrize("method", ["mle", "map", "svi"])
def test_a_loss_that_is_not_finite_sends_training_back(monkeypatch, method):
    rates = []
    step = training._step

    def watched(epoch, loss, module, optimizer, *rest):
        rates.append([group["lr"] for group in optimizer.param_groups])
        step(epoch, loss, module, optimizer, *rest)

    monkeypatch.setattr(training, "_step", watched)
    before = 0 if method == "mle" else 1  # Pyro's guide runs the model once
    breaking(monkeypatch, {12 + before, 13 + before, 25 + before})
    found = quick_fit(method=method)
    assert found.history.setbacks == [11, 12, 24]
    assert [math.isnan(found.history.losses[k]) for k in (10, 11, 12, 13)] == [0, 1, 1, 0]
    first = rates[0][0]
    assert [rates[k][0] / first for k in (11, 12, 13, 25)] == [1, 1 / 2, 1 / 4, 1 / 8]
    assert "3 setbacks" in repr(found.history)
    assert "setbacks   at 3 steps" in repr(found)
    assert torch.isfinite(found.predict().mean).all()


def test_a_setback_returns_to_the_last_look(monkeypatch):
    smooth = quick_fit()
    breaking(monkeypatch, {14})
    rough = quick_fit()
    # the step after the setback starts where the look at step 10 was
    assert rough.history.losses[14] == smooth.history.losses[10]


@pytest.mark.parametrize("bad", [[math.nan], [math.inf], [-math.inf], [math.inf, -math.inf]])
def test_a_gradient_that_is_not_finite_sends_training_back(bad):
    module, calls = torch.nn.Linear(3, 1), []

    def spoiled(gradient):
        calls.append(1)
        gradient = gradient.clone()
        if len(calls) == 4:
            gradient[0, : len(bad)] = torch.tensor(bad)
        return gradient

    module.weight.register_hook(spoiled)
    history = training.train(
        lambda: (module(torch.eye(3)) - 1).square().sum(),
        lambda: 0.0,
        module,
        torch.optim.Adam(module.parameters(), lr=0.1),
        pc.Schedule(max_epochs=10, check_every=2),
        progress=False,
    )
    assert history.setbacks == [3]
    assert all(math.isfinite(loss) for loss in history.losses)
    assert history.losses[4] == history.losses[2]  # from the look at step 2 again
    assert all(bool(torch.isfinite(p).all()) for p in module.parameters())


class FailingBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, value):
        return value.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ConvergenceError(0.5, 1e-4, 500)


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "backward"])
@pytest.mark.parametrize("moment", [0, 3])
def test_a_solve_that_fails_sends_training_back_except_at_the_start(moment, backward):
    module, calls = torch.nn.Linear(3, 1), []

    def loss():
        value = (module(torch.eye(3)) - 1).square().sum()
        calls.append(1)
        if len(calls) == moment + 1:
            if not backward:
                raise ConvergenceError(0.5, 1e-4, 500)
            return FailingBackward.apply(value)
        return value

    def run():
        optimizer = torch.optim.Adam(module.parameters(), lr=0.1)
        schedule = pc.Schedule(max_epochs=10, check_every=2)
        return training.train(loss, lambda: 0.0, module, optimizer, schedule, progress=False)

    if moment == 0:
        with pytest.raises(ConvergenceError):
            run()
        return
    history = run()
    assert history.setbacks == [3]
    assert history.losses[4] == history.losses[2]  # from the look at step 2 again


def test_a_loss_that_is_never_finite_is_an_error(monkeypatch):
    breaking(monkeypatch, range(1, 1000))
    with pytest.raises(TrainingError, match="not finite at the start"):
        quick_fit()
    monkeypatch.undo()
    breaking(monkeypatch, range(20, 1000))
    with pytest.raises(TrainingError, match="not finite at step 29"):
        quick_fit()


def test_a_score_that_cannot_be_had_is_an_error():
    data = example()
    model = CopulaGNN("linear", "normal", "car")

    def impossible(law, values):
        raise ValueError("no such score")

    with pytest.raises(ValueError, match="no such score"):
        pc.fit(model, data, data.observed, judge=impossible, schedule=SHORT)
    with pytest.raises(TrainingError, match="score was not finite"):
        pc.fit(model, data, data.observed, judge=lambda law, values: math.nan, schedule=SHORT)
