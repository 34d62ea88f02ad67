"""Invariants, of tables and of answers, and the published rules of coordinates, against dense and rational algebra."""

import json
import math
import pickle
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
import scipy.linalg

from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import ExtendedLaplace
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release
from tests.comparison.enumeration import eliminated
from tests.refusals import refused

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


STATES = "xzxyzxy"
NESTED = {
    "county": range(7),
    "state": ("county", list(STATES)),
    "region": ("county", ["north" if state == "z" else "south" for state in STATES]),
    "sex": ["m", "f"],
    "age": [0, 1, 2],
    "old": ("age", [0, 1, 1]),
}
STACKS = {
    "two-way margins": Margins(NESTED, ["county", "sex"], ["sex", "age"], ["county", "age"]),
    "redundant": Margins(NESTED, ["county", "sex"], ["county"], ["sex"]) + Totals(NESTED),
    "nested groups": Totals(NESTED, by=["region", "sex"]) + Totals(NESTED, by=["state", "age"]),
    "groups and margins": Totals(NESTED, by=["state", "sex", "old"]) + Margins(NESTED, ["county"], ["age"]),
}
EVERY = {**CASES, **{name: Invariants(query) for name, query in STACKS.items()}}


@pytest.mark.parametrize("invariants", EVERY.values(), ids=EVERY)
def test_rank_projection_and_coordinates_agree_with_dense_algebra_and_descriptions_come_back(invariants, rng):
    matrix, shape, cells = invariants.matrix.toarray().astype(float), invariants.frame.shape, invariants.frame.size
    null = scipy.linalg.null_space(matrix) if len(matrix) else np.eye(cells)
    assert (invariants.dimension, invariants.rank) == (null.shape[1], cells - null.shape[1])
    rows = matrix[invariants.independent_rows]
    assert len(rows) == invariants.rank
    assert len(rows) == 0 or np.linalg.matrix_rank(rows) == len(rows)
    values = rng.normal(size=(2, 3, *shape))
    before = values.copy()
    flat = values.reshape(2, 3, cells)
    np.testing.assert_allclose(invariants.project(values).reshape(2, 3, cells), flat @ null @ null.T, atol=1e-12)
    # The coordinates are those of an orthonormal basis of the null space.
    basis = invariants.coordinates(np.eye(cells).reshape(cells, *shape))
    np.testing.assert_allclose(basis @ basis.T, null @ null.T, atol=1e-12)
    coordinates = invariants.coordinates(values)
    assert coordinates.shape == (2, 3, null.shape[1])
    np.testing.assert_allclose(coordinates, flat @ basis, atol=1e-12)
    np.testing.assert_allclose(invariants.from_coordinates(coordinates), invariants.project(values), atol=1e-12)
    np.testing.assert_array_equal(values, before)
    described = json.loads(json.dumps(invariants.describe()))
    assert Invariants.from_description(described, invariants.frame) == invariants
    again = pickle.loads(pickle.dumps(invariants))
    assert (again, hash(again), again.rank) == (invariants, hash(invariants), invariants.rank)


def test_is_null_is_exact_and_disjoint_totals_are_recognised():
    margins = CASES["margins"]
    square = np.zeros((3, 4), dtype=np.int64)
    square[np.ix_([0, 2], [1, 3])] = [[1, -1], [-1, 1]]
    assert margins.is_null(square * 2**52)
    square[0, 0] = 1
    assert not margins.is_null(square)
    assert CASES["none"].is_null(square)
    with pytest.raises(TypeError, match="values must be integers, got dtype float64"):
        margins.is_null(square / 2)
    expected = {
        "totals": [0] * 4 + [1] * 8,
        "disjoint": [0, 1, 1, -1, -1, 0, -1, 0, -1, -1, -1, -1],
        "none": [-1] * 12,
        "everything": list(range(12)),
        "zero": [-1] * 12,
    }
    blocks = {name: own.blocks for name, own in CASES.items()}
    assert {name: own.tolist() for name, own in blocks.items() if own is not None} == expected
    assert Invariants([Totals(TABLE, by="g"), Totals(TABLE)]).blocks.tolist() == expected["totals"]
    assert Invariants([Margins(TABLE, ["a"]), Margins(TABLE, ["b"], ["a"])]) == CASES["margins"]  # each sum once


