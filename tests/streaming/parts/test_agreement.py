"""Part by part, the posterior is that of the whole release in one: on real counts of two countries."""

import os
from pathlib import Path

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from benchmarks.national_hierarchy import make_release, with_groups

SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", Path(__file__).parents[4] / "shared/data"))
CENSUS = SHARED / "census2010_us_counties.csv"
pytestmark = pytest.mark.slow


def _agreed(release, level, query, **more):
    """A fit by parts, whose means and widths of cells and of answers of a query are those of the whole, in standard errors."""
    prior = FixedNegativeBinomial(mean=3_000.0, shape=0.5)
    parts, top = split(release, level)
    run = {"draws": 300, "tune": 60, "quiet": True}
    found = bdp.fit_parts(parts, prior, top=top, record={"sums": query(top.frame)}, random_seed=1, **run, **more)
    one = bdp.fit_hierarchy(release, prior, record={"sums": query(release.frame)}, random_seed=2, **run)
    whole, unit, apart = one["cells"].to_dataset(), release.frame.dims[0], []
    for label in parts:
        cells = found[f"parts/{label}/cells"].to_dataset()
        same = whole.sel({unit: cells[unit]})
        assert np.isfinite(cells["ess"]).mean() > 0.9
        error = np.sqrt(cells["sd"] ** 2 / cells["ess"] + same["sd"] ** 2 / same["ess"])
        ratio, of_ratio = np.log(cells["sd"] / same["sd"]), np.sqrt(0.5 / cells["ess"] + 0.5 / same["ess"])
        apart.append([own.values.reshape(-1) for own in ((cells["mean"] - same["mean"]) / error, ratio, of_ratio)])
    cells, ratio, error = np.concatenate(apart, axis=1)
    assert abs(np.nanmedian(ratio)) < 0.03
    assert (
        np.nanmax(np.abs(ratio / error)) < 6.0
    )  # draws of a normal law; those of squares mix faster than those of means
    sums, ours = found["posterior"]["sums"], one["posterior"]["sums"].transpose(*found["posterior"]["sums"].dims)
    ess = found["diagnostics"]["sums_ess_bulk"], one["diagnostics"]["sums_ess_bulk"]
    error = np.sqrt(sums.var(("chain", "draw")) / ess[0] + ours.var(("chain", "draw")) / ess[1])
    # The widths of sums over all parts, too: what a coupling that is left out would change.
    wide = np.log(sums.std(("chain", "draw")) / ours.std(("chain", "draw"))) / np.sqrt(0.5 / ess[0] + 0.5 / ess[1])
    assert np.abs(wide).max() < 5.0
    apart = (sums.mean(("chain", "draw")) - ours.mean(("chain", "draw"))) / error
    # Standard errors from estimated effective sizes are rough: five of them, and one and a quarter on the whole.
    cells = cells[np.isfinite(cells)]
    assert np.abs(cells).max() < 6.0
    assert np.sqrt(np.mean(cells**2)) < 1.25
    assert np.abs(apart).max() < 5.0
    return found


def test_communes_of_morocco_region_by_region():
    truth = with_groups(bdp.datasets.morocco_communes(), ["a", "b"], seed=1)
    release = make_release(truth, ["province", "region"], "region", rho=0.05)
    found = _agreed(release, "region", lambda frame: bdp.Margins(frame, ["region", "group"]))
    assert found.attrs["coupled"] == '["by_group"]'
    assert len(found["parts"].children) == 12
    parts, top = split(release, "region")
    [above] = top.measurements
    own = [bdp.gls(part, part.frame.dims[0]).sd(bdp.Margins(part.frame, ["group"])) for part in parts.values()]
    alone = np.square(own).sum(axis=0)
    share = alone / (alone + above.law.variance(above.query.shape))
    assert (share > 0.1).all(), share  # what is above the regions matters for the total


@pytest.mark.skipif(not CENSUS.is_file(), reason="no file of the 2010 Census; BAYESDP_SHARED_DATA names its folder")
def test_counties_of_the_united_states_state_by_state_on_a_cluster():
    distributed = pytest.importorskip("distributed")
    truth = with_groups(bdp.datasets.read_county_populations(CENSUS), ["a", "b"], seed=1)
    release = make_release(truth, ["state"], "state", rho=0.05)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        found = _agreed(release, "state", lambda frame: bdp.Margins(frame, ["group"]), client=client, phase=3)
    assert len(found["parts"].children) == 51
