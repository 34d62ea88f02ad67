"""Noisy measurement files that are not right are refused, with the file and the geocode."""

from __future__ import annotations

import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from bayesdp.datasets import read_nmf, synthetic_spine, write_synthetic_nmf
from tests.datasets.nmf_files import VERMONT, file_of, minimal, reasons, rewrite, row, truth_of, write_rows

LEVELS = ["County", "Tract"]
FOLDER = "US_Person_PL_PROD"


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    truth = truth_of(synthetic_spine("50", counties=2, tracts=2))
    folder = tmp_path_factory.mktemp("good")
    return write_synthetic_nmf(folder, truth, queries=["total", "hhgq", "hispanic"], rng=3).parent


@pytest.fixture
def root(written, tmp_path):
    shutil.copytree(written, tmp_path / "nmf")
    return tmp_path / "nmf"


def replace(column, where, value, kind=None):
    """Change one column of the rows for which `where` holds."""

    def change(table):
        old = table[column].to_pylist()
        new = [value(own) if where(line) else own for own, line in zip(old, table.to_pylist(), strict=True)]
        return table.set_column(table.column_names.index(column), column, pa.array(new, kind or table[column].type))

    return change


def of_total(column, value):
    """Change one column of one row."""
    return replace(
        column, lambda own: own["query_name"] == "total_dpq" and own["geocode"].endswith("0001"), lambda _: value
    )


def floats(table):
    return replace("value", lambda _: True, lambda own: [float(v) for v in own], pa.list_(pa.float64()))(table)


@pytest.mark.parametrize(
    ("geography", "error", "message"),
    [
        ("51", ValueError, r"no geography '51' at the levels .*; branches of states that are there are '050'"),
        ("50005", ValueError, r"no geography '50005' .*; of the level County there are 05010001 \(50001\), 05010002 \(50002\)"),
        ("050100019999", ValueError, r"of the level Tract there are 050100010001, 050100010002"),
        ("Vermont", ValueError, "geography must be 'US', two digits of a state"),
        ("5000", ValueError, "geography must be 'US'"),
        (50, TypeError, "leading zeros count, got 50"),
    ],
)  # fmt: skip
def test_a_geography_that_is_not_there(written, geography, error, message):
    with pytest.raises(error, match=message):
        read_nmf(written, geography, levels=LEVELS)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"queries": ["age"]}, ValueError, r"queries names 'age', which is not .*; queries are 'hhgq', 'hispanic', 'total'"),
        ({"queries": ["detailed"]}, ValueError, "queries names 'detailed', which is not measured"),
        ({"queries": "total"}, TypeError, "queries must be a list of names"),
        ({"queries": []}, ValueError, "queries must name at least one query"),
        ({"levels": ["Tracts"]}, ValueError, "levels must be some of 'US', 'State', 'County'"),
        ({"levels": "Tract"}, TypeError, "levels must be a list"),
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


def test_folders_that_are_not_right(tmp_path, written, root):
    with pytest.raises(FileNotFoundError, match="absent is no folder"):
        read_nmf(tmp_path / "absent", "50")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="there are no files"):
        read_nmf(tmp_path / "empty", "50")
    (tmp_path / "empty" / FOLDER).mkdir()
    with pytest.raises(ValueError, match=r"has no level of the product 'pl94-person', such as US\.parquet"):
        read_nmf(tmp_path / "empty", "50")
    # The folder itself may be named, whatever it is called: that of the demonstration of 2010 is called otherwise.
    (root / FOLDER).rename(root / "2010_PL94_Demonstration")
    with pytest.raises(FileNotFoundError, match="there are '2010_PL94_Demonstration'"):
        read_nmf(root, "50", levels=["State"])
    found = read_nmf(root / "2010_PL94_Demonstration", "50", levels=["State"])
    assert found.release == read_nmf(written, "50", levels=["State"]).release


def test_a_level_that_is_not_there(root):
    shutil.rmtree(root / FOLDER / "Tract.parquet")
    there = "'US', 'State', 'County', 'Block_Group', 'Block'"
    with pytest.raises(ValueError, match=f"has no level 'Tract'; its levels are {there}"):
        read_nmf(root, "50", levels=LEVELS)
    said = reasons(read_nmf(root, "50"))
    assert said["Tract"] == "there are no files of this level in the folder"


