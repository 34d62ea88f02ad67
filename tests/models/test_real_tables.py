"""Models of tables that offices published: predictions of what was left out, and views of pages under two laws."""

import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from models import electorates
from models import page_views as views
from models import working_population as work

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", ROOT.parent / "shared/data"))
TENURES = SHARED / "statsnz2013/tenure_by_electorate.csv"
NO_TENURES = pytest.mark.skipif(not TENURES.is_file(), reason="BAYESDP_SHARED_DATA names no folder with tenures")
CYCLONES = SHARED / "wikimedia_dp/australia_cyclones.csv"
SAMPLER = {"chains": 2, "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True}


def fit(model, sweeps):
    with model:
        tree = bdp.sample(draws=250, tune=250, fiber_gibbs={"sweeps": sweeps}, **SAMPLER)
    draws = tree["posterior"].dataset["x"].values
    return draws.reshape(-1, *draws.shape[2:])


LAW = bdp.noise.CellKey(max_deviation=3, variance_at_most=9.0, not_smaller_than=3)


def toy(larger):
    frame = bdp.Frame.of({"SA3": ["11", "12"], "sex": ["M", "F"], "SA4": ("SA3", ["1", "1"])})
    queries = bdp.Identity(frame), bdp.Margins(frame, ["SA3"]), bdp.Margins(frame, ["SA4", "sex"])
    answers = zip(queries, ([[40, 0], [30, 9]], [40, 38], [larger]), strict=True)
    return bdp.Release.from_published(frame, [bdp.Measured(query, values, LAW) for query, values in answers])


def test_predictions_of_a_table_that_is_known_and_sums_by_hand():
    """Given the counts, a number is uniform within 3 of its count; about the same people, it is that which was published."""
    given, hidden = work.leave_out(toy([71, 9]), "SA4")
    assert [own.query.dims for own in given.measurements] == [("SA3", "sex"), ("SA3",)]
    counts = np.array([[[41, 0], [29, 10]]] * 5)
    for level, half in ((0.5, 2), (0.9, 3)):  # of 7 numbers: quantiles .25 and .75, .05 and .95
        own = work.predict(given, hidden, counts, level)
        assert (own["lower"].values.tolist(), own["upper"].values.tolist()) == ([70 - half, 9], [70 + half, 9])
        np.testing.assert_allclose(own["probability"].values, [(2 * half + 1) / 7, 1], rtol=1e-9)
        assert own["held"].values.tolist() == [True, True]
    assert not work.predict(given, work.leave_out(toy([74, 9]), "SA4")[1], counts, 0.9)["held"].values[0]
    # Two published parts and a whole: the law of three deviations, 343 equally likely cases.
    own = work.by_hand(given, hidden, 0.9)
    cases = np.add.outer(np.add.outer(np.arange(-3, 4), np.arange(-3, 4)), np.arange(-3, 4)).reshape(-1)
    low, high = np.quantile(cases, [0.05, 0.95], method="inverted_cdf")
    assert (own["lower"].values.tolist(), own["upper"].values.tolist()) == ([70 + low, 9 + low], [70 + high, 9 + high])
    np.testing.assert_allclose(own["probability"], np.mean((low <= cases) & (cases <= high)), rtol=1e-12)
    assert own["smallest"].values.tolist() == [30, 0]


def test_all_numbers_of_an_area_are_left_out_and_the_full_time_share_of_women():
    release = bdp.datasets.working_population(levels=["SA3", "SA4"], within="701")
    given, hidden = work.without_areas(release, ["70103"])
    assert sum(int((~own.unmeasured).sum()) for own in hidden) == 210
    assert sum(int(own.unmeasured.sum()) for own in given.measurements) == 210
    cells = release.measurements[0].labelled.sel(SA3_CODE_2016="70103")
    np.testing.assert_array_equal(np.asarray(hidden[0].values)[2], cells)
    assert [own.query.dims[0] for own in given.measurements][8:] == ["SA4_CODE_2016"] * 8
    # What is left of the SA4 for the area that is not published: 55,... less the three others.
    totals = {own.query.dims: own.values for own in release.measurements}
    left = int(totals["SA4_CODE_2016",][0]) - int(totals["SA3_CODE_2016",][[0, 1, 3]].sum())
    assert work._persons(given).tolist()[2] == left
    ages = ["50_54", *work.OVER_55]
    frame = {"SA3_CODE_2016": ["a", "b", "c"], "sex": ["M", "F"], "age": ages, "status": ["EWFT", "EWPT"]}
    counts = xr.DataArray(np.ones((1, 3, 2, 6, 2), dtype=int), dims=("draw", *frame), coords=frame)
    counts[0, 0, 1, 1:, 0] = 3  # area a: 15 full time, 5 part time
    counts[0, 2, 1, 1:] = 0  # area c: nobody
    found = work.full_time_share(counts)
    assert found["SA3_CODE_2016"].values.tolist() == ["a", "b"]
    assert (found["share"].values.tolist(), found["rank"].values.tolist()) == ([[0.75, 0.5]], [[1, 2]])


@NO_TENURES
def test_tenures_with_sums_of_kinds():
    release = electorates.tenures(TENURES)
    assert release.frame.shape == (64, 10)
    cells, kinds, stated, people = (own.values for own in release.measurements)
    # Auckland Central, as the file has it.
    assert (cells[0].tolist()[:3], kinds[0].tolist()[:3]) == ([6954, 5010, 285], [12252, 31047, 7293])
    assert (stated[0, 0], people[0]) == (50595, 55218)
    for own in release.measurements[1:]:
        sums = (own.query.matrix @ cells.reshape(-1)).reshape(own.values.shape)
        assert np.abs(np.where(own.unmeasured, 0, sums - own.values)).max() <= 2 * 7


def within_three_deviations(own):
    """Hits against the sum of the intervals' probabilities, as if numbers were independent: false alarms below 1 %."""
    p = own["probability"].values
    return abs(own["held"].values.sum() - p.sum()) <= 3 * np.sqrt((p * (1 - p)).sum()) + 1


@pytest.mark.slow
@pytest.mark.parametrize("sheet", ["general", "Māori", pytest.param("tenures", marks=NO_TENURES)])
def test_sums_of_electorates_that_were_left_out(sheet):
    """Totals of both sexes and of all electorates, of which the posterior has seen none: in intervals of 50, 90 and 95 %."""
    release = electorates.tenures(TENURES) if sheet == "tenures" else bdp.datasets.statsnz_age_by_sex(sheet)
    given, hidden = electorates.leave_out(release, *((1, 2, 3) if sheet == "tenures" else (1, 4, 5, 7)))
    draws = fit(electorates.build_model(given, variation=0.4), 5)
    for level in (0.5, 0.9, 0.95):
        assert within_three_deviations(electorates.predict(hidden, draws, level))


@pytest.mark.slow
def test_larger_areas_that_were_left_out():
    """Given SA3 of the Australian Capital Territory only: 840 numbers of SA4 and of the state, some known for certain."""
    given, hidden = work.leave_out(bdp.datasets.working_population(within="8"), "SA4_CODE_2016", "STE_CODE_2016")
    draws = fit(work.build_model(given, variation=0.4), 15)
    for level in (0.5, 0.9, 0.95):
        own, simple = work.predict(given, hidden, draws, level), work.by_hand(given, hidden, level)
        assert own.sizes["answer"] == simple.sizes["answer"] == 840
        assert within_three_deviations(own)
        assert abs(float(own["held"].mean() - own["probability"].mean())) < 0.015
        widths = [float((found["upper"] - found["lower"]).mean()) for found in (own, simple)]
        assert widths[0] < 0.7 * widths[1]


def test_each_day_has_its_law_and_absent_days_are_under_its_threshold_or_were_no_candidates(tmp_path):
    file, days = tmp_path / "views.csv", ("2023-02-04", "2023-02-08")
    lines = "page_name,date,views Storm,2023-02-04,451 Other,2023-02-04,800 Storm,2023-02-07,90 Other,2023-02-08,120"
    file.write_text("\n".join(lines.split()) + "\n")
    release = views.read_release(file, ["Storm"], *days)
    before, after = release.measurements
    assert before.law == bdp.noise.Censored(bdp.noise.DiscreteLaplace(b=30.0), below=451)
    assert after.law.uncensored.sigma == pytest.approx(np.sqrt(10 / (2 * 0.015)))
    assert after.law.below == 90  # a line that is equal to the threshold was published
    assert before.unmeasured.tolist() == [[False, False, True, True, True]]
    assert after.unmeasured.tolist() == [[True, True, False, False, False]]
    np.testing.assert_array_equal(before.published[0, :2], [451, np.nan])
    np.testing.assert_array_equal(after.published[0, 2:], [np.nan, 90, np.nan])
    assert (views.published_sum(release, "Storm", "2023-02-04", "2023-02-08"), release.exact) == ((541, 3), ())
    release = views.read_release(file, ["Storm"], *days, absent="no candidate")
    assert [own.unmeasured.sum() for own in release.measurements] == [4, 4]
    (bound,) = release.exact
    assert (bound.sign, bound.values.tolist()) == ("<=", [150] * 3)
    with pytest.raises(ValueError, match="absent must be 'under' or 'no candidate', got 'zero'"):
        views.read_release(file, ["Storm"], *days, absent="zero")
    with pytest.raises(ValueError, match=r"no line of the pages \['Nothing'\]"):
        views.read_release(file, ["Nothing"], *days)


def test_the_file_that_is_written_has_what_is_above_the_threshold(tmp_path):
    truth = views.true_views()
    views.write_file(truth, tmp_path / "v.csv", seed=5)
    release = views.read_release(tmp_path / "v.csv", ["A storm", "Storms"], views.FIRST, views.LAST)
    change = list(truth["date"].values).index("2023-02-06")
    before, after = (own.published for own in release.measurements)
    assert np.nanmin(before) > 450
    assert np.nanmin(after) > 90
    assert np.isnan(before[:, change:]).all()
    assert np.isnan(after[:, :change]).all()
    off = np.where(np.isnan(before), after, before) - truth.values
    assert 5 < np.nanstd(off) < 40
    assert (truth.values[np.isnan(off)] < 600).all()


@pytest.mark.slow
def test_the_total_of_an_event_holds_the_truth():
    release, event = views.make_release(seed=7), ("A storm", "2023-02-03", views.LAST)
    with views.build_model(release):
        tree = bdp.sample(200, tune=300, nuts_sampler="pymc", **SAMPLER)
    total = views.event_total(tree["posterior"].dataset["x"], *event)
    low, high = total.quantile([0.005, 0.995]).values
    stated, absent = views.published_sum(release, *event)
    assert low <= int(views.event_total(views.true_views(), *event)) <= high
    assert absent > 0
    assert stated < float(total.mean())  # absent days had views, too


@pytest.mark.system
@pytest.mark.skipif(not CYCLONES.is_file(), reason="the views of cyclone pages are not here")
def test_a_cyclone_that_was_seen_under_two_laws():
    pages, event = ["Cyclone Freddy", "Cyclone Gabrielle"], ("Cyclone Freddy", "2023-02-06", "2023-03-25")
    release = views.read_release(CYCLONES, pages, "2023-02-01", "2023-03-25")
    assert [own.law.below for own in release.measurements] == [451, 90]
    stated, absent = views.published_sum(release, *event)
    assert (stated, absent) == (21_028, 15)
    with views.build_model(release):
        tree = bdp.sample(150, tune=150, nuts_sampler="pymc", **SAMPLER)
    x = tree["posterior"].dataset["x"]
    low, high = views.event_total(x, *event).quantile([0.05, 0.95]).values
    # Noise of 33 days has a standard deviation of 105; 15 absent days have from 0 to about 90 views each.
    assert stated - 2 * 105 < low < high < stated + 2 * 105 + 15 * 90
    assert 300 < high - low < 1000
    absent_days = x.sel(page_name="Cyclone Freddy", date=slice("2023-02-06", "2023-02-17"))
    assert float(absent_days.quantile(0.99)) < 150
    assert float(x.sel(page_name="Cyclone Freddy", date="2023-02-05").quantile(0.9)) > 150  # under 451 that day
