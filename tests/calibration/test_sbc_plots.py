"""Pictures of ranks, and what results say."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

from pyro_copula.calibration import SBCResult, uniformity_band
from pyro_copula.calibration.plots import BLUE, ORANGE
from pyro_copula.errors import InvalidArgumentError

mpl.use("Agg")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def result(num_quantities=2, size=250):
    generator = np.random.default_rng(2)
    ranks = {f"q{k}": generator.integers(0, 100, size) for k in range(num_quantities)}
    ranks["q0"] = ranks["q0"] // 2
    return SBCResult(ranks, num_draws=99)


def test_the_curve_is_the_difference_of_distributions():
    found = result()
    panels = found.plot()
    assert [panel.get_title().split()[0] for panel in panels] == ["q0", "q1"]
    for panel, colour in zip(panels, (ORANGE, BLUE), strict=True):
        x, y = panel.lines[1].get_data()
        name = panel.get_title().split()[0]
        by_hand = [(found.ranks[name] < round(100 * place)).mean() - place for place in x]
        np.testing.assert_allclose(y, by_hand, atol=1e-12)
        assert panel.lines[1].get_color() == colour


def test_a_curve_leaves_the_band_where_bonferroni_rejects():
    found = result()
    band = uniformity_band(250, 100, 0.975)
    for name in found.ranks:
        share = (found.ranks[name][:, None] < band.position * 100 - 0.5).mean(0)
        inside = ((share >= band.lower) & (share <= band.upper)).all()
        assert inside == (2 * found.p_values[name] > 0.05)


def test_bars_count_all_ranks():
    found = result()
    panels = found.plot("histogram", quantities=["q1"])
    assert len(panels) == 1
    assert sum(bar.get_height() for bar in panels[0].patches) == 250
    (axes,) = plt.subplots(1, 1, squeeze=False)[1].ravel()
    assert found.plot(quantities=["q0"], axes=axes)[0] is axes


def test_the_panels_are_those_with_the_smallest_p_values():
    found = result(15)
    panels = found.plot(max_panels=6)
    assert len(panels) == 6
    shown = {panel.get_title().split()[0] for panel in panels}
    assert shown == set(sorted(found.ranks, key=found.p_values.get)[:6])
    assert "9 quantities with larger p-values" in panels[0].figure.get_suptitle()
    assert "and 7 more" in repr(found)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "pie"}, "`kind`"),
        ({"quantities": ["rho"]}, "`quantities` must be some of .* but found 'rho'"),
        ({"quantities": []}, "but found none"),
        ({"level": 1.0}, "`level`"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(InvalidArgumentError, match=message):
        result().plot(**options)
    with pytest.raises(InvalidArgumentError, match="`axes` must be 2 axes"):
        result().plot(axes=plt.subplots()[1])


def test_tables_and_words_agree():
    found = result()
    table = found.to_frame()
    assert list(table.index) == ["q0", "q1"]
    assert table.loc["q0", "mean_rank"] == pytest.approx(found.ranks["q0"].mean() / 99)
    assert table.loc["q1", "spread"] == pytest.approx(1, abs=0.1)
    assert found.rejected() == ["q0"]
    assert (table["p_holm"] >= table["p_value"]).all()
    text = found.summary()
    assert "draws too high" in text
    assert "Säilynoja" in text
    with pytest.raises(InvalidArgumentError, match="`level`"):
        found.rejected(2.0)
