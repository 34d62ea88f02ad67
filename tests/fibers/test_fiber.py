"""Fibers against brute force over boxes: members, limits of cells, first points, and what is said of empty ones."""

import re
from itertools import product

import numpy as np
import pytest

from bayesdp import Exact, Frame, Identity, LinearQuery, Margins, Measured, Release, Totals
from bayesdp.fibers import Fiber, enumerate_fiber
from bayesdp.fibers import fiber as fibers
from bayesdp.noise import DiscreteGaussian
from tests.fibers.cases import CASES, frame_of, with_margins


def brute_force(exact, frame, most):
    """All tables with counts up to `most`, kept or not by applying the queries to each."""
    tables = np.array(list(product(range(most + 1), repeat=frame.size))).reshape(-1, *frame.shape)
    holds = {"=": np.equal, ">=": np.greater_equal, "<=": np.less_equal}
    for own in exact:
        kept = holds[own.sign](own.query.apply(tables), own.values)
        tables = tables[kept.reshape(len(tables), -1).all(axis=1)]
    return tables


def random_exact(seed):
    """Exact answers of a random table: totals, margins, weighted sums, limits, some of single cells, some redundant."""
    rng = np.random.default_rng(seed)
    frame = frame_of(*[(2, 3), (2, 2), (3,), (4,)][seed % 4])
    table = rng.integers(0, 4, frame.shape)
    exact = [Exact(Totals(frame), Totals(frame).apply(table))]
    for sign in ("=", ">=", "<="):
        rows = rng.integers(-1, 3, (rng.integers(0, 3), frame.size))
        if len(rows):
            query = LinearQuery(frame, rows, [f"{sign}{i}" for i in range(len(rows))])
            slack = 0 if sign == "=" else rng.integers(0, 3, len(rows)) * (1 if sign == "<=" else -1)
            exact.append(Exact(query, query.apply(table) + slack, sign))
    if rng.random() < 0.5:
        query = Margins(frame, [frame.dims[0]])
        exact.append(Exact(query, query.apply(table)))
    if rng.random() < 0.3:
        rows = 2 * np.eye(1, frame.size, rng.integers(frame.size), dtype=int)
        query = LinearQuery(frame, rows, ["one cell, doubled"])
        exact.append(Exact(query, query.apply(table)))
    return exact, frame


@pytest.mark.parametrize("seed", range(24))
def test_random_fibers(seed):
    exact, frame = random_exact(seed)
    fiber = Fiber.of(exact, frame)
    listed, total = enumerate_fiber(fiber), int(exact[0].values)
    if frame.size < 5 and total <= 9:  # the grand total bounds every cell
        assert sorted(listed.tolist()) == sorted(brute_force(exact, frame, total).tolist())
    assert len({tuple(t.reshape(-1)) for t in listed}) == len(listed)
    assert all(fiber.contains(t) for t in listed)
    np.testing.assert_array_equal(fiber.bounds(), [listed.min(axis=0), listed.max(axis=0)])
    assert fiber.bounds_are_exact
    np.testing.assert_array_equal(fiber.determined(), np.ptp(listed, axis=0) == 0)
    for guide in (None, np.full(frame.shape, 2.7), np.random.default_rng(seed).normal(2, 30, frame.shape)):
        assert fiber.contains(fiber.find_point(guide))


@pytest.mark.parametrize("name", CASES)
def test_kernel_cases_contain_their_table_and_have_exact_bounds(name):
    case = CASES[name]
    assert case.fiber.contains(case.table)
    tables = enumerate_fiber(case.finite_part)
    lower, upper = case.fiber.bounds()
    np.testing.assert_array_equal(lower, tables.min(axis=0))
    if not case.window:
        np.testing.assert_array_equal(upper, tables.max(axis=0))
    if name in ("2x2", "2x3", "disjoint totals", "general matrix", "inequalities"):
        assert sorted(tables.tolist()) == sorted(brute_force(case.exact, case.frame, int(upper.max())).tolist())


