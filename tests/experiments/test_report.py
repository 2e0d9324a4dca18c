"""The report says what the records say, and the committed one is that of the committed records."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from harness import (
    acceptance_report,
    committed,
    models,
    noise,
    report,
    splits,
    summary,
    tables,
    trials,
)
from harness.problems import problem_of
from harness.tables import TABLES, table_trials

import pyro_copula as pc

RESULTS = Path(report.PUBLISHED).parent
COMMITTED = RESULTS.parent / "README.md"


def record(table, dataset, model, seed, **metrics):
    return {
        "key": "",
        "table": table,
        "dataset": dataset,
        "model": model,
        "seed": seed,
        "options": {},
        "versions": {"torch": "1"},
        "metrics": metrics,
        "seconds": 36.0,
    }


@pytest.fixture
def results(tmp_path):
    """Three seeds of two models that are 0.01 and 0.03 above the published numbers."""
    rng = np.random.default_rng(0)
    published = report.read_published(report.PUBLISHED)
    rows = []
    for model, gain in (("SAGE", 0.01), ("ab-C-SAGE", 0.03), ("R-C-SAGE", -0.05)):
        mean = published["table2_election", model, "income"].mean + gain
        for seed, error in enumerate((-0.01, 0.0, 0.01)):
            value = mean + error + 1e-4 * rng.normal()
            rows.append(record("table2", "income", model, seed, published=value, r2=value))
    scores = {"r2": 0.8, "published": 0.79, "coverage": 0.91}
    rows.append(record("table2", "income", "recipe", 1, **scores))
    committed.write(rows, tmp_path / "table2.jsonl")
    return tmp_path


def test_cells(results):
    rows = committed.read(results / "table2.jsonl")
    cell = report.cell(TABLES["table2"], rows, "ab-C-SAGE", "income")
    assert cell.mean == pytest.approx(0.805, abs=1e-3)
    assert cell.error == pytest.approx(0.01 / np.sqrt(3), rel=0.05)
    assert cell.p < 0.01
    assert report.cell(TABLES["table2"], rows, "MLP", "income") is None


def test_text(results):
    text = report.text(results)
    line = next(line for line in text.splitlines() if line.startswith("| ab-C-SAGE |"))
    assert "0.805 ± 0.006\\*\\*\\* (0.775 ± 0.003)" in line
    assert "2 of 3 cells are at or above" in text
    assert "Below: R-C-SAGE on income (0.713, 0.763 ± 0.003)" in text
    assert "| table2 | 10 | 0.1 |" in text
    assert "| income | 0.910 |  |" in text
    assert "## Table 3" not in text  # no records, no section


def test_trials_that_were_cut_short_have_no_targets(results):
    assert "## Targets" in report.text(results)
    rows = [record("table3", "emnlp", "MLP", 1, published=0.1)]
    rows[0]["options"] = {"max_epochs": 20}
    committed.write(rows, results / "table3.jsonl")
    text = report.text(results)
    assert "## Targets" not in text
    assert "were cut short" in text


def test_a_recipe_is_held_against_itself_without_a_part(tmp_path):
    rows = []
    for seed in (31, 32, 33):
        whole = {"r2": 0.8 + 0.01 * seed, "log_score": -0.5, "crps": 0.3}
        rows.append(record("table2-fresh", "income", "recipe", seed, **whole))
        if seed < 33:
            part = {"r2": 0.79 + 0.01 * seed, "log_score": -0.6, "crps": 0.28}
            rows.append(record("table2-fresh", "income", "recipe, no nugget", seed, **part))
    committed.write(rows, tmp_path / "table2-fresh.jsonl")
    text = report.text(tmp_path)
    assert "| income | the nugget | 2 | +0.010 | +0.100 | -0.020 |" in text
    assert "| income | the copula" not in text  # not run
    assert "\n| recipe, no nugget | " not in text  # no scores beside those of more seeds
    assert "| recipe, no nugget (without the nugget) | 1.105 ± 0.005 [2] |" in text


def test_calibration_has_two_levels_and_the_fresh_splits(results):
    fresh = record("table3-fresh", "emnlp", "recipe", 31, pit_coverage=0.91, pit_coverage_50=0.52)
    committed.write([fresh], results / "table3-fresh.jsonl")
    rows = [
        record("table3", "emnlp", "recipe", 1, coverage=0.96, coverage_50=0.7, pit_coverage=0.9)
    ]
    committed.write(rows, results / "table3.jsonl")
    text = report.text(results)
    assert "| income | 0.910 |  |  |  |  |  |" in text
    assert "| emnlp | 0.960 | 0.900 | 0.700 |  | 0.910 | 0.520 |" in text


def test_a_trial_that_stalled_counts_as_the_others_of_its_cell(tmp_path):
    rows = [record("table2", "income", "MLP", seed, r2=0.5) for seed in (1, 2, 3)]
    rows[0]["seconds"] = 1e6
    rows += [record("table2", "income", "GCN", 1, r2=0.5) | {"seconds": 3600.0}]
    committed.write(rows, tmp_path / "table2.jsonl")
    assert "| table2 | 4 | 1.0 |" in report.text(tmp_path)  # an hour and three times 36 seconds


def test_trials_of_the_published_code_are_compared_with_what_chance_does(tmp_path):
    """Two trials 0.004 around a mean 0.006 above or below, both errors known: z is 1.2."""
    published = report.read_published(report.PUBLISHED)
    rows = []
    for model, gain in (("ab-C-SAGE", 0.006), ("R-C-SAGE", -0.006)):
        mean = published["table2_election", model, "income"].mean + gain  # both have an error .003
        for seed, error in ((1, -0.004), (2, 0.004)):
            rows.append(record("table2-published", "income", model, seed, published=mean + error))
    committed.write(rows, tmp_path / "table2-published.jsonl")
    text = report.text(tmp_path)
    assert "root mean square of 1.2 and a mean of" in text
    committed.write(rows[:1], tmp_path / "table2-published.jsonl")  # one trial has no error
    text = report.text(tmp_path)
    assert "1 of 1 cells" in text
    assert "root mean square" not in text


def test_the_law_is_compared_with_that_of_the_base_model(tmp_path):
    rows = []
    for seed, gain in ((1, -0.10), (2, -0.11), (3, -0.12)):
        rows.append(record("table2", "income", "SAGE", seed, published=0.7, crps=0.3))
        rows.append(record("table2", "income", "R-C-SAGE", seed, published=0.7, crps=0.3 + gain))
    committed.write(rows, tmp_path / "table2.jsonl")
    assert "| R-C-SAGE | -0.110\\*\\*\\* (-0.110) |" in report.text(tmp_path)
    committed.write([r for r in rows if r["model"] == "SAGE"], tmp_path / "table2.jsonl")
    assert "The whole law" not in report.text(tmp_path)


def test_the_main_table(results):
    records = {name: committed.read(results / f"{name}.jsonl") for name in tables.all_names()}
    lines = summary.main_table(records, report.read_published(report.PUBLISHED)).splitlines()
    assert len(lines) == 3  # one data set has trials
    here = "0.805 ± 0.006 (n = 3) | 0.790 | 0.800 (n = 1)"
    assert f"| income | 0.775 (ab-C-SAGE) | {here} |" in lines[2]
    assert lines[2].endswith("| 0.91 |")
    report.write(results, results / "README.md")
    assert (results / "summary.md").read_text().splitlines() == lines


def test_unemployment_is_shown_by_split():
    rows = [
        record("table2", "unemployment", "recipe", 1, r2=0.85, worst_five=0.03),
        record("table2", "unemployment", "recipe", 2, r2=0.75, worst_five=0.09),
        record("table2", "unemployment", "linear + CAR + nugget", 1, r2=0.82),
    ]
    study = [record("acceptance", "unemployment", "recipe", 4, r2=0.8, all_r2=0.82)]
    text = acceptance_report.section(study, rows)
    assert "| 1 | 0.850 | 0.820 | +0.030 | 0.030 |" in text
    assert "| 2 |" not in text  # the other model has not been run there
    assert "split by split" not in acceptance_report.section(study, rows[:2])


def test_means_over_the_data_sets_of_a_draw():
    made = noise.trials()
    assert len(made) == 10 * 20 * (5 + 7)
    assert len({t.option("noise") for t in made}) == 200  # no two data sets share their noise
    values = {t.seed: float(t.option("split")) for t in made if t.seed <= 25}
    assert noise.draw_means(values).tolist() == [5.5, 5.5]  # the third draw is not complete
    published = report.read_published(report.PUBLISHED)
    rows = [record("noise", t.dataset, t.model, t.seed, published=0.1) for t in made]
    here = [record("table1-published", "c:tau=5.0", "GCN", 1, published=0.2)]
    text = noise.section(rows, here, published)
    assert "| tau=5.0 | GCN | 0.174 ± 0.032 | 0.200 | 20 | 0.100 | 0.000 | 0.100 to 0.100 |" in text
    assert "over GCN" not in text  # no trials as run
    assert noise.section([], here, published) == ""


def test_gains_over_the_base_model_by_draw():
    """One data set in ten gains, so that the two draws gain +.01 and +.03 in the mean."""
    published = report.read_published(report.PUBLISHED)
    rows, here = [], []
    for seed in range(1, 21):
        gain = (0.1 if seed <= 10 else 0.3) * (seed % 10 == 1)
        for model, value in (("GCN", 0.5), ("R-C-GCN", 0.5 + gain)):
            rows.append(record("noise", "c:tau=0.5", model, seed, published=value))
            here.append(record("table1-published", "c:tau=0.5", model, seed, published=value))
    line = (
        "| tau=0.5 | R-C-GCN over GCN | +0.033 | +0.020 | 2 | +0.020 | 0.014 | +0.010 to +0.030 |"
    )
    assert f"{line} 0.3 |" in noise.section(rows, here, published)


def test_the_emnlp_column_by_split():
    published = report.read_published(report.PUBLISHED)
    rows = []
    for row in tables.PAPER_ROWS:
        known = published["table3_counts", row, "emnlp"].mean
        for split, off in ((1, -0.1), (2, 0.01)):
            rows.append(record("table3", "emnlp", row, split, published=known + off))
    text = splits.section(rows, published)
    assert "by 0.010 (root mean square) on split 2" in text.replace("\n", " ")
    assert "| GCN | 0.609 ± 0.002 | 0.564 | 0.078 | 0.509 to 0.619 | 1 |" in text
    assert splits.section(rows[:-1], published) == ""  # one split has all models


def test_what_the_worst_nodes_cost():
    y, mean = torch.tensor([0.0, 1.0, 5.0]), torch.tensor([0.0, 2.0, 2.0])
    assert models.worst_nodes(y, mean, 1) == pytest.approx(9 / 14)
    every = models.worst_nodes(y, mean, 5)
    assert 1 - every == pytest.approx(pc.metrics.r2(y, mean))


def test_committed_report_is_that_of_the_committed_records():
    assert COMMITTED.read_text() == report.text(RESULTS)


def test_committed_summary_is_that_of_the_committed_records():
    records = {name: committed.read(RESULTS / f"{name}.jsonl") for name in tables.all_names()}
    table = summary.main_table(records, report.read_published(report.PUBLISHED))
    assert (RESULTS / "summary.md").read_text() == f"{table}\n"


def test_trials_of_the_tables():
    counts = {name: len(table_trials(name)) for name in TABLES}
    assert len(table_trials("table2", rows=["SAGE"])) == 4 * 10
    assert counts["table2-published"] == 9 * 4 * 10
    splits = {t.option("split") for t in table_trials("table2-published")}
    assert splits == {1}
    splits = [t.option("split") for t in table_trials("table1-published", rows=["MLP"])]
    assert sorted(splits) == sorted(list(range(1, 11)) * 40)
    assert {t.option("split") for t in table_trials("table3-published")} == set(range(1, 6))
    assert len(table_trials("table1", rows=tables.PAPER_ROWS)) == 7 * 4 * 100
    assert len(table_trials("figure1", rows=tables.FIGURE_ROWS)) == 5 * 8 * 100
    assert len(table_trials("table3", rows=["SAGE"])) == 20 + 20 + 5
    for name in tables.all_names():
        made = table_trials(name)
        assert len({trial.key for trial in made}) == len(made)
        assert [t.seed for t in made[:5]] == sorted(t.seed for t in made[:5])
    some = table_trials("table2", seeds=[4, 7], columns=["income"], rows=["recipe"])
    assert [(t.seed, t.dataset, t.model) for t in some] == [
        (4, "income", "recipe"),
        (7, "income", "recipe"),
    ]


def test_records_with_other_options_are_left_out(monkeypatch):
    monkeypatch.delitem(tables.PILOT_RATES, "income SAGE", raising=False)
    (trial,) = table_trials("table2", seeds=[4], columns=["income"], rows=["SAGE"])
    old = trials.run_trial(trial, lambda trial: {})
    assert tables.is_current(old)
    monkeypatch.setitem(tables.PILOT_RATES, "income SAGE", (0.001,))
    assert not tables.is_current(old)
    (fixed,) = table_trials("table2", seeds=[4], columns=["income"], rows=["SAGE"])
    assert fixed.option("lr") == (0.001,)
    assert tables.is_current(trials.run_trial(fixed, lambda trial: {}))


def test_a_log_score_that_is_a_density_is_marked(tmp_path):
    rows = [
        record("table3", "emnlp", model, 1, r2_deviance=0.5, published=0.4, log_score=-2.0)
        for model in ("LN-ab-C-SAGE", "NB GLM")
    ]
    committed.write(rows, tmp_path / "table3.jsonl")
    text = report.text(tmp_path)
    assert "| LN-ab-C-SAGE | 0.500 | 0.400 | -2.000 (density) |" in text
    assert "| NB GLM | 0.500 | 0.400 | -2.000 |" in text
    assert "run with torch 1." in text


def test_trials_of_the_published_code_have_its_data():
    table = TABLES["table1-published"]
    trial = trials.Trial(
        "table1-published", "c:tau=2.0", "MLP", 31, tables.options(table, "c:tau=2.0", "MLP", 31)
    )
    problem = problem_of(trial)
    assert np.array_equal(problem.data.y, pc.simulate.published_setting("c", tau=2.0, seed=4).y)


def test_a_trial_can_be_repeated():
    (trial,) = table_trials("table1", rows=["R-C-GCN"], smoke=True)
    assert tables.execute(trial) == tables.execute(trial)


def test_counts_are_judged_as_counts_under_a_continuous_law():
    problem = problem_of(trials.Trial("table1", "c:tau=1.0", "MLP", 3))
    data = problem.data.clone()
    data.y = data.y.exp().round() + 1
    counts = dataclasses.replace(problem, data=data, counts=True)
    trial = trials.Trial("table3", "emnlp", "LN-ab-C-SAGE", 3, (("max_epochs", 2),))
    metrics = models.run_model(trial, counts)
    fit = models.fit_row(trial, counts, models.COUNT[trial.model])
    mean = fit.predict(nodes=counts.test.nonzero().squeeze(-1)).mean
    expected = pc.metrics.r2_deviance(counts.y_test, mean)
    assert metrics["all_r2_deviance"] == pytest.approx(expected)
    assert metrics["r2_deviance"] != metrics["all_r2_deviance"]


@pytest.mark.parametrize("row", ["ab-C-SAGE", "R-C-SAGE, node scale", "linear + CAR + nugget"])
def test_rows_run_and_condition_on_training_values(row):
    (trial,) = table_trials("table1", rows=[row], smoke=True)
    metrics = tables.execute(trial)
    assert all(np.isfinite(value) for value in metrics.values())
    assert metrics["all_r2"] != metrics["r2"]
