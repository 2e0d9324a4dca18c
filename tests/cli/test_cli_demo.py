"""The demonstration: every county predicted once, by fits that have not seen it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

import pyro_copula as pc
from pyro_copula.cli import demo
from pyro_copula.cli.main import app

SHORT = pc.Schedule(max_epochs=10, check_every=5, patience=2)


def test_every_county_is_hidden_once_and_never_looked_at(tmp_path, monkeypatch):
    fit, hidden = pc.fit, []

    def watched(model, data, observed, **options):
        hidden.append((~observed).nonzero().flatten())
        # The hidden values may be anything: they do not reach the fit.
        data.y = torch.where(observed, data.y, torch.tensor(1e6))
        return fit(model, data, observed, **options)

    monkeypatch.setattr(pc, "fit", watched)
    text, _ = demo.run_demo(tmp_path / "a", models=demo.MODELS[2:4], schedule=SHORT)
    assert len(hidden) == 10
    for part in (hidden[:5], hidden[5:]):
        assert sorted(torch.cat(part).tolist()) == list(range(100))
    monkeypatch.setattr(pc, "fit", fit)
    again, _ = demo.run_demo(tmp_path / "b", models=demo.MODELS[2:4], schedule=SHORT)
    assert text == again

    out = tmp_path / "a"
    assert sorted(p.name for p in out.iterdir()) == ["picture.png", "predictions.csv", "scores.csv"]
    table, scores = pd.read_csv(out / "predictions.csv"), pd.read_csv(out / "scores.csv")
    data = pc.datasets.nc_sids()
    assert table["id"].tolist() == data.names
    assert table["deaths"].tolist() == data.y.int().tolist()
    # The table of scores says what the predictions say.
    inside = (table["lower_90"] <= table["deaths"]) & (table["deaths"] <= table["upper_90"])
    row = scores[scores["model"] == demo.SHOWN.label].iloc[0]
    assert row["cover 90%"] == pytest.approx(inside.mean(), abs=1e-3)
    width = (table["upper_90"] - table["lower_90"]).mean()
    assert row["width"] == pytest.approx(width, abs=1e-3)
    assert row["gain"] == pytest.approx(scores["log score"].diff().iloc[1], abs=2e-4)
    assert np.isfinite(row["gain_se"])
    assert f"{row['gain']:+.3f} ±" in text


def test_the_command(tmp_path, monkeypatch):
    quick = {**demo.run_demo.__kwdefaults__, "models": demo.MODELS[2:4], "schedule": SHORT}
    monkeypatch.setattr(demo.run_demo, "__kwdefaults__", quick)
    monkeypatch.setattr(demo, "FOLDS", 2)
    for _ in range(2):  # its own results are replaced
        result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "out")])
        assert result.exit_code == 0, result.output
    assert "negative binomial, copula" in result.stdout
    (tmp_path / "out/other").write_text("not ours")
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "out")])
    assert result.exit_code == 2
    assert "'other'" in result.stderr


@pytest.mark.slow
def test_the_map_helps_where_the_feature_is_not_known(tmp_path):
    """Over the folds as they are: the seed is fixed, so this cannot fail by chance."""
    demo.run_demo(tmp_path / "out")
    scores = pd.read_csv(tmp_path / "out/scores.csv")
    plain = scores[scores["group"] == demo.PLAIN]
    assert (plain["gain"].dropna() > 0).all()
    assert plain["log score"].iloc[3] == plain["log score"].max()  # the negative-binomial copula
    assert 0.84 <= plain["cover 90%"].iloc[3] <= 0.96  # two standard errors of 100 counties
