"""The exact rule for discrete marginals: the probability of a box of the latent vector.

A discrete node that is observed says only that its latent ``x_i`` lies between two ends; a
continuous one says what it is. So the log density is that of the continuous nodes' ``x_c`` plus
the log probability of the box given ``x_c``, in which missing nodes are free. The box is handed to
``rectangle``; what it draws inside of the atoms serves the predictions and leave-one-out.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from .. import marginals
from ..errors import InvalidArgumentError, ParticleWarning, PropagationWarning
from ..errors.counts import check_count
from .latent import Latent
from .particle_conditional import ParticleConditional
from .scores import log_standard_normal

if TYPE_CHECKING:
    from ..rectangle.probability import Box
    from .gaussian_copula import GaussianCopula

_LOG_2PI = math.log(2 * math.pi)
#: Fewer effective particles than this share of them, and a warning says so.
TRUSTED_SHARE = 0.1
#: So many draws of a node cost next to nothing.
_CHEAP = 2**14
#: The mixture of a batch of laws (posterior draws, say) is predicted from about so many particles.
_COMPONENTS = 256
#: The fractional parts of its multiples are spread evenly over (0, 1), however many there are.
_GOLDEN = (math.sqrt(5) - 1) / 2
#: Leaving each of so many nodes out and estimating again is affordable.
_DIFFERENCES = 256


def check_particles(num_particles: int | None, num_nodes: int) -> int:
    """The number of particles; by default 64, and more on small graphs, where they are cheap."""
    if num_particles is None:
        return max(64, _CHEAP // num_nodes)
    return check_count("num_particles", num_particles, "The default is 64.")


def check_seed(seed: int) -> int:
    """The seed of the fixed uniforms."""
    return check_count("seed", seed, "Leave it out for the usual numbers.", least=0)


@lru_cache(maxsize=8)
def fixed_uniforms(num_nodes: int, num_particles: int, seed: int) -> Tensor:
    """The random numbers behind the draws: the same for every evaluation.

    Every node has one in each of ``num_particles`` equal parts of (0, 1), in random order.
    """
    rng = np.random.default_rng(seed)
    parts = rng.permuted(np.tile(np.arange(num_particles), (num_nodes, 1)), axis=1)
    return torch.from_numpy((parts + rng.random(parts.shape)) / num_particles)


@dataclass
class Row:
    """One value of all nodes: what it says of the latent vector.

    Attributes:
        latent: The latent law, without batch dimensions.
        known: Which nodes are observed and continuous, (num_nodes,).
        boxed: Which are observed and discrete.
        x: The latent values of the known nodes, zero elsewhere, (num_nodes,).
        lower: The lower ends at all nodes, meaningful at the boxed ones.
        upper: The upper ends.
        uniforms: What the draws are made from, (nodes of the precision, particles), or None for
            fixed ones.
        num_particles: How many draws.
        seed: Of the fixed uniforms.
    """

    latent: Latent
    known: Tensor
    boxed: Tensor
    x: Tensor
    lower: Tensor
    upper: Tensor
    uniforms: Tensor | None
    num_particles: int
    seed: int

    def __post_init__(self) -> None:
        self.precision, self.place = self.latent.as_precision()
        self.free = torch.ones(self.precision.num_nodes, dtype=torch.bool)
        self.free[self.place[self.known]] = False
        self.shift = torch.zeros(int(self.free.sum()), dtype=torch.float64)
        rest = self.precision
        if bool(self.known.any()):
            rest = self.precision.restrict(self.free)
            full = self.x.new_zeros(self.precision.num_nodes)
            full = full.index_copy(0, self.place[self.known], self.x[self.known])
            self.shift = -rest.solve(self.precision.matvec(full)[self.free])
        self.box = self._box(rest)

    def _box(self, rest: Any) -> Box:
        from ..rectangle.probability import Box  # loads numba, which importing must not

        position = torch.full((self.precision.num_nodes,), -1)
        position[self.free] = torch.arange(len(self.shift))
        where = position[self.place[self.boxed]]
        free = self.shift.new_full(self.shift.shape, math.inf)
        lower, upper = (
            start.index_copy(0, where, end[self.boxed] - self.shift[where])
            for start, end in ((-free, self.lower), (free, self.upper))
        )
        uniforms = self.uniforms
        if uniforms is None:
            count = self.precision.num_nodes
            uniforms = fixed_uniforms(count, self.num_particles, self.seed)
        # Latent scores are sampled together with the parameters, on which sites would depend. Sites
        # fixed beforehand would do, but NUTS then samples the level of the counts worse.
        guided = self.uniforms is None
        return Box(rest, lower, upper, uniforms[self.free], guided=guided)

    def log_density(self) -> Tensor:
        """The log density of the known nodes' latent values."""
        if not bool(self.known.any()):
            return torch.zeros((), dtype=torch.float64)
        return self.latent.log_density(self.x, self.known)

    def vectors(self) -> Tensor:
        """The latent vector of every particle, on the nodes of the precision, (particles, -1)."""
        count = self.box.particles.x.shape[1]
        full = torch.zeros(count, self.precision.num_nodes, dtype=torch.float64)
        full[:, self.place[self.known]] = self.x[self.known].detach()
        full[:, self.free] = torch.from_numpy(self.box.particles.x.T) + self.shift.detach()
        return full

    def leave_one_out(self) -> tuple[Tensor, Tensor, Tensor]:
        """Each observed node's latent value given the other observed ones of each particle.

        It is a normal one. The particle's values at missing nodes, and its field beside a nugget,
        are not conditioned on: drawn given the node itself, they would nearly give it away.

        Returns:
            Means and standard deviations, ``(particles, num_nodes)``, zero and one at missing
            nodes, and the log weights of the particles, ``(particles, 1)``.
        """
        x, observed = self.vectors()[:, self.place], self.known | self.boxed
        mean, deviation = torch.zeros_like(x), torch.ones_like(x)
        with torch.no_grad():
            found, variance = self.latent.leave_one_out(x, observed)
        mean[:, observed], deviation[:, observed] = found, variance.sqrt().expand_as(found)
        return mean, deviation, torch.from_numpy(self.box.particles.weights).log().unsqueeze(-1)


