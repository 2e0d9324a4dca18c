"""Reading a saved fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..errors import FitFileError, InvalidArgumentError
from ..graph import Graph
from ..models import CopulaGNN, NodeData
from .files import read_kind, read_record
from .result import Ensemble, Fit
from .training import History


def load_fit(path: str | Path, model: CopulaGNN | None = None) -> Fit | Ensemble:
    """Reads a fit that ``fit.save`` wrote. Nothing in the file is executed.

    Args:
        path: The file.
        model: The specification, needed if the fitted model had modules of your own in it.

    Raises:
        FitFileError: If the file is missing, damaged, or not a saved fit.

    Example:
        >>> import tempfile
        >>> import pyro_copula as pc
        >>> data = pc.simulate.paper_setting("b")
        >>> model = pc.CopulaGNN("linear", "normal", "laplacian")
        >>> found = pc.fit(model, data, data.train_mask, schedule=pc.Schedule(max_epochs=5))
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     found.save(Path(directory) / "small.fit")
        ...     loaded = load_fit(Path(directory) / "small.fit")
        >>> loaded.scalars == found.scalars
        True
    """
    if model is not None and not isinstance(model, CopulaGNN):
        raise InvalidArgumentError(
            "model",
            "a CopulaGNN, or nothing",
            type(model).__name__,
            "A saved fit has its data in it: load_fit(path) is enough.",
        )
    path = Path(path)
    if read_kind(path) == "ensemble":
        record = read_record(path, "ensemble")
        fits = [_fit(path, part, model) for part in record["fits"]]
        members = record.get("members", range(len(fits)))
        if not all(isinstance(k, int) and 0 <= k < len(fits) for k in members):
            raise FitFileError(str(path), "names a fit that is not in it", "Fit and save again.")
        return Ensemble([fits[k] for k in members], record["settings"])
    return _fit(path, read_record(path, "fit"), model)


def _fit(path: Path, record: dict[str, Any], model: CopulaGNN | None) -> Fit:
    try:
        specification = json.loads(record["spec"])
        parts = record["data"]
        graph = Graph.from_edges(parts["edges"].numpy(), num_nodes=len(parts["y"]))
        data = NodeData(parts["x"], graph, parts["y"], parts["exposure"])
        history = History(**record["history"])
    except (KeyError, TypeError, ValueError) as error:
        raise FitFileError(str(path), "lacks a part of a fit", "Fit and save again.") from error
    own = [name for name, value in specification.items() if value == "<own>"]
    if own and model is None:
        raise InvalidArgumentError(
            "model",
            f"the specification with your own {' and '.join(own)}",
            "None",
            "Pass load_fit(path, model=CopulaGNN(...)) as it was when fitted.",
        )
    try:
        built = (CopulaGNN(**specification) if model is None else model).build(data)
        built.load_state_dict(record["state"])
    except (RuntimeError, TypeError, ValueError) as error:
        raise FitFileError(
            str(path), "holds the parameters of another model", "Pass the model that was fitted."
        ) from error
    built.eval()
    return Fit(
        built,
        record["method"],
        history,
        record["posterior"],
        record["diagnostics"],
        record["settings"],
        record["versions"],
    )
