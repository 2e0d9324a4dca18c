"""A training step of several processes against that of one, with the same probes.

    torchrun --nproc-per-node 2 experiments/processes.py

``experiments/iterative.py processes`` runs it and keeps the record. The two alternate in one run:
the first process alone while the others wait, then all together. The best of several rounds
counts, since whatever else the machine does only adds to it. On a busy machine two processes also
get more of it than one, so that the ratio of CPU seconds (alone, against the slowest of all) is the
one to trust there. Processes that do the same step at the same time, each for itself, show what the
machine allows: they share its memory and its cache.
"""

from __future__ import annotations

import argparse
import json
import time

import torch
import torch.distributed as dist
from iterative import Setting, cpu

import pyro_copula as pc


class Sized(Setting):
    """The setting of the other measurements, with a number of probes."""

    def __init__(self, num_nodes: int, num_probes: int) -> None:
        super().__init__(num_nodes)
        self.precision.backend = pc.Iterative(num_probes=num_probes)

    def timed(self) -> tuple[float, float, float]:
        """The log density, wall and CPU seconds of a step."""
        torch.manual_seed(0)  # the same probes for all
        start, wall = cpu(), time.perf_counter()
        value = self.copula().log_prob(self.y)
        value.backward()
        return float(value.detach()), time.perf_counter() - wall, cpu() - start


def _slowest(mine: tuple[float, float, float], size: int) -> tuple[float, float, float]:
    """The first log density, and the longest wall and CPU seconds of all processes."""
    every: list = [None] * size
    dist.all_gather_object(every, mine)
    return every[0][0], max(t for _, t, _ in every), max(c for _, _, c in every)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--probes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    size, leads = dist.get_world_size(), dist.get_rank() == 0
    Sized(2_000, arguments.probes).timed()  # loads the compiled kernels
    setting = Sized(arguments.nodes, arguments.probes)
    alone, side_by_side, together = [], [], []
    for _ in range(arguments.rounds + 1):
        dist.barrier()
        if leads:
            alone.append(setting.timed())
        dist.barrier()
        side_by_side.append(_slowest(setting.timed(), size))
        with pc.distributed():
            together.append(_slowest(setting.timed(), size))
    dist.destroy_process_group()
    if not leads:
        return
    record = {
        "nodes": arguments.nodes,
        "edges": setting.graph.num_edges,
        "probes": arguments.probes,
        "processes": size,
        "relative_difference_of_log_density": abs(together[0][0] / alone[0][0] - 1),
    }
    for column, kind in ((1, "wall"), (2, "cpu")):  # the first round does not count
        best = [min(row[column] for row in rows[1:]) for rows in (alone, together)]
        record |= {f"{kind}_seconds_alone": best[0], f"{kind}_seconds_together": best[1]}
        record[f"{kind}_ratio"] = best[0] / best[1]
        own = min(row[column] for row in side_by_side[1:])
        record[f"{kind}_seconds_side_by_side"] = own
        record[f"{kind}_ratio_that_the_machine_allows"] = size * best[0] / own
    print(json.dumps(record))


if __name__ == "__main__":
    main()
