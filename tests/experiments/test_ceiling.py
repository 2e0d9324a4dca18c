"""The best mixture of several models, with the answers in view."""

from __future__ import annotations

import torch
from harness import ceiling, models, tables

import pyro_copula as pc


def record(seed: int, **metrics: float) -> dict[str, object]:
    trial = ceiling.trials(seeds=[seed])[0]
    return {
        "key": trial.key,
        "table": "ceiling",
        "dataset": trial.dataset,
        "model": trial.model,
        "seed": seed,
        "options": dict(trial.options),
        "metrics": metrics,
    }


def test_weights_of_a_known_mixture_are_found():
    torch.manual_seed(0)
    means = torch.randn(4, 50, dtype=torch.float64)
    truth = torch.tensor([0.2, 0.0, 0.5, 0.3], dtype=torch.float64)
    torch.testing.assert_close(ceiling.best_weights(means, truth @ means), truth, atol=1e-6, rtol=0)


def test_no_other_mixture_is_closer():
    torch.manual_seed(1)
    means = torch.randn(3, 30, dtype=torch.float64)
    y = 2.5 * means[0] - means[1] + torch.randn(30, dtype=torch.float64)  # outside of all mixtures
    best = ceiling.best_weights(means, y)
    assert bool((best >= 0).all())
    torch.testing.assert_close(best.sum(), torch.tensor(1.0, dtype=torch.float64))
    others = torch.distributions.Dirichlet(torch.ones(3, dtype=torch.float64)).sample((2000,))
    errors = (y - others @ means).square().sum(-1)
    assert float((y - best @ means).square().sum()) <= float(errors.min()) + 1e-6


def test_a_node_is_predicted_from_all_others_and_not_from_itself():
    data = pc.simulate.paper_setting("b", seed=1)
    model = pc.CopulaGNN("linear", "normal", "car")
    ensemble = pc.fit(
        model, data, data.train_mask, restarts=2, schedule=pc.Schedule(max_epochs=3), progress=False
    )
    nodes = torch.tensor([250, 299])
    means = ceiling.means_given_others(ensemble, data.y, nodes)
    for node, mean in zip(nodes, means):
        y = data.y.clone()
        y[node] = torch.nan
        parts = [fit.model.joint().condition(y).mean.item() for fit in ensemble.fits]
        assert abs(float(mean) - sum(parts) / 2) < 1e-9
    changed = data.y.index_fill(0, nodes[:1], 100.0)
    again = ceiling.means_given_others(ensemble, changed, nodes)
    torch.testing.assert_close(again[0], means[0])


def test_a_trial_compares_the_recipe_its_members_and_the_other_rows():
    (trial,) = ceiling.trials(smoke=True)
    assert trial.seed == 4
    counted = 1 + len(pc.CopulaGNN(recipe="continuous").variants()) + len(models.CONTINUOUS) - 1
    values = {"r2": 0.78, "best_r2": 0.79, "mixture_r2": 0.80}
    more = {"all_": 0.01, "others_": 0.02}
    values |= {f"{a}{name}": value + b for a, b in more.items() for name, value in values.items()}
    text = ceiling.section([record(k, models=counted, **values) for k in (4, 5)])
    assert f"the best of {counted} models" in text.replace("\n", " ")
    assert "| 5 | 0.780 | 0.790 | 0.800 | 0.790 | 0.800 | 0.810 | 0.800 | 0.810 | 0.820 |" in text
    assert text.splitlines()[-1].startswith("| mean | 0.780 |")
    assert ceiling.section([]) == ""


def test_a_record_of_an_older_recipe_is_not_kept():
    today = record(4)
    assert tables.is_current(today)
    assert not tables.is_current({**today, "options": {"recipe": "older"}, "key": "other"})
