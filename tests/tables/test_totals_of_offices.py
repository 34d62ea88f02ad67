"""Totals in files that offices have published, where they are there; see BAYESDP_SHARED_DATA."""

import csv
import os
from pathlib import Path

import pytest

from bayesdp.tables import read_table

SHARED = Path(os.environ.get("BAYESDP_SHARED_DATA", Path(__file__).parents[3] / "shared/data"))
STATS_NZ = SHARED / "statsnz2013/age_sex_by_electorate.csv"
ABS = SHARED / "abs2016_working_population/2016Census_W01A_AUS_SA4.csv"


@pytest.mark.skipif(not STATS_NZ.is_file(), reason="no file of Stats NZ; BAYESDP_SHARED_DATA names its folder")
def test_stats_nz_age_by_sex(tmp_path):
    """Rounded to base 3, totals on their own: by the words, and with other words by the numbers."""
    one, lines = tmp_path / "t.csv", []
    with STATS_NZ.open(encoding="utf-8") as text:
        for own in csv.DictReader(text):
            area, age, sex = own["row_header2"], own["row_header3"].split(",")[0], own["col_header2"]
            left_out = {"Total", "Area"} & {*area.split()} or age in ("Median age", "18 Years And Over")
            if own["dimensions"] == "By general electorate" and own["value"] and not left_out:
                lines.append(f'"{area}","{age}",{sex},{float(own["value"]):.0f}\n')
    one.write_text("area,age,sex,n\n" + "".join(lines))
    with pytest.raises(ValueError, match="looks like a sum"):
        read_table(one)
    table = read_table(one, totals={"age": "Total people", "sex": "Total people"})
    assert dict(table.sizes) == {"area": 64, "age": 18, "sex": 2}
    one.write_text(one.read_text().replace("Total people", "Katoa"))
    with pytest.raises(ValueError, match="age='Katoa' is as large as all others"):
        read_table(one)
    with pytest.raises(ValueError, match="sex='Katoa' is as large as all others"):
        read_table(one, totals={"age": "Katoa"})


@pytest.mark.skipif(not ABS.is_file(), reason="no file of the ABS; BAYESDP_SHARED_DATA names its folder")
def test_abs_working_population(tmp_path):
    """Cell keys, each number perturbed by itself: M, F and P, with ages and work statuses that end in Tot."""
    with ABS.open(encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    code, *columns = rows[0]
    path, lines = tmp_path / "t.csv", []
    for column in columns:
        sex, age = (place := column.removesuffix("_NS").rpartition("_")[0]).split("_", 1)
        lines += [f"{row[code]},{sex},{age},{column[len(place) + 1 :]},{row[column]}\n" for row in rows if sex in "MF"]
    path.write_text("area,sex,age,status,n\n" + "".join(lines))
    with pytest.raises(ValueError, match=r"age='Tot' looks like a sum over 'age'.*--total age=Tot"):
        read_table(path)
    cells = read_table(path, totals={"age": "Tot", "status": "Tot"})
    assert cells.shape[1:] == (2, 13, 4)
    path.write_text(path.read_text().replace("Tot", "x"))
    with pytest.raises(ValueError, match="'x' is as large as all others"):
        read_table(path)
