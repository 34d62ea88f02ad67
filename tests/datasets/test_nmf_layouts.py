"""Demonstration files as they are published, and layouts that are not known: read, or refused with what was found."""

from __future__ import annotations

import os
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bayesdp.datasets import read_nmf, synthetic_spine, write_synthetic_nmf
from tests.datasets.nmf_files import file_of, minimal, reasons, rewrite, row, split_state, truth_of, write_rows

LEVELS = ["State", "County", "Tract"]
QUERIES = ["total", "hispanic"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    truth = truth_of(synthetic_spine("50", counties=12, tracts=2))
    return write_synthetic_nmf(tmp_path_factory.mktemp("by-state"), truth, queries=QUERIES, rng=3)


@pytest.fixture
def root(written, tmp_path):
    shutil.copytree(written, tmp_path / "nmf/US_Person_PL_PROD")
    return tmp_path / "nmf"


def test_partitions_by_county_hold_what_partitions_by_state_hold(tmp_path):
    """The same noise in both layouts: each row is that of one geounit, drawn in the same order."""
    made = {}
    truth = split_state()
    for partitions in ("state", "county"):
        folder = tmp_path / f"2010-pl94-nmf-{partitions}-partitioned"
        write_synthetic_nmf(folder, truth, queries=QUERIES, partitions=partitions, rng=3)
        made[partitions] = folder / "US_Person_PL_PROD"
    counties = made["county"] / "County.parquet/DPQuery"
    names = {str(own.parent.relative_to(counties)) for own in counties.rglob("*.parquet")}
    assert names == {"State=30/County=10001", "State=30/County=10002", "State=130/County=10001"}
    assert (made["county"] / "State.parquet/DPQuery/State=130/part-0.parquet").is_file()
    for geography, levels in (("30", LEVELS), ("30001", ["County", "Block"]), ("130", ["County", "Block"])):
        one, other = (read_nmf(own, geography, levels=levels) for own in made.values())
        assert one.release == other.release
        assert one.codes.geounits == other.codes.geounits
        assert one.unused == other.unused


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
    state = tmp_path / "US_Person_PL_PROD/County.parquet/DPQuery/State=50"
    for code, folder, value in (("7" + digit, spelled + digit, 9), ("8", spelled.replace("7", "8"), 7)):
        own = row(f"0501000{code}", "total_dpq", ("*",) * 4, [1, 1, 1, 1], [value], 4.0)
        write_rows(state / folder / "part-0.parquet", [own])
    found = read_nmf(tmp_path, "50007", levels=["County"])
    assert found.codes.geounits["County"] == (f"05010007{digit}",)
    assert found.release.measurements[0].values.tolist() == [9]


def test_levels_folders_and_columns_that_are_not_known_are_said(root):
    person = root / "US_Person_PL_PROD"
    shutil.copytree(person / "Tract.parquet", person / "Tract_2010.parquet")
    shutil.copytree(person / "Tract.parquet/Constraint", person / "Tract.parquet/Constraint_new")
    rewrite(file_of(root), lambda table: table.append_column("mechanism", pa.array(["geometric"] * len(table))))
    said = reasons(read_nmf(root, "50", levels=LEVELS))
    assert said["Tract_2010"] == "the product pl94-person has no such level here"
    assert said["Tract, Constraint_new"] == "it is not known here what is in that folder"
    assert said["Tract, column mechanism"] == "what it says is not known here"
    plain = reasons(read_nmf(root, "50", levels=["State"]))
    assert not any("column" in own or "Constraint" in own for own in plain)


def test_a_level_in_another_layout_is_refused(root):
    level = root / "US_Person_PL_PROD/Tract.parquet"
    for own in list(level.iterdir()):
        own.rename(level / f"{own.name}_2010")
    none = r"Tract\.parquet has none of the folders DPQuery and Constraint, .*'Constraint_2010', 'DPQ"
    with pytest.raises(ValueError, match=none):
        read_nmf(root, "50", levels=LEVELS)
    assert read_nmf(root, "50", levels=["State", "County"]).levels == ("County", "State")


def test_partitions_that_hold_both_branches_are_refused(tmp_path):
    """State=30 for both branches: rows of the second one are looked for in State=130, and would be missed."""
    root = write_synthetic_nmf(tmp_path, split_state(), queries=QUERIES, rng=3)
    for folder in root.rglob("State=130"):
        shutil.move(folder / "part-0.parquet", folder.parent / "State=30/part-1.parquet")
        folder.rmdir()
    other = r"State=30/part-1\.parquet: geocode 130\d* does not start with 030, the branch"
    with pytest.raises(ValueError, match=other):
        read_nmf(root, "30", levels=LEVELS)


@pytest.mark.parametrize("product", ["pl94-unit", "dhc-person"])
def test_files_of_another_product_are_refused(written, product):
    other = f"is not of the product '{product}', .* the columns .*'votingage'.*, as in 'pl94-person'"
    with pytest.raises(ValueError, match=other):
        read_nmf(written, "50", product=product, levels=["County"])


@pytest.mark.parametrize(
    ("level", "geocode", "form"),
    [
        ("State", "0500", "three digits, 0 or 1 for the branch"),
        ("County", "0501001", "eight digits or more"),
        ("Tract", "250100010001", "eight digits or more, of which the first is 0 or 1"),
        ("Block", "050100010001015100010001001001", "at the end 16 that start with the state's two"),
    ],
)
def test_codes_of_another_form_are_refused(tmp_path, level, geocode, form):
    """Whatever is read: what the cross-walk would make of such a code is a wrong place."""
    rows = [row(geocode, "total_dpq", ("*",) * 4, [1, 1, 1, 1], [9], 4.0)]
    write_rows(tmp_path / f"US_Person_PL_PROD/{level}.parquet/DPQuery/part-0.parquet", rows)
    message = rf"part-0\.parquet: geocodes of the level {level} have .*{form}.*; got '{geocode}'"
    with pytest.raises(ValueError, match=message):
        read_nmf(tmp_path, "US", levels=[level])


ONE_COUNTY = {"geography": "50", "levels": ["County"]}


@pytest.fixture
def one(tmp_path):
    """A folder of one county, which is whole without any link."""
    return minimal(tmp_path / "files")


@pytest.mark.parametrize("kind", ["DPQuery", "Constraint"])
@pytest.mark.parametrize("above", [0, 1, 2, 3, 4], ids=["file", "partition", "kind", "level", "product"])
def test_links_are_followed_within_the_folder_and_refused_out_of_it(one, tmp_path, kind, above):
    """None of them loses a row; the folder that is asked for may be a link, too."""
    whole = read_nmf(one, **ONE_COUNTY)
    file = file_of(one, "County", kind)
    own = [file, *file.parents][above]
    own.rename(one / "elsewhere")
    own.symlink_to(one / "elsewhere")
    (tmp_path / "link").symlink_to(one)
    for folder in (one, tmp_path / "link"):
        linked = read_nmf(folder, **ONE_COUNTY)
        assert linked.release == whole.release
        assert linked.unused == whole.unused
    own.unlink()
    (one / "elsewhere").rename(tmp_path / "outside")
    own.symlink_to(tmp_path / "outside")
    with pytest.raises(ValueError, match=rf"{re.escape(str(own))} is a link that leads out of .*files, to .*outside"):
        read_nmf(one, **ONE_COUNTY)


def test_links_in_a_circle_are_refused(one):
    partition = file_of(one, "County").parent
    (partition / "again").symlink_to(partition.parents[1])
    with pytest.raises(ValueError, match=r"again is a link to a folder that it is in"):
        read_nmf(one, **ONE_COUNTY)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no FIFOs")
@pytest.mark.parametrize(
    "what", ["DPQuery/State=50/part-0.parquet", "Constraint", "DPQuery/State=06", "../Tract.parquet"]
)
@pytest.mark.parametrize("dangling", [False, True])
def test_what_is_neither_file_nor_folder_is_refused(one, tmp_path, what, dangling):
    own = file_of(one, "County").parents[2] / what
    if own.exists():
        own.rename(tmp_path / "away")
    own.symlink_to("nothing") if dangling else os.mkfifo(own)
    with pytest.raises(ValueError, match=rf"{re.escape(own.name)} is neither a file nor a folder"):
        read_nmf(one, **ONE_COUNTY)


def test_what_has_no_rows_is_said(one):
    partition = file_of(one, "County").parent
    whole = read_nmf(one, **ONE_COUNTY)
    table = pq.read_table(partition / "part-0.parquet", partitioning=None)
    pq.write_table(table.slice(0, 0), partition / "part-1.parquet")
    (partition.parent / "State=06").mkdir()
    (partition.parent / "State=06/_SUCCESS").touch()
    (partition / "_temporary").mkdir()
    (partition / "part-2.parquet.gz").touch()
    found = read_nmf(one, **ONE_COUNTY)
    assert found.release == whole.release
    assert {own.what: own.reason for own in found.unused if own not in whole.unused} == {
        "County, DPQuery/State=50/part-1.parquet": "it has no rows",
        "County, DPQuery/State=06": "there are no rows that are known here",
        "County, DPQuery/State=50/_temporary": "there are no rows that are known here",
        "County, DPQuery/State=50/part-2.parquet.gz": "there are no rows that are known here",
    }


def test_a_level_that_is_a_file_is_refused(one):
    partition = file_of(one, "County").parent
    shutil.copy(partition / "part-0.parquet", partition.parents[2] / "Tract.parquet")
    with pytest.raises(ValueError, match=r"Tract\.parquet is a file; a level is a folder, with DPQuery and Constraint"):
        read_nmf(one, **ONE_COUNTY)
