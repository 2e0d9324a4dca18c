"""What the processes of a crew run in the tests: ``crew_program.py TASK DIRECTORY``."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import networkx as nx
import torch
from torch_geometric.data import Data

import pyro_copula as pc
from pyro_copula.linalg.iterative.solver import IterativeSolver

N = 150
#: Where a process finds the signal that it is to get.
SIGNAL = "CREW_PROGRAM_SIGNAL"
#: 21 probes: two processes have 10 and 11, and no share is a whole block.
OPTIONS = {
    "float64": pc.Iterative(rank=3, num_probes=21, seed=5, dtype=torch.float64, tolerance=1e-10),
    "float32": pc.Iterative(rank=3, num_probes=21, seed=5, dtype=torch.float32),
    "own seed": pc.Iterative(rank=3, num_probes=40, dtype=torch.float64, tolerance=1e-10),
}


def graph() -> pc.Graph:
    return pc.Graph.from_networkx(nx.barabasi_albert_graph(N, 3, seed=3))


def estimates() -> dict[str, torch.Tensor]:
    """Everything that the iterative backend estimates, and its derivatives."""
    found = {}
    K = pc.NormalizedAdjacencyPrecision(graph())(alpha=0.95, beta=1.5).detach()
    observed = torch.arange(N) % 3 != 1
    x = torch.linspace(-2, 2, N)
    for name, options in OPTIONS.items():
        torch.manual_seed(7)
        leaves = [v.clone().requires_grad_() for v in (K.diagonal, K.off_diagonal)]
        solver = IterativeSolver(K.graph, *leaves, options)
        values = {
            "log_density": solver.log_density(x, observed),
            "inverse_diagonal": solver.inverse_diagonal(),
            "edges": solver.selected_inverse()[1].sin(),
            "schur_diagonal": solver.schur_diagonal(observed),
        }
        for what, value in values.items():
            gradients = torch.autograd.grad(value.sum(), leaves, retain_graph=True)
            found[f"{name}: {what}"] = value.detach()
            found |= {f"{name}: d {what} / d {k}": g for k, g in enumerate(gradients)}
        found[f"{name}: logdet_error"] = solver.logdet_error()
        found[f"{name}: inverse_diagonal_error"] = solver.inverse_diagonal_error()
        found[f"{name}: inverse_diagonal_spread"] = solver.inverse_diagonal_spread()
        found[f"{name}: influence"] = solver.influence(observed, x)
    return found


def data() -> Data:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 2, generator=generator)
    y = x.sum(1) + torch.randn(N, generator=generator)
    return Data(x=x, edge_index=graph().edge_index, y=y)


def fitted(directory: Path, judge=None, nodes: Data | None = None) -> pc.Fit:
    model = pc.CopulaGNN(
        "sage", "normal", "normalized_adjacency", backend=pc.Iterative(rank=3, num_probes=6)
    )
    return pc.fit(
        model,
        data() if nodes is None else nodes,
        torch.arange(N) % 4 != 0,
        judge=judge,
        schedule=pc.Schedule(max_epochs=20, save_every=1),
        progress=True,
        checkpoint=directory / "fit.checkpoint",
    )


def state(fit: pc.Fit) -> dict[str, torch.Tensor]:
    return fit.model.state_dict() | {"losses": torch.tensor(fit.history.losses)}


class Looks:
    """The validation score; at the third look the process gets the signal of its environment.

    It is the same option of a fit in every process, and in the one that goes on later.
    """

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, conditional, values) -> float:
        self.count += 1
        if SIGNAL in os.environ and self.count == 3:
            os.kill(os.getpid(), int(os.environ[SIGNAL]))
        return float(conditional.marginal_log_prob(values).nanmean())


def judge(conditional, values) -> float:
    return float(conditional.marginal_log_prob(values).nanmean())


# One name, here and in `__main__`: to a checkpoint they are the same.
Looks.__module__ = judge.__module__ = "crew_program"


def together(crew, directory: Path) -> dict:
    """Estimates, a fit, and mistakes that all processes must hear of."""
    found = {"estimates": estimates(), "fit": state(fit := fitted(directory, judge))}
    fit.save(directory / f"saved by {crew.rank}.fit")

    def fails():
        if crew.rank == 1:
            raise pc.errors.ConvergenceError(0.5, 1e-4, 12)
        return []

    try:
        crew.sum(fails)
    except pc.errors.ConvergenceError as error:
        found["error"] = str(error)
    try:
        pc.fit(pc.CopulaGNN("linear", "normal"), _other(crew.rank), progress=False)
    except pc.errors.DistributedError as error:
        found["difference"] = str(error)
    return found


def _other(rank: int) -> Data:
    other = data()
    other.y[rank] += 1
    return other


def main() -> None:
    task, directory = sys.argv[1], Path(sys.argv[2])
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    happens = {"killed": signal.SIGKILL, "frozen": signal.SIGSTOP}.get(task)
    start = time.monotonic()
    with pc.distributed(timeout=float(sys.argv[3])) as crew:
        if happens is None:
            torch.save(together(crew, directory), directory / f"{crew.rank}.pt")
            return
        try:
            if crew.rank == crew.size - 1:
                os.environ[SIGNAL] = str(int(happens))
            fitted(directory, Looks())
        except pc.errors.DistributedError as error:
            print(f"{time.monotonic() - start:.1f} s: {type(error).__name__}: {error}")
            sys.stdout.flush()
            os._exit(3)  # as a user's script would end, without waiting for threads of gloo


if __name__ == "__main__":
    main()
