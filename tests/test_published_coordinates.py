"""Published coordinates follow from the invariants alone: held, with their signs, against rational arithmetic.

Laws whose density depends on orthonormal coordinates name the rule that fixes them, and files carry that name, not the
coordinates. So every machine has to arrive at the same ones, whatever its linear algebra library: what is written here
uses none.
"""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import ExtendedLaplace
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release

TABLE = {"a": range(3), "b": range(4), "g": ("a", [0, 1, 1]), "pair": ("b", [1, 0, 1, 0])}
RNG = np.random.default_rng(5)

type Rationals = list[Fraction]


def reduced_echelon(matrix: list[Rationals]) -> tuple[list[Rationals], list[int]]:
    """Gauss and Jordan in rational numbers: the reduced rows and the columns of their pivots."""
    rows, pivots = [row.copy() for row in matrix], []
    for column in range(len(matrix[0])):
        found = next((i for i in range(len(pivots), len(rows)) if rows[i][column]), None)
        if found is None:
            continue
        at = len(pivots)
        rows[at], rows[found] = rows[found], rows[at]
        rows[at] = [value / rows[at][column] for value in rows[at]]
        for i, row in enumerate(rows):
            if i != at and row[column]:
                rows[i] = [value - row[column] * own for value, own in zip(row, rows[at], strict=True)]
        pivots.append(column)
    return rows[: len(pivots)], pivots


def echelon_axes(matrix: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """The rule ``echelon-1`` as its text says it; every number but the last square root is rational."""
    reduced, pivots = reduced_echelon([[Fraction(int(v)) for v in row] for row in matrix])
    axes: list[Rationals] = []
    for free in (cell for cell in range(matrix.shape[1]) if cell not in pivots):
        vector = [Fraction(int(cell == free)) for cell in range(matrix.shape[1])]
        for row, pivot in zip(reduced, pivots, strict=True):
            vector[pivot] = -row[free]
        for other in axes:
            share = sum(v * o for v, o in zip(vector, other, strict=True)) / sum(o * o for o in other)
            vector = [v - share * o for v, o in zip(vector, other, strict=True)]
        axes.append(vector)
    return np.array([[float(v) / math.sqrt(sum(w * w for w in axis)) for v in axis] for axis in axes])


def helmert_axes(levels: list[list[int]]) -> list[Rationals]:
    """Contrasts of one dimension: for each level, class k against the classes before it in the same class above."""
    size = len(levels[0])
    axes = [[Fraction(1)] * size]
    for above, own in itertools.pairwise(levels):
        for k in sorted(set(own)):
            parent = above[own.index(k)]
            earlier = [cell for cell in range(size) if above[cell] == parent and own[cell] < k]
            if earlier:
                ratio = Fraction(len(earlier), own.count(k))
                axes.append([Fraction(int(c in earlier)) - ratio * (own[c] == k) for c in range(size)])
    return axes


@pytest.mark.parametrize(
    "matrix",
    [
        np.ones((1, 5), dtype=np.int64),
        np.array([[1, 2, 0, 0], [0, 1, 1, 0]]),
        np.array(
            [[0, 3, -7, 11, 2, 0], [5, 0, 4, -9, 0, 1], [5, 3, -3, 2, 2, 1]]
        ),  # the third row is the sum of the others
        RNG.integers(-30, 31, size=(4, 9)),
        np.kron(np.eye(2, dtype=np.int64), [[1, 1, 0], [0, 1, 1]]),
        np.hstack(
            [np.zeros((2, 2), dtype=np.int64), [[1, 1000], [1, 1001]], np.ones((2, 3), dtype=np.int64)]
        ),  # nearly alike
    ],
    ids=["total", "weighted", "redundant", "random", "blocks", "nearly alike"],
)
def test_echelon_coordinates_against_rational_arithmetic(matrix: npt.NDArray[np.int64]) -> None:
    frame = {"cell": range(matrix.shape[1])}
    invariants = Invariants(LinearQuery(frame, matrix, [f"row {i}" for i in range(len(matrix))]))
    assert invariants.coordinate_rule == "echelon-1"
    ours = invariants.from_coordinates(np.eye(invariants.dimension))
    np.testing.assert_allclose(ours, echelon_axes(matrix), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("query", "levels"),
    [
        (Totals(TABLE), ([[0, 0, 0], [0, 1, 2]], [[0] * 4, [0, 1, 2, 3]])),
        (Margins(TABLE, ["a"], ["b"]), ([[0, 0, 0], [0, 1, 2]], [[0] * 4, [0, 1, 2, 3]])),
        (Totals(TABLE, by="g"), ([[0, 0, 0], [0, 1, 1], [0, 1, 2]], [[0] * 4, [0, 1, 2, 3]])),
        # The classes of "pair" are numbered as their labels appear: 1, then 0.
        (Totals(TABLE, by="pair"), ([[0, 0, 0], [0, 1, 2]], [[0] * 4, [0, 1, 0, 1], [0, 1, 2, 3]])),
    ],
    ids=["total", "margins", "groups of rows", "crossing order of columns"],
)
def test_helmert_coordinates_against_rational_arithmetic(query: Totals, levels: tuple[list[list[int]], ...]) -> None:
    invariants = Invariants(query)
    assert invariants.coordinate_rule == "helmert-1"
    sums = [[Fraction(int(v)) for v in row] for row in invariants.matrix.toarray()]
    axes = []
    for first, second in itertools.product(*(helmert_axes(axis) for axis in levels)):
        axis = [a * b for a in first for b in second]
        if not any(sum(s * v for s, v in zip(row, axis, strict=True)) for row in sums):
            axes.append([float(v) / math.sqrt(sum(w * w for w in axis)) for v in axis])
    ours = invariants.from_coordinates(np.eye(invariants.dimension)).reshape(invariants.dimension, -1)
    np.testing.assert_allclose(ours, axes, rtol=0, atol=1e-12)


def test_files_carry_the_rule_and_not_the_coordinates(tmp_path) -> None:
    both = Margins(TABLE, ["a"], ["b"])
    law = ExtendedLaplace(2.0)
    noisy = RNG.integers(0, 9, size=(3, 4)).astype(float)
    exact = [Exact(part, part.apply(noisy)) for part in (Margins(TABLE, ["a"]), Margins(TABLE, ["b"]))]
    release = Release.from_published(TABLE, measured=[Measured(Identity(TABLE), noisy, law)], exact=exact)
    release.to_netcdf(tmp_path / "release.nc")
    again = Release.from_netcdf(tmp_path / "release.nc")
    stated = json.loads(json.dumps(again.measurements[0].law.describe()))
    assert stated == {"law": "extended-laplace", "b": 2.0, "coordinates": "helmert-1"}
    table, invariants = np.arange(12).reshape(3, 4), Invariants(both)
    values = invariants.project(noisy) + table - invariants.project(table)
    read, written = (each.logp(values, table, invariants) for each in (again.measurements[0].law, law))
    assert math.isfinite(read)
    assert read == pytest.approx(written, rel=1e-12)
