"""The diagonal of the precision of the observed nodes alone, estimated by random probes.

With ``K = D^1/2 (I - S) D^1/2`` and missing nodes m, it is ``D_o (1 - C_ii)`` with

    C = S_om (I - S)_mm^-1 S_mo
    C_ii = A_ii + mean[ z_i ((C - A) z)_i ],      A = S_om Q S_mo,   Q ~ (I - S)_mm^-1

for random signs z at the observed nodes. Its derivative in K along weights g is ``V diag(g) V'``
with ``V = [I; -K_mm^-1 K_mo]``, the mean of ``(V z)(V g z)'``.
"""

from __future__ import annotations

import numpy as np

from . import kernels
from .controls import Powers
from .estimator import Estimator


def schur_diagonal(whole: Estimator, block: Estimator, observed: np.ndarray) -> np.ndarray:
    """The diagonal at all nodes; what it holds at the missing ones means nothing.

    Args:
        whole: The matrix.
        block: Its missing block.
        observed: Boolean, (num_nodes,).
    """
    op, control, dtype = whole.operator, block.control, whole.dtype
    missing = ~observed
    c0, c1 = np.append(control.linear, 0.0)[:2]
    share = c0 * op.at_nodes(op.edges**2, missing)
    if c1 != 0:  # sums over missing k and l of S_ik S_kl S_li
        triangles = op.cycles.triangles(op.edges, missing.astype(float), whole.crew)
        share += c1 * op.at_nodes(op.edges * triangles, missing)
    reach = op.product(_spread(control.vectors, missing))
    share += reach.astype(float) ** 2 @ control.linear_top

    def work() -> list[np.ndarray]:
        total = np.zeros(whole.num_nodes)
        for _, signs in whole.blocks():
            z = np.where(observed[:, None], signs, 0).astype(dtype)
            b = op.product(z)[missing]
            rest = block.probe_solve(b) - control.apply_linear(Powers(block.operator, b))
            image = op.product(_spread(rest, missing))
            total += (z * image).sum(1, dtype=np.float64) / len(whole.probes)
        return [total]

    return op.inverse_root**-2 * (1 - share - whole.crew.sum(work)[0])


def schur_gradient(
    whole: Estimator, block: Estimator, observed: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """The derivative of ``sum weight * schur_diagonal`` in K, entry by entry on the pattern."""
    op, control, dtype = whole.operator, block.control, whole.dtype
    missing = ~observed
    weight = np.where(observed, weight / op.inverse_root**2, 0.0)
    known = _known_gradient(whole, block, observed, weight)

    def work() -> list[np.ndarray]:
        total = np.zeros_like(known)
        for _, signs in whole.blocks():
            pairs = []
            for factor in (np.ones_like(weight), weight):
                z = (np.where(observed[:, None], signs, 0) * factor[:, None]).astype(dtype)
                b = op.product(z)[missing]
                x, near = block.probe_solve(b), control.apply_constant(Powers(block.operator, b))
                pairs.append((z + _spread(x, missing), z + _spread(near, missing)))
            (left, near_left), (right, near_right) = pairs
            kernels.outer(*op.ends, left, right, 1 / len(whole.probes), total)
            kernels.outer(*op.ends, near_left, near_right, -1 / len(whole.probes), total)
        return [total]

    return op.scale_pattern(known + whole.crew.sum(work)[0])


def _known_gradient(
    whole: Estimator, block: Estimator, observed: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """``V diag(weight) V'`` on the pattern, for ``V = [I; Q S_mo]`` with ``Q`` of degree zero."""
    op, control, n = whole.operator, block.control, whole.num_nodes
    i, j = op.ends
    missing = ~observed
    c0, top = float(control.constant[0]), control.constant_top
    result = np.zeros(n + op.graph.num_edges)
    if c0 != 0:
        result[:n] = np.where(missing, op.at_nodes(op.edges**2, weight), 0.0)
        triangles = op.cycles.triangles(op.edges, weight, whole.crew)
        result[n:] = np.where(missing[i] & missing[j], triangles, 0.0)
        result *= c0**2
    result[:n] += weight
    result[n:] += c0 * op.edges * np.where(observed[i] != observed[j], weight[i] + weight[j], 0.0)
    u = _spread(control.vectors.astype(np.float64), missing)
    reach = np.where(observed[:, None], op.product(u), 0.0)
    inner = reach.T @ (weight[:, None] * reach)
    image = np.where(missing[:, None], op.product(weight[:, None] * reach), 0.0)
    left = (
        2 * c0 * image * top + u @ (top[:, None] * inner * top) + 2 * weight[:, None] * reach * top
    )
    kernels.outer(*op.ends, np.ascontiguousarray(left), u, 1.0, result)
    return result


def _spread(block: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    full = np.zeros((len(nodes), block.shape[1]), dtype=block.dtype)
    full[nodes] = block
    return full
