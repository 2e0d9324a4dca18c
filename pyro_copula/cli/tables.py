"""Reading a CSV file: text in, columns out, and every complaint with its row.

The file is UTF-8 with one header row. Rows are counted as a spreadsheet shows them: the header is
row 1. Cells are data and nothing else: no cell is ever run, or taken for a path. Spaces around a
cell do not count; an empty cell, ``NA`` and ``NaN`` are blank.

Numbers are converted in blocks of rows, so that a million rows need the memory of their numbers
and not of their text.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..errors import InvalidArgumentError

#: Rows converted at a time: few enough that the garbage collector hardly sees them.
BLOCK = 1_000

#: How a cell says that it has no value, beside being empty: what R and pandas write.
BLANK_WORDS = frozenset({"", "NA", "NaN", "nan"})

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf(inity)?", re.ASCII | re.I)

_DELIMITERS = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}


@dataclass
class Column:
    """One column: numbers as far as they go, and the first cells that are none.

    Attributes:
        numbers: Float64, NaN where the cell is blank; empty if some cell is text.
        first_text: Row and content of the first cell that is neither a number nor blank.
        first_blank: The row of the first blank cell.
        blanks: The number of blank cells.
        cells: The text of every cell, if it was asked for.
    """

    numbers: np.ndarray = field(default_factory=lambda: np.zeros(0))
    first_text: tuple[int, str] | None = None
    first_blank: int | None = None
    blanks: int = 0
    cells: list[str] = field(default_factory=list)


@dataclass
class Table:
    """The columns of a file by name, in its order, and the row that each entry came from.

    Attributes:
        label: How messages call the file.
        columns: The columns by name.
        rows: The row of each entry, int64.
        notes: What a user should know about how the file was read.
    """

    label: str
    columns: dict[str, Column]
    rows: np.ndarray
    notes: list[str]

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the order of the file."""
        return list(self.columns)

    def column(self, option: str, name: str) -> Column:
        """The column of that name, or an error that lists those there are."""
        if name not in self.columns:
            raise InvalidArgumentError(
                option,
                f"a column of `{self.label}`",
                show(name),
                f"The columns are {listed(self.names)}.",
            )
        return self.columns[name]


def read_table(
    option: str, path: Path, text: tuple[str | int, ...] = (), delimiter: str = ","
) -> Table:
    """Reads a CSV file.

    Args:
        option: The option that gave the file, for messages.
        path: The file.
        text: Columns to keep as text too, by name or by place.
        delimiter: What separates the cells.

    Raises:
        InvalidArgumentError: If the file cannot be read as a table.
    """
    label = f"{option} {path.name}"
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            header = _checked_header(label, next(reader, None), delimiter)
            kept = {name for name in text if isinstance(name, str)}
            kept |= {header[k] for k in text if isinstance(k, int) and k < len(header)}
            return _read_rows(label, reader, header, kept)
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(
            label,
            "UTF-8 text",
            f"the byte 0x{error.object[error.start]:02x}, which is not",
            "Save it as CSV UTF-8, or convert it: iconv -f latin1 -t utf-8 old.csv > new.csv",
        ) from None
    except csv.Error as error:
        raise InvalidArgumentError(
            label,
            "a CSV file",
            f"{error} at line {reader.line_num}",
            "Look for a stray or unclosed quotation mark there.",
        ) from None
    except OSError as error:
        raise InvalidArgumentError(
            option,
            "a file that can be read",
            f"{str(path)!r} ({error.strerror})",
            "Check the path.",
        ) from None


def show(cell: str) -> str:
    """A cell in quotation marks, control characters escaped, cut if it is long."""
    return repr(cell if len(cell) <= 60 else cell[:57] + "...")


