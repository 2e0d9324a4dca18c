"""Reading CSV files: what is taken, what is refused, and that the message says where."""

from __future__ import annotations

import time

import numpy as np
import pytest

from pyro_copula.cli import tables
from pyro_copula.cli.graph_tables import MIN_OBSERVED, read_edges, read_nodes
from pyro_copula.errors import InvalidArgumentError

#: Fourteen nodes, two of them missing; a feature, an exposure, a text column.
HEADER = ["id", "y", "x", "size", "county"]


def node_rows():
    return [
        [f"n{k}", "" if k in (3, 7) else str(k), str(k / 2), str(k + 1), f"c{k}"] for k in range(14)
    ]


def text(header, rows, mark=","):
    return "\n".join(mark.join(row) for row in [header, *rows]) + "\n"


@pytest.fixture
def write(tmp_path):
    def _write(content, name="nodes.csv"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return _write


@pytest.fixture
def nodes(write):
    """Writes nodes with one cell changed, and reads them."""

    def _nodes(row=None, column=None, cell=None, target="y", **options):
        rows = node_rows()
        if row is not None:
            rows[row - 2][HEADER.index(column)] = cell
        return read_nodes(write(text(HEADER, rows)), target, **options)

    return _nodes


def refused(call, *parts):
    """The message of the error, which must hold these parts and have four of its own."""
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    message = str(caught.value)
    for part in parts:
        assert part in message, message
    error = caught.value
    assert all([error.argument, error.expected, error.found, error.hint])
    return message


# ---------------------------------------------------------------- nodes


def test_nodes_are_read(nodes):
    table = nodes(exposure="size")
    assert table.ids == [f"n{k}" for k in range(14)]
    assert np.isnan(table.y).nonzero()[0].tolist() == [3, 7]
    assert table.feature_names == ["x"]
    np.testing.assert_array_equal(table.x[:, 0], np.arange(14) / 2)
    np.testing.assert_array_equal(table.exposure, np.arange(1, 15))
    assert len(table.notes) == 1
    assert "column 'county' is not used" in table.notes[0]
    assert "'c0' in row 2" in table.notes[0]


def test_columns_can_be_named(nodes):
    table = nodes(id_column="county", features=["size"], target="y")
    assert table.ids[0] == "c0"
    assert table.feature_names == ["size"]
    assert "not used: 'id', 'x'" in table.notes[0]


def test_places_are_no_features_unless_named(nodes):
    table = nodes(position=["x", "size"])
    assert table.feature_names == []
    assert table.position.shape == (14, 2)
    assert "no features" in table.notes[-1]
    assert nodes(position=["x", "size"], features=["x"]).feature_names == ["x"]
    refused(lambda: nodes(position=["x"]), "`--position` must be two columns", "'x'")


@pytest.mark.parametrize("word", ["", "NA", "NaN", "nan", "  "])
def test_a_missing_value_may_be_a_blank_or_na(nodes, word):
    assert np.isnan(nodes(6, "y", word).y).sum() == 3


def test_a_constant_feature_is_fine(nodes, write):
    rows = [[*row[:2], "1", *row[3:]] for row in node_rows()]
    assert read_nodes(write(text(HEADER, rows)), "y").x[:, 0].tolist() == [1.0] * 14


def test_a_byte_order_mark_quotes_spaces_and_windows_line_ends(write):
    rows = [[f'"a,{k}"', f" {k}.5 ", "1"] for k in range(11)] + [["b", "", "1"]]
    content = "\ufeff" + text(["id", " y", "x"], rows).replace("\n", "\r\n")
    table = read_nodes(write(content), "y")
    assert table.ids[2] == "a,2"
    assert table.y[2] == 2.5


def test_rows_are_counted_as_a_spreadsheet_does(write):
    rows = node_rows()
    rows[8][1] = "many"
    content = text(HEADER, rows[:4]) + "\n,,,,\n" + text(rows[4], rows[5:])
    # Two empty rows after row 5: the ninth node is in row 12.
    refused(lambda: read_nodes(write(content), "y"), "'many' in row 12")
    table = read_nodes(write(content.replace("many", "8")), "y")
    assert table.notes[0].endswith("2 empty rows were skipped, the first is row 6.")


@pytest.mark.parametrize(
    ("row", "column", "cell", "options", "parts"),
    [
        (5, "y", "twelve", {}, ["`--target`", "'twelve' in row 5 of column 'y'"]),
        (5, "y", "1_000", {}, ["'1_000' in row 5"]),
        (5, "y", "-nan", {}, ["'-nan' in row 5"]),
        (5, "y", "٣", {}, ["in row 5"]),  # an Arabic digit
        (5, "y", "inf", {}, ["`--target`", "inf in row 5"]),
        (5, "x", "", {}, ["`--features`", "a blank in row 5 of column 'x'", "1 blank cells"]),
        (5, "x", "NA", {}, ["a blank in row 5 of column 'x'"]),
        (5, "x", "-inf", {}, ["`--features`", "-inf in row 5 of column 'x'"]),
        (5, "x", "1e999", {}, ["inf in row 5"]),
        (5, "x", "red", {"features": ["x"]}, ["`--features`", "'red' in row 5 of column 'x'"]),
        (5, "size", "0", {"exposure": "size"}, ["`--exposure`", "0 in row 5 of column 'size'"]),
        (5, "size", "-2", {"exposure": "size"}, ["`--exposure`", "-2 in row 5"]),
        (5, "size", "", {"exposure": "size"}, ["`--exposure`", "a blank in row 5"]),
        (5, "size", "big", {"exposure": "size"}, ["`--exposure`", "'big' in row 5"]),
        (5, "id", "n8", {}, ["`--nodes nodes.csv`", "'n8' in rows 5 and 10", "There are 1"]),
        (5, "id", " ", {}, ["`--nodes nodes.csv`", "an id in column 'id'", "none in row 5"]),
        (2, "x", "1", {"target": "z"}, ["`--target`", "'z'", "'id', 'y', 'x', 'size', 'county'"]),
        (2, "x", "1", {"exposure": "z"}, ["`--exposure`", "a column of `--nodes nodes.csv`"]),
        (2, "x", "1", {"features": ["x", "z"]}, ["`--features`", "'z'"]),
        (2, "x", "1", {"id_column": "z"}, ["`--id`", "'z'"]),
        (
            2,
            "x",
            "1",
            {"features": ["x", "y"]},
            ["`--features`", "'y', which is also given as --t"],
        ),
        (2, "x", "1", {"features": ["id"]}, ["`--features`", "'id', which is also the id"]),
        (2, "x", "1", {"features": ["x", "x"]}, ["`--features`", "'x' twice"]),
        (2, "x", "1", {"target": "id"}, ["`--target`", "'id', which is also the id"]),
        (2, "x", "1", {"exposure": "y"}, ["`--exposure`", "'y', which is also given as --target"]),
    ],
)
def test_what_is_refused_in_nodes(nodes, row, column, cell, options, parts):
    refused(lambda: nodes(row, column, cell, **options), *parts)


@pytest.mark.parametrize(
    ("observed", "parts"),
    [
        (0, ["values to learn from", "blank in all 12 rows"]),
        (MIN_OBSERVED - 1, [f"{MIN_OBSERVED} values or more", f"{MIN_OBSERVED - 1} in column 'y'"]),
        (12, ["blank at the nodes to predict", "a value in all 12 rows"]),
    ],
)
def test_the_number_of_observed_nodes(write, observed, parts):
    rows = [[f"n{k}", str(k) if k < observed else "", "0"] for k in range(12)]
    refused(lambda: read_nodes(write(text(["id", "y", "x"], rows)), "y"), "`--target`", *parts)


# ---------------------------------------------------------------- any file


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["a table with a header", "an empty file"]),
        ("\n\n", ["an empty row 1"]),
        ("id,y\n", ["a header and nothing below it"]),
        (text(HEADER, node_rows(), ";"), ["one column", "a semicolon", "--delimiter ';'"]),
        (text(HEADER, node_rows(), "\t"), ["one column", "a tab", "--delimiter tab"]),
        ("id\na\n", ["one column, 'id'", "two columns or more"]),
        ("id,y,y\na,1,2\n", ["different names", "'y' twice"]),
        ("id,y\na,1\nb,2,3\n", ["2 cells in every row", "3 cells in row 3"]),
        ("id,y\na\n", ["1 cells in row 2"]),
        ('id,y\n"a,1\nb,2\n', ["a CSV file", "unclosed quotation mark"]),
        ("id,y\nAvil\xe9s,1\n".encode("latin1"), ["UTF-8 text", "0xe9", "iconv"]),
        ("id,y\na,1\n".encode("utf-16"), ["UTF-8 text", "0xff"]),
        (b"PK\x03\x04\x00\x00\xff", ["`--nodes nodes.csv` must be"]),  # a spreadsheet, renamed
    ],
)
def test_what_is_refused_in_any_file(write, content, parts):
    refused(lambda: read_nodes(write(content), "y"), "`--nodes nodes.csv`", *parts)


