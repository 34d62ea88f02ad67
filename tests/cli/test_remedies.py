"""What ``bayesdp import`` says of a file that is not quite right: row, column, and a remedy that works when it is followed.

Each test writes a file with a mistake, reads the remedy from the message, does what it says to the letter, and looks at the
release that comes out.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from bayesdp.release import Release
from tests.cli.conftest import NOISY, failed

LAW = ("--law", "discrete-gaussian sigma=5")


@pytest.fixture
def imported(run):
    def call(text: str, *options: str):
        Path("noisy.csv").write_text(text)
        result = run("import", "noisy.csv", *LAW, *options, "-o", "release.nc", "--force")
        if result.status:
            failed(result)
        return result

    return call


def told(result, *words: str) -> str:
    failed(result, *words)
    return result.err


def first_cells() -> list[float]:
    return Release.from_netcdf("release.nc").values.values.reshape(-1).tolist()


@pytest.mark.parametrize(
    ("written", "where", "number"),
    [
        ('"1,215"', "line 2, column 'count': '1,215' at county=Alpha, education=Low is not a number", "1215"),
        ('"-1,215"', "line 2, column 'count'", "-1215"),
        ("1 215", "line 2, column 'count'", "1215"),
        ('"12,215,001"', "line 2, column 'count'", "12215001"),
        ("1,215", "line 2: 4 fields, but the header has 3", "1215"),
        ("1,215,003", "line 2: 5 fields, but the header has 3", "1215003"),
    ],
)
def test_separators_of_thousands(written, where, number, imported):
    text = NOISY.replace("14", written)
    message = told(imported(text), "noisy.csv", where)
    remedy = re.search(r"without separators of thousands, (-?\d+)", message)
    assert remedy is not None
    assert remedy[1] == number
    assert imported(text.replace(written, remedy[1])).status == 0
    assert first_cells()[0] == int(number)


@pytest.mark.parametrize("written", ["<5", ">10", "1-4", "≤4", "NA", "*", "suppressed"])
def test_values_that_were_hidden(written, imported):
    text = NOISY.replace("14", written)
    message = told(
        imported(text), f"line 2, column 'count': {written!r} at county=Alpha, education=Low is not a number"
    )
    assert "leave the field empty and state that the cell was not published: --unmeasured blank" in message
    assert imported(text.replace(written, ""), "--unmeasured", "blank").status == 0
    assert np.isnan(first_cells()[0])
    hides_by_size = "right only if the choice of what to hide did not depend on the hidden number" in message
    assert hides_by_size == (written in ("<5", ">10", "1-4", "≤4"))


def test_percentages(imported):
    lines = NOISY.splitlines()
    text = "\n".join(
        [lines[0] + ",people", *(line.rsplit(",", 1)[0] + f",12.5%,{line.rsplit(',', 1)[1]}" for line in lines[1:])]
    )
    message = told(imported(text), "line 2, column 'count': '12.5%' at", "a percentage is no count")
    assert "(--value NAME)" in message
    assert "(--ignore NAME)" in message
    assert imported(text, "--value", "people", "--ignore", "count").status == 0
    assert first_cells() == [14, -2, 23, 9, 2, 6]


def test_a_decimal_comma(imported):
    text = NOISY.replace("14", '"14,0"')
    assert "write it with a decimal point, 14.0" in told(imported(text), "line 2, column 'count': '14,0'")
    assert imported(text.replace('"14,0"', "14.0")).status == 0
    assert first_cells()[0] == 14


@pytest.mark.parametrize("population", ["by cell", "by county"])
def test_an_extra_column_of_numbers(population, imported):
    lines = NOISY.splitlines()
    pop = [101, 102, 103, 104, 105, 106] if population == "by cell" else [50, 50, 60, 60, 70, 70]
    text = "\n".join([lines[0] + ",pop", *(f"{line},{n}" for line, n in zip(lines[1:], pop, strict=True))])
    message = told(imported(text), "cells are missing", "'county', 'education', 'pop' were read as columns of labels")
    remedy = re.search(r"\((--ignore \w+),", message)
    assert remedy is not None
    assert remedy[1] == "--ignore pop"
    assert imported(text, *remedy[1].split()).status == 0
    assert Release.from_netcdf("release.nc").dims == ("county", "education")
    assert first_cells() == [14, -2, 23, 9, 2, 6]


def test_an_extra_column_that_labels_groups(imported):
    text = "county,state,count\nAdams,IL,14\nCook,IL,20\nLake,IN,-3\n"
    message = told(imported(text), "3 of the 6 cells are missing")
    # Without either column nothing is missing; the one that repeats is the group.
    assert "--group state=NAME" in message
    assert imported(text, "--group", "state=county").status == 0
    assert Release.from_netcdf("release.nc").frame.group("state") == ("county", ("IL", "IL", "IN"))


def test_lines_that_are_really_missing(imported):
    text = NOISY.replace("Beta,High,9\n", "")
    message = told(imported(text), "1 of the 6 cells are missing, for example county=Beta, education=High")
    assert "Write a line for each missing cell, with an empty value" in message
    assert "--unmeasured blank" in message
    assert imported(text + "Beta,High,\n", "--unmeasured", "blank").status == 0
    assert int(Release.from_netcdf("release.nc").measurements[0].unmeasured.sum()) == 1


def test_a_wide_table_with_a_column_of_totals(imported):
    text = "county,Low,High,total\nAlpha,14,-2,12\nBeta,23,9,32\n"
    message = told(imported(text, "--dims", "county,education"), "the columns of labels are 'county', 'Low', 'High'")
    assert (
        "if this is a wide table with totals in the column 'total', say so: --total education=total, totals=" in message
    )
    assert "or leave it out: --ignore total" in message
    assert imported(text, "--dims", "county,education", "--total", "education=total").status == 0
    assert [own.values.reshape(-1).tolist() for own in Release.from_netcdf("release.nc").measurements] == [
        [14, -2, 23, 9],
        [12, 32],
    ]
    assert imported(text, "--dims", "county,education", "--ignore", "total").status == 0
    assert first_cells() == [14, -2, 23, 9]


def test_empty_fields(imported):
    text = NOISY.replace("14", "").replace(",9", ",")
    message = told(imported(text), "noisy.csv: no number for county=Alpha, education=Low and 1 more")
    stated = re.search(r"--unmeasured '([^']*)' for one", message)
    assert stated is not None
    message = told(imported(text, "--unmeasured", stated[1]), "no number for county=Beta, education=High.")
    assert imported(text, "--unmeasured", stated[1], "--unmeasured", "county=Beta, education=High").status == 0
    assert imported(text, "--unmeasured", "blank").status == 0
    assert np.isnan(first_cells()).tolist() == [True, False, False, True, False, False]
    misspelt = told(
        imported(text, "--unmeasured", "county=Alfa, education=Low"), "county=Alfa, education=Low' is no noisy"
    )
    assert "'county=Alpha, education=Low'" in misspelt


def test_blanks_around_fields(imported):
    text = NOISY.replace(",", ", ")
    message = told(imported(text), "line 1, column ' education': ' education' has blanks around it; remove them")
    assert "(and around 13 more fields of the file)" in message
    assert imported(text.replace(" ", "")).status == 0


def test_lines_of_other_lengths(imported):
    assert "remove the comma at the end" in told(imported(NOISY.replace("14", "14,")), "line 2: 4 fields")
    assert "needs its comma nevertheless" in told(imported(NOISY.replace(",14", "")), "line 2: 2 fields")
    assert 'in double quotes, "like, this"' in told(
        imported(NOISY.replace("Alpha", "Alpha, IL", 1)), "line 2: 4 fields"
    )
    quoted = NOISY.replace("Alpha", '"Alpha, IL"')
    assert imported(quoted).status == 0


def test_a_column_of_margins_that_is_unknown(imported, run):
    Path("margins.csv").write_text("county,pop,total\nAlpha,9,16\nBeta,9,30\nGamma,9,10\n")
    message = told(
        imported(NOISY, "--exact", "margins.csv"), "margins.csv: the column 'pop' is neither a dimension nor"
    )
    assert "(--ignore pop)" in message
    assert imported(NOISY, "--exact", "margins.csv", "--ignore", "pop").status == 0


def test_an_exact_value_that_is_missing(imported):
    Path("margins.csv").write_text("county,education,total\nAlpha,,16\nBeta,,\nGamma,,10\n,Low,38\n,High,18\n")
    message = told(
        imported(NOISY, "--exact", "margins.csv"), "margins.csv, line 3, column 'total': county=Beta has no value"
    )
    assert "leave all lines of its margin out" in message
    Path("margins.csv").write_text("county,education,total\n,Low,38\n,High,18\n")
    assert imported(NOISY, "--exact", "margins.csv").status == 0


def test_a_column_to_ignore_must_be_somewhere(imported):
    told(
        imported(NOISY, "--ignore", "popp"),
        "--ignore popp: no CSV file has a column of that name; noisy.csv has 'county'",
    )


def test_a_column_is_ignored_whatever_it_holds(imported):
    text = NOISY.replace("\n", ", 12 %\n").replace("count, 12 %", "count,note", 1)
    assert imported(text, "--ignore", "note").status == 0
    assert first_cells() == [14, -2, 23, 9, 2, 6]


def test_a_confidential_table_can_have_columns_too_many(run):
    Path("table.csv").write_text("county,education,count,pop\nA,Low,3,50\nA,High,4,51\nB,Low,5,52\nB,High,6,53\n")
    options = ("--invariant", "total", "--mechanism", "lattice-laplace", "--epsilon", "1", "-o", "r.nc", "--seed", "1")
    assert "--ignore pop" in run("release", "table.csv", *options).err
    assert run("release", "table.csv", *options, "--ignore", "pop").status == 0
    assert Release.from_netcdf("r.nc").invariants.rank == 1
