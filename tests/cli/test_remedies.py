"""What ``bayesdp import`` says of a file that is not quite right: row, column, and a remedy that works when it is followed."""

import re
from pathlib import Path

import numpy as np
import pytest

from bayesdp.release import Release
from tests.cli.conftest import LAW, NOISY, RELEASE, failed

CELLS = [14, -2, 23, 9, 2, 6]
WIDE = "county,Low,High,total\nAlpha,14,-2,12\nBeta,23,9,32\n"
BLANK = ("--unmeasured", "blank")
STATES = "county,state,count\nAdams,IL,14\nCook,IL,20\nLake,IN,-3\n"


@pytest.fixture
def imported(run):
    """Import a text: the message if it is refused, else the noisy cells; ``imported(text, *options)``."""

    def call(text, *options):
        Path("noisy.csv").write_text(text)
        result = run("import", "noisy.csv", *LAW, *options, "-o", "release.nc", "--force")
        if result.status:
            failed(result)
            return result.err
        return Release.from_netcdf("release.nc").measurements[0].labelled.values.reshape(-1).tolist()

    return call


def with_columns(header, *values):
    first, *lines = NOISY.splitlines()
    return "\n".join([f"{first},{header}", *(f"{line},{own}" for line, own in zip(lines, values, strict=True))])


def test_separators_of_thousands_and_values_that_were_hidden(imported):
    for written, where, number in (
        ('"1,215"', "line 2, column 'count': '1,215' at county=Alpha, education=Low is not a number", "1215"),
        ('"-1,215"', "line 2, column 'count'", "-1215"),
        ("1 215", "line 2, column 'count'", "1215"),
        ('"12,215,001"', "line 2, column 'count'", "12215001"),
        ("1,215", "line 2: 4 fields, but the header has 3", "1215"),
        ("1,215,003", "line 2: 5 fields, but the header has 3", "1215003"),
    ):
        message = imported(NOISY.replace("14", written))
        assert where in message
        assert re.search(r"without separators of thousands, (-?\d+)", message)[1] == number
    assert imported(NOISY.replace("14", "-12215001"))[0] == -12215001
    for written in ("<5", ">10", "1-4", "≤4", "NA", "*", "suppressed"):
        message = imported(NOISY.replace("14", written))
        assert f"line 2, column 'count': {written!r} at county=Alpha, education=Low is not a number" in message
        assert "leave the field empty and state that the cell was not published: --unmeasured blank" in message
        hides_by_size = "right only if the choice of what to hide did not depend on the hidden number" in message
        assert hides_by_size == (written in ("<5", ">10", "1-4", "≤4"))
    assert np.isnan(imported(NOISY.replace("14", ""), *BLANK)[0])


def test_what_is_said_helps(imported):
    """What is refused, what is said of it, and the cells after the remedy: another text, or other options."""
    for text, options, words, mended, remedy, cells in (
        (NOISY.replace("14", '"14,0"'), (), ["line 2, column 'count': '14,0'", "write it with a decimal point, 14.0"],
         NOISY.replace("14", "14.0"), (), CELLS),
        (with_columns("pop", 101, 102, 103, 104, 105, 106), (),
         ["cells are missing", "'county', 'education', 'pop' were read as columns of labels", "(--ignore pop,"],
         None, ("--ignore", "pop"), CELLS),
        (with_columns("pop", 50, 50, 60, 60, 70, 70), (), ["cells are missing", "(--ignore pop,"],
         None, ("--ignore", "pop"), CELLS),
        (NOISY, ("--ignore", "popp"), ["--ignore popp: no CSV file has a column of that name; noisy.csv has 'county'"],
         with_columns("note", *[" 12 %"] * 6), ("--ignore", "note"), CELLS),
        # Without either column nothing is missing; the one that repeats is the group.
        (STATES, (), ["3 of the 6 cells are missing", "--group state=NAME"], None, ("--group", "state=county"), [14, 20, -3]),
        (NOISY.replace("Beta,High,9\n", ""), (),
         ["1 of the 6 cells are missing, for example county=Beta, education=High",
          "Write a line for each missing cell, with an empty value", "--unmeasured blank"],
         NOISY.replace("Beta,High,9", "Beta,High,"), BLANK, [14, -2, 23, np.nan, 2, 6]),
        (WIDE, ("--dims", "county,education"),
         ["education='total' looks like a sum over 'education'; declare it: ", "(--total education=total)"],
         None, ("--dims", "county,education", "--ignore", "total"), [14, -2, 23, 9]),
        (NOISY.replace(",", ", "), (),
         ["line 1, column ' education': ' education' has blanks around it; remove them",
          "(and around 13 more fields of the file)"],
         NOISY, (), CELLS),
        (NOISY.replace("14", "14,"), (), ["line 2: 4 fields", "remove the comma at the end"], NOISY, (), CELLS),
        (NOISY.replace(",14", ""), (), ["line 2: 2 fields", "needs its comma nevertheless"],
         NOISY.replace("14", ""), BLANK, [np.nan, *CELLS[1:]]),
        (NOISY.replace("Alpha", "Alpha, IL", 1), (), ["line 2: 4 fields", 'in double quotes, "like, this"'],
         NOISY.replace("Alpha", '"Alpha, IL"'), (), CELLS),
    ):  # fmt: skip
        message = imported(text, *options)
        for own in words:
            assert own in message
        np.testing.assert_array_equal(imported(text if mended is None else mended, *remedy), cells)


