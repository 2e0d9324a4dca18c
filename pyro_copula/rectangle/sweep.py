"""The guided sweep: particles drawn node by node into their intervals, with importance weights.

With ``K + T = L L'`` and ``m = (K + T)^-1 eta``, nodes are visited from the last column of the
factor to the first. Given the nodes already drawn, a node is normal with precision ``d^2 = L_ii^2``
and mean ``mt``; without its own site it has precision ``lam = d^2 - T_i`` and mean
``mc = (d^2 mt - eta_i) / lam``. It is drawn from that normal on its interval, and

    log w += log P(interval) - log(lam / d^2) / 2 - d^2 mt^2 / 2 + lam mc^2 / 2.

The uniform numbers behind the draws are given and fixed, so that the weights are smooth functions
of everything else; :func:`reverse` differentiates them. Columns of the factor come in supernodes
(see ``linalg.kernels``): what the rows below contribute is one product ``R = -t Y`` for all
particles and columns, and ``e = x - m - R`` carries the dependence within the supernode.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..linalg.blocks import add_product, add_product_transposed, add_transposed_product, at
from ..linalg.kernels import PART, SWEEP, front_shape
from ..linalg.symbolic import Plan
from .interval import density_ratio, draw, log_mass

_HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@njit(**SWEEP)
def forward(
    plan: Plan,
    panels: np.ndarray,
    sites: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    uniforms: np.ndarray,
    x: np.ndarray,
    offsets: np.ndarray,
    log_weights: np.ndarray,
) -> None:
    """Draws the particles.

    Args:
        plan: The plan of the graph.
        panels: The factor of ``K + T``.
        sites: ``T``, ``eta`` and ``m`` by node, (3, num_nodes).
        lower: The lower ends by node, (num_nodes,).
        upper: The upper ends.
        uniforms: Numbers in (0, 1) by node, (num_nodes, particles).
        x: The particles, (num_nodes, particles).
        offsets: ``mt - m`` by node, kept for :func:`reverse`, (num_nodes, particles).
        log_weights: Their log weights, (particles,).
    """
    k = x.shape[1]
    log_weights[:] = 0.0
    for s in range(plan.pivots.size - 1, -1, -1):
        _, nc, _, nr = front_shape(plan, s)
        _, rest, e = _condition(plan, s, panels, sites, x)
        for j in range(nc - 1, -1, -1):
            node = plan.order[plan.start[s] + j]
            column = panels[plan.panel[s] + j * nr : plan.panel[s] + (j + 1) * nr]
            d = column[j]
            offset = offsets[node]
            for p in range(k):
                offset[p] = 0.0
            for i in range(j + 1, nc):
                for p in range(k):
                    offset[p] -= column[i] * e[i, p]
            for p in range(k):
                offset[p] = rest[j, p] + offset[p] / d
            _draw_node(
                d * d,
                sites[:, node],
                lower[node],
                upper[node],
                offset,
                uniforms[node],
                x[node],
                log_weights,
            )
            for p in range(k):
                e[j, p] = x[node, p] - sites[2, node] - rest[j, p]


@njit(**PART)
def _condition(
    plan: Plan, s: int, panels: np.ndarray, sites: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """``t`` and ``R`` of a supernode, particles last, and room for ``e``."""
    _, nc, n2, nr = front_shape(plan, s)
    k = x.shape[1]
    below, rest = np.empty((n2, k)), np.zeros((nc, k))
    for r in range(n2):
        node = plan.order[plan.rows[plan.row_pointer[s] + r]]
        for p in range(k):
            below[r, p] = x[node, p] - sites[2, node]
    y = at(panels, plan.panel[s] + nc)
    if n2:
        add_product(at(rest, 0), k, k, nc, at(below, 0), k, y, nr, n2, -1.0)
    return below, rest, np.empty((nc, k))


@njit(**PART)
def _draw_node(
    q: float,
    site: np.ndarray,
    lower: float,
    upper: float,
    offset: np.ndarray,
    uniforms: np.ndarray,
    x: np.ndarray,
    log_weights: np.ndarray,
) -> None:
    """Draws one node of all particles, given its precision ``q`` and mean."""
    lam = q - site[0]
    root = math.sqrt(lam)
    constant = -0.5 * math.log(lam / q)
    for p in range(x.size):
        mt = site[2] + offset[p]
        mc = (q * mt - site[1]) / lam
        a, b = (lower - mc) * root, (upper - mc) * root
        mass = log_mass(a, b)
        x[p] = mc + draw(a, b, uniforms[p], mass) / root
        log_weights[p] += mass + constant - 0.5 * q * mt * mt + 0.5 * lam * mc * mc


@njit(**SWEEP)
def reverse(
    plan: Plan,
    panels: np.ndarray,
    sites: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    uniforms: np.ndarray,
    x: np.ndarray,
    offsets: np.ndarray,
    weights: np.ndarray,
    x_bar: np.ndarray,
    panels_bar: np.ndarray,
    mean_bar: np.ndarray,
    lower_bar: np.ndarray,
    upper_bar: np.ndarray,
    uniforms_bar: np.ndarray,
) -> None:
    """Derivatives of ``sum_p weights_p log w_p``, with the sites ``T`` and ``eta`` fixed.

    Args:
        plan: As in :func:`forward`.
        panels: As there.
        sites: As there.
        lower: As there.
        upper: As there.
        uniforms: As there.
        x: The particles.
        offsets: What :func:`forward` kept.
        weights: The derivatives in the log weights, (particles,).
        x_bar: Scratch, zero, (num_nodes, particles).
        panels_bar: The derivatives in the factor; its panels.
        mean_bar: The derivatives in ``m``, zero at first, (num_nodes,).
        lower_bar: The derivatives in the lower ends, (num_nodes,).
        upper_bar: Those in the upper ends.
        uniforms_bar: Those in the uniform numbers, (num_nodes, particles).
    """
    k = x.shape[1]
    for s in range(plan.pivots.size):
        _, nc, n2, nr = front_shape(plan, s)
        below, rest, e = _condition(plan, s, panels, sites, x)
        e_bar, rest_bar = np.zeros((nc, k)), np.zeros((nc, k))
        offset_bar = np.empty(k)
        for j in range(nc):
            node = plan.order[plan.start[s] + j]
            for p in range(k):
                e[j, p] = x[node, p] - sites[2, node] - rest[j, p]
        for j in range(nc):
            node = plan.order[plan.start[s] + j]
            first = plan.panel[s] + j * nr
            column, column_bar = panels[first : first + nr], panels_bar[first : first + nr]
            for p in range(k):  # e = x - m - R
                x_bar[node, p] += e_bar[j, p]
                mean_bar[node] -= e_bar[j, p]
                rest_bar[j, p] -= e_bar[j, p]
            d = column[j]
            column_bar[j] = _reverse_node(
                d,
                sites[:, node],
                (lower[node], upper[node]),
                offsets[node],
                uniforms[node],
                x[node],
                weights,
                x_bar[node],
                offset_bar,
                (lower_bar[node : node + 1], upper_bar[node : node + 1]),
                uniforms_bar[node],
            )
            for p in range(k):
                mean_bar[node] += offset_bar[p]
                rest_bar[j, p] += offset_bar[p]
                column_bar[j] -= offset_bar[p] * (offsets[node, p] - rest[j, p]) / d
            for i in range(j + 1, nc):
                total = 0.0
                for p in range(k):
                    total += offset_bar[p] * e[i, p]
                    e_bar[i, p] -= column[i] * offset_bar[p] / d
                column_bar[i] = -total / d
        if n2 == 0:
            continue
        y, y_bar = at(panels, plan.panel[s] + nc), at(panels_bar, plan.panel[s] + nc)
        for j in range(nc):
            first = plan.panel[s] + j * nr + nc
            panels_bar[first : first + n2] = 0.0
        add_transposed_product(y_bar, nr, n2, nc, at(below, 0), k, at(rest_bar, 0), k, k, -1.0)
        below[:] = 0.0
        add_product_transposed(at(below, 0), k, k, n2, at(rest_bar, 0), k, y, nr, nc, -1.0)
        for r in range(n2):
            node = plan.order[plan.rows[plan.row_pointer[s] + r]]
            for p in range(k):
                x_bar[node, p] += below[r, p]
                mean_bar[node] -= below[r, p]


@njit(**PART)
def _reverse_node(
    d: float,
    site: np.ndarray,
    ends: tuple[float, float],
    offset: np.ndarray,
    uniforms: np.ndarray,
    x: np.ndarray,
    weights: np.ndarray,
    x_bar: np.ndarray,
    offset_bar: np.ndarray,
    ends_bar: tuple[np.ndarray, np.ndarray],
    uniforms_bar: np.ndarray,
) -> float:
    """Derivatives of a node's draw and weight; returns the one in ``d``."""
    q = d * d
    lam = q - site[0]
    root = math.sqrt(lam)
    q_bar = 0.0
    ends_bar[0][0] = ends_bar[1][0] = 0.0
    for p in range(x.size):
        mt = site[2] + offset[p]
        mc = (q * mt - site[1]) / lam
        a, b = (ends[0] - mc) * root, (ends[1] - mc) * root
        z, w = (x[p] - mc) * root, weights[p]
        mass = log_mass(a, b)
        z_bar = x_bar[p] / root
        mc_bar = x_bar[p] + w * lam * mc
        lam_bar = -0.5 * z_bar * z / lam + 0.5 * w * (mc * mc - 1.0 / lam)
        uniforms_bar[p] = z_bar * math.exp(mass + 0.5 * z * z + _HALF_LOG_2PI)
        if not math.isinf(a):
            share = (1.0 - uniforms[p]) * math.exp(0.5 * (z - a) * (z + a))
            end_bar = z_bar * share - w * density_ratio(a, mass)
            ends_bar[0][0] += end_bar * root
            mc_bar -= end_bar * root
            lam_bar += 0.5 * end_bar * a / lam
        if not math.isinf(b):
            share = uniforms[p] * math.exp(0.5 * (z - b) * (z + b))
            end_bar = z_bar * share + w * density_ratio(b, mass)
            ends_bar[1][0] += end_bar * root
            mc_bar -= end_bar * root
            lam_bar += 0.5 * end_bar * b / lam
        lam_bar -= mc_bar * mc / lam
        offset_bar[p] = mc_bar * q / lam - w * q * mt
        q_bar += mc_bar * mt / lam + 0.5 * w * (1.0 / q - mt * mt) + lam_bar
    return 2.0 * d * q_bar


@njit(**SWEEP)
def add_logdet(plan: Plan, panels: np.ndarray, panels_bar: np.ndarray, weight: float) -> None:
    """Adds the derivatives of ``weight * log det`` to those in the factor."""
    for s in range(plan.pivots.size):
        _, nc, _, nr = front_shape(plan, s)
        for j in range(nc):
            place = plan.panel[s] + j * (nr + 1)
            panels_bar[place] += 2.0 * weight / panels[place]
