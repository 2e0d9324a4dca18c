"""Fits as arviz objects, on which az.loo, az.compare, az.summary and the plots work.

Two things differ from a model with independent values, and both are settled here.

*The values are dependent*, so the terms that leave-one-out needs are
``log p(y_i | every other observed y, parameters)``, and the draws that match them come from that
same conditional law. ``posterior_predictive["y"]`` holds those draws, which makes LOO-PIT right;
``posterior_predictive["y_rep"]`` holds joint draws of a whole new data set.

*A fit may have no posterior.* Maximum likelihood and MAP give one law, and a set of restarts one
mixture of laws. The draws then differ in the values drawn, not in the parameters, and leave-one-out
is that of the fixed law.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import arviz as az
import numpy as np
import torch
import xarray as xr
from torch import Tensor

from ._version import __version__
from .distributions import GraphNormal
from .errors import InvalidArgumentError
from .errors.counts import check_count
from .inference import Ensemble, Fit

#: arviz fits a Pareto tail to a fifth of the draws and wants five of them there.
_MIN_SAMPLES = 25

#: Numbers in one batch of laws: what bounds the memory, and enough to make loops cheap.
_BATCH_NUMBERS = 200_000

#: The dimensions of parameters that are not one number.
_PARAMETER_DIMS = {"median": ("node",), "last_layer": ("weight",)}

#: The half-width by which equal numbers are told apart for arviz; far below any figure it prints.
_LIKELIHOOD_SPREAD, _TIE_SPREAD = 1e-9, 1e-6


def to_inference_data(
    fit: Fit | Ensemble,
    *,
    num_samples: int = 1000,
    names: Sequence[Any] | None = None,
    feature_names: Sequence[Any] | None = None,
) -> Any:
    """A fit as an arviz object.

    - ``posterior``: the global parameters (and ``last_layer``, if the fit draws it). Without a
      posterior (``"mle"``, ``"map"``) it is one chain that repeats the fitted values, so r_hat and
      the like say nothing (``az.summary(idata, kind="stats")`` leaves them out); the attribute
      ``plug_in`` is then 1. A model without global parameters shows its marginal medians.
    - ``log_likelihood``: ``log p(y_i | every other observed y, parameters)``, the pointwise terms.
      ``az.loo`` of a plug-in fit adds them up with the parameters fixed; it does not account for
      their having been fitted to the same values.
    - ``posterior_predictive``: ``y`` is drawn at each observed node given every *other* observed
      value, the law that belongs to the terms above: ``az.plot_loo_pit(idata, y="y")`` is uniform
      if the model is right. ``y_rep`` are joint draws of new data, given nothing:
      ``az.plot_ppc(idata, data_pairs={"y": "y_rep"})``.
    - ``predictions``: joint draws at the missing nodes given the observed ones.
    - ``observed_data``, ``constant_data``, ``predictions_constant_data``: values, features and
      exposure, at the observed nodes (dimension ``node``) and the missing ones (``missing_node``).
    - ``sample_stats``: whatever the sampler reported draw by draw.

    An :class:`Ensemble` of plug-in fits is one law, the equal mixture: its pointwise terms are
    those of the mixture, and the draws take its parts in turn. Of fits with a posterior, the
    chains are put side by side, and arviz treats them as one posterior.

    If features are made of neighbours' outcomes, they stay as they are when a value is left out.

    For arviz before 1.0, draws of counts in ``posterior_predictive["y"]`` are moved by at most
    1e-6: it counts ties as below, where a PIT of counts must divide them at random (round them to
    have the counts back). And the equal terms of a plug-in fit are moved by at most 1e-9 in all
    versions, for arviz takes equal weights for a failure of importance sampling.

    Args:
        fit: What :func:`pyro_copula.fit` returns.
        num_samples: The number of draws: of values for a plug-in fit; of a posterior the largest
            number, chains together, evenly thinned.
        names: A name for each node of the graph; those that the fit knows, or numbers.
        feature_names: A name for each feature; numbers by default.

    Returns:
        An ``InferenceData``, or from arviz 1.0 on an ``xarray.DataTree``.

    Example:
        >>> import arviz as az
        >>> import pyro_copula as pc
        >>> from pyro_copula.inference import Schedule, fit
        >>> from pyro_copula.models import CopulaGNN
        >>> model = CopulaGNN("linear", "negative_binomial", "car", exposure="exposure")
        >>> data = pc.datasets.nc_sids()
        >>> found = fit(model, data, schedule=Schedule(max_epochs=20))
        >>> idata = to_inference_data(found, num_samples=100, names=data.names)
        >>> idata.log_likelihood["y"].sel(node="Ashe").shape
        (1, 100)
        >>> az.loo(idata).n_data_points
        np.int64(100)
    """
    _check(fit, num_samples)
    fits = fit.fits if isinstance(fit, Ensemble) else [fit]
    data = fit.model.data
    plug_in = fits[0].posterior is None
    with torch.no_grad():
        values = _plug_in(fits, num_samples) if plug_in else _posterior(fits, num_samples)
    stats = {} if plug_in else _sampler_statistics(fits, values["draw"])

    observed = data.observed.numpy()
    labels = _labels("names", names if names is not None else _known_names(fit), data.num_nodes)
    features = _labels("feature_names", feature_names, data.x.shape[1])
    sample = ("chain", "draw")
    coordinates = {
        "chain": np.arange(len(values["log_likelihood"])),
        "draw": values["draw"],
        "node": labels[observed],
        "missing_node": labels[~observed],
        "feature": features,
        "weight": np.arange(values["parameters"].get("last_layer", np.zeros(0)).shape[-1]),
    }
    flags = _discrete_nodes(fit.model)
    discrete = flags[observed]
    y, y_left_out = _for_arviz(data.y.numpy()[observed], values["leave_one_out"], discrete)
    contents: dict[str, dict[str, tuple[tuple[str, ...], np.ndarray]]] = {
        "posterior": {
            name: (sample + _PARAMETER_DIMS.get(name, ()), draws)
            for name, draws in values["parameters"].items()
        },
        "posterior_predictive": {
            "y": ((*sample, "node"), y_left_out),
            "y_rep": ((*sample, "node"), _counts(values["replicates"], discrete)),
        },
        "log_likelihood": {"y": ((*sample, "node"), values["log_likelihood"])},
        "sample_stats": {name: (sample, draws) for name, draws in stats.items()},
        "observed_data": {"y": (("node",), y)},
        "constant_data": _constants(data, observed, "node"),
    }
    if not observed.all():
        missing = _counts(values["predictions"], flags[~observed])
        contents["predictions"] = {"y": ((*sample, "missing_node"), missing)}
        contents["predictions_constant_data"] = _constants(data, ~observed, "missing_node")
    attributes = _attributes(fit, plug_in)
    groups = {}
    for group, variables in contents.items():
        if variables:
            dims = {dim for names_, _ in variables.values() for dim in names_}
            kept = {dim: coordinates[dim] for dim in coordinates if dim in dims}
            groups[group] = xr.Dataset(variables, coords=kept, attrs=attributes)
    return _container(groups, attributes)


# -------------------------------------------------------------------- what depends on arviz


def _major() -> int:
    """The major version of arviz; asking a 1.x for ``InferenceData`` would warn."""
    return int(az.__version__.split(".")[0])


def _container(groups: dict[str, xr.Dataset], attributes: dict[str, Any]) -> Any:
    """What this arviz keeps groups in."""
    if _major() < 1:
        return az.InferenceData(attrs=attributes, **groups)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = attributes
    return tree


def _for_arviz(
    y: np.ndarray, draws: np.ndarray, discrete: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values and leave-one-out draws such that this arviz computes LOO-PIT as it should.

    arviz 1.x divides ties at random itself. Before, it takes integers for something to be smoothed
    by a spline that mixes the values of different nodes, and counts ties among floats as below.
    So there the draws at a discrete node are moved by ``spread * (u - v)``, with ``u`` uniform for
    each draw and ``v`` for each node: of the tied draws a share ``v`` falls below, which is the
    randomised PIT.
    """
    if _major() >= 1:
        return _counts(y, discrete), _counts(draws, discrete)
    u, v = torch.rand(draws.shape).numpy(), torch.rand(draws.shape[-1]).numpy()
    return y.astype(float), draws + np.where(discrete, _TIE_SPREAD * (u - v), 0.0)


