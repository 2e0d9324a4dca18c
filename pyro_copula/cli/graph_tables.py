"""From two CSV files to the nodes and edges of a graph, with everything checked on the way."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InvalidArgumentError
from .tables import Column, Table, listed, read_table, show

#: The least number of observed nodes: a fifth of them decides when training stops.
MIN_OBSERVED = 10


@dataclass
class NodeTable:
    """The nodes, in the order of their file.

    Attributes:
        ids: The names of the nodes, all different.
        y: Values, float64, NaN at missing nodes.
        x: Features, float64, shape ``(num_nodes, num_features)``.
        feature_names: The columns of ``x``.
        exposure: Positive exposures, or None.
        position: Places on a map, shape ``(num_nodes, 2)``, or None.
        notes: What a user should know about how the file was read.
    """

    ids: list[str]
    y: np.ndarray
    x: np.ndarray
    feature_names: list[str]
    exposure: np.ndarray | None
    position: np.ndarray | None
    notes: list[str]


@dataclass
class EdgeTable:
    """The edges as pairs of node numbers ``i < j``, each once, and notes."""

    pairs: np.ndarray
    notes: list[str]


def read_nodes(
    path: Path,
    target: str,
    *,
    id_column: str | None = None,
    features: list[str] | None = None,
    exposure: str | None = None,
    position: list[str] | None = None,
    delimiter: str = ",",
) -> NodeTable:
    """Reads and checks the nodes.

    Args:
        path: A CSV file with one row per node.
        target: The column with the values; blank where the node is missing.
        id_column: The column with the names of the nodes; the first by default.
        features: The columns that are features; by default all other columns with numbers.
        exposure: The column with exposures.
        position: Two columns with places on a map. They are not features, unless named as such.
        delimiter: What separates the cells.

    Raises:
        InvalidArgumentError: If anything is wrong, with the row and what to do.
    """
    table = read_table("--nodes", path, (0 if id_column is None else id_column,), delimiter)
    id_name = table.names[0] if id_column is None else id_column
    ids = _checked_ids(table, "--nodes" if id_column is None else "--id", id_name)
    roles = {"--target": [target], "--exposure": [exposure] if exposure else []}
    roles["--position"] = position or []
    _check_roles(id_name, roles, features)
    notes = list(table.notes)
    y = _checked_target(table, target)
    places = [_numbers(table, "--position", name) for name in position or []]
    if position and len(position) != 2:
        raise InvalidArgumentError(
            "--position", "two columns", listed(position), "Pass --position longitude,latitude."
        )
    offsets = None if exposure is None else _checked_exposure(table, exposure)
    taken = {id_name, target, *([exposure] if exposure else []), *(position or [])}
    if features is None:
        rest = [name for name in table.names if name not in taken]
        features = [name for name in rest if table.columns[name].first_text is None]
        notes += _ignored(table, [name for name in rest if name not in features])
    else:
        unused = [name for name in table.names if name not in taken | set(features)]
        if unused:
            notes.append(f"{table.label}: not among --features, so not used: {listed(unused)}.")
    columns = [_numbers(table, "--features", name) for name in features]
    x = np.stack(columns, axis=1) if columns else np.zeros((len(ids), 0))
    if not features:
        notes.append(f"{table.label}: there are no features; the graph and the values must do.")
    return NodeTable(
        ids, y, x, features, offsets, np.stack(places, axis=1) if places else None, notes
    )


def read_edges(path: Path, ids: list[str], delimiter: str = ",") -> EdgeTable:
    """Reads and checks the edges.

    Args:
        path: A CSV file whose first two columns are the ends of an edge.
        ids: The names of the nodes.
        delimiter: What separates the cells.

    Raises:
        InvalidArgumentError: If an end is not a node.
    """
    table = read_table("--edges", path, (0, 1), delimiter)
    number = {name: k for k, name in enumerate(ids)}
    ends = []
    for name in table.names[:2]:
        cells = table.columns[name].cells
        found = np.fromiter((number.get(cell, -1) for cell in cells), np.int64, len(cells))
        if (found < 0).any():
            _unknown_end(table, name, int(np.argmax(found < 0)), number)
        ends.append(found)
    notes = list(table.notes)
    if len(table.names) > 2:
        notes.append(f"{table.label}: only the ends are used, not {listed(table.names[2:])}.")
    low, high = np.minimum(*ends), np.maximum(*ends)
    loops = low == high
    if loops.any():
        row = int(table.rows[np.argmax(loops)])
        notes.append(
            f"{table.label}: {int(loops.sum())} edges from a node to itself were left out, the "
            f"first is row {row}."
        )
    given = low[~loops] * len(ids) + high[~loops]  # one number per pair, much faster to sort
    unique = np.unique(given)
    if len(unique) < len(given):
        notes.append(
            f"{table.label}: {len(given) - len(unique)} edges were given before, in this or the "
            "other direction, and count once."
        )
    pairs = np.stack(np.divmod(unique, len(ids)), axis=1)
    alone = len(ids) - len(np.unique(pairs))
    if alone:
        notes.append(f"{table.label}: {alone} of {len(ids)} nodes have no edge.")
    return EdgeTable(pairs, notes)


# ---------------------------------------------------------------- nodes


def _checked_ids(table: Table, option: str, name: str) -> list[str]:
    column = table.column(option, name)
    ids = column.cells
    blank = [k for k, cell in enumerate(ids) if not cell]
    if blank:
        raise InvalidArgumentError(
            table.label,
            f"a table with an id in column {show(name)} of every row",
            f"none in row {table.rows[blank[0]]}",
            "Give every node an id, or name another column with --id.",
        )
    if len(set(ids)) < len(ids):
        first: dict[str, int] = {}
        for k, cell in enumerate(ids):
            if cell in first:
                raise InvalidArgumentError(
                    table.label,
                    f"a table with different ids in column {show(name)}",
                    f"{show(cell)} in rows {table.rows[first[cell]]} and {table.rows[k]}",
                    f"There are {len(ids) - len(set(ids))} such rows. Keep one row per node, or "
                    "name another column with --id.",
                )
            first[cell] = k
    return list(ids)


def _check_roles(id_name: str, roles: dict[str, list[str]], features: list[str] | None) -> None:
    """A column has one role; only features may also be places on a map."""
    seen = {id_name: "the id"}
    for option, names in roles.items():
        for name in names:
            if name in seen:
                raise InvalidArgumentError(
                    option,
                    "a column with no other role",
                    f"{show(name)}, which is also {seen[name]}",
                    "Name another column.",
                )
            seen[name] = f"given as {option}"
    allowed = set(roles["--position"])
    for k, name in enumerate(features or []):
        if name in seen and name not in allowed:
            raise InvalidArgumentError(
                "--features",
                "columns with no other role",
                f"{show(name)}, which is also {seen[name]}",
                "Leave it out of --features: a model that is told the values learns nothing.",
            )
        if name in (features or [])[:k]:
            raise InvalidArgumentError(
                "--features", "different columns", f"{show(name)} twice", "Name it once."
            )


def _checked_target(table: Table, target: str) -> np.ndarray:
    column = table.column("--target", target)
    if column.first_text is not None:
        row, cell = column.first_text
        raise InvalidArgumentError(
            "--target",
            "a column of numbers, blank where the node is missing",
            f"{show(cell)} in row {row} of column {show(target)}",
            "Correct that cell, leave it blank, or name another column.",
        )
    _check_finite(table, "--target", target, column)
    total, missing = len(column.numbers), column.blanks
    if missing == total:
        raise InvalidArgumentError(
            "--target",
            "a column with values to learn from",
            f"{show(target)}, blank in all {total} rows",
            "Leave blank only what is to be predicted.",
        )
    if total - missing < MIN_OBSERVED:
        raise InvalidArgumentError(
            "--target",
            f"a column with {MIN_OBSERVED} values or more",
            f"{total - missing} in column {show(target)}",
            "A fit needs more observed nodes than that.",
        )
    if not missing:
        raise InvalidArgumentError(
            "--target",
            "a column that is blank at the nodes to predict",
            f"a value in all {total} rows of {show(target)}",
            "Leave the target blank where you want a prediction.",
        )
    return column.numbers


def _checked_exposure(table: Table, name: str) -> np.ndarray:
    numbers = _numbers(table, "--exposure", name)
    if (numbers <= 0).any():
        k = int(np.argmax(numbers <= 0))
        raise InvalidArgumentError(
            "--exposure",
            "a column of positive numbers",
            f"{numbers[k]:g} in row {table.rows[k]} of column {show(name)}",
            "Exposure is what counts are proportional to, such as births or population.",
        )
    return numbers


def _numbers(table: Table, option: str, name: str) -> np.ndarray:
    """The numbers of a column in which every cell has one."""
    column = table.column(option, name)
    wrong = column.first_text
    if wrong is None and column.first_blank is not None:
        wrong = (column.first_blank, "")
    if wrong is not None:
        row, cell = wrong
        more = "" if column.first_text else f" ({column.blanks} blank cells in all)"
        raise InvalidArgumentError(
            option,
            "columns with a number in every row" if option != "--exposure" else "a number per row",
            f"{show(cell) if cell else 'a blank'} in row {row} of column {show(name)}{more}",
            "Only the target may be blank: fill it in, or name the columns to use with --features."
            if option == "--features"
            else "Fill it in.",
        )
    _check_finite(table, option, name, column)
    return column.numbers


def _check_finite(table: Table, option: str, name: str, column: Column) -> None:
    infinite = np.isinf(column.numbers)
    if infinite.any():
        k = int(np.argmax(infinite))
        raise InvalidArgumentError(
            option,
            "finite",
            f"{column.numbers[k]:g} in row {table.rows[k]} of column {show(name)}",
            "Look at how that number came about.",
        )


def _ignored(table: Table, names: list[str]) -> list[str]:
    """A note for every column that is no feature because it has text."""
    notes = []
    for name in names:
        row, cell = table.columns[name].first_text or (0, "")
        notes.append(
            f"{table.label}: column {show(name)} is not used, for it has text ({show(cell)} in "
            f"row {row}). Turn categories into columns of 0 and 1."
        )
    return notes


# ---------------------------------------------------------------- edges


def _unknown_end(table: Table, name: str, k: int, number: dict[str, int]) -> None:
    cell = table.columns[name].cells[k]
    unknown = sum(c not in number for n in table.names[:2] for c in table.columns[n].cells)
    hint = f"{unknown} ends are unknown. Add the node to --nodes, or correct the edge."
    whole = cell[:-2] if cell.endswith(".0") else f"{cell}.0"
    if whole in number:
        hint = (
            f"There is a node {show(whole)}: one file writes whole numbers with a decimal point. "
            "Write both alike."
        )
    elif not cell:
        hint = "Give every edge two ends, in the first two columns."
    raise InvalidArgumentError(
        table.label,
        "a table whose first two columns are ids of --nodes",
        f"{show(cell) if cell else 'a blank'} in row {table.rows[k]} of column {show(name)}",
        hint,
    )
