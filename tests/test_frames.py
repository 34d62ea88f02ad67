"""Frames: labels, what is matched by them, and what is refused."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bayesdp.frames import Frame
from tests.refusals import refused

LABELS = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
FRAME = Frame.of(LABELS)
TABLE = xr.DataArray(np.arange(6).reshape(3, 2), dims=list(LABELS), coords=LABELS)
GROUPED = Frame.of({**LABELS, "state": ("county", ["x", "x", "y"])})


def test_a_frame_has_a_shape_cells_and_labels_from_whatever_has_them_by_which_values_are_matched():
    assert FRAME.dims == ("county", "education")
    assert (FRAME.shape, FRAME.size) == ((3, 2), 6)
    assert FRAME.coords == LABELS
    assert FRAME.labels_of("education") == ("Low", "High")
    assert FRAME.cell_names()[3] == FRAME.cell_name(3) == "county=Beta, education=High"
    assert GROUPED.group("state") == ("county", ("x", "x", "y"))
    assert GROUPED.xarray_coords["state"] == ("county", ["x", "x", "y"])
    xr.testing.assert_identical(FRAME.data_array(TABLE.values), TABLE)
    assert GROUPED.data_array(TABLE.values, "noisy").coords["state"].values.tolist() == ["x", "x", "y"]
    assert GROUPED.same_cells(FRAME)
    assert GROUPED != FRAME
    plain = {"county": np.array(LABELS["county"]), "education": ("Low", "High")}
    for source in (FRAME, TABLE, TABLE.to_dataset(name="counts"), TABLE.to_pandas(), TABLE.to_series(), plain):
        assert Frame.of(source) == FRAME
    assert Frame.of(TABLE.assign_coords(state=("county", ["x", "x", "y"]))) == GROUPED
    assert Frame.of(TABLE.assign_coords(year=1990)) == FRAME  # a coordinate without a dimension labels nothing
    assert Frame.of(xr.DataArray(np.zeros((2, 3)), dims=["a", "b"])).labels == ((0, 1), (0, 1, 2))
    assert b"7654321" not in pickle.dumps(Frame.of(TABLE + 7654321))
    assert pickle.loads(pickle.dumps(GROUPED)) == GROUPED
    described = json.loads(json.dumps(GROUPED.describe()))
    assert Frame.from_description(described) == GROUPED
    assert Frame.from_description(json.loads(json.dumps(Frame.of({"a": [1, 2.5]}).describe()))).labels == ((1, 2.5),)
    with pytest.raises(ValueError, match="keys dims, labels, groups; got 'dims', 'labels', 'seed'"):
        Frame.from_description({"dims": ["a"], "labels": [[1]], "seed": 3})
    for values in (
        TABLE.values,
        TABLE.values.tolist(),
        TABLE.transpose("education", "county"),
        TABLE.sel(county=["Gamma", "Alpha", "Beta"], education=["High", "Low"]),
        TABLE.to_pandas().loc[["Beta", "Gamma", "Alpha"]],
        SERIES.sample(frac=1.0, random_state=1),
    ):
        np.testing.assert_array_equal(FRAME.align(values, "values"), TABLE.values)


SERIES = TABLE.to_series()


test_bad_labels_are_refused = refused(
    ({}, "at least one dimension"),
    ({"a": []}, "dimension 'a' has no labels"),
    ({"a": [1, 2, 1, 2, 3]}, "labels of 'a' must be distinct, but these occur more than once: 1, 2"),
    ({"a": [1, None]}, "labels of 'a' must be strings or numbers, got None"),
    ({"a": [True, False]}, "labels of 'a' must be strings or numbers, got True"),
    ({"a": "xyz"}, "labels of 'a' must be a sequence"),
    ({"a": 3}, "labels of 'a' must be a sequence"),
    ({"": [1]}, "dimension names must be non-empty strings"),
    ({3: [1]}, "dimension names must be non-empty strings, got 3"),
    ({"a\0": ["x"]}, "must not hold the character NUL"),
    ({"a": ["x", "y"], "\0": ("a", ["u", "v"])}, "must not hold the character NUL"),
    ({"a": [1], "g": ("b", ["x"])}, "group 'g' belongs to 'b', which is not among the dimensions 'a'"),
    ({"a": [1, 2], "g": ("a", ["x"])}, "group 'g' needs 2 labels, one for each of 'a', got 1"),
    (np.zeros(3), "frame must be an xarray object"),
    (pd.DataFrame([[1, 2]]), "index and columns need names"),
    (pd.Series([1, 2]), "index levels need names"),
    (SERIES.iloc[:5], "lacks 1 cells: .'Gamma', 'High'."),
    (pd.concat([SERIES, SERIES.iloc[:1]]), "repeated cells: .'Alpha', 'Low'."),
    (xr.DataArray(3), "at least one dimension"),
    of=Frame.of,
)

SECOND = {"county": ["Alpha", "Beta", "Delta"]}
test_what_does_not_fit_is_refused = refused(
    (lambda: Frame(("a", "a"), ((1,), (2,)), ()), "dimension names must be distinct"),
    (lambda: Frame(("a", "b"), ((1,),), ()), "labels are needed for each of the 2 dimensions, got 1"),
    (lambda: Frame(("a",), ((1,),), (("a", "a", ("x",)),)), "group name 'a' is already taken"),
    (lambda: Frame(("a",), ((1,),), 2 * (("g", "a", ("x",)),)), "group name 'g' is already taken"),
    (lambda: FRAME.align(np.zeros((2, 3)), "noisy"), r"noisy must have shape \(3, 2\) for dimensions .* got \(2, 3\)"),
    (lambda: FRAME.align(TABLE.rename(county="place"), "noisy"), "noisy must have the dimensions 'county', .* got 'place'"),
    (lambda: FRAME.align(TABLE.isel(county=[0, 1]), "noisy"), "of 'county' in noisy do not match .* .missing: 'Gamma'."),
    (lambda: FRAME.align(TABLE.assign_coords(SECOND), "noisy"), "noisy do not match .* .missing: 'Gamma'; unknown: 'Delta'."),
    (lambda: FRAME.align(TABLE.isel(county=[0, 1, 1]), "noisy"), "labels of 'county' must be distinct"),
    (lambda: FRAME.labels_of("state"), "'state' is not a dimension of the table; its dimensions are 'county', 'education'"),
    (lambda: FRAME.group("state"), r"'state' is neither a dimension nor a group label; those are 'county', 'education'$"),
    (lambda: GROUPED.group("region"), r"nor a group label; those are .*'state'"),
)  # fmt: skip