def test_a_large_table_needs_no_dense_matrix(rng):
    frame = {"group": range(14), "hour": range(24), "building": range(20)}
    fixed = Invariants(Margins(frame, ["building", "hour"], ["building", "group"]))
    assert fixed.rank == 740
    e = rng.normal(size=(14, 24, 20))
    expected = e - e.mean(axis=0, keepdims=True) - e.mean(axis=1, keepdims=True) + e.mean(axis=(0, 1), keepdims=True)
    np.testing.assert_allclose(fixed.project(e), expected, atol=1e-13)
    state, noise = np.arange(3143) % 51, rng.normal(size=3143)
    totals = Invariants(Totals({"county": range(3143), "state": ("county", state)}, by="state"))
    assert totals.rank == 51
    means = np.bincount(state, noise) / np.bincount(state)
    np.testing.assert_allclose(totals.project(noise), noise - means[state], atol=1e-13)


GROUPED = {"a": list("pqrs"), "b": list("xyz"), "g": ("a", list("uuvv")), "h": ("b", list("mmn"))}
QUERIES = {
    "margin a": Margins(GROUPED, ["a"]),
    "groups of a": Margins(GROUPED, ["g"]),
    "total": Totals(GROUPED),
    "groups of a by b": Margins(GROUPED, ["g", "b"]),
    "a by groups of b": Margins(GROUPED, ["a", "h"]),
    "cells": Identity(GROUPED),
    "both margins": Margins(GROUPED, ["a"], ["b"]),
    "cells and a margin": Identity(GROUPED) + Margins(GROUPED, ["a"]),
    "matrix": LinearQuery(GROUPED, np.random.default_rng(0).integers(-2, 3, (5, 12)), list("12345")),
}


@pytest.mark.parametrize("exact", [*QUERIES, "nothing"])
def test_noise_of_a_query_lives_on_the_image_of_the_null_space(exact):
    invariants = Invariants(None, GROUPED) if exact == "nothing" else Invariants(QUERIES[exact])
    null = scipy.linalg.null_space(invariants.matrix.toarray().astype(float)) if exact != "nothing" else np.eye(12)
    for query in QUERIES.values():
        relations = invariants.through(query)
        moved = query.matrix.toarray() @ null
        image = scipy.linalg.orth(moved, rcond=1e-10)
        if np.max(np.abs(moved), initial=0.0) < 1e-10:
            image = image[:, :0]
        assert relations.dimension == image.shape[1]
        assert relations.frame.size == query.rows
        basis = relations.from_coordinates(np.eye(relations.dimension)).reshape(relations.dimension, query.rows)
        np.testing.assert_allclose(basis.T @ basis, image @ image.T, atol=1e-9)
        np.testing.assert_allclose(basis @ basis.T, np.eye(relations.dimension), atol=1e-9)
    relations = Invariants(QUERIES["groups of a"]).through(QUERIES["a by groups of b"])
    assert relations.coordinate_rule == "helmert-1"
    assert relations.query.names == ["g=u", "g=v"]


WIDE = {"cell": [f"c{i}" for i in range(2100)]}
LONG = Invariants(LinearQuery({"a": range(4001)}, np.eye(1, 4001, dtype=np.int64), ["first"]))

test_bad_arguments_are_refused = refused(
    (lambda: Invariants(None), "without queries, Invariants needs the frame of the table"),
    (lambda: Invariants([3]), "queries must be Margins, Totals, LinearQuery ..., got int"),
    (lambda: Invariants([Identity(TABLE), Identity({"a": [1]})]), "all invariants must be about the same table"),
    (lambda: Invariants(Identity(TABLE), {"a": [1]}), "about the same table"),
    (lambda: CASES["margins"].project(np.zeros((4, 3))), r"shape \(..., \(3, 4\)\), got \(4, 3\)"),
    (lambda: CASES["margins"].coordinates(np.zeros(4)), r"shape \(..., \(3, 4\)\), got \(4,\)"),
    (lambda: CASES["margins"].from_coordinates(np.zeros(7)), r"shape \(..., 6\), got \(7,\)"),
    (lambda: LONG.coordinates(np.zeros(4001)), "4001 cells, more than 4000"),
    (lambda: Invariants(Totals(WIDE)).through(Identity(WIDE) + Totals(WIDE)), "at most 2000 answers"),
    (lambda: Invariants(Totals(WIDE)).through(Totals(GROUPED)), "about the table of the invariants"),
)


PAIRED = {"a": range(3), "b": range(4), "g": ("a", [0, 1, 1]), "pair": ("b", [1, 0, 1, 0])}
RNG = np.random.default_rng(5)


