"""``graph_roles``: does the graph help as representation, as correlation, or as both?"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..errors import InvalidArgumentError
from ..errors.counts import check_count
from ..errors.spelling import did_you_mean
from ..models import CopulaGNN, NodeData
from ..models.families import automatic_family
from .fitting import fit
from .role_fits import WITH_GRAPH, WITHOUT_GRAPH, Network, RoleFits
from .role_report import GraphRoles

#: Networks that do not look at the graph.
_WITHOUT_GRAPH = ("mlp", "linear")

#: Options of a model that show the graph to a network that should not see it.
_BLURRING = ("graph_features", "neighbour_outcomes", "recipe")

#: Options of a fit that belong to one fit alone.
_OF_ONE_FIT = {"model", "data", "observed", "seed", "start", "checkpoint", "progress"}


def graph_roles(
    data: Any,
    observed: Tensor | None = None,
    *,
    backbone: Any = None,
    baseline: Any = None,
    marginal: Any = "auto",
    precision: Any = "normalized_adjacency",
    nugget: bool = True,
    discrete: str = "midpoint",
    refine: bool = True,
    folds: int = 5,
    held_out: Tensor | None = None,
    jobs: int = 1,
    seed: int = 0,
    progress: bool | None = None,
    **options: Any,
) -> GraphRoles:
    r"""Measures what the graph brings to predictions: as representation, correlation, or both.

    Four models are fitted, with the same family of marginals, the same validation nodes and the
    same schedule: a network that does not see the graph or one that does, each with independent
    nodes or with a copula. What the graph network gains over the other one is the graph's role as
    *representation*; what the copula gains over independence is its role as *correlation*.

    A gain is the sum over nodes of the difference in log predictive density
    :math:`\log p(y_i \mid y_{-i})`: every node is scored given the values of all other observed
    nodes, as in leave-one-out. Parameters fitted to that very node would flatter the more flexible
    network, so the observed nodes are split into folds, and a node is scored by fits that had its
    whole fold hidden: neither trained on it nor stopped by it. Every observed node is scored once,
    for ``4 * folds`` fits, or twice as many if two networks of each kind are tried.

    The standard error of a gain is :math:`\sqrt{n \operatorname{var}(d_i)}` of the paired
    differences :math:`d_i`. Nodes of one fold share their fits, which may have come out well or
    badly; where the means of the folds differ more than those of independent differences would,
    the variance is taken from them. With ``held_out`` there is one split, and nothing is known of
    that: use ``restarts`` to average over fits.

    The two roles can stand in for each other: what a graph network would explain, the copula of a
    network without the graph sees as correlation, and a graph network smooths. So a gain of one
    role alone does not show that role. The verdict names a role if models *without* it predict
    worse, whatever else they have: representation, if the graph network gains over the copula
    beside a network without the graph; correlation, if the copula gains beside the graph network.

    Args:
        data: A PyTorch Geometric ``Data`` with ``x``, ``edge_index`` and ``y``; see
            :func:`pyro_copula.fit`.
        observed: Boolean, shape ``(num_nodes,)``: the values that may be looked at. Without it,
            every value that is not NaN (and not held out).
        backbone: The network that sees the graph, as in :class:`~pyro_copula.CopulaGNN`. By
            default one of two, chosen for each model by the validation scores of all folds: a
            linear regression on a node's features and on the average of its neighbourhood, or
            ``"sage"`` beside a linear regression if that is better by about a standard error. A
            network that does not suit the data hides the role of representation.
        baseline: The network that does not. By default ``"linear"``, or ``"mlp"`` beside a linear
            regression, chosen likewise.
        marginal: The marginals of all four models. Normal ones have one scale for all nodes here,
            so that only the dependence differs; with ``{"family": "normal", "scale": "tied"}``
            those of the copula models have the variances of the precision, as in the paper.
        precision: The precision of the copula.
        nugget: Whether a learned share of independent noise stands beside the graph field of the
            copula, True by default here. A pure field can tie a few nodes (a pair with no other
            neighbour, say) almost rigidly; where that is wrong, one such node costs the copula
            more than it gains at all others.
        discrete: The rule for discrete marginals. A warning says if ``"midpoint"`` is poor for
            the values: pass ``"exact"`` then, or ``"ep"``, which is quicker.
        refine: As in :func:`~pyro_copula.fit`, but True by default: training that stops by
            validation score may leave the dependence far from its maximum, and what one of two
            copulas misses for that reason would be taken for a role.
        folds: The number of folds.
        held_out: Boolean, shape ``(num_nodes,)``: score these nodes in place of folds, each given
            the *observed* ones, with one fit a model: the comparison on a test set.
        jobs: The number of processes in which fits run.
        seed: Of everything random.
        progress: Whether to show a progress bar; by default if this is a terminal.
        **options: Any other option of :class:`~pyro_copula.CopulaGNN` (``exposure``,
            ``hidden_channels``, ``linear_skip``) or of :func:`~pyro_copula.fit` (``lr``,
            ``schedule``, ``restarts``, ``validation``).

    Returns:
        A :class:`~pyro_copula.GraphRoles`, with a verdict in words. Ctrl-C ends the run with the
        folds that are finished.

    Example:
        >>> import pyro_copula as pc
        >>> data = pc.simulate.paper_setting("b", num_nodes=100, num_edges=500)
        >>> short = pc.Schedule(max_epochs=60)
        >>> roles = pc.graph_roles(data, held_out=data.test_mask, schedule=short, lr=0.03)
        >>> sorted(roles.gains)[:3]
        ['both', 'correlation', 'correlation given representation']
        >>> roles.log_density["both"].shape
        torch.Size([34])
    """
    for_model, for_fit = _split(
        {**options, "nugget": nugget, "discrete": discrete, "refine": refine}
    )
    _check_networks(backbone, baseline, precision, options)
    check_count("folds", folds, "Use 5.")
    check_count("jobs", jobs, "Use 1.")
    if held_out is not None:
        observed = _observed_beside(data, observed, held_out)
    nodes = _read(data, observed, held_out, for_model.get("exposure"))
    setup = RoleFits(
        data=nodes,
        networks=(
            WITHOUT_GRAPH if baseline is None else (Network.of(baseline),),
            WITH_GRAPH if backbone is None else (Network.of(backbone),),
        ),
        precision=precision,
        model_options={"marginal": _same_marginal(marginal, nodes), **for_model},
        fit_options=for_fit,
        held_out=held_out,
        folds=1 if held_out is not None else folds,
        seed=seed,
    )
    setup.check()
    return setup.run(jobs, sys.stderr.isatty() if progress is None else progress)


# ---------------------------------------------------------------- checks


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Options of the model, and options of the fit."""
    of_model = set(inspect.signature(CopulaGNN.__init__).parameters) - {"self"}
    of_fit = set(inspect.signature(fit).parameters) - _OF_ONE_FIT
    unknown = sorted(set(options) - of_model - of_fit)
    if unknown:
        raise InvalidArgumentError(
            "options",
            "options of CopulaGNN or of fit",
            f"{unknown[0]!r}",
            did_you_mean(
                unknown[0],
                of_model | of_fit,
                f"Of the model: {sorted(of_model)}. Of the fit: {sorted(of_fit)}.",
            ),
        )
    return (
        {name: value for name, value in options.items() if name in of_model},
        {name: value for name, value in options.items() if name in of_fit},
    )


