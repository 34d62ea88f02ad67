"""Labels in CSV files of releases: neutral for spreadsheets, exact when read back."""

import csv

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release
from bayesdp.tables import csv_label, label_of_csv, read_table
from tests.nasty import LABELS, obeyed
from tests.storage.examples import write_columns

TEXTS = st.text(st.sampled_from("=+-@'\\\"\n\r\t,; \x1b\u202enxu0a"), min_size=1)


def release(dim, labels):
    frame = {dim: labels, "@g": (dim, [f"={i % 2}" for i in range(len(labels))])}
    counts = np.arange(len(labels))
    line = LinearQuery(frame, [[1, *[0] * (len(labels) - 1)]], ["-one\x1b"])
    groups = Totals(frame, "@g") + line
    numbers = {Identity(frame): counts - 2, groups: groups.apply(counts - 2) + 1}
    measured = [Measured(query, own, DiscreteGaussian(2.0)) for query, own in numbers.items()]
    return Release.from_published(frame, measured, [Exact(Totals(frame), int(counts.sum()))])


@pytest.mark.parametrize("dim", ["county", "=dim\n"])
def test_cells_are_neutral_and_come_back(dim, tmp_path):
    made = release(dim, [*LABELS, -3, -2])
    made.to_csv(tmp_path / "made.csv")
    assert Release.from_csv(tmp_path / "made.csv") == made
    for path in tmp_path.iterdir():
        assert obeyed(path.read_text(encoding="utf-8")) == set(), path
    text = (tmp_path / "made.csv").read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    assert not [cell for row in [header, *rows] for cell in row if cell.startswith(("=", "+", "@", "\t", "\r"))]
    cells = rows[: len(LABELS) + 2]
    assert label_of_csv(header[0]) == dim
    assert [label_of_csv(row[0]) for row in cells[:-2]] == LABELS
    assert [row[0] for row in cells[-2:]] == ["-3", "-2"]  # numbers are no formulas
    assert cells[0][header.index("measured_0")] == "-2"  # nor are noisy values below zero


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(TEXTS, min_size=2, max_size=5, unique=True))
def test_every_label_that_is_written_is_read(labels, tmp_path):
    made = release("county", [*labels])
    if any(csv_label(label) != csv_label(label).strip() for label in labels):
        with pytest.raises(ValueError, match="blanks around them"):
            made.to_csv(tmp_path / "made.csv", overwrite=True)
    else:
        made.to_csv(tmp_path / "made.csv", overwrite=True)
        assert Release.from_csv(tmp_path / "made.csv") == made


def test_labels_that_are_not_written_so_are_refused(tmp_path):
    frame, path = {"county": ["=a", "b"]}, tmp_path / "made.csv"
    write_columns(Release.from_published(frame, [Measured(Identity(frame), [-2, -1], DiscreteGaussian(2.0))]), path)
    for text, message in (
        ("county,measured_0\n=a,-2\nc,-1\n", "'=a' is no label of 'county'"),
        ("county,measured_0\n'=a,-2\n=a,-2\nb,-1\n", "'=a' is no label of 'county'"),
        ("county,measured_0\n'=a,-2\n", "has lines for 'county=b', which are missing"),
        ("county,measured_0\n'=a,-2\n'=a,-2\nb,-1\n", "county='=a is there already"),
        ("'county,measured_0\n'=a,-2\nb,-1\n", "there is no column 'county'"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            Release.from_csv(path)


def test_what_text_does_not_keep_is_refused_before_anything_is_written(tmp_path):
    """Half a character in either kind of file."""
    half, kept = release("county", ["a", "\ud800"]), "which one CSV file does not keep; use to_netcdf"
    for write, message in (
        (half.to_csv, "surrogates not allowed"),
        (half.to_netcdf, "surrogates not allowed"),
        *((release("county", own).to_csv, kept) for own in ([1, "1"], ["", "a"], ["a ", "b"], ["\u3000a", "b"])),
    ):
        with pytest.raises(ValueError, match=message):
            write(tmp_path / "made")
        assert not list(tmp_path.iterdir())


def test_texts_numbers_and_dimensions_that_look_like_something_else_are_kept(tmp_path):
    frame = {"=a": ["x", "y"], "b\n": ["=p", "q"]}
    margins = Release.from_published(frame, exact=[Exact(Margins(frame, ["=a"], ["b\n"]), [1, 2, 2, 1])])
    for made in (release("county", [-1, "-1"]), margins):
        made.to_csv(tmp_path / "made.csv", overwrite=True)
        assert Release.from_csv(tmp_path / "made.csv") == made
    made = release("county", [*LABELS])  # netCDF has labels as they are
    made.to_netcdf(tmp_path / "release.nc")
    assert Release.from_netcdf(tmp_path / "release.nc") == made


def test_tables_of_agencies_are_taken_as_they_stand(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("county,count\n'=a,1\n=a,2\n'b,3\n", encoding="utf-8")
    assert read_table(path).coords["county"].values.tolist() == ["'=a", "=a", "'b"]
    path.write_bytes(b"\0,count\nAlpha,14\n")
    with pytest.raises(ValueError, match=r"table\.csv, line 1: there is a null character"):
        read_table(path)
