"""Exact and measured values: labels, what was not measured, what is refused, post-processing."""

import pickle

import numpy as np
import pytest
import xarray as xr

from bayesdp.datasets.census_files import POST_PROCESSED
from bayesdp.measurements import Exact, Measured, parts
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, LatticeLaplace, ProjectedGaussian
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from tests.refusals import refused

LABELS = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
QUERY = Identity(LABELS)
COUNTY = Margins(LABELS, ["county"])
LAW = DiscreteGaussian(sigma=5.0)
HIGH_OF_ALPHA = np.array([[False, True], [False, False]])


def table(values):
    return xr.DataArray(values, dims=list(LABELS), coords=LABELS)


def test_values_are_matched_by_label_kept_from_the_caller_and_whole_floats_are_integers():
    own = np.array([[1, -2], [3, 4]])
    measured = Measured(QUERY, table(own).transpose("education", "county")[::-1, ::-1], LAW)
    own[0, 0] = 99
    np.testing.assert_array_equal(measured.values, [[1, -2], [3, 4]])
    with pytest.raises(ValueError, match="read-only"):
        measured.values[0, 0] = 99
    exact = Exact(COUNTY, xr.DataArray([30, 20], dims="county", coords={"county": ["Beta", "Alpha"]}))
    np.testing.assert_array_equal(exact.values, [20, 30])
    assert not exact.values.flags.writeable
    assert exact.labelled.sel(county="Beta") == 30
    assert Measured(QUERY, [[1.0, 2.0], [3.0, 4.0]], LAW).values.dtype == np.int64
    assert Measured(QUERY, [[1, 2], [3, 4]], ProjectedGaussian(2.0)).values.dtype == np.float64


WHOLE = table(HIGH_OF_ALPHA)
STATED = [["county=Alpha, education=High"], [("Alpha", "High")], HIGH_OF_ALPHA, WHOLE.transpose(), WHOLE.to_pandas()]


@pytest.mark.parametrize("stated", STATED)
@pytest.mark.parametrize("order", ["C", "F"])
def test_unmeasured_cells_are_stated(stated, order):
    values = np.array([[1.0, np.nan], [3.0, 4.0]], order=order)
    measured = Measured(QUERY, values, LAW, unmeasured=stated)
    np.testing.assert_array_equal(measured.values, [[1, 0], [3, 4]])
    np.testing.assert_array_equal(measured.unmeasured, HIGH_OF_ALPHA)
    np.testing.assert_array_equal(measured.published, values)
    assert np.isnan(measured.labelled.sel(county="Alpha", education="High"))


def test_masked_arrays_and_labels_of_one_dimension_say_where_nothing_is():
    masked = np.ma.masked_array([[1, 7], [3, 4]], mask=HIGH_OF_ALPHA)
    assert Measured(QUERY, masked, LAW, unmeasured=masked.mask).values[0, 1] == 0
    with pytest.raises(ValueError, match="unmeasured="):
        Measured(QUERY, masked, LAW)
    assert Measured(COUNTY, [np.nan, 3.0], LAW, unmeasured=["Alpha"]).unmeasured.tolist() == [True, False]


GOOD, GAP = [[1, 2], [3, 4]], [[1.0, np.nan], [3.0, 4.0]]
WRONG_LABELS = xr.DataArray(GOOD, dims=list(LABELS), coords={**LABELS, "county": ["Alpha", "Gamma"]})
DIFFERENCE = LinearQuery(LABELS, [[1, -1, 0, 0], [1, 1, 0, 0]], ["gap", "sum"])