@pytest.mark.parametrize(
    ("level", "change", "levels", "message"),
    [
        ("Tract", lambda table: table.slice(0, 0), [*LEVELS, "Block_Group"],
         "there is no geounit of the level Tract, but of County and Block_Group"),
        ("County", lambda table: table.filter(pc.not_equal(table["geocode"], "05010002")), LEVELS,
         "050100020001 has no geounit of the level County above it in .*County"),
        ("Tract", lambda table: table.filter(pc.invert(pc.starts_with(table["geocode"], "05010002"))), LEVELS,
         "there is no geounit of the level Tract below County 05010002"),
    ],
    ids=["no rows", "no parent", "no child"],
)  # fmt: skip
def test_geounits_that_are_missing(root, level, change, levels, message):
    for kind in ("DPQuery", "Constraint"):
        rewrite(file_of(root, level, kind), change)
    with pytest.raises(ValueError, match=rf"Tract\.parquet: {message}"):
        read_nmf(root, "50", levels=levels)


A_ROW = r"geocode 05010001000\d, \w+_dpq.*"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_total("variance", 0.0), f"{A_ROW}the variance of the noise is 0; it must be a positive number"),
        (of_total("variance", None), f"{A_ROW}the variance of the noise is missing"),
        (of_total("variance", float("inf")), f"{A_ROW}the variance of the noise is inf"),
        (of_total("value", None), f"{A_ROW}there is no value"),
        (of_total("value", [1, 2]), f"{A_ROW}has 2 numbers of shape"),
        (of_total("value", [None]), f"{A_ROW}value must be a list of whole numbers"),
        (floats, f"{A_ROW}must be a list of whole"),
        (of_total("query_shape", [2, 1, 1, 1]), rf"{A_ROW}has 1 numbers of shape \(2, 1, 1, 1\)"),
        (of_total("hispanic", "hispanic"), f"{A_ROW}has 1 numbers"),
        (lambda table: pa.concat_tables([table, table]), f"{A_ROW}is there twice, also in"),
        (of_total("geocode", None), "2 rows have no geocode"),
        (lambda table: table.drop_columns(["value"]), "the columns 'value' are missing; there are 'geocode'"),
    ],
)
def test_rows_that_are_not_right(root, change, message):
    rewrite(file_of(root), change)
    with pytest.raises(ValueError, match=rf"Tract\.parquet/DPQuery/State=50/part-0\.parquet: {message}"):
        read_nmf(root, "50", levels=LEVELS)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda data: b"", ".* cut short"),
        (lambda data: data[: len(data) // 2], ".* cut short"),
        (lambda data: data[: int(0.999 * len(data))], ".* cut short"),
        (lambda data: data[:4] + bytes(196) + data[200:], ""),
    ],
    ids=["empty", "half", "end", "zeros"],
)
def test_a_file_that_is_damaged(root, damage, message):
    file = file_of(root)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=rf"Tract\.parquet/DPQuery/State=50/part-0\.parquet: {message}"):
        read_nmf(root, "50", levels=LEVELS)


def signed(sign):
    return lambda line: line["sign"] == sign


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (replace("sign", signed(">="), lambda _: ">"),
         rf"geocode {VERMONT}, hhgq_total_lb_con: the sign must be one of =, >=, <=, got '>'"),
        (replace("value", signed("<="), lambda _: [-1] * 8), rf"geocode {VERMONT}, hhgq_total_ub_con: a count would be <= -1"),
        (replace("value", signed("<="), lambda _: [6000, 4, *[6000] * 6]),
         rf"County\.parquet: constraints of {VERMONT} contradict one another: correctional is >= 5 \(hhgq_total_lb\) and <= 4"),
    ],
)  # fmt: skip
def test_constraints_that_are_not_right(tmp_path, change, message):
    minimal(tmp_path)
    rewrite(file_of(tmp_path, "County", "Constraint"), change)
    with pytest.raises(ValueError, match=message):
        read_nmf(tmp_path, "50")


@pytest.mark.parametrize(
    ("product", "total", "message"),
    [
        ("pl94-person", 20, "US_Person_PL_PROD, geography 50: .*20"),
        ("pl94-unit", 99, "US_Unit_PL_PROD, geography 50: .*contradict"),
    ],
)
def test_totals_that_contradict_the_files(tmp_path, product, total, message):
    with pytest.raises(ValueError, match=message):
        read_nmf(minimal(tmp_path), "50", product=product, totals={"50": total})


