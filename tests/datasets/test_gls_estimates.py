from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

import bayesdp as bdp
from bayesdp.datasets import compare_estimates, read_gls_estimates

HEADER = "geocode|query|estimate|std_dev|query_description\n"
# The first rows of tract 01001020100, as the documentation of the product prints them.
TRACT = HEADER + (
    "01001020100|P0010001|1773.9018031885519|1.6418324422474149|Total\n"
    "01001020100|P0010002|1652.0434293502806|5.507541967888987|Population of one race\n"
    "01001020100|P0010003|1385.2280337755335|2.34418748822052|White alone\n"
)
OTHER = HEADER + "01001020200|P0010003|900.5|2.5|White alone\n01001020200|P0010001|2000.25|0.0|Total\n"


@pytest.fixture
def folder(tmp_path):
    for tract, text in (("020100", TRACT), ("020200", OTHER)):
        own = tmp_path / f"us/Tract/State=01/County=001/Tract={tract}"
        own.mkdir(parents=True)
        (own / "part-00000.csv").write_text(text, encoding="utf-8")
        (own / "_SUCCESS").touch()
    return tmp_path


def test_one_tract_as_documented(folder):
    tract = read_gls_estimates(folder / "us/Tract/State=01/County=001/Tract=020100/part-00000.csv")
    assert tract.sizes == {"geocode": 1, "query": 3}
    one = tract.sel(geocode="01001020100")
    assert one["estimate"].sel(query="P0010001").item() == 1773.9018031885519
    assert one["sd"].sel(query="P0010003").item() == 2.34418748822052
    assert one["description"].values.tolist() == ["Total", "Population of one race", "White alone"]


