"""From two CSV files to a directory of results, and from a saved fit to predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pyro_copula as pc

from ..errors import InvalidArgumentError
from .graph_tables import NodeTable, read_edges, read_nodes
from .outputs import harmless, new_directory, write_file
from .pictures import draw_predictions

#: The name of the saved fit in a directory of results.
FIT_NAME = "fit.pyrocopula"

#: The levels of the intervals that are written.
LEVELS = (0.5, 0.9)


def fit_files(
    nodes_path: Path,
    edges_path: Path,
    out: Path,
    *,
    table_options: dict[str, Any],
    model_options: dict[str, Any],
    fit_options: dict[str, Any],
    include_observed: bool = False,
    overwrite: bool = False,
) -> tuple[str, list[str]]:
    """Fits a model to two CSV files and writes the results.

    Args:
        nodes_path: The nodes.
        edges_path: The edges.
        out: The directory of results, checked before.
        table_options: For :func:`read_nodes`.
        model_options: For ``pc.CopulaGNN``.
        fit_options: For ``pc.fit``.
        include_observed: Whether observed nodes get a row in predictions.csv.
        overwrite: Whether earlier results in that directory may go.

    Returns:
        The summary, and notes on what a user should know.
    """
    nodes = read_nodes(nodes_path, **table_options)
    edges = read_edges(edges_path, nodes.ids, table_options["delimiter"])
    notes = nodes.notes + edges.notes
    with computing(notes):
        exposure = None if nodes.exposure is None else "exposure"
        model = pc.CopulaGNN(**model_options, exposure=exposure)
        found = pc.fit(model, _make_data(nodes, edges.pairs), **fit_options)
        prediction = found.predict()
        alone = found.predict(given="none", nodes=prediction.nodes)
        table = prediction_table(prediction, nodes.ids)
    if include_observed:
        table = _with_observed(table, prediction.nodes.numpy(), nodes)
    if not found.converged:
        notes.append("The fit did not converge; summary.txt says how it ended. Try --restarts 3.")
    summary = _summary(found, nodes, len(edges.pairs), notes)
    with computing([]), new_directory(out, overwrite=overwrite) as work:
        write_table(table, work / "predictions.csv")
        (work / "summary.txt").write_text(summary, encoding="utf-8")
        found.save(work / FIT_NAME)
        draw_predictions(
            work / "picture.png",
            table_options["target"],
            prediction,
            alone,
            position=nodes.position,
            pairs=edges.pairs,
        )
    return summary, notes


def predict_file(path: Path, out: Path, *, levels: list[float], given: str) -> tuple[int, Path]:
    """Writes the predictions of a saved fit.

    Args:
        path: The saved fit, or the directory of results that it is in.
        out: The CSV file to write, checked before.
        levels: The levels of the intervals.
        given: ``"observed"``: missing nodes given the observed; ``"none"``: every node by itself.

    Returns:
        The number of rows, and the file that was read.
    """
    path = path / FIT_NAME if path.is_dir() else path
    for level in levels:
        if not 0 < level < 1:
            raise InvalidArgumentError(
                "--level", "strictly between 0 and 1", f"{level:g}", "Pass 0.9 for 90%."
            )
    with computing([]):
        found = pc.load_fit(path)
        prediction = found.predict(given=given)
        ids = prediction.names or [str(k) for k in range(found.model.data.num_nodes)]
        table = prediction_table(prediction, ids, levels)
    write_file(out, lambda part: write_table(table, part))
    return len(table), path


@contextmanager
def computing(notes: list[str]) -> Iterator[None]:
    """Double precision; what the package warns of becomes a note, each once."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        torch.set_default_dtype(before)
        for warning in caught:
            text = str(warning.message)
            if issubclass(warning.category, pc.errors.PyroCopulaWarning) and text not in notes:
                notes.append(text)


def prediction_table(prediction: Any, ids: Sequence[str], levels: Any = LEVELS) -> Any:
    """A pandas table of predictions with the ids of the nodes in front."""
    table = prediction.to_frame(tuple(levels)).reset_index(drop=True)
    table.insert(0, "id", [ids[k] for k in prediction.nodes.tolist()])
    return table


def write_table(table: Any, path: Path) -> None:
    """Writes a table of predictions; ids that a spreadsheet would run get an apostrophe."""
    table = table.assign(id=[harmless(name) for name in table["id"]])
    # A return inside an id is put in quotation marks only if lines end with one.
    end = "\r\n" if any("\r" in name for name in table["id"]) else "\n"
    table.to_csv(path, index=False, float_format="%.6g", encoding="utf-8", lineterminator=end)


# ---------------------------------------------------------------- parts


def _make_data(nodes: NodeTable, pairs: np.ndarray) -> Any:
    from torch_geometric.data import Data

    graph = pc.Graph.from_edges(pairs, num_nodes=len(nodes.ids))
    data = Data(
        x=torch.tensor(nodes.x),
        edge_index=graph.edge_index.clone(),
        y=torch.tensor(nodes.y),
        num_nodes=len(nodes.ids),
        names=nodes.ids,
    )
    if nodes.exposure is not None:
        data.exposure = torch.tensor(nodes.exposure)
    return data


def _with_observed(table: Any, missing: np.ndarray, nodes: NodeTable) -> Any:
    """Every node in the order of its file: a value where observed, a prediction where not."""
    import pandas as pd

    everyone = pd.DataFrame({"id": nodes.ids, "value": nodes.y})
    return everyone.join(table.drop(columns="id").set_axis(missing))


def _summary(found: Any, nodes: NodeTable, num_edges: int, notes: list[str]) -> str:
    missing = int(np.isnan(nodes.y).sum())
    lines = [
        f"pyro-copula {pc.__version__}",
        f"{len(nodes.ids)} nodes, {num_edges} edges, {missing} missing nodes predicted",
        f"features: {', '.join(map(_printable, nodes.feature_names)) or 'none'}",
        "",
        str(found).split("\n  next:")[0],
    ]
    if notes:
        lines += ["", "Notes", *(f"- {note}" for note in notes)]
    return "\n".join(lines) + "\n"


def _printable(name: str) -> str:
    """A name without control characters, which a terminal would obey."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
