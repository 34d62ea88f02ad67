"""Layouts of noisy measurement files as they are published, and what is refused, with the file, the geocode or what was found."""

import os
import re
import shutil
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bayesdp.datasets import read_nmf, synthetic_spine, write_synthetic_nmf
from bayesdp.datasets.nmf import layout
from bayesdp.storage.guarded import in_child
from tests.datasets import nmf_files
from tests.datasets.nmf_files import VERMONT, file_of, minimal, reasons, rewrite, row, total_row, truth_of, write_rows
from tests.refusals import refused

LEVELS = ["County", "Tract"]
FOLDER = "US_Person_PL_PROD"
PART = r"Tract\.parquet/DPQuery/State=50/part-0\.parquet"
ONE_COUNTY = {"geography": "50", "levels": ["County"]}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Two counties of two tracts."""
    truth, queries = truth_of(synthetic_spine("50", counties=2, tracts=2)), ["total", "hhgq", "hispanic"]
    folder = tmp_path_factory.mktemp("good")
    return write_synthetic_nmf(folder, truth, queries=queries, constraints=False, rng=3).parent


@pytest.fixture
def root(written, tmp_path):
    return shutil.copytree(written, tmp_path / "nmf")


@pytest.fixture
def one(tmp_path):
    """A folder of one county, which is whole without any link."""
    return minimal(tmp_path / "files")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return read_nmf(minimal(tmp_path_factory.mktemp("whole")), **ONE_COUNTY)


def test_partitions_by_county_hold_what_partitions_by_state_hold(tmp_path):
    """The same noise in both layouts: each row is that of one geounit, drawn in the same order."""
    truth, given = nmf_files.split_state(), {"queries": ["total", "hispanic"], "constraints": False, "rng": 3}
    by_state = write_synthetic_nmf(tmp_path / "by-state", truth, **given)
    by_county = write_synthetic_nmf(tmp_path / "by-county", truth, partitions="county", **given)
    counties = by_county / "County.parquet/DPQuery"
    names = {str(own.parent.relative_to(counties)) for own in counties.rglob("*.parquet")}
    assert names == {"State=30/County=10001", "State=30/County=10002", "State=130/County=10001"}
    assert (by_county / "State.parquet/DPQuery/State=130/part-0.parquet").is_file()
    for geography, levels in (("30", ["State", "County"]), ("30001", ["County", "Block"])):
        first, other = (read_nmf(own, geography, levels=levels) for own in (by_state, by_county))
        assert (first.release, first.codes.geounits, first.unused) == (
            other.release,
            other.codes.geounits,
            other.unused,
        )


def test_only_the_county_that_is_asked_for_is_opened(tmp_path):
    truth = truth_of(synthetic_spine("50", counties=12))
    folder = write_synthetic_nmf(tmp_path, truth, queries=["total"], partitions="county", rng=3)
    for file in folder.glob("County.parquet/*/State=50/County=*/*.parquet"):
        if file.parent.name not in ("County=10007", "County=10001"):
            file.write_bytes(b"not to be opened")
    assert read_nmf(folder, "50007", levels=["County"]).codes.geounits["County"] == ("05010007",)
    with pytest.raises(ValueError, match=r"County=1001\d/part-0\.parquet"):  # 11 may be a part of county 1
        read_nmf(folder, "50001", levels=["County"])


@pytest.mark.parametrize("spelled", ["County=7", "County=007", "County=0007", "County=10007", "County=50007"])
@pytest.mark.parametrize("digit", ["", "1"])
def test_however_counties_are_spelled_their_rows_are_read(tmp_path, digit, spelled):
    state = tmp_path / FOLDER / "County.parquet/DPQuery/State=50"
    for code, folder, value in (("7" + digit, spelled + digit, 9), ("8", spelled.replace("7", "8"), 7)):
        write_rows(state / folder / "part-0.parquet", [total_row(f"0501000{code}", value)])
    found = read_nmf(tmp_path, "50007", levels=["County"])
    assert found.codes.geounits["County"] == (f"05010007{digit}",)
    assert found.release.measurements[0].values.tolist() == [9]


def test_levels_folders_and_columns_that_are_not_known_are_said(root):
    level = root / FOLDER / "Tract.parquet"
    shutil.copytree(level, level.with_name("Tract_2010.parquet"))
    shutil.copytree(level / "DPQuery", level / "Constraint_new")
    rewrite(file_of(root), lambda table: table.append_column("mechanism", pa.array(["geometric"] * len(table))))
    said = reasons(read_nmf(root, "50", levels=LEVELS))
    assert said["Tract_2010"] == "the product pl94-person has no such level here"
    assert said["Tract, Constraint_new"] == "it is not known here what is in that folder"
    assert said["Tract, column mechanism"] == "what it says is not known here"
    plain = reasons(read_nmf(root, "50", levels=["State"]))
    assert not any("column" in own or "Constraint" in own for own in plain)


def test_a_level_in_another_layout_is_refused(root):
    level = root / FOLDER / "Tract.parquet"
    (level / "DPQuery").rename(level / "DPQuery_2010")
    with pytest.raises(ValueError, match=r"Tract\.parquet has none of the folders DPQuery and Constraint, .*'DPQ"):
        read_nmf(root, "50", levels=LEVELS)
    assert read_nmf(root, "50", levels=["State", "County"]).levels == ("County", "State")
    shutil.rmtree(level)
    shutil.copy(file_of(root, "County"), level)
    with pytest.raises(ValueError, match=r"Tract\.parquet is a file; a level is a folder, with DPQuery and Constraint"):
        read_nmf(root, "50", levels=["County"])


def test_partitions_that_hold_both_branches_are_refused(tmp_path):
    """State=30 for both branches: rows of the second one are looked for in State=130, and would be missed."""
    root = write_synthetic_nmf(tmp_path, nmf_files.split_state(), queries=["total"], constraints=False, rng=3)
    for folder in root.rglob("State=130"):
        (folder / "part-0.parquet").rename(folder.parent / "State=30/part-1.parquet")
        folder.rmdir()
    with pytest.raises(ValueError, match=r"=30/part-1\.parquet: geocode 130\d* does not start with 030, the branch"):
        read_nmf(root, "30", levels=["State"])


def test_files_of_another_product_are_refused(written):
    for product in ("pl94-unit", "dhc-person"):
        other = f"is not of the product '{product}', .* the columns .*'votingage'.*, as in 'pl94-person'"
        with pytest.raises(ValueError, match=other):
            read_nmf(written / FOLDER, "50", product=product, levels=["County"])


def test_codes_of_another_form_are_refused(tmp_path):
    """Whatever is read: what the cross-walk would make of such a code is a wrong place."""
    for level, geocode, form in (
        ("State", "0500", "three digits, 0 or 1 for the branch"),
        ("County", "0501001", "eight digits or more"),
        ("Tract", "250100010001", "eight digits or more, of which the first is 0 or 1"),
        ("Block", "050100010001015100010001001001", "at the end 16 that start with the state's two"),
    ):
        write_rows(tmp_path / FOLDER / f"{level}.parquet/DPQuery/part-0.parquet", [total_row(geocode, 9)])
        message = rf"part-0\.parquet: geocodes of the level {level} have .*{form}.*; got '{geocode}'"
        with pytest.raises(ValueError, match=message):
            read_nmf(tmp_path, "US", levels=[level])


@pytest.mark.parametrize(
    ("kind", "above"),
    [("DPQuery", 0), ("Constraint", 0), ("Constraint", 1), ("DPQuery", 2), ("DPQuery", 3), ("DPQuery", 4)],
)
def test_links_are_followed_within_the_folder_and_refused_out_of_it(one, whole, tmp_path, kind, above):
    """To a file, partition, kind, level or product: none of them loses a row; the folder that is asked for may be a link, too."""
    file = file_of(one, "County", kind)
    own = [file, *file.parents][above]
    own.rename(one / "elsewhere")
    own.symlink_to(one / "elsewhere")
    (tmp_path / "link").symlink_to(one)
    linked = read_nmf(one if above else tmp_path / "link", **ONE_COUNTY)
    assert (linked.release, linked.unused) == (whole.release, whole.unused)
    own.unlink()
    (one / "elsewhere").rename(tmp_path / "outside")
    own.symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match=rf"{re.escape(str(own))} is a link that leads out of .*files, to .*outside"):
        read_nmf(one, **ONE_COUNTY)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize("dangling", [False, True])
@pytest.mark.parametrize("what", ["DPQuery/State=50/part-0.parquet", "Constraint", "DPQuery/State=06", "../US.parquet"])
def test_what_is_neither_file_nor_folder_is_refused(one, tmp_path, what, dangling):
    own = file_of(one, "County").parents[2] / what
    if own.exists():
        own.rename(tmp_path / "away")
    own.symlink_to("nothing") if dangling else os.mkfifo(own)
    with pytest.raises(ValueError, match=rf"{re.escape(own.name)} is neither a file nor a folder"):
        read_nmf(one, **ONE_COUNTY)


def test_what_has_no_rows_is_said_and_links_in_a_circle_are_refused(one, whole):
    partition = file_of(one, "County").parent
    table = pq.read_table(partition / "part-0.parquet", partitioning=None)
    pq.write_table(table.slice(0, 0), partition / "part-1.parquet")
    (partition.parent / "State=06").mkdir()
    (partition.parent / "State=06/_SUCCESS").touch()
    (partition / "_temporary").mkdir()
    (partition / "part-2.parquet.gz").touch()
    found = read_nmf(one, **ONE_COUNTY)
    assert found.release == whole.release
    unknown = "there are no rows that are known here"
    assert {own.what: own.reason for own in found.unused if own not in whole.unused} == {
        "County, DPQuery/State=50/part-1.parquet": "it has no rows",
        "County, DPQuery/State=06": unknown,
        "County, DPQuery/State=50/_temporary": unknown,
        "County, DPQuery/State=50/part-2.parquet.gz": unknown,
    }
    (partition / "again").symlink_to(partition.parents[1])
    with pytest.raises(ValueError, match=r"again is a link to a folder that it is in"):
        read_nmf(one, **ONE_COUNTY)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"geography": "51"}, ValueError, r"no geography '51' at the levels .*; branches of states that are there are '050'"),
        ({"geography": "50005"}, ValueError, r"'50005' .*; of the level County there are 05010001 \(50001\), 05010002 \(50002\)"),
        ({"geography": "050100019999"}, ValueError, r"of the level Tract there are 050100010001, 050100010002"),
        ({"geography": "Vermont"}, ValueError, "geography must be 'US', two digits of a state"),
        ({"geography": "5000"}, ValueError, "geography must be 'US'"),
        ({"geography": 50}, TypeError, "leading zeros count, got 50"),
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
        ({"max_cells": 2016}, NotImplementedError, "4 geounits of the level Tract in 50 by 2,016 cells has 8,064 cells"),
        ({"totals": {"50": -1}}, ValueError, "totals"),
        ({"totals": {"51": 7}}, ValueError, "total.* of the state '51'"),
        ({"totals": {"05010009": 7}}, ValueError, "'05010009', which was not read"),
        ({"totals": {"US": 7}}, ValueError, "only a part of the nation was read"),
        ({"totals": {"50": 7, "050": 8}, "levels": ["State"]}, ValueError, "several numbers for the same area"),
    ],
)  # fmt: skip
def test_arguments_that_are_not_right(written, arguments, error, message):
    with pytest.raises(error, match=message):
        read_nmf(written, **{"geography": "50", "levels": LEVELS} | arguments)


def test_folders_that_are_not_right_and_pyarrow_that_is_missing(tmp_path, written, root, monkeypatch):
    with pytest.raises(FileNotFoundError, match="absent is no folder"):
        read_nmf(tmp_path / "absent", "50")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="there are no files"):
        read_nmf(tmp_path / "empty", "50")
    (tmp_path / "empty" / FOLDER).mkdir()
    with pytest.raises(ValueError, match=r"has no level of the product 'pl94-person', such as US\.parquet"):
        read_nmf(tmp_path / "empty", "50")
    # The folder itself may be named, whatever it is called: that of the demonstration of 2010 is called otherwise.
    other = (root / FOLDER).rename(root / "2010_PL94_Demonstration")
    with pytest.raises(FileNotFoundError, match="there are '2010_PL94_Demonstration'"):
        read_nmf(root, "50", levels=["State"])
    assert read_nmf(other, "50", levels=["State"]).release == read_nmf(written, "50", levels=["State"]).release
    shutil.rmtree(other / "Tract.parquet")
    with pytest.raises(ValueError, match="no level 'Tract'; its levels are 'US', 'State', 'County', 'Block_Group', 'B"):
        read_nmf(other, "50", levels=LEVELS)
    assert reasons(read_nmf(other, "50"))["Tract"] == "there are no files of this level in the folder"
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"need pyarrow: pip install 'bayesdp\[census\]'"):
        read_nmf(written, "50")


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
)  # fmt: skip
def test_geounits_that_are_missing(root, level, change, levels, message):
    rewrite(file_of(root, level), change)
    with pytest.raises(ValueError, match=rf"Tract\.parquet: {message}"):
        read_nmf(root, "50", levels=levels)


def replace(column, where, value, kind=None):
    """Change one column of the rows for which `where` holds."""

    def change(table):
        old = table[column].to_pylist()
        new = [value(own) if where(line) else own for own, line in zip(old, table.to_pylist(), strict=True)]
        return table.set_column(table.column_names.index(column), column, pa.array(new, kind or table[column].type))

    return change


def of_total(column, value):
    """Change one column of one row."""
    return replace(column, lambda own: own["query_name"] + own["geocode"][-4:] == "total_dpq0001", lambda _: value)


def replace_first(table, value):
    """Put a value into the first row."""
    column = pa.chunked_array([value, table["value"].slice(1).combine_chunks().cast(value.type)])
    return table.set_column(table.column_names.index("value"), "value", column)


FLOATS = replace("value", lambda _: True, lambda own: [float(v) for v in own], pa.list_(pa.float64()))
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
        (FLOATS, f"{A_ROW}must be a list of whole"),
        (of_total("query_shape", [2, 1, 1, 1]), rf"{A_ROW}has 1 numbers of shape \(2, 1, 1, 1\)"),
        (of_total("hispanic", "hispanic"), f"{A_ROW}has 1 numbers"),
        (lambda table: pa.concat_tables([table, table]), f"{A_ROW}is there twice, also in"),
        (of_total("geocode", None), "2 rows have no geocode"),
        (lambda table: table.drop_columns(["value"]), "the columns 'value' are missing; there are 'geocode'"),
    ],
)
def test_rows_that_are_not_right(root, change, message):
    rewrite(file_of(root), change)
    with pytest.raises(ValueError, match=f"{PART}: {message}"):
        read_nmf(root, "50", levels=LEVELS)


def test_a_file_that_is_damaged(root):
    data = file_of(root).read_bytes()
    for damaged in (b"", data[: len(data) // 2], data[: int(0.999 * len(data))], data[:4] + bytes(196) + data[200:]):
        file_of(root).write_bytes(damaged)
        with pytest.raises(ValueError, match=f"{PART}: .*{'' if len(damaged) == len(data) else 'cut short'}"):
            read_nmf(root, "50", levels=LEVELS)


@pytest.mark.parametrize(("small", "children"), [(2**20, 1 + 1), (1, 2 + 2)])
def test_small_files_are_read_by_one_process_and_others_each_by_its_own(root, monkeypatch, small, children):
    """Two files: rows are found and then read, those of a file where a number is missing that was not asked for by themselves."""
    expected = read_nmf(root, "50", ["total", "hispanic"], levels=LEVELS)
    rewrite(file_of(root), replace("value", lambda own: own["query_name"] == "hhgq_dpq", lambda _: None))
    started = []
    monkeypatch.setattr(layout, "in_child", lambda read, *given: started.append(given) or in_child(read, *given))
    monkeypatch.setattr(layout, "_SMALL", 2**20)
    read_nmf(root, "50", ["total"], levels=["County"])
    assert len(started) == 1
    started.clear()
    monkeypatch.setattr(layout, "_SMALL", small)
    found = read_nmf(root, "50", ["total", "hispanic"], levels=LEVELS)
    assert (found.release, found.unused) == (expected.release, expected.unused)
    assert len(started) == children
    with pytest.raises(ValueError, match=f"{PART}: geocode .*, hhgq_dpq: there is no value"):
        read_nmf(root, "50", ["hhgq"], levels=LEVELS)


def test_a_file_that_takes_too_much_is_named_where_others_are_read_with_it(root):
    zeros = pa.array([[0] * 30_000_000], pa.list_(pa.int64()))
    rewrite(file_of(root), lambda table: replace_first(table, zeros))
    with pytest.raises(ValueError, match=f"^[^;]*{PART}: reading it takes more than"):
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
def test_constraints_that_are_not_right(one, change, message):
    rewrite(file_of(one, "County", "Constraint"), change)
    with pytest.raises(ValueError, match=message):
        read_nmf(one, "50")


def test_totals_that_contradict_the_files(one):
    with pytest.raises(ValueError, match=r"US_Person_PL_PROD, geography 50: .*20"):
        read_nmf(one, "50", ["hhgq"], totals={"50": 20})
    with pytest.raises(ValueError, match=r"US_Unit_PL_PROD, geography 50: .*contradict"):
        read_nmf(one, "50", product="pl94-unit", totals={"50": 99})


def test_the_total_of_a_state_needs_both_branches(tmp_path):
    blocks = [*synthetic_spine("30", counties=1), *synthetic_spine("30", counties=1, aian=True)]
    root = write_synthetic_nmf(tmp_path, truth_of(blocks), queries=["total"], constraints=False, rng=3).parent

    def is_refused(geography, level, message):
        with pytest.raises(ValueError, match=message):
            read_nmf(root, geography, levels=[level], totals={"30": 100})

    branches = "is the sum of its branches 030, 130, and"
    is_refused("030", "State", f"{branches} 130 was not read as a whole: read geography='30'")
    is_refused("30001", "County", f"{branches} 030, 130 was not read as a whole")
    for folder in root.rglob("State=130"):
        shutil.rmtree(folder)
    is_refused("30", "State", "branches 030 and 130, but no State=130 in .*: the total is not that of what is there")


def test_what_is_not_known_is_said_and_not_used(one):
    shoes = row(VERMONT, "shoe_size_dpq", ("*", "shoes", "*", "*"), [1, 4, 1, 1], [1, 2, 3, 4], 4.0)
    odd = row(VERMONT, "odd_con", ("gqNursingTotal", "*", "*", "*"), [1, 1, 1, 1], [7], sign="=")
    for kind, own in (("DPQuery", shoes), ("Constraint", odd)):
        write_rows(file_of(one, "County", kind).with_name("part-1.parquet"), [own])
    found = read_nmf(one, "50")
    assert "'shoes' is no binning of the axis 'votingage'" in reasons(found)["County, shoe_size_dpq"]
    assert "some values of an axis only" in reasons(found)["County, odd_con"]
    assert len(found.release.measurements) == 3
    assert str(found.unused[0]) == f"{found.unused[0].what}: {found.unused[0].reason}"


[BLOCK] = synthetic_spine("50", counties=1)
GOOD = np.zeros((8, 2, 2, 63), dtype=int)
MINORS = GOOD.copy()
MINORS[3, 0, 0, 0] = 1
test_what_cannot_be_written = refused(
    ({"truth": {BLOCK: GOOD[0]}}, r"must hold counts of shape \(8, 2, 2, 63\)", ValueError),
    ({"truth": {BLOCK: GOOD - 1}}, "the smallest number -1", ValueError),
    ({"truth": {BLOCK: MINORS}}, "has minors in nursing homes", ValueError),
    ({"truth": {"050": GOOD}}, "'050' is no geocode of the level Block", ValueError),
    ({"truth": {}}, "at least one leaf", ValueError),
    ({"queries": ["age"]}, "queries must be some of", ValueError),
    ({"variance": 0.0}, "variance", ValueError),
    ({"variance": 1e-4}, r"sigma\*\*2 = 0\.0001 for .* every noise is 0", ValueError),
    ({"level": "Village"}, "level must be one of", ValueError),
    ({"partitions": "tract"}, "partitions must be one of 'state', 'county', got 'tract'", ValueError),
    ({"truth": {BLOCK: GOOD[0, 0, 0, :2]}, "product": "pl94-unit"}, "variance must be given for pl94-unit", ValueError),
    of=lambda given: write_synthetic_nmf("/dev/null", **{"truth": {BLOCK: GOOD}, "rng": 1} | given),
)


def test_nothing_is_overwritten_and_spines_have_codes(tmp_path):
    write_synthetic_nmf(tmp_path, {BLOCK: GOOD}, queries=["total"], rng=1)
    with pytest.raises(FileExistsError, match="is there already"):
        write_synthetic_nmf(tmp_path, {BLOCK: GOOD}, rng=1)
    with pytest.raises(ValueError, match="state must have two digits"):
        synthetic_spine("5", counties=1)
    with pytest.raises(ValueError, match="groups must be at most 9"):
        synthetic_spine("50", counties=1, groups=10)
