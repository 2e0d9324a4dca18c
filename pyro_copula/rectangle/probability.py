"""The probability that a Gaussian vector on a graph lies in a box, with its derivatives."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from ..first_order import first_order_only
from ..linalg import pattern
from ..linalg.numeric import Pool
from ..linalg.resources import SingleThreadedBLAS, announce_compilation
from ..linalg.reverse import reverse_factor
from ..linalg.symbolic import analyze, analyze_leaves_last
from ..precision import SparsePrecision
from . import sweep
from .interval import density_ratios
from .particles import Particles
from .sites import Sites, find_sites, no_sites

#: Updates of the sites before particles are drawn, and the change that ends them: a guide need not
#: have converged. Nor is it damped: nodes whose sites jump to and fro are tied so rigidly that the
#: first one drawn leaves the others no choice, and every second update, so the last one too, leaves
#: them without sites. Converged ones make weights there much less even.
GUIDE_SWEEPS, GUIDE_TOLERANCE = 50, 0.1
#: Updates at most, and the change that ends them, where the sites are the answer. It is stationary
#: in them: what they are off by counts in full in its derivatives, and squared in the answer, so
#: that a value by itself is as good (to its rounding) with half of the digits.
MAX_SWEEPS, TOLERANCE, VALUE_TOLERANCE = 200, 1e-9, 1e-5


class Box:
    r"""The event ``lower < x < upper`` for ``x ~ N(0, K^-1)``, one vector, one box.

    Its log probability is estimated without bias (on the probability scale) by sequential
    importance sampling along the factor, guided by expectation propagation
    (:meth:`log_prob`), or approximated by expectation propagation alone (:meth:`ep_log_prob`).

    Args:
        precision: ``K``, without batch dimensions.
        lower: The lower ends, (num_nodes,), float64; minus infinity where there is none.
        upper: The upper ends; where both are infinite the node is free.
        uniforms: Numbers in (0, 1) behind the draws, (num_nodes, particles), float64. Kept fixed
            they make the estimate a smooth function of everything else.
        guided: Whether expectation propagation guides the particles. Unguided ones vary more, and
            each of them, not just their mean, has the derivatives that it is given.
    """

    def __init__(
        self,
        precision: SparsePrecision,
        lower: Tensor,
        upper: Tensor,
        uniforms: Tensor,
        *,
        guided: bool = True,
    ) -> None:
        self.precision = precision.double()
        self.lower, self.upper, self.uniforms = lower, upper, uniforms
        self.guided = guided
        inputs = self._inputs()[:-1]
        self.differentiated = torch.is_grad_enabled() and any(x.requires_grad for x in inputs)

    # ---------------------------------------------------------------- results

    def log_prob(self) -> Tensor:
        """The log of the estimate, with pathwise derivatives; the sites count as constants."""
        return self.precision.logdet() / 2 + _Guided.apply(self, *self._inputs())

    def ep_log_prob(self) -> Tensor:
        """Expectation propagation's log probability, with its derivatives."""
        return self.precision.logdet() / 2 + _Converged.apply(self, *self._inputs()[:-1])

    @cached_property
    def guide(self) -> Sites:
        """The sites that guide the particles."""
        if not self.guided:
            announce_compilation()
            return no_sites(self.symbolic, self.pool, self._matrix())
        return self._find_sites(GUIDE_SWEEPS, GUIDE_TOLERANCE, damped=False)

    @cached_property
    def converged_sites(self) -> Sites:
        """The sites after as many updates as it takes."""
        tolerance = TOLERANCE if self.differentiated else VALUE_TOLERANCE
        return self._find_sites(MAX_SWEEPS, tolerance, damped=True)

    @cached_property
    def particles(self) -> Particles:
        """Weighted draws of ``x`` from inside of the box."""
        announce_compilation()
        uniforms = _array(self.uniforms)
        x, offsets = np.empty_like(uniforms), np.empty_like(uniforms)
        log_weights = np.empty(uniforms.shape[1])
        with SingleThreadedBLAS():
            sweep.forward(
                self.symbolic.plan,
                self.guide.factor.panels,
                self.guide.values,
                _array(self.lower),
                _array(self.upper),
                uniforms,
                x,
                offsets,
                log_weights,
            )
        return Particles(x, log_weights, offsets)

    # ---------------------------------------------------------------- internals

    @cached_property
    def symbolic(self) -> Any:
        """The analysis, in whose order, from its end, nodes are drawn.

        A value beside a nugget is bounded and hangs on a node that is free and almost rigidly
        tied to it. Were the free one drawn first, it would miss the bounds: it comes second.
        """
        graph = self.precision.graph
        free = torch.isinf(self.lower) & torch.isinf(self.upper)
        other = torch.zeros(graph.num_nodes, dtype=torch.bool)
        for ends in ((graph.rows, graph.cols), (graph.cols, graph.rows)):
            other[ends[0]] |= free[ends[1]]
        leaves = other & ~free & (graph.degree == 1)
        if not bool(leaves.any()):
            return analyze(graph)
        return analyze_leaves_last(graph, leaves.numpy())

    @cached_property
    def pool(self) -> Pool:
        return self.precision.graph.cached("pool", Pool)

    @property
    def constant(self) -> float:
        """The part of the estimate that the sites alone make."""
        sites = self.guide
        with np.errstate(invalid="ignore", over="ignore"):  # see find_sites
            return 0.5 * float(sites.values[1] @ sites.values[2]) - 0.5 * sites.factor.logdet

    def _inputs(self) -> tuple[Tensor, ...]:
        precision = self.precision
        return precision.diagonal, precision.off_diagonal, self.lower, self.upper, self.uniforms

    def _matrix(self) -> np.ndarray:
        return _array(torch.cat([self.precision.diagonal, self.precision.off_diagonal]))

    def _find_sites(self, max_sweeps: int, tolerance: float, *, damped: bool) -> Sites:
        announce_compilation()
        with torch.no_grad():
            variance = self.precision.detach().variance()
        return find_sites(
            self.symbolic,
            self.pool,
            self._matrix(),
            _array(variance),
            _array(self.lower),
            _array(self.upper),
            max_sweeps=max_sweeps,
            tolerance=tolerance,
            damped=damped,
        )

    def backward(self, grad: float) -> tuple[Tensor, ...]:
        """Derivatives of the estimate, times ``grad``: those of ``_inputs``."""
        plan, guide, particles = self.symbolic.plan, self.guide, self.particles
        n, pool = self.symbolic.num_nodes, self.pool
        weights = grad * particles.weights
        adjoints = pool.take(self.symbolic.panel_size)
        mean, ends = np.zeros(n), np.empty((2, n))
        uniforms = _array(self.uniforms)
        uniforms_bar = np.empty_like(uniforms)
        values = np.empty(n + self.precision.graph.num_edges)
        stack, work = pool.take(self.symbolic.stack_size), pool.take(self.symbolic.work_size)
        rows, cols = self.precision.graph.rows.numpy(), self.precision.graph.cols.numpy()
        with SingleThreadedBLAS():
            sweep.reverse(
                plan,
                guide.factor.panels,
                guide.values,
                _array(self.lower),
                _array(self.upper),
                uniforms,
                particles.x,
                particles.offsets,
                weights,
                np.zeros_like(uniforms),
                adjoints,
                mean,
                ends[0],
                ends[1],
                uniforms_bar,
            )
            sweep.add_logdet(plan, guide.factor.panels, adjoints, -0.5 * grad)
            reverse_factor(plan, guide.factor.panels, adjoints, stack, work, values)
        for array in (adjoints, stack, work):
            pool.give(array)
        mean += 0.5 * grad * guide.values[1]
        pattern.outer(rows, cols, guide.factor.solve(mean[None]), guide.values[2:3], values)
        results = values[:n], values[n:], ends[0], ends[1], uniforms_bar
        return tuple(torch.from_numpy(result) for result in results)

    def ep_backward(self, grad: float) -> tuple[Tensor, ...]:
        """Derivatives of expectation propagation's answer, times ``grad``.

        At the fixed point it is stationary in the sites, which therefore count as constants.
        """
        sites, graph = self.converged_sites, self.precision.graph
        n = graph.num_nodes
        values = -sites.factor.selected_inverse(keep=False)
        values[:n] *= 0.5
        mean = sites.values[2:3]
        pattern.outer(graph.rows.numpy(), graph.cols.numpy(), mean, 0.5 * mean, values)
        root = np.sqrt(sites.cavity[1])
        low, high = (
            density_ratios((_array(end) - sites.cavity[0]) * root, sites.log_mass) * root
            for end in (self.lower, self.upper)
        )
        results = grad * values[:n], grad * values[n:], -grad * low, grad * high
        return tuple(torch.from_numpy(result) for result in results)


class _Guided(Function):
    @staticmethod
    def forward(ctx: Any, box: Box, *inputs: Tensor) -> Tensor:
        ctx.box = box
        ctx.save_for_backward(*inputs)
        return torch.tensor(box.constant + box.particles.log_mean, dtype=torch.float64)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        gradients = ctx.box.backward(float(grad))
        return None, *_once("The exact rule", gradients, (grad, *ctx.saved_tensors))


class _Converged(Function):
    @staticmethod
    def forward(ctx: Any, box: Box, *inputs: Tensor) -> Tensor:
        ctx.box = box
        ctx.save_for_backward(*inputs)
        return torch.tensor(box.converged_sites.log_z, dtype=torch.float64)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        gradients = ctx.box.ep_backward(float(grad))
        return None, *_once("Expectation propagation", gradients, (grad, *ctx.saved_tensors))


def _once(operation: str, gradients: tuple[Tensor, ...], parents: tuple[Tensor, ...]) -> Any:
    if not torch.is_grad_enabled():
        return gradients
    return tuple(first_order_only(gradient, operation, parents) for gradient in gradients)


def _array(values: Tensor) -> np.ndarray:
    return values.detach().to("cpu", torch.float64).contiguous().numpy()
