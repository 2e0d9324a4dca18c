"""Reading a saved fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from ..errors import FitFileError, InvalidArgumentError
from ..models import CopulaGNN
from .contents import (
    check_posterior,
    check_settings,
    check_sizes,
    read_data,
    read_history,
    read_specification,
)
from .ensemble import Ensemble
from .files import as_path, read_kind, read_record
from .result import Fit


def load_fit(path: str | Path, model: CopulaGNN | None = None) -> Fit | Ensemble:
    """Reads a fit that ``fit.save`` wrote. Nothing in the file is executed.

    The fit has the dtype that it was saved with, and predicts the same numbers, whatever torch's
    default dtype is.

    Args:
        path: The file.
        model: The specification, needed if the fitted model had modules of your own in it.

    Raises:
        InvalidArgumentError: If an argument is of another type, or ``model`` is needed.
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
    path = as_path("path", path)
    if read_kind(path) != "ensemble":
        return _fit(path, read_record(path, "fit"), model)
    record = read_record(path, "ensemble")
    parts = record.get("fits")
    if not isinstance(parts, list) or not parts or not isinstance(record.get("settings"), dict):
        raise FitFileError(str(path), "lacks a part of an ensemble", "Fit and save again.")
    fits = [_fit(path, part, model) for part in parts]
    members = record.get("members", list(range(len(fits))))
    known = range(len(fits))
    if not (isinstance(members, list) and members and all(k in known for k in _whole(members))):
        raise FitFileError(str(path), "names a fit that is not in it", "Fit and save again.")
    settings = record["settings"]
    if not all(isinstance(settings.get(name, 1), int) for name in ("models", "restarts")):
        raise FitFileError(str(path), "lacks a part of an ensemble", "Fit and save again.")
    return Ensemble([fits[k] for k in members], settings)


def _fit(path: Path, record: Any, model: CopulaGNN | None) -> Fit:
    try:
        specification = read_specification(record["spec"])
        data = read_data(record["data"])
        history = read_history(record["history"])
        state, posterior, diagnostics = (
            record[name] for name in ("state", "posterior", "diagnostics")
        )
        check_settings(record, data.num_nodes)
        check_sizes(specification, state)
    except Exception as error:  # whatever else a damaged part makes Python raise
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
        if torch.get_default_dtype() != data.y.dtype:  # of which the modules were made
            built.to(data.y.dtype)
        built.load_state_dict(state)
        check_posterior(built, posterior, record["method"], diagnostics)
        json.dumps(built.specification())
    except Exception as error:  # a model of one's own can raise anything, too
        raise FitFileError(
            str(path), "holds the parameters of another model", "Pass the model that was fitted."
        ) from error
    built.eval()
    return Fit(
        built,
        record["method"],
        history,
        posterior,
        diagnostics,
        record["settings"],
        record["versions"],
    )


def _whole(members: list[Any]) -> list[int]:
    """The entries, with what is no whole number replaced by one that names nothing."""
    return [k if isinstance(k, int) and not isinstance(k, bool) else -1 for k in members]
