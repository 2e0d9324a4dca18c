"""Targets are judged by the records, missed ones included."""

from __future__ import annotations

import pytest
from harness import committed, report, targets

PUBLISHED = report.read_published(report.PUBLISHED)


def record(dataset, model, seed, **metrics):
    return {"dataset": dataset, "model": model, "seed": seed, "metrics": metrics}


def simulated(gain, spread=0.0):
    """Table 1 with edge regressions above their base models by ``gain``, give or take."""
    rows = []
    for column in targets.TABLES["table1"].columns:
        for model in targets.TABLES["table1"].paper:
            above = gain if model in targets.REGRESSIONS else 0.0
            known = PUBLISHED["table1_synthetic_c", model, targets.short(column)].mean
            base = PUBLISHED[
                "table1_synthetic_c", model.removeprefix("R-C-"), targets.short(column)
            ]
            for seed, off in ((1, -spread), (2, 0.0), (3, spread)):
                value = base.mean + above + off if above else known
                rows.append(record(column, model, seed, published=value))
    return {"table1": rows}


def found(records, asked):
    (target,) = [t for t in targets.targets(records, PUBLISHED) if asked in t.asked]
    return target


def test_gains_that_are_sure():
    target = found(simulated(0.1, spread=0.01), "p < 0.05")
    assert target.met
    assert target.found == "6 of 6"
    assert found(simulated(0.1, spread=0.01), "above their base models").met
    cells = found(simulated(0.1, spread=0.01), "every cell")
    assert cells.met
    assert cells.found == "28 of 28"


def test_gains_that_are_not():
    records = simulated(0.01, spread=0.1)
    target = found(records, "p < 0.05")
    assert not target.met
    assert target.found.startswith("0 of 6; R-C-GCN p = 0.88, 0.88, 0.88; R-C-SAGE p = 0.88")
    assert "published code 0 of 6" in target.see
    above = found(records, "above their base models")
    assert (above.met, above.sure, above.verdict) == (True, False, "yes, within chance")
    text = targets.section(records, PUBLISHED)
    assert "1 of 3 are met, 1 of these within chance" in text.replace("\n", " ")
    assert "| **no**: " in text


def test_gains_in_the_trials_of_the_published_code_are_judged_by_data_set():
    columns = [c for c in targets.TABLES["table1"].columns if "tau=5" not in c]
    as_run = []
    for column in columns:
        for seed in range(1, 31):  # three data sets of ten trials
            base = 0.1 * targets.published_split(seed)
            better = 0.05 + 0.001 * targets.published_split(seed)
            as_run.append(record(column, "SAGE", seed, published=base))
            as_run.append(record(column, "R-C-SAGE", seed, published=base + better))
            off = 0.05 if seed % 10 == 1 else 0.0  # one lucky trial in a data set
            as_run.append(record(column, "GCN", seed, published=base))
            as_run.append(record(column, "R-C-GCN", seed, published=base + off * (seed < 10)))
    target = found({**simulated(0.01, spread=0.1), "table1-published": as_run}, "p < 0.05")
    assert "published code 3 of 6" in target.see


def test_splits_that_overlap_make_a_test_less_sure():
    rows = []
    for seed in range(1, 11):
        for column in targets.ELECTION:
            for model in targets.TABLES["table2"].paper:
                above = 0.01 if model in targets.REGRESSIONS else 0.0
                off = 0.012 * (seed % 2) if above else 0.0
                rows.append(record(column, model, seed, published=0.5 + above + off))
    target = found({"table2": rows}, "p < 0.05")
    assert target.met
    assert target.found == "8 of 8; corrected for the overlap of splits 8"
    for row in rows:
        if row["model"] == "R-C-GCN":
            row["metrics"]["published"] -= 0.009
    target = found({"table2": rows}, "p < 0.05")
    assert target.found == "8 of 8; corrected for the overlap of splits 4"


def test_gains_in_crps_are_said_where_those_in_r2_are_not_sure():
    records = simulated(0.01, spread=0.1)
    for row in records["table1"]:
        better = 0.1 if row["model"] == "R-C-SAGE" else 0.0
        row["metrics"]["crps"] = 0.5 - better + 0.01 * row["seed"] * (1 + better)
    assert "looked at afterwards, 3 of 6" in found(records, "p < 0.05").see


def test_cells_below_are_said_with_those_of_the_published_trials():
    low, high = -1.0, 0.5
    rows = [record("income", "SAGE", 1, published=low), record("income", "MLP", 1, published=high)]
    as_run = [record("income", row, 1, published=high) for row in ("MLP", "GCN", "SAGE")]
    target = found({"table2": rows, "table2-published": as_run}, "every cell")
    assert target.found == "0 of 2; in the trials of the published code 0 of 3"
    as_run[1]["metrics"]["published"] = 0.7
    target = found({"table2": rows, "table2-published": as_run}, "every cell")
    assert target.found == "0 of 2; in the trials of the published code 1 of 3"


def test_gains_that_are_losses():
    target = found(simulated(-0.02), "above their base models")
    assert not target.met
    assert "smallest gain -0.020" in target.found


def figure(mlp, network, copula):
    rows = []
    for column in targets.TABLES["figure1"].columns:
        a = column.startswith("a:")
        scores = dict.fromkeys(("GCN", "SAGE", "GAT", "APPNP"), network[0 if a else 1])
        scores |= {} if a else {"ab-C-MLP": copula, "R-C-MLP": copula}
        for model, value in {"MLP": mlp, **scores}.items():
            for seed in (1, 2, 3):
                off = 0.01 * seed + 0.002 * (seed * len(model) % 3)
                rows.append(record(column, model, seed, published=value + off))
    return {"figure1": rows}


