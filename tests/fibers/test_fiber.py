"""Fibers against brute force over boxes: members, limits of cells, first points, and what is said of empty ones."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp.fibers import Fiber, enumerate_fiber
from bayesdp.fibers import fiber as fibers
from bayesdp.frames import Frame
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import DiscreteGaussian
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from bayesdp.release import Release
from tests.fibers.cases import CASES, frame_of, with_margins, zeros_at


def brute_force(exact, frame: Frame, most: int) -> np.ndarray:
    """All tables with counts up to `most`, kept or not by applying the queries to each."""
    kept = []
    for cells in product(range(most + 1), repeat=frame.size):
        table = np.array(cells).reshape(frame.shape)
        answers = [(part.query.apply(table), part) for part in exact]
        if all(
            np.all(
                (got == part.values)
                if part.sign == "="
                else (got >= part.values)
                if part.sign == ">="
                else (got <= part.values)
            )
            for got, part in answers
        ):
            kept.append(table)
    return np.array(kept).reshape(-1, *frame.shape)


def random_exact(seed: int) -> tuple[list[Exact], Frame]:
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
        rows = np.eye(frame.size, dtype=np.int64)[rng.integers(frame.size, size=1)] * 2
        query = LinearQuery(frame, rows, ["one cell, doubled"])
        exact.append(Exact(query, query.apply(table)))
    return exact, frame


@pytest.mark.parametrize("seed", range(40))
def test_random_fibers(seed):
    exact, frame = random_exact(seed)
    fiber = Fiber.of(exact, frame)
    # The grand total bounds every cell.
    tables = brute_force(exact, frame, min(int(exact[0].values), 9)) if frame.size < 5 else None
    listed = enumerate_fiber(fiber)
    if tables is not None and int(exact[0].values) <= 9:
        np.testing.assert_array_equal(sorted(listed.tolist()), sorted(tables.tolist()))
    assert len({tuple(t.reshape(-1)) for t in listed}) == len(listed)
    assert all(fiber.contains(t) for t in listed)
    lower, upper = fiber.bounds()
    assert fiber.bounds_are_exact
    np.testing.assert_array_equal(lower, listed.min(axis=0))
    np.testing.assert_array_equal(upper, listed.max(axis=0))
    np.testing.assert_array_equal(fiber.determined(), listed.min(axis=0) == listed.max(axis=0))
    for guide in (None, np.full(frame.shape, 2.7), np.random.default_rng(seed).normal(2, 30, frame.shape)):
        assert fiber.contains(fiber.find_point(guide))


@pytest.mark.parametrize("name", ["2x2", "2x3", "disjoint totals", "general matrix", "inequalities"])
def test_enumeration_of_the_kernel_cases(name):
    case = CASES[name]
    most = int(case.fiber.bounds()[1].max())
    np.testing.assert_array_equal(
        sorted(enumerate_fiber(case.fiber).tolist()), sorted(brute_force(case.exact, case.frame, most).tolist())
    )


@pytest.mark.parametrize("name", CASES)
def test_kernel_cases_contain_their_table_and_have_exact_bounds(name):
    case = CASES[name]
    assert case.fiber.contains(case.table)
    tables = enumerate_fiber(case.finite_part)
    lower, upper = case.fiber.bounds()
    np.testing.assert_array_equal(lower, tables.min(axis=0))
    if not case.window:
        np.testing.assert_array_equal(upper, tables.max(axis=0))


def test_frechet_bounds_and_determined_cells():
    case = with_margins([[3, 0], [0, 4]], "a", "b")
    lower, upper = case.fiber.bounds()
    np.testing.assert_array_equal(lower, [[0, 0], [0, 1]])
    np.testing.assert_array_equal(upper, [[3, 3], [3, 4]])
    empty_row = with_margins([[0, 0, 0], [1, 2, 3]], "a", "b")
    assert empty_row.fiber.determined().all()
    assert not case.fiber.determined().any()


def test_cells_that_nothing_bounds():
    frame = frame_of(2, 2)
    fiber = Fiber.of([Exact(LinearQuery(frame, [[1, 1, 0, 0]], ["first row"]), [5])], frame)
    lower, upper = fiber.bounds()
    np.testing.assert_array_equal(lower, 0)
    np.testing.assert_array_equal(upper, [[5, 5], [-1, -1]])
    with pytest.raises(ValueError, match="a=a1, b=b0 is unbounded"):
        enumerate_fiber(fiber)


def test_enumeration_has_a_limit():
    with pytest.raises(ValueError, match="more than 10 tables"):
        enumerate_fiber(CASES["3x3"].fiber, limit=10)


def test_a_fiber_without_exact_answers_is_every_table():
    frame = frame_of(2, 3)
    fiber = Fiber.of([], frame)
    assert fiber.moves.proved
    assert fiber.contains(np.arange(6).reshape(2, 3))
    assert not fiber.contains(-np.ones((2, 3), dtype=np.int64))
    assert not fiber.contains(np.ones((2, 3)))  # real numbers
    assert not fiber.contains(np.ones(6, dtype=np.int64))
    np.testing.assert_array_equal(fiber.find_point(np.full((2, 3), 3.4)), 3)
    with pytest.raises(ValueError, match="needs the frame"):
        Fiber.of([])


def test_all_parts_must_be_about_one_table():
    with pytest.raises(ValueError, match="about the same table"):
        Fiber.of([Exact(Totals(frame_of(2, 2)), 3), Exact(Totals(frame_of(2, 3)), 3)])


def empty(statements: str) -> str:
    """A pattern of the whole message; statements that are named are all needed (checked by hand for each case)."""
    return "^" + re.escape(f"no nonnegative integer table satisfies the exact values: {statements}") + r"($|, )"


def stated(frame: Frame, name: str, rows, values, sign: str = "=") -> Exact:
    """Sums by their rows, with names that are separated by semicolons."""
    return Exact(LinearQuery(frame, rows, name.split("; ")), values, sign)


def margins(a, b, sign: str = "=") -> list[Exact]:
    """Both margins of a 2x2 table; `sign` is that of the second."""
    frame = frame_of(2, 2)
    return [Exact(Margins(frame, ["a"]), a), Exact(Margins(frame, ["b"]), b, sign)]


_GROUPS = Frame.of({"c": list("pqr"), "s": ("c", list("xxy"))})
EMPTY = {
    "different grand totals": (margins([3, 4], [2, 6]), "a=a0 = 3; a=a1 = 4; b=b0 = 2; b=b1 = 6"),
    "a part larger than the whole": (
        [Exact(Totals(frame_of(3)), 5), stated(frame_of(3), "the first two", [[1, 1, 0]], [6])],
        "total = 5; the first two = 6",
    ),
    "an odd sum of even numbers": ([stated(frame_of(2), "twice the sum", [[2, 2]], [5])], "twice the sum = 5"),
    "half a count": (
        [stated(frame_of(2), "twice p", [[2, 0]], [5])],
        "twice p = 5 (the answer is 2 times the cell a=a0",
    ),
    "(1/2, 1/2, 1/2) alone": (
        [stated(frame_of(3), "xy; yz; xz", [[1, 1, 0], [0, 1, 1], [1, 0, 1]], [1, 1, 1])],
        "xy = 1; yz = 1; xz = 1",
    ),
    "limits that exclude each other": (margins([3, 4], [5, 5], ">="), "a=a0 = 3; a=a1 = 4; b=b0 >= 5; b=b1 >= 5"),
    "one cell with two values": (
        [stated(frame_of(2), "p", [[1, 0]], [3]), stated(frame_of(2), "p", [[1, 0]], [4], ">=")],
        "p = 3; p >= 4",
    ),
    "a negative count": (
        [stated(frame_of(2), "difference; sum", [[1, -1], [1, 1]], [6, 4])],
        "difference = 6; sum = 4",
    ),
    "an empty sum that is not zero": (
        [stated(frame_of(2), "nothing", [[0, 0]], [1])],
        "nothing = 1 (the answer adds up no cell",
    ),
    "zeros that leave no room": (
        [*margins([3, 4], [3, 4]), zeros_at(frame_of(2, 2), [0, 1])],
        "a=a0 = 3; a=a0, b=b0 = 0; a=a0, b=b1 = 0",
    ),
    "groups without cells left": (
        [Exact(Totals(_GROUPS, "s"), [3, 4]), stated(_GROUPS, "p; q", [[1, 0, 0], [0, 1, 0]], [1, 1])],
        "s=x = 3; c=p = 1; c=q = 1",
    ),
}


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_fiber_names_what_cannot_hold(name):
    parts, statements = EMPTY[name]
    with pytest.raises(ValueError, match=empty(statements)):
        Fiber.of(parts).find_point()


def test_a_wide_table_names_what_has_to_give_way():
    """Too large to leave out one statement after the other: some are named, and that is said."""
    frame = frame_of(400, 3)
    rows = np.full(400, 3)
    parts = [Exact(Margins(frame, ["a"]), rows), Exact(LinearQuery(frame, np.eye(1, 1200, 5), ["one cell"]), [7])]
    told = (
        "no nonnegative integer table satisfies the exact values: a=a1, b=b2 = 7 (together with the other exact values)"
    )
    with pytest.raises(ValueError, match=re.escape(told)):
        Fiber.of(parts).find_point()


@pytest.mark.parametrize("seed", range(12))
def test_first_points_are_close_to_the_guide(seed):
    rng = np.random.default_rng(seed)
    table = rng.poisson(30, (6, 7))
    frame = frame_of(6, 7)
    margins = [Exact(Margins(frame, [d]), Margins(frame, [d]).apply(table)) for d in frame.dims]
    for parts, far in ((margins, 4 * table.size), (margins[:1], table.size)):
        point = Fiber.of(parts).find_point(table + rng.normal(0, 0.4, table.shape))
        assert np.abs(point - table).sum() <= far


def test_first_points_of_sparse_and_of_huge_two_way_tables():
    rng = np.random.default_rng(1)
    for table in (rng.poisson(0.05, (40, 30)), rng.integers(0, 2**47, (8, 9)), np.eye(20, dtype=np.int64) * 10**12):
        frame = frame_of(*table.shape)
        fiber = Fiber.of([Exact(Margins(frame, [d]), Margins(frame, [d]).apply(table)) for d in frame.dims])
        for guide in (None, table.astype(float), np.zeros(table.shape), -table.astype(float)):
            assert fiber.contains(fiber.find_point(guide))


def test_equalities_of_identity_determine_everything():
    frame = frame_of(2, 2)
    fiber = Fiber.of([Exact(Identity(frame), [[1, 2], [3, 4]])])
    assert fiber.determined().all()
    np.testing.assert_array_equal(fiber.find_point(np.zeros((2, 2))), [[1, 2], [3, 4]])


def test_bounded_sums_can_keep_tables_apart_and_computed_moves_join_them():
    frame = frame_of(3, 3)
    diagonal = LinearQuery(frame, np.eye(3, dtype=np.int64).reshape(1, -1), ["diagonal"])
    case = with_margins([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "a", "b", more=(Exact(diagonal, [0], "<="),))
    first, second = enumerate_fiber(case.fiber)  # two 3-cycles: no 2x2 move leads from one to the other
    assert np.abs(first - second).sum() == 6
    assert case.fiber.moves.proved
    assert "a Markov basis was computed" in case.fiber.claim
    assert not case.fiber.open_moves.proved  # nothing is shown where further limits are not known


def limited_sums(rows: int, columns: int):
    """A two-way table within some of every noisy sum and cell."""
    rng = np.random.default_rng(5)
    frame = Identity({"row": range(rows), "column": range(columns)}).frame
    table = rng.poisson(3.0, (rows, columns))
    below, above = [], []
    for query, width in ((Identity(frame), 4), (Margins(frame, ["row"]), 2), (Margins(frame, ["column"]), 2)):
        centre = query.apply(table) + rng.integers(-width, width + 1, query.shape)
        below.append((query, np.maximum(centre - width, 0)))
        above.append((query, centre + width))
    guide = table.reshape(-1) + rng.integers(-6, 7, table.size)
    return Fiber(frame, (), tuple(below), tuple(above)), guide.astype(float)


def test_a_large_table_is_as_near_as_the_program_with_integers_finds(monkeypatch):
    fiber, guide = limited_sums(12, 9)
    far = fibers.find_point(fiber.system, fiber.invariants, guide)
    with monkeypatch.context() as patch:
        patch.setattr(fibers, "_LARGE", 0)
        patch.setattr(sp, "eye_array", None)  # the program with integers would need it
        near = fibers.find_point(fiber.system, fiber.invariants, guide)
    assert fiber.contains(near.reshape(12, 9))
    assert np.abs(near - np.clip(np.rint(guide), 0, None)).sum() <= np.abs(far - np.clip(np.rint(guide), 0, None)).sum()


def test_a_solution_with_halves_is_not_taken(monkeypatch):
    frame = Identity({"cell": ["a", "b", "c"]}).frame
    pairs = LinearQuery(frame, np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]]), ["ab", "bc", "ac"])
    fiber = Fiber(frame, (), (), ((pairs, np.ones(3, dtype=np.int64)),))
    monkeypatch.setattr(fibers, "_LARGE", 0)
    point = fibers.find_point(fiber.system, fiber.invariants, np.ones(3))
    assert sorted(point) == [0, 0, 1]


def test_a_contradiction_is_named_all_the_same(monkeypatch):
    frame = Identity({"cell": ["a", "b"], "by": ["u", "v"]}).frame
    sums = Margins(frame, ["cell"])
    other = Margins(frame, ["by"])
    fiber = Fiber(frame, (), ((sums, np.array([3, 3])),), ((other, np.array([2, 2])),))
    monkeypatch.setattr(fibers, "_LARGE", 0)
    with pytest.raises(ValueError, match=r"no nonnegative integer table.*cell=a >= 3"):
        fibers.find_point(fiber.system, fiber.invariants, np.ones(4))


def test_a_search_that_ends_without_an_answer_says_so(monkeypatch):
    """At the fiber, and at a release, which looks for a table; the command line has a test of its own."""
    frame = Identity({"a": ["p", "q", "r"], "b": ["s", "t", "u"], "c": ["v", "w", "x"]}).frame
    exact = [Exact(Margins(frame, [one, other]), np.full((3, 3), 3)) for one, other in ("ab", "bc", "ac")]
    monkeypatch.setattr(fibers, "LONGEST", 0.0)
    with pytest.raises(
        TimeoutError, match=r"^no table was found in 0 s .* nor was shown that there is none; fewer exact or bounded"
    ):
        Fiber.of(exact, frame).find_point()
    measured = [Measured(Identity(frame), np.ones((3, 3, 3)), DiscreteGaussian(2.0))]
    with pytest.raises(TimeoutError, match=r"^no table was found in 0 s"):
        Release.from_published(frame, measured, exact)
