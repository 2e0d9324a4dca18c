"""Pictures of a diagnosis. matplotlib is loaded on first use."""

from __future__ import annotations

from typing import Any

#: Colours that survive colour blindness (Okabe and Ito).
BLUE, ORANGE, GREY, BLACK = "#0072B2", "#E69F00", "#999999", "#333333"
#: Where Moran's I before and after the copula stands: apart by the width of its label.
_PLACES = (0.0, 1.4)


def plot_histogram(histogram: Any, axes: Any = None, *, title: str = "") -> Any:
    """Bars of relative frequency, orange where they leave the band."""
    axes = _own_axes(axes)
    edges = histogram.edges.numpy()
    middle = (edges[1:] + edges[:-1]) / 2
    colours = [ORANGE if out else BLUE for out in histogram.outside.tolist()]
    width = 0.92 * (edges[1] - edges[0])
    axes.bar(middle, histogram.height.numpy(), width=width, color=colours, zorder=2)
    _band(axes, edges, histogram.lower, histogram.upper, f"{100 * histogram.band:g}% band")
    axes.axhline(1.0, color=BLACK, linewidth=1, linestyle="--", zorder=4)
    top = 1.25 * max(float(histogram.height.max()), float(histogram.upper.max()))
    axes.set(
        xlim=(0, 1), ylim=(0, top), xlabel="residual", ylabel="relative frequency", title=title
    )
    if bool(histogram.outside.any()):
        axes.bar([0.5], [0.0], color=ORANGE, label="outside the band")
    axes.legend(fontsize=8, loc="upper center", ncols=2, frameon=False)
    return axes


def plot_coverage(curve: Any, axes: Any = None, *, title: str = "") -> Any:
    """Coverage against level; a right model stays in the band around the diagonal."""
    axes = _own_axes(axes)
    axes.plot([0, 1], [0, 1], color=BLACK, linewidth=1, linestyle="--", zorder=2)
    axes.fill_between(
        curve.levels.numpy(),
        curve.lower.numpy(),
        curve.upper.clamp(max=1.0).numpy(),
        color=GREY,
        alpha=0.35,
        linewidth=0,
        label=f"{100 * curve.band:g}% band",
    )
    axes.plot(curve.levels.numpy(), curve.coverage.numpy(), color=BLUE, linewidth=1.5, zorder=3)
    for chosen, colour, label in (
        (~curve.outside, BLUE, "coverage"),
        (curve.outside, ORANGE, "outside the band"),
    ):
        if bool(chosen.any()):
            axes.scatter(
                curve.levels[chosen].numpy(),
                curve.coverage[chosen].numpy(),
                s=18,
                color=colour,
                zorder=4,
                label=label,
            )
    axes.set(
        xlim=(0, 1), ylim=(0, 1), xlabel="level of the interval", ylabel="coverage", title=title
    )
    axes.legend(fontsize=8, loc="upper left", frameon=False)
    return axes


def plot_moran(before: Any, after: Any, axes: Any = None, *, title: str = "") -> Any:
    """Moran's I before and after the copula, each with where it would lie by chance."""
    axes = _own_axes(axes)
    seen = [0.0]
    for number, (place, moran) in enumerate(zip(_PLACES, (before, after), strict=True)):
        low, high = moran.expected - 1.96 * moran.sd, moran.expected + 1.96 * moran.sd
        seen += [low, high, moran.statistic]
        label = {"label": "95% by chance"} if number == 0 else {}
        axes.bar(place, high - low, 0.3, low, color=GREY, alpha=0.5, **label)
        axes.hlines(moran.expected, place - 0.15, place + 0.15, color=BLACK, linewidth=1)
        wrong = number == 1 and not low <= moran.statistic <= high  # before it, there may be some
        axes.scatter(place, moran.statistic, s=50, color=ORANGE if wrong else BLUE, zorder=3)
        axes.annotate(
            f"I = {_signed(moran.statistic)}\n{moran.null}: {_signed(moran.expected)}",
            (place + 0.15, moran.statistic),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
        )
    axes.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    axes.set_xticks(_PLACES, ["before the copula", "after it"])
    room = 0.2 * (max(seen) - min(seen))
    axes.set(ylim=(min(seen) - room, max(seen) + 1.5 * room))
    axes.set(xlim=(-0.3, 2.55), ylabel="Moran's I of residuals", title=title)
    axes.legend(fontsize=8, loc="upper right", frameon=False)
    return axes


def plot_diagnosis(diagnosis: Any, axes: Any = None) -> Any:
    """Both histograms, coverage by level and Moran's I; returns the figure."""
    if axes is None:
        import matplotlib.pyplot as plt

        _, axes = plt.subplots(2, 2, figsize=(9, 6.5), constrained_layout=True)
    first, second, third, fourth = getattr(axes, "flat", axes)
    plot_histogram(diagnosis.marginal.histogram, first, title="Marginal: each node by itself")
    plot_histogram(
        diagnosis.conditional.histogram, second, title="Conditional: each node given the others"
    )
    plot_coverage(diagnosis.conditional.coverage, third, title="Coverage given the others")
    if diagnosis.moran_before is None:
        fourth.set_axis_off()
        fourth.text(0.5, 0.5, "no graph, or too few neighbours", ha="center", va="center")
    else:
        plot_moran(
            diagnosis.moran_before,
            diagnosis.moran_after,
            fourth,
            title="Does the graph carry correlation?",
        )
    return first.figure


def _signed(value: float) -> str:
    return "0.00" if abs(value) < 0.005 else f"{value:+.2f}"


def _own_axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(5, 3.5), constrained_layout=True)[1]


def _band(axes: Any, edges: Any, lower: Any, upper: Any, label: str) -> None:
    """A band by bins, with flat steps: filled behind the bars, its ends drawn over them."""
    ends = [[*end.tolist(), float(end[-1])] for end in (lower, upper)]
    axes.fill_between(
        edges, *ends, step="post", color=GREY, alpha=0.35, linewidth=0, zorder=1, label=label
    )
    for end in ends:
        axes.step(edges, end, where="post", color=BLACK, linewidth=1, zorder=4)
