"""Pictures: Figure 1, calibration, and the copulas of the appendix."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
import scipy.stats

from pyro_copula.atomic import reported, write_whole

#: What the appendix shows, each with Kendall's tau of one half.
KENDALL = 0.5
#: Rows of the paper, drawn solid, and below them those beyond it, dashed.
_COLOURS = {
    "MLP": "#444444",
    "GCN": "#4c78a8",
    "SAGE": "#f58518",
    "GAT": "#54a24b",
    "APPNP": "#b279a2",
}
_BEYOND = {
    "APPNP, two steps": "#b279a2",
    "ab-C-MLP": "#17becf",
    "R-C-MLP": "#d62728",
    "linear + CAR": "#8c6d31",
}


#: Points of (parameter, mean, standard error).
Curve = Sequence[tuple[float, float, float]]


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def _save(figure: Any, path: Path) -> None:
    drawn = io.BytesIO()
    # No software version in the file: the same records give the same picture.
    figure.savefig(drawn, format="png", dpi=110, bbox_inches="tight", metadata={"Software": None})
    _pyplot().close(figure)
    with reported(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, drawn.getvalue())


# ---------------------------------------------------------------- Figure 1


def roles(curves: Mapping[str, Mapping[str, Curve]], path: Path) -> None:
    """Figure 1: R2 against the noise, one panel a setting.

    Args:
        curves: By setting and model, points of (parameter, mean, standard error).
        path: Where the picture goes.
    """
    plt = _pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.3))
    titles = {
        "a": ("(a) the graph is representational", "noise variance $\\sigma^2$"),
        "b": ("(b) the graph is correlational", "covariance scale $\\tau$"),
    }
    for axis, (setting, (title, label)) in zip(axes, titles.items()):
        for model, points in curves.get(setting, {}).items():
            x, mean, error = np.array(points).T
            style = {"marker": "o", "ms": 4, "capsize": 2}
            if model not in _COLOURS:
                style |= {"ls": "--", "marker": "s"}
            colour = {**_COLOURS, **_BEYOND}.get(model)
            axis.errorbar(x, mean, error, label=model, color=colour, **style)
        axis.set_xscale("log")
        axis.set(title=title, xlabel=label, ylabel="test $R^2$")
        axis.grid(alpha=0.3)
        if curves.get(setting):
            axis.legend(fontsize=7, ncol=4, loc="upper center", bbox_to_anchor=(0.5, -0.16))
        ticks = sorted({p[0] for points in curves.get(setting, {}).values() for p in points})
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    _save(figure, path)


# ---------------------------------------------------------------- calibration


def calibration(rows: Mapping[str, Mapping[str, tuple[float, float]]], path: Path) -> None:
    """Coverage of 90% intervals of the recommended models, by data set.

    Args:
        rows: By data set and kind (``"interval"``, ``"randomised PIT"``), mean and standard error.
        path: Where the picture goes.
    """
    plt = _pyplot()
    figure, axis = plt.subplots(figsize=(8, 0.5 * max(len(rows), 2) + 1))
    axis.axvspan(0.87, 0.93, color="#54a24b", alpha=0.15, label="0.87 to 0.93")
    axis.axvline(0.9, color="#54a24b", lw=1)
    for kind, marker, colour in (("interval", "o", "#4c78a8"), ("randomised PIT", "D", "#f58518")):
        found = [(k, values[kind]) for k, values in enumerate(rows.values()) if kind in values]
        if found:
            place, points = zip(*found)
            mean, error = np.array(points).T
            axis.errorbar(
                mean, place, xerr=error, fmt=marker, color=colour, ms=5, capsize=2, label=kind
            )
    axis.set_yticks(range(len(rows)), list(rows))
    axis.invert_yaxis()
    axis.set(xlabel="coverage of 90% intervals on test nodes", xlim=(0.8, 1.0))
    axis.legend(fontsize=8, loc="upper left")
    axis.grid(alpha=0.3)
    _save(figure, path)


# ---------------------------------------------------------------- Figure 3 of the appendix


def copula_densities(path: Path) -> None:
    """Densities in two dimensions: five copulas with standard normal marginals."""
    plt = _pyplot()
    grid = np.linspace(-3, 3, 181)
    x, y = np.meshgrid(grid, grid)
    u, v = scipy.stats.norm.cdf(x), scipy.stats.norm.cdf(y)
    marginal = scipy.stats.norm.pdf(x) * scipy.stats.norm.pdf(y)
    figure, axes = plt.subplots(1, 5, figsize=(15, 3.2), sharey=True)
    for axis, (name, density) in zip(axes, COPULAS.items()):
        values = density(u, v) * marginal
        axis.contourf(x, y, values, levels=12, cmap="Blues")
        axis.contour(x, y, values, levels=12, colors="#08306b", linewidths=0.4)
        axis.set(title=name, aspect="equal", xticks=(-2, 0, 2), yticks=(-2, 0, 2))
    figure.suptitle(f"Copulas with standard normal marginals, Kendall's tau {KENDALL}", y=1.02)
    _save(figure, path)


def gaussian_density(u: Any, v: Any, rho: float) -> Any:
    """The Gaussian copula's density."""
    a, b = scipy.special.ndtri(u), scipy.special.ndtri(v)
    square = rho * rho * (a * a + b * b) - 2 * rho * a * b
    return np.exp(-square / (2 * (1 - rho * rho))) / math.sqrt(1 - rho * rho)


