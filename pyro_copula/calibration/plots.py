"""Pictures of ranks. matplotlib is loaded on first use."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InvalidArgumentError
from .uniformity import uniformity_band

#: Colours that survive colour blindness (Okabe and Ito).
BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#999999"

KINDS = ("ecdf", "histogram")

_COLUMNS = 4

#: Bars of a histogram have about so many ranks each.
_BAR_COUNT = 15


def plot_ranks(
    result: Any,
    kind: str,
    quantities: Sequence[str] | None,
    level: float,
    max_panels: int,
    axes: Any = None,
) -> np.ndarray:
    """One panel a quantity; see :meth:`SBCResult.plot`."""
    if kind not in KINDS:
        raise InvalidArgumentError("kind", f"one of {KINDS}", repr(kind), 'Use kind="ecdf".')
    if not 0 < level < 1:
        raise InvalidArgumentError("level", "between 0 and 1", repr(level), "Use 0.95.")
    names = _chosen(result, quantities, max_panels)
    if axes is None:
        left = 0 if quantities is not None else len(result.ranks) - len(names)
        axes = _new_axes(len(names), kind, _title(result, kind, level, left))
    panels = np.atleast_1d(axes).ravel()[: len(names)]
    if len(panels) < len(names):
        raise InvalidArgumentError(
            "axes", f"{len(names)} axes, one a quantity", f"{len(panels)}", "Leave it out."
        )
    draw = _draw_ecdf if kind == "ecdf" else _draw_histogram
    for panel, name in zip(panels, names, strict=True):
        draw(panel, result, name, level)
        panel.set_title(f"{name}   (p = {result.p_values[name]:.2g})", fontsize=9)
        panel.tick_params(labelsize=8)
        panel.set_xlim(0, 1)
    return panels


def _chosen(result: Any, quantities: Sequence[str] | None, max_panels: int) -> list[str]:
    if quantities is None:
        names = list(result.ranks)
        if len(names) > max_panels:
            names = sorted(names, key=lambda name: result.p_values[name])[:max_panels]
        return names
    names = [quantities] if isinstance(quantities, str) else list(quantities)
    unknown = [name for name in names if name not in result.ranks]
    if unknown or not names:
        raise InvalidArgumentError(
            "quantities",
            f"some of {sorted(result.ranks)}",
            f"{unknown[0]!r}" if unknown else "none",
            "Leave it out for all of them.",
        )
    return names


def _new_axes(count: int, kind: str, title: str) -> np.ndarray:
    """A figure with so many panels, labelled at its left and lower ends."""
    import matplotlib.pyplot as plt

    columns = min(_COLUMNS, count)
    rows = math.ceil(count / columns)
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(max(4.5, 2.7 * columns), 2.3 * rows + 0.5),
        squeeze=False,
        sharex=True,
        sharey=True,
        constrained_layout=True,
    )
    for empty in grid.ravel()[count:]:
        empty.set_visible(False)
    figure.suptitle(title, fontsize=9)
    for row in grid:
        row[0].set_ylabel("ECDF minus uniform" if kind == "ecdf" else "replications", fontsize=9)
    for column in grid.T:
        last = [panel for panel in column if panel.get_visible()][-1]
        last.set_xlabel("rank / number of draws", fontsize=9)
        last.tick_params(labelbottom=True)
    return grid.ravel()


def _title(result: Any, kind: str, level: float, left: int) -> str:
    if kind == "ecdf":
        shade = f"grey: {100 * level:g}% band for all quantities together"
    else:
        shade = f"dashed: {100 * level:g}% interval of each bar"
    rest = f"; {left} quantities with larger p-values are not shown" if left else ""
    return f"Ranks of {result.num_replications} replications{rest}\n{shade}"


def _draw_ecdf(panel: Any, result: Any, name: str, level: float) -> None:
    """The empirical distribution minus the uniform one; a curve that leaves the band is red."""
    ranks, count = result.ranks[name], len(result.ranks)
    joint = 1 - (1 - level) / count  # Bonferroni: the bands of all quantities hold together
    band = uniformity_band(len(ranks), result.num_ranks, joint)
    x, lower, upper = band
    places = np.round(x * result.num_ranks)
    share = (ranks[:, None] < places).mean(0)
    outside = (share < lower - 1e-12) | (share > upper + 1e-12)
    ends = np.concatenate([[0.0], x, [1.0]])
    panel.fill_between(
        ends, _closed(lower - x), _closed(upper - x), color=GREY, alpha=0.35, linewidth=0
    )
    panel.axhline(0, color=GREY, linewidth=0.8)
    panel.plot(ends, _closed(share - x), color=ORANGE if outside.any() else BLUE, linewidth=1.4)


def _closed(values: np.ndarray) -> np.ndarray:
    """With the zeros at both ends, where every distribution function is."""
    return np.concatenate([[0.0], values, [0.0]])


def _draw_histogram(panel: Any, result: Any, name: str, level: float) -> None:
    from scipy.stats import binom

    ranks, total = result.ranks[name], result.num_ranks
    edges = _bar_edges(total, len(ranks))
    counts = np.histogram(ranks, bins=edges - 0.5)[0]
    share = np.diff(edges) / total  # bars of a rank more or less have their own expectation
    tail = (1 - level) / 2
    lower, upper = binom.ppf([[tail], [1 - tail]], len(ranks), share)
    outside = (counts < lower) | (counts > upper)
    places = edges / total
    panel.bar(
        places[:-1],
        counts,
        width=np.diff(places),
        align="edge",
        color=np.where(outside, ORANGE, BLUE),
        alpha=0.7,
        edgecolor="white",
        linewidth=0.5,
    )
    for limit, style in ((lower, "--"), (share * len(ranks), "-"), (upper, "--")):
        steps = [*limit, limit[-1]]
        panel.plot(places, steps, style, color="black", linewidth=0.8, drawstyle="steps-post")


def _bar_edges(num_ranks: int, num_values: int) -> np.ndarray:
    """The first ranks of the bars, and one past the last: equally many ranks each, if possible."""
    wanted = max(4, min(num_ranks, num_values // _BAR_COUNT, 25))
    even = [k for k in range(wanted // 2 + 1, wanted + 1) if num_ranks % k == 0]
    count = even[-1] if even else wanted
    return np.unique(np.linspace(0, num_ranks, count + 1).round().astype(int))
