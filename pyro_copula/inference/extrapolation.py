"""Says so when a fit predicts values far beyond all that it has seen."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch

from ..errors import ExtrapolationWarning
from ..models import CountFamily
from .prediction import Prediction

#: A mean so many times the largest observed value is not to be believed.
_FAR = 10.0


def warn_if_far(fit: Any, laws: Sequence[Any], prediction: Prediction, *, stacklevel: int) -> None:
    """Warns of marginal means at the predicted nodes that are far beyond every observed value.

    Args:
        fit: A :class:`~pyro_copula.Fit` or :class:`~pyro_copula.Ensemble`.
        laws: Its joint laws, all of the same weight.
        prediction: What it predicts.
        stacklevel: As for :func:`warnings.warn`, from here.
    """
    data = fit.model.data
    exposure = torch.ones_like(data.y) if data.exposure is None else data.exposure
    largest = float((data.y / exposure).abs().nan_to_num(0.0).max())
    rows = torch.cat([law.mean.reshape(-1, data.num_nodes) for law in laws])
    mean = (rows.mean(0) / exposure)[prediction.nodes]
    count = int((mean.abs() > _FAR * largest).sum())
    if not largest or not count:  # nothing but zeros says nothing of what is far
        return
    worst = int(mean.abs().nan_to_num(0.0).argmax())
    node: Any = int(prediction.nodes[worst])
    if prediction.names is not None:
        node = prediction.names[node]
    warning = ExtrapolationWarning(node, float(mean[worst]), largest, count, _hint(fit))
    warnings.warn(warning, stacklevel=stacklevel + 1)


def _hint(fit: Any) -> str:
    family = fit.model.family
    if isinstance(family, CountFamily) and not family.cap:
        marginal = {**family.specification(), "cap": True}
        return f"Use marginal={marginal}, whose means stay below twice the largest count."
    return (
        "Look at its features; CopulaGNN(clip_features=5.0) keeps standardised ones within reach."
    )
