"""What notebook 09 counts with, against numbers by hand; and its stored outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from notebooks import perturbed_tables as tables

NOTEBOOK = Path(__file__).resolve().parents[2] / "notebooks" / "09-perturbed-tables.ipynb"
CELLS = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]


def _printed() -> str:
    outputs = [output for own in CELLS for output in own.get("outputs", [])]
    return "\n".join("".join(own.get("text", own.get("data", {}).get("text/plain", ""))) for own in outputs)


def _table() -> np.ndarray:
    counts = np.zeros((1, tables.COUNTIES, 4))
    counts[0, 0] = [10, 7, 1, 2]
    counts[0, -1] = [20, 3, 5, 2]
    return counts


def test_truths_are_counties_of_which_none_is_used_twice():
    truth = tables.truths(50)
    assert truth.shape == (50, 8, 4)
    whole = tables.truths(54)
    with pytest.raises(ValueError, match="repetitions must be at most 54, got 55"):
        tables.truths(55)
    # 432 of the 437 counties, those with the fewest people: at most all people of these four races.
    counties = tables.bdp.datasets.midwest_counties()
    five = counties.isel(county=np.argsort(counties.sum("race").values)[-5:]).sel(race=list(tables.RACES))
    everybody = counties.sel(race=list(tables.RACES)).sum() - five.sum()
    assert int(whole.sum()) == int(everybody)


def test_quantities_of_a_table_by_hand():
    found = tables.quantities(_table())
    assert found["cell"].shape == (1, 32)
    assert found["county total"][0, [0, -1]].tolist() == [20, 30]
    assert found["race total"][0].tolist() == [30, 10, 6, 4]
    np.testing.assert_allclose(found["share of a race"][0], [0.6, 0.2, 0.12, 0.08])
    np.testing.assert_allclose(found["log odds ratio"][0], [np.log(7.5 * 5.5 / (1.5 * 3.5))])


def test_what_users_do_by_hand():
    found = tables.today(_table(), 2.0, 1.0, {"county total": np.full((1, 8), 21)})
    low, high = found["± reach", "cell"]
    assert (low[0, 2], high[0, 2]) == (0.0, 3.0)  # of the count 1
    assert found["± reach", "county total"][0][0, 0] == 19
    low, high = found["sums, sd", "county total"]
    np.testing.assert_allclose(high - low, 2 * 1.6448536 * 2.0, rtol=1e-6)  # four cells of variance 1
    low, high = found["sums, sd", "log odds ratio"]
    sd = np.sqrt(7.5**-2 + 1.5**-2 + 3.5**-2 + 5.5**-2)
    np.testing.assert_allclose(high - low, 2 * 1.6448536 * sd, rtol=1e-6)
    # The variance of a share: the race itself with 1 - s, the three others with -s, eight cells each, over the total.
    low, high = found["sums, sd", "share of a race"]
    sd = np.sqrt(8 * (0.4**2 + 3 * 0.6**2)) / 50
    np.testing.assert_allclose((high - low)[0, 0], 2 * 1.6448536 * sd, rtol=1e-6)


def test_coverage_has_the_standard_error_of_tables():
    """Two tables that hold 8 of 8 and 4 of 8 totals: 0.75, and a standard error of 0.25."""
    truth = xr.DataArray(np.ones((2, 8, 4)), dims=("table", "county", "race"))
    high = np.full((2, 8), 5.0)
    high[1, :4] = 3.0
    [row] = tables.summary(truth, {"county total": (np.zeros((2, 8)), high)}, {})
    assert row["coverage"] == 0.75
    assert abs(row["standard error"] - 0.25) < 1e-12
    assert row["width"] == 4.5


def _coverages() -> dict[tuple[str, str], tuple[float, float]]:
    """Coverage and standard error of the posterior's intervals, by law and quantity, from the stored text."""
    found, law = {}, ""
    for line in _printed().splitlines():
        if line.startswith("coverage, "):
            law = line.removeprefix("coverage, ")
        elif line.startswith("mean width, "):
            law = ""
        elif law and (row := re.match(r"([a-z][a-z ]+?)\s+([\d.]+) \(([\d.]+)\)", line)):
            found[law, row[1]] = float(row[2]), float(row[3])
    return found


def test_the_stored_intervals_hold_what_they_promise():
    """Five laws, five quantities: each at least 90 % but for three standard errors, which of 25 one may miss by chance."""
    found = _coverages()
    assert len(found) == 25
    assert sum(coverage < 0.9 - 3 * max(error, 0.01) for coverage, error in found.values()) <= 1


def test_the_stored_run_says_its_versions_and_is_not_a_quick_one():
    assert "PyMC" in _printed()
    assert "quick run" not in _printed()
