"""Counties that are made up, measured, fitted and counted: what a row says, and that a run goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.calibration import counties
from benchmarks.calibration.counties import COLUMNS, FIRST, counted, main


def test_a_county_is_counted():
    """Two tracts, four block groups; no more are held than there are; GLS is the same whatever the prior's chains."""
    found = counted("varying shares", 100, draws=20, tune=20)
    assert tuple(found) == COLUMNS
    assert (found["held"] <= found["numbers"]).all()
    shares = found[found["quantity"] == "share"].set_index(["level", "method"])
    assert shares.loc[("tract", "GLS"), "numbers"] == shares.loc[("tract", "posterior"), "numbers"] == 2
    assert shares.loc[("block_group", "GLS"), "numbers"] == 4
    stored = pd.read_csv(Path(counties.__file__).parents[2] / "notebooks" / "data" / "calibration_counties.csv")
    own = stored[(stored["county"] == 100) & (stored["method"] == "GLS")].set_index(["level", "quantity"])
    now = found[found["method"] == "GLS"].set_index(["level", "quantity"])
    pd.testing.assert_frame_equal(now[["numbers", "held"]], own[["numbers", "held"]])


def test_a_run_goes_on(tmp_path, monkeypatch):
    asked = []

    def short(prior, seed):
        asked.append((prior, seed))
        return pd.DataFrame([(prior, seed, "tract", "share", "GLS", 2, 1, 0.5)], columns=list(COLUMNS))

    monkeypatch.setattr(counties, "counted", short)
    target = tmp_path / "counties.csv"
    assert main(["-o", str(target), "--counties", "2", "--only", "area and cell"]) == 0
    assert main(["-o", str(target), "--counties", "3", "--only", "area and cell"]) == 0
    assert asked == [("area and cell", FIRST + i) for i in range(3)]
    assert pd.read_csv(target)["county"].tolist() == [FIRST, FIRST + 1, FIRST + 2]