def student_density(u: Any, v: Any, rho: float, df: float) -> Any:
    """The Student-t copula's density."""
    law = scipy.stats.t(df)
    a, b = law.ppf(u), law.ppf(v)
    square = (a * a - 2 * rho * a * b + b * b) / (1 - rho * rho)
    joint = (1 + square / df) ** (-(df + 2) / 2) / (2 * math.pi * math.sqrt(1 - rho * rho))
    return joint / (law.pdf(a) * law.pdf(b))


def clayton_density(u: Any, v: Any, theta: float) -> Any:
    """The Clayton copula's density, for positive theta."""
    total = u**-theta + v**-theta - 1
    return (1 + theta) * (u * v) ** (-theta - 1) * total ** (-2 - 1 / theta)


def gumbel_density(u: Any, v: Any, theta: float) -> Any:
    """The Gumbel copula's density, for theta of at least one."""
    a, b = -np.log(u), -np.log(v)
    total = (a**theta + b**theta) ** (1 / theta)
    power = (a * b) ** (theta - 1) * total ** (1 - 2 * theta) * (total + theta - 1)
    return np.exp(-total) / (u * v) * power


def frank_density(u: Any, v: Any, theta: float) -> Any:
    """The Frank copula's density, for theta other than zero."""
    whole = -np.expm1(-theta)
    below = whole - np.expm1(-theta * u) * np.expm1(-theta * v)
    return theta * whole * np.exp(-theta * (u + v)) / below**2


_RHO = math.sin(math.pi * KENDALL / 2)

#: Parameters follow from Kendall's tau; Frank's is the root of its Debye equation.
COPULAS: dict[str, Callable[[Any, Any], Any]] = {
    "Gaussian": lambda u, v: gaussian_density(u, v, _RHO),
    "Student-t, 4 df": lambda u, v: student_density(u, v, _RHO, 4.0),
    "Clayton": lambda u, v: clayton_density(u, v, 2 * KENDALL / (1 - KENDALL)),
    "Gumbel": lambda u, v: gumbel_density(u, v, 1 / (1 - KENDALL)),
    "Frank": lambda u, v: frank_density(u, v, 5.7363),
}


# ---------------------------------------------------------------- rules for discrete outcomes

_RULE_COLOURS = {"midpoint": "#e45756", "exact": "#4c78a8", "ep": "#54a24b"}
_RULE_WORDS = {"midpoint": "midpoint (the paper's)", "exact": "exact", "ep": "EP"}


def rule_bias(
    values: Mapping[float, Mapping[str, np.ndarray]], logit_truth: float, path: Path
) -> None:
    """Estimates of rho by rule: a dot a data set, and the mean with two standard errors.

    Args:
        values: By true mean and rule, errors of the logit of rho.
        logit_truth: The true logit.
        path: Where the picture goes.
    """
    plt = _pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 3.6))
    rng = np.random.default_rng(0)
    for group, by_rule in enumerate(values.values()):
        for k, (rule, errors) in enumerate(by_rule.items()):
            at = group + 0.26 * (k - 1)
            logits = errors + logit_truth
            spread = rng.uniform(-0.07, 0.07, len(logits))
            label = _RULE_WORDS[rule] if group == 0 else None
            colour = _RULE_COLOURS[rule]
            axes.plot(at + spread, logits, "o", ms=3, alpha=0.35, color=colour, mec="none")
            error = 2 * logits.std(ddof=1) / math.sqrt(len(logits))
            axes.errorbar(
                at, logits.mean(), error, fmt="D", ms=6, color=colour, mec="white", label=label
            )
    axes.axhline(logit_truth, color="#333333", lw=1, zorder=0)
    axes.text(len(values) - 0.52, logit_truth, " truth", va="bottom", ha="right", fontsize=9)
    ticks = np.array([0.9, 0.96, 0.99, 0.999, 0.9999, 0.99999])
    logit = scipy.special.logit(ticks)
    axes.set_yticks(logit, [f"{tick:g}" for tick in ticks])
    axes.set_xticks(range(len(values)), [f"mean count {mean:g}" for mean in values])
    axes.set_ylabel("estimate of rho")
    axes.legend(frameon=False, loc="upper right")
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, path)
