"""The closed forms of nested sums against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from bayesdp._nested import NestedAxis, NestedSums
from bayesdp.queries import Identity, Margins, Query, SumPart, Totals

STATES = "xzxyzxy"
LABELS = {
    "county": range(7),
    "state": ("county", list(STATES)),
    "region": ("county", ["north" if state == "z" else "south" for state in STATES]),
    "sex": ["m", "f"],
    "age": [0, 1, 2],
    "old": ("age", [0, 1, 1]),
}

STACKS: dict[str, Query] = {
    "grand total": Totals(LABELS),
    "identity": Identity(LABELS),
    "one margin": Margins(LABELS, ["county"]),
    "all one-way": Margins(LABELS, ["county"], ["sex"], ["age"]),
    "all two-way": Margins(LABELS, ["county", "sex"], ["sex", "age"], ["county", "age"]),
    "redundant": Margins(LABELS, ["county", "sex"], ["county"], ["sex"]) + Totals(LABELS),
    "groups": Totals(LABELS, by="state"),
    "nested groups": Totals(LABELS, by=["region", "sex"]) + Totals(LABELS, by=["state", "age"]),
    "groups and margins": Totals(LABELS, by=["state", "sex", "old"]) + Margins(LABELS, ["county"], ["age"]),
}


def structure(query: Query) -> NestedSums:
    found = NestedSums.of([part for part in query.parts if isinstance(part, SumPart)])
    assert found is not None
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
    assert structure(STACKS["redundant"]).generators == structure(Margins(LABELS, ["county", "sex"])).generators


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
