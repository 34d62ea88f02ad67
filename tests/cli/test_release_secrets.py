"""``bayesdp release`` shows no number of a confidential table, however the file is wrong; ``bayesdp import`` shows it."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from bayesdp.tables import read_table
from tests.secrets import SECRET, everything_said, shows_secret

N = SECRET
RELEASE = ("--invariant", "margins:county", "--mechanism", "lattice-laplace", "--epsilon", "1", "-o", "out.nc")
REAL = ("--invariant", "total", "--mechanism", "projected-gaussian", "--mu", "1", "-o", "out.nc")


def _long(*values, header="county,education,count", counties="AABB"):
    cells = zip(counties, ["Low", "High", "Low", "High"], values, strict=True)
    return "\n".join([header, *(f"{county},{education},{value}" for county, education, value in cells)]) + "\n"


LONG = {
    "negative": _long(f"-{N}", "1", "2", "3"),
    "fractional": _long(f"{N}.5", "1", "2", "3"),
    "not a number": _long("nan", f"{N}", "2", "3"),
    "infinite": _long(f"{N}e999", "1", "2", "3"),
    "too large": _long(f"{N}00000000000", "1", "2", "3"),
    "too large for 64 bits": _long(f"{N}" + "0" * 30, "1", "2", "3"),
    "sums beyond 2**53": _long(*[f"{N}0000000000"] * 4),
    "text": _long(f"{N}x", "1", "2", "3"),
    "a percentage": _long(f"{N}%", "1", "2", "3"),
    "a limit": _long(f"<{N}", "1", "2", "3"),
    "thousands": _long('"731,941"', "1", "2", "3"),
    "thousands without quotes": _long("731,941", "1", "2", "3"),
    "blanks": _long(f" {N}", "1", "2", "3"),
    "empty": _long("", f"{N}", "2", "3"),
    "a cell twice": _long(*[N] * 4, counties="AAAB"),
    "a cell twice with a number": _long(*[N] * 4, counties="AAAB").replace("Low", N),
    "a cell missing": _long(*[N] * 4).rsplit("B", 1)[0],
    "a comma too many": _long(f"{N},", "1", "2", "3"),
    "a field too few": _long(N, "1", "2", "3").replace(f",{N}", f"{N}"),
    "no header": _long(N, N, N, N).split("\n", 1)[1],
    "semicolons": _long(N, N, N, N).replace(",", ";"),
    "a column twice": _long(*[N] * 4, header="county,county,count"),
    "a header of numbers twice": f"{N},{N},count\nA,Low,3\n",
    "an unknown column of numbers": f"county,education,count,weight\nA,Low,{N},{N}0\nA,High,{N},{N}1\nB,Low,{N},{N}2\n",
    "two unknown columns": f"county,count,a,b\nA,{N},{N}1,{N}2\nB,{N},{N}3,{N}4\n",
    "counts under another name": _long(N, N + "1", N + "2", N + "3", header="county,education,people"),
    "a quote that is not closed": _long(f'"{N}', "1", "2", "3"),
    "a NUL": _long(f"{N}\0", "1", "2", "3"),
    "only numbers": f"{N}\n{N}1\n{N}2\n",
    "a label is empty": _long(*[N] * 4).replace("A,Low", ",Low"),
    "a wide table": f"county,Low,High\nA,{N},{N}1\nB,{N}2,{N}x\n",
    "nothing": "",
}


@pytest.fixture
def refused(run):
    def call(*arguments):
        result = run(*arguments)
        assert result.status == 2, result
        assert not Path("out.nc").exists()
        assert "Traceback" not in result.err
        return result.out + result.err

    return call


@pytest.mark.parametrize("way", LONG)
def test_no_number_of_a_table_that_is_wrong_is_shown(way, refused):
    """Neither in what is printed, nor in what the error of the reader is chained to."""
    Path("table.csv").write_text(LONG[way])
    for more in (
        RELEASE, (*RELEASE, "--value", "count"), (*REAL, "--dims", "county,education"), (*REAL, "--layout", "wide"),
        (*RELEASE, "--group", "county=education"), (*RELEASE, "--group", "count=education"),
    ):  # fmt: skip
        said = refused("release", "table.csv", *more)
        assert not shows_secret(said), said
        assert "table" in said or "--group" in more  # the file, or the table, is named
    for options in ({}, {"value": "count"}, {"dims": ["county", "education"]}, {"layout": "wide"}):
        try:
            read_table("table.csv", confidential=True, **options)
        except ValueError as error:
            said = everything_said(error)
            assert not shows_secret(said), said


def test_nor_are_those_of_a_netcdf_file_nor_bytes_that_are_no_text(refused):
    more = ("--invariant", "total", "--mechanism", "lattice-laplace", "--epsilon", "1", "-o", "out.nc")
    for values in (
        [-731941, 1], [731941.5, 1.0], [np.nan, 731941.0], [np.inf, 731941.0], [731941 * 10**11, 1], ["731941x", "1"],
    ):  # fmt: skip
        table = xr.DataArray(values, dims="county", coords={"county": ["A", "B"]}, name="count")
        table.to_netcdf("table.nc", engine="h5netcdf")
        assert not shows_secret(refused("release", "table.nc", *more))
    Path("table.csv").write_bytes(b"county,count\nA,731941\xff\nB,3\n")
    with pytest.raises(ValueError, match="it is no text in 'utf-8'") as caught:
        read_table("table.csv", confidential=True)
    assert not shows_secret(everything_said(caught.value))


def test_the_place_and_the_rule_are_named_and_what_was_published_is_shown_by_import(refused):
    place = "table.csv, line 4, column 'count': county="
    for text, told in (
        (_long("12", "x17", "2", "3"), "line 3, column 'count': what stands at county=A, education=High is not a"),
        (_long("-3", "1", "2", "3"), "table must be at least 0, but county=A, education=Low is not"),
        (_long("3.5", "1", "2", "3"), "table must hold whole numbers, but county=A, education=Low is no whole number"),
        (_long(" 3", "1", "2", "3"), "table.csv, line 2, column 'count': the field has blanks around it"),
        (_long(*"1234", counties="AAAB"), f"{place}A, education=Low is there already, in line 2"),
        (_long(*"1234", counties="7777"), f"{place}(not shown), education=Low is there already"),
    ):
        Path("table.csv").write_text(text)
        assert told in refused("release", "table.csv", *RELEASE)
    for way in ("text", "blanks", "thousands", "fractional"):
        Path("table.csv").write_text(LONG[way])
        assert shows_secret(refused("import", "table.csv", "--law", "discrete-laplace b=2", "-o", "out.nc"))
