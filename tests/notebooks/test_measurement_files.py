"""What notebook 08 counts."""

import itertools

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.datasets import read_nmf, write_synthetic_nmf
from benchmarks.calibration.counties import COLUMNS
from models import redistricting as lesson
from notebooks.measurement_files import CELLS, comparisons, coverage_of_counties, estimates, households


@pytest.fixture(scope="module")
def precise(tmp_path_factory):
    county = lesson.make_county(3, tracts=2, groups=1, blocks=2, dormitories=0.0)
    folder = tmp_path_factory.mktemp("county")
    write_synthetic_nmf(folder, county, variance=0.02, rng=1)
    release = lesson.read_county(folder, sum(int(own.sum()) for own in county.values()))
    return households(release), lesson.true_table(release, county)[:, 0], len(release.measurements)


def test_households_have_every_measurement_and_the_total_and_people_in_group_quarters_are_refused(precise, tmp_path):
    smaller, truth, count = precise
    assert smaller.frame.dims == ("block", *CELLS)
    assert len(smaller.measurements) == count == 44
    for own in smaller.measurements:  # sigma**2 of 1/50: an error of one person has a probability of 1e-11
        assert np.array_equal(own.query.apply(truth), own.values)
    assert int(smaller.exact[0].values) == truth.sum()
    county = lesson.make_county(3, tracts=1, groups=1, blocks=2, dormitories=1.0)
    write_synthetic_nmf(tmp_path, county, rng=1)
    release = read_nmf(tmp_path, "05010001", levels=["County", "Block"]).release
    with pytest.raises(ValueError, match="people may live in group quarters"):
        households(release)


def test_every_method_finds_the_truth_where_there_is_no_noise(precise):
    smaller, truth, _ = precise
    draws = xr.DataArray(np.broadcast_to(truth, (2, 3, *truth.shape)), dims=("chain", "draw", *smaller.frame.dims))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"people": draws})})
    found = pd.concat(estimates(smaller, truth, tree))
    assert set(found["method"]) == {"posterior", "GLS", "noisy", "TopDown-like"}
    kinds = set(itertools.product(("block", "block_group", "tract"), ("cell", "total", "share")))
    assert set(zip(found["level"], found["quantity"], strict=True)) == kinds
    counts = found[found["quantity"] != "share"]
    np.testing.assert_allclose(counts["estimate"], counts["truth"], atol=0.05)
    shares = found[(found["quantity"] == "share") & (found["truth"] > 0)]
    np.testing.assert_allclose(shares["estimate"], shares["truth"], atol=0.02)
    own = found[found["method"] == "posterior"]
    assert ((own["lower"] == own["truth"]) & (own["upper"] == own["truth"])).all()
    more = pd.concat(comparisons(smaller, truth, tree))
    assert (more["truth"] == (more["probability"] > 0.5)).all()
    black, hispanic = truth[:, 1, 0, 1], truth[:, 1, 1].sum(axis=-1)
    of_blocks = more[(more["level"] == "block") & (more["method"] == "posterior")]
    assert of_blocks["truth"].tolist() == (hispanic > black).tolist()
    assert bdp.gls(smaller, "block").levels[0] == "block"


def test_coverage_has_the_standard_error_of_counties():
    """Two counties that hold 1 of 2 and 4 of 4: 5 of 6, and residuals of -2/3 and 2/3, by hand."""
    rows = [("vs", i, "tract", "share", "GLS", n, held, 0.25 * n) for i, (n, held) in enumerate([(2, 1), (4, 4)])]
    found = coverage_of_counties(pd.DataFrame(rows, columns=list(COLUMNS))).loc["share", "tract", "GLS"]
    names = ["coverage", "standard error", "root mean square error"]
    np.testing.assert_allclose(found[names].astype(float), [5 / 6, (2 * (8 / 9)) ** 0.5 / 6, 0.5], atol=1e-12)
