"""Tables from users' files: the forms that are read, and what is wrong with the others, by line and cell."""

import time

import numpy as np
import pytest
import xarray as xr

from bayesdp.tables import read_table

LONG = "county,education,count\nAlpha,Low,15\nAlpha,High,1\nBeta,High,10\nBeta,Low,20\n"
WIDE = "county,Low,High\nAlpha,15,1\nBeta,20,10\n"
EXPECTED = xr.DataArray([[15, 1], [20, 10]], {"county": ["Alpha", "Beta"], "education": ["Low", "High"]})


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "table.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def refused(path, message, error=ValueError, **given):
    with pytest.raises(error, match=message) as caught:
        read_table(path, **given)
    return str(caught.value)


def test_what_spreadsheets_write_is_read_as_the_same_long_or_wide_table(written):
    """A byte order mark, Windows line ends, quotes, blank lines; labels of digits stay text."""
    long, wide = read_table(written(LONG)), read_table(written(WIDE), dims=["county", "education"])
    xr.testing.assert_identical(long.drop_attrs().rename(None), EXPECTED)
    xr.testing.assert_identical(wide, EXPECTED)
    assert long.dtype == np.int64
    assert read_table(written(LONG), dims=["education", "county"]).dims == ("education", "county")
    text = b"\xef\xbb\xbf" + b'county,count\r\n"Lake, IN",3\r\n\r\nCook,4\r\n'
    assert list(read_table(written(text)).county.values) == ["Lake, IN", "Cook"]
    assert list(read_table(written("fips,count\n017,3\n0170,4\n")).fips.values) == ["017", "0170"]


def test_the_value_column_can_be_named_and_wide_tables_may_have_several_columns_of_labels(written):
    assert read_table(written("county,year,people\nA,1990,7\n"), value="people").item() == 7
    none = r"none of .* is known to be the column of values.*--value"
    refused(written("county,year,people,extra\nA,1990,7,8\n"), none, layout="long")
    refused(written("county,count,noisy\nA,1,2\n"), r"'count', 'noisy' could all be the column of values")
    refused(written(LONG), "there is no column 'people'", value="people")
    path = written("county,year,Low,High\nA,1990,1,2\nB,1990,3,4\n")
    table = read_table(path, dims=["county", "year", "education"], layout="wide")
    assert table.sel(county="B", year="1990", education="Low").item() == 3


def test_numbers_blanks_and_group_columns(written):
    table = read_table(written("county,count\nA,-3\nB,\nC,2.5e1\n"))
    np.testing.assert_array_equal(table.values, [-3, np.nan, 25])
    wide = read_table(written("county,Low,High\nA,1,\nB,2,3\n"), dims=["county", "education"])
    assert np.isnan(wide.sel(county="A", education="High"))
    numbers = ["14.270000000000001", "0.1", "123456789012345678", "-5e-324"]
    table = read_table(written("county,count\n" + "".join(f"c{i},{text}\n" for i, text in enumerate(numbers))))
    assert table.values.tolist() == [float(text) for text in numbers]
    assert read_table(written("county,count\nA,123456789012345678\nB,-7\n")).values.tolist() == [123456789012345678, -7]
    text = "state,county,count\nIL,Adams,1\nIL,Cook,2\nIN,Lake,3\n"
    table = read_table(written(text), groups={"state": "county"})
    assert table.dims == ("county",)
    assert list(table.state.values) == ["IL", "IL", "IN"]
    twice = "state,county,race,count\nIL,Adams,white,1\nIL,Cook,white,2\nIN,Adams,black,3\n"
    refused(written(twice), "line 4: county=Adams has state=IN, but state=IL in line 2", groups={"state": "county"})
    for given, message in (
        ({}, r"3 of the 6 cells are missing"),
        ({"groups": {"state": "region"}}, "'state' belongs to 'region', which is no column of labels; 'county' are"),
        ({"groups": {"region": "county"}}, "no column 'region'"),
        ({"dims": ["county"]}, r"dims are 'county', but the columns of labels are 'state', 'county'"),
    ):
        refused(written(text), message, **given)