def listed(names: list[str], most: int = 8) -> str:
    """Names in quotation marks, the first ones if there are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(show(name) for name in names[:most]) + more


# ---------------------------------------------------------------- parts


def _checked_header(label: str, header: list[str] | None, delimiter: str) -> list[str]:
    if not header or not any(name.strip() for name in header):
        raise InvalidArgumentError(
            label,
            "a table with a header in row 1",
            "an empty file" if header is None else "an empty row 1",
            "Put the names of the columns in the first row.",
        )
    names = [name.strip() for name in header]
    if len(names) == 1:
        other = [mark for mark in _DELIMITERS if mark != delimiter and mark in names[0]]
        hint = (
            f"It seems to be separated by {_DELIMITERS[other[0]]}: pass "
            f"--delimiter {'tab' if other[0] == chr(9) else repr(other[0])}."
            if other
            else "Give it two columns or more."
        )
        mark = _DELIMITERS.get(delimiter, repr(delimiter))
        raise InvalidArgumentError(
            label,
            f"a table with columns separated by {mark}",
            f"one column, {show(names[0])}",
            hint,
        )
    for k, name in enumerate(names):
        if name in names[:k]:
            raise InvalidArgumentError(
                label,
                "a table whose columns have different names",
                f"{show(name)} twice",
                "Rename or remove one of the two.",
            )
    return names


def _read_rows(label: str, reader: Iterator[list[str]], header: list[str], kept: set[str]) -> Table:
    columns = {name: Column() for name in header}
    parts: dict[str, list[np.ndarray]] = {name: [] for name in header}
    rows: list[np.ndarray] = []
    empty: list[int] = []
    for numbers, block in _blocks(label, reader, len(header), empty):
        rows.append(numbers)
        for name, cells in zip(header, zip(*block, strict=True), strict=True):
            column, stripped = columns[name], [cell.strip() for cell in cells]
            if name in kept:
                column.cells.extend(stripped)
            _count_blanks(column, stripped, numbers)
            if column.first_text is None:
                parts[name].append(_convert(column, stripped, numbers))
            else:
                parts[name].clear()
    if not rows:
        raise InvalidArgumentError(
            label,
            "a table with a row for each entry",
            "a header and nothing below it",
            "Check that the file was written to its end.",
        )
    for name, column in columns.items():
        if column.first_text is None:
            column.numbers = np.concatenate(parts[name])
    notes = []
    if empty:
        notes.append(f"{label}: {len(empty)} empty rows were skipped, the first is row {empty[0]}.")
    return Table(label, columns, np.concatenate(rows), notes)


def _blocks(
    label: str, reader: Iterator[list[str]], width: int, empty: list[int]
) -> Iterator[tuple[np.ndarray, list[list[str]]]]:
    """Blocks of rows with their numbers; rows without any content go to ``empty``."""
    numbers: list[int] = []
    block: list[list[str]] = []
    for number, cells in enumerate(reader, start=2):
        if len(cells) != width:
            if not any(cell.strip() for cell in cells):
                empty.append(number)
                continue
            raise InvalidArgumentError(
                label,
                f"a table with {width} cells in every row, as in its header",
                f"{len(cells)} cells in row {number}",
                "Look for a missing or extra comma there; put text with commas in quotation marks.",
            )
        if not any(cells):
            empty.append(number)
            continue
        numbers.append(number)
        block.append(cells)
        if len(block) == BLOCK:
            yield np.array(numbers), block
            numbers, block = [], []
    if block:
        yield np.array(numbers), block


def _count_blanks(column: Column, cells: list[str], rows: np.ndarray) -> None:
    blank = [k for k, cell in enumerate(cells) if cell in BLANK_WORDS]
    if blank and column.first_blank is None:
        column.first_blank = int(rows[blank[0]])
    column.blanks += len(blank)


def _convert(column: Column, cells: list[str], rows: np.ndarray) -> np.ndarray:
    """The cells as numbers, or a note of the first that is none."""
    # Python reads 1_000 and digits of other scripts as numbers; a spreadsheet does not.
    joined = "".join(cells)
    if joined.isascii() and "_" not in joined:
        try:
            numbers = np.array(_without_blanks(cells), np.float64)
        except ValueError:
            pass
        else:
            if np.isnan(numbers).sum() == sum(cell in BLANK_WORDS for cell in cells):
                return numbers  # and no other spelling of NaN, such as -nan, is among them
    for cell, row in zip(cells, rows, strict=True):
        if cell not in BLANK_WORDS and not _NUMBER.fullmatch(cell):
            column.first_text = (int(row), cell)
            return np.zeros(0)
    return np.array(_without_blanks(cells), np.float64)


def _without_blanks(cells: list[str]) -> list[str]:
    return ["nan" if cell in BLANK_WORDS else cell for cell in cells]
