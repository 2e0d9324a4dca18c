"""Which trials the words of the command line stand for, and which words are refused."""

from __future__ import annotations

import pytest
from harness import selection, tables
from harness.selection import parse_seeds, select

from pyro_copula.errors import InvalidArgumentError


def test_seeds():
    assert parse_seeds("4-6,9") == [4, 5, 6, 9]
    assert parse_seeds("3, 1,1-3") == [3, 1, 2]


@pytest.mark.parametrize(
    "text",
    [
        *("", "abc", "-3", "1,", "1-", "1--2", "1.5", "٣"),
        *("99999999999", "0-2147483647", "9" * 5000),
    ],
)
def test_what_is_no_seed_is_refused(text):
    with pytest.raises(InvalidArgumentError, match=r"`seeds` must be numbers(.|\n)*Write whole"):
        parse_seeds(text)


def test_a_range_that_ends_before_it_begins_is_turned_round():
    with pytest.raises(InvalidArgumentError, match=r"found '5-1'.\n  The lower end .*: 1-5\."):
        parse_seeds("5-1")


@pytest.mark.parametrize(
    ("what", "asked", "message"),
    [
        ("table2", {"rows": ["RCSAGE"]}, r"`models` .*'SAGE'.*found 'RCSAGE'.\n.*'R-C-SAGE'\?"),
        ("table2", {"rows": ["sage"]}, r"Did you mean 'SAGE'\?"),
        ("table2", {"rows": ["MLP,GCN"]}, "between them: --models MLP GCN"),
        ("table2", {"rows": ["MLP", "nothing like it"]}, "Use some of these"),
        ("table2", {"columns": ["incom"]}, r"`datasets` .*\n.*'income'\?"),
        ("table1", {"columns": ["tau=1"]}, r"`datasets` .*'c:tau=1.0'.*\n.*'tau=1.0'\?"),
        ("figure1", {"columns": ["income"]}, "`datasets` must be columns of figure1"),
        ("noise", {"rows": ["MLPP"]}, r"rows of noise(.|\n)*'MLP'\?"),
        ("table2", {"trials": 0}, "`trials` must be one or more"),
        ("noise", {"trials": -1}, "`trials` must be one or more"),
        ("pilot", {"seeds": [5]}, "There are trials of the seeds 1, 101"),
        ("noise", {"seeds": [0, 201], "smoke": True}, "There are trials of the seeds 1:"),
        ("figure1", {"rows": ["R-C-MLP"], "columns": ["a:sigma2=5.0"]}, "some columns only"),
    ],
)
def test_what_has_no_trials_is_refused(what, asked, message):
    with pytest.raises(InvalidArgumentError, match=message):
        select([what], **asked)


@pytest.mark.parametrize("argument", ["models", "datasets", "seeds", "trials"])
def test_a_picture_has_no_trials(argument):
    given = {"models": "rows", "datasets": "columns"}.get(argument, argument)
    assert select([]) == {}
    with pytest.raises(InvalidArgumentError, match=f"`{argument}` must be left away"):
        select([], **{given: 1})


def test_a_name_must_be_of_one_of_the_tables():
    made = select(tables.all_names(), rows=["NB GLM"])
    assert made.keys() == {"table3", "table3-fresh"}
    with pytest.raises(InvalidArgumentError, match="rows of one of the tables"):
        select(tables.all_names(), rows=["NB GLMM"])


def test_a_column_may_have_its_name_of_the_report():
    made = select(["figure1", "table1"], columns=["tau=1.0"], trials=1)
    assert {t.dataset for t in made["figure1"]} == {"b:tau=1.0"}
    assert {t.dataset for t in made["table1"]} == {"c:tau=1.0"}


@pytest.mark.parametrize("name", tables.all_names())
def test_every_table_honours_the_number_of_seeds(name):
    cells: dict[tuple[str, str], set[int]] = {}
    for trial in tables.table_trials(name):
        cells.setdefault((trial.dataset, trial.model), set()).add(trial.seed)
    kept: dict[tuple[str, str], set[int]] = {}
    for trial in tables.table_trials(name, trials=2):
        kept.setdefault((trial.dataset, trial.model), set()).add(trial.seed)
    assert {cell: min(2, len(seeds)) for cell, seeds in cells.items()} == {
        cell: len(seeds) for cell, seeds in kept.items()
    }


@pytest.mark.parametrize("name", sorted(tables.STUDIES))
def test_every_study_honours_the_seeds(name):
    usual = {trial.seed for trial in tables.table_trials(name)}
    some = sorted(usual)[:2]
    assert {trial.seed for trial in select([name], seeds=some)[name]} == set(some)


def test_a_smoke_run_has_every_row_once_in_the_first_column_asked_for():
    (trial,) = tables.table_trials("table2", smoke=True, rows=["SAGE"], columns=["income"])
    assert (trial.dataset, trial.seed) == ("income", 1)
    made = tables.table_trials("figure1", smoke=True)
    assert sorted(t.model for t in made) == sorted(tables.TABLES["figure1"].rows)
    columns = {t.model: t.dataset for t in made}
    assert columns["MLP"] == "a:sigma2=2.5"
    assert columns["R-C-MLP"] == "b:tau=0.5"  # it is in no earlier column
    for name in tables.TABLES:
        assert len(tables.table_trials(name, smoke=True)) == len(tables.TABLES[name].rows)


@pytest.mark.parametrize("name", tables.all_names())
def test_the_records_of_smoke_runs_can_be_told(name):
    for smoke in (False, True):
        made = tables.table_trials(name, smoke=smoke)
        assert {tables.is_smoke({"options": dict(trial.options)}) for trial in made} == {smoke}


def test_the_trials_of_a_study_are_made_once_for_all_of_its_records(monkeypatch):
    made = []
    trials = tables.ceiling.trials

    def counted(**asked):
        made.append(asked)
        return trials(**asked)

    tables._recipes.cache_clear()
    monkeypatch.setattr(tables.ceiling, "trials", counted)
    for seed in (4, 5, 6, 99):  # a recipe is as current for a seed that is not usual
        (trial,) = trials(seeds=[seed])
        record = {"key": trial.key, "table": "ceiling", "dataset": trial.dataset}
        record |= {"model": trial.model, "seed": seed, "options": dict(trial.options)}
        assert tables.is_current(record)
    assert len(made) == 1
    tables._recipes.cache_clear()


def test_a_message_names_few_seeds():
    assert selection._listed([3, 1, 2, 2]) == "1, 2, 3"
    assert selection._listed(range(1, 101)) == "1, 2, 3, 4, 5, ... 100"
