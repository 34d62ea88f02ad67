"""``bayesdp import`` of several noisy files: each becomes a measurement of the right query with its own law."""

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from bayesdp.measurements import Measured
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from bayesdp.queries import Identity, Margins, Totals
from bayesdp.release import Release
from tests.cli.conftest import LAW as CELLS
from tests.cli.conftest import NOISY, failed
from tests.storage.examples import EXAMPLES

SUMS = ("--noisy", "sums.csv", "--law", "discrete-laplace b=2")


@pytest.fixture
def imported(run):
    def call(*options):
        return run("import", "noisy.csv", *options, "-o", "release.nc", "--force")

    return call


def test_margins_totals_and_a_second_table(imported):
    Path("sums.csv").write_text("county,education,total\nBeta,,31\nAlpha,,-1\nGamma,,11\n,High,20\n,Low,37\n,,55\n")
    Path("again.csv").write_text(NOISY.replace("14", "15"))
    wider = ("--noisy", "again.csv", "--law", "discrete-gaussian sigma=9")
    result = imported(*CELLS, *SUMS, *wider, "--exact", "margins.csv")
    assert result.status == 0, result.err
    release = Release.from_netcdf("release.nc")
    frame = release.frame
    laplace = DiscreteLaplace(2.0)
    cells = [[14, -2], [23, 9], [2, 6]]
    assert release.measurements == (
        Measured(Identity(frame), cells, DiscreteGaussian(5.0)),
        Measured(Margins(frame, ["county"]), [-1, 31, 11], laplace),
        Measured(Margins(frame, ["education"]), [37, 20], laplace),
        Measured(Totals(frame), 55, laplace),
        Measured(Identity(frame), [[15, -2], [23, 9], [2, 6]], DiscreteGaussian(9.0)),
    )
    assert len(release.exact) == 2


def test_groups_of_the_table_label_other_files_too(imported):
    Path("noisy.csv").write_text("state,county,count\nIL,Adams,14\nIL,Cook,20\nIN,Lake,-3\n")
    Path("sums.csv").write_text("state,total\nIN,5\nIL,30\n")
    Path("again.csv").write_text("county,state,count\nLake,IN,1\nCook,IL,2\nAdams,IL,3\n")
    grouped = ("--group", "state=county", *CELLS, *SUMS, "--noisy", "again.csv", *CELLS)
    result = imported(*grouped)
    assert result.status == 0, result.err
    frame = Release.from_netcdf("release.nc").frame
    _, sums, again = Release.from_netcdf("release.nc").measurements
    assert sums == Measured(Totals(frame, "state"), [30, 5], DiscreteLaplace(2.0))
    np.testing.assert_array_equal(again.values, [3, 2, 1])
    Path("again.csv").write_text("county,state,count\nLake,IL,1\nCook,IL,2\nAdams,IL,3\n")
    failed(imported(*grouped), "again.csv, line 2, column 'state': state of county=Lake is 'IN', got 'IL'")


def test_wide_and_netcdf_tables(imported):
    Path("noisy.csv").write_text("county,Low,High\nAlpha,15,1\nBeta,20,10\n")
    Path("again.csv").write_text("county,High,Low\nBeta,11,21\nAlpha,2,16\n")
    labels = {"county": ["Beta", "Alpha"], "education": ["Low", "High"]}
    table = xr.DataArray([[3, 4], [5, 6]], dims=list(labels), coords=labels, name="n")
    table.to_netcdf("third.nc", engine="h5netcdf")
    wide = ("--dims", "county,education", *CELLS)
    result = imported(*wide, "--noisy", "again.csv", *CELLS, "--noisy", "third.nc", *CELLS)
    assert result.status == 0, result.err
    _, again, third = Release.from_netcdf("release.nc").measurements
    np.testing.assert_array_equal(again.values, [[16, 2], [21, 11]])
    np.testing.assert_array_equal(third.values, [[5, 6], [3, 4]])
    table.assign_coords(county=["Beta", "Omega"]).to_netcdf("third.nc", engine="h5netcdf")
    failed(imported(*wide, "--noisy", "third.nc", *CELLS), "third.nc", "'Omega'")


