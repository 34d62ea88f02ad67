"""Invariants against dense linear algebra, whatever they are made of."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.linalg

from bayesdp.invariants import Invariants
from bayesdp.queries import Identity, LinearQuery, Margins, Totals

TABLE = {"a": range(3), "b": range(4), "g": ("a", [0, 1, 1]), "h": ("a", [0, 0, 1])}
WEIGHTS = np.random.default_rng(11).integers(-2, 3, size=(3, 12))
REDUNDANT = np.vstack([WEIGHTS, WEIGHTS[0] - 2 * WEIGHTS[2], np.zeros(12, dtype=np.int64)])
DISJOINT = np.zeros((2, 12), dtype=np.int64)
DISJOINT[0, [0, 5, 7]] = DISJOINT[1, [1, 2]] = 1

CASES = {
    "margins": Invariants(Margins(TABLE, ["a"], ["b"])),
    "totals": Invariants(Totals(TABLE, by="g")),
    "crossing groups": Invariants([Totals(TABLE, by="g"), Totals(TABLE, by="h")]),
    "general": Invariants(LinearQuery(TABLE, WEIGHTS, list("pqr"))),
    "redundant": Invariants(LinearQuery(TABLE, REDUNDANT, list("pqrst"))),
    "mixed": Invariants(Margins(TABLE, ["a"]) + LinearQuery(TABLE, WEIGHTS, list("pqr"))),
    "disjoint": Invariants(LinearQuery(TABLE, DISJOINT, ["first", "second"])),
    "none": Invariants(None, TABLE),
    "everything": Invariants(Identity(TABLE)),
    "zero": Invariants(LinearQuery(TABLE, np.zeros((1, 12), dtype=np.int64), ["nothing"])),
}


@pytest.mark.parametrize("invariants", CASES.values(), ids=CASES)
def test_rank_projection_and_coordinates_agree_with_dense_algebra(invariants, rng):
    matrix = invariants.matrix.toarray().astype(float)
    null = scipy.linalg.null_space(matrix) if len(matrix) else np.eye(12)
    assert invariants.dimension == null.shape[1]
    assert invariants.rank == 12 - null.shape[1]
    values = rng.normal(size=(2, 3, 3, 4))
    flat = values.reshape(2, 3, 12)
    np.testing.assert_allclose(invariants.project(values).reshape(2, 3, 12), flat @ null @ null.T, atol=1e-12)
    coordinates = invariants.coordinates(values)
    assert coordinates.shape == (2, 3, null.shape[1])
    np.testing.assert_allclose((coordinates**2).sum(axis=-1), ((flat @ null) ** 2).sum(axis=-1), atol=1e-12)
    np.testing.assert_allclose(invariants.from_coordinates(coordinates), invariants.project(values), atol=1e-12)


@pytest.mark.parametrize("invariants", CASES.values(), ids=CASES)
def test_independent_rows_span_the_row_space(invariants):
    rows = invariants.matrix.toarray()[invariants.independent_rows]
    assert len(rows) == invariants.rank
    assert len(rows) == 0 or np.linalg.matrix_rank(rows) == len(rows)


def test_is_null_is_exact():
    margins = CASES["margins"]
    square = np.zeros((3, 4), dtype=np.int64)
    square[np.ix_([0, 2], [1, 3])] = [[1, -1], [-1, 1]]
    assert margins.is_null(square * 2**52)
    square[0, 0] = 1
    assert not margins.is_null(square)
    assert CASES["none"].is_null(square)
    with pytest.raises(TypeError, match="values must be integers, got dtype float64"):
        margins.is_null(square / 2)


@pytest.mark.parametrize("name", CASES)
def test_disjoint_totals_are_recognised(name):
    expected = {
        "totals": [0] * 4 + [1] * 8,
        "disjoint": [0, 1, 1, -1, -1, 0, -1, 0, -1, -1, -1, -1],
        "none": [-1] * 12,
        "everything": list(range(12)),
        "zero": [-1] * 12,
    }
    blocks = CASES[name].blocks
    assert (CASES[name].blocks is not None) == (name in expected)
    assert (None if blocks is None else blocks.tolist()) == expected.get(name)


def test_totals_of_totals_are_still_disjoint():
    assert Invariants([Totals(TABLE, by="g"), Totals(TABLE)]).blocks.tolist() == [0] * 4 + [1] * 8


@pytest.mark.parametrize("invariants", CASES.values(), ids=CASES)
def test_invariants_come_back_from_their_description_and_from_pickle(invariants):
    described = json.loads(json.dumps(invariants.describe()))
    assert Invariants.from_description(described, invariants.frame) == invariants
    invariants.project(np.zeros((3, 4)))  # fills what is computed once
    again = pickle.loads(pickle.dumps(invariants))
    assert again == invariants
    assert hash(again) == hash(invariants)
    assert again.rank == invariants.rank


def test_repeated_queries_are_kept_once():
    twice = Invariants([Margins(TABLE, ["a"]), Margins(TABLE, ["b"], ["a"])])
    assert twice == CASES["margins"]
    assert repr(twice) == "<Invariants: 7 rows, rank 6, 6 free dimensions of 12 cells>"


def test_a_large_table_needs_no_dense_matrix(rng):
    frame = {"group": range(14), "hour": range(24), "building": range(20)}
    fixed = Invariants(Margins(frame, ["building", "hour"], ["building", "group"]))
    assert fixed.rank == 740
    e = rng.normal(size=(14, 24, 20))
    expected = e - e.mean(axis=0, keepdims=True) - e.mean(axis=1, keepdims=True) + e.mean(axis=(0, 1), keepdims=True)
    np.testing.assert_allclose(fixed.project(e), expected, atol=1e-13)
    counties = {"county": range(3143), "state": ("county", np.arange(3143) % 51)}
    totals = Invariants(Totals(counties, by="state"))
    assert totals.rank == 51
    noise = rng.normal(size=3143)
    np.testing.assert_allclose(
        totals.project(noise),
        noise - (np.bincount(np.arange(3143) % 51, noise) / np.bincount(np.arange(3143) % 51))[np.arange(3143) % 51],
        atol=1e-13,
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Invariants(None), ValueError, "without queries, Invariants needs the frame of the table"),
        (lambda: Invariants([3]), TypeError, "queries must be Margins, Totals, LinearQuery ..., got int"),
        (
            lambda: Invariants([Identity(TABLE), Identity({"a": [1]})]),
            ValueError,
            "all invariants must be about the same table",
        ),
        (lambda: Invariants(Identity(TABLE), {"a": [1]}), ValueError, "about the same table"),
        (lambda: CASES["margins"].project(np.zeros((4, 3))), ValueError, r"shape \(..., \(3, 4\)\), got \(4, 3\)"),
        (lambda: CASES["margins"].coordinates(np.zeros(4)), ValueError, r"shape \(..., \(3, 4\)\), got \(4,\)"),
        (lambda: CASES["margins"].from_coordinates(np.zeros(7)), ValueError, r"shape \(..., 6\), got \(7,\)"),
        (
            lambda: Invariants(LinearQuery({"a": range(4001)}, np.eye(1, 4001), ["first"])).coordinates(np.zeros(4001)),
            ValueError,
            "4001 cells, more than 4000",
        ),
    ],
)
def test_bad_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