WRONG = [
    ("county,count\nA,3\nA,4\n", r"line 3, column 'count': county=A is there already, in line 2"),
    ("county,education,count\nA,Low,3\nB,High,4\n", r"2 of the 4 cells are missing, for example county=A, educ"),
    ("county,count\nA,three\n", r"line 2, column 'count': 'three' at county=A is not a number"),
    ("county,count\nA,nan\n", r"line 2, column 'count': 'nan' at county=A is not a number"),
    ('county,count\nA,"1,234"\n', r"'1,234' at county=A is not a number"),
    ("county,count\nA,1_000\n", r"'1_000' at county=A is not a number"),
    ("county,count\nA,٣\n", "is not a number"),
    ("county,count\n A,3\n", r"line 2, column 'county': ' A' has blanks around it"),
    ("county;count\nA;3\n", r"the header is one column, 'county;count'; declare delimiter=';', or separate columns by commas"),
    ("", "the file has no line with text"),
    ("count\n3\n", "no column of labels"),
    (b"county,count\n\xff\xfe,3\n", "line 2, byte 13: 0xff is no text in 'utf-8'"),
    (WIDE, r"'Low', 'High'\) has no name there; .*, in the place of NAME: dims=\['county', 'NAME'\] \(--dims county,NAME\);"),
]  # fmt: skip
WRONG_WIDE = [
    ("county,Low,High\nA,1,2\nA,3,4\n", r"line 3, column 'Low': county=A, education=Low is there already, in line 2"),
    ("county,Low,High\nA,1,x\n", r"line 2, column 'High': 'x' at county=A, education=High is not a number"),
    ("county,Low,High\n,1,2\n", "line 2: the label of 'county' is empty"),
    ("area,Low,High\nA,1,2\n", "there is no column 'county'; columns are 'area', 'Low', 'High'"),
]


def test_what_is_wrong_is_named_before_a_small_file_makes_a_large_table(written):
    """Two thousand lines in five columns of labels, all different: 3e16 missing cells are not made."""
    for text, message in WRONG:
        assert "table.csv" in refused(written(text), message)
    for text, message in WRONG_WIDE:
        assert "table.csv" in refused(written(text), message, dims=["county", "education"], layout="wide")
    rows = "".join(f"a{i},b{i},c{i},d{i},e{i},{i}\n" for i in range(2000))
    path = written("a,b,c,d,e,count\n" + rows)
    start = time.perf_counter()
    refused(path, "31999999999998000 of the 32000000000000000 cells are missing")
    assert time.perf_counter() - start < 2


def test_netcdf_and_other_files(tmp_path):
    table = EXPECTED.assign_coords(region=("county", ["N", "S"])).rename("people")
    table.to_netcdf(tmp_path / "table.nc", engine="h5netcdf")
    back = read_table(tmp_path / "table.nc")
    xr.testing.assert_equal(back, table)
    assert list(back.region.values) == ["N", "S"]
    assert read_table(tmp_path / "table.nc", dims=["education", "county"]).dims == ("education", "county")
    both = xr.Dataset({"a": EXPECTED, "b": EXPECTED * 1.5})
    both.to_netcdf(tmp_path / "both.nc", engine="h5netcdf")
    assert read_table(tmp_path / "both.nc", value="b").dtype == np.float64
    scaled = {"b": {"scale_factor": 0.5, "dtype": "int16", "_FillValue": -1}}
    both[["b"]].to_netcdf(tmp_path / "scaled.nc", engine="h5netcdf", encoding=scaled)
    refused(tmp_path / "table.nc", "no variable 'counts'; there are 'people'", value="counts")
    refused(tmp_path / "table.nc", "groups are for long CSV files", groups={"region": "county"})
    refused(tmp_path / "both.nc", r"name the variable with value= \(--value\); there are 'a', 'b'")
    refused(tmp_path / "scaled.nc", r"stored with 'scale_factor'")
    refused(tmp_path / "missing.csv", "there is no file", FileNotFoundError)
    refused(tmp_path / "table.xlsx", r"must be a \.csv or \.nc file")
    refused(tmp_path / "table.csv", "dims must be a list", TypeError, dims="county")


def test_a_table_of_an_office_is_read_as_it_was_declared(written):
    text = "Population\ncounty;education;n\nAlpha;Low;1.203\nAlpha;High;..\nBeta;Low;-\nBeta;High;6 r\n"
    declared = {"delimiter": ";", "skip_rows": 1, "thousands": ".", "footnotes": ["r"]}
    symbols = {"..": "suppressed", "-": 0}
    table = read_table(written(text), symbols=symbols, **declared)
    np.testing.assert_array_equal(table, [[1203, np.nan], [0, 6]])
    for symbol, status, where in (("..", "below_threshold", "Alpha, .*High"), ("-", "zero", "Beta, .*Low")):
        message = rf"county={where} is declared '{status}'.*read_office_csv keeps it"
        refused(written(text), message, symbols={**symbols, symbol: status}, **declared)
    nothing = "'separator' is nothing to be declared of a table; that is 'decimal'"
    refused(written(text), nothing, TypeError, separator=";")
    path = written("county;count\nA;3\n")
    refused(path, "declare delimiter=';'")
    assert read_table(path, delimiter=";").item() == 3
