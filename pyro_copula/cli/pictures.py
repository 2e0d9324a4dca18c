"""Pictures of predictions: maps of nodes and edges, and intervals with and without neighbours.

Colours are those of Okabe and Ito and the colour map cividis: both survive colour blindness.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

BLUE, ORANGE, GREY, DARK = "#0072B2", "#D55E00", "#B0B0B0", "#333333"

#: From this many nodes on, intervals are drawn as bands and not as bars.
MANY = 200


class Bars(NamedTuple):
    """Intervals side by side: how they look, what they are, where they begin and end."""

    colour: str
    label: str
    lower: np.ndarray
    upper: np.ndarray


def draw_predictions(
    path: Path,
    target: str,
    prediction: Any,
    alone: Any,
    *,
    position: np.ndarray | None = None,
    pairs: np.ndarray,
) -> None:
    """Draws the predictions of a fit: intervals, and a map if the places are known.

    Args:
        path: The PNG file.
        target: What the values are.
        prediction: The missing nodes given the observed ones.
        alone: The same nodes from their marginals alone.
        position: Places of all nodes, shape ``(num_nodes, 2)``.
        pairs: The edges.
    """
    figure = _figure((9, 4.2) if position is None else (9, 8))
    rows = figure.subplots(1 if position is None else 2, 1, squeeze=False)[:, 0]
    if position is not None:
        width = np.ptp(np.stack(list(prediction.interval(0.9))), axis=0)
        _map(rows[0], position, pairs)
        nodes = prediction.nodes.numpy()
        points = rows[0].scatter(
            *position[nodes].T,
            s=_dot_size(len(position)),
            c=prediction.mean.numpy(),
            cmap="cividis",
            edgecolors=DARK,
            linewidths=0.4,
            zorder=3,
        )
        seen = np.setdiff1d(np.arange(len(position)), nodes)
        rows[0].scatter(
            *position[seen].T, s=_dot_size(len(position)) / 3, color=GREY, label="observed node"
        )
        rows[0].legend(loc="best", fontsize=8)
        _plain(figure.colorbar(points, ax=rows[0]).set_label, f"predicted {_short(target)}")
        rows[0].set_title(
            f"Predicted means; 90% intervals are {float(np.median(width)):.3g} wide (median)",
            fontsize=10,
        )
    order = np.argsort(prediction.median.numpy(), kind="stable")
    _intervals(
        rows[-1],
        [
            Bars(GREY, "90% interval from features alone", *_ends(alone, 0.9, order)),
            Bars(BLUE, "90% interval given the observed nodes", *_ends(prediction, 0.9, order)),
        ],
    )
    place, median = np.arange(len(order)), prediction.median.numpy()[order]
    style = "-" if len(place) > MANY else "o"
    rows[-1].plot(place, median, style, color=DARK, lw=1, ms=3.5, zorder=4, label="median")
    rows[-1].set_xlabel("missing nodes, by predicted median")
    _plain(rows[-1].set_ylabel, _short(target))
    rows[-1].set_title("What the observed nodes add", fontsize=10)
    rows[-1].legend(loc="upper left", fontsize=8)
    figure.savefig(path, dpi=150)


def draw_demo(path: Path, data: Any, table: Any, title: str) -> None:
    """Draws the counties of North Carolina, each predicted while it was hidden.

    Args:
        path: The PNG file.
        data: What ``pc.datasets.nc_sids()`` returns.
        table: One row per county in its order, with the columns of predictions.csv.
        title: Above everything.
    """
    position, pairs = data.pos.numpy(), data.edge_index.T.numpy()
    births = data.exposure.numpy() / 1000
    rate, mean = data.y.numpy() / births, table["mean"].to_numpy() / births
    figure = _figure((11, 7.2))
    figure.suptitle(title, fontsize=12)
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1.35])
    panels = above.subplots(1, 2)
    top = float(np.quantile(np.concatenate([rate, mean]), 0.95))
    size = _dot_size(len(position)) * (0.35 + 1.3 * np.sqrt(births / births.max()))
    for axes, values, heading in (
        (panels[0], rate, "What happened"),
        (panels[1], mean, "Predicted mean, while the county was hidden"),
    ):
        _map(axes, position, pairs)
        points = axes.scatter(
            *position.T,
            s=size,
            c=values,
            cmap="cividis",
            vmin=0,
            vmax=top,
            edgecolors=DARK,
            linewidths=0.5,
            zorder=3,
        )
        axes.set_title(f"{heading} (larger dot: more births)", fontsize=10)
    bar = above.colorbar(points, ax=list(panels), extend="max", shrink=0.8, aspect=14, pad=0.01)
    bar.set_label("deaths per 1,000 births")

    axes = below.subplots()
    order = np.argsort(births, kind="stable")
    scaled = births[order]

    def ends(prefix: str) -> tuple[np.ndarray, np.ndarray]:
        lower, upper = (table[f"{prefix}{end}_90"].to_numpy() for end in ("lower", "upper"))
        return lower[order] / scaled, upper[order] / scaled

    alone = Bars(GREY, "marginal 90% interval: the county by itself", *ends("marginal_"))
    given = Bars(BLUE, "conditional 90% interval: given the other counties", *ends(""))
    _intervals(axes, [alone, given])
    deaths = data.y.numpy()  # compared as counts, which are exact
    inside = (deaths >= table["lower_90"].to_numpy()) & (deaths <= table["upper_90"].to_numpy())
    _truth(axes, rate[order], inside[order])
    worst = int(np.argmax(rate[order]))
    axes.annotate(
        data.names[order[worst]],
        (worst, rate[order][worst]),
        xytext=(7, 0),
        textcoords="offset points",
        va="center",
        fontsize=8,
    )
    ticks = np.linspace(0, len(order) - 1, 6).round().astype(int)
    axes.set_xticks(ticks, [f"{1000 * scaled[k]:,.0f}" for k in ticks])
    axes.set_xlim(-1, len(order))
    axes.set_ylim(-0.3, 1.06 * max(float(rate.max()), float(alone.upper.max())))
    axes.set_xlabel("births in the county (counties in this order)")
    axes.set_ylabel("deaths per 1,000 births")
    axes.legend(loc="upper right", fontsize=8)
    figure.savefig(path, dpi=150)


# ---------------------------------------------------------------- parts


def _figure(size: tuple[float, float]) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")  # no pyplot: no window, no global state


def _map(axes: Any, position: np.ndarray, pairs: np.ndarray) -> None:
    """The edges as lines, with the sides in proportion."""
    from matplotlib.collections import LineCollection

    axes.add_collection(LineCollection(position[pairs], colors=GREY, linewidths=0.6, zorder=1))
    latitude = float(np.abs(position[:, 1]).mean())
    degrees = latitude < 85 and float(np.abs(position[:, 0]).max()) <= 180
    axes.set_aspect(1 / np.cos(np.radians(latitude)) if degrees else "equal")
    axes.margins(0.04)
    axes.set_xticks([])
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)


def _dot_size(count: int) -> float:
    return float(np.clip(9000 / count, 6, 120))


def _ends(prediction: Any, level: float, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = prediction.interval(level)
    return lower.numpy()[order], upper.numpy()[order]


def _intervals(axes: Any, groups: list[Bars]) -> None:
    """Intervals of the same nodes: bars for few nodes, bands for many."""
    place = np.arange(len(groups[0].lower))
    for k, bars in enumerate(groups):
        style = {"color": bars.colour, "label": bars.label}
        if len(place) > MANY:
            axes.fill_between(place, bars.lower, bars.upper, alpha=0.45, lw=0, **style)
        else:
            # The marginal bar is wide and pale, the conditional one thin and in front of it.
            axes.vlines(place, bars.lower, bars.upper, linewidth=2.2 if k else 5.0, **style)


def _truth(axes: Any, truth: np.ndarray, inside: np.ndarray) -> None:
    """The true values, those outside their interval in another colour and shape."""
    place = np.arange(len(truth))
    for chosen, colour, marker, label in (
        (inside, DARK, "o", "truth, inside the conditional interval"),
        (~inside, ORANGE, "D", "truth, outside"),
    ):
        axes.scatter(
            place[chosen], truth[chosen], s=14, color=colour, marker=marker, zorder=4, label=label
        )


def _plain(set_text: Any, text: str) -> None:
    """Sets a text that a user gave: dollar signs are no mathematics."""
    set_text(text, parse_math=False)


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