# -------------------------------------------------------------------- draws


def _plug_in(fits: Sequence[Fit], num_samples: int) -> dict[str, Any]:
    """Draws from the equal mixture of the laws of some fits, which take turns."""
    drawn, parameters, terms = [], [], []
    common = set.intersection(*(set(part.scalars) for part in fits))  # a stack's models may differ
    for k, part in enumerate(fits):
        count = len(range(k, num_samples, len(fits)))
        law, data = part.model.eval().joint(), part.model.data
        drawn.append(_drawn(law, data.y, (count,)))
        terms.append(drawn[-1].pop("log_likelihood").double())
        held = {name: torch.full((count,), value) for name, value in part.scalars.items()}
        held = {name: value for name, value in held.items() if name in common}
        median = law.quantile(0.5)[data.observed].expand(count, -1)
        parameters.append(held or {"median": median})
    turns = torch.cat([torch.arange(k, num_samples, len(fits)) for k in range(len(fits))])
    mixture = torch.logsumexp(torch.stack(terms), 0) - math.log(len(fits))
    spread = torch.linspace(-1, 1, num_samples, dtype=torch.float64) * _LIKELIHOOD_SPREAD
    values = _joined(drawn, (1, num_samples), turns.argsort())
    return values | {
        "log_likelihood": (mixture + spread[:, None]).numpy()[None],
        "parameters": _joined(parameters, (1, num_samples), turns.argsort()),
        "draw": np.arange(num_samples),
    }


