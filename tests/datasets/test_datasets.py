from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from bayesdp import datasets

ALL: list[tuple[Callable[[], xr.DataArray], tuple[str, ...], tuple[int, ...]]] = [
    (datasets.delinquent_children, ("county", "education"), (4, 4)),
    (datasets.berkeley_admissions, ("sex", "admission", "department"), (2, 2, 6)),
    (datasets.midwest_counties, ("county", "race"), (437, 5)),
    (datasets.illinois_counties, ("county",), (102,)),
    (datasets.flights, ("carrier", "hour", "destination"), (14, 24, 20)),
    (datasets.morocco_communes, ("commune",), (1503,)),
]


@pytest.mark.parametrize(("load", "dims", "shape"), ALL)
def test_tables_are_labelled_counts_with_provenance(load, dims, shape):
    table = load()
    assert table.dims == dims
    assert table.shape == shape
    assert table.dtype == np.int64
    assert (table >= 0).all()
    for dim in dims:
        labels = table[dim].values.tolist()
        assert len(set(labels)) == len(labels)
    for attribute in ("title", "source", "licence"):
        assert table.attrs[attribute]
    assert table.name


@pytest.mark.parametrize("load", [load for load, _, _ in ALL])
def test_every_call_gives_a_table_of_its_own(load):
    changed = load()
    changed[...] = -1
    changed.attrs.clear()
    assert (load() >= 0).all()
    assert load().attrs["source"]


def test_every_loader_is_tested_here():
    # Readers of users' files and comparisons have tests of their own in this folder.
    others = {"demonstration_errors", "code_query", "published_codes"}
    others |= {"synthetic_spine", "write_synthetic_nmf", "WIKIMEDIA_TERMS", "WikimediaTerms", "WikimediaViews"}
    others |= {"working_population", "statsnz_age_by_sex"}  # releases: test_real_releases.py
    others |= {name for name in datasets.__all__ if name.startswith("noise_json_of_")}
    others |= {name for name in datasets.__all__ if name.startswith("read_")}
    assert {load.__name__ for load, _, _ in ALL} == set(datasets.__all__) - others


def test_delinquent_children_margins():
    # Working Paper 22, Table 4.
    table = datasets.delinquent_children()
    assert table.sum("education").values.tolist() == [20, 55, 25, 35]
    assert table.sum("county").values.tolist() == [50, 35, 30, 20]
    assert table.sel(county="Beta", education="Very High") == 15


def test_berkeley_totals():
    table = datasets.berkeley_admissions().sum("department")
    assert table.sel(sex="men", admission="admitted") == 1198
    assert table.sel(sex="men", admission="rejected") == 1493
    assert table.sel(sex="women", admission="admitted") == 557
    assert table.sel(sex="women", admission="rejected") == 1278


def test_berkeley_departments():
    # Applicants and the percentage admitted, as the paradox is usually told (Freedman, Pisani and Purves).
    table = datasets.berkeley_admissions()
    applicants = table.sum("admission")
    percent = (100 * table.sel(admission="admitted") / applicants).round()
    assert applicants.sel(sex="men").values.tolist() == [825, 560, 325, 417, 191, 373]
    assert applicants.sel(sex="women").values.tolist() == [108, 25, 593, 375, 393, 341]
    assert percent.sel(sex="men").values.tolist() == [62, 63, 37, 33, 28, 6]
    assert percent.sel(sex="women").values.tolist() == [82, 68, 34, 35, 24, 7]


def test_midwest_state_totals():
    # Resident populations of the 1990 Census, known independently of the county file.
    table = datasets.midwest_counties()
    totals = table.sum("race").groupby("state").sum()
    assert totals.to_series().to_dict() == {
        "IL": 11_430_602,
        "IN": 5_544_159,
        "MI": 9_295_297,
        "OH": 10_847_115,
        "WI": 4_891_769,
    }
    counties = table["state"].to_series().value_counts().to_dict()
    assert counties == {"IL": 102, "IN": 92, "OH": 88, "MI": 83, "WI": 72}


def test_midwest_counties_that_share_a_name():
    table = datasets.midwest_counties()
    adams = [label for label in table["county"].values.tolist() if label.endswith(": ADAMS")]
    assert adams == ["IL: ADAMS", "IN: ADAMS", "OH: ADAMS", "WI: ADAMS"]
    assert table.sel(county="IL: ADAMS").sum() == 66_090
    assert table.sel(county="WI: ADAMS")["state"] == "WI"
    assert table["race"].values.tolist() == ["white", "black", "american_indian", "asian", "other"]


def test_illinois_is_the_illinois_part_of_the_midwest():
    illinois = datasets.illinois_counties()
    assert illinois.sum() == 11_430_602
    assert set(illinois["state"].values.tolist()) == {"IL"}
    assert illinois.sel(county="IL: COOK") == 5_105_067
    assert "race" not in illinois.coords