@pytest.mark.parametrize(
    ("network", "copula", "met"),
    [((0.6, 0.4), 0.55, [True, True, True]), ((0.4, 0.6), 0.45, [False, False, False])],
)
def test_figure_1(network, copula, met):
    made = targets.targets(figure(0.5, network, copula), PUBLISHED)
    assert [target.met for target in made] == met


def incomes(**recipe):
    """Scores of one data set: the recipe against a copula model and a regression."""
    rows = []
    for seed in (1, 2):
        scores = {"r2": 0.83, "published": 0.81, "log_score": -0.3, "crps": 0.2, "coverage": 0.9}
        rows.append(record("income", "recipe", seed, **{**scores, **recipe}))
        rows.append(record("income", "SAGE", seed, r2=0.7, published=0.8, log_score=-0.5, crps=0.3))
        rows.append(record("income", "linear + CAR", seed, r2=0.76, log_score=-0.6, crps=0.26))
    return {"table2": rows}


def test_the_recommended_model_is_held_against_the_better_r2_of_a_row():
    target = found(incomes(), "income: better")
    assert target.met
    assert target.found == (
        "R2 0.830 (0.010 better than SAGE; on 2 of 2 seeds); "
        "log score -0.300 (0.200 better than SAGE; on 2 of 2 seeds); "
        "CRPS 0.200 (0.060 better than linear + CAR; on 2 of 2 seeds); "
        "clamped 0.810 (ab-C-SAGE as published 0.775)"
    )
    assert target.verdict == "yes, within chance"  # there is no test
    assert found(incomes(), "income: 90%").met


@pytest.mark.parametrize(
    "worse", [{"r2": 0.75}, {"log_score": -0.55}, {"crps": 0.27}, {"published": 0.79}]
)
def test_it_must_win_in_all_three(worse):
    target = found(incomes(**worse), "income: better")
    assert not target.met
    assert target.found.count(" worse than ") == 1


def test_it_must_be_above_the_paper_in_the_papers_own_trials():
    planned = incomes()["table2"]
    as_run = [record("income", "recipe", seed, published=0.77) for seed in (1, 2)]
    target = found({"table2": planned, "table2-published": as_run}, "income: better")
    assert not target.met
    words = (
        "clamped 0.810, in the trials of the published code 0.770 (ab-C-SAGE as published 0.775)"
    )
    assert words in target.found


def test_its_own_parts_and_rows_that_were_not_run_are_no_rivals():
    rows = incomes()["table2"]
    rows.append(record("income", "recipe, no nugget", 1, r2=0.9, log_score=1.0, crps=0.1))
    assert found({"table2": rows}, "income: better").met
    alone = [row for row in rows if row["model"] == "recipe"]
    assert not [t for t in targets.targets({"table2": alone}, PUBLISHED) if "better" in t.asked]


@pytest.mark.parametrize("coverage", [0.865, 0.935])
def test_its_intervals_must_not_be_off(coverage):
    assert not found(incomes(coverage=coverage), "income: 90%").met


def test_fresh_splits_are_counted_by_themselves():
    planned = incomes(coverage=0.99)
    alone = targets.section(planned, PUBLISHED).replace("\n", " ")
    assert "2 of 3 are met" in alone  # the cells of the paper's rows are the third
    assert "splits that nothing was chosen on" not in alone
    records = {**planned, "table2-fresh": incomes()["table2"]}
    text = targets.section(records, PUBLISHED).replace("\n", " ")
    assert "2 of 3 are met" in text
    assert "fewer rows: 2 of these 2 are met" in text


def test_rows_with_fewer_seeds_are_compared_where_both_have_been_run():
    rows = incomes()["table2"]
    rows.append(record("income", "linear + CAR + nugget", 2, r2=0.829, log_score=-9.0, crps=9.0))
    rows[0]["metrics"]["r2"] = 0.2  # seed 1, on which the other has not been run
    target = found({"table2": rows}, "income: better")
    assert "better than linear + CAR + nugget" not in target.found.split(";")[0]


def test_a_density_is_not_compared_with_probabilities():
    scores = {"r2_deviance": 0.8, "published": 0.8, "log_score": -2.0, "crps": 2.0}
    scores |= {"pit_coverage": 0.9}
    rows = [record("emnlp", "recipe", 1, **scores)]
    rows += [record("emnlp", "LN-ab-C-SAGE", 1, r2_deviance=0.7, log_score=-1.0, crps=3.0)]
    assert found({"table3": rows}, "emnlp: better").met


PEERS = (("ab-C-SAGE", 0.79), ("R-C-SAGE", 0.7), ("SAGE", 0.9))


def test_learned_scale():
    rows = [
        record(column, targets.LEARNED_SCALE, 1, r2=value)
        for column, value in zip(targets.ELECTION, (0.71, 0.70, 0.78, 0.80))
    ]
    assert found({"table2": rows}, "unemployment at least").met
    target = found({"table2": rows}, "no outcome below")
    assert not target.met  # 0.813 less 0.01 on unemployment
    assert "unemployment 0.800 (0.803)" in target.found
    rows += [record("unemployment", row, 1, r2=r2) for row, r2 in PEERS]
    assert "unemployment 0.790" in found({"table2": rows}, "no outcome below").see
    rows[3]["metrics"]["r2"] = 0.804
    assert found({"table2": rows}, "no outcome below").met


def test_without_records_there_is_no_section():
    assert targets.section({}, PUBLISHED) == ""


def test_committed_records_have_targets_that_were_missed():
    records = {
        name: committed.read(report.PUBLISHED.parent / f"{name}.jsonl")
        for name in report.all_names()
    }
    missed = [t for t in targets.targets(records, PUBLISHED) if not t.met]
    assert missed
    assert all(target.see for target in missed)
