"""Views of Wikipedia's pages by day: the file, the laws of its days, what absent days say, and the total of an event."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import numpy as np
import pytest

import bayesdp as bdp

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", ROOT.parent / "shared/data"))
CYCLONES = SHARED / "wikimedia_dp/australia_cyclones.csv"
SAMPLER = {"chains": 2, "cores": 1, "random_seed": 1, "quiet": True, "progressbar": False, "nuts_sampler": "pymc"}


@pytest.fixture(scope="module")
def views():
    spec = importlib.util.spec_from_file_location("page_views", ROOT / "models/page_views.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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


def test_the_file_that_is_written_has_what_is_above_the_threshold(views, tmp_path):
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
def test_the_total_of_an_event_holds_the_truth(views):
    release, event = views.make_release(seed=7), ("A storm", "2023-02-03", views.LAST)
    with views.build_model(release):
        tree = bdp.sample(200, tune=300, **SAMPLER)
    total = views.event_total(tree["posterior"].dataset["x"], *event)
    low, high = total.quantile([0.005, 0.995]).values
    stated, absent = views.published_sum(release, *event)
    assert low <= int(views.event_total(views.true_views(), *event)) <= high
    assert absent > 0
    assert stated < float(total.mean())  # absent days had views, too


@pytest.mark.system
@pytest.mark.skipif(not CYCLONES.is_file(), reason="the views of cyclone pages are not here")
def test_a_cyclone_that_was_seen_under_two_laws(views):
    pages, event = ["Cyclone Freddy", "Cyclone Gabrielle"], ("Cyclone Freddy", "2023-02-06", "2023-03-25")
    release = views.read_release(CYCLONES, pages, "2023-02-01", "2023-03-25")
    assert [own.law.below for own in release.measurements] == [451, 90]
    stated, absent = views.published_sum(release, *event)
    assert (stated, absent) == (21_028, 15)
    with views.build_model(release):
        tree = bdp.sample(300, tune=300, **SAMPLER)
    x = tree["posterior"].dataset["x"]
    low, high = views.event_total(x, *event).quantile([0.05, 0.95]).values
    # Noise of 33 days has a standard deviation of 105; 15 absent days have from 0 to about 90 views each.
    assert stated - 2 * 105 < low < high < stated + 2 * 105 + 15 * 90
    assert 300 < high - low < 1000
    absent_days = x.sel(page_name="Cyclone Freddy", date=slice("2023-02-06", "2023-02-17"))
    assert float(absent_days.quantile(0.99)) < 150
    assert float(x.sel(page_name="Cyclone Freddy", date="2023-02-05").quantile(0.9)) > 150  # under 451 that day
