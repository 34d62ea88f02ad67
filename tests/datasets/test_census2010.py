import os
from pathlib import Path

import numpy as np
import pytest

from bayesdp import Totals
from bayesdp.datasets import read_county_populations

SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
CENSUS = SHARED / "census2010_us_counties.csv"

PLAIN = """state_fips,county_fips,state,county,pop2010
17,001,Illinois,Adams County,67103
18,001,Indiana,Adams County,34387
17,003,Illinois,Alexander County,8238
"""
NHGIS = """GISJOIN,YEAR,STATE,STATEA,COUNTY,COUNTYA,NAME,H7V001
G1700010,2010,Illinois,17,Adams County,001,Adams County,67103
G1800010,2010,Indiana,18,Adams County,001,Adams County,34387
G1700030,2010,Illinois,17,Alexander County,003,Alexander County,8238
"""
BUREAU = """SUMLEV,REGION,STATE,COUNTY,STNAME,CTYNAME,CENSUS2010POP
040,2,17,000,Illinois,Illinois,75341
050,2,17,001,Illinois,Adams County,67103
050,2,17,003,Illinois,Alexander County,8238
040,2,18,000,Indiana,Indiana,34387
050,2,18,001,Indiana,Adams County,34387
"""


@pytest.fixture
def read(tmp_path):
    """Read a file of the given text."""

    def read(text):
        path = tmp_path / "counties.csv"
        path.write_text(text, encoding="utf-8")
        return read_county_populations(path)

    return read


@pytest.mark.parametrize("text", [PLAIN, NHGIS, BUREAU])
def test_every_form_gives_the_same_populations(read, text):
    table = read(text)
    assert table.dtype == np.int64
    found = dict(zip(table["county"].values.tolist(), table.values.tolist(), strict=True))
    names = ("Illinois: Adams County", "Indiana: Adams County", "Illinois: Alexander County")
    assert found == dict(zip(names, (67_103, 34_387, 8_238), strict=True))
    if text != BUREAU:  # the order of the file is kept
        assert tuple(found) == names
        assert table["state"].values.tolist() == ["Illinois", "Indiana", "Illinois"]
    assert all(table.attrs[attribute] for attribute in ("title", "source", "licence"))
    totals = Totals(table, by="state")
    sums = dict(zip(totals.names, totals.apply(table).values.tolist(), strict=True))
    assert sums == {"state=Illinois": 75_341, "state=Indiana": 34_387}


TWO_FORMS = "state_fips,county_fips,state,county,pop2010,STATEA,COUNTYA,STATE,COUNTY,H7V001"


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (PLAIN, "pop2010", "pop", "'pop', which fit none of the known forms: state_fips"),
        (PLAIN, "67103", "-67103", r"line 2, column 'pop2010': a count must be a whole number .* got '-67103'"),
        (PLAIN, "67103", "9" * 16, "at most 15 digits"),
        (PLAIN, "67103", "٦٧", "whole number"),
        (PLAIN, "17,001", "17,1", r"line 2, column 'county_fips': a code must have 3 digits .*, got '1'"),
        (PLAIN, "17,001", "7,001", r"line 2, column 'state_fips': a code must have 2 digits .*, got '7'"),
        (PLAIN, "17,003", "17,001", "line 4: '17001' is there already, in line 2"),
        (PLAIN, "Alexander", "Adams", "line 4: 'Illinois: Adams County' is there already, in line 2"),
        (PLAIN, "Illinois,Alex", "Ohio,Alex", "line 4: state 17 is 'Ohio', but earlier lines have 'Illinois' for 17"),
        (PLAIN, "18,001,Indiana", "18,001,Illinois", "line 3: state 18 is 'Illinois'.* and 17 for 'Illinois'"),
        (PLAIN, "Illinois,Adams County", ",Adams County", "line 2, column 'state': a name must not be empty"),
        (PLAIN, PLAIN[PLAIN.index("17") :], "", "there is no row below the header"),
        (BUREAU, "75341", "75342", "line 2: Illinois has 75342 persons, but its counties in the file have 75341"),
        (BUREAU, "050,2,18", "061,2,18", r"line 6: SUMLEV must be 040 \(state\) or 050 \(county\), got '061'"),
        (BUREAU, "75341", "many", "line 2, column 'CENSUS2010POP': a count"),
        (PLAIN, PLAIN, f"{TWO_FORMS}\n17,001,Illinois,Adams,1,17,001,Illinois,Adams,2\n", "fit more than one"),
    ],
)
def test_a_file_that_is_not_right_is_refused(read, tmp_path, text, old, new, message):
    assert old in text
    with pytest.raises(ValueError, match=message):
        read(text.replace(old, new, 1))
    with pytest.raises(FileNotFoundError, match=r"absent\.csv"):
        read_county_populations(tmp_path / "absent.csv")


@pytest.mark.skipif(not CENSUS.is_file(), reason="no file of the 2010 Census; BAYESDP_SHARED_DATA names its folder")
def test_the_2010_census():
    # Resident populations of the 2010 Census as apportionment tables print them, known independently of the county file.
    table = read_county_populations(CENSUS)
    assert table.shape == (3143,)
    assert int(table.sum()) == 308_745_538
    totals = table.groupby("state").sum()
    assert totals.shape == (51,)
    assert int(totals.sel(state="Illinois")) == 12_830_632
    illinois = table.isel(county=table["state"].values == "Illinois")
    assert illinois.shape == (102,)
    assert int(illinois.sel(county="Illinois: Cook County")) == 5_194_675
