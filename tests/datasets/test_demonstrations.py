"""Demonstration files: synthetic ones, and California's of March 2022 where it is at hand."""

import os
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.datasets import demonstration_errors, read_county_demonstration

SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
CALIFORNIA = SHARED / "das_2022-03_dhc_demo_california_counties.csv"
AGES = 23


def _counties(rows):
    names = ["state_fips", "county_fips", "county", "pop2010_census", "pop2010_das"]
    names += [f"nh_{own}_das" for own in ("white", "black", "aian", "asian", "nhpi", "other", "two")] + ["hispanic_das"]
    for sex, short in (("male", "m"), ("female", "f")):
        names += [f"{sex}_das", *(f"{short}_age{i:02d}_das" for i in range(1, AGES + 1))]
    return ",".join(names) + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)


def _row(state, county, name, census, males, females, origin):
    return [state, county, name, census, sum(males) + sum(females), *origin, sum(males), *males, sum(females), *females]


MALES, FEMALES = list(range(AGES)), [2] * AGES
ROWS = [
    _row("06", "001", "Alameda County", 300, MALES, FEMALES, [200, 50, 1, 20, 3, 5, 10, 10]),
    _row("06", "003", "Alpine County", 41, [1] * AGES, [1] * 22 + [0], [40, 0, 0, 0, 0, 0, 0, 5]),
]


@pytest.fixture
def write(tmp_path):
    """Write a file of the given text; return its path."""

    def write(text):
        path = tmp_path / "file.csv"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_counties_are_labelled_and_a_demonstration_is_no_release(write):
    tables = read_county_demonstration(write(_counties(ROWS)))
    assert tables["county"].values.tolist() == ["06001", "06003"]
    assert tables["name"].values.tolist() == ["Alameda County", "Alpine County"]
    numbers = [tables[name].values.tolist() for name in ("state", "census", "demonstration")]
    assert numbers == [["06", "06"], [300, 41], [299, 45]]
    age = tables["demonstration_age"]
    assert age.shape == (2, 2, AGES)
    assert age.sel(county="06001", sex="male").values.tolist() == MALES
    assert int(age.sel(county="06003", sex="female", age="85+")) == 0
    assert age["age"].values[[0, 3, 4, 5, 7, -1]].tolist() == ["0-4", "15-17", "18-19", "20", "22-24", "85+"]
    assert int(tables["demonstration_origin"].sel(county="06001", origin="Hispanic")) == 10
    law, counties = bdp.noise.DiscreteGaussian(sigma=3.0), tables
    for name in ("demonstration", "demonstration_origin", "demonstration_age"):
        with pytest.raises(ValueError, match="'made whole, nonnegative and consistent by the TopDown algorithm'"):
            bdp.Measured(bdp.Identity(counties[name]), counties[name], law)
    census = counties["census"]
    assert bdp.Measured(bdp.Identity(census), census, law).values.sum() == int(census.sum())


@pytest.mark.parametrize(
    ("row", "column", "value", "message"),
    [
        (0, 0, "6", "line 2, column 'state_fips': a code must have 2 digits"),
        (1, 1, "001", "line 3: '06001' is there already, in line 2"),
        (0, 3, "x", "line 2, column .*pop2010_census.*got 'x'"),
        (1, 5, 41, "line 3: the origins add up to 46, and not to 45"),
        (0, 14, 1, "line 2: the ages of males add up to 254, and not to 253"),
    ],
)
def test_files_of_counties_that_are_not_right_are_refused(write, row, column, value, message):
    rows = [list(own) for own in ROWS]
    rows[row][column] = value
    with pytest.raises(ValueError, match=message):
        read_county_demonstration(write(_counties(rows)))


def test_errors_by_size_are_those_of_their_definition():
    coords = {"county": list("abcdef")}
    census = xr.DataArray([0, 9, 10, 50, 99, 100], coords=coords)
    demonstration = xr.DataArray([3, 9, 8, 50, 101, 98], coords=coords)
    found = demonstration_errors(census, demonstration.isel(county=[5, 4, 3, 2, 1, 0]), edges=[10, 100, 1000])
    assert list(found.index) == ["0 to below 10", "10 to below 100", "100 to below 1,000", "all"]
    middle = found.loc["10 to below 100"]  # errors -2, 0, 2
    assert middle[["units", "exact", "mean", "largest", "total"]].tolist() == [3, 1, 0.0, 2, 0]
    assert middle["mean_absolute"] == pytest.approx(4 / 3)
    assert middle["root_mean_square"] == pytest.approx(np.sqrt(8 / 3))
    assert middle["percent"] == pytest.approx(100 * 4 / 159)
    assert found.loc["all", "total"] == 1
    assert found.loc["0 to below 10", "mean"] == 1.5
    with pytest.raises(ValueError, match=r"in one only are 'a'"):
        demonstration_errors(census, demonstration[1:])
    with pytest.raises(ValueError, match="edges must increase"):
        demonstration_errors(census, demonstration, edges=[5, 5])
    with pytest.raises(ValueError, match="one dimension"):
        demonstration_errors(census.expand_dims("x"), demonstration)


@pytest.mark.skipif(not CALIFORNIA.is_file(), reason="no demonstration file; BAYESDP_SHARED_DATA names its folder")
def test_california_in_the_demonstration_of_2022():
    """The figures that documents may state: the state is exact, counties are off by 2.5 persons whatever their size."""
    tables = read_county_demonstration(CALIFORNIA)
    assert tables.sizes == {"county": 58, "origin": 8, "sex": 2, "age": AGES}
    found = demonstration_errors(tables["census"], tables["demonstration"])
    assert int(tables["census"].sum()) == int(tables["demonstration"].sum()) == 37_253_956  # as apportioned, exactly
    assert found["units"].tolist() == [3, 20, 26, 9, 58]
    assert found.loc["all", ["exact", "mean", "largest", "total"]].tolist() == [5, 0.0, 6, 0]
    assert found["root_mean_square"].round(2).tolist() == [3.51, 2.46, 2.57, 2.26, 2.55]
    # What the reader has checked: tables of origin, sex and age have the same county totals.
    ages = tables["demonstration_age"]
    assert int(ages.sum()) == 37_253_956
    assert ages.sum("county").sel(sex="male", age="0-4").item() == int(ages.sel(sex="male", age="0-4").sum())
    # The census beside it is that of the file of all counties.
    whole = bdp.datasets.read_county_populations(SHARED / "census2010_us_counties.csv")
    names = [f"California: {name}" for name in tables["name"].values]
    assert whole.sel(county=names).values.tolist() == tables["census"].values.tolist()
