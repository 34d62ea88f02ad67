"""Noisy measurement files that are not right are refused, with the file and the geocode."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bayesdp.datasets import read_nmf, synthetic_spine, write_synthetic_nmf
from bayesdp.datasets.nmf.products import PRODUCTS
from tests.datasets.nmf_files import PERSON, VERMONT, minimal, rewrite, row, truth_of, write_rows

LEVELS = ["County", "Tract"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    truth = truth_of(synthetic_spine("50", counties=2, tracts=2))
    return write_synthetic_nmf(
        tmp_path_factory.mktemp("good"), truth, queries=["total", "hhgq", "hispanic"], rng=3
    ).parent


@pytest.fixture
def root(written, tmp_path):
    shutil.copytree(written, tmp_path / "nmf")
    return tmp_path / "nmf"


def file_of(root, level="Tract", kind="DPQuery"):
    return root / f"US_Person_PL_PROD/{level}.parquet/{kind}/State=50/part-0.parquet"


def replace(column, where, value, kind=None):
    """Change one column of the rows for which `where` holds."""

    def change(table):
        old = table[column].to_pylist()
        rows = table.to_pylist()
        new = [value(own) if where(line) else own for own, line in zip(old, rows, strict=True)]
        at = table.column_names.index(column)
        return table.set_column(at, column, pa.array(new, kind or table[column].type))

    return change


def is_total(line):
    return line["query_name"] == "total_dpq" and line["geocode"].endswith("0001")


@pytest.mark.parametrize(
    ("geography", "message"),
    [
        ("51", r"no geography '51' at the levels .*; branches of states that are there are '050'"),
        ("50005", r"no geography '50005' .*; of the level County there are 05010001 \(50001\), 05010002 \(50002\)"),
        ("05010009", r"there are 05010001 \(50001\), 05010002 \(50002\)"),
        ("050100019999", r"of the level Tract there are 050100010001, 050100010002"),
        ("Vermont", "geography must be 'US', two digits of a state"),
        ("5000", "geography must be 'US'"),
        ("", "geography must be 'US'"),
    ],
)
def test_a_geography_that_is_not_there(written, geography, message):
    with pytest.raises(ValueError, match=message):
        read_nmf(written, geography, levels=LEVELS)


def test_a_geography_is_text(written):
    with pytest.raises(TypeError, match="leading zeros count, got 50"):
        read_nmf(written, 50)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"queries": ["age"]}, ValueError, r"queries names 'age', which is not .*; queries are 'hhgq', 'hispanic', 'total'"),
        ({"queries": ["detailed"]}, ValueError, "queries names 'detailed', which is not measured"),
        ({"queries": "total"}, TypeError, "queries must be a list of names"),
        ({"queries": []}, ValueError, "queries must name at least one query"),
        ({"levels": ["Tracts"]}, ValueError, "levels must be some of 'US', 'State', 'County'"),
        ({"levels": "Tract"}, TypeError, "levels must be a list"),
        ({"levels": []}, ValueError, "levels must be some of"),
        ({"product": "pl94"}, ValueError, "product must be one of 'pl94-person', 'pl94-unit', 'dhc-person', got 'pl94'"),
        ({"product": "pl94-unit"}, FileNotFoundError, "no folder US_Unit_PL_PROD of the product 'pl94-unit'"),
        ({"cells": {"age": "*"}}, ValueError, "cells names 'age', which are no axes; axes are 'hhgq'"),
        ({"cells": {"hhgq": "gqNursingTotal"}}, ValueError, "it can be cut by '\\*', 'detailed', 'hhinstlevels'"),
        ({"max_cells": 2016}, NotImplementedError, "4 geounits of the level Block in 50 by 2,016 cells has 8,064 cells"),
        ({"totals": {"50": -1}}, ValueError, "totals"),
        ({"totals": {"51": 7}}, ValueError, "total.* of the state '51'"),
        ({"totals": {"05010009": 7}}, ValueError, "'05010009', which was not read"),
        ({"totals": {"US": 7}}, ValueError, "only a part of the nation was read"),
        ({"totals": {"50": 7, "050": 8}}, ValueError, "several numbers for the same area"),
    ],
)  # fmt: skip
def test_arguments_that_are_not_right(written, arguments, error, message):
    with pytest.raises(error, match=message):
        read_nmf(written, "50", **arguments)


def test_folders_that_are_not_right(tmp_path, written):
    with pytest.raises(FileNotFoundError, match="absent is no folder"):
        read_nmf(tmp_path / "absent", "50")
    with pytest.raises(FileNotFoundError, match="there are no files"):
        read_nmf(tmp_path, "50")
    (tmp_path / "US_Person_PL_PROD").mkdir()
    with pytest.raises(ValueError, match=r"has no level of the product 'pl94-person', such as US\.parquet"):
        read_nmf(tmp_path, "50")
    # The folder itself may be named, whatever it is called.
    assert (
        read_nmf(written / "US_Person_PL_PROD", "50", levels=["State"]).release
        == read_nmf(written, "50", levels=["State"]).release
    )


def test_demonstration_files_are_in_a_folder_of_another_name(written, root):
    """Those of the census of 2010 have the layout of 2020; the folder is named."""
    (root / "US_Person_PL_PROD").rename(root / "2010_PL94_Demonstration")
    with pytest.raises(FileNotFoundError, match="there are '2010_PL94_Demonstration'"):
        read_nmf(root, "50", levels=["State"])
    found = read_nmf(root / "2010_PL94_Demonstration", "50", levels=["State", "County"])
    assert found.release == read_nmf(written, "50", levels=["State", "County"]).release


def test_a_level_that_is_not_there(root):
    shutil.rmtree(root / "US_Person_PL_PROD/Tract.parquet")
    with pytest.raises(
        ValueError, match=r"has no level 'Tract'; its levels are 'US', 'State', 'County', 'Block_Group', 'Block'"
    ):
        read_nmf(root, "50", levels=LEVELS)
    said = {own.what: own.reason for own in read_nmf(root, "50").unused}
    assert said["Tract"] == "there are no files of this level in the folder"


def test_a_level_without_rows(root):
    for kind in ("DPQuery", "Constraint"):
        rewrite(file_of(root, "Tract", kind), lambda table: table.slice(0, 0))
    with pytest.raises(
        ValueError, match=r"Tract\.parquet: there is no geounit of the level Tract, but of County and Block_Group"
    ):
        read_nmf(root, "50", levels=["County", "Tract", "Block_Group"])


def test_a_child_without_a_parent(root):
    for kind in ("DPQuery", "Constraint"):
        rewrite(file_of(root, "County", kind), lambda table: table.filter(pc.not_equal(table["geocode"], "05010002")))
    with pytest.raises(
        ValueError, match=r"Tract\.parquet: 050100020001 has no geounit of the level County above it in .*County"
    ):
        read_nmf(root, "50", levels=LEVELS)


def test_a_parent_without_a_child(root):
    for kind in ("DPQuery", "Constraint"):
        rewrite(
            file_of(root, "Tract", kind),
            lambda table: table.filter(pc.invert(pc.starts_with(table["geocode"], "05010002"))),
        )
    with pytest.raises(
        ValueError, match=r"Tract\.parquet: there is no geounit of the level Tract below County 05010002"
    ):
        read_nmf(root, "50", levels=LEVELS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replace("variance", is_total, lambda _: 0.0), "the variance of the noise is 0; it must be a positive number"),
        (replace("variance", is_total, lambda _: None), "the variance of the noise is missing"),
        (replace("variance", is_total, lambda _: -2.0), "the variance of the noise is -2"),
        (replace("variance", is_total, lambda _: float("inf")), "the variance of the noise is inf"),
        (replace("value", is_total, lambda _: None), "there is no value"),
        (replace("value", is_total, lambda _: [1, 2]), "has 2 numbers of shape"),
        (replace("value", is_total, lambda _: [None]), "value must be a list of whole numbers"),
        (replace("value", lambda _: True, lambda own: [float(v) for v in own], pa.list_(pa.float64())), "must be a list of whole"),
        (replace("query_shape", is_total, lambda _: [2, 1, 1, 1]), r"has 1 numbers of shape \(2, 1, 1, 1\)"),
        (replace("hispanic", is_total, lambda _: "hispanic"), "has 1 numbers"),
        (lambda table: pa.concat_tables([table, table]), "is there twice, also in"),
    ],
)  # fmt: skip
def test_rows_that_are_not_right(root, change, message):
    rewrite(file_of(root), change)
    with pytest.raises(
        ValueError, match=rf"Tract\.parquet/DPQuery/State=50/part-0\.parquet: geocode 05010001000\d, \w+_dpq.*{message}"
    ):
        read_nmf(root, "50", levels=LEVELS)


def test_keys_that_are_missing(root):
    rewrite(file_of(root), replace("geocode", is_total, lambda _: None))
    with pytest.raises(ValueError, match=r"Tract\.parquet/.*part-0\.parquet: 2 rows have no geocode"):
        read_nmf(root, "50", levels=LEVELS)
    rewrite(file_of(root), lambda table: table.drop_columns(["value"]))
    with pytest.raises(ValueError, match=r"part-0\.parquet: the columns 'value' are missing; there are 'geocode'"):
        read_nmf(root, "50", levels=LEVELS)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.999])
def test_a_file_that_is_cut_short(root, share):
    file = file_of(root)
    data = file.read_bytes()
    file.write_bytes(data[: int(share * len(data))])
    with pytest.raises(ValueError, match=r"Tract\.parquet/DPQuery/State=50/part-0\.parquet: .* cut short"):
        read_nmf(root, "50", levels=LEVELS)


def test_a_file_with_damaged_values(root):
    file = file_of(root)
    data = bytearray(file.read_bytes())
    data[4:200] = bytes(196)
    file.write_bytes(data)
    with pytest.raises(ValueError, match=r"Tract\.parquet/DPQuery/State=50/part-0\.parquet: "):
        read_nmf(root, "50", levels=LEVELS)


def test_constraints_that_contradict_one_another(tmp_path):
    minimal(tmp_path)
    file = tmp_path / "US_Person_PL_PROD/County.parquet/Constraint/State=50/part-0.parquet"
    rewrite(file, replace("value", lambda line: line["sign"] == "<=", lambda _: [6000, 4, *[6000] * 6]))
    with pytest.raises(
        ValueError,
        match=rf"County\.parquet: constraints of {VERMONT} contradict one another: correctional is >= 5 \(hhgq_total_lb\) and <= 4",
    ):
        read_nmf(tmp_path, "50")


def test_totals_that_contradict_the_files(tmp_path):
    minimal(tmp_path)
    with pytest.raises(ValueError, match=r"US_Person_PL_PROD, geography 50: .*20"):
        read_nmf(tmp_path, "50", totals={"50": 20})
    minimal(tmp_path / "units")
    with pytest.raises(ValueError, match=r"US_Unit_PL_PROD, geography 50: .*contradict"):
        read_nmf(tmp_path / "units", "50", product="pl94-unit", totals={"50": 99})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            replace("sign", lambda line: line["sign"] == ">=", lambda _: ">"),
            "the sign must be one of =, >=, <=, got '>'",
        ),
        (replace("value", lambda line: line["sign"] == "<=", lambda _: [-1] * 8), "a count would be <= -1"),
    ],
)
def test_constraints_that_are_not_right(tmp_path, change, message):
    minimal(tmp_path)
    rewrite(tmp_path / "US_Person_PL_PROD/County.parquet/Constraint/State=50/part-0.parquet", change)
    with pytest.raises(ValueError, match=rf"geocode {VERMONT}, hhgq_total_.b_con: {message}"):
        read_nmf(tmp_path, "50")


def test_the_total_of_a_state_needs_both_branches(tmp_path):
    blocks = [*synthetic_spine("30", counties=1), *synthetic_spine("30", counties=1, aian=True)]
    root = write_synthetic_nmf(tmp_path, truth_of(blocks), queries=["total"], rng=3).parent
    with pytest.raises(
        ValueError, match="is the sum of its branches 030, 130, and 130 was not read as a whole: read geography='30'"
    ):
        read_nmf(root, "030", levels=["State"], totals={"30": 100})
    with pytest.raises(ValueError, match="and 030, 130 was not read as a whole"):
        read_nmf(root, "30001", levels=["County"], totals={"30": 100})
    for folder in root.rglob("State=130"):
        shutil.rmtree(folder)
    with pytest.raises(
        ValueError, match=r"branches 030 and 130, but no State=130 in .*: the total is not that of what is there"
    ):
        read_nmf(root, "30", levels=["State"], totals={"30": 100})


def test_what_is_not_known_is_said_and_not_used(tmp_path):
    minimal(tmp_path)
    folder = tmp_path / "US_Person_PL_PROD/County.parquet"
    rows = [row(VERMONT, "shoe_size_dpq", ("*", "shoes", "*", "*"), [1, 4, 1, 1], [1, 2, 3, 4], 4.0)]
    write_rows(folder / "DPQuery/State=50/part-1.parquet", rows)
    rows = [row(VERMONT, "odd_con", ("gqNursingTotal", "*", "*", "*"), [1, 1, 1, 1], [7], sign="=")]
    write_rows(folder / "Constraint/State=50/part-1.parquet", rows)
    found = read_nmf(tmp_path, "50")
    said = {own.what: own.reason for own in found.unused}
    assert "'shoes' is no binning of the axis 'votingage'" in said["County, shoe_size_dpq"]
    assert "some values of an axis only" in said["County, odd_con"]
    assert len(found.release.measurements) == 3
    assert str(found.unused[0]) == f"{found.unused[0].what}: {found.unused[0].reason}"


def test_pyarrow_is_named_where_it_is_missing(monkeypatch, written):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"need pyarrow: pip install 'bayesdp\[census\]'"):
        read_nmf(written, "50")


def test_what_cannot_be_written(tmp_path):
    [block] = synthetic_spine("50", counties=1)
    good = np.zeros((8, 2, 2, 63), dtype=int)
    minors = good.copy()
    minors[3, 0, 0, 0] = 1
    for truth, arguments, message in (
        ({block: good[0]}, {}, r"must hold counts of shape \(8, 2, 2, 63\)"),
        ({block: good - 1}, {}, "the smallest number -1"),
        ({block: minors}, {}, "has minors in nursing homes"),
        ({"050": good}, {}, "'050' is no geocode of the level Block"),
        ({}, {}, "at least one leaf"),
        ({block: good}, {"queries": ["age"]}, "queries must be some of"),
        ({block: good}, {"variance": 0.0}, "variance"),
        ({block: good}, {"level": "Village"}, "level must be one of"),
        ({block: good[0, 0, 0, :2]}, {"product": "pl94-unit"}, "variance must be given for pl94-unit"),
    ):
        with pytest.raises(ValueError, match=message):
            write_synthetic_nmf(tmp_path / message[:5].strip(), truth, rng=1, **arguments)
    folder = write_synthetic_nmf(tmp_path / "good", {block: good}, queries=["total"], rng=1)
    with pytest.raises(FileExistsError, match="is there already"):
        write_synthetic_nmf(folder.parent, {block: good}, rng=1)
    with pytest.raises(ValueError, match="state must have two digits"):
        synthetic_spine("5", counties=1)
    with pytest.raises(ValueError, match="groups must be at most 9"):
        synthetic_spine("50", counties=1, groups=10)


def test_axes_of_the_fixture():
    assert PRODUCTS["pl94-person"].histogram.names == PERSON