def test_a_file_that_is_not_there(tmp_path):
    message = refused(lambda: read_nodes(tmp_path / "none.csv", "y"), "`--nodes`", "none.csv")
    assert "No such file" in message
    refused(lambda: read_nodes(tmp_path, "y"), "Is a directory")


def test_other_delimiters(write):
    for mark in (";", "\t"):
        table = read_nodes(write(text(HEADER, node_rows(), mark)), "y", delimiter=mark)
        assert table.feature_names == ["x", "size"]


def test_a_cell_in_a_message_cannot_steer_the_terminal(nodes):
    message = refused(lambda: nodes(5, "y", "\x1b[31mred" + "x" * 500))
    assert "\x1b" not in message
    assert len(message) < 400


# ---------------------------------------------------------------- edges

IDS = ["1", "2", "3", "=cmd"]


def test_edges_are_read_and_every_change_is_said(write):
    path = write("a,b,weight\n1,2,0.5\n2,1,1\n3,3,1\n2,3,1\n2,3,9\n", "edges.csv")
    table = read_edges(path, IDS)
    assert table.pairs.tolist() == [[0, 1], [1, 2]]
    said = "\n".join(table.notes)
    assert "only the ends are used, not 'weight'" in said
    assert "1 edges from a node to itself were left out, the first is row 4" in said
    assert "2 edges were given before" in said
    assert "1 of 4 nodes have no edge" in said


