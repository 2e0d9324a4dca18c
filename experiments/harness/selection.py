"""Which trials are asked for: rows, columns and seeds, checked before anything runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.errors.spelling import did_you_mean

from . import tables
from .problems import short
from .trials import Trial

#: What the generators of random numbers take, and more than anybody waits for.
_LAST_SEED, _MOST_SEEDS = 2**31 - 1, 100_000


def select(
    what: Sequence[str],
    *,
    seeds: Sequence[int] | None = None,
    trials: int | None = None,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    smoke: bool = False,
) -> dict[str, list[Trial]]:
    """The trials that are asked for, by table that has some; see :func:`tables.table_trials`.

    Args:
        what: Tables and studies.
        seeds: These seeds only.
        trials: At most so many seeds a cell.
        rows: These rows only: each is one of some of the tables.
        columns: These columns only, likewise.
        smoke: A short version.

    Raises:
        InvalidArgumentError: If no table has a name, or there is no such trial.
    """
    if trials is not None and trials < 1:
        raise InvalidArgumentError(
            "trials", "one or more seeds a cell", str(trials), "Leave it away for all of them."
        )
    if not what:
        given = {"models": rows, "datasets": columns, "seeds": seeds, "trials": trials}
        _refuse_any(given)
        return {}
    everything = [_names(name) for name in what]
    place = " or ".join(what) if len(what) < 4 else "one of the tables"
    _check_names("models", rows, [row for own, _ in everything for row in own], f"rows of {place}")
    known = [column for _, own in everything for column in own]
    _check_names("datasets", columns, known, f"columns of {place}")
    wanted: Any = {"rows": rows, "columns": columns, "trials": trials, "smoke": smoke}
    made = {name: tables.table_trials(name, seeds=seeds, **wanted) for name in what}
    if not any(made.values()):
        usual = [t.seed for name in what for t in tables.table_trials(name, **wanted)]
        raise InvalidArgumentError(
            "models, datasets, seeds",
            f"a choice that {'a smoke run of ' if smoke else ''}{place} has trials of",
            "none of them",
            f"There are trials of the seeds {_listed(usual)}: use some of these."
            if usual
            else "Leave one of them away: some rows are in some columns only.",
        )
    return {name: own for name, own in made.items() if own}


def _refuse_any(given: Mapping[str, Any]) -> None:
    """Refuses choices of trials for what has no trials."""
    for argument, value in given.items():
        if value is not None:
            raise InvalidArgumentError(
                argument,
                "left away for a picture that has no trials",
                str(value),
                f"Leave --{argument} away, or name a table.",
            )


def _names(name: str) -> tuple[list[str], list[str]]:
    """The names of all rows and of all columns of a table or study, in order."""
    if name in tables.TABLES:
        table = tables.TABLES[name]
        return list(table.rows), list(table.columns)
    made = tables.STUDIES[name].trials()
    return [t.model for t in made], [t.dataset for t in made]


def parse_seeds(text: str) -> list[int]:
    """The seeds that a text such as ``4-13`` or ``1,2,5`` stands for, each once."""
    found: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})(?:-(\d{1,18}))?\s*", part, re.ASCII)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not 0 <= last - first < _MOST_SEEDS or last > _LAST_SEED:
            raise InvalidArgumentError(
                "seeds",
                f"numbers or ranges, such as 4-13 or 1,2,5, from 0 to {_LAST_SEED} and at most "
                f"{_MOST_SEEDS} of them",
                repr(text),
                f"The lower end comes first: {last}-{first}."
                if match and last < first
                else "Write whole numbers with commas between them.",
            )
        found |= dict.fromkeys(range(first, last + 1))
    return list(found)


def _check_names(
    argument: str, asked: Sequence[str] | None, names: Iterable[str], what: str
) -> None:
    """Refuses a name that is none of these, nor what the report calls one of them."""
    known = list(dict.fromkeys(names))
    accepted = [*known, *map(short, known)]
    for name in asked or ():
        if name not in accepted:
            listed = ", ".join(map(repr, known))
            hint = _advice(argument, name, accepted)
            raise InvalidArgumentError(argument, f"{what} ({listed})", repr(name), hint)


def _advice(argument: str, name: str, known: Sequence[str]) -> str:
    parts = [part.strip() for part in name.split(",")]
    if len(parts) > 1 and set(parts) <= set(known):
        return f"Put spaces between them: --{argument} {shlex.join(parts)}"
    same = {one.casefold(): one for one in known}
    otherwise = "Use some of these; a name with a space in it needs quotes."
    return did_you_mean(same.get(name.casefold(), name), known, otherwise)


def _listed(seeds: Iterable[int]) -> str:
    """A few of these seeds in words."""
    several = sorted(set(seeds))
    first = ", ".join(map(str, several[:5]))
    return first if len(several) <= 5 else f"{first}, ... {several[-1]}"
