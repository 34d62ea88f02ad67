"""Counties that are made up, measured, fitted and counted: what a row says, and that a run goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from benchmarks.calibration import counties
from benchmarks.calibration.counties import COLUMNS, counted


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
