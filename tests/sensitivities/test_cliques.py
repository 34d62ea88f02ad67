"""Margins of a junction tree, and limits elsewhere: against all databases, all tables, and tables too large to list."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp._nested import is_junction_tree
from bayesdp.fibers import Fiber
from bayesdp.measurements import Exact
from bayesdp.privacy import semi_adjacency
from bayesdp.queries import LinearQuery, Margins, Query, Totals
from bayesdp.sensitivities.semi_adjacent import (
    Cliques,
    bounds_by_size,
    bounds_of_cliques,
    distances_of_tables,
    listed_tables,
    record_count,
    semi_adjacency_of_tables,
)
from tests.sensitivities.databases import conforming, distances_from


def frame_of(*sizes: int) -> dict[str, list[int]]:
    return {name: list(range(size)) for name, size in zip("abcde", sizes, strict=False)}


def table_of(rng: np.random.Generator, shape: tuple[int, ...], n: int) -> np.ndarray:
    table = np.zeros(shape, dtype=np.int64)
    np.add.at(table.reshape(-1), rng.integers(0, table.size, size=n), 1)
    return table


def fiber_of(table: np.ndarray, *queries: Query) -> Fiber:
    return Fiber.of([Exact(query, query.apply(table)) for query in queries])


TREES: dict[str, tuple[tuple[int, ...], tuple[tuple[str, ...], ...]]] = {
    "chain of two": ((2, 2, 2), (("a", "b"), ("b", "c"))),
    "chain of two, wide": ((3, 2, 3), (("a", "b"), ("b", "c"))),
    "chain of three": ((2, 2, 2, 2), (("a", "b"), ("b", "c"), ("c", "d"))),
    "star": ((2, 2, 2, 2), (("a", "b"), ("a", "c"), ("a", "d"))),
    "triangle and tail": ((2, 2, 2, 2), (("a", "b", "c"), ("c", "d"))),
    "chain and a feature": ((2, 2, 2, 2), (("a", "b"), ("b", "c"), ("d",))),
    "chain, one free": ((2, 2, 2, 2), (("a", "b"), ("b", "c"))),
    "features": ((2, 2, 2), (("a",), ("b",), ("c",))),
}


def test_graham_reduction() -> None:
    def sets(*words: str) -> list[frozenset[int]]:
        return [frozenset(ord(letter) for letter in word) for word in words]

    for tree in (
        ["ab", "bc"],
        ["ab", "bc", "bd", "e"],
        ["abc", "bcd", "de"],
        ["ab", "ab"],
        ["abc", "ab", "bc", "ac"],
        [""],
    ):
        assert is_junction_tree(sets(*tree))
    for other in (["ab", "bc", "ca"], ["ab", "bc", "cd", "da"], ["abc", "cde", "efa"], ["ab", "bc", "ca", "cd"]):
        assert not is_junction_tree(sets(*other))


@pytest.mark.parametrize("name", TREES)
def test_distances_from_every_database_of_a_few_records(name: str) -> None:
    shape, margins = TREES[name]
    rng = np.random.default_rng(len(name))
    query = Margins(frame_of(*shape), *map(list, margins))
    seen = set()
    for n in (2, 3, 3):
        table = table_of(rng, shape, n)
        fiber = fiber_of(table, query)
        cliques = Cliques.of(fiber)
        assert cliques is not None
        databases = conforming(table, (query,))
        for database in databases:
            cells, found = cliques.distances(np.bincount(database, minlength=table.size))
            at = {int(cell): row for cell, row in zip(cells, found, strict=True)}
            for person in range(n):
                expected = distances_from(database, person, databases, table.size)
                assert at[int(database[person])].tolist() == expected.tolist()
                seen.update(expected.tolist())
    assert {-1, 0, 2} <= seen


@pytest.mark.parametrize("name", TREES)
def test_distances_and_limits_against_all_tables(name: str) -> None:
    shape, margins = TREES[name]
    rng = np.random.default_rng(len(name))
    query = Margins(frame_of(*shape), *map(list, margins))
    exact = 0
    for n in (3, 4, 5, 6):
        table = table_of(rng, shape, n)
        fiber = fiber_of(table, query)
        tables, _ = listed_tables(fiber, 3000)
        cliques = Cliques.of(fiber)
        assert tables is not None
        assert cliques is not None
        for u in tables[:40]:
            for own, other in zip(cliques.distances(u), distances_of_tables(u, tables), strict=True):
                assert np.array_equal(own, other)
        infimum, worst = semi_adjacency_of_tables(tables)
        limits = bounds_of_cliques(fiber, cliques)
        assert limits.infimum[0] <= infimum <= limits.infimum[1]
        assert limits.worst[0] <= worst <= limits.worst[1] <= len(margins) + 1
        exact += limits.worst[0] == limits.worst[1] == worst
        general = bounds_by_size(fiber, n)
        assert general.infimum[0] <= infimum <= general.infimum[1]
        assert general.worst[0] <= worst <= general.worst[1]
    assert exact >= 1


def test_what_is_no_junction_tree() -> None:
    rng = np.random.default_rng(1)
    cube = frame_of(2, 2, 2)
    table = table_of(rng, (2, 2, 2), 9)
    pairs = Margins(cube, ["a", "b"], ["b", "c"], ["a", "c"])
    first = LinearQuery(cube, np.eye(8, dtype=int)[:1], ["first"])
    grouped = {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1], "side": ("a", ["l", "l", "m"])}
    two_levels = Margins(grouped, ["side", "b"], ["a", "c"])
    assert Cliques.of(fiber_of(table, pairs)) is None
    assert Cliques.of(fiber_of(table, Margins(cube, ["a", "b"], ["b", "c"]), first)) is None
    assert Cliques.of(fiber_of(table_of(rng, (3, 2, 2), 9), two_levels)) is None
    assert Cliques.of(Fiber.of([], cube)) is None


def test_a_decomposable_model_of_real_size() -> None:
    shape = (40, 12, 30)
    table = np.random.default_rng(2).poisson(0.4, size=shape)
    table[0, 0, :] = 0
    table[0, 0, 3] = 1  # the pairs (0, 0) and (0, 5) have one record each, of different third values
    table[:, 0, 5] = 0
    table[2, 0, 5] = 1
    own = semi_adjacency([Exact(q, q.apply(table)) for q in [Margins(frame_of(*shape), ["a", "b"], ["b", "c"])]])
    assert (own.lower, own.upper, own.method) == (3, 3, "junction tree")
    assert semi_adjacency(fiber_of(table, Margins(frame_of(*shape), ["a", "b"], ["b", "c"])), "infimum").upper == 3


def test_all_pairs_of_a_larger_table_have_limits() -> None:
    shape = (5, 5, 5)
    table = np.random.default_rng(3).poisson(0.3, size=shape)
    fiber = fiber_of(table, Margins(frame_of(*shape), ["a", "b"], ["b", "c"], ["a", "c"]))
    own = semi_adjacency(fiber)
    assert own.method in ("bound", "enumeration")
    assert own.upper <= table.sum()


def test_the_number_of_records_is_fixed_by_the_answers_or_not() -> None:
    frame = frame_of(2, 2)
    table = np.ones((2, 2), dtype=np.int64)
    assert record_count(fiber_of(table, Totals(frame)), table) == 4
    assert record_count(fiber_of(table, LinearQuery(frame, [[1, 2, 1, 1]], ["w"])), table) is None


@pytest.mark.parametrize(
    ("shape", "margins", "most"),
    [
        ((2, 2, 2), (("a", "b"), ("b", "c"), ("a", "c")), 5),
        ((3, 2, 2), (("a", "b"), ("b", "c"), ("a", "c")), 5),
        ((3, 3, 2), (("a", "b"), ("b", "c"), ("a", "c")), 7),
        ((2, 2, 2, 2), (("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")), 6),
    ],
)
def test_a_graver_basis_limits_from_above(
    shape: tuple[int, ...], margins: tuple[tuple[str, ...], ...], most: int
) -> None:
    """1 plus half of the largest norm of the basis, against all tables of sparse fibers; the number of records says less."""
    rng = np.random.default_rng(len(shape) + shape[0])
    largest = 0
    for _ in range(12):
        table = table_of(rng, shape, 9)
        fiber = fiber_of(table, Margins(frame_of(*shape), *map(list, margins)))
        tables, _ = listed_tables(fiber, 1000)
        if tables is None or len(tables) < 2:
            continue
        infimum, worst = semi_adjacency_of_tables(tables)
        limits = bounds_by_size(fiber, 9)
        assert infimum <= limits.infimum[1]
        assert limits.worst[0] <= worst <= limits.worst[1] <= most
        largest = max(largest, worst)
    assert largest >= most - 2
    many = fiber_of(table + 1000, Margins(frame_of(*shape), *map(list, margins)))
    assert bounds_by_size(many, int(table.sum()) + 1000 * table.size).worst[1] == most


def test_a_graver_basis_limits_within_limits_of_cells_and_sums() -> None:
    frame = frame_of(3, 3)
    rng = np.random.default_rng(8)
    first = LinearQuery(frame, [[1, 0, 0, 0, 1, 0, 0, 0, 1]], ["diagonal"])
    seen = 0
    for _ in range(20):
        table = table_of(rng, (3, 3), 7)
        margins = [Exact(q, q.apply(table)) for q in (Margins(frame, ["a"], ["b"]),)]
        fiber = Fiber.of([*margins, Exact(first, first.apply(table) + 1, "<=")]).with_cells_at_most(np.full(9, 3))
        tables, _ = listed_tables(fiber, 1000)
        if tables is None or len(tables) < 2:
            continue
        _, worst = semi_adjacency_of_tables(tables)
        assert worst <= bounds_by_size(fiber, 7).worst[1]
        seen += 1
    assert seen > 5
