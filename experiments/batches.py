"""Memory and time of a network on a large random graph, at all nodes at once and in batches.

    python experiments/batches.py sage 0         # one measurement; 0 is all nodes at once

``experiments/iterative.py batches`` runs all of them, each in a process of its own, and keeps the
record. Memory is the peak of the process above what the data take.
"""

from __future__ import annotations

import argparse
import json

import torch
from iterative import cpu, peak, preferential_attachment

from pyro_copula.nn import make_backbone

NODES, FEATURES = 100_000, 512


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("backbone")
    parser.add_argument("batch_nodes", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    graph = preferential_attachment(NODES, 5)
    x = torch.randn(NODES, FEATURES)
    backbone = make_backbone(
        arguments.backbone,
        FEATURES,
        2,
        hidden_channels=64,
        batch_nodes=arguments.batch_nodes or None,
    )
    edge_index = graph.edge_index
    backbone(
        x[:100], edge_index[:, (edge_index < 100).all(0)]
    ).sum().backward()  # loads what it needs
    if hasattr(backbone, "product"):
        backbone.product(x[:, :1], edge_index)  # the matrix of the graph, which both have
    backbone.zero_grad()
    before, start = peak(), cpu()
    value = backbone(x, edge_index).square().mean()
    value.backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in backbone.parameters()])
    record = {
        "backbone": arguments.backbone,
        "batch_nodes": arguments.batch_nodes or None,
        "peak_GiB_above_data": peak() - before,
        "cpu_seconds": cpu() - start,
        "value": float(value.detach()),
        "gradient_norm": float(gradient.norm()),
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