def test_groups_columns_of_totals_and_percentages_are_read_as_what_they_are(imported):
    imported(STATES, "--group", "state=county")
    assert Release.from_netcdf("release.nc").frame.group("state") == ("county", ("IL", "IL", "IN"))
    imported(WIDE, "--dims", "county,education", "--total", "education=total")
    _, total = Release.from_netcdf("release.nc").measurements
    assert total.values.reshape(-1).tolist() == [12, 32]
    lines = [line.rsplit(",", 1) for line in NOISY.splitlines()]
    text = "\n".join([",".join(lines[0]) + ",people", *(f"{cell},12.5%,{number}" for cell, number in lines[1:])])
    message, at = imported(text), "line 2, column 'count': '12.5%' at"
    for words in (at, "a percentage is no count", "(--value NAME)", "(--ignore NAME)"):
        assert words in message
    assert imported(text, "--value", "people", "--ignore", "count") == CELLS


def test_empty_fields(imported):
    text = NOISY.replace("14", "").replace(",9", ",")
    message = imported(text)
    assert "noisy.csv: no number for county=Alpha, education=Low and 1 more" in message
    one = ("--unmeasured", re.search(r"--unmeasured '([^']*)' for one", message)[1])
    assert "no number for county=Beta, education=High." in imported(text, *one)
    for stated in ((*one, "--unmeasured", "county=Beta, education=High"), BLANK):
        assert np.isnan(imported(text, *stated)).tolist() == [True, False, False, True, False, False]
    misspelt = imported(text, "--unmeasured", "county=Alfa, education=Low")
    assert "county=Alfa, education=Low' is no noisy" in misspelt
    assert "'county=Alpha, education=Low'" in misspelt


def test_files_of_exact_values_and_confidential_tables(imported, run):
    exact = ("--exact", "margins.csv")
    Path("margins.csv").write_text("county,pop,total\nAlpha,9,16\nBeta,9,30\nGamma,9,10\n")
    message = imported(NOISY, *exact)
    assert "margins.csv: the column 'pop' is neither a dimension nor" in message
    assert "(--ignore pop)" in message
    assert imported(NOISY, *exact, "--ignore", "pop") == CELLS
    Path("margins.csv").write_text("county,education,total\nAlpha,,16\nBeta,,\nGamma,,10\n,Low,38\n,High,18\n")
    message = imported(NOISY, *exact)
    assert "margins.csv, line 3, column 'total': county=Beta has no value" in message
    assert "leave all lines of its margin out" in message
    Path("margins.csv").write_text("county,education,total\n,Low,38\n,High,18\n")
    assert imported(NOISY, *exact) == CELLS
    Path("table.csv").write_text("county,education,count,pop\nA,Low,3,50\nA,High,4,51\nB,Low,5,52\nB,High,6,53\n")
    assert "--ignore pop" in run(*RELEASE, "-o", "r.nc").err
    assert run(*RELEASE, "-o", "r.nc", "--ignore", "pop").status == 0
    assert Release.from_netcdf("r.nc").invariants.rank == 2
