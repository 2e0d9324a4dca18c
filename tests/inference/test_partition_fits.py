"""Fits by the composite likelihood of blocks: warm starts and minibatches."""

from __future__ import annotations

import warnings

import pytest
import torch
from fit_examples import SHORT, example, quick_fit

import pyro_copula as pc
from pyro_copula.errors import CutWarning, InvalidArgumentError
from pyro_copula.inference.minibatches import Minibatches

STRIPS = torch.arange(60) // 12  # five of the grid of 6 x 10


def grid() -> pc.Graph:
    return pc.Graph.from_edge_index(example().edge_index, num_nodes=60)


def test_one_block_is_the_ordinary_fit():
    one = pc.Partition(grid(), torch.zeros(60, dtype=torch.long))
    expected, found = quick_fit(), quick_fit(partition=one)
    assert len(found.history.losses) == len(expected.history.losses)
    assert found.history.losses == pytest.approx(expected.history.losses, abs=1e-9)
    assert found.predict().mean.allclose(expected.predict().mean, rtol=1e-9)


def test_blocks_warm_up_a_fit_of_the_whole_graph():
    strips = pc.Partition(grid(), STRIPS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = quick_fit(partition=strips, blocks_per_step=2)
    (warning,) = (w for w in caught if issubclass(w.category, CutWarning))
    assert warning.message.cut == strips.cut > 0
    assert start.settings["num_blocks"] == 5
    assert start.settings["blocks_per_step"] == 2
    assert start.settings["cut"] == strips.cut
    law = start.model.joint()
    assert law.precision.graph == grid()  # the whole graph predicts
    torch.testing.assert_close(start.predict().mean, law.condition(start.model.data.y).mean)
    after = start.refit("mle", schedule=SHORT)  # which warns of nothing
    assert "num_blocks" not in after.settings
    # It goes on where the warm start ended, by the score at the same validation nodes.
    assert after.history.scores[0][1] == pytest.approx(start.history.best_score, abs=1e-9)
    assert after.history.best_score >= start.history.best_score


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.CutWarning")
def test_minibatches_repeat_themselves_and_a_checkpoint_goes_on(tmp_path):
    strips = pc.Partition(grid(), STRIPS)
    options = {"partition": strips, "blocks_per_step": 1}
    first, second = quick_fit(**options), quick_fit(**options)
    assert first.history.losses == second.history.losses
    assert first.history.losses != quick_fit(**options, seed=1).history.losses
    path = tmp_path / "fit.ckpt"
    kept = quick_fit(**options, checkpoint=path)
    assert kept.history.losses == first.history.losses
    with pytest.raises(pc.errors.FitFileError, match="with other options"):
        quick_fit(**{**options, "blocks_per_step": 2}, checkpoint=path)
    other = pc.Partition(grid(), STRIPS.flip(0) // 2)
    with pytest.raises(pc.errors.FitFileError, match="with other options"):
        quick_fit(partition=other, blocks_per_step=1, checkpoint=path)


@pytest.mark.filterwarnings("ignore::pyro_copula.errors.CutWarning")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, None])
def test_the_mean_over_minibatches_is_the_composite_likelihood(size):
    """Also where the last one is smaller than the others."""
    strips = pc.Partition(grid(), STRIPS)
    law = pc.GraphNormal(torch.zeros(60), pc.CARPrecision(grid())(rho=0.9, tau=1.0))
    y = example().y
    deal = Minibatches(strips, size, seed=3)
    assert sorted(block for group in deal.groups for block in group) == list(range(5))
    each = [deal.log_prob(law, y, group) for group in range(len(deal.groups))]
    expected = law.composite_log_prob(y, strips)
    torch.testing.assert_close(torch.stack(each).mean(), expected, rtol=1e-12, atol=1e-10)


def test_bad_arguments():
    strips = pc.Partition(grid(), STRIPS)
    with pytest.raises(InvalidArgumentError, match="`blocks_per_step` must be None without"):
        quick_fit(blocks_per_step=2)
    for bad in (0, 1.5, True):
        with pytest.raises(InvalidArgumentError, match="`blocks_per_step` must be a positive"):
            quick_fit(partition=strips, blocks_per_step=bad)
    with pytest.raises(InvalidArgumentError, match="`partition` must be a Partition"):
        quick_fit(partition=5)
    with pytest.raises(InvalidArgumentError, match='`partition` must be None unless method="mle"'):
        quick_fit(method="map", partition=strips)
    other = pc.Partition(pc.simulate.grid_graph(10, 6), STRIPS)
    with pytest.raises(InvalidArgumentError, match="`partition` must be of the graph of the data"):
        quick_fit(partition=other)
    data = example()
    with pytest.raises(InvalidArgumentError, match='`partition` must be None with precision="none'):
        pc.fit(pc.CopulaGNN("linear", "normal", "none"), data, partition=strips)
