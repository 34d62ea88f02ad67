"""``bayesdp import`` and ``bayesdp release``."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bayesdp.measurements import Exact
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, LatticeLaplace
from bayesdp.queries import Margins
from bayesdp.release import Release
from tests.cli.conftest import IMPORT, LAW, RELEASE, failed

BOTH = (*RELEASE, "--invariant", "margins:education", "--norm", "l1", "-o")
WITH_MARGINS = ("import", "noisy.csv", "--exact", "margins.csv", "-o", "release.nc", "--law")


def replace(name, old, new):
    text = Path(name).read_text()
    assert old in text
    Path(name).write_text(text.replace(old, new))


def test_from_published_files_to_a_release(run):
    result = run(*IMPORT, "release.nc")
    assert result.status == 0, result.err
    assert "law discrete-gaussian sigma=5" in result.out
    assert "written to release.nc" in result.out
    release = Release.from_netcdf("release.nc")
    assert release.measurements[0].law == DiscreteGaussian(sigma=5.0)
    assert release.exact == (
        Exact(Margins(release.frame, ["county"]), [16, 30, 10]),
        Exact(Margins(release.frame, ["education"]), [38, 18]),
    )
    assert not release.simulated
    before = Path("release.nc").read_bytes()
    failed(run(*IMPORT, "release.nc"), "'release.nc' exists already", "--force")
    assert Path("release.nc").read_bytes() == before
    assert run(*IMPORT, "release.nc", "--force", "--simulated").status == 0
    assert Release.from_netcdf("release.nc").simulated
    assert run(*IMPORT, "release.csv", "--simulated").status == 0
    assert Release.from_csv("release.csv").simulated


def test_a_search_for_a_table_that_ends_is_one_line(run, monkeypatch):
    labels = {"a": "pqr", "b": "stu", "c": "vwx"}
    for name in ("abc", "ab", "bc", "ac"):  # cells of 1, and their sums over one dimension
        rows = product(*(own if dim in name else [""] for dim, own in labels.items()))
        lines = [",".join([*row, "1" if name == "abc" else "3"]) for row in rows]
        Path(f"{name}.csv").write_text("\n".join(["a,b,c,count", *lines, ""]))
    monkeypatch.setattr("bayesdp.fibers.fiber.LONGEST", 0.0)
    exact = [word for name in ("ab", "bc", "ac") for word in ("--exact", f"{name}.csv")]
    result = run("import", "abc.csv", *exact, *LAW, "-o", "release.nc")
    failed(result, "no table was found in 0 s", "fewer exact or bounded")


def test_lattice_noise_takes_the_margins_as_its_invariants(run):
    for old, new in (("14", "18"), ("23", "20"), ("9", "10"), ("Gamma,Low,2", "Gamma,Low,0"), ("6", "10")):
        replace("noisy.csv", old, new)
    result = run(*WITH_MARGINS, "lattice-laplace epsilon=0.25")
    assert result.status == 0, result.err
    assert Release.from_netcdf("release.nc").measurements[0].law == LatticeLaplace(0.25)
    replace("noisy.csv", "-2", "-1")
    told = "county=Alpha the published exact total is 16 and the noisy total is 17"
    failed(run(*WITH_MARGINS, "lattice-laplace epsilon=0.25", "--force"), "keeps its invariants", told)


def test_unmeasured_cells_must_be_stated(run):
    Path("noisy.csv").write_text("county,count\nAlpha,14\nBeta,\nGamma,\n")
    Path("margins.csv").write_text("total\n56\n")
    failed(run(*IMPORT, "release.nc"), "noisy.csv", "no number for county=Beta")
    assert run(*IMPORT, "release.nc", "--unmeasured", "blank").status == 0
    assert Release.from_netcdf("release.nc").measurements[0].unmeasured.tolist() == [False, True, True]
    failed(run(*IMPORT, "b.nc", "--unmeasured", "county=Beta"), "no number for county=Gamma")
    assert run(*IMPORT, "b.nc", "--unmeasured", "county=Beta", "--unmeasured", "county=Gamma").status == 0
    assert Release.from_netcdf("b.nc") == Release.from_netcdf("release.nc")


def test_groups_and_wide_files(run):
    Path("noisy.csv").write_text("state,county,count\nIL,Adams,14\nIL,Cook,20\nIN,Lake,-3\n")
    Path("margins.csv").write_text("state,total\nIL,30\nIN,5\n")
    assert run(*IMPORT, "release.nc", "--group", "state=county").status == 0
    assert Release.from_netcdf("release.nc").invariants.rank == 2
    failed(run(*IMPORT, "b.nc", "--group", "state"), "--group must be written as NAME=VALUE, got 'state'")
    Path("noisy.csv").write_text("county,Low,High\nAlpha,15,1\nBeta,20,10\n")
    Path("margins.csv").write_text("total\n46\n")
    assert run(*IMPORT, "c.nc", "--dims", "county,education").status == 0
    assert Release.from_netcdf("c.nc").dims == ("county", "education")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"law": "cauchy sigma=5"}, ["unknown noise law 'cauchy'", "discrete-gaussian"]),
        ({"law": "two-sided geometric sigma=5"}, ["no parameter 'sigma'", "b = sensitivity / epsilon"]),
        ({"noisy.csv": ("-2", "few")}, ["noisy.csv, line 3, column 'count': 'few' at county=Alpha, education=High"]),
        ({"noisy.csv": ("-2", "1e300")}, ["2**53", "county=Alpha, education=High"]),
        ({"margins.csv": ("Beta,,30", "Beta,,31")}, ["contradict one another at total", "57", "56"]),
        ({"margins.csv": ("Beta,,30", "Beta,,-30")},
         ["margins.csv: no nonnegative integer table satisfies the exact values: county=Beta = -30"]),
        ({"options": ["--postprocessing", "topdown"]}, ["postprocessing is 'topdown'", "noisy measurement files"]),
        ({"options": ["-o", "release.h5"]}, ["a .nc file, or to a .csv file with noise.json beside it"]),
        ({"options": ["-o", "missing/release.nc"]}, ["'missing' does not exist"]),
        ({"table": "missing.csv"}, ["there is no file 'missing.csv'"]),
        ({"table": "."}, ["must be a .csv or .nc file"]),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_status_2(change, words, run):
    for name in ("noisy.csv", "margins.csv"):
        if name in change:
            replace(name, *change[name])
    options = ["--law", change.get("law", "discrete-gaussian sigma=5"), "-o", "release.nc", *change.get("options", [])]
    failed(run("import", change.get("table", "noisy.csv"), "--exact", "margins.csv", *options), *words)
    assert not Path("release.nc").exists()


def test_what_a_methods_note_says(run):
    assert run(*WITH_MARGINS, "two-sided geometric epsilon=0.5 sensitivity=2").status == 0
    assert Release.from_netcdf("release.nc").measurements[0].law == DiscreteLaplace(4.0)
    told = run("import", "--help").out
    for words in ("laplace b=4", "gaussian sigma=5", "b = sensitivity / epsilon", "sensitivity / sqrt(2 rho)"):
        assert words in told


def test_numbers_that_were_clipped_or_rounded(run):
    # As the help and the README say: refused if it is said, a warning if the numbers show it.
    noisy = DiscreteGaussian(5.0).draw(np.random.default_rng(1), (60,), location=2.0)
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


def test_a_confidential_table_is_released(run):
    result = run(*BOTH, "release.nc")
    assert result.status == 0, result.err
    assert "Privacy guarantee: pure differential privacy" in result.out
    assert "SIMULATED" not in result.out
    release = Release.from_netcdf("release.nc")
    assert release.mechanism["mechanism"] == "lattice-laplace"
    assert not release.simulated
    np.testing.assert_array_equal(release.values.sum("education"), [16, 30, 10])


def test_a_seed_makes_a_simulated_release_that_can_be_repeated(run):
    for name in ("release.nc", "again.nc"):
        assert run(*BOTH, name, "--seed", "3").status == 0
    one, two = Release.from_netcdf("release.nc"), Release.from_netcdf("again.nc")
    assert one == two
    assert (one.simulated, one.guarantee.simulated) == (True, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--epsilon 0", ["epsilon"]),
        ("--epsilon small", ["--epsilon", "'small'"]),
        ("", ["lattice-laplace needs --epsilon"]),
        ("--epsilon 1 --rho 1", ["--rho is no parameter of lattice-laplace"]),
        ("--epsilon 1 --invariant margins:age", ["age"]),
        ("--epsilon 1 --invariant rows", ["a query is written as one of margins:DIM", "'rows'"]),
        ("--epsilon 1 --invariant cells", ["determine every cell"]),
    ],
)
def test_bad_releases(options, words, run):
    failed(run(*RELEASE[:-2], *options.split(), "-o", "r.nc"), *words)


def test_usage_errors_are_one_line_too_and_help_has_an_example(run):
    failed(run("import", "noisy.csv"), "bayesdp import: error: the following arguments are required: -o/--output")
    failed(run("frobnicate"), "invalid choice: 'frobnicate'")
    failed(run(), "required: COMMAND")
    for command in ("import", "release", "fit", "summary", "report"):
        assert f"example:\n  bayesdp {command} " in run(command, "--help").out
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
    cells, total = Release.from_netcdf("release.nc").measurements
    assert cells.values.tolist() == [1203, 0]
    assert cells.unmeasured.tolist() == [False, True]
    assert total.values.item() == 2411
