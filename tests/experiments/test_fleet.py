"""A fleet trains each of its members as the library trains it alone."""

from __future__ import annotations

import pytest
import torch
from harness import fleet, models, tables
from harness.problems import load
from harness.trials import Trial

import pyro_copula as pc

#: Short enough for a test, and such that the members stop at different times.
SCHEDULE = pc.Schedule(max_epochs=60, check_every=5, patience=2, tolerance=0.0)


def trials(model: str, seeds: range, **options: int) -> list[Trial]:
    chosen = tuple(sorted({"lr": (0.01,), **options}.items()))
    return [Trial("table1", f"c:tau={tau}", model, s, chosen) for s in seeds for tau in (0.5, 5.0)]


def published(seed: int) -> tuple[tuple[str, object], ...]:
    return tables.options(tables.TABLES["table1-published"], "c:tau=0.5", "MLP", seed)


@pytest.mark.parametrize("model", ["MLP", "GAT", "APPNP", "ab-C-GCN", "R-C-SAGE"])
def test_members_train_as_they_would_alone(model, monkeypatch):
    monkeypatch.setattr(models, "PUBLISHED_SCHEDULE", SCHEDULE)
    group = trials(model, range(1, 3))
    with models.one_thread():
        problems = [load(trial.dataset, trial.seed) for trial in group]
        together = models.run_fleet(group, problems)
        alone = [models.run_model(trial, problem) for trial, problem in zip(group, problems)]
    for ours, theirs in zip(together, alone):
        assert ours.keys() == theirs.keys()
        for name, value in theirs.items():
            assert ours[name] == pytest.approx(value, rel=1e-6, abs=1e-9), name
    if model == "R-C-SAGE":  # here the fleet has left a member behind
        assert len({metrics["epochs"] for metrics in alone}) > 1


def test_a_member_keeps_its_history_and_its_best_state():
    (trial,) = trials("ab-C-GCN", range(1, 2))[:1]
    with models.one_thread():
        problem = load(trial.dataset, trial.seed)
        first = models._fit_published(trial, problem, pc.Schedule(max_epochs=1))
        alone = models._fit_published(trial, problem, SCHEDULE)
        member = fleet.Member(problem, first)
        fleet.train_together([member], "gcn", 0.01, SCHEDULE)
    assert first.history.verdict == alone.history.verdict
    torch.testing.assert_close(
        torch.tensor(first.history.scores), torch.tensor(alone.history.scores)
    )
    for ours, theirs in zip(first.model.parameters(), alone.model.parameters()):
        torch.testing.assert_close(ours, theirs)


def test_groups_hold_trials_of_one_model_and_nothing_is_lost():
    todo = [
        *trials("MLP", range(1, 12)),
        *trials("R-C-SAGE", range(1, 3)),
        *trials("MLP", range(1, 3), max_epochs=20),  # other options
        *[Trial("table1-published", "c:tau=0.5", "MLP", k, published(k)) for k in (1, 11, 21)],
        Trial("table2", "income", "MLP", 1, (("lr", (0.01,)),)),
        Trial("table2", "income", "MLP", 2, (("lr", (0.01,)),)),
    ]
    groups = tables.fleets(todo)
    assert sorted(trial for group in groups for trial in group) == sorted(todo)
    assert [len(group) for group in groups] == [
        tables.FLEET,
        22 - tables.FLEET,
        4,
        4,
        3,  # data sets 1 to 3
        1,
        1,
    ]
    assert all(len({(t.table, t.model) for t in group}) == 1 for group in groups)