def _check_networks(backbone: Any, baseline: Any, precision: Any, options: Any) -> None:
    if isinstance(backbone, str) and backbone in _WITHOUT_GRAPH:
        raise InvalidArgumentError(
            "backbone", "a network that sees the graph", repr(backbone), 'Use backbone="sage".'
        )
    if isinstance(baseline, str) and baseline not in _WITHOUT_GRAPH:
        raise InvalidArgumentError(
            "baseline", "a network that does not see the graph", repr(baseline), 'Use "mlp".'
        )
    if isinstance(precision, str) and precision == "none":
        raise InvalidArgumentError(
            "precision", "one with edges", "'none'", 'Use precision="normalized_adjacency".'
        )
    for name in _BLURRING:
        if options.get(name):
            raise InvalidArgumentError(
                name,
                "left out",
                repr(options[name]),
                "Every model would see the graph, or its parts would be set twice.",
            )


def _observed_beside(data: Any, observed: Tensor | None, held_out: Tensor) -> Tensor:
    """The observed nodes that are not held out."""
    y = data.y.reshape(-1)
    fits = torch.is_tensor(held_out) and held_out.dtype == torch.bool and held_out.shape == y.shape
    known = ~torch.isnan(y)
    if not fits or not bool(held_out.any()) or bool((held_out & ~known).any()):
        raise InvalidArgumentError(
            "held_out",
            f"boolean of shape ({len(y)},), true at some nodes that have a value",
            "a node without value" if fits and bool(held_out.any()) else "something else",
            "Pass a mask such as data.test_mask.",
        )
    if observed is None:
        return known & ~held_out
    if bool((observed & held_out).any()):
        raise InvalidArgumentError(
            "held_out",
            "apart from `observed`",
            f"node {int((observed & held_out).nonzero()[0])} in both",
            "Pass observed & ~held_out.",
        )
    return observed


def _read(
    data: Any, observed: Tensor | None, held_out: Tensor | None, exposure: str | None
) -> NodeData:
    """The data with all values that are seen or scored."""
    if held_out is None or observed is None:
        return NodeData.from_pyg(data, observed, exposure)
    return NodeData.from_pyg(data, observed | held_out, exposure)


def _same_marginal(marginal: Any, data: NodeData) -> Any:
    """The family, chosen from all values; normals get a scale that no precision sets."""
    if isinstance(marginal, str) and marginal == "auto":
        offset = None if data.offset is None else data.offset[data.observed]
        marginal = automatic_family(data.y[data.observed], offset)
    if isinstance(marginal, str):
        marginal = {"family": marginal}
    if isinstance(marginal, Mapping) and marginal.get("family") == "normal":
        return {"scale": "global", **marginal}
    return marginal
