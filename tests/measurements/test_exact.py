"""Exact answers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import xarray as xr

from bayesdp.measurements import Exact
from bayesdp.queries import Identity, LinearQuery, Margins, Totals

LABELS = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
COUNTY = Margins(LABELS, ["county"])


def test_values_are_matched_by_label_and_read_only():
    rows = xr.DataArray([30, 20], dims="county", coords={"county": ["Beta", "Alpha"]})
    exact = Exact(COUNTY, rows)
    np.testing.assert_array_equal(exact.values, [20, 30])
    assert not exact.values.flags.writeable
    assert exact.labelled.sel(county="Beta") == 30


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([20, -1], r"no nonnegative integer table satisfies the exact values: county=Beta = -1"),
        ([20, 1.5], r"whole numbers, but county=Beta is"),
        ([20, np.nan], r"finite, but county=Beta is"),
        ([20, 2**53], r"2\*\*53.*county=Beta"),
        ([20, 1, 2], "shape"),
    ],
)
def test_bad_values_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        Exact(COUNTY, values)


def test_bounds_have_signs():
    assert Exact(COUNTY, [0, -5], ">=").sign == ">="  # says nothing, and is not wrong
    with pytest.raises(ValueError, match="at least 0"):
        Exact(COUNTY, [0, -5], "<=")
    with pytest.raises(ValueError, match="sign must be one of"):
        Exact(COUNTY, [0, 5], "<")


def test_differences_may_be_negative():
    difference = LinearQuery(LABELS, [[1, -1, 0, 0], [1, 1, 0, 0]], ["gap", "sum"])
    assert Exact(difference, [-3, 5]).values.tolist() == [-3, 5]
    with pytest.raises(ValueError, match="sum = -1"):
        Exact(difference, [-3, -1])


def test_a_grand_total_is_one_number():
    assert Exact(Totals(LABELS), 135).values.shape == ()
    assert repr(Exact(Totals(LABELS), 135)) == "<Exact: grand total = 135>"
    assert repr(Exact(Identity({"county": ["Alpha"]}), [3], "<=")) == "<Exact: county=Alpha <= 3>"
    assert repr(Exact(COUNTY, [1, 2], "<=")) == "<Exact: 2 answers by county, at most>"


def test_content_decides_equality():
    one = Exact(COUNTY, [20, 30])
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != Exact(COUNTY, [20, 31])
    assert one != Exact(COUNTY, [20, 30], ">=")
    assert len({one, Exact(COUNTY, [20, 30])}) == 1
