"""The rows and columns of the tables: data and splits, how a row is fitted, how it is scored."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from harness import committed, models, pilot, problems, report, tables
from harness.problems import Problem, load, problem_of
from harness.trials import Trial
from torch_geometric.data import Data

import pyro_copula as pc

NODES = 23
#: What a fit may fall short of the largest log likelihood: by chance alone a parameter that is not
#: needed gains 1/2.
SHORT = 1e-3


# ---------------------------------------------------------------- data


@pytest.fixture
def stand_ins(monkeypatch):
    """Data sets that know what was asked of their loader, in place of the real ones."""
    for loader in ("election", "emnlp", "wikipedia"):

        def stand_in(*asked, loader=loader):
            return Data(x=torch.zeros(NODES, 1), asked=(loader, *asked))

        monkeypatch.setattr(pc.datasets, loader, stand_in)
    monkeypatch.setattr(problems, "_read", problems._read.__wrapped__)


def parts(problem: Problem) -> list[list[int]]:
    masks = (problem.train, problem.validation, problem.test)
    return [mask.nonzero().squeeze(-1).tolist() for mask in masks]


@pytest.mark.parametrize(
    ("dataset", "asked", "train", "validation"),
    [
        ("income", ("election", "income"), 12, 4),
        ("unemployment", ("election", "unemployment"), 12, 4),
        ("emnlp", ("emnlp",), 7, 7),
        ("wiki-squirrel", ("wikipedia", "squirrel"), 7, 7),
    ],
)
def test_real_data_have_the_published_split(stand_ins, dataset, asked, train, validation):
    problem = load(dataset, 7)
    assert problem.data.asked == asked
    assert problem.counts == (train == validation)
    order = np.random.RandomState(7).permutation(NODES)
    expected = np.split(order, [train, train + validation])
    assert parts(problem) == [sorted(nodes) for nodes in expected]


@pytest.mark.parametrize("published", [False, True])
def test_simulated_data_are_split_in_order(published):
    problem = load("c:tau=1.0", 7, published=published)
    assert parts(problem) == np.arange(300).reshape(3, 100).tolist()
    assert not problem.counts


def test_a_trial_has_the_split_of_its_seed_or_of_the_published_code(stand_ins):
    for name, split in (("table2", 17), ("table2-published", 2)):
        options = tables.options(tables.TABLES[name], "income", "MLP", 17)
        problem = problem_of(Trial(name, "income", "MLP", 17, options))
        assert parts(problem) == parts(load("income", split))


# ---------------------------------------------------------------- fits


class Asked(Exception):
    """Ends a fit before it has begun."""


def test_published_models_have_the_published_schedule(monkeypatch):
    def fit(*_, **options):
        raise Asked(options)

    monkeypatch.setattr(pc, "fit", fit)
    with pytest.raises(Asked) as caught:
        models.run_model(Trial("table2", "income", "SAGE", 7), load("c:tau=1.0", 7))
    (options,) = caught.value.args
    schedule = options["schedule"]
    assert (schedule.max_epochs, schedule.check_every, schedule.patience) == (10_000, 20, 50)
    assert schedule.tolerance == 0
    assert options["lr"] == [0.01, 0.001]
    assert options["seed"] == 7


def test_published_trials_have_the_rate_of_their_own_pilot():
    usual, as_run = pilot.committed(), pilot.committed(as_run=True)
    differ = [cell.split(" ", 1) for cell in as_run if as_run[cell] != usual[cell]]
    assert differ
    for column, row in differ:
        name = "table3" if column in problems.COUNTS else "table2"
        for table, rates in ((name, usual), (f"{name}-published", as_run)):
            chosen = dict(tables.options(tables.TABLES[table], column, row, 1))
            assert chosen["lr"] == rates[f"{column} {row}"]


def simulated(counts: bool) -> Problem:
    family = "poisson" if counts else "normal"
    data = pc.simulate.paper_setting("c", family=family, seed=3)
    data.y = data.y + (1 if counts else 5)  # the published clamp is at work
    return Problem(data, data.train_mask, data.val_mask, data.test_mask, counts)


def regression(counts: bool, **options: int):
    problem, row = simulated(counts), "Poisson GLM" if counts else "linear + CAR"
    trial = Trial("t", "d", row, 3, tuple(options.items()))
    return problem, models.fit_row(trial, problem, (models.COUNT | models.CONTINUOUS)[row])


@pytest.mark.parametrize("counts", [False, True])
def test_regressions_end_at_their_maximum(counts):
    """Steps of quasi-Newton from there on gain nothing."""
    problem, fit = regression(counts)
    models.forget_validation(fit, problem)
    model, train = fit.model, int(problem.train.sum())
    optimizer = torch.optim.LBFGS(
        model.parameters(), max_iter=500, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def loss():
        optimizer.zero_grad()
        value = -model.joint().log_prob(model.data.y) / train
        value.backward()
        return value.detach()

    before = float(loss())
    optimizer.step(loss)
    assert train * (before - float(loss())) < SHORT


# ---------------------------------------------------------------- scores


@pytest.mark.parametrize("counts", [False, True])
def test_scores_are_those_of_the_prediction(counts):
    problem, fit = regression(counts, max_epochs=101)
    metrics = models._scores(fit, problem, seed=3)
    prediction = fit.predict(nodes=problem.test.nonzero().squeeze(-1))
    score = pc.metrics.r2_deviance if counts else pc.metrics.r2
    y, y_train = problem.data.y[problem.test], problem.data.y[problem.train]
    clamped = prediction.mean.clamp(2 * y_train.min(), y_train.max() / 2)
    assert metrics["published"] == pytest.approx(score(y, clamped))
    plain = metrics["r2_deviance" if counts else "r2"]
    assert plain == pytest.approx(score(y, prediction.mean))
    assert abs(plain - metrics["published"]) > 0.001
    interval = prediction.interval(0.9)
    assert metrics["width"] == pytest.approx(pc.metrics.interval_width(interval))
    assert metrics["coverage"] == pytest.approx(pc.metrics.coverage(y, interval))


@pytest.mark.parametrize("name", tables.TABLES)
def test_no_committed_trial_of_a_published_model_was_cut_short(name):
    schedule = models.PUBLISHED_SCHEDULE
    for row in committed.read(report.PUBLISHED.parent / f"{name}.jsonl"):
        if row["model"] not in models.PAPER or len(row["options"]["lr"]) > 1:
            continue
        epochs, best = row["metrics"]["epochs"], row["metrics"]["best_epoch"]
        waited = epochs - best == schedule.patience * schedule.check_every
        assert waited or epochs >= schedule.max_epochs, row
