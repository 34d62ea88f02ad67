"""``bayesdp fit`` of tables whose draws do not fit in memory, and ``--cell-by-cell``."""

import json

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.inference import memory
from tests.cli.conftest import failed

TABLE = {"county": list("ABC"), "sex": ["f", "m"]}
NOISY = bdp.Measured(bdp.Identity(TABLE), [[12, 3], [-2, 40], [7, 7]], bdp.noise.DiscreteGaussian(4.0))


@pytest.fixture
def files(run):
    """A release of noisy cells, and one with an exact total, in the folder of the test."""
    bdp.Release.from_published(TABLE, [NOISY]).to_netcdf("cells.nc")
    bdp.Release.from_published(TABLE, [NOISY], [bdp.Exact(bdp.Totals(TABLE), 70)]).to_netcdf("exact.nc")
    later = bdp.Measured(NOISY.query, NOISY.values + 1, NOISY.law)
    bdp.Release.from_published(TABLE, [later]).to_netcdf("later.nc")
    return run


def test_asked_for(files):
    result = files(
        "fit", "cells.nc", "--cell-by-cell", "--hyper", "shape=0.5", "--seed", "1", "--draws", "300", "-o", "x.nc"
    )
    assert result.status == 0
    assert (
        "300 independent draws of 3 totals and margins, and the posterior of each cell, written to x.nc" in result.out
    )
    assert "Computed, not sampled" in result.out
    release = bdp.Release.from_netcdf("cells.nc")
    mean = bdp.priors.published_mean(release)
    wanted = bdp.fit_cells(release, FixedNegativeBinomial(mean, 0.5), draws=1)
    with xr.open_datatree("x.nc") as tree:
        np.testing.assert_allclose(tree["cells"]["mean"], wanted["cells"]["mean"], rtol=1e-12)
        assert tree.attrs["command"].startswith("bayesdp fit cells.nc --cell-by-cell")
        assert tree.attrs["prior"].startswith("independent: ")
    summary = files("summary", "x.nc")
    assert summary.status == 0
    assert "posterior of cells (cells), computed: mean" in summary.out
    margin = files("summary", "x.nc", "--query", "margins:county", "--format", "json")
    assert margin.status == 0
    told = json.loads(margin.out)
    assert (told["chains"], told["draws"], told["converged"]) == (0, 300, True)
    assert [row["ess_bulk"] for row in told["rows"]] == [300.0] * 3
    for options in (("--query", "total"), ("--sum", "total")):
        assert "300 independent draws" in files("summary", "x.nc", *options).out
    assert files("report", "x.nc", "-o", "report.html").status == 0


def test_used_where_draws_do_not_fit_and_said_so(files, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 400_000)
    result = files("fit", "cells.nc", "--draws", "1000", "--seed", "1", "-o", "x.nc")
    assert result.status == 0
    assert "need about 0.8 MB of memory, and 0.4 MB are available. So nothing was sampled." in result.out
    assert "the posterior of each cell, written to x.nc" in result.out
    # Where it is no way out, the message says why, and where to go.
    for options, why in (
        (("exact.nc",), "grand total is exact, which ties cells together"),
        (("cells.nc", "--prior", "log-linear"), "only the prior 'independent' has a posterior cell by cell"),
        (("cells.nc", "--resume"), "leave out --resume"),
        (("cells.nc", "later.nc", "--change"), "and --change was given"),
    ):
        refused = files("fit", *options, "-o", "y.nc")
        failed(refused)
        for words in ("MB of memory", "--draws", "--no-memory-check", why):
            assert words in refused.err
        if "--resume" not in options:
            for door in ("bdp.fit_hierarchy", "bdp.gls", "docs/how-to/large-table.md"):
                assert door in refused.err


def test_wrong_input(files):
    for options, why in (
        (("exact.nc",), "error: release has no posterior cell by cell: grand total is exact"),
        (("cells.nc", "--prior", "shares"), "only the prior 'independent'"),
        (("cells.nc", "--hyper", "shape=-1"), "shape must be"),
        (("cells.nc", "--hyper", "spread=1"), "no hyperparameter 'spread'"),
        (("cells.nc", "--draws", "0"), "--draws"),
        (
            ("cells.nc", "cells.nc", "--change"),
            "only the prior 'independent' has a posterior cell by cell, and --change was given",
        ),
        (("cells.nc", "--model", "model.py"), "and --model was given"),  # which is not run
        (
            ("cells.nc", "--resume"),
            "error: --cell-by-cell: a posterior cell by cell is computed anew, in seconds: leave out --resume",
        ),
    ):
        refused = files("fit", *options, "--cell-by-cell", "-o", "x.nc")
        failed(refused)
        assert len(refused.err.strip().splitlines()) == 1
        assert why in refused.err
        assert "Traceback" not in refused.err
