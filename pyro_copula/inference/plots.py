"""Pictures of predictions and of training. matplotlib is loaded on first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

#: Colours that survive colour blindness (Okabe and Ito).
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#999999"

#: Up to so many nodes are told apart: each has its name and a bar of its own.
_NAMED = 60


def plot_prediction(prediction: Any, y: Tensor | None, level: float, axes: Any = None) -> Any:
    """Intervals in the order of their medians, and the true values where they are known."""
    import matplotlib.pyplot as plt

    if axes is None:
        _, axes = plt.subplots(figsize=(8, 3.5), constrained_layout=True)
    median = prediction.median
    lower, upper = prediction.interval(level)
    order = torch.argsort(median, stable=True)
    place = torch.arange(len(order))
    few = len(order) <= _NAMED
    width = 4 if few else 1.5
    axes.vlines(place, lower[order], upper[order], color=BLUE, alpha=0.45, linewidth=width)
    look = {"marker": "_", "markersize": 8, "linestyle": ""} if few else {"linewidth": 1.5}
    axes.plot(place, median[order], color=BLUE, label="median", **look)
    label = f"{100 * level:g}% interval"
    axes.plot([], [], color=BLUE, alpha=0.45, linewidth=4, label=label)
    if y is not None:
        inside = (y >= lower) & (y <= upper)
        for chosen, colour, text in (
            (inside, GREEN, "value, inside"),
            (~inside, ORANGE, "value, outside"),
        ):
            kept = chosen[order]
            axes.scatter(place[kept], y[order][kept], s=14, color=colour, label=text, zorder=3)
    axes.set(xlabel="predicted nodes, by median", ylabel="value")
    if few:
        nodes = prediction.nodes[order].tolist()
        names = nodes if prediction.names is None else [prediction.names[node] for node in nodes]
        axes.set_xticks(place, names, rotation=60, ha="right", rotation_mode="anchor", fontsize=8)
    axes.legend(fontsize=8, loc="upper left")  # medians rise to the right, so it is free
    return axes


def plot_history(histories: Sequence[Any], axes: Any = None) -> Any:
    """The loss at every step, and the validation score at every look, of one fit or several."""
    import matplotlib.pyplot as plt

    if axes is None:
        _, axes = plt.subplots(figsize=(6, 3.2), constrained_layout=True)
    alpha = 1.0 if len(histories) == 1 else 0.5
    for history in histories:
        losses = axes.plot(history.losses, color=GREY, alpha=alpha, label="loss")
    axes.set(xlabel="step", ylabel="loss")
    scored = [history for history in histories if history.scores]
    if scored:
        other = axes.twinx()
        for history in scored:
            steps, scores = zip(*history.scores, strict=True)
            lines = other.plot(steps, scores, color=BLUE, alpha=alpha, label="validation score")
            look = {"color": ORANGE, "linestyle": "--", "alpha": alpha, "label": "best"}
            best = other.axvline(history.best_epoch, **look)
        other.set_ylabel("validation score")
        other.legend(handles=[*losses, *lines, best], fontsize=8, loc="center right")
    return axes
