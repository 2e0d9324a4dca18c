"""The picture of the README: intervals of counties before and given their neighbours.

    python experiments/county_map.py              # about a minute on an idle core

Infant deaths in North Carolina (``pc.datasets.nc_sids()``) without their feature: every county has
the same expected deaths per birth. Five fits, each of which hides another fifth of the counties, so
that every county is predicted once by a fit that has not seen it. Nothing is chosen: both maps show
all counties, and the third panel the first fifth, ordered by births. The picture goes to
``experiments/results/county_map.png``; the numbers of all counties are printed.

The package has the counties' centroids and not their borders, so the maps show the points that are
closest to each centroid (Voronoi cells), up to a distance of ``REACH``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.collections import PolyCollection
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline
from scipy.spatial import Voronoi
from torch import Tensor

import pyro_copula as pc

PICTURE = Path(__file__).parent / "results" / "county_map.png"
FOLDS, LEVEL = 5, 0.9

#: Degrees of latitude around a centroid that are drawn.
REACH = 0.3

#: The ends of the scale of colours, in deaths per 1,000 births.
SCALE = (2.0, 7.0)

BLUE, ORANGE = "#0072B2", "#E69F00"  # told apart by everyone


def predict(data: Any) -> dict[str, dict[str, Tensor]]:
    """Intervals and log scores of every county, by a fit that has not seen its fifth.

    Args:
        data: The counties, without features.

    Returns:
        For ``"marginal"`` and ``"conditional"``: ``lower``, ``upper`` and ``log_score``, each of
        shape ``(num_nodes,)``.
    """
    model = pc.CopulaGNN(
        backbone="linear",
        marginal="negative_binomial",
        precision="car",
        exposure="exposure",
        discrete="exact",
        last_layer_prior=1.0,
    )
    names = ("lower", "upper", "log_score")
    found = {
        kind: {name: torch.zeros(data.num_nodes) for name in names}
        for kind in ("marginal", "conditional")
    }
    for fold in range(FOLDS):
        observed = torch.arange(data.num_nodes) % FOLDS != fold
        fit = pc.fit(model, data, observed=observed, method="map", refine=True, seed=0)
        hidden = (~observed).nonzero().squeeze(-1)
        for kind, given in (("marginal", "none"), ("conditional", "observed")):
            prediction = fit.predict(given=given, nodes=hidden)
            interval = prediction.interval(LEVEL)
            scores = prediction.log_prob(data.y)
            for name, value in zip(names, (*interval, scores), strict=True):
                found[kind][name][hidden] = value.to(torch.get_default_dtype())
    return found


def draw_map(axes: Any, pos: Tensor, values: Tensor) -> Any:
    """Colours the Voronoi cells of centroids given in degrees."""
    place = ((pos - pos.mean(0)) * torch.tensor([0.82, 1.0])).numpy()  # degrees are not square
    far = 100 * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]])  # so that every cell has an end
    cells = Voronoi(np.concatenate([place, far]))
    shapes = [cells.vertices[cells.regions[cells.point_region[i]]] for i in range(len(place))]
    drawn = PolyCollection(shapes, edgecolor="white", linewidth=0.5, cmap="viridis")
    drawn.set_array(values.numpy())
    drawn.set_clim(*SCALE)
    axes.add_collection(drawn)
    discs = Outline.make_compound_path(*[Outline.circle(point, REACH) for point in place])
    drawn.set_clip_path(PathPatch(discs, transform=axes.transData))
    (left, bottom), (right, top) = place.min(0) - REACH - 0.05, place.max(0) + REACH + 0.05
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])
    axes.set_frame_on(False)
    return drawn


def draw(data: Any, found: dict[str, dict[str, Tensor]]) -> Any:
    """The figure: two maps with one scale of colours, and intervals with the truth."""
    per_thousand = 1000 / data.exposure
    figure = plt.figure(figsize=(10, 5.6), constrained_layout=True)
    grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.15])
    maps = [figure.add_subplot(grid[0, k]) for k in range(2)]
    titles = {"marginal": "before the neighbours", "conditional": "given the neighbours"}
    for axes, (kind, title) in zip(maps, titles.items(), strict=True):
        lower, upper = found[kind]["lower"], found[kind]["upper"]
        width = (upper - lower) * per_thousand
        covered = int(((lower <= data.y) & (data.y <= upper)).sum())
        shown = draw_map(axes, data.pos, width)
        words = (
            f"mean width {float(width.mean()):.1f}, {covered} of {data.num_nodes} hold the truth"
        )
        axes.set_title(f"90% intervals {title}\n{words}", fontsize=10.5)
    label = "width, deaths\nper 1,000 births"
    figure.colorbar(shown, ax=maps, label=label, extend="both", shrink=0.85)

    axes = figure.add_subplot(grid[1, :])
    some = torch.arange(0, data.num_nodes, FOLDS)  # the first fifth
    some = some[torch.argsort(data.exposure[some]).flip(0)]
    for kind, colour, shift in (("marginal", ORANGE, -0.17), ("conditional", BLUE, 0.17)):
        low, high = (found[kind][end][some] * per_thousand[some] for end in ("lower", "upper"))
        place = torch.arange(len(some)) + shift
        axes.vlines(place, low, high, color=colour, linewidth=4, label=f"90%, {titles[kind]}")
    axes.plot((data.y * per_thousand)[some], "D", color="black", markersize=4.5, label="truth")
    axes.set_xticks(range(len(some)), [data.names[int(i)] for i in some], fontsize=8.5, rotation=55)
    axes.set(ylabel="deaths per 1,000 births", ylim=(-0.3, 8.5))
    axes.legend(fontsize=9, loc="upper left", ncols=3, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main() -> None:
    """Fits, prints the numbers and writes the picture."""
    data = pc.datasets.nc_sids()
    data.x = None
    found = predict(data)
    for kind, values in found.items():
        inside = (values["lower"] <= data.y) & (data.y <= values["upper"])
        width = 1000 * (values["upper"] - values["lower"]) / data.exposure
        print(
            f"{kind:<12} coverage {float(inside.float().mean()):.2f}, "
            f"mean width {float(width.mean()):.2f} per 1,000, "
            f"log score {float(values['log_score'].mean()):.3f}"
        )
    draw(data, found).savefig(PICTURE, dpi=100)
    print(f"written: {PICTURE.name}, {PICTURE.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
