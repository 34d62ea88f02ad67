"""Labels of tables: where they are read from, how values are matched to them, and what is refused."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayesdp.frames import Frame

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
FRAME = Frame.of(LABELS)
TABLE = xr.DataArray(np.arange(6).reshape(3, 2), dims=list(LABELS), coords=LABELS)
GROUPED = Frame.of({**LABELS, "state": ("county", ["x", "x", "y"])})


def test_a_frame_has_a_shape_cells_and_coordinates():
    assert FRAME.dims == ("county", "education")
    assert (FRAME.shape, FRAME.size) == ((3, 2), 6)
    assert FRAME.coords == LABELS
    assert FRAME.labels_of("education") == ("Low", "High")
    assert FRAME.cell_names()[3] == FRAME.cell_name(3) == "county=Beta, education=High"
    assert GROUPED.group("state") == ("county", ("x", "x", "y"))
    assert GROUPED.xarray_coords["state"] == ("county", ["x", "x", "y"])
    assert GROUPED.same_cells(FRAME)
    assert GROUPED != FRAME


@pytest.mark.parametrize(
    "source",
    [
        FRAME,
        TABLE,
        TABLE.to_dataset(name="counts"),
        TABLE.to_pandas(),
        TABLE.to_series(),
        {"county": np.array(LABELS["county"]), "education": ("Low", "High")},
        pd.DataFrame(
            {"Low": [1, 2, 3], "High": [0, 0, 0]}, index=pd.Index(LABELS["county"], name="county")
        ).rename_axis(columns="education"),
    ],
    ids=lambda source: type(source).__name__,
)
def test_labels_are_read_from_whatever_has_them(source):
    assert Frame.of(source) == FRAME


def test_group_labels_are_read_from_coordinates():
    assert Frame.of(TABLE.assign_coords(state=("county", ["x", "x", "y"]))) == GROUPED
    scalar = TABLE.assign_coords(year=1990)  # a coordinate without a dimension labels nothing
    assert Frame.of(scalar) == FRAME


def test_a_dimension_without_a_coordinate_is_numbered():
    assert Frame.of(xr.DataArray(np.zeros((2, 3)), dims=["a", "b"])).labels == ((0, 1), (0, 1, 2))


def test_values_are_not_kept():
    secret = TABLE + 7654321
    assert b"7654321" not in pickle.dumps(Frame.of(secret))
    assert pickle.loads(pickle.dumps(GROUPED)) == GROUPED


def test_a_description_is_plain_data_and_comes_back():
    described = json.loads(json.dumps(GROUPED.describe()))
    assert Frame.from_description(described) == GROUPED
    assert Frame.from_description(json.loads(json.dumps(Frame.of({"a": [1, 2.5]}).describe()))).labels == ((1, 2.5),)
    with pytest.raises(ValueError, match="keys dims, labels, groups; got 'dims', 'labels', 'seed'"):
        Frame.from_description({"dims": ["a"], "labels": [[1]], "seed": 3})


@pytest.mark.parametrize(
    "values",
    [
        TABLE.values,
        TABLE.values.tolist(),
        TABLE.transpose("education", "county"),
        TABLE.sel(county=["Gamma", "Alpha", "Beta"], education=["High", "Low"]),
        TABLE.to_pandas().loc[["Beta", "Gamma", "Alpha"]],
        TABLE.to_series().sample(frac=1.0, random_state=1),
    ],
)
def test_values_are_matched_by_label(values):
    np.testing.assert_array_equal(FRAME.align(values, "values"), TABLE.values)


def test_data_array_labels_values():
    xr.testing.assert_identical(FRAME.data_array(TABLE.values), TABLE)
    assert GROUPED.data_array(TABLE.values, "noisy").coords["state"].values.tolist() == ["x", "x", "y"]


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ({}, ValueError, "at least one dimension"),
        ({"a": []}, ValueError, "dimension 'a' has no labels"),
        ({"a": [1, 2, 1, 2, 3]}, ValueError, "labels of 'a' must be distinct, but these occur more than once: 1, 2"),
        ({"a": [1, None]}, TypeError, "labels of 'a' must be strings or numbers, got None"),
        ({"a": [True, False]}, TypeError, "labels of 'a' must be strings or numbers, got True"),
        ({"a": "xyz"}, TypeError, "labels of 'a' must be a sequence"),
        ({"a": 3}, TypeError, "labels of 'a' must be a sequence"),
        ({"": [1]}, TypeError, "dimension names must be non-empty strings"),
        ({3: [1]}, TypeError, "dimension names must be non-empty strings, got 3"),
        ({"a": [1], "g": ("b", ["x"])}, ValueError, "group 'g' belongs to 'b', which is not among the dimensions 'a'"),
        ({"a": [1, 2], "g": ("a", ["x"])}, ValueError, "group 'g' needs 2 labels, one for each of 'a', got 1"),
        (3, TypeError, "frame must be an xarray object"),
        (np.zeros(3), TypeError, "frame must be an xarray object"),
        (pd.DataFrame([[1, 2]]), ValueError, "index and columns need names"),
        (pd.Series([1, 2]), ValueError, "index levels need names"),
        (TABLE.to_series().iloc[:5], ValueError, "lacks 1 cells: .'Gamma', 'High'."),
        (pd.concat([TABLE.to_series(), TABLE.to_series().iloc[:1]]), ValueError, "repeated cells: .'Alpha', 'Low'."),
        (xr.DataArray(3), ValueError, "at least one dimension"),
    ],
)
def test_bad_labels_are_refused(source, error, message):
    with pytest.raises(error, match=message):
        Frame.of(source)


@pytest.mark.parametrize(
    ("dims", "labels", "groups", "message"),
    [
        (("a", "a"), ((1,), (2,)), (), "dimension names must be distinct"),
        (("a", "b"), ((1,),), (), "labels are needed for each of the 2 dimensions, got 1"),
        (("a",), ((1,),), (("a", "a", ("x",)),), "group name 'a' is already taken"),
        (("a",), ((1,),), (("g", "a", ("x",)), ("g", "a", ("y",))), "group name 'g' is already taken"),
    ],
)
def test_bad_frames_are_refused(dims, labels, groups, message):
    with pytest.raises(ValueError, match=message):
        Frame(dims, labels, groups)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((2, 3)), r"noisy must have shape \(3, 2\) for dimensions \('county', 'education'\), got \(2, 3\)"),
        (
            TABLE.rename(county="place"),
            "noisy must have the dimensions 'county', 'education', got 'place', 'education'",
        ),
        (TABLE.isel(county=[0, 1]), "labels of 'county' in noisy do not match the frame .missing: 'Gamma'."),
        (
            TABLE.assign_coords(county=["Alpha", "Beta", "Delta"]),
            "labels of 'county' in noisy do not match the frame .missing: 'Gamma'; unknown: 'Delta'.",
        ),
        (TABLE.assign_coords(county=["Alpha", "Beta", "Beta"]), "labels of 'county' must be distinct"),
    ],
)
def test_values_that_do_not_match_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        FRAME.align(values, "noisy")


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: FRAME.labels_of("state"),
            "'state' is not a dimension of the table; its dimensions are 'county', 'education'",
        ),
        (
            lambda: FRAME.group("state"),
            r"'state' is neither a dimension nor a group label; those are 'county', 'education'$",
        ),
        (lambda: GROUPED.group("region"), r"nor a group label; those are .*'state'"),
    ],
)
def test_unknown_names_are_refused(ask, message):
    with pytest.raises(ValueError, match=message):
        ask()


def test_names_that_no_file_can_hold():
    for source in ({"a\0": ["x"]}, {"a": ["x", "y"], "\0": ("a", ["u", "v"])}):
        with pytest.raises(ValueError, match="must not hold the character NUL"):
            Frame.of(source)
