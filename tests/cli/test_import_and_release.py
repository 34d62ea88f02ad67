"""``bayesdp import`` and ``bayesdp release``."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.priors import PRIORS
from tests.cli.conftest import IMPORT, LAW, MARGINS, NOISY, RELEASE, failed
from tests.storage.examples import EXAMPLES

BOTH = (*RELEASE, "--invariant", "margins:education", "--norm", "l1", "-o")
WITH_MARGINS = ("import", "noisy.csv", "--exact", "margins.csv", "-o", "release.nc", "--law")


def test_from_published_files_to_a_release(run):
    result = run(*IMPORT, "release.nc")
    assert result.status == 0, result.err
    assert "law discrete-gaussian sigma=5" in result.out
    assert "written to release.nc" in result.out
    release = bdp.Release.from_netcdf("release.nc")
    county, education = bdp.Margins(release.frame, ["county"]), bdp.Margins(release.frame, ["education"])
    assert release.measurements[0].law == bdp.noise.DiscreteGaussian(sigma=5.0)
    assert release.exact == (bdp.Exact(county, [16, 30, 10]), bdp.Exact(education, [38, 18]))
    assert not release.simulated
    before = Path("release.nc").read_bytes()
    failed(run(*IMPORT, "release.nc"), "'release.nc' exists already", "--force")
    assert Path("release.nc").read_bytes() == before
    assert run(*IMPORT, "release.nc", "--force", "--simulated").status == 0
    assert bdp.Release.from_netcdf("release.nc").simulated
    assert run(*IMPORT, "release.csv", "--simulated").status == 0
    assert bdp.Release.from_csv("release.csv").simulated
    twice = ("import", "noisy.csv", *LAW, "--noisy", "./noisy.csv", *LAW, "-o", "twice.nc")
    failed(run(*twice), "./noisy.csv is given twice: its noise would be counted twice")


def test_a_search_for_a_table_that_ends_is_one_line(run, monkeypatch):
    for name in ("abc", "ab", "bc", "ac"):  # cells of 1, and their sums over one dimension
        rows = product(*(own if dim in name else [""] for dim, own in zip("abc", ("pqr", "stu", "vwx"), strict=True)))
        lines = [",".join([*row, "1" if name == "abc" else "3"]) for row in rows]
        Path(f"{name}.csv").write_text("\n".join(["a,b,c,count", *lines, ""]))
    monkeypatch.setattr("bayesdp.fibers.fiber.LONGEST", 0.0)
    exact = [word for name in ("ab", "bc", "ac") for word in ("--exact", f"{name}.csv")]
    result = run("import", "abc.csv", *exact, *LAW, "-o", "release.nc")
    failed(result, "no table was found in 0 s", "fewer exact or bounded")


def test_unmeasured_cells_must_be_stated_and_groups_and_wide_files(run):
    Path("noisy.csv").write_text("county,count\nAlpha,14\nBeta,\nGamma,\n")
    Path("margins.csv").write_text("total\n56\n")
    failed(run(*IMPORT, "release.nc"), "noisy.csv", "no number for county=Beta")
    assert run(*IMPORT, "release.nc", "--unmeasured", "blank").status == 0
    assert bdp.Release.from_netcdf("release.nc").measurements[0].unmeasured.tolist() == [False, True, True]
    failed(run(*IMPORT, "b.nc", "--unmeasured", "county=Beta"), "no number for county=Gamma")
    assert run(*IMPORT, "b.nc", "--unmeasured", "county=Beta", "--unmeasured", "county=Gamma").status == 0
    assert bdp.Release.from_netcdf("b.nc") == bdp.Release.from_netcdf("release.nc")
    Path("noisy.csv").write_text("state,county,count\nIL,Adams,14\nIL,Cook,20\nIN,Lake,-3\n")
    Path("margins.csv").write_text("state,total\nIL,30\nIN,5\n")
    assert run(*IMPORT, "groups.nc", "--group", "state=county").status == 0
    assert bdp.Release.from_netcdf("groups.nc").invariants.rank == 2
    failed(run(*IMPORT, "d.nc", "--group", "state"), "--group must be written as NAME=VALUE, got 'state'")
    Path("noisy.csv").write_text("county,Low,High\nAlpha,15,1\nBeta,20,10\n")
    Path("margins.csv").write_text("total\n46\n")
    assert run(*IMPORT, "c.nc", "--dims", "county,education").status == 0
    assert bdp.Release.from_netcdf("c.nc").dims == ("county", "education")


def test_bad_input_is_one_line_and_status_2_and_what_a_methods_note_says_is_taken(run):
    Path("few.csv").write_text(NOISY.replace("-2", "few"))
    Path("large.csv").write_text(NOISY.replace("-2", "1e300"))
    Path("more.csv").write_text(MARGINS.replace("Beta,,30", "Beta,,31"))
    Path("negative.csv").write_text(MARGINS.replace("Beta,,30", "Beta,,-30"))
    noisy, margins, law = "noisy.csv", "margins.csv", "discrete-gaussian sigma=5"
    for table, exact, own, options, *words in (
        (noisy, margins, "cauchy sigma=5", "", "unknown noise law 'cauchy'", "discrete-gaussian"),
        (noisy, margins, "two-sided geometric sigma=5", "", "no parameter 'sigma'", "b = sensitivity / epsilon"),
        ("few.csv", margins, law, "", "few.csv, line 3, column 'count': 'few' at county=Alpha, education=High"),
        ("large.csv", margins, law, "", "2**53", "county=Alpha, education=High"),
        (noisy, "more.csv", law, "", "contradict one another at total", "57", "56"),
        (
            noisy,
            "negative.csv",
            law,
            "",
            "negative.csv: no nonnegative integer table satisfies the",
            "county=Beta = -30",
        ),
        (noisy, margins, law, "--postprocessing topdown", "postprocessing is 'topdown'", "noisy measurement files"),
        (noisy, margins, law, "-o release.h5", "a .nc file, or to a .csv file with noise.json beside it"),
        (noisy, margins, law, "-o missing/release.nc", "'missing' does not exist"),
        ("missing.csv", margins, law, "", "there is no file 'missing.csv'"),
        (".", margins, law, "", "must be a .csv or .nc file"),
    ):
        failed(run("import", table, "--exact", exact, "--law", own, "-o", "release.nc", *options.split()), *words)
        assert not Path("release.nc").exists()
    assert run(*WITH_MARGINS, "two-sided geometric epsilon=0.5 sensitivity=2").status == 0
    assert bdp.Release.from_netcdf("release.nc").measurements[0].law == bdp.noise.DiscreteLaplace(4.0)
    told = run("import", "--help").out
    for words in ("laplace b=4", "gaussian sigma=5", "b = sensitivity / epsilon", "sensitivity / sqrt(2 rho)"):
        assert words in told


def test_numbers_that_were_clipped_or_rounded_and_lattice_noise_has_the_margins_as_its_invariants(run):
    # As the help and the README say: refused if it is said, a warning if the numbers show it.
    noisy = bdp.noise.DiscreteGaussian(5.0).draw(np.random.default_rng(1), (60,), location=2.0)
    lines = {"plain": noisy, "clipped": np.maximum(noisy, 0), "fives": 5 * np.rint(noisy / 5).astype(int)}
    for name, values in lines.items():
        text = "".join(f"c{i},{value}\n" for i, value in enumerate(values))
        Path(f"{name}.csv").write_text(f"county,count\n{text}")
    result = run("import", "plain.csv", *LAW, "-o", "a.nc")
    assert (result.status, result.err) == (0, "")
    for name, sign in (("clipped", "23 are exactly 0"), ("fives", "all 60 noisy numbers")):
        result = run("import", f"{name}.csv", *LAW, "-o", f"{name}.nc")
        assert (result.status, len(result.err.splitlines())) == (0, 1)
        assert f"bayesdp import: warning: {name}.csv: " in result.err
        assert sign in result.err
    stated = run("import", "clipped.csv", *LAW, "-o", "b.nc", "--postprocessing", "clipped at zero")
    failed(stated, "clipped.csv: postprocessing is 'clipped at zero'", "no longer follow the noise law")
    text = (
        "county,education,count\nAlpha,Low,18\nAlpha,High,-2\nBeta,Low,20\nBeta,High,10\nGamma,Low,0\nGamma,High,10\n"
    )
    Path("noisy.csv").write_text(text)
    result = run(*WITH_MARGINS, "lattice-laplace epsilon=0.25")
    assert result.status == 0, result.err
    assert bdp.Release.from_netcdf("release.nc").measurements[0].law == bdp.noise.LatticeLaplace(0.25)
    Path("noisy.csv").write_text(text.replace("-2", "-1"))
    told = "county=Alpha the published exact total is 16 and the noisy total is 17"
    failed(run(*WITH_MARGINS, "lattice-laplace epsilon=0.25", "--force"), "keeps its invariants", told)


def test_a_confidential_table_is_released_and_a_seed_makes_a_simulated_release_that_can_be_repeated(run):
    result = run(*BOTH, "release.nc")
    assert result.status == 0, result.err
    assert "Privacy guarantee: pure differential privacy" in result.out
    assert "SIMULATED" not in result.out
    release = bdp.Release.from_netcdf("release.nc")
    assert (release.mechanism["mechanism"], release.simulated) == ("lattice-laplace", False)
    np.testing.assert_array_equal(release.values.sum("education"), [16, 30, 10])
    for name in ("one.nc", "two.nc"):
        assert run(*BOTH, name, "--seed", "3").status == 0
    one, two = bdp.Release.from_netcdf("one.nc"), bdp.Release.from_netcdf("two.nc")
    assert (one, one.simulated, one.guarantee.simulated) == (two, True, True)


def test_bad_releases_and_usage_errors_are_one_line_too_and_help_has_an_example(run):
    for options, *words in (
        ("--epsilon 0", "epsilon"),
        ("--epsilon small", "--epsilon", "'small'"),
        ("", "lattice-laplace needs --epsilon"),
        ("--epsilon 1 --rho 1", "--rho is no parameter of lattice-laplace"),
        ("--epsilon 1 --invariant margins:age", "age"),
        ("--epsilon 1 --invariant rows", "a query is written as one of margins:DIM", "'rows'"),
        ("--epsilon 1 --invariant cells", "determine every cell"),
    ):
        failed(run(*RELEASE[:-2], *options.split(), "-o", "r.nc"), *words)
    failed(run("import", "noisy.csv"), "bayesdp import: error: the following arguments are required: -o/--output")
    failed(run("frobnicate"), "invalid choice: 'frobnicate'")
    failed(run(), "required: COMMAND")
    for command in ("import", "release", "fit", "summary", "report"):
        assert f"example:\n  bayesdp {command} " in run(command, "--help").out
    assert f"is one of those below ({', '.join(PRIORS)}), with" in run("fit", "--help").out
    assert run("--help").status == 0
    assert run("--version").out.startswith("bayesdp ")


def test_a_table_of_an_office(run):
    Path("office.csv").write_text("Title\ncounty;pop;n\nAlpha;9;1.203\nBeta;8;..\nTotal;17;2.411\n", encoding="cp1252")
    symbols = '"thousands": ".", "symbols": {"..": "suppressed"}'
    declared = f'{{"delimiter": ";", "skip_rows": 1, "encoding": "cp1252", {symbols}}}'
    command = ("import", "office.csv", *LAW, "--total", "county=Total", "-o", "release.nc")
    failed(run(*command), "office.csv: ", "the header is one column, 'Title'")
    failed(run(*command, "--declare", "delimiter=;"), "--declare is not valid JSON")
    assert run(*command, "--declare", declared, "--ignore", "pop", "--unmeasured", "blank").status == 0
    cells, total = bdp.Release.from_netcdf("release.nc").measurements
    assert (cells.values.tolist(), cells.unmeasured.tolist()) == ([1203, 0], [False, True])
    assert total.values.item() == 2411


# Several noisy files: each becomes a measurement of the right query with its own law.

SUMS = ("--noisy", "sums.csv", "--law", "discrete-laplace b=2")


@pytest.fixture
def imported(run):
    return lambda *options: run("import", "noisy.csv", *options, "-o", "release.nc", "--force")


def test_margins_totals_and_a_second_table(imported):
    Path("sums.csv").write_text("county,education,total\nBeta,,31\nAlpha,,-1\nGamma,,11\n,High,20\n,Low,37\n,,55\n")
    Path("again.csv").write_text(NOISY.replace("14", "15"))
    result = imported(
        *LAW, *SUMS, "--noisy", "again.csv", "--law", "discrete-gaussian sigma=9", "--exact", "margins.csv"
    )
    assert result.status == 0, result.err
    release, laplace = bdp.Release.from_netcdf("release.nc"), bdp.noise.DiscreteLaplace(2.0)
    frame = release.frame
    assert release.measurements == (
        bdp.Measured(bdp.Identity(frame), [[14, -2], [23, 9], [2, 6]], bdp.noise.DiscreteGaussian(5.0)),
        bdp.Measured(bdp.Margins(frame, ["county"]), [-1, 31, 11], laplace),
        bdp.Measured(bdp.Margins(frame, ["education"]), [37, 20], laplace),
        bdp.Measured(bdp.Totals(frame), 55, laplace),
        bdp.Measured(bdp.Identity(frame), [[15, -2], [23, 9], [2, 6]], bdp.noise.DiscreteGaussian(9.0)),
    )
    assert len(release.exact) == 2


def test_groups_of_the_table_label_other_files_too(imported):
    Path("noisy.csv").write_text("state,county,count\nIL,Adams,14\nIL,Cook,20\nIN,Lake,-3\n")
    Path("sums.csv").write_text("state,total\nIN,5\nIL,30\n")
    Path("again.csv").write_text("county,state,count\nLake,IN,1\nCook,IL,2\nAdams,IL,3\n")
    grouped = ("--group", "state=county", *LAW, *SUMS, "--noisy", "again.csv", *LAW)
    result = imported(*grouped)
    assert result.status == 0, result.err
    _, sums, again = bdp.Release.from_netcdf("release.nc").measurements
    assert sums == bdp.Measured(bdp.Totals(sums.query.frame, "state"), [30, 5], bdp.noise.DiscreteLaplace(2.0))
    np.testing.assert_array_equal(again.values, [3, 2, 1])
    Path("again.csv").write_text("county,state,count\nLake,IL,1\nCook,IL,2\nAdams,IL,3\n")
    failed(imported(*grouped), "again.csv, line 2, column 'state': state of county=Lake is 'IN', got 'IL'")


def test_wide_and_netcdf_tables(imported):
    Path("noisy.csv").write_text("county,Low,High\nAlpha,15,1\nBeta,20,10\n")
    Path("again.csv").write_text("county,High,Low\nBeta,11,21\nAlpha,2,16\n")
    labels = {"county": ["Beta", "Alpha"], "education": ["Low", "High"]}
    table = xr.DataArray([[3, 4], [5, 6]], dims=list(labels), coords=labels, name="n")
    table.to_netcdf("third.nc", engine="h5netcdf")
    wide = ("--dims", "county,education", *LAW)
    result = imported(*wide, "--noisy", "again.csv", *LAW, "--noisy", "third.nc", *LAW)
    assert result.status == 0, result.err
    _, again, third = bdp.Release.from_netcdf("release.nc").measurements
    np.testing.assert_array_equal(again.values, [[16, 2], [21, 11]])
    np.testing.assert_array_equal(third.values, [[5, 6], [3, 4]])
    table.assign_coords(county=["Beta", "Omega"]).to_netcdf("third.nc", engine="h5netcdf")
    failed(imported(*wide, "--noisy", "third.nc", *LAW), "third.nc", "'Omega'")


def test_margins_alone_under_a_table_that_has_labels_only_and_sums_that_were_not_published(imported):
    Path("noisy.csv").write_text("county,count\nAlpha,\nBeta,\n")
    Path("sums.csv").write_text("total\n12\n")
    assert imported(*SUMS, "--unmeasured", "blank").status == 0
    [only] = bdp.Release.from_netcdf("release.nc").measurements
    assert only == bdp.Measured(bdp.Totals(only.query.frame), 12, bdp.noise.DiscreteLaplace(2.0))
    failed(imported(*LAW, *SUMS, "--unmeasured", "blank"), "noisy.csv: it holds no number, so it has no law")
    Path("noisy.csv").write_text(NOISY)
    Path("sums.csv").write_text("county,total\nAlpha,12\nBeta,\nGamma,3\n")
    failed(imported(*LAW, *SUMS), "sums.csv: no number for county=Beta.", "--unmeasured 'county=Beta' for one")
    assert imported(*LAW, *SUMS, "--unmeasured", "county=Beta").status == 0
    assert bdp.Release.from_netcdf("release.nc").measurements[1].unmeasured.tolist() == [False, True, False]


def test_what_is_wrong_is_named(imported):
    both = "county,education,total\nAlpha,,1\nBeta,,1\nGamma,,1\n,Low,1\n,High,2\n"
    projected = ("--noisy", "sums.csv", "--law", "projected-gaussian sigma=3")
    for text, options, *words in (
        (
            "county,total\nAlpha,1\nBetta,2\nGamma,3\n",
            (*LAW, *SUMS),
            "sums.csv, line 3, column 'county': 'Betta' is no",
        ),
        ("county,total\nAlpha,1\nBeta,2\n", (*LAW, *SUMS), "sums.csv: the margin by 'county' is not complete", "Gamma"),
        ("region,total\nN,1\n", (*LAW, *SUMS), "sums.csv: the column 'region' is neither a dimension nor"),
        ("total\n1.5\n", (*LAW, *SUMS), "sums.csv: values must be whole numbers", "total is 1.5"),
        ("total\n1\n", (*LAW, "--noisy", "sums.csv"), "sums.csv has no law: write --law after it"),
        ("total\n1\n", SUMS, "noisy.csv has no law: write --law '...' before any --noisy"),
        ("total\n1\n", (*LAW, *LAW, *SUMS), "noisy.csv has two laws", "--law belongs to the file before it"),
        ("total\n1\n", (*SUMS, *LAW), "sums.csv has two laws"),
        ("total\n1\n", (*LAW, "--noisy", "none.csv", *LAW), "there is no file 'none.csv'"),
        (both, (*LAW, *projected), "sums.csv holds 2 margins", "ties the noise of answers together"),
    ):
        Path("sums.csv").write_text(text)
        failed(imported(*options), *words)
        assert not Path("release.nc").exists()


def test_data_and_noise_make_the_release_and_errors_are_one_line(run):
    for name in ("several", "scalar"):
        release = EXAMPLES[name]()
        release.to_csv(f"{name}.csv", noise="noise.json", overwrite=True)
        result = run("import", f"{name}.csv", "--noise", "noise.json", "-o", f"{name}.nc")
        assert result.status == 0, result.err
        assert f"written to {name}.nc" in result.out
        assert bdp.Release.from_netcdf(f"{name}.nc") == release
    EXAMPLES["lattice"]().to_csv("DATA.csv")
    noise = ("--noise", "DATA.noise.json")
    failed(run("import", "DATA.csv", "--noise", "none.json", "-o", "r.nc"), "there is no file 'none.json'")
    failed(run("import", "none.csv", *noise, "-o", "r.nc"), "there is no file 'none.csv'")
    result = run(
        "import", "DATA.csv", "--law", "laplace b=1", *noise, "--exact", "m.csv", "--ignore", "x", "-o", "r.nc"
    )
    failed(result, "so leave out --law or --noisy, --exact, --ignore; or correct DATA.noise.json")
    failed(run("import", "DATA.csv", *noise, "--postprocessing", "clipped", "-o", "r.nc"), "leave out --postprocessing")
    plain = json.loads(Path("DATA.noise.json").read_text())
    plain["measured"][0]["law"]["epsilon"] = -1
    Path("DATA.noise.json").write_text(json.dumps(plain))
    failed(run("import", "DATA.csv", *noise, "-o", "r.nc"), "DATA.noise.json: $.measured[0].law: ", "epsilon must be")
    assert not Path("r.nc").exists()