def test_what_nothing_bounds_and_bounded_sums_that_keep_tables_apart():
    frame = frame_of(2, 2)
    fiber = Fiber.of([Exact(LinearQuery(frame, [[1, 1, 0, 0]], ["first row"]), [5])], frame)
    np.testing.assert_array_equal(fiber.bounds(), [np.zeros((2, 2)), [[5, 5], [-1, -1]]])
    with pytest.raises(ValueError, match="a=a1, b=b0 is unbounded"):
        enumerate_fiber(fiber)
    with pytest.raises(ValueError, match="more than 10 tables"):
        enumerate_fiber(CASES["3x3"].fiber, limit=10)
    fiber = Fiber.of([], frame_of(2, 3))
    assert fiber.moves.proved
    assert fiber.contains(np.arange(6).reshape(2, 3))
    for other in (-np.ones((2, 3), dtype=np.int64), np.ones((2, 3)), np.ones(6, dtype=np.int64)):
        assert not fiber.contains(other)  # negative, real, of another shape
    np.testing.assert_array_equal(fiber.find_point(np.full((2, 3), 3.4)), 3)
    with pytest.raises(ValueError, match="needs the frame"):
        Fiber.of([])
    with pytest.raises(ValueError, match="about the same table"):
        Fiber.of([Exact(Totals(frame_of(2, 2)), 3), Exact(Totals(frame_of(2, 3)), 3)])
    frame = frame_of(3, 3)
    diagonal = LinearQuery(frame, np.eye(3, dtype=np.int64).reshape(1, -1), ["diagonal"])
    case = with_margins([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "a", "b", more=(Exact(diagonal, [0], "<="),))
    first, second = enumerate_fiber(case.fiber)  # two 3-cycles: no 2x2 move leads from one to the other
    assert np.abs(first - second).sum() == 6
    assert case.fiber.moves.proved
    assert "a Markov basis was computed" in case.fiber.claim
    assert not case.fiber.open_moves.proved  # nothing is shown where further limits are not known


def stated(names, rows, values, sign="=", frame=None):
    """Sums by their rows, with names that are separated by semicolons."""
    return Exact(LinearQuery(frame or frame_of(len(rows[0])), rows, names.split("; ")), values, sign)


def margins(a, b, sign="="):
    """Both margins of a 2x2 table; `sign` is that of the second."""
    frame = frame_of(2, 2)
    return [Exact(Margins(frame, ["a"]), a), Exact(Margins(frame, ["b"]), b, sign)]


_GROUPS, _WIDE = Frame.of({"c": list("pqr"), "s": ("c", list("xxy"))}), frame_of(400, 3)
_THREES = Exact(Margins(_WIDE, ["a"]), np.full(400, 3))
_TWO, _PAIRS = [[1, 0, 0], [0, 1, 0]], [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
EMPTY = {
    "a=a0 = 3; a=a1 = 4; b=b0 = 2; b=b1 = 6": margins([3, 4], [2, 6]),
    "total = 5; the first two = 6": [Exact(Totals(frame_of(3)), 5), stated("the first two", [[1, 1, 0]], [6])],
    "twice p = 5 (the answer is 2 times the cell a=a0": [stated("twice p", [[2, 0]], [5])],
    "xy = 1; yz = 1; xz = 1": [stated("xy; yz; xz", _PAIRS, [1, 1, 1])],  # (1/2, 1/2, 1/2) alone
    "a=a0 = 3; a=a1 = 4; b=b0 >= 5; b=b1 >= 5": margins([3, 4], [5, 5], ">="),
    "p = 3; p >= 4": [stated("p", [[1, 0]], [3]), stated("p", [[1, 0]], [4], ">=")],
    "difference = 6; sum = 4": [stated("difference; sum", [[1, -1], [1, 1]], [6, 4])],  # a negative count
    "nothing = 1 (the answer adds up no cell": [stated("nothing", [[0, 0]], [1])],
    "s=x = 3; c=p = 1; c=q = 1": [Exact(Totals(_GROUPS, "s"), [3, 4]), stated("p; q", _TWO, [1, 1], frame=_GROUPS)],
    # Too large to leave out one statement after the other: some are named, and that is said.
    "a=a1, b=b2 = 7 (together with the other exact values)": [
        _THREES,
        stated("cell", np.eye(1, 1200, 5), [7], "=", _WIDE),
    ],
}


@pytest.mark.parametrize("statements", EMPTY)
def test_an_empty_fiber_names_what_cannot_hold(statements):
    """By the whole message; statements that are named are all needed (checked by hand for each case)."""
    message = re.escape(f"no nonnegative integer table satisfies the exact values: {statements}")
    with pytest.raises(ValueError, match=f"^{message}($|, )"):
        Fiber.of(EMPTY[statements]).find_point()


def test_first_points_are_close_to_the_guide_and_those_of_sparse_and_of_huge_two_way_tables():
    rng = np.random.default_rng(1)
    for table in rng.poisson(30, (4, 6, 7)):
        for dims, far in (("ab", 4 * table.size), ("a", table.size)):
            point = with_margins(table, *dims).fiber.find_point(table + rng.normal(0, 0.4, table.shape))
            assert np.abs(point - table).sum() <= far
    for table in (rng.poisson(0.05, (40, 30)), rng.integers(0, 2**47, (8, 9)), np.eye(20, dtype=np.int64) * 10**12):
        fiber = with_margins(table, "a", "b").fiber
        for guide in (None, table.astype(float), np.zeros(table.shape), -table.astype(float)):
            assert fiber.contains(fiber.find_point(guide))


def test_a_solution_with_halves_is_not_taken(monkeypatch):
    fiber = Fiber.of([stated("ab; bc; ac", _PAIRS, np.ones(3, dtype=np.int64), "<=")])
    monkeypatch.setattr(fibers, "_LARGE", 0)
    assert sorted(fibers.find_point(fiber.system, fiber.invariants, np.ones(3))) == [0, 0, 1]
    frame = frame_of(2, 2)  # a contradiction is named all the same
    limits = [((Margins(frame, [own]), np.array([n, n])),) for own, n in (("a", 3), ("b", 2))]
    fiber = Fiber(frame, (), *limits)
    with pytest.raises(ValueError, match=r"no nonnegative integer table.*a=a0 >= 3"):
        fibers.find_point(fiber.system, fiber.invariants, np.ones(4))


def test_a_search_that_ends_without_an_answer_says_so(monkeypatch):
    """At the fiber, and at a release, which looks for a table; the command line has a test of its own."""
    case = with_margins(np.ones((3, 3, 3), dtype=int), "ab", "bc", "ac")
    monkeypatch.setattr(fibers, "LONGEST", 0.0)
    message = r"^no table was found in 0 s .* nor was shown that there is none; fewer exact"
    with pytest.raises(TimeoutError, match=message):
        case.fiber.find_point()
    measured = [Measured(Identity(case.frame), case.table, DiscreteGaussian(2.0))]
    with pytest.raises(TimeoutError, match=r"^no table was found in 0 s"):
        Release.from_published(case.frame, measured, list(case.exact))