def _posterior(fits: Sequence[Fit], num_samples: int) -> dict[str, Any]:
    """Draws of values, one for each posterior draw, the chains of all fits side by side."""
    posteriors = [part.posterior for part in fits if part.posterior is not None]
    shapes = [next(iter(posterior.values())).shape[:2] for posterior in posteriors]
    chains, length = sum(shape[0] for shape in shapes), min(shape[1] for shape in shapes)
    kept = np.linspace(0, length - 1, min(length, max(1, num_samples // chains)))
    draw = kept.round().astype(np.int64)
    drawn, parameters = [], []
    for part, posterior in zip(fits, posteriors):
        flat = {name: value[:, draw].flatten(0, 1) for name, value in posterior.items()}
        model, y = part.model.eval(), part.model.data.y
        sampled = "last_layer" in flat
        fixed = {"hidden": model.hidden()} if sampled else {"outputs": model.outputs()}
        size = max(1, _BATCH_NUMBERS // len(y))
        for start in range(0, len(next(iter(flat.values()))), size):
            some = {name: value[start : start + size] for name, value in flat.items()}
            drawn.append(_drawn(model.joint(**fixed, **some), y, ()))
            parameters.append(some)
    shape = (chains, len(draw))
    return _joined(drawn, shape) | {"parameters": _joined(parameters, shape), "draw": draw}


def _joined(
    parts: Sequence[dict[str, Tensor]], shape: tuple[int, int], order: Tensor | None = None
) -> dict[str, np.ndarray]:
    """The rows of all parts, put in order, as float64 arrays by chain and draw."""
    found = {}
    for name in parts[0]:
        rows = torch.cat([part[name] for part in parts]).double()
        rows = rows if order is None else rows[order]
        found[name] = rows.reshape(*shape, *rows.shape[1:]).numpy()
    return found


def _drawn(law: Any, y: Tensor, shape: tuple[int, ...]) -> dict[str, Tensor]:
    """Pointwise terms and draws of values, of shape ``(*shape, *batch, nodes)``.

    The pointwise terms are a matter of the law, and so have no ``shape``.
    """
    observed = ~torch.isnan(y)
    drawn = {
        "log_likelihood": law.pointwise_log_prob(y)[..., observed],
        "leave_one_out": law.leave_one_out(y).sample(shape)[..., observed],
        "replicates": law.sample(shape)[..., observed],
    }
    if not bool(observed.all()):
        drawn["predictions"] = law.condition_mixture(y).sample(shape)
    return drawn


# -------------------------------------------------------------------- what goes with the draws


def _check(fit: Any, num_samples: Any) -> None:
    if not isinstance(fit, Fit | Ensemble):
        raise InvalidArgumentError(
            "fit", "what pyro_copula.fit returns", type(fit).__name__, "Fit the model first."
        )
    hint = "arviz fits a Pareto tail to the draws; the default is 1000."
    check_count("num_samples", num_samples, hint, least=_MIN_SAMPLES)


def _known_names(fit: Fit | Ensemble) -> Sequence[Any] | None:
    names = getattr(fit.model.data, "names", None)
    return fit.settings.get("names") if names is None else names


def _labels(argument: str, names: Sequence[Any] | None, count: int) -> np.ndarray:
    if names is None:
        return np.arange(count)
    labels = np.asarray(list(names))
    if labels.shape != (count,) or len(np.unique(labels)) != count:
        repeated = next((n for n in labels.tolist() if labels.tolist().count(n) > 1), None)
        what = f"{len(labels)} names" if len(labels) != count else f"{repeated!r} more than once"
        raise InvalidArgumentError(
            argument, f"{count} different names", what, "Leave it out to have numbers."
        )
    return labels


def _constants(data: Any, chosen: np.ndarray, dim: str) -> dict[str, tuple[Any, np.ndarray]]:
    found: dict[str, tuple[Any, np.ndarray]] = {}
    if data.x.shape[1]:
        found["x"] = ((dim, "feature"), data.x.numpy()[chosen])
    if data.exposure is not None:
        found["exposure"] = ((dim,), data.exposure.numpy()[chosen])
    return found


def _discrete_nodes(model: Any) -> np.ndarray:
    with torch.no_grad():
        law = model.joint()
    if isinstance(law, GraphNormal):
        return np.zeros(model.data.num_nodes, dtype=bool)
    return law.discrete_nodes.numpy()


def _counts(values: np.ndarray, discrete: np.ndarray) -> np.ndarray:
    """The values as integers if every node is discrete."""
    return np.rint(values).astype(np.int64) if len(discrete) and discrete.all() else values


def _sampler_statistics(fits: Sequence[Fit], draw: np.ndarray) -> dict[str, np.ndarray]:
    """What every sampler reported by chain and draw, among the diagnostics."""

    def by_draw(part: Fit) -> dict[str, Tensor]:
        assert part.posterior is not None
        shape = next(iter(part.posterior.values())).shape[:2]
        return {
            name: value
            for name, value in part.diagnostics.items()
            if torch.is_tensor(value) and value.shape == shape
        }

    found = [by_draw(part) for part in fits]
    common = [name for name in found[0] if all(name in other for other in found)]
    return {name: torch.cat([f[name] for f in found]).numpy()[:, draw] for name in common}


def _attributes(fit: Fit | Ensemble, plug_in: bool) -> dict[str, Any]:
    """What a reader of the file must know; only strings and numbers, which netCDF can hold."""
    spec = fit.model.specification()
    fits = len(fit.fits) if isinstance(fit, Ensemble) else 1
    repeated = "the fitted values, repeated: there is no posterior"
    drawn = "draws of the posterior; of the network at most the last layer is drawn"
    return {
        "created_at": datetime.now(UTC).isoformat(),
        "creation_library": "pyro_copula",
        "inference_library": "pyro_copula",
        "inference_library_version": __version__,
        "method": fit.method,
        "fits": fits,
        "plug_in": int(plug_in),
        "parameters": repeated if plug_in else drawn,
        "pointwise": "log p(y_i | every other observed y, parameters)",
        "predictive_y": "y_i given every other observed y",
        "predictive_y_rep": "joint draws of all nodes, given nothing",
        **{name: str(spec[name]) for name in ("backbone", "marginal", "precision", "discrete")},
    }