def rows_of(copula: GaussianCopula, value: Any) -> tuple[list[Row], Tensor, torch.Size]:
    """The rows of a value; the log densities beside the latent one; and the leading shape."""
    value, observed = copula._filled_value(value)
    scale, discrete = copula.latent.scale(), copula.discrete_nodes
    limits = marginals.normal_score_limits(copula.marginal_dist, value)
    lower, upper = (torch.where(discrete & observed, end.double(), 0.0) for end in limits)
    leading = value.shape[:-1]
    known = observed & ~discrete
    z = torch.where(known, limits[1].double(), 0.0)  # at a continuous node the normal score
    beside = torch.zeros(leading, dtype=torch.float64)
    if bool(known.any()):
        jacobian = (
            scale.log() - log_standard_normal(z) + marginals.log_prob(copula.marginal_dist, value)
        )
        beside = torch.where(known, jacobian.double(), 0.0).sum(-1)
    return rows_between(copula, z, lower, upper, observed), beside, leading


def rows_between(
    copula: GaussianCopula, z: Tensor, lower: Tensor, upper: Tensor, observed: Tensor
) -> list[Row]:
    """The rows of values that are known as normal scores, in the order of their leading shape.

    Args:
        copula: The law.
        z: The scores of continuous nodes, finite everywhere, ``(*leading, num_nodes)``.
        lower: The value of a discrete node is the one of every score in ``(lower, upper]``.
        upper: Both ends may be anything but NaN elsewhere.
        observed: Which values are not missing.
    """
    scale, discrete = copula.latent.scale(), copula.discrete_nodes
    n, leading = copula.num_nodes, z.shape[:-1]
    parts = [_times(part, scale).expand(*leading, n).reshape(-1, n) for part in (z, lower, upper)]
    flat = observed.expand(*leading, n).reshape(-1, n)
    batch = copula.latent.batch_shape
    element = torch.arange(batch.numel()).reshape(batch).expand(leading).reshape(-1).tolist()
    rows = []
    for k, (pattern, x, low, high) in enumerate(zip(flat, *parts, strict=True)):
        latent = copula.latent[element[k]] if batch else copula.latent
        uniforms = None if copula.scores is None else _scores_as_uniforms(copula, k, leading)
        rows.append(
            Row(
                latent,
                pattern & ~discrete,
                pattern & discrete,
                torch.where(pattern & ~discrete, x, 0.0),
                low,
                high,
                uniforms,
                copula.num_particles,
                copula.seed,
            )
        )
    return rows


