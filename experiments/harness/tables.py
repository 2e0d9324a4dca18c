"""Which trials make a table."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import acceptance, ceiling, discrete, models, noise, pilot, problems
from .problems import COUNTS, ELECTION, TAUS, VARIANCES, problem_of, published_split, short
from .trials import Together, Trial

PAPER_ROWS = pilot.ROWS
FIGURE_ROWS = ("MLP", "GCN", "SAGE", "GAT", "APPNP")
#: Figure 1 shows these rows in setting (b) only, where the graph is correlational.
_SETTING_B_ONLY = ("ab-C-MLP", "R-C-MLP", "linear + CAR")

#: How many simulated data sets are fitted side by side: enough to hide what a step costs by itself.
FLEET = 16

#: The learning rate of a published model where the pilot fixed it; both are tried elsewhere.
PILOT_RATES = pilot.committed()
AS_RUN_RATES = pilot.committed(as_run=True)


@dataclass(frozen=True)
class Table:
    """A table or figure.

    Attributes:
        name: What the command line calls it.
        title: What the report calls it.
        columns: Data sets, with the seeds that the committed table has.
        paper: Rows of the paper.
        beyond: Rows that the paper does not have.
        published: The name of the table in the file of published numbers.
        overlap: The number of test nodes over that of training nodes, where seeds are random splits
            of one data set.
        as_run: Whether a trial has the data and split that the published code gives its seed. If
            not, every seed has its own.
    """

    name: str
    title: str
    columns: dict[str, Sequence[int]]
    paper: tuple[str, ...]
    beyond: tuple[str, ...]
    published: str | None = None
    overlap: float = 0.0
    as_run: bool = False

    @property
    def rows(self) -> tuple[str, ...]:
        """All rows."""
        return (*self.paper, *self.beyond)


_CONTINUOUS = (*models.CONTINUOUS, "label propagation")
_COUNT = (*models.COUNT, "label propagation")
_HUNDRED = range(1, 101)
_TEN = range(1, 11)
#: Splits that nothing was chosen on.
_FRESH = range(31, 41)
_FIGURE1 = {
    **{f"a:sigma2={value}": _HUNDRED for value in VARIANCES},
    **{f"b:tau={value}": _HUNDRED for value in TAUS},
}
_TABLE1 = {f"c:tau={value}": _HUNDRED for value in TAUS}
#: Two of the ten trials that the published code has of each of the splits 1 to 5.
_FIVE_SPLITS = [10 * split + k for split in range(5) for k in (1, 2)]

TABLES = {
    "figure1": Table(
        "figure1",
        "Figure 1: two roles of the graph",
        _FIGURE1,
        FIGURE_ROWS,
        ("APPNP, two steps", *_SETTING_B_ONLY),
    ),
    "table1": Table(
        "table1",
        "Table 1: simulated data, setting (c)",
        _TABLE1,
        PAPER_ROWS,
        _CONTINUOUS,
        "table1_synthetic_c",
    ),
    "table1-published": Table(
        "table1-published",
        "Table 1, trials of the published code",
        _TABLE1,
        PAPER_ROWS,
        (),
        "table1_synthetic_c",
        as_run=True,
    ),
    "table2": Table(
        "table2",
        "Table 2: United States counties",
        dict.fromkeys(ELECTION, _TEN),
        PAPER_ROWS,
        _CONTINUOUS,
        "table2_election",
        overlap=1 / 3,
    ),
    "table2-published": Table(
        "table2-published",
        "Table 2, trials of the published code",
        dict.fromkeys(ELECTION, _TEN),
        PAPER_ROWS,
        ("R-C-SAGE, learned scale", "recipe"),
        "table2_election",
        as_run=True,
    ),
    "table2-fresh": Table(
        "table2-fresh",
        "Table 2, fresh splits",
        dict.fromkeys(ELECTION, _FRESH),
        (),
        (*models.CONTINUOUS, *models.ABLATIONS),
        overlap=1 / 3,
    ),
    "table3": Table(
        "table3",
        "Table 3: counts",
        {"emnlp": range(1, 21), "wiki-chameleon": range(1, 21), "wiki-squirrel": range(1, 6)},
        PAPER_ROWS,
        _COUNT,
        "table3_counts",
        overlap=1.0,
    ),
    "table3-fresh": Table(
        "table3-fresh",
        "Table 3, fresh splits",
        dict.fromkeys(COUNTS, _FRESH),
        (),
        (
            *("NB-R-C-SAGE + graph features", "LN-ab-C-SAGE"),
            *("Poisson GLM", "NB GLM", "shifted NB GLM", "NB + CAR", "recipe"),
            *models.ABLATIONS,
        ),
        overlap=1.0,
    ),
    "table3-published": Table(
        "table3-published",
        "Table 3, trials of the published code",
        {"wiki-chameleon": _FIVE_SPLITS},
        PAPER_ROWS,
        ("recipe",),
        "table3_counts",
        as_run=True,
    ),
}

#: Studies that are no table of the paper: modules with ``trials`` and ``execute``.
STUDIES = {
    "pilot": pilot,
    "noise": noise,
    "acceptance": acceptance,
    "ceiling": ceiling,
    "discrete": discrete,
}

#: Every trial of a smoke run has one of these options, and no other trial has.
_SHORTER = {"max_epochs", "side"}


def table_trials(
    name: str,
    *,
    seeds: Sequence[int] | None = None,
    trials: int | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    smoke: bool = False,
) -> list[Trial]:
    """The trials of a table, seed by seed, so that an unfinished run is balanced.

    Args:
        name: The table.
        seeds: These seeds, in place of those of the committed table. A study has what it has of
            them: some of its trials are of fixed seeds.
        trials: At most so many seeds a cell.
        rows: These rows only.
        columns: These columns only, by name or as the report calls them.
        smoke: With few steps, and one trial a row, in the first of these columns that has it. A
            study has its own small version.
    """
    if name in STUDIES:
        made = STUDIES[name].trials(smoke=smoke, seeds=seeds)
        made = [t for t in made if seeds is None or t.seed in seeds]
    else:
        made = _cells(TABLES[name], seeds, smoke=smoke)
    made = [
        t
        for t in made
        if (rows is None or t.model in rows)
        and (columns is None or not {t.dataset, short(t.dataset)}.isdisjoint(columns))
    ]
    if smoke and name in TABLES:
        first: dict[str, Trial] = {}
        for trial in made:
            first.setdefault(trial.model, trial)
        made = list(first.values())
    made = made if trials is None else _first_seeds(made, trials)
    return made if name in STUDIES else sorted(made, key=lambda t: t.seed)


def _cells(table: Table, seeds: Sequence[int] | None, *, smoke: bool) -> list[Trial]:
    """The trials of all cells of a table, column by column."""
    return [
        Trial(table.name, column, row, seed, options(table, column, row, seed, smoke=smoke))
        for column, usual in table.columns.items()
        for seed in (usual if seeds is None else seeds)
        for row in table.rows
        if not (column.startswith("a:") and row in _SETTING_B_ONLY)
    ]


def _first_seeds(made: Sequence[Trial], count: int) -> list[Trial]:
    """Those of the first so many seeds of every cell."""
    seeds: dict[tuple[str, str], list[int]] = {}
    for trial in made:
        own = seeds.setdefault((trial.dataset, trial.model), [])
        if trial.seed not in own:
            own.append(trial.seed)
    return [t for t in made if t.seed in seeds[t.dataset, t.model][:count]]


def options(
    table: Table, column: str, row: str, seed: int, *, smoke: bool = False
) -> tuple[tuple[str, Any], ...]:
    """What a trial of this cell is run with."""
    chosen: dict[str, Any] = {"split": published_split(seed)} if table.as_run else {}
    if row in models.PAPER:
        simulated = column[1] == ":"
        both = pilot.RATES[:1] if simulated else pilot.RATES
        fixed = AS_RUN_RATES if table.as_run else PILOT_RATES
        chosen["lr"] = pilot.RATES[:1] if smoke else fixed.get(f"{column} {row}", both)
    is_recipe = row == "recipe" or row in models.ABLATIONS
    if is_recipe:
        chosen["recipe"] = models.recipe_version(counts=column in COUNTS)
    if smoke:
        chosen["max_epochs"] = 20
        if is_recipe:
            chosen["restarts"] = 1
    return tuple(sorted(chosen.items()))


def is_current(record: dict[str, Any], *, smoke: bool = False) -> bool:
    """Whether a record is of a trial as it would be run today, and not with older options."""
    name, dataset, row, seed = (record[part] for part in ("table", "dataset", "model", "seed"))
    if name in STUDIES:
        recipe = record.get("options", {}).get("recipe")
        return recipe is None or recipe == _recipes(name).get((dataset, row))
    table = TABLES[name]
    if dataset not in table.columns or row not in table.rows:
        return False
    today = options(table, dataset, row, seed, smoke=smoke)
    return record["key"] == Trial(name, dataset, row, seed, today).key


@functools.cache
def _recipes(study: str) -> dict[tuple[str, str], str | None]:
    """The version of the recipe by cell of a study; for every seed, also one that is not usual."""
    return {(t.dataset, t.model): t.option("recipe") for t in STUDIES[study].trials()}


def is_smoke(record: dict[str, Any]) -> bool:
    """Whether a record is of a smoke run."""
    return not _SHORTER.isdisjoint(record["options"])


def execute(trial: Trial) -> dict[str, Any]:
    """The metrics of a trial of any table."""
    with models.one_thread():
        if trial.table in STUDIES:
            return STUDIES[trial.table].execute(trial)
        return models.run_model(trial, problem_of(trial))


def read_data(todo: Iterable[Trial]) -> None:
    """Reads the files that these trials need, so that a missing one is found before any work."""
    with models.one_thread():  # what is read stays in memory, as the trials would have it
        problems.read_data(trial.dataset for trial in todo)


def fleets(todo: Sequence[Trial]) -> list[list[Trial]]:
    """Trials in groups that are run at once: published models on simulated data, by model."""
    groups: list[list[Trial]] = []
    open_groups: dict[tuple[Any, ...], list[Trial]] = {}
    for trial in todo:
        if trial.dataset[1] != ":" or not models.can_join_a_fleet(trial):
            groups.append([trial])
            continue
        own = tuple(o for o in trial.options if o[0] not in ("split", "noise"))  # not of the model
        kind = (trial.table, trial.model, own)
        group = open_groups.get(kind)
        if group is None or len(group) == FLEET:
            group = open_groups[kind] = []
            groups.append(group)
        group.append(trial)
    return groups


def execute_fleet(group: Sequence[Trial]) -> list[dict[str, Any]]:
    """The metrics of the trials of such a group."""
    with models.one_thread():
        return models.run_fleet(group, [problem_of(trial) for trial in group])


#: How the runner runs trials of a table at once.
TOGETHER = Together(fleets, execute_fleet)


def all_names() -> tuple[str, ...]:
    """What has trials, in order."""
    return (*TABLES, *STUDIES)
