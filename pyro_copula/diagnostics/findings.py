"""What is wrong with a model, in words, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..distributions.scores import DISCRETE_RULES
from .advice import (
    Setup,
    better_means,
    less_dependence,
    more_dependence,
    narrower,
    other_shape,
    wider,
)
from .moran import MoransI
from .uniformity import Uniformity, p_words

#: From this p-value on, normal scores are said to carry no correlation over the graph.
_NO_CORRELATION = 0.1


@dataclass(frozen=True)
class Finding:
    """One thing that a diagnosis found.

    Attributes:
        code: What it is, in one word: ``"not_converged"``, ``"not_trained"``,
            ``"nearly_singular"``, ``"midpoint"``, ``"graph_left"``, ``"graph_overdone"``,
            ``"too_narrow"``, ``"too_wide"``, ``"too_low"``, ``"too_high"``, ``"heavy_tails"``,
            ``"light_tails"``, ``"shape"``, ``"no_dependence"``.
        message: What was seen, and what it means.
        advice: What to do.
        problem: Whether something is wrong; otherwise it is worth knowing, no more.

    Example:
        >>> print(Finding("too_narrow", "The intervals are too narrow.", "Try a nugget."))
        The intervals are too narrow. Try a nugget.
    """

    code: str
    message: str
    advice: str
    problem: bool = True

    def __str__(self) -> str:
        return f"{self.message} {self.advice}"


@dataclass(frozen=True)
class Evidence:
    """What the words are about.

    Attributes:
        marginal: The shape of marginal residuals.
        conditional: The shape of conditional ones.
        before: Moran's I of marginal residuals against no dependence, if there is a graph.
        after: Moran's I of conditional residuals against the model's own.
        wide_atoms: Whether the midpoint rule is used where it is poor.
        threshold: The p-value below which something is found.
        condition: The condition number of the precision, if it leaves too few digits.
    """

    marginal: Uniformity
    conditional: Uniformity
    before: MoransI | None
    after: MoransI | None
    wide_atoms: bool
    threshold: float
    condition: float | None = None


def find(setup: Setup, evidence: Evidence) -> list[Finding]:
    """Everything found, the most basic first."""
    first = [_fit(setup), _digits(evidence), _rule(setup, evidence)]
    found = [*first, _graph(setup, evidence), _laws(setup, evidence)]
    return [finding for some in found for finding in some]


def _fit(setup: Setup) -> Iterator[Finding]:
    if setup.ended:
        yield Finding(
            "not_converged",
            f"The fit did not converge: {setup.ended}.",
            "Train longer first, as with schedule=Schedule(max_epochs=5000), or sample more; what "
            "follows may change.",
        )
    if setup.untrained:
        yield Finding(
            "not_trained",
            "The network is as it started: the validation score was best before the first step.",
            "Try a smaller lr, another seed or a larger validation share.",
        )


def _digits(evidence: Evidence) -> Iterator[Finding]:
    if evidence.condition is not None:
        yield Finding(
            "nearly_singular",
            f"The precision is nearly singular (condition number about {evidence.condition:.1g}): "
            "rounding alone moves results, conditional residuals among them, in the sixth digit or "
            "before.",
            "Keep its parameters off the ends of their ranges, by a prior or by a larger gamma.",
        )


def _rule(setup: Setup, evidence: Evidence) -> Iterator[Finding]:
    if not evidence.wide_atoms or setup.precision == "none":
        return
    advice = "Predictions at missing nodes suffer little; do not read much into the dependence."
    if "exact" in DISCRETE_RULES:
        advice = 'Use discrete="exact", "ep" or, for NUTS and SVI, "augment".'
    yield Finding(
        "midpoint",
        "Many observed values have an atom of probability above 0.3, and the midpoint rule is a "
        "poor approximation there: it overstates the dependence, and likelihoods and conditional "
        "residuals are off.",
        advice,
    )


def _graph(setup: Setup, evidence: Evidence) -> Iterator[Finding]:
    before, after = evidence.before, evidence.after
    if before is None or after is None:
        return
    if after.p_value < evidence.threshold:
        seen = _moran_words(after)
        if after.statistic > after.expected and setup.precision == "none":
            advice = (
                'precision="normalized_adjacency" or "car" couples neighbours'
                if setup.is_model
                else "A GaussianCopula with a precision on this graph couples neighbours"
            )
            yield Finding(
                "graph_left",
                f"The nodes are taken for independent, but the graph carries correlation ({seen}).",
                f"{advice}; or features and a backbone that use the graph explain it.",
            )
        elif after.statistic > after.expected:
            yield Finding(
                "graph_left",
                f"After the copula the graph still carries correlation ({seen}): the dependence is "
                "too weak or of the wrong form.",
                more_dependence(setup),
            )
        else:
            yield Finding(
                "graph_overdone",
                f"The copula takes out more correlation than the graph carries ({seen}): the "
                "dependence is too strong or of the wrong form.",
                less_dependence(setup),
            )
    elif before.p_value > _NO_CORRELATION and setup.precision != "none":
        what = 'precision="none"' if setup.is_model else "Independent nodes"
        yield Finding(
            "no_dependence",
            f"Before the copula the graph carries no correlation that can be seen (Moran's I = "
            f"{before.statistic:.3f}, {p_words(before.p_value)}).",
            f"{what} may do as well; compare the two.",
            problem=False,
        )


def _moran_words(moran: MoransI) -> str:
    return (
        f"Moran's I of the conditional residuals = {moran.statistic:.3f}, where the model expects "
        f"{moran.expected:.3f} ± {moran.sd:.3f}, {p_words(moran.p_value, moran.least_p)}"
    )


# ---------------------------------------------------------------- the shape of residuals


def _laws(setup: Setup, evidence: Evidence) -> Iterator[Finding]:
    kinds = {"marginal": evidence.marginal}
    if setup.precision != "none":  # else the two are the same
        kinds["conditional"] = evidence.conditional
    seen: dict[str, dict[str, str]] = {}
    for kind, shape in kinds.items():
        for code, words in _readings(shape, evidence.threshold):
            seen.setdefault(code, {})[kind] = words
    if any("marginal" in found for found in seen.values()):
        # What conditional residuals show alone may then follow from it, and is not interpreted.
        seen = {code: found for code, found in seen.items() if "marginal" in found}
    for code, found in seen.items():
        both = len(found) == 2 or setup.precision == "none"
        subject = "Residuals" if both else f"{next(iter(found)).capitalize()} residuals"
        numbers = "; ".join(
            f"{kind}: {words}" if len(found) == 2 else words for kind, words in found.items()
        )
        alone = "conditional" in found and len(found) == 1
        meaning, advice = _reading(setup, code, given_others=alone)
        yield Finding(code, f"{subject} {_SHAPES[code]} ({numbers}): {meaning}.", advice)


_SHAPES = {
    "too_low": "slope upwards",
    "too_high": "slope downwards",
    "too_narrow": "are U-shaped",
    "too_wide": "are hump-shaped",
    "heavy_tails": "have heavy tails",
    "light_tails": "have light tails",
    "shape": "are not uniform, neither by a slope nor by a U, a hump or the tails",
}


def _readings(shape: Uniformity, threshold: float) -> Iterator[tuple[str, str]]:
    """The codes of what is wrong with the shape, and the numbers that say so."""
    bias, dispersion = shape.p_bias < threshold, shape.p_dispersion < threshold
    tails = shape.p_tails < threshold and not (bias or dispersion)
    mean, spread, outer = 0.5 + shape.expected[0], *shape.expected[1:]
    if bias:
        code = "too_low" if 0.5 + shape.bias > mean else "too_high"
        p = p_words(shape.p_bias, shape.least_p)
        yield code, f"mean {0.5 + shape.bias:.2f} in place of {mean:.2f}, {p}"
    if dispersion:
        code = "too_narrow" if shape.dispersion > spread else "too_wide"
        p = p_words(shape.p_dispersion, shape.least_p)
        yield code, f"dispersion {shape.dispersion:.2f} in place of {spread:.2f}, {p}"
    if tails:
        code = "heavy_tails" if shape.tails > outer else "light_tails"
        p = p_words(shape.p_tails, shape.least_p)
        yield code, f"{shape.tails:.1%} in the outer tenth in place of {outer:.1%}, {p}"
    if shape.p_distance < threshold and not (bias or dispersion or tails):
        p = p_words(shape.p_distance, shape.least_p)
        yield "shape", f"Kolmogorov-Smirnov distance {shape.distance:.2f}, {p}"


def _reading(setup: Setup, code: str, *, given_others: bool) -> tuple[str, str]:
    """What a shape means, and what to do."""
    if code in ("too_low", "too_high"):
        side = "larger" if code == "too_low" else "smaller"
        meaning = f"values are {side} than the model expects"
        return f"given the other nodes, {meaning}" if given_others else meaning, better_means(setup)
    if code == "too_narrow" and given_others:
        return (
            "given the other nodes the laws are too narrow, for neighbours agree less than the "
            "copula expects",
            less_dependence(setup),
        )
    if code == "too_wide" and given_others:
        return (
            "given the other nodes the laws are too wide, for neighbours tell more than the copula "
            "takes from them",
            more_dependence(setup),
        )
    if code == "too_narrow":
        return "the marginals are too narrow", wider(setup)
    if code == "too_wide":
        return "the marginals are too wide", narrower(setup)
    if code in ("heavy_tails", "light_tails"):
        many = "more" if code == "heavy_tails" else "fewer"
        advice = wider(setup) if code == "heavy_tails" else other_shape(setup)
        where = "given the other nodes, " if given_others else ""
        return f"{where}{many} values are far out than the model expects", advice
    whose = "given the other nodes the laws" if given_others else "the marginals"
    return f"{whose} have the wrong shape", other_shape(setup)