def _times(z: Tensor, scale: Tensor) -> Tensor:
    """``z * scale``, where an infinite ``z`` has no derivative."""
    finite = torch.isfinite(z)
    return torch.where(finite, torch.where(finite, z, 0.0) * scale, z)


def check_scores_of_rows(scores: Tensor | None, batch_shape: torch.Size) -> None:
    """Raises an error where latent scores are fewer than the rows, which would share them."""
    if scores is not None and scores.shape[:-1].numel() < batch_shape.numel():
        raise InvalidArgumentError(
            "batch_shape",
            f"that of the latent scores, {tuple(scores.shape[:-1])}, under discrete='augment'",
            f"{tuple(batch_shape)}",
            "Make the copula inside of the plate, where every row draws scores of its own.",
        )


def _scores_as_uniforms(copula: GaussianCopula, row: int, leading: torch.Size) -> Tensor:
    scores = copula.scores
    assert scores is not None
    flat = scores.double().expand(*leading, scores.shape[-1]).reshape(-1, scores.shape[-1])
    return torch.special.ndtr(flat[row]).clamp(1e-300, 1 - 1e-16).unsqueeze(-1)


def log_prob(copula: GaussianCopula, value: Any) -> Tensor:
    """The log density of the observed nodes, under the rule of the copula."""
    rows, beside, leading = rows_of(copula, value)
    approximate = copula.discrete == "ep"
    parts = []
    for row in rows:
        if not bool(row.boxed.any()):
            parts.append(row.log_density())
            continue
        box = row.box
        parts.append(row.log_density() + (box.ep_log_prob() if approximate else box.log_prob()))
        if approximate:
            _warn_if_unsettled(box)
        elif copula.scores is None:
            _warn_if_poor(box)
    found = torch.stack(parts) if parts else torch.zeros(0, dtype=torch.float64)
    return (found.reshape(leading) + beside).to(copula._dtype)


def log_prob_error(copula: GaussianCopula, value: Any) -> Tensor:
    """The Monte Carlo standard error of the particles, zero where there are none."""
    with torch.no_grad():
        rows, _, leading = rows_of(copula, value)
        if copula.discrete != "exact":
            return torch.zeros(leading, dtype=torch.float64)
        errors = [
            row.box.particles.standard_error if bool(row.boxed.any()) else 0.0 for row in rows
        ]
        return torch.tensor(errors, dtype=torch.float64).reshape(leading)


def _warn_if_poor(box: Box) -> None:
    particles = box.particles
    count = len(particles.log_weights)
    if count > 1 and not particles.effective_size >= TRUSTED_SHARE * count:
        warnings.warn(
            "The exact rule's estimate is poor here: few of the particles carry all of the weight."
            "\n  See copula.exact_report(y). Use more particles (num_particles=), or "
            'discrete="ep", and compare.',
            ParticleWarning,
            stacklevel=4,
        )


def _warn_if_unsettled(box: Box) -> None:
    sites = box.converged_sites
    if not sites.settled:
        warnings.warn(PropagationWarning(sites.change, sites.sweeps), stacklevel=4)


def _components(row: Row, count: int | None, number: int) -> tuple[Tensor, Tensor]:
    """The latent vectors of the particles and their log weights, or so many of equal weight.

    Systematic resampling, whose offset differs from row to row: all rows are made from the same
    random numbers, so the same offset would take the same few particles from each.
    """
    vectors, weights = row.vectors()[:, row.place], row.box.particles.weights
    if count is None:
        return vectors, torch.from_numpy(weights).log()
    offset = (number + 0.5) * _GOLDEN % 1
    places = (np.arange(count) + offset) / count * weights.sum()
    index = np.searchsorted(np.cumsum(weights), places).clip(max=len(weights) - 1)
    equal = torch.full((count,), -math.log(count), dtype=torch.float64)
    return vectors[torch.from_numpy(index)], equal


