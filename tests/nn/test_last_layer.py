"""The last layer as a vector, and features that no network passes on."""

from __future__ import annotations

import pytest
import torch

from pyro_copula.errors import InvalidArgumentError
from pyro_copula.nn import BACKBONES, LastLayer, OwnColumns, make_backbone

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("linear_skip", [False, True])
def test_setting_the_vector_is_the_same_as_calling_with_it(name, linear_skip):
    module = make_backbone(name, 3, 2, linear_skip=linear_skip)
    x = torch.randn(4, 3)
    last = LastLayer(module)
    hidden = last.hidden(x, EDGES)
    vector = torch.randn(last.size)
    found = last(hidden, EDGES, vector)
    assert not torch.allclose(found, module(x, EDGES))
    before = {k: v.clone() for k, v in module.state_dict().items()}
    last.set_(vector)
    torch.testing.assert_close(module(x, EDGES), found)
    torch.testing.assert_close(last.vector(), vector)
    changed = sum(
        v.numel() for k, v in module.state_dict().items() if not torch.equal(v, before[k])
    )
    assert changed == last.size  # the last layer, and nothing before it


def test_shapes():
    last = LastLayer(make_backbone("gcn", 3, 2))
    hidden = last.hidden(torch.randn(4, 3), EDGES)
    assert last(hidden, EDGES, torch.randn(5, 6, last.size)).shape == (5, 6, 4, 2)
    for shape in ((last.size + 1,), (), (0, last.size)):
        with pytest.raises(InvalidArgumentError, match="`last_layer`"):
            last(hidden, EDGES, torch.zeros(shape))
    assert repr(last) == "LastLayer(34 weights and biases)"


@pytest.mark.parametrize("name", BACKBONES)
@pytest.mark.parametrize("linear_skip", [False, True])
def test_own_columns_stay_at_their_nodes(name, linear_skip):
    torch.manual_seed(0)
    module = make_backbone(name, 5, 1, linear_skip=linear_skip, num_own=2)
    x = torch.randn(4, 5)
    for column in range(5):
        other = x.clone()
        other[1, column] += 1.0
        moved = ((module(x, EDGES) - module(other, EDGES)).abs() > 1e-12).squeeze(-1)
        assert bool(moved[1])
        assert bool(moved[[0, 2]].any()) == (column < 3 and name not in ("linear", "mlp"))
    assert isinstance(module, OwnColumns) == (name not in ("linear", "mlp"))
