"""How many records must change together: Definition 13 by all databases, junction trees, limits from Graver bases."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import enumerate_fiber
from bayesdp.measurements import Exact
from bayesdp.privacy import conforming_pairs, record_distance, semi_adjacency
from bayesdp.privacy.sensitivities import semi_adjacent
from bayesdp.privacy.sensitivities.adjacency import Features
from bayesdp.privacy.sensitivities.semi_adjacent import Cliques, bounds_by_size, listed_tables, semi_adjacency_of_tables
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import labels
from tests.privacy.sensitivities.databases import conforming, exact_of, fiber_of
from tests.refusals import refused


def table_of(rng, shape, n):
    return np.bincount(rng.integers(0, np.prod(shape), size=n), minlength=np.prod(shape)).reshape(shape)


def two_way(rows, columns):
    frame = labels(len(rows), len(columns))
    return Fiber.of([Exact(Margins(frame, ["a"]), rows), Exact(Margins(frame, ["b"]), columns)])


def chain(shape, pairs):
    return Margins(labels(*shape), *map(list, pairs.split()))


def of_databases(table, queries):
    """Definition 13 word by word: every database of n records, every pair, no table but for the answers."""
    databases = conforming(table, queries)
    assert len(databases)
    distance = np.sum(databases[:, None, :] != databases[None, :, :], axis=2)
    infimum = worst = 0
    for i in range(databases.shape[1]):
        values = np.unique(databases[:, i])
        for x, y in product(values, values):
            block = distance[np.ix_(databases[:, i] == x, databases[:, i] == y)]
            infimum, worst = max(infimum, int(block.min())), max(worst, int(block.min(axis=1).max()))
    return infimum, worst


def found(fiber):
    own = semi_adjacency(fiber)
    return own.infimum, own.worst


MATRIX = {"cell": ["p", "q", "r", "s", "t"]}
GROUPED = {"a": [0, 1, 2], "b": [0, 1], "side": ("a", ["l", "l", "m"])}
CUBE = labels(2, 2, 2)
FIRST = LinearQuery(GROUPED, np.eye(6, dtype=int)[:1], ["first"])
QUERIES = {
    "both margins": ((3, 2), (Margins(GROUPED, ["a"], ["b"]),), "one-way margins"),
    "one margin": ((3, 2), (Margins(GROUPED, ["a"]),), "one-way margins"),
    "grouped margins": ((3, 2), (Margins(GROUPED, ["side"], ["b"]),), "one-way margins"),
    "the total": ((3, 2), (Totals(GROUPED),), "one-way margins"),
    "totals in totals": ((3, 2), (Totals(GROUPED, "side"), Totals(GROUPED)), "one-way margins"),
    "all cells": ((3, 2), (Margins(GROUPED, ["a", "b"]),), "one-way margins"),
    "three margins": ((2, 2, 2), (Margins(CUBE, ["a"], ["b"], ["c"]),), "one-way margins"),
    "a pair and one": ((2, 2, 2), (Margins(CUBE, ["a", "b"], ["c"]),), "one-way margins"),
    "overlapping": ((2, 2, 2), (Margins(CUBE, ["a", "b"], ["b", "c"]),), "enumeration"),
    "all pairs": ((2, 2, 2), (Margins(CUBE, ["a", "b"], ["b", "c"], ["a", "c"]),), "enumeration"),
    "crossing totals": ((5,), (LinearQuery(MATRIX, [[1] * 5, [1, 1, 0, 0, 0], [0, 1, 1, 0, 0]], list("nxy")),), "enumeration"),
    "weights": ((5,), (LinearQuery(MATRIX, [[1] * 5, [0, 1, 2, 3, 4]], list("nw")),), "enumeration"),
    "blocks": ((5,), (LinearQuery(MATRIX, [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1]], list("xy")),), "one-way margins"),
    "a structural zero": ((3, 2), (Margins(GROUPED, ["a"], ["b"]), FIRST), "enumeration"),
}  # fmt: skip


@pytest.mark.parametrize("name", QUERIES)
def test_definition_13_by_all_databases(name):
    shape, queries, method = QUERIES[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    seen = set()
    for n in (1, 3, 4):
        table = table_of(rng, shape, min(n, 4 if np.prod(shape) <= 6 else 3))
        fiber = fiber_of(table, *queries)
        assert semi_adjacency(fiber).method == method
        assert found(fiber) == of_databases(table, queries)
        seen.add(found(fiber))
    assert len(seen) > 1 or name == "the total"


def test_the_databases_of_example_3():
    """A record that moves alone: closer than an exchange of two, though the table itself holds both values already."""
    table, total = np.array([2, 0, 1]), Totals(labels(3))
    tables = enumerate_fiber(fiber_of(table, total)).reshape(-1, table.size)
    assert semi_adjacency_of_tables(tables) == of_databases(table, (total,)) == (1, 1)
    # Three persons, 0 or 1 each: two of them have 1; none has.
    assert [found(fiber_of(own, Margins(labels(2), ["a"]))) for own in ([1, 2], [3, 0])] == [(2, 2), (0, 0)]


def test_one_way_margins_of_more_ways_by_all_tables():
    rng = np.random.default_rng(5)
    seen = []
    for shape in [(2, 2, 2)] * 6 + [(2, 3, 2)] * 2 + [(2, 2, 2, 2)] * 2:
        frame = labels(*shape)
        n = int(rng.integers(1, 7 if len(shape) == 3 else 5))
        table = table_of(rng, shape, n)
        fiber = fiber_of(table, Margins(frame, *([dim] for dim in frame)))
        tables = enumerate_fiber(fiber).reshape(-1, table.size)
        own, (infimum, worst) = semi_adjacency(fiber), semi_adjacency_of_tables(tables)
        assert own.infimum == infimum
        assert own.lower <= worst <= own.upper
        assert own.worst == worst or len(shape) > 3
        seen.append(worst)
    assert {2, 3} <= set(seen)


def test_balanced_margins_and_where_the_bound_p_plus_1_is_attained():
    for rows, columns in [([3, 3], [2, 4]), ([2, 4], [3, 3]), ([2, 2, 2], [3, 3]), ([1, 2], [1, 2])]:
        assert found(two_way(rows, columns)) == (2, 3)
    # Of two records with different values: whatever one says, the other one has it.
    assert [semi_adjacency(two_way([n, n], [n, n])).worst for n in (3, 1)] == [2, 2]
    # Attained when the rarest labels can belong to different records.
    frame, most = labels(2, 2, 2, 2, 2), 10**9
    for *rarest, n, worst in [
        (1, 1, 1, 1, 1, 6, 6),
        (1, 1, 1, 1, 1, 5, 5),  # the person who changes needs a record of his own
        (1, 1, 1, 1, 2, 6, 5),
        (1, 1, 1, 0, 0, 9, 4),  # features with one label do not count
        (most, most, most, most, most, 10 * most, 6),
    ]:
        own = [Exact(Margins(frame, [name]), [n - m, m]) for name, m in zip(frame, rarest, strict=True)]
        assert semi_adjacency(own).worst == worst


PAIRS = Margins(labels(3, 3, 3), ["a", "b"], ["a", "c"], ["b", "c"])


def test_hitting_numbers_of_many_points():
    assert semi_adjacent.largest_hitting_number((1, 1, 10**6), 10**6) == (2, 2)
    # The seven lines of the Fano plane: any two meet, so that no three are disjoint, and no two points are on them all.
    assert semi_adjacent.largest_hitting_number((3,) * 7, 7) in [(3, 3), (2, 3)]
    # Scaling all sizes by a large number changes nothing where points are many.
    small, large = (semi_adjacent.largest_hitting_number((4 * s, 4 * s, 4 * s, 4 * s), 10 * s) for s in (1, 10**5))
    assert small == large == (2, 3)


def test_a_three_way_fiber_of_two_tables_needs_six_records():
    x = np.zeros((3, 3, 3), dtype=int)
    x.reshape(9, 3)[[0, 1, 3, 5, 7, 8], [2, 1, 1, 2, 2, 1]] = 1
    fiber = fiber_of(x, PAIRS)
    assert len(enumerate_fiber(fiber)) == 2
    own = semi_adjacency(fiber)
    assert (own.value, own.infimum, own.worst, own.method) == (6, 6, 6, "enumeration")
    # Theorem 16 bounds three one-way margins by 4: at a distance of 4 these tables have nobody next to them.
    assert own.lower > 3 + 1


def test_limits_where_tables_are_too_many_to_list():
    ring = (2, 2, 2, 2)
    fiber = fiber_of(table_of(np.random.default_rng(2), ring, 12), chain(ring, "ab bc cd ad"))
    own, exact = semi_adjacency(fiber, limit=10), semi_adjacency(fiber, limit=10**5)
    assert (own.method, own.value, exact.method) == ("bound", None, "enumeration")
    assert "more than 10 tables" in own.reason
    assert "between" in str(own)
    assert own.lower <= exact.worst <= own.upper


def test_the_number_of_records_must_be_known_and_bounds_of_counts_are_listed_too():
    for rows, reason in (([[1, 2]], "number of records"), ([[1, 1, 0]], "unbounded")):
        own = semi_adjacency([Exact(LinearQuery(labels(len(rows[0])), rows, ["own"]), [4])])
        assert own.method == "unknown"
        assert reason in own.reason
        assert "unknown" in str(own)
        assert (own.value, own.upper, own.worst, own.infimum) == (None, None, None, None)
    frame = labels(2, 2)
    corner = LinearQuery(frame, sp.csr_array([[1, 0, 0, 0]]), ["corner"])
    exact = [Exact(Margins(frame, ["a"]), [3, 4]), Exact(Margins(frame, ["b"]), [2, 5]), Exact(corner, [1], sign=">=")]
    # (1, 1) is never empty, so that only two tables are left, and both have a record everywhere but in the last cell of one.
    assert semi_adjacency(exact).method == "enumeration"
    assert found(Fiber.of(exact)) == semi_adjacency_of_tables(enumerate_fiber(Fiber.of(exact)).reshape(-1, 4))


def test_conventions_and_arguments():
    fiber = two_way([4, 5], [3, 6])
    assert (semi_adjacency(fiber).value, semi_adjacency(fiber, "infimum").value) == (3, 2)
    assert str(semi_adjacency(fiber)) == (
        "semi-adjacent parameter: 3 (from the worst database), 2 (infimum over databases); by the margins of the rarest labels"
    )
    assert Features.of(Fiber.of([], {"a": [0, 1]})) is None
    frame = {name: [0, 1] for name in "abcdefghij"}
    many = semi_adjacency([Exact(Margins(frame, [name]), [6, 5]) for name in frame])
    assert (many.method, many.value, many.worst, many.infimum) == ("bound", None, None, 2)
    # Somebody has at least five of the ten labels, somebody else at least half of the rest, a third one what is left.
    assert (many.lower, many.upper) == (3, 4)
    assert "between 3 and 4 (from the worst database), 2 (infimum over databases)" in str(many)


TREES = [((3, 2, 3), "ab bc", 18), ((2, 2, 2, 2), "ab bc cd", 14), ((2, 2, 2, 2), "ab ac ad", 4)]
TREES += [((2, 2, 2, 2), "abc cd", 17), ((2, 2, 2, 2), "ab bc d", 19), ((2, 2, 2, 2), "ab bc", 15)]


@pytest.mark.parametrize(("shape", "margins", "seed"), TREES)
def test_distances_and_limits_against_all_tables(shape, margins, seed):
    rng, exact = np.random.default_rng(seed), 0
    for n in (3, 4, 5, 6):
        fiber = fiber_of(table_of(rng, shape, n), chain(shape, margins))
        (tables, _), cliques = listed_tables(fiber, 3000), Cliques.of(fiber)
        assert tables is not None
        assert cliques is not None
        for u in tables[:15]:
            for own, other in zip(cliques.distances(u), semi_adjacent.distances_of_tables(u, tables), strict=True):
                assert np.array_equal(own, other)
        infimum, worst = semi_adjacency_of_tables(tables)
        limits = semi_adjacent.bounds_of_cliques(fiber, cliques)
        assert limits.worst[1] <= len(margins.split()) + 1
        exact += limits.worst[0] == limits.worst[1] == worst
        for own in (limits, bounds_by_size(fiber, n)):
            assert own.infimum[0] <= infimum <= own.infimum[1]
            assert own.worst[0] <= worst <= own.worst[1]
    assert exact >= 1


def test_what_is_no_junction_tree():
    rng, cube = np.random.default_rng(1), (2, 2, 2)
    first = LinearQuery(labels(*cube), np.eye(8, dtype=int)[:1], ["first"])
    grouped = {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1], "side": ("a", ["l", "l", "m"])}
    two_levels = Margins(grouped, ["side", "b"], ["a", "c"])
    for shape, *queries in (
        (cube, chain(cube, "ab bc ac")),
        (cube, chain(cube, "ab bc"), first),
        ((3, 2, 2), two_levels),
    ):
        assert Cliques.of(fiber_of(table_of(rng, shape, 9), *queries)) is None
    assert Cliques.of(Fiber.of([], labels(*cube))) is None


def test_a_decomposable_model_of_real_size():
    table = np.random.default_rng(2).poisson(0.4, size=(20, 12, 30))
    # The pairs (0, 0) and (0, 5) have one record each, of different third values.
    table[0, 0, :] = table[:, 0, 5] = 0
    table[0, 0, 3] = table[2, 0, 5] = 1
    fiber = fiber_of(table, Margins(labels(*table.shape), ["a", "b"], ["b", "c"]))
    own = semi_adjacency(fiber)
    assert (own.lower, own.upper, own.method) == (3, 3, "junction tree")
    assert semi_adjacency(fiber, "infimum").upper == 3


GRAVER = [((2, 2, 2), "ab bc ac", 5), ((3, 3, 2), "ab bc ac", 7), ((2, 2, 2, 2), "ab bc cd ad", 6)]


@pytest.mark.parametrize(("shape", "margins", "most"), GRAVER)
def test_a_graver_basis_limits_from_above(shape, margins, most):
    """1 plus half of the largest norm of the basis, against all tables of sparse fibers; the number of records says less."""
    rng = np.random.default_rng(len(shape) + shape[0])
    largest = 0
    for _ in range(6):
        table = table_of(rng, shape, 9)
        fiber = fiber_of(table, chain(shape, margins))
        tables, _ = listed_tables(fiber, 1000)
        if tables is None or len(tables) < 2:
            continue
        infimum, worst = semi_adjacency_of_tables(tables)
        limits = bounds_by_size(fiber, 9)
        assert infimum <= limits.infimum[1]
        assert limits.worst[0] <= worst <= limits.worst[1] <= most
        largest = max(largest, worst)
    assert largest >= most - 2
    many = fiber_of(table + 1000, chain(shape, margins))
    assert bounds_by_size(many, int(table.sum()) + 1000 * table.size).worst[1] == most


def test_a_graver_basis_limits_within_limits_of_cells_and_sums():
    frame = labels(3, 3)
    rng = np.random.default_rng(8)
    first = LinearQuery(frame, [[1, 0, 0, 0, 1, 0, 0, 0, 1]], ["diagonal"])
    seen = 0
    for _ in range(8):
        table = table_of(rng, (3, 3), 7)
        exact = [*exact_of(table, (Margins(frame, ["a"], ["b"]),)), Exact(first, first.apply(table) + 1, "<=")]
        fiber = Fiber.of(exact).with_cells_between(0, np.full(9, 3))
        tables, _ = listed_tables(fiber, 1000)
        if tables is None or len(tables) < 2:
            continue
        _, worst = semi_adjacency_of_tables(tables)
        assert worst <= bounds_by_size(fiber, 7).worst[1]
        seen += 1
    assert seen > 2


TABLES = [x for x in product(range(4), repeat=3) if sum(x) == 3]


def test_the_distance_of_tables_is_that_of_the_closest_databases():
    every = list(product(range(3), repeat=3))
    databases = {x: [p for p in every if (np.bincount(p, minlength=3) == x).all()] for x in TABLES}
    for x, y in product(TABLES, TABLES):
        pairs = product(databases[x], databases[y])
        hamming = min(sum(a != b for a, b in zip(p, q, strict=True)) for p, q in pairs)
        assert (record_distance(x, y), record_distance(x, y, "add-remove")) == (hamming, 2 * hamming)
    start = (1, 2, 0)
    for other in product(range(4), repeat=3):
        assert record_distance(start, other, "add-remove") == sum(abs(a - b) for a, b in zip(start, other, strict=True))
    assert record_distance(start, (1, 1, 0)) is None


def test_conforming_pairs_are_those_at_most_so_far_apart():
    fiber = Fiber.of([Exact(Totals(labels(3)), 3)])
    for a in (0, 1, 2, 3):
        expected = {frozenset((x, y)) for x, y in product(TABLES, TABLES) if x != y and record_distance(x, y) <= a}
        found = conforming_pairs(fiber, a)
        assert {frozenset((tuple(x.tolist()), tuple(y.tolist()))) for x, y in found} == expected
        assert len(found) == len(expected)
    weighted = Fiber.of([Exact(LinearQuery(labels(2), [[1, 2]], ["w"]), [4])])
    assert conforming_pairs(weighted, 2) == []  # the tables have different numbers of records
    assert len(conforming_pairs(weighted, 3, "add-remove")) == 2


TWO = labels(2)
test_bad_arguments_are_named = refused(
    (lambda: semi_adjacency(two_way([1, 2], [1, 1])), "one and the same total"),
    (lambda: semi_adjacency([Exact(Margins(TWO, ["a"]), [1, 2]), Exact(Totals(TWO), 4)]), "contradict"),
    (lambda: semi_adjacency([Exact(LinearQuery(TWO, [[1, 1], [1, 2]], ["n", "w"]), [1, 4])]), "no nonnegative integer table"),
    (lambda: semi_adjacency(two_way([4, 5], [3, 6]), "best"), "convention must be one of 'worst', 'infimum'"),
    (lambda: record_distance([1, 2], [1, 2, 3]), "one shape"),
    (lambda: record_distance([-1, 2], [1, 0]), "table must be at least 0"),
    (lambda: record_distance([1], [1], "hamming"), "neighbours must be one of"),
    (lambda: conforming_pairs([1], 1), "fiber must be a Fiber"),
    (lambda: conforming_pairs(Fiber.of([Exact(Totals(labels(3)), 3)]), 1, limit=3), "more than 3 tables"),
)  # fmt: skip