test_what_is_wrong_is_named = refused(
    (lambda: Measured(QUERY, [[1, np.nan], [3, 4]], LAW), "no number for county=Alpha, education=High.*unmeasured="),
    (lambda: Measured(QUERY, [[1, np.inf], [3, 4]], LAW), "finite, but county=Alpha, education=High is"),
    (lambda: Measured(QUERY, [[1, 2.5], [3, 4]], LAW), r"whole numbers under the law 'disc.*High is 2\.5.*post-processed"),
    (lambda: Measured(QUERY, [[1, 2**53], [3, 4]], LAW), r"smaller than 2\*\*53.*education=High"),
    (lambda: Measured(QUERY, [[1, 2]], LAW), r"shape \(2, 2\)"),
    (lambda: Measured(QUERY, np.array([["1", "2"], ["3", "4"]]), LAW), "must hold integers or real numbers"),
    (lambda: Measured(QUERY, np.array([[True, False], [True, True]]), LAW), "must hold integers or real numbers"),
    (lambda: Measured(QUERY, WRONG_LABELS, LAW), "missing: 'Beta'; unknown: 'Gamma'"),
    (lambda: Measured(QUERY, GAP, LAW, unmeasured=["county=Gamma"]), "no answers of the query: 'county=Gamma'"),
    (lambda: Measured(QUERY, GAP, LAW, unmeasured=[("Alpha",)]), "no answer"),
    (lambda: Measured(QUERY, GAP, LAW, unmeasured="county=Alpha"), "list of answer names"),
    (lambda: Measured(QUERY, GAP, LAW, unmeasured=np.array([True, False])), "shape"),
    (lambda: Measured(QUERY, GAP, LAW, unmeasured=table([[0, 1], [0, 0]])), "True and False"),
    (lambda: Measured(QUERY, GAP, LAW, unmeasured=[("Alpha", "High"), ("Beta", "Low")]),
     r"Beta, education=Low was not published, but values holds 3\.0"),
    (lambda: Measured(QUERY, np.full((2, 2), np.nan), LAW, unmeasured=np.ones((2, 2), dtype=bool)), "leaves no cell"),
    (lambda: Measured(QUERY, GAP, LatticeLaplace(0.5), unmeasured=[("Alpha", "High")]), "ties the noise of all cells together"),
    (lambda: Measured(COUNTY, [1, 2], LatticeLaplace(0.5)), "query must be Identity"),
    (lambda: Measured(QUERY, GOOD, LAW, Totals(LABELS)), "invariants must be None"),
    (lambda: Measured(QUERY, GOOD, DiscreteLaplace(b=np.ones(3))), r"b of the law 'discrete-laplace' has shape \(3,\)"),
    (lambda: Measured(QUERY, GOOD, DiscreteLaplace(b=np.ones((2, 2, 2)))), "has shape"),  # would enlarge the table
    (lambda: Measured(QUERY, GOOD, "discrete-gaussian sigma=5"), "law must be a noise law"),
    (lambda: Measured(LABELS, GOOD, LAW), "query must be"),
    (lambda: Measured(QUERY, GOOD, LAW, name=""), "name must be"),
    (lambda: Exact(COUNTY, [20, -1]), "no nonnegative integer table satisfies the exact values: county=Beta = -1"),
    (lambda: Exact(COUNTY, [20, 1.5]), "whole numbers, but county=Beta is"),
    (lambda: Exact(COUNTY, [20, np.nan]), "finite, but county=Beta is"),
    (lambda: Exact(COUNTY, [20, 2**53]), r"2\*\*53.*county=Beta"),
    (lambda: Exact(COUNTY, [20, 1, 2]), "shape"),
    (lambda: Exact(COUNTY, [0, -5], "<="), "at least 0"),
    (lambda: Exact(COUNTY, [0, 5], "<"), "sign must be one of"),
    (lambda: Exact(DIFFERENCE, [-3, -1]), "sum = -1"),
)  # fmt: skip


def test_content_decides_equality_and_differences_may_be_negative():
    one = Measured(QUERY, GOOD, LAW, name="noisy")
    assert (pickle.loads(pickle.dumps(one)), hash(pickle.loads(pickle.dumps(one)))) == (one, hash(one))
    assert one != Measured(QUERY, [[1, 2], [3, 5]], LAW, name="noisy")
    assert one != Measured(QUERY, GOOD, DiscreteGaussian(sigma=4.0), name="noisy")
    assert one != Measured(QUERY, GOOD, LAW)
    exact = Exact(COUNTY, [20, 30])
    assert pickle.loads(pickle.dumps(exact)) == exact
    assert exact != Exact(COUNTY, [20, 31])
    assert exact != Exact(COUNTY, [20, 30], ">=")
    assert Exact(DIFFERENCE, [-3, 5]).values.tolist() == [-3, 5]
    assert Exact(COUNTY, [0, -5], ">=").sign == ">="  # says nothing, and is not wrong


def test_it_shows_how_many_answers_of_what():
    both = Measured(COUNTY + Totals(LABELS), [1, 2, 3], LAW)
    for part, words in (
        (both, "Measured: 2 answers by county and grand total, law discrete-gaussian sigma=5"),
        (Exact(Totals(LABELS), 135), "Exact: grand total = 135"),
        (Exact(Identity({"county": ["Alpha"]}), [3], "<="), "Exact: county=Alpha <= 3"),
        (Exact(COUNTY, [1, 2], "<="), "Exact: 2 answers by county, at most"),
    ):
        assert repr(part) == f"<{words}>"


POST_PROCESSING = {
    "topdown": "topdown", POST_PROCESSED: "topdown", "made consistent": "consistent", "nonnegative": "nonnegative",
    "Consistency by least squares": "consistent", "clipped at zero": "clipped", "rounded to 5": "rounded",
    "swapped": "swapped", "percentages of noisy counts, rounded": "ratio", "no negative numbers": "nonnegative",
}  # fmt: skip


def test_each_kind_of_post_processing_has_its_reason_and_its_way_out_and_none_is_fine():
    for stated, kind in POST_PROCESSING.items():
        with pytest.raises(ValueError, match="no longer follow the noise law 'discrete-gaussian'") as caught:
            Measured(Totals(LABELS), 5, LAW, postprocessing=stated)
        for words in (f"postprocessing is '{stated}'", *parts.KINDS[kind]):
            assert words in str(caught.value)
    words = parts.refused("smoothed\naway", "laplace")
    assert ("a noise law of your own that includes it" in words, "\n" in words) == (True, False)
    assert Measured(QUERY, GOOD, LAW, postprocessing="none") == Measured(QUERY, GOOD, LAW)