def test_the_total_of_a_state_needs_both_branches(tmp_path):
    blocks = [*synthetic_spine("30", counties=1), *synthetic_spine("30", counties=1, aian=True)]
    root = write_synthetic_nmf(tmp_path, truth_of(blocks), queries=["total"], rng=3).parent

    def refused(geography, level, message):
        with pytest.raises(ValueError, match=message):
            read_nmf(root, geography, levels=[level], totals={"30": 100})

    branches = "is the sum of its branches 030, 130, and"
    refused("030", "State", f"{branches} 130 was not read as a whole: read geography='30'")
    refused("30001", "County", f"{branches} 030, 130 was not read as a whole")
    for folder in root.rglob("State=130"):
        shutil.rmtree(folder)
    refused("30", "State", "branches 030 and 130, but no State=130 in .*: the total is not that of what is there")


def test_what_is_not_known_is_said_and_not_used(tmp_path):
    minimal(tmp_path)
    shoes = row(VERMONT, "shoe_size_dpq", ("*", "shoes", "*", "*"), [1, 4, 1, 1], [1, 2, 3, 4], 4.0)
    odd = row(VERMONT, "odd_con", ("gqNursingTotal", "*", "*", "*"), [1, 1, 1, 1], [7], sign="=")
    for kind, own in (("DPQuery", shoes), ("Constraint", odd)):
        write_rows(file_of(tmp_path, "County", kind).with_name("part-1.parquet"), [own])
    found = read_nmf(tmp_path, "50")
    said = reasons(found)
    assert "'shoes' is no binning of the axis 'votingage'" in said["County, shoe_size_dpq"]
    assert "some values of an axis only" in said["County, odd_con"]
    assert len(found.release.measurements) == 3
    assert str(found.unused[0]) == f"{found.unused[0].what}: {found.unused[0].reason}"


def test_pyarrow_is_named_where_it_is_missing(monkeypatch, written):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"need pyarrow: pip install 'bayesdp\[census\]'"):
        read_nmf(written, "50")


[BLOCK] = synthetic_spine("50", counties=1)
GOOD = np.zeros((8, 2, 2, 63), dtype=int)
MINORS = GOOD.copy()
MINORS[3, 0, 0, 0] = 1


@pytest.mark.parametrize(
    ("truth", "arguments", "message"),
    [
        ({BLOCK: GOOD[0]}, {}, r"must hold counts of shape \(8, 2, 2, 63\)"),
        ({BLOCK: GOOD - 1}, {}, "the smallest number -1"),
        ({BLOCK: MINORS}, {}, "has minors in nursing homes"),
        ({"050": GOOD}, {}, "'050' is no geocode of the level Block"),
        ({}, {}, "at least one leaf"),
        ({BLOCK: GOOD}, {"queries": ["age"]}, "queries must be some of"),
        ({BLOCK: GOOD}, {"variance": 0.0}, "variance"),
        ({BLOCK: GOOD}, {"variance": 1e-4}, r"sigma\*\*2 = 0\.0001 for .* every noise is 0"),
        ({BLOCK: GOOD}, {"level": "Village"}, "level must be one of"),
        ({BLOCK: GOOD}, {"partitions": "tract"}, "partitions must be one of 'state', 'county', got 'tract'"),
        ({BLOCK: GOOD[0, 0, 0, :2]}, {"product": "pl94-unit"}, "variance must be given for pl94-unit"),
    ],
)
def test_what_cannot_be_written(tmp_path, truth, arguments, message):
    with pytest.raises(ValueError, match=message):
        write_synthetic_nmf(tmp_path, truth, rng=1, **arguments)


def test_nothing_is_overwritten_and_spines_have_codes(tmp_path):
    write_synthetic_nmf(tmp_path, {BLOCK: GOOD}, queries=["total"], rng=1)
    with pytest.raises(FileExistsError, match="is there already"):
        write_synthetic_nmf(tmp_path, {BLOCK: GOOD}, rng=1)
    with pytest.raises(ValueError, match="state must have two digits"):
        synthetic_spine("5", counties=1)
    with pytest.raises(ValueError, match="groups must be at most 9"):
        synthetic_spine("50", counties=1, groups=10)
