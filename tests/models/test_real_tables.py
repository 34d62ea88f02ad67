"""Models of tables that offices published: predictions of what was left out, and views of pages under two laws."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import bayesdp as bdp


@pytest.fixture(scope="module")
def work():
    return import_module("models.working_population")


LAW = bdp.noise.CellKey(max_deviation=3, variance_at_most=9.0, not_smaller_than=3)


def toy(larger):
    frame = bdp.Frame.of({"SA3": ["11", "12"], "sex": ["M", "F"], "SA4": ("SA3", ["1", "1"])})
    parts = [
        (bdp.Identity(frame), [[40, 0], [30, 9]]),
        (bdp.Margins(frame, ["SA3"]), [40, 38]),
        (bdp.Margins(frame, ["SA4", "sex"]), [larger]),
    ]
    return bdp.Release.from_published(frame, [bdp.Measured(query, values, LAW) for query, values in parts])


def test_predictions_of_a_table_that_is_known(work):
    """Given the counts, a number is uniform within 3 of its count; about the same people, it is that which was published."""
    given, hidden = work.leave_out(toy([71, 9]), "SA4")
    assert [own.query.dims for own in given.measurements] == [("SA3", "sex"), ("SA3",)]
    counts = np.array([[[41, 0], [29, 10]]] * 5)
    for level, half in ((0.5, 2), (0.9, 3)):  # of 7 numbers: quantiles .25 and .75, .05 and .95
        own = work.predict(given, hidden, counts, level)
        assert own["lower"].values.tolist() == [70 - half, 9]
        assert own["upper"].values.tolist() == [70 + half, 9]
        np.testing.assert_allclose(own["probability"].values, [(2 * half + 1) / 7, 1], rtol=1e-9)
        assert own["held"].values.tolist() == [True, True]
    assert not work.predict(given, work.leave_out(toy([74, 9]), "SA4")[1], counts, 0.9)["held"].values[0]


def test_sums_by_hand(work):
    """Two published parts and a whole: the law of three deviations, 343 equally likely cases."""
    given, hidden = work.leave_out(toy([71, 9]), "SA4")
    own = work.by_hand(given, hidden, 0.9)
    cases = np.add.outer(np.add.outer(np.arange(-3, 4), np.arange(-3, 4)), np.arange(-3, 4)).reshape(-1)
    low, high = np.quantile(cases, [0.05, 0.95], method="inverted_cdf")
    assert own["lower"].values.tolist() == [70 + low, 9 + low]
    assert own["upper"].values.tolist() == [70 + high, 9 + high]
    np.testing.assert_allclose(own["probability"], np.mean((low <= cases) & (cases <= high)), rtol=1e-12)
    assert own["smallest"].values.tolist() == [30, 0]


@pytest.mark.slow
def test_totals_of_electorates_that_were_left_out():
    """Totals of both sexes and of all electorates, of which the posterior has seen none: in intervals of 50, 90 and 95 %."""
    electorates = import_module("models.electorates")
    given, hidden = electorates.leave_out(bdp.datasets.statsnz_age_by_sex("general"), 1, 4, 5, 7)
    with electorates.build_model(given, variation=0.4):
        tree = bdp.sample(
            250, tune=250, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True, fiber_gibbs={"sweeps": 5}
        )
    draws = tree["posterior"].dataset["x"].values
    for level in (0.5, 0.9, 0.95):
        own = electorates.predict(hidden, draws.reshape(-1, *draws.shape[2:]), level)
        p = own["probability"].values
        # As if numbers were independent: false alarms below 1 %.
        assert abs(own["held"].values.sum() - p.sum()) <= 3 * np.sqrt((p * (1 - p)).sum()) + 1


@pytest.fixture(scope="module")
def views():
    return import_module("models.page_views")


FILE = """page_name,date,views
Storm,2023-02-04,451
Other,2023-02-04,800
Storm,2023-02-07,90
Other,2023-02-08,120
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "views.csv"
    path.write_text(FILE)
    return path


def test_each_day_has_its_law_and_absent_days_are_under_its_threshold(views, file):
    release = views.read_release(file, ["Storm"], "2023-02-04", "2023-02-08")
    before, after = release.measurements
    assert before.law == bdp.noise.Censored(bdp.noise.DiscreteLaplace(b=30.0), below=451)
    assert after.law.uncensored.sigma == pytest.approx(np.sqrt(10 / (2 * 0.015)))
    assert after.law.below == 90  # a line that is equal to the threshold was published
    assert before.unmeasured.tolist() == [[False, False, True, True, True]]
    assert after.unmeasured.tolist() == [[True, True, False, False, False]]
    np.testing.assert_array_equal(before.published[0, :2], [451, np.nan])
    np.testing.assert_array_equal(after.published[0, 2:], [np.nan, 90, np.nan])
    assert views.published_sum(release, "Storm", "2023-02-04", "2023-02-08") == (541, 3)
    assert release.exact == ()


def test_absent_days_that_were_no_candidates_have_at_most_150_views(views, file):
    release = views.read_release(file, ["Storm"], "2023-02-04", "2023-02-08", absent="no candidate")
    assert [own.unmeasured.sum() for own in release.measurements] == [4, 4]
    (bound,) = release.exact
    assert bound.sign == "<="
    assert bound.values.tolist() == [150] * 3
    with pytest.raises(ValueError, match="absent must be 'under' or 'no candidate', got 'zero'"):
        views.read_release(file, ["Storm"], "2023-02-04", "2023-02-08", absent="zero")
    with pytest.raises(ValueError, match=r"no line of the pages \['Nothing'\]"):
        views.read_release(file, ["Nothing"], "2023-02-04", "2023-02-08")