def test_margins_alone_under_a_table_that_has_labels_only(imported):
    Path("noisy.csv").write_text("county,count\nAlpha,\nBeta,\n")
    Path("sums.csv").write_text("total\n12\n")
    assert imported(*SUMS, "--unmeasured", "blank").status == 0
    [only] = Release.from_netcdf("release.nc").measurements
    assert only == Measured(Totals(only.query.frame), 12, DiscreteLaplace(2.0))
    failed(imported(*CELLS, *SUMS, "--unmeasured", "blank"), "noisy.csv: it holds no number, so it has no law")


def test_sums_that_were_not_published(imported):
    Path("sums.csv").write_text("county,total\nAlpha,12\nBeta,\nGamma,3\n")
    failed(imported(*CELLS, *SUMS), "sums.csv: no number for county=Beta.", "--unmeasured 'county=Beta' for one")
    assert imported(*CELLS, *SUMS, "--unmeasured", "county=Beta").status == 0
    assert Release.from_netcdf("release.nc").measurements[1].unmeasured.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("sums", "options", "words"),
    [
        ("county,total\nAlpha,1\nBetta,2\nGamma,3\n", (*CELLS, *SUMS), ["sums.csv, line 3, column 'county': 'Betta' is no"]),
        ("county,total\nAlpha,1\nBeta,2\n", (*CELLS, *SUMS), ["sums.csv: the margin by 'county' is not complete", "Gamma"]),
        ("region,total\nN,1\n", (*CELLS, *SUMS), ["sums.csv: the column 'region' is neither a dimension nor"]),
        ("total\n1.5\n", (*CELLS, *SUMS), ["sums.csv: values must be whole numbers", "total is 1.5"]),
        ("total\n1\n", (*CELLS, "--noisy", "sums.csv"), ["sums.csv has no law: write --law after it"]),
        ("total\n1\n", SUMS, ["noisy.csv has no law: write --law '...' before any --noisy"]),
        ("total\n1\n", (*CELLS, *CELLS, *SUMS), ["noisy.csv has two laws", "--law belongs to the file before it"]),
        ("total\n1\n", (*SUMS, *CELLS), ["sums.csv has two laws"]),
        ("total\n1\n", (*CELLS, "--noisy", "none.csv", *CELLS), ["there is no file 'none.csv'"]),
        ("county,education,total\nAlpha,,1\nBeta,,1\nGamma,,1\n,Low,1\n,High,2\n",
         (*CELLS, "--noisy", "sums.csv", "--law", "projected-gaussian sigma=3"),
         ["sums.csv holds 2 margins", "ties the noise of answers together"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(sums, options, words, imported):
    Path("sums.csv").write_text(sums)
    failed(imported(*options), *words)
    assert not Path("release.nc").exists()


@pytest.mark.parametrize("name", ["several", "scalar"])
def test_data_and_noise_make_the_release(name, run):
    release = EXAMPLES[name]()
    release.to_csv("DATA.csv", noise="noise.json")
    result = run("import", "DATA.csv", "--noise", "noise.json", "-o", "release.nc")
    assert result.status == 0, result.err
    assert "written to release.nc" in result.out
    assert Release.from_netcdf("release.nc") == release


def test_errors_are_one_line(run):
    EXAMPLES["lattice"]().to_csv("DATA.csv")
    noise = ("--noise", "DATA.noise.json")
    failed(run("import", "DATA.csv", "--noise", "none.json", "-o", "r.nc"), "there is no file 'none.json'")
    failed(run("import", "none.csv", *noise, "-o", "r.nc"), "there is no file 'none.csv'")
    failed(
        run("import", "DATA.csv", "--law", "laplace b=1", *noise, "--exact", "m.csv", "--ignore", "x", "-o", "r.nc"),
        "--noise says what the file is, so leave out --law or --noisy, --exact, --ignore; or correct DATA.noise.json",
    )
    failed(run("import", "DATA.csv", *noise, "--postprocessing", "clipped", "-o", "r.nc"), "leave out --postprocessing")
    plain = json.loads(Path("DATA.noise.json").read_text())
    plain["measured"][0]["law"]["epsilon"] = -1
    Path("DATA.noise.json").write_text(json.dumps(plain))
    failed(run("import", "DATA.csv", *noise, "-o", "r.nc"), "DATA.noise.json: $.measured[0].law: ", "epsilon must be")
    assert not Path("r.nc").exists()
