"""Distances of tables against lists of records."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bayesdp.fibers import Fiber
from bayesdp.measurements import Exact
from bayesdp.privacy import conforming_pairs, record_distance
from bayesdp.queries import LinearQuery, Totals


def lists(table: tuple[int, ...]) -> set[tuple[int, ...]]:
    """All databases with a table."""
    n = sum(table)
    return {x for x in product(range(len(table)), repeat=n) if np.array_equal(np.bincount(x, minlength=3), table)}


def test_the_distance_of_tables_is_that_of_the_closest_databases() -> None:
    tables = [x for x in product(range(4), repeat=3) if sum(x) == 3]
    for x, y in product(tables, tables):
        hamming = min(sum(a != b for a, b in zip(p, q, strict=True)) for p, q in product(lists(x), lists(y)))
        assert record_distance(x, y) == hamming
        assert record_distance(x, y, "add-remove") == 2 * hamming


def test_records_that_come_or_go() -> None:
    # Breadth first: from one table to the other by single records.
    start: tuple[int, ...] = (1, 2, 0)
    seen = {start: 0}
    queue = [start]
    for own in queue:
        for cell, step in product(range(3), (1, -1)):
            new = tuple(own[i] + step * (i == cell) for i in range(3))
            if min(new) >= 0 and seen[own] < 4 and new not in seen:
                seen[new] = seen[own] + 1
                queue.append(new)
    assert all(record_distance(start, own, "add-remove") == steps for own, steps in seen.items())
    assert record_distance(start, (1, 1, 0)) is None


def test_conforming_pairs_are_those_at_most_so_far_apart() -> None:
    fiber = Fiber.of([Exact(Totals({"cell": ["p", "q", "r"]}), 3)])
    tables = [x for x in product(range(4), repeat=3) if sum(x) == 3]
    for a in (0, 1, 2, 3):
        expected = {frozenset((x, y)) for x, y in product(tables, tables) if x != y and record_distance(x, y) <= a}
        found = conforming_pairs(fiber, a)
        assert {frozenset((tuple(x.tolist()), tuple(y.tolist()))) for x, y in found} == expected
        assert len(found) == len(expected)
    weighted = Fiber.of([Exact(LinearQuery({"cell": ["p", "q"]}, [[1, 2]], ["w"]), [4])])
    assert conforming_pairs(weighted, 2) == []  # the tables have different numbers of records
    assert len(conforming_pairs(weighted, 3, "add-remove")) == 2
    with pytest.raises(ValueError, match="more than 3 tables"):
        conforming_pairs(fiber, 1, limit=3)


def test_arguments() -> None:
    with pytest.raises(ValueError, match="one shape"):
        record_distance([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="table must be at least 0"):
        record_distance([-1, 2], [1, 0])
    with pytest.raises(ValueError, match="neighbours must be one of"):
        record_distance([1], [1], "hamming")
    with pytest.raises(TypeError, match="fiber must be a Fiber"):
        conforming_pairs([1], 1)  # type: ignore[arg-type]
