"""``bayesdp report``: the command around `bayesdp.report`, whose page has its own tests."""

from pathlib import Path

import pytest
import xarray as xr

from tests.cli.conftest import failed
from tests.cli.test_summary import tree


@pytest.mark.parametrize(("converged", "status"), [(1, 0), (0, 3)])
def test_a_report_is_written_and_tells_the_status(converged, status, run):
    own = tree(converged=converged)
    free = own["posterior"]["x"].isel(chain=0, draw=0, drop=True) * float("nan")
    found = {f"x_{name}": free for name in ("ess_bulk", "ess_tail", "rhat")}  # the page wants to see them
    own["diagnostics"] = xr.DataTree(own["diagnostics"].to_dataset().assign(found))
    own.to_netcdf("posterior.nc", engine="h5netcdf")
    Path("truth.csv").write_text("county,count\nAdams,10\nCook,20\nLake,5\n")
    result = run("report", "posterior.nc", "--title", "Counties <1>", "--truth", "truth.csv", "-o", "report.html")
    assert result.status == status, result.err
    assert "Counties &lt;1&gt;" in Path("report.html").read_text()
    assert ("Do not report these results. R-hat up to 1.2" in result.err) is (status == 3)
    failed(run("report", "posterior.nc", "-o", "report.html"), "exists already")
    assert run("report", "posterior.nc", "-o", "report.html", "--force").status == status


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("missing.nc -o r.html", "there is no file 'missing.nc'"),
        ("noisy.csv -o r.html", "no netCDF-4 file"),
        ("noisy.csv -o r.pdf", "to an .html file, got 'r.pdf'"),
        ("noisy.csv -o r.html --prob 95", "--prob"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, words, run):
    failed(run("report", *arguments.split()), words)
