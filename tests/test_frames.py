"""Frames, and sums of nested groups: labels, what is matched, ranks and projections against dense algebra."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import xarray as xr

from bayesdp._nested import NestedAxis, NestedSums
from bayesdp.frames import Frame
from bayesdp.queries import Identity, Margins, Query, SumPart, Totals

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


STATES = "xzxyzxy"
NESTED_LABELS = {
    "county": range(7),
    "state": ("county", list(STATES)),
    "region": ("county", ["north" if state == "z" else "south" for state in STATES]),
    "sex": ["m", "f"],
    "age": [0, 1, 2],
    "old": ("age", [0, 1, 1]),
}

STACKS: dict[str, Query] = {
    "grand total": Totals(NESTED_LABELS),
    "identity": Identity(NESTED_LABELS),
    "one margin": Margins(NESTED_LABELS, ["county"]),
    "all one-way": Margins(NESTED_LABELS, ["county"], ["sex"], ["age"]),
    "all two-way": Margins(NESTED_LABELS, ["county", "sex"], ["sex", "age"], ["county", "age"]),
    "redundant": Margins(NESTED_LABELS, ["county", "sex"], ["county"], ["sex"]) + Totals(NESTED_LABELS),
    "groups": Totals(NESTED_LABELS, by="state"),
    "nested groups": Totals(NESTED_LABELS, by=["region", "sex"]) + Totals(NESTED_LABELS, by=["state", "age"]),
    "groups and margins": Totals(NESTED_LABELS, by=["state", "sex", "old"])
    + Margins(NESTED_LABELS, ["county"], ["age"]),
}


def structure(query: Query) -> NestedSums:
    found = NestedSums.of([part for part in query.parts if isinstance(part, SumPart)])
    return found


@pytest.mark.parametrize("query", STACKS.values(), ids=STACKS)
def test_rank_projection_and_coordinates_agree_with_dense_algebra(query, rng):
    nested, matrix = structure(query), query.matrix.toarray().astype(float)
    null = scipy.linalg.null_space(matrix)
    cells = matrix.shape[1]
    assert nested.rank == cells - null.shape[1] == np.linalg.matrix_rank(matrix)
    values = rng.normal(size=(3, 7, 2, 3))
    flat = values.reshape(3, -1)
    np.testing.assert_allclose(nested.project_null(values).reshape(3, -1), flat @ null @ null.T, atol=1e-13)
    # The coordinates are those of an orthonormal basis of the null space.
    basis = nested.coordinates(np.eye(cells).reshape(cells, 7, 2, 3))
    assert basis.shape == (cells, cells - nested.rank)
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-13)
    np.testing.assert_allclose(basis @ basis.T, null @ null.T, atol=1e-13)
    np.testing.assert_allclose(nested.coordinates(values), flat @ basis, atol=1e-13)
    coordinates = rng.normal(size=(3, basis.shape[1]))
    np.testing.assert_allclose(nested.from_coordinates(coordinates).reshape(3, -1), coordinates @ basis.T, atol=1e-13)


@pytest.mark.parametrize("query", STACKS.values(), ids=STACKS)
def test_components_have_the_size_of_the_rank(query):
    nested = structure(query)
    shape = tuple(axis.size for axis in nested.axes)
    assert sum(nested.component_size(s) for s in nested.components) == nested.rank
    assert np.count_nonzero(~nested.free) == nested.rank
    assert nested.free.shape == (int(np.prod(shape)),)
    assert len(nested.generators) <= len(query.parts)


def test_sums_of_other_sums_are_not_generators():
    assert structure(STACKS["redundant"]).generators == structure(Margins(NESTED_LABELS, ["county", "sex"])).generators


def test_values_are_not_changed(rng):
    values = rng.normal(size=(7, 2, 3))
    before = values.copy()
    nested = structure(STACKS["groups and margins"])
    nested.project_null(values)
    nested.coordinates(values)
    np.testing.assert_array_equal(values, before)


def test_an_axis_and_its_transpose_are_inverse(rng):
    levels = [[0] * 7, [0, 1, 0, 0, 1, 0, 0], [0, 1, 0, 2, 1, 0, 2], list(range(7))]
    axis = NestedAxis(tuple(np.array(level) for level in levels))
    assert axis.classes == (1, 2, 3, 7)
    assert axis.level_of_coordinate.tolist() == [0, 1, 2, 3, 3, 3, 3]
    matrix = axis.forward(np.eye(7))
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(7), atol=1e-14)
    values = rng.normal(size=(4, 7))
    np.testing.assert_allclose(axis.backward(axis.forward(values)), values, atol=1e-14)
    # Coordinates of level l vanish on tables that are constant within the classes of the level above.
    for level in range(1, 4):
        constant = rng.normal(size=7)[np.array(levels[level - 1])]
        np.testing.assert_allclose(axis.forward(constant)[axis.level_of_coordinate >= level], 0.0, atol=1e-14)


def test_crossing_groups_have_no_closed_form():
    crossing = {"a": range(4), "g": ("a", [0, 0, 1, 1]), "h": ("a", [0, 1, 0, 1])}
    parts = (Totals(crossing, by="g") + Totals(crossing, by="h")).parts
    assert NestedSums.of([part for part in parts if isinstance(part, SumPart)]) is None
