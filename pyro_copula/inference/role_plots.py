"""A picture of what the graph brings. matplotlib is loaded on first use."""

from __future__ import annotations

from typing import Any

from .plots import BLUE, GREY
from .role_gains import SURE

ORANGE = "#D55E00"


def plot_roles(roles: Any, axes: Any = None) -> Any:
    """One dot a role, with an interval of two standard errors, in nats a node."""
    import matplotlib.pyplot as plt

    if axes is None:
        _, axes = plt.subplots(figsize=(7.5, 3), constrained_layout=True)
    rows = list(roles.gains.values())
    for place, gain in enumerate(rows):
        colour = BLUE if gain.sure else ORANGE if gain.lost else GREY
        axes.errorbar(
            gain.per_node,
            place,
            xerr=SURE * gain.per_node_se,
            fmt="o",
            color=colour,
            markersize=6,
            linewidth=2,
        )
        text = f"{gain.total:.0f} ± {gain.se:.0f}"
        axes.annotate(
            text,
            (1.01, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=8,
            color=colour,
        )
    axes.annotate(
        "nats ± se", (1.01, -0.62), xycoords=("axes fraction", "data"), va="center", fontsize=7
    )
    axes.axvline(0, color="black", linewidth=0.8)
    axes.axhline(2.5, color=GREY, linewidth=0.6, linestyle=":")
    axes.set_yticks(range(len(rows)), [gain.role for gain in rows], fontsize=9)
    axes.set_ylim(len(rows) - 0.4, -0.9)
    axes.set_xlabel(f"gain in log predictive density, nats a node (± {SURE:g} standard errors)")
    axes.set_title(roles.verdict[0].upper() + roles.verdict[1:], fontsize=9)
    return axes