def test_a_folder_is_put_together_and_what_is_missing_is_nan(folder):
    found = read_gls_estimates(folder)
    assert found["geocode"].values.tolist() == ["01001020100", "01001020200"]
    assert found["query"].values.tolist() == ["P0010001", "P0010002", "P0010003"]
    np.testing.assert_array_equal(found["estimate"].sel(geocode="01001020200"), [2000.25, np.nan, 900.5])
    np.testing.assert_array_equal(found["sd"].sel(geocode="01001020200"), [0.0, np.nan, 2.5])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("std_dev", "sd", "there is no column 'std_dev'"),
        ("5.507541967888987", "-1", r"line 3, column 'std_dev': a standard deviation is at least 0, got '-1'"),
        ("5.507541967888987", "nan", "line 3, column .*'nan' is not a finite number"),
        ("1652.0434293502806", "9e999", "line 3, column .*is not a finite number"),
        ("P0010002", "P0010001", "line 3: P0010001 of '01001020100' is there twice"),
        ("01001020100|P0010002", "x1|P0010002", "line 3: a geocode is digits"),
        ("|Total", "", "line 2: 4 fields, but the header has 5"),
        (TRACT[len(HEADER) :], "", "no row below the header"),
    ],
)
def test_a_file_that_is_not_right_is_refused(tmp_path, old, new, message):
    assert old in TRACT
    path = tmp_path / "part.csv"
    path.write_text(TRACT.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_gls_estimates(path)


def test_what_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no \.csv file in the folder"):
        read_gls_estimates(tmp_path)
    with pytest.raises(FileNotFoundError, match="absent"):
        read_gls_estimates(tmp_path / "absent.csv")


def test_descriptions_that_differ_between_units_are_refused(folder):
    path = folder / "us/Tract/State=01/County=001/Tract=020200/part-00000.csv"
    path.write_text(OTHER.replace("Total", "Everybody"), encoding="utf-8")
    with pytest.raises(ValueError, match="P0010001 is 'Everybody' here and 'Total' before"):
        read_gls_estimates(folder)


def test_a_file_that_would_make_a_huge_table_is_refused(tmp_path):
    path = tmp_path / "part.csv"
    path.write_text(HEADER + "".join(f"{i}|Q{i}|1.0|1.0|made up\n" for i in range(2000)), encoding="utf-8")
    with pytest.raises(ValueError, match="2000 geocodes and 2000 queries, but 2000 estimates only"):
        read_gls_estimates(path)


def _own(values):
    coords = {"geocode": ["01001020200", "01001020100", "99"], "query": ["P0010003", "P0010001"]}
    return xr.DataArray(values, coords)


def test_differences_in_units_of_the_published_sd(folder):
    published = read_gls_estimates(folder)
    own = _own([[905.5, 2000.25], [1385.2280337755335, 1773.9018031885519 - 1.6418324422474149], [1.0, 1.0]])
    found = compare_estimates(own, published, sd=0.5 * xr.ones_like(own))
    one, other = found.sel(geocode="01001020100"), found.sel(geocode="01001020200")
    assert one["in_sd"].sel(query="P0010001").item() == pytest.approx(-1.0)
    assert one["in_sd"].sel(query="P0010003").item() == 0.0
    assert other["difference"].sel(query="P0010003").item() == 5.0
    assert other["in_sd"].sel(query="P0010003").item() == 2.0
    assert other["sd_ratio"].sel(query="P0010003").item() == 0.2
    assert other["in_sd"].sel(query="P0010001").item() == 0.0  # both exact
    assert np.isnan(other["sd_ratio"].sel(query="P0010001").item())
    assert found.attrs == {"only_own": 2, "only_published": 1}
    apart = compare_estimates(own - 1.0, published, sd=0.5 * xr.ones_like(own))
    assert apart["in_sd"].sel(geocode="01001020200", query="P0010001").item() == -np.inf


def test_posterior_draws(folder):
    published = read_gls_estimates(folder)
    rng = np.random.default_rng(1)
    draws = _own(np.ones((3, 2))) * xr.DataArray(rng.normal(900.0, 3.0, (2, 50)), dims=("chain", "draw"))
    found = compare_estimates(draws, published).sel(geocode="01001020200", query="P0010003")
    sample = draws.sel(geocode="01001020200", query="P0010003").values
    assert found["own"].item() == pytest.approx(sample.mean())
    assert found["own_sd"].item() == pytest.approx(sample.std(ddof=1))
    assert found["in_sd"].item() == pytest.approx((sample.mean() - 900.5) / 2.5)


def test_what_cannot_be_compared(folder):
    published = read_gls_estimates(folder)
    own = _own(np.ones((3, 2)))
    for wrong, sd, message in [
        (own, None, "sd goes with estimates"),
        (own.expand_dims(draw=2), own, "sd goes with estimates"),
        (own.rename(query="table"), own, "must have the dims geocode and query"),
        (own, own.rename(query="table"), "sd must have the dims"),
        (own.assign_coords(query=["a", "b"]), own, "no code and query in common"),
    ]:
        with pytest.raises(ValueError, match=message):
            compare_estimates(wrong, published, sd=sd)


def test_the_variance_of_a_difference_to_an_estimate_from_less_is_that_of_the_sds():
    """As the notes say of linear estimates. Both are linear in the noise: its part in the difference is found cell by cell."""
    table = {"tract": ["1", "2"], "race": ["a", "b"]}
    truth, law, total = np.array([[30, 9], [14, 50]]), bdp.noise.DiscreteGaussian(sigma=4.0), bdp.Totals(table)
    dims, coords = ("geocode", "query"), {"geocode": ["1", "2"], "query": ["a", "b"]}
    cells = bdp.Identity(table)

    def compared(noise):
        measured = [bdp.Measured(cells, truth + noise, law)]
        less = bdp.gls(bdp.Release.from_published(table, measured), "tract")
        more = bdp.gls(bdp.Release.from_published(table, measured, [bdp.Exact(total, truth.sum())]), "tract")
        published = xr.Dataset({"estimate": (dims, less.mean(cells)), "sd": (dims, less.sd(cells))}, coords)
        return compare_estimates(
            xr.DataArray(more.mean(cells), coords), published, xr.DataArray(more.sd(cells), coords)
        )

    start = np.array([[3, -2], [5, 1]])
    first = compared(start)
    unit = np.eye(4, dtype=int).reshape(4, 2, 2)
    moved = np.array([(compared(start + own)["difference"] - first["difference"]).values for own in unit])
    variance = 16.0 * np.square(moved).sum(axis=0)
    np.testing.assert_allclose(variance, 4.0)
    np.testing.assert_allclose((first["published_sd"] ** 2 - first["own_sd"] ** 2).values, variance)
    # The difference is a quarter of the total's noise, in all four cells.
    np.testing.assert_allclose(first["in_sd"].values, -(start.sum() / 4.0) / 4.0)


def test_links_are_followed_within_the_folder_and_refused_out_of_it(folder):
    (folder / "us/Tract").rename(folder / "tracts")
    (folder / "us/Tract").symlink_to(folder / "tracts")
    with pytest.raises(ValueError, match="is there twice"):  # by the link and by the folder
        read_gls_estimates(folder)
    with pytest.raises(ValueError, match=r"us/Tract is a link that leads out of .*us, to .*tracts"):
        read_gls_estimates(folder / "us")
