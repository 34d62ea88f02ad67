"""What notebook 08 counts: cells of households hold all that is measured, and estimates are those of the truth where noise is none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.datasets import read_nmf, write_synthetic_nmf
from notebooks.measurement_files import CELLS, comparisons, estimates, households

LESSON = Path(__file__).resolve().parents[2] / "models" / "redistricting.py"


def _lesson():
    spec = importlib.util.spec_from_file_location("redistricting", LESSON)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def precise(tmp_path_factory):
    """A county measured with next to no noise, and its truth."""
    lesson = _lesson()
    county = lesson.make_county(3, tracts=2, groups=1, blocks=3, dormitories=0.0)
    folder = tmp_path_factory.mktemp("county")
    write_synthetic_nmf(folder, county, variance=0.02, rng=1)
    total = sum(int(own.sum()) for own in county.values())
    release = lesson.read_county(folder, total)
    return lesson, county, release


def test_households_have_every_measurement_and_the_total(precise):
    lesson, county, release = precise
    smaller, truth = households(release), lesson.true_table(release, county)[:, 0]
    assert smaller.frame.dims == ("block", *CELLS)
    assert len(smaller.measurements) == len(release.measurements) == 44
    for own in smaller.measurements:  # sigma**2 of 1/50: an error of one person has a probability of 1e-11
        assert np.array_equal(own.query.apply(truth), own.values)
    assert int(smaller.exact[0].values) == truth.sum()


def test_people_in_group_quarters_are_refused(tmp_path):
    lesson = _lesson()
    county = lesson.make_county(3, tracts=1, groups=1, blocks=2, dormitories=1.0)
    write_synthetic_nmf(tmp_path, county, rng=1)
    release = read_nmf(tmp_path, "05010001", levels=["County", "Block"]).release
    with pytest.raises(ValueError, match="people may live in group quarters"):
        households(release)


def test_every_method_finds_the_truth_where_there_is_no_noise(precise):
    lesson, county, release = precise
    smaller, truth = households(release), lesson.true_table(release, county)[:, 0]
    draws = xr.DataArray(np.broadcast_to(truth, (2, 3, *truth.shape)), dims=("chain", "draw", *smaller.frame.dims))
    tree = xr.DataTree.from_dict({"posterior": xr.Dataset({"people": draws})})
    found = pd.concat(estimates(smaller, truth, tree))
    assert set(found["method"]) == {"posterior", "GLS", "noisy", "TopDown-like"}
    assert set(zip(found["level"], found["quantity"], strict=True)) == {
        (level, quantity) for level in ("block", "block_group", "tract") for quantity in ("cell", "total", "share")
    }
    counts = found[found["quantity"] != "share"]
    np.testing.assert_allclose(counts["estimate"], counts["truth"], atol=0.05)
    shares = found[(found["quantity"] == "share") & (found["truth"] > 0)]
    np.testing.assert_allclose(shares["estimate"], shares["truth"], atol=0.02)
    own = found[found["method"] == "posterior"]
    assert ((own["lower"] == own["truth"]) & (own["upper"] == own["truth"])).all()
    more = pd.concat(comparisons(smaller, truth, tree))
    assert (more["truth"] == (more["probability"] > 0.5)).all()
    black, hispanic = truth[:, 1, 0, 1], truth[:, 1, 1].sum(axis=-1)
    assert more[(more["level"] == "block") & (more["method"] == "posterior")]["truth"].tolist() == (
        (hispanic > black).tolist()
    )
    assert bdp.gls(smaller, "block").levels[0] == "block"
