"""Exact and measured values: labels, what was not measured, what is refused, post-processing."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayesdp.datasets.census_files import POST_PROCESSED
from bayesdp.measurements import Exact, Measured
from bayesdp.measurements.parts import KINDS, refused
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, LatticeLaplace, ProjectedGaussian
from bayesdp.queries import Identity, LinearQuery, Margins, Totals

LABELS = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
QUERY = Identity(LABELS)
LAW = DiscreteGaussian(sigma=5.0)


def table(values):
    return xr.DataArray(values, dims=list(LABELS), coords=LABELS)


def test_values_are_matched_by_label():
    shuffled = table([[1, -2], [3, 4]]).transpose("education", "county")[::-1, ::-1]
    stored = Measured(QUERY, shuffled, LAW).values
    np.testing.assert_array_equal(stored, [[1, -2], [3, 4]])
    assert stored.dtype == np.int64
    assert not stored.flags.writeable


def test_whole_floats_are_integers_and_continuous_laws_keep_floats():
    assert Measured(QUERY, table([[1.0, 2.0], [3.0, 4.0]]), LAW).values.dtype == np.int64
    assert Measured(QUERY, table([[1, 2], [3, 4]]), ProjectedGaussian(2.0)).values.dtype == np.float64


def test_the_caller_keeps_no_way_into_the_values():
    own = np.array([[1, 2], [3, 4]])
    measured = Measured(QUERY, own, LAW)
    own[0, 0] = 99
    assert measured.values[0, 0] == 1
    with pytest.raises(ValueError, match="read-only"):
        measured.values[0, 0] = 99


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1, np.nan], [3, 4]], r"no number for county=Alpha, education=High.*unmeasured="),
        ([[1, np.inf], [3, 4]], r"finite, but county=Alpha, education=High is"),
        ([[1, 2.5], [3, 4]], r"whole numbers under the law 'discrete-gaussian'.*High is 2\.5.*post-processed"),
        ([[1, 2**53], [3, 4]], r"smaller than 2\*\*53.*education=High"),
        ([[1, 2]], r"shape \(2, 2\)"),
    ],
)
def test_bad_values_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        Measured(QUERY, np.array(values), LAW)


@pytest.mark.parametrize("values", [[["1", "2"], ["3", "4"]], [[True, False], [True, True]]])
def test_values_must_be_numbers(values):
    with pytest.raises(TypeError, match="must hold integers or real numbers"):
        Measured(QUERY, np.array(values), LAW)


def test_wrong_labels_are_listed():
    wrong = xr.DataArray([[1, 2], [3, 4]], dims=list(LABELS), coords={**LABELS, "county": ["Alpha", "Gamma"]})
    with pytest.raises(ValueError, match=r"missing: 'Beta'; unknown: 'Gamma'"):
        Measured(QUERY, wrong, LAW)


@pytest.mark.parametrize(
    "stated",
    [
        ["county=Alpha, education=High"],
        [("Alpha", "High")],
        np.array([[False, True], [False, False]]),
        table([[False, True], [False, False]]).transpose("education", "county"),
        pd.DataFrame(
            [[False, True], [False, False]],
            index=pd.Index(["Alpha", "Beta"], name="county"),
            columns=pd.Index(["Low", "High"], name="education"),
        ),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_unmeasured_cells_are_stated(stated, order):
    values = np.array([[1.0, np.nan], [3.0, 4.0]], order=order)
    measured = Measured(QUERY, values, LAW, unmeasured=stated)
    np.testing.assert_array_equal(measured.values, [[1, 0], [3, 4]])
    np.testing.assert_array_equal(measured.unmeasured, [[False, True], [False, False]])
    np.testing.assert_array_equal(measured.published, values)
    assert np.isnan(measured.labelled.sel(county="Alpha", education="High"))


def test_masked_arrays_say_themselves_where_nothing_is_but_must_be_stated():
    masked = np.ma.masked_array([[1, 7], [3, 4]], mask=[[False, True], [False, False]])
    assert Measured(QUERY, masked, LAW, unmeasured=masked.mask).values[0, 1] == 0
    with pytest.raises(ValueError, match="unmeasured="):
        Measured(QUERY, masked, LAW)


def test_one_dimensional_answers_are_stated_by_their_label():
    county = Margins(LABELS, ["county"])
    assert Measured(county, [np.nan, 3.0], LAW, unmeasured=["Alpha"]).unmeasured.tolist() == [True, False]


@pytest.mark.parametrize(
    ("stated", "error", "message"),
    [
        (["county=Gamma"], ValueError, "no answers of the query: 'county=Gamma'"),
        ([("Alpha",)], ValueError, "no answer"),
        ("county=Alpha", TypeError, "list of answer names"),
        (np.array([True, False]), ValueError, "shape"),
        (table([[0, 1], [0, 0]]), TypeError, "True and False"),
        (
            [("Alpha", "High"), ("Beta", "Low")],
            ValueError,
            r"Beta, education=Low was not published, but values holds 3\.0",
        ),
        (np.array([[False, True], [False, True]]), ValueError, "was not published, but values holds"),
    ],
)
def test_false_statements_are_refused(stated, error, message):
    with pytest.raises(error, match=message):
        Measured(QUERY, [[1.0, np.nan], [3.0, 4.0]], LAW, unmeasured=stated)


def test_nothing_measured_is_no_measurement():
    with pytest.raises(ValueError, match="leaves no cell"):
        Measured(QUERY, np.full((2, 2), np.nan), LAW, unmeasured=np.ones((2, 2), dtype=bool))


def test_dependent_noise_cannot_leave_cells_out():
    with pytest.raises(ValueError, match="ties the noise of all cells together"):
        Measured(QUERY, [[1.0, np.nan], [3.0, 4.0]], LatticeLaplace(0.5), unmeasured=[("Alpha", "High")])


@pytest.mark.parametrize("how", ["clipped", "rounded", "topdown"])
def test_post_processed_tables_are_refused_with_an_explanation(how):
    with pytest.raises(ValueError, match=rf"postprocessing is '{how}'.*noisy measurement files"):
        Measured(QUERY, [[1, 2], [3, 4]], LAW, postprocessing=how)


def test_saying_that_nothing_was_done_is_fine():
    assert Measured(QUERY, [[1, 2], [3, 4]], LAW, postprocessing="none") == Measured(QUERY, [[1, 2], [3, 4]], LAW)


def test_laws_and_queries_must_fit():
    with pytest.raises(ValueError, match="query must be Identity"):
        Measured(Margins(LABELS, ["county"]), [1, 2], LatticeLaplace(0.5))
    with pytest.raises(ValueError, match="invariants must be None"):
        Measured(QUERY, [[1, 2], [3, 4]], LAW, Totals(LABELS))
    with pytest.raises(ValueError, match=r"b of the law 'discrete-laplace' has shape \(3,\)"):
        Measured(QUERY, [[1, 2], [3, 4]], DiscreteLaplace(b=np.ones(3)))
    with pytest.raises(ValueError, match="has shape"):  # would enlarge the table
        Measured(QUERY, [[1, 2], [3, 4]], DiscreteLaplace(b=np.ones((2, 2, 2))))
    with pytest.raises(TypeError, match="law must be a noise law"):
        Measured(QUERY, [[1, 2], [3, 4]], "discrete-gaussian sigma=5")
    with pytest.raises(TypeError, match="query must be"):
        Measured(LABELS, [[1, 2], [3, 4]], LAW)
    with pytest.raises(TypeError, match="name must be"):
        Measured(QUERY, [[1, 2], [3, 4]], LAW, name="")


def test_a_scale_for_each_cell():
    law = DiscreteLaplace(b=np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert Measured(QUERY, [[1, 2], [3, 4]], law).law == law


def test_content_decides_equality_and_pickles_keep_it():
    one = Measured(QUERY, [[1, 2], [3, 4]], LAW, name="noisy")
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(pickle.loads(pickle.dumps(one))) == hash(one)
    assert one != Measured(QUERY, [[1, 2], [3, 5]], LAW, name="noisy")
    assert one != Measured(QUERY, [[1, 2], [3, 4]], DiscreteGaussian(sigma=4.0), name="noisy")
    assert one != Measured(QUERY, [[1, 2], [3, 4]], LAW)


def test_it_shows_how_many_answers_of_what():
    stacked = Margins(LABELS, ["county"]) + Totals(LABELS)
    assert repr(Measured(stacked, [1, 2, 3], LAW)) == (
        "<Measured: 2 answers by county and grand total, law discrete-gaussian sigma=5>"
    )


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
def test_bad_exact_values_are_named(values, message):
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


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ("topdown", "topdown"),
        (POST_PROCESSED, "topdown"),
        ("made consistent", "consistent"),
        ("Consistency by least squares", "consistent"),
        ("nonnegative", "nonnegative"),
        ("clipped at zero", "clipped"),
        ("rounded to 5", "rounded"),
        ("swapped", "swapped"),
        ("percentages of noisy counts, rounded", "ratio"),
    ],
)
def test_each_kind_has_its_reason_and_its_way_out(stated, kind):
    reason, way_out = KINDS[kind]
    with pytest.raises(ValueError, match="no longer follow the noise law 'discrete-gaussian'") as caught:
        Measured(Totals({"county": ["Alpha", "Beta"]}), 5, DiscreteGaussian(sigma=2.0), postprocessing=stated)
    assert reason in str(caught.value)
    assert way_out in str(caught.value)


def test_other_words_get_the_general_advice():
    assert "a noise law of your own that includes it" in refused("smoothed", "laplace")


def test_words_do_not_lead_astray():
    assert KINDS["nonnegative"][0] in refused("no negative numbers", "laplace")
    assert "\n" not in refused("a\nb", "laplace")
