"""The scripts of docs/how-to/posterior-for-r.md, run by R where it is: from tables to a posterior, to `posterior`, to pictures."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.storage import read_draws
from tests.docs.test_how_to import GUIDES, ROOT, fenced

PACKAGES = ("posterior", "ncdf4", "jsonlite")
FEWER = 'c("fit", "--cores", "1", "--draws", "400", "--tune", "200", '
pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def r():
    """Runs a script in a folder; the test is skipped where R or one of its packages is not."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed: apt-get install r-base-core " + " ".join(f"r-cran-{own}" for own in PACKAGES))

    def run(script, folder):
        (folder / "script.R").write_text(script, encoding="utf-8")
        paths = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            ["Rscript", "script.R"], cwd=folder, env=os.environ | paths, capture_output=True, text=True, timeout=300
        )

    return run


def test_from_r_to_a_posterior_and_back(r, tmp_path):
    asked = f"cat(setdiff(c{PACKAGES}, rownames(installed.packages())))"
    missing = r(asked, tmp_path).stdout
    if missing:
        pytest.skip(f"R has no package {missing}")
    from_csv, write, read, _ = fenced(GUIDES / "posterior-for-r.md", "r")
    command = tmp_path / "bayesdp"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bayesdp "$@"\n')
    command.chmod(0o755)
    shorter = write.replace('c("fit", ', FEWER)
    assert shorter != write
    for script in (shorter, read):
        done = r(script, tmp_path)
        assert done.returncode == 0, done.stderr
    release = bdp.Release.from_csv(tmp_path / "counts.csv")
    assert release.measurements[0].law == bdp.noise.DiscreteGaussian(4.0)
    assert release.measurements[0].values.tolist() == [31, 18, 52]
    assert [int(own.values) for own in release.exact] == [105]
    # What R computes of the draws is what we compute of them: packages with nothing in common but the papers.
    tree = read_draws(tmp_path / "posterior.nc")
    x, ours = tree["posterior"]["x"], tree["diagnostics"].to_dataset()
    theirs = pd.read_csv(tmp_path / "summary.csv", index_col=0)
    assert list(theirs.index) == [f"x[{label}]" for label in x["county"].values]
    np.testing.assert_allclose(theirs["mean"], x.mean(("chain", "draw")), rtol=1e-12)
    np.testing.assert_allclose(theirs["2.5%"], x.quantile(0.025, ("chain", "draw")), rtol=1e-12)
    for name in ("rhat", "ess_bulk", "ess_tail"):
        np.testing.assert_allclose(theirs[name], ours[f"x_{name}"], rtol=1e-6)
    for name in ("intervals.png", "share.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")
        assert (tmp_path / name).stat().st_size > 2_000
    # The page's other way, from Python by CSV; and a table of two dimensions by netCDF, cell by cell.
    x.to_dataframe().reset_index().to_csv(tmp_path / "draws.csv", index=False)
    done = r(from_csv, tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(label in done.stdout for label in ("ess_tail", *x["county"].values))
    values = np.random.default_rng(1).poisson(30.0, (2, 5, 2, 3))
    labels = {"county": ["a", "b"], "age": ["0", "1", "2"]}
    two = xr.DataArray(values, dims=("chain", "draw", *labels), coords=labels, name="x")
    xr.DataTree.from_dict({"/posterior": two.to_dataset()}).to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    function = read[: read.index("draws <- read_draws")]
    more = (
        function + 'd <- read_draws("posterior.nc"); cat(posterior::variables(d), d[2, 1, "x[b,0]"], d[5, 2, "x[a,2]"])'
    )
    cells = "x[a,0] x[b,0] x[a,1] x[b,1] x[a,2] x[b,2]"
    assert r(more, tmp_path).stdout == f"{cells} {values[0, 1, 1, 0]} {values[1, 4, 0, 2]}"
