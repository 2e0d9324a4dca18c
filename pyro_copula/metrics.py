r"""Scores of predictions, calibration included.

Every score takes torch tensors, numpy arrays or lists of one shape, computes in float64 and
returns a Python float. Nodes without a value are the caller's to leave out: NaN is an error, never
skipped. Two of them judge a number (:func:`r2`, :func:`r2_deviance`), three an interval
(:func:`coverage`, :func:`interval_width`, :func:`interval_score`), and the others a whole
predictive law (:func:`log_score`, :func:`crps_sample`, :func:`pit`, :func:`pit_coverage`).

References:
    Gneiting and Raftery, Strictly proper scoring rules, prediction, and estimation, JASA 2007.
    Cameron and Windmeijer, R-squared measures for count data regression models, JBES 1996.
    Czado, Gneiting and Held, Predictive model assessment for count data, Biometrics 2009.
    Ferro, Fair scores for ensemble forecasts, QJRMS 2014.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .errors import InvalidArgumentError

__all__ = [
    "coverage",
    "crps_sample",
    "interval_score",
    "interval_width",
    "log_score",
    "pit",
    "pit_coverage",
    "r2",
    "r2_deviance",
]

#: How many numbers :func:`crps_sample` sorts at a time (float64: 32 MB).
CRPS_CHUNK = 4_000_000

# ---------------------------------------------------------------- a number


def r2(y: Any, prediction: Any) -> float:
    r"""The share of the variance of ``y`` that the predictions explain.

    .. math:: R^2 = 1 - \frac{\sum_i (y_i - p_i)^2}{\sum_i (y_i - \bar y)^2}

    This is 1 - MSE/Var on the scored nodes, the paper's metric for continuous outcomes: 1 is
    perfect, 0 is as good as their mean, and it may be negative.

    Args:
        y: The values.
        prediction: The predicted means, of the same shape.

    Example:
        >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
        0.5
    """
    y, prediction = _same_shape(y=y, prediction=prediction)
    _check_finite("y", y)
    total = (y - y.mean()).square().mean()
    _check_varies(y, total)
    return float(1 - (y - prediction).square().mean() / total)


def r2_deviance(y: Any, prediction: Any) -> float:
    r"""The share of the Poisson deviance of ``1 + y`` that ``1 + prediction`` explains.

    With :math:`a_i = 1 + y_i` and :math:`b_i = 1 + p_i`, the published metric for counts is

    .. math:: 1 - \frac{\sum_i a_i \log(a_i / b_i) - (a_i - b_i)}{\sum_i a_i \log(a_i / \bar a)}.

    Args:
        y: The counts.
        prediction: The predicted means, of the same shape.

    Example:
        >>> round(r2_deviance([0.0, 1.0, 5.0], [0.0, 1.0, 5.0]), 6)
        1.0
    """
    y, prediction = _same_shape(y=y, prediction=prediction)
    _check_finite("y", y)
    a, b = 1 + y, 1 + prediction
    for name, shifted in (("y", a), ("prediction", b)):
        if not bool((shifted > 0).all()):
            raise InvalidArgumentError(
                name,
                "greater than -1 everywhere",
                f"{float(shifted.min()) - 1:g}",
                "The deviance is for counts; use r2 for values that can be negative.",
            )
    total = (a * (a / a.mean()).log()).mean()
    _check_varies(a, total)
    return float(1 - (a * (a / b).log() - (a - b)).mean() / total)


# ---------------------------------------------------------------- an interval


def coverage(y: Any, interval: Any) -> float:
    """The share of values inside their interval, ends included.

    Args:
        y: The values.
        interval: A pair ``(lower, upper)`` of the same shape, as ``prediction.interval(0.9)``.

    Example:
        >>> coverage([0.0, 1.0, 5.0, 9.0], ([0, 0, 0, 0], [2, 2, 5, 5]))
        0.75
    """
    y, lower, upper = _value_and_interval(y, interval)
    return float(((lower <= y) & (y <= upper)).double().mean())


def interval_width(interval: Any) -> float:
    """The mean width of the intervals.

    Args:
        interval: A pair ``(lower, upper)`` of one shape.

    Returns:
        The mean width.

    Example:
        >>> interval_width(([0.0, 1.0], [2.0, 5.0]))
        3.0
    """
    lower, upper = _checked_interval(interval)
    return float((upper - lower).mean())


def interval_score(y: Any, interval: Any, level: float) -> float:
    r"""The interval score: width, plus a penalty for every value outside; smaller is better.

    With :math:`\alpha = 1 - \text{level}`, the mean over nodes of

    .. math:: (u - l) + \tfrac{2}{\alpha} (l - y)_+ + \tfrac{2}{\alpha} (y - u)_+,

    which is minimised in expectation by the true equal-tailed quantiles.

    Args:
        y: The values.
        interval: A pair ``(lower, upper)`` of the same shape.
        level: The nominal level of the intervals, in (0, 1).

    Returns:
        The mean score.

    Example:
        >>> round(interval_score([1.0, 7.0], ([0.0, 0.0], [4.0, 4.0]), 0.9), 6)
        34.0

    References:
        Gneiting and Raftery (2007), equation 43.
    """
    alpha = 1 - _checked_level(level)
    y, lower, upper = _value_and_interval(y, interval)
    outside = (lower - y).clamp(min=0) + (y - upper).clamp(min=0)
    return float((upper - lower + 2 / alpha * outside).mean())


# ---------------------------------------------------------------- a predictive law


def log_score(pointwise_log_prob: Any) -> float:
    """The mean log density (or probability) of the values; larger is better.

    Args:
        pointwise_log_prob: One log density a scored node. ``pointwise_log_prob(y)`` of a
            distribution is NaN at missing nodes: leave them out first.

    Returns:
        The mean.

    Example:
        >>> log_score([-1.0, -2.0])
        -1.5
    """
    (log_prob,) = _same_shape(pointwise_log_prob=pointwise_log_prob)
    return float(log_prob.mean())


def crps_sample(y: Any, samples: Any, *, fair: bool = True) -> float:
    r"""The continuous ranked probability score of predictive draws; smaller is better.

    The mean over nodes of

    .. math:: \frac1S \sum_s |x_s - y| - \frac{1}{2 c} \sum_{s, t} |x_s - x_t|

    with :math:`c = S(S - 1)` if fair, which is unbiased for the score of the law that the draws
    come from, and :math:`c = S^2` otherwise, the score of the draws as a law of their own. The
    double sum is :math:`2 \sum_k (2k - S - 1) x_{(k)}` over sorted draws, so the cost is
    :math:`O(S \log S)` a node; nodes are taken in chunks, so that memory stays bounded.

    Args:
        y: The values, shape ``(*nodes)``.
        samples: The draws, shape ``(S, *nodes)``.
        fair: Whether to remove the bias of a finite number of draws.

    Example:
        >>> crps_sample([0.0], [[-1.0], [1.0]])
        0.0
        >>> crps_sample([0.0], [[-1.0], [1.0]], fair=False)
        0.5
    """
    (y,) = _same_shape(y=y)
    _check_finite("y", y)
    samples = _as_tensor("samples", samples, check=False)
    if samples.shape[1:] != y.shape or samples.dim() == 0:
        raise InvalidArgumentError(
            "samples",
            f"of shape (num_samples, *{tuple(y.shape)}), one draw a row",
            f"shape {tuple(samples.shape)}",
            "Put the draws in the first dimension and score the same nodes.",
        )
    num_samples = samples.shape[0]
    if num_samples < (2 if fair else 1):
        raise InvalidArgumentError(
            "samples",
            "two draws or more" if fair else "one draw or more",
            f"{num_samples}",
            "Draw more; 1,000 is usual.",
        )
    y, samples = y.reshape(-1), samples.reshape(num_samples, -1)
    rank = torch.arange(1, num_samples + 1, dtype=torch.float64)
    pairs = num_samples * (num_samples - 1 if fair else num_samples)
    weight = ((2 * rank - num_samples - 1) / pairs).unsqueeze(-1)
    step = max(1, CRPS_CHUNK // num_samples)
    total = 0.0
    for start in range(0, len(y), step):
        # Distances to y: the score does not depend on the origin, and the sums are more accurate.
        part = samples[:, start : start + step].double() - y[start : start + step]
        _check_no_nan("samples", part)
        _check_finite("samples", part)
        total += float(part.abs().mean(0).sum() - (weight * part.sort(dim=0).values).sum())
    return total / len(y)


def pit(lower: Any, upper: Any, generator: torch.Generator | None = None) -> Tensor:
    r"""The randomised probability integral transform, uniform if the predictive law is right.

    .. math:: u_i = F_i(y_i^-) + v_i \, (F_i(y_i) - F_i(y_i^-)), \qquad v_i \sim U(0, 1)

    Args:
        lower: The predictive cdf just below each value, ``F(y - 1)`` for counts.
        upper: The predictive cdf at each value; equal to ``lower`` for continuous laws.
        generator: Where the uniform numbers come from; torch's global one if None.

    Returns:
        A float64 tensor of the shape of ``lower``.

    Example:
        >>> pit([0.2, 0.5], [0.4, 0.5], torch.Generator().manual_seed(0))
        tensor([0.3940, 0.5000], dtype=torch.float64)

    References:
        Czado, Gneiting and Held (2009).
    """
    lower, upper = _same_shape(lower=lower, upper=upper)
    if not bool(((lower >= 0) & (lower <= upper) & (upper <= 1)).all()):
        node = int((~((lower >= 0) & (lower <= upper) & (upper <= 1))).flatten().nonzero()[0])
        raise InvalidArgumentError(
            "lower",
            "at most `upper`, both from 0 to 1",
            f"({float(lower.flatten()[node]):g}, {float(upper.flatten()[node]):g}) at node {node}",
            "Pass the cdf just below the value and at it.",
        )
    v = torch.rand(lower.shape, dtype=torch.float64, generator=generator)
    return lower + v * (upper - lower)


def pit_coverage(pit: Any, level: float) -> float:
    """The share of PIT values in the central ``level`` of the unit interval.

    For a discrete law this is the honest coverage: that of an equal-tailed interval of whole
    numbers is above its level even when the law is right.

    Args:
        pit: Values of :func:`pit`.
        level: In (0, 1).

    Returns:
        The share.

    Example:
        >>> pit_coverage([0.01, 0.3, 0.5, 0.7], 0.9)
        0.75
    """
    tail = (1 - _checked_level(level)) / 2
    (u,) = _same_shape(pit=pit)
    return float(((tail <= u) & (u <= 1 - tail)).double().mean())


# ---------------------------------------------------------------- checks


def _as_tensor(argument: str, values: Any, check: bool = True) -> Tensor:
    """``values`` as a tensor without derivatives; with ``check``, float64 and free of NaN."""
    try:
        tensor = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidArgumentError(
            argument, "numbers", type(values).__name__, "Pass a tensor, an array or a list."
        ) from error
    tensor = tensor.detach().cpu()
    if check:
        tensor = tensor.double()
        _check_no_nan(argument, tensor)
    if tensor.numel() == 0:
        raise InvalidArgumentError(
            argument, "of one node or more", "no node", "Check the mask of scored nodes."
        )
    return tensor


def _check_no_nan(argument: str, values: Tensor) -> None:
    missing = int(values.isnan().sum())
    if missing:
        raise InvalidArgumentError(
            argument,
            "free of NaN",
            f"NaN at {missing} of {values.numel()} places",
            "Score only nodes that have a value: keep = ~y.isnan().",
        )


def _check_finite(argument: str, values: Tensor) -> None:
    infinite = int(values.isinf().sum())
    if infinite:
        raise InvalidArgumentError(
            argument,
            "finite",
            f"an infinite value at {infinite} of {values.numel()} places",
            "Look for an overflow or a bad input behind it.",
        )


def _same_shape(**arguments: Any) -> list[Tensor]:
    """The arguments as float64 tensors of one shape, broadcasting refused."""
    tensors = {name: _as_tensor(name, values) for name, values in arguments.items()}
    first, shape = next((name, tensor.shape) for name, tensor in tensors.items())
    for name, tensor in tensors.items():
        if tensor.shape != shape:
            raise InvalidArgumentError(
                name,
                f"of the shape of `{first}`, {tuple(shape)}",
                f"shape {tuple(tensor.shape)}",
                "Score the same nodes on both sides, without extra dimensions.",
            )
    return list(tensors.values())


def _checked_interval(interval: Any) -> tuple[Tensor, Tensor]:
    try:
        lower, upper = interval
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            "interval",
            "a pair (lower, upper)",
            type(interval).__name__,
            "Pass prediction.interval(0.9).",
        ) from error
    lower, upper = _same_shape(lower=lower, upper=upper)
    if bool((lower > upper).any()):
        node = int((lower > upper).flatten().nonzero()[0])
        raise InvalidArgumentError(
            "interval",
            "a pair with lower <= upper",
            f"({float(lower.flatten()[node]):g}, {float(upper.flatten()[node]):g}) at node {node}",
            "Swap the two ends.",
        )
    return lower, upper


def _value_and_interval(y: Any, interval: Any) -> list[Tensor]:
    lower, upper = _checked_interval(interval)
    return _same_shape(y=y, lower=lower, upper=upper)


def _checked_level(level: float) -> float:
    if not 0 < level < 1:
        raise InvalidArgumentError(
            "level", "strictly between 0 and 1", f"{level}", "Pass 0.9 for 90%."
        )
    return float(level)


def _check_varies(y: Tensor, total: Tensor) -> None:
    # Rounding of a mean of equal values may leave a total above zero.
    if not (bool((y != y.flatten()[0]).any()) and float(total) > 0):
        raise InvalidArgumentError(
            "y",
            "of two different values or more",
            "the same value at every node",
            "A share of the variance needs variance; score more nodes.",
        )
