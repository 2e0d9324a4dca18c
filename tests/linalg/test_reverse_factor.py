"""The factor differentiated backwards, against autograd through a dense Cholesky factor."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import pyro_copula as pc
from pyro_copula.linalg.numeric import Factor, Pool
from pyro_copula.linalg.reverse import reverse_factor
from pyro_copula.linalg.symbolic import analyze


@pytest.mark.parametrize(("nodes", "degree"), [(1, 0.0), (12, 2.0), (60, 4.0), (150, 30.0)])
def test_reverse_factor(nodes, degree):
    rng = np.random.default_rng(nodes)
    pairs = rng.integers(0, nodes, size=(int(nodes * degree / 2), 2))
    graph = pc.Graph.from_edges(pairs[pairs[:, 0] != pairs[:, 1]], num_nodes=nodes)
    edges = torch.tensor(rng.normal(size=graph.num_edges), requires_grad=True)
    diagonal = torch.tensor(rng.uniform(1, 2, size=nodes) + 3 * graph.degree.numpy())
    diagonal.requires_grad_()
    symbolic = analyze(graph)
    plan = symbolic.plan
    values = torch.cat([diagonal, edges]).detach().numpy()
    factor = Factor(symbolic, plan, Pool(), values)

    # The same numbers densely: L and Y = L21 L11^-1 of every supernode, weighted at random.
    order = torch.from_numpy(plan.order)
    dense = torch.diag(diagonal)
    i, j = graph.rows, graph.cols
    dense = dense.index_put((i, j), edges).index_put((j, i), edges)[order][:, order]
    lower = torch.linalg.cholesky(dense)
    adjoints = np.zeros(symbolic.panel_size)
    total = torch.zeros(())
    for s in range(symbolic.num_supernodes):
        columns = slice(int(plan.start[s]), int(plan.start[s + 1]))
        below = torch.from_numpy(
            plan.rows[plan.row_pointer[s] : plan.row_pointer[s + 1]].astype(np.int64)
        )
        top = lower[columns, columns]
        under = torch.linalg.solve_triangular(
            top, lower[below][:, columns], upper=False, left=False
        )
        panel = torch.cat([top, under])
        weight = torch.tensor(rng.normal(size=panel.shape))
        weight[: top.shape[0]].tril_()
        total = total + (weight * panel).sum()
        adjoints[plan.panel[s] : plan.panel[s + 1]] = weight.T.reshape(-1).numpy()
        got = factor.panels[plan.panel[s] : plan.panel[s + 1]].reshape(panel.T.shape).T
        keep = torch.ones_like(panel, dtype=torch.bool).tril()
        assert torch.allclose(torch.from_numpy(got.copy())[keep], panel[keep], atol=1e-10)
    want = torch.cat(torch.autograd.grad(total, [diagonal, edges], allow_unused=True)).numpy()

    result = np.empty(nodes + graph.num_edges)
    stack, work = np.empty(symbolic.stack_size), np.empty(symbolic.work_size)
    reverse_factor(plan, factor.panels, adjoints, stack, work, result)
    np.testing.assert_allclose(result, want, rtol=1e-9, atol=1e-9)
