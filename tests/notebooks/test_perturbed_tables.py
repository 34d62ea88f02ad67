"""What notebook 09 counts with, against numbers by hand."""

import numpy as np
import pytest
import xarray as xr

from notebooks import perturbed_tables as tables

TABLE = np.zeros((1, tables.COUNTIES, 4))
TABLE[0, 0], TABLE[0, -1] = [10, 7, 1, 2], [20, 3, 5, 2]


def test_truths_are_counties_of_which_none_is_used_twice_and_coverage_has_the_standard_error_of_tables():
    assert tables.truths(50).shape == (50, 8, 4)
    with pytest.raises(ValueError, match="repetitions must be at most 54, got 55"):
        tables.truths(55)
    # 432 of the 437 counties, those with the fewest people: at most all people of these four races.
    counties = tables.bdp.datasets.midwest_counties()
    largest = counties.isel(county=np.argsort(counties.sum("race").values)[-5:])
    everybody, five = (int(own.sel(race=list(tables.RACES)).sum()) for own in (counties, largest))
    assert int(tables.truths(54).sum()) == everybody - five
    truth = xr.DataArray(np.ones((2, 8, 4)), dims=("table", "county", "race"))
    high = np.full((2, 8), 5.0)
    high[1, :4] = 3.0
    [row] = tables.summary(truth, {"county total": (np.zeros((2, 8)), high)}, {})
    assert (row["coverage"], row["standard error"], row["width"]) == pytest.approx((0.75, 0.25, 4.5), abs=1e-12)


def test_quantities_of_a_table_and_what_users_do_by_hand():
    found = tables.quantities(TABLE)
    assert (found["cell"].shape, found["county total"][0, [0, -1]].tolist()) == ((1, 32), [20, 30])
    assert found["race total"][0].tolist() == [30, 10, 6, 4]
    np.testing.assert_allclose(found["share of a race"][0], [0.6, 0.2, 0.12, 0.08])
    np.testing.assert_allclose(found["log odds ratio"][0], [np.log(7.5 * 5.5 / (1.5 * 3.5))])
    found = tables.today(TABLE, 2.0, 1.0, {"county total": np.full((1, 8), 21)})
    low, high = found["± reach", "cell"]
    assert (low[0, 2], high[0, 2]) == (0.0, 3.0)  # of the count 1
    assert found["± reach", "county total"][0][0, 0] == 19
    # The variance of a share: the race itself with 1 - s, the three others with -s, eight cells each, over the total.
    for quantity, sd in (
        ("county total", 2.0),  # four cells of variance 1
        ("log odds ratio", np.sqrt(7.5**-2 + 1.5**-2 + 3.5**-2 + 5.5**-2)),
        ("share of a race", np.sqrt(8 * (0.4**2 + 3 * 0.6**2)) / 50),
    ):
        low, high = found["sums, sd", quantity]
        np.testing.assert_allclose((high - low)[0, 0], 2 * 1.6448536 * sd, rtol=1e-6)