def test_ids_are_text(write):
    assert read_edges(write("a,b\n=cmd,1\n", "edges.csv"), IDS).pairs.tolist() == [[0, 3]]
    refused(lambda: read_edges(write("a,b\n01,2\n", "edges.csv"), IDS), "'01' in row 2")


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("a,b\n1,2\n1,7\n9,8\n", ["`--edges edges.csv`", "'9' in row 4 of column 'a'", "3 ends"]),
        ("a,b\n1,2\n1,7\n", ["'7' in row 3 of column 'b'"]),
        ("a,b\n1.0,2.0\n", ["'1.0' in row 2", "There is a node '1'", "decimal point"]),
        ("a,b\n1,\n", ["a blank in row 2 of column 'b'", "two ends"]),
        ("a,b\n", ["a header and nothing below it"]),
        ("a\n1\n", ["one column"]),
        ("", ["an empty file"]),
    ],
)
def test_what_is_refused_in_edges(write, content, parts):
    refused(lambda: read_edges(write(content, "edges.csv"), IDS), *parts)


def test_edges_with_whole_numbers_against_ids_with_a_point(write):
    refused(lambda: read_edges(write("a,b\n1,2\n", "e.csv"), ["1.0", "2.0"]), "a node '1.0'")


# ---------------------------------------------------------------- size


def test_a_million_rows(write):
    n = 1_000_000
    k = np.arange(n)
    rows = np.char.add(np.char.add("n", k.astype(str)), ",")
    y = np.where(k % 10 == 0, "", (k % 7).astype(str))
    path = write("id,y,x\n" + "\n".join(a + b + ",1.5" for a, b in zip(rows, y)) + "\n")
    start = time.process_time()
    table = read_nodes(path, "y")
    assert len(table.ids) == n
    assert np.isnan(table.y).sum() == n // 10
    assert table.y[123456] == 123456 % 7
    ends = "\n".join(f"n{i},n{i + 1}" for i in range(n - 1))
    edges = read_edges(write(f"a,b\n{ends}\n", "edges.csv"), table.ids)
    assert len(edges.pairs) == n - 1
    assert time.process_time() - start < 60  # about 5 on an idle core


def test_blocks_join(write, monkeypatch):
    """The same table whatever the size of a block, text in the last one included."""
    content = text(HEADER, node_rows())
    whole = read_nodes(write(content), "y")
    monkeypatch.setattr(tables, "BLOCK", 5)
    parts = read_nodes(write(content), "y")
    np.testing.assert_array_equal(parts.y, whole.y)
    np.testing.assert_array_equal(parts.x, whole.x)
    assert (parts.ids, parts.notes) == (whole.ids, whole.notes)
    late = content.replace("6.5,14,c13", "late,14,c13")
    notes = read_nodes(write(late), "y").notes
    assert any("'x' is not used, for it has text ('late' in row 15)" in note for note in notes)