def echelon_axes(matrix):
    """The rule ``echelon-1`` as its text says it; every number but the last square root is rational."""
    reduced, pivots = eliminated(matrix)
    axes = []
    for free in (cell for cell in range(matrix.shape[1]) if cell not in pivots):
        vector = [Fraction(int(cell == free)) for cell in range(matrix.shape[1])]
        for row, pivot in zip(reduced, pivots, strict=True):
            vector[pivot] = -row[free]
        for other in axes:
            share = sum(v * o for v, o in zip(vector, other, strict=True)) / sum(o * o for o in other)
            vector = [v - share * o for v, o in zip(vector, other, strict=True)]
        axes.append(vector)
    return np.array([[float(v) / math.sqrt(sum(w * w for w in axis)) for v in axis] for axis in axes])


def helmert_axes(levels):
    """Contrasts of one dimension: for each level, class k against the classes before it in the same class above."""
    size = len(levels[0])
    axes = [[Fraction(1)] * size]
    for above, own in pairwise(levels):
        for k in sorted(set(own)):
            parent = above[own.index(k)]
            earlier = [cell for cell in range(size) if above[cell] == parent and own[cell] < k]
            if earlier:
                ratio = Fraction(len(earlier), own.count(k))
                axes.append([Fraction(int(c in earlier)) - ratio * (own[c] == k) for c in range(size)])
    return axes


def test_coordinates_against_rational_arithmetic():
    redundant = [[0, 3, -7, 11, 2, 0], [5, 0, 4, -9, 0, 1], [5, 3, -3, 2, 2, 1]]
    alike = [[0, 0, 1, 1000, 1, 1, 1], [0, 0, 1, 1001, 1, 1, 1]]
    for matrix in map(np.array, ([[1] * 5], redundant, RNG.integers(-30, 31, size=(4, 9)), alike)):
        frame = {"cell": range(matrix.shape[1])}
        invariants = Invariants(LinearQuery(frame, matrix, [f"row {i}" for i in range(len(matrix))]))
        assert invariants.coordinate_rule == "echelon-1"
        ours = invariants.from_coordinates(np.eye(invariants.dimension))
        np.testing.assert_allclose(ours, echelon_axes(matrix), rtol=0, atol=1e-9)
    rows, columns = [[0, 0, 0], [0, 1, 2]], [[0] * 4, [0, 1, 2, 3]]
    for query, *levels in (
        (Margins(PAIRED, ["a"], ["b"]), rows, columns),
        (Totals(PAIRED, by="g"), [[0, 0, 0], [0, 1, 1], [0, 1, 2]], columns),
        (Totals(PAIRED, by="pair"), rows, [[0] * 4, [0, 1, 0, 1], [0, 1, 2, 3]]),
    ):
        invariants, axes = Invariants(query), []
        assert invariants.coordinate_rule == "helmert-1"
        for first, second in product(*(helmert_axes(axis) for axis in levels)):
            axis = [a * b for a in first for b in second]
            if not any(sum(int(s) * v for s, v in zip(row, axis, strict=True)) for row in invariants.matrix.toarray()):
                axes.append([float(v) / math.sqrt(sum(w * w for w in axis)) for v in axis])
        ours = invariants.from_coordinates(np.eye(invariants.dimension)).reshape(invariants.dimension, -1)
        np.testing.assert_allclose(ours, axes, rtol=0, atol=1e-12)


def test_files_carry_the_rule_and_not_the_coordinates(tmp_path):
    law, noisy = ExtendedLaplace(2.0), RNG.integers(0, 9, size=(3, 4)).astype(float)
    exact = [Exact(part, part.apply(noisy)) for part in (Margins(PAIRED, ["a"]), Margins(PAIRED, ["b"]))]
    release = Release.from_published(PAIRED, measured=[Measured(Identity(PAIRED), noisy, law)], exact=exact)
    release.to_netcdf(tmp_path / "release.nc")
    again = Release.from_netcdf(tmp_path / "release.nc")
    stated = json.loads(json.dumps(again.measurements[0].law.describe()))
    assert stated == {"law": "extended-laplace", "b": 2.0, "coordinates": "helmert-1"}
    table, invariants = np.arange(12).reshape(3, 4), Invariants(Margins(PAIRED, ["a"], ["b"]))
    values = invariants.project(noisy) + table - invariants.project(table)
    read, written = (each.logp(values, table, invariants) for each in (again.measurements[0].law, law))
    assert math.isfinite(read)
    assert read == pytest.approx(written, rel=1e-12)
