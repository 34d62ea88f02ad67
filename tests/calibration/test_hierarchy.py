"""The calibration of hierarchies and of counties: what is stored, that a run goes on, and that wrong noise is found."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.calibration import counties
from benchmarks.calibration.hierarchy import COLUMNS, FRAME, PRIORS, Simulation, run_prior

STORED = Path(__file__).parents[2] / "notebooks" / "data" / "calibration_hierarchy.csv"


def test_the_stored_results_have_no_rejection_and_a_simulation_keeps_the_total_with_noise_as_stated():
    rows = pd.read_csv(STORED)
    assert tuple(rows) == COLUMNS
    assert set(rows["prior"]) == set(PRIORS)
    assert rows["simulations"].min() >= 200
    assert rows["p_adjusted"].min() > 0.01
    for prior in PRIORS:
        names = set(rows.loc[rows["prior"] == prior, "quantity"].str.partition("[")[0])
        assert {"cells", "tract", "county x race", "age x race", "log-likelihood", *PRIORS[prior].names} <= names
    for prior in PRIORS:
        hyper, table, release = Simulation(prior, 1).draw(np.random.default_rng(5))
        assert set(hyper) == set(PRIORS[prior].names)
        assert table.shape == FRAME.shape
        assert int(release.exact[0].values) == table.sum() > 0
        own = [np.square((m.values - m.query.apply(table)) / m.law.sigma).reshape(-1) for m in release.measurements]
        squares = np.concatenate(own)
        assert abs(squares.sum() - squares.size) < 6 * np.sqrt(2 * squares.size)


@pytest.mark.filterwarnings("ignore::bayesdp.measurements.consistency.PostProcessedWarning")
def test_a_run_goes_on_and_noise_that_is_understated_is_found(tmp_path):
    def run(**more):
        return run_prior("varying shares", seed=2, draws=120, tune=60, **more)

    right, _ = run(n=6, folder=tmp_path)
    assert right.calibrated  # false alarm 0.01
    assert len(next(tmp_path.iterdir()).read_text().splitlines()) == 7
    again, _ = run(n=6, folder=tmp_path)
    assert [q.p_ranks for q in again.quantities] == [q.p_ranks for q in right.quantities]
    wrong, numbers = run(n=10, wrong=0.3)
    assert numbers["failed"] == 0
    assert not wrong.calibrated


def test_a_county_is_counted():
    """Two tracts, four block groups; no more are held than there are; GLS is the same whatever the prior's chains."""
    found = counties.counted("varying shares", 100, draws=20, tune=20)
    assert tuple(found) == counties.COLUMNS
    assert (found["held"] <= found["numbers"]).all()
    shares = found[found["quantity"] == "share"].set_index(["level", "method"])
    assert shares.loc[("tract", "GLS"), "numbers"] == shares.loc[("tract", "posterior"), "numbers"] == 2
    assert shares.loc[("block_group", "GLS"), "numbers"] == 4
    stored = pd.read_csv(STORED.with_name("calibration_counties.csv"))
    own = stored[(stored["county"] == 100) & (stored["method"] == "GLS")].set_index(["level", "quantity"])
    now = found[found["method"] == "GLS"].set_index(["level", "quantity"])
    pd.testing.assert_frame_equal(now[["numbers", "held"]], own[["numbers", "held"]])
