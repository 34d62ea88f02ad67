"""Gauges by compiled linear programs, against HiGHS on the list of vertices and against definitions."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from bayesdp.polytopes import sensitivity_hull
from bayesdp.polytopes.base import gauge_program
from bayesdp.polytopes.generators import Generators, circuits, copied, listed, solve
from tests.polytopes.examples import Floats, both_margins, moves


def units(rows: int, columns: int) -> Floats:
    return both_margins(rows, columns).coordinates(np.eye(rows * columns).reshape(-1, rows, columns))


def by_definition(rows: int, columns: int, records: int) -> Floats:
    """Coordinates of all moves, and of all 3-cycles, written out cell by cell."""
    tables = []
    for size in range(2, records + 1):
        for i in permutations(range(rows), size):
            for j in permutations(range(columns), size):
                table = np.zeros((rows, columns))
                for k in range(size):
                    table[i[k], j[k]] += 1
                    table[i[k], j[(k + 1) % size]] -= 1
                tables.append(table)
    found = np.unique(np.array(tables).reshape(len(tables), -1), axis=0)
    half = found[[row[np.flatnonzero(row)[0]] > 0 for row in found]]
    return both_margins(rows, columns).coordinates(half.reshape(-1, rows, columns))


CASES: dict[str, tuple[Generators, Floats]] = {
    "moves as a list": (listed(moves(4, 4)[1]), moves(4, 4)[1]),
    "generic points": (
        listed(np.random.default_rng(1).normal(size=(60, 7))),
        np.random.default_rng(1).normal(size=(60, 7)),
    ),
    "circuits of two, 4 x 5": (circuits(units(4, 5), 4, 5, 2), by_definition(4, 5, 2)),
    "circuits of three, 3 x 3": (circuits(units(3, 3), 3, 3, 3), by_definition(3, 3, 3)),
    "circuits of three, 5 x 4": (circuits(units(5, 4), 5, 4, 3), by_definition(5, 4, 3)),
    "circuits of three, 2 x 4": (circuits(units(2, 4), 2, 4, 3), by_definition(2, 4, 2)),
}


@pytest.mark.parametrize("case", CASES)
def test_gauges_agree_with_another_program(case: str) -> None:
    own, vertices = CASES[case]
    rng = np.random.default_rng(2)
    generic = rng.normal(size=(12, own.dimension)) * 10.0 ** rng.uniform(-6, 6, 12)[:, None]
    # Sums of a few vertices: weights of most bases are zero.
    corners = rng.integers(-2, 3, (12, 4))[:, :, None] * vertices[rng.integers(0, len(vertices), (12, 4))]
    for point in [*generic, *corners.sum(axis=1), np.zeros(own.dimension)]:
        expected, _ = gauge_program(vertices, point)
        value, form = own.subgradient(point)
        assert own.gauges(point[None])[0] == pytest.approx(value, rel=1e-9)
        assert value == pytest.approx(expected, rel=1e-9)
        # The form proves the value from below: at most 1 on every vertex.
        assert form @ point == pytest.approx(value, rel=1e-9)
        assert np.max(np.abs(vertices @ form)) <= 1 + 1e-9
        if np.any(point):
            # The weights of the last basis prove it from above.
            basis, weights = copied(own.start), np.zeros(own.dimension)
            assert solve(own.vertices, basis, point, weights, form) == pytest.approx(value * own.scale, rel=1e-9)
            assert weights @ basis.corners == pytest.approx(point, rel=1e-9, abs=1e-9 * np.max(np.abs(point)))
            assert np.abs(weights).sum() == pytest.approx(value * own.scale, rel=1e-9)


@pytest.mark.parametrize(("size", "adjacency"), [(8, 3), (10, 2), (10, 3)])
def test_large_tables(size: int, adjacency: int) -> None:
    # A sum of k disjoint circuits has gauge k at most; here exactly, because its l1 norm is k times that of a vertex.
    invariants = both_margins(size, size)
    hull = sensitivity_hull(invariants, adjacency)
    table = np.zeros((size, size))
    blocks = size // adjacency
    for block in range(blocks):
        part = slice(block * adjacency, (block + 1) * adjacency)
        table[part, part] = (np.eye(adjacency) - np.roll(np.eye(adjacency), 1, axis=1)) * (block + 1)
    assert hull.gauge(invariants.coordinates(table)) == pytest.approx(blocks * (blocks + 1) / 2, rel=1e-9)
    point = np.random.default_rng(6).normal(size=hull.dimension)
    value, form = hull.subgradient(point)
    # The form, as a table of numbers, is at most 1 on all moves and 3-cycles: an independent lower bound ...
    w = invariants.from_coordinates(form)
    worst = max(
        np.max(np.abs((w[i] - w[k])[:, None] - (w[i] - w[k])[None, :])) for i, k in product(range(size), repeat=2)
    )
    assert worst <= 1 + 1e-9
    assert form @ point == pytest.approx(value, rel=1e-9)
    # ... and the weights of the last basis, all of whose members are vertices, an upper bound.
    own = hull.generators
    basis, weights = copied(own.start), np.zeros(own.dimension)
    assert solve(own.vertices, basis, point, weights, form) == pytest.approx(value * own.scale, rel=1e-9)
    members = invariants.from_coordinates(basis.corners * own.scale)
    assert np.max(np.abs(members - np.round(members))) < 1e-9
    assert set(np.abs(np.round(members)).sum(axis=(1, 2)).astype(int)) <= {4, 2 * adjacency}
    assert weights @ basis.corners == pytest.approx(point, abs=1e-9)
    assert np.abs(weights).sum() == pytest.approx(value * own.scale, rel=1e-9)
