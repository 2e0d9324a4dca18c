"""The published models on many small data sets at once.

A graph of 300 nodes is too small for a step of training to be more than overhead. A fleet lays
data sets of one size side by side, as one graph in as many parts, and stacks the parameters of
their models. Nothing passes between the parts: the loss is a sum, Adam works number by number, and
each member stops by its own validation score. So each trains as it would alone, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import relu, softplus

import pyro_copula as pc

from . import published
from .problems import Problem

#: Finished members are left behind once they are so large a share of a fleet.
_LEAVE_BEHIND = 0.25

_BACKBONE = "backbone.network."
_EDGES = "precision.module.precision.network."
_ALPHA, _BETA = "precision.module.alpha.raw", "precision.module.beta.raw"

Parameters = Mapping[str, Tensor]


@dataclass
class Member:
    """A fit in a fleet.

    Attributes:
        problem: The data.
        fit: A fit of a published model in its first state; it ends in its best one.
    """

    problem: Problem
    fit: Any

    def __post_init__(self) -> None:
        self.judge = published.published_judge(
            self.problem.data.y[self.problem.train], counts=False
        )
        self.history = pc.inference.History()
        self.best: dict[str, Tensor] = {}

    def look(self, epoch: int, mean: Tensor, state: Parameters, schedule: pc.Schedule) -> None:
        """Judges the predictions of all nodes that are not trained on, and keeps the best state."""
        unseen = ~self.problem.train
        truth = self.problem.data.y.masked_fill(~self.problem.validation, math.nan)
        score = self.judge(_Predicted(mean[unseen]), truth[unseen])
        if schedule.look(self.history, epoch, score):
            self.best = {name: value.clone() for name, value in state.items()}

    def finish(self) -> None:
        """Moves the fit to its best state."""
        if not self.history.converged:
            self.history.verdict = f"stopped at {len(self.history.losses)} steps, still improving"
        with torch.no_grad():
            for name, parameter in self.fit.model.named_parameters():
                parameter.copy_(self.best[name])
        self.fit.history = self.history


@dataclass(frozen=True)
class _Predicted:
    mean: Tensor


class _SideBySide:
    """The data of the members as one graph, and the law of their values."""

    def __init__(self, members: Sequence[Member], network: str) -> None:
        graphs = [member.fit.model.data.graph for member in members]
        nodes, width = members[0].problem.data.x.shape
        self.shape = (len(members), nodes)
        self.x = torch.stack([m.problem.data.x for m in members])  # (members, nodes, features)
        self.product = torch.stack([m.fit.model.backbone.product for m in members])
        self.rows = torch.stack([graph.rows for graph in graphs])  # (members, edges)
        self.cols = torch.stack([graph.cols for graph in graphs])
        offsets = nodes * np.arange(len(members))
        pairs = np.concatenate([g.edges + k for g, k in zip(graphs, offsets)])
        self.graph = pc.Graph.from_edges(pairs, num_nodes=nodes * len(members))
        degree = torch.as_tensor(self.graph.degree, dtype=self.x.dtype)
        self.degree = degree.reshape(self.shape)
        y = [m.problem.data.y.masked_fill(~m.problem.train, math.nan) for m in members]
        self.y = torch.cat(y)
        self.known = int(members[0].problem.train.sum())
        operators = torch.stack([_dense(published.operator(network, g)) for g in graphs])
        self.network = published.NETWORKS[network](operators[0], width, 1)
        self.buffers = {name: operators for name, _ in self.network.named_buffers()}
        self.scale = math.sqrt(0.5)  # of independent values, as PublishedNormal has it

    def loc(self, parameters: Parameters) -> Tensor:
        """What the networks say, ``(members, nodes)``."""
        state = {**_part(parameters, _BACKBONE), **self.buffers}

        def one(state: Parameters, x: Tensor, product: Tensor) -> Tensor:
            return functional_call(self.network, dict(state), (x, product))

        return vmap(one)(state, self.x, self.product).squeeze(-1)

    def precision(self, parameters: Parameters) -> pc.SparsePrecision:
        """The precisions, as one matrix of blocks."""
        if _ALPHA in parameters:
            alpha, beta = parameters[_ALPHA].tanh(), parameters[_BETA].exp()
            diagonal = beta.unsqueeze(-1).expand(self.shape)
            norm = (self.degree.gather(1, self.rows) * self.degree.gather(1, self.cols)).sqrt()
            return self._blocks(diagonal, -(alpha * beta).unsqueeze(-1) / norm)
        weight = vmap(_edge_weight)(_part(parameters, _EDGES), self.x, self.rows, self.cols)
        diagonal = torch.ones(self.shape, dtype=weight.dtype)
        diagonal = diagonal.scatter_add(1, self.rows, weight).scatter_add(1, self.cols, weight)
        return self._blocks(diagonal, -weight)

    def _blocks(self, diagonal: Tensor, off_diagonal: Tensor) -> pc.SparsePrecision:
        return pc.SparsePrecision(self.graph, diagonal.flatten(), off_diagonal.flatten())

    def law(self, parameters: Parameters) -> pc.GraphNormal | None:
        """The law of all values under a copula, None if they are independent."""
        if _ALPHA not in parameters and not _part(parameters, _EDGES):
            return None
        loc = self.loc(parameters).flatten()
        return published.ClampedNormal(loc, self.precision(parameters))

    def loss(self, parameters: Parameters) -> Tensor:
        """The sum of the losses of the members."""
        law = self.law(parameters)
        if law is not None:
            return -law.log_prob(self.y) / self.known
        residual = (self.y - self.loc(parameters).flatten()) / self.scale
        return residual[~self.y.isnan()].square().sum() / (2 * self.known)

    @torch.no_grad()
    def predict(self, parameters: Parameters) -> Tensor:
        """The means of all nodes given the values trained on, ``(members, nodes)``."""
        law = self.law(parameters)
        if law is None:
            return self.loc(parameters)
        conditional = law.condition(self.y)
        mean = self.y.clone()
        mean[conditional.nodes] = conditional.mean
        return mean.reshape(self.shape)


def _dense(operator: Any) -> Tensor:
    return operator if isinstance(operator, Tensor) else torch.from_numpy(operator.toarray())


def _part(parameters: Parameters, prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in parameters.items() if k.startswith(prefix)}


def _edge_weight(state: Parameters, x: Tensor, rows: Tensor, cols: Tensor) -> Tensor:
    """``softplus(h(x_i, x_j))``, as ``EdgeRegressionPrecision`` has it."""
    hidden = torch.cat([x[rows], x[cols]], dim=-1) @ state["0.weight"].T + state["0.bias"]
    return softplus((relu(hidden) @ state["2.weight"].T + state["2.bias"]).squeeze(-1))


def train_together(
    members: Sequence[Member], network: str, lr: float, schedule: pc.Schedule
) -> None:
    """Trains fits side by side; each ends in its best state, with its history.

    Args:
        members: The fits and their data, all with the same numbers of nodes, edges and training
            nodes.
        network: One of ``published.NETWORKS``.
        lr: The learning rate.
        schedule: How long to train each.
    """
    names = [name for name, _ in members[0].fit.model.named_parameters()]
    start = [dict(member.fit.model.named_parameters()) for member in members]
    parameters = {
        name: nn.Parameter(torch.stack([one[name].detach() for one in start])) for name in names
    }
    optimizer = published.one_group_adam([{"params": list(parameters.values())}], lr)
    fleet, alive = _SideBySide(members, network), list(members)
    for epoch in range(schedule.max_epochs):
        if epoch % schedule.check_every == 0:
            mean = fleet.predict(parameters)
            for k, member in _running(alive):
                state = {name: value.detach()[k] for name, value in parameters.items()}
                member.look(epoch, mean[k], state, schedule)
            running = [k for k, _ in _running(alive)]
            if not running:
                break
            if len(running) <= (1 - _LEAVE_BEHIND) * len(alive):
                alive = [alive[k] for k in running]
                parameters, optimizer = _keep(running, parameters, optimizer, lr)
                fleet = _SideBySide(alive, network)
        optimizer.zero_grad()
        loss = fleet.loss(parameters)
        loss.backward()
        optimizer.step()
        for _, member in _running(alive):
            member.history.losses.append(float(loss.detach()) / len(alive))
    for member in members:
        member.finish()


def _running(members: Sequence[Member]) -> Iterator[tuple[int, Member]]:
    return ((k, member) for k, member in enumerate(members) if not member.history.converged)


def _keep(
    which: Sequence[int], parameters: Parameters, optimizer: torch.optim.Optimizer, lr: float
) -> tuple[dict[str, nn.Parameter], torch.optim.Optimizer]:
    """The parameters of some members, with what Adam remembers of them."""
    kept = {name: nn.Parameter(value.detach()[list(which)]) for name, value in parameters.items()}
    other = published.one_group_adam([{"params": list(kept.values())}], lr)
    for name, new in kept.items():
        memory = optimizer.state[parameters[name]]
        moments = {k: memory[k][list(which)].clone() for k in ("exp_avg", "exp_avg_sq")}
        other.state[new] = {"step": memory["step"].clone(), **moments}
    return kept, other
