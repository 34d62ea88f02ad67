"""Labels in folders of CSV files: neutral for spreadsheets, exact when read back."""

from __future__ import annotations

import csv
from pathlib import Path

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

TEXTS = st.text(st.sampled_from("=+-@'\\\"\n\r\t,; \x1b\u202enxu0a"), min_size=1)


def release(dim: str, labels: list[str | int]) -> Release:
    frame = {dim: labels, "@g": (dim, [f"={i % 2}" for i in range(len(labels))])}
    counts = np.arange(len(labels))
    line = LinearQuery(frame, [[1, *[0] * (len(labels) - 1)]], ["-one\x1b"])
    groups = Totals(frame, "@g") + line
    return Release.from_published(
        frame,
        [
            Measured(Identity(frame), counts - 2, DiscreteGaussian(2.0)),
            Measured(groups, groups.apply(counts - 2) + 1, DiscreteGaussian(2.0)),
        ],
        [Exact(Totals(frame), int(counts.sum()))],
    )


def rows_of(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


@pytest.mark.parametrize("dim", ["county", "=dim\n", "'=dim", "@"])
def test_cells_are_neutral_and_come_back(dim, tmp_path):
    made = release(dim, [*LABELS, -3, -2])
    made.to_csv(tmp_path / "folder")
    assert Release.from_csv(tmp_path / "folder") == made
    for path in (tmp_path / "folder").iterdir():
        text = path.read_text(encoding="utf-8")
        assert obeyed(text) == set(), path
        if path.suffix == ".csv":
            rows = rows_of(path)
            assert len(rows) == len(text.splitlines())
            for row in rows:
                assert not any(cell.startswith(("=", "+", "@", "\t", "\r")) for cell in row)
    header, *rows = rows_of(tmp_path / "folder" / "measured_0.csv")
    assert label_of_csv(header[0]) == dim
    assert [label_of_csv(row[0]) for row in rows[:-2]] == LABELS
    assert [row[0] for row in rows[-2:]] == ["-3", "-2"]  # numbers are no formulas
    assert rows[0][1] == "-2"  # nor are noisy values below zero


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(TEXTS, min_size=2, max_size=5, unique=True))
def test_every_label_that_is_written_is_read(labels, tmp_path):
    made = release("county", [*labels])
    if any(csv_label(label) != csv_label(label).strip() for label in labels):
        with pytest.raises(ValueError, match="blanks around them"):
            made.to_csv(tmp_path / "folder", overwrite=True)
    else:
        made.to_csv(tmp_path / "folder", overwrite=True)
        assert Release.from_csv(tmp_path / "folder") == made


def test_labels_that_are_not_written_so_are_refused(tmp_path):
    made = release("county", ["=a", "b"])
    made.to_csv(tmp_path / "folder")
    path = tmp_path / "folder" / "measured_0.csv"
    for text, message in (
        ("county,value\n=a,-2\nc,-1\n", "there is no cell"),
        ("county,value\n=a,-2\n'=a,-2\nb,-1\n", "there is no cell"),
        ("county,value\n'=a,-2\n", "cells are missing: 'county=b'"),
        ("county,value\n'=a,-2\n'=a,-2\nb,-1\n", "the cell county==a occurs twice"),
        ("'county,value\n'=a,-2\nb,-1\n", "the columns must be"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=message):
            Release.from_csv(tmp_path / "folder")


def test_half_a_character_is_refused_before_anything_is_written(tmp_path):
    made = release("county", ["a", "\ud800"])
    for write in (made.to_csv, made.to_netcdf):
        with pytest.raises(ValueError, match="surrogates not allowed"):
            write(tmp_path / "release")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("labels", [[1, "1"], [" a", "b"], ["a ", "b"], ["\u3000a", "b"]])
def test_what_text_does_not_keep_is_refused(labels, tmp_path):
    with pytest.raises(ValueError, match="which a CSV file does not keep; use to_netcdf"):
        release("county", labels).to_csv(tmp_path / "folder")
    assert not list(tmp_path.iterdir())


def test_texts_and_numbers_that_look_alike_are_kept(tmp_path):
    made = release("county", [-1, "-1"])
    made.to_csv(tmp_path / "folder")
    assert Release.from_csv(tmp_path / "folder") == made


def test_tables_of_agencies_are_taken_as_they_stand(tmp_path):
    (tmp_path / "table.csv").write_text("county,count\n'=a,1\n=a,2\n'b,3\n", encoding="utf-8")
    assert read_table(tmp_path / "table.csv").coords["county"].values.tolist() == ["'=a", "=a", "'b"]


def test_netcdf_files_hold_labels_as_they_are(tmp_path):
    made = release("county", [*LABELS])
    made.to_netcdf(tmp_path / "release.nc")
    assert Release.from_netcdf(tmp_path / "release.nc") == made


def test_margins_by_a_dimension_with_such_a_name(tmp_path):
    frame = {"=a": ["x", "y"], "b\n": ["=p", "q"]}
    made = Release.from_published(frame, exact=[Exact(Margins(frame, ["=a"], ["b\n"]), [1, 2, 2, 1])])
    made.to_csv(tmp_path / "folder")
    assert Release.from_csv(tmp_path / "folder") == made


def test_a_column_whose_name_holds_nul_is_refused_by_its_file(tmp_path):
    path = tmp_path / "nul.csv"
    path.write_bytes(b"\0,count\nAlpha,14\n")
    with pytest.raises(ValueError, match=r"nul\.csv: the name of a column holds the character NUL"):
        read_table(path)