def condition(copula: GaussianCopula, value: Any, *, mixed: bool = False) -> ParticleConditional:
    """The law of the missing nodes: one :class:`ConditionalCopula` for every particle.

    Args:
        copula: The joint law.
        value: The values.
        mixed: Whether only the equal mixture of the rows matters: a few particles of each do then.
    """
    rows, _, leading = rows_of(copula, value)
    value, observed = copula._checked_value(value)
    pattern = copula._common_pattern(observed)
    nodes = (~pattern).nonzero().squeeze(-1)
    thinned = mixed and len(rows) > 1
    count = math.ceil(_COMPONENTS / len(rows)) if thinned else None
    with torch.no_grad():
        chosen = [_components(row, count, number) for number, row in enumerate(rows)]
        x = torch.stack([vectors for vectors, _ in chosen], 1).reshape(
            -1, *leading, copula.num_nodes
        )
        log_weights = torch.stack([weights for _, weights in chosen], 1).reshape(-1, *leading)
        mean, rest = copula.latent.condition(x, pattern)
        parts = copula._conditional(nodes, mean, rest)
    return ParticleConditional(
        parts, log_weights, copula, value, validate_args=copula._validate_args
    )


def pointwise_log_prob(copula: GaussianCopula, value: Any) -> Tensor:
    """``log p(y_i | y_-i)`` at the observed nodes, NaN elsewhere.

    Up to ``_DIFFERENCES`` observed nodes it is the difference of two joint log densities, with
    the same random numbers in both. Beyond, a discrete node has its probability under
    expectation propagation's law of the node given the others (typically within 0.02 of it), and
    a continuous one the harmonic mean of its densities given each particle.
    """
    value, observed = copula._checked_value(value)
    n = copula.num_nodes
    if int(observed.reshape(-1, n).sum(-1).max()) <= _DIFFERENCES:
        return _differences(copula, value, observed)
    rows, _, leading = rows_of(copula, value)
    with torch.no_grad():
        found = torch.stack([_row_pointwise(row) for row in rows]).reshape(*leading, n)
        value, observed, z = copula._observed_scores(value)
        jacobian = copula.latent.scale().log() - log_standard_normal(z)
        jacobian = (jacobian + marginals.log_prob(copula.marginal_dist, value)).double()
        result = found + torch.where(copula.discrete_nodes, 0.0, jacobian)
    return torch.where(observed, result, math.nan).to(copula._dtype)


@torch.no_grad()
def _differences(copula: GaussianCopula, value: Tensor, observed: Tensor) -> Tensor:
    result = torch.full(value.shape, math.nan, dtype=copula._dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParticleWarning)
        warnings.simplefilter("ignore", PropagationWarning)
        joint = log_prob(copula, value)
        for node in observed.reshape(-1, copula.num_nodes).any(0).nonzero().squeeze(-1).tolist():
            without = value.clone()
            without[..., node] = math.nan
            alone = torch.isnan(without).all(-1)  # nothing else is observed: given nothing
            without[..., node] = torch.where(alone, value[..., node], math.nan)
            rest = torch.where(alone, 0.0, log_prob(copula, without))
            result[..., node] = torch.where(observed[..., node], joint - rest, math.nan)
    return result


def _row_pointwise(row: Row) -> Tensor:
    mean, deviation, log_weights = row.leave_one_out()
    density = -((row.x - mean) / deviation).square() / 2 - deviation.log() - _LOG_2PI / 2
    cavity = torch.zeros(row.precision.num_nodes, dtype=torch.float64)
    cavity[row.free] = torch.from_numpy(row.box.converged_sites.log_mass)
    return torch.where(row.boxed, cavity[row.place], -torch.logsumexp(log_weights - density, 0))
