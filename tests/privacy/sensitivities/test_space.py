"""Sensitivity spaces against all pairs of databases, against closed descriptions, and against the paper's numbers."""

import math
from itertools import combinations, permutations, product

import numpy as np
import pytest
import scipy.sparse as sp

from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import enumerate_fiber
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact
from bayesdp.privacy import SensitivitySpace, inclusions
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from tests.lattices.oracles import labels
from tests.privacy.sensitivities.databases import changes_by_pairs, fiber_of
from tests.refusals import refused

CUBE = labels(3, 3, 3)
NORMS = {"l1": 1, "l2": 2, "linf": np.inf}


def margins(rows, columns):
    return Margins(labels(rows, columns), ["a"], ["b"])


def sizes(space):
    return [space.delta(norm) for norm in NORMS]


def both_signs(differences):
    own = {tuple(row) for row in differences.tolist()}
    assert len(own) == len(differences)
    other = {tuple(-v for v in row) for row in own}
    assert not own & other
    return own | other


def two_by_two_moves(rows, columns):
    left, right = ([u - v for u, v in permutations(np.eye(n, dtype=int), 2)] for n in (rows, columns))
    return {tuple(np.outer(u, v).ravel().tolist()) for u, v in product(left, right)}


def three_cycles(rows, columns):
    left, right = np.eye(rows, dtype=int), np.eye(columns, dtype=int)
    found = set()
    for i, j in product(combinations(left, 3), permutations(right, 3)):
        steps = np.array(j) - np.roll(j, 1, axis=0)
        found |= {tuple((sign * np.transpose(i) @ steps).ravel().tolist()) for sign in (1, -1)}
    return found


FRAME = {"a": [0, 1, 2], "b": [0, 1], "side": ("a", ["l", "l", "m"])}


@pytest.mark.parametrize("query", [Identity(FRAME), Margins(FRAME, ["a"], ["b"])])
def test_differences_of_groups_by_all_pairs_of_tables(query):
    nothing = LinearQuery(FRAME, np.zeros((1, 6), dtype=int), ["nothing"])
    for records, space in ((1, SensitivitySpace.dp(query)), (2, SensitivitySpace.group(query, 2))):
        assert sorted(map(list, both_signs(space.differences))) == changes_by_pairs(query, nothing, records).tolist()
    group = SensitivitySpace.group(query, 2)
    assert group.delta("l2") == pytest.approx(np.linalg.norm(group.differences, axis=1).max())


def test_records_that_come_or_go():
    part = LinearQuery(labels(3), [[1, 1, 0]], ["two"])
    for a in (1, 2, 3):
        space = SensitivitySpace.semi(part, a, neighbours="add-remove")
        near = [z for z in product(range(-a, a + 1), repeat=3) if 0 < sum(map(abs, z)) <= a]
        assert both_signs(space.differences) == {z for z in near if z[0] + z[1] == 0}
    # Substitution keeps the number of records, which these invariants do not.
    assert both_signs(SensitivitySpace.semi(part, 2).differences) == {(1, -1, 0), (-1, 1, 0), (2, -2, 0), (-2, 2, 0)}


@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (5, 4)])
def test_two_way_margins_have_moves_and_cycles(shape):
    moves, cycles = two_by_two_moves(*shape), three_cycles(*shape)
    for a, expected in ((1, set()), (2, moves), (3, moves | cycles)):
        assert both_signs(SensitivitySpace.semi(margins(*shape), a).differences) == expected


def test_sensitivities_of_two_way_margins():
    for rows, columns in ((3, 3), (4, 6), (300, 200)):
        assert sizes(SensitivitySpace.semi(margins(rows, columns), 2)) == [4, 2, 1]
        assert sizes(SensitivitySpace.semi(margins(rows, columns), 3)) == [6, math.sqrt(6), 1]
        assert SensitivitySpace.semi(margins(rows, columns), 3).rank == (rows - 1) * (columns - 1)
    assert sizes(SensitivitySpace.semi(margins(2, 9), 3)) == [4, 2, 1]
    for shape, a in (((3, 3), 1), ((1, 3), 3)):
        assert sizes(SensitivitySpace.semi(margins(*shape), a)) == [0, 0, 0]
    # From the list, where there is no formula: twice a move.
    assert sizes(SensitivitySpace.semi(margins(3, 3), 4)) == [8, 4, 2]


def test_the_hull_is_the_unit_ball_of_the_differences():
    printed = SensitivitySpace.semi(margins(3, 3), 3, convention="paper")
    assert both_signs(printed.differences) == two_by_two_moves(3, 3)
    assert both_signs(printed.corrected.differences) == two_by_two_moves(3, 3) | three_cycles(3, 3)
    assert (sizes(printed), sizes(printed.corrected)) == ([4, 2, 1], [6, math.sqrt(6), 1])
    # A 3-cycle is outside of the hull of the moves: sums of edges of a cycle say how far.
    cycle = np.array([[1, -1, 0, 0, 1, -1, -1, 0, 1]], dtype=float)
    assert printed.hull.gauge(printed.coordinates(cycle))[0] > 1.4
    own = printed.corrected
    assert own.hull.gauge(own.coordinates(cycle))[0] == pytest.approx(1)
    # The hull is the unit ball of the differences.
    assert own.hull.dimension == 4
    assert own.hull.gauge(own.coordinates(own.differences)).max() == pytest.approx(1)


def test_totals_hold_multiple_substitutions():
    totals = Totals({"county": list("pqrst"), "state": ("county", list("xxyyy"))}, "state")
    space = SensitivitySpace.semi(totals, 2)
    assert sizes(space) == [4, pytest.approx(2 * math.sqrt(2)), 2]
    assert {(2, -2, 0, 0, 0), (1, -1, 1, 0, -1)} <= both_signs(space.differences)
    wide = Totals({"county": list(range(5000)), "state": ("county", [i // 60 for i in range(5000)])}, "state")
    assert SensitivitySpace.semi(wide, 3).delta("l2") == pytest.approx(3 * math.sqrt(2))
    lone = Totals({"county": list("pq"), "state": ("county", list("xy"))}, "state")
    assert SensitivitySpace.semi(lone, 2).delta() == 0.0
    assert not len(SensitivitySpace.semi(lone, 2).differences)


def test_three_way_tables():
    pairs = Margins(CUBE, ["a", "b"], ["a", "c"], ["b", "c"])
    # 27 moves of norm 8 and 54 of norm 12, as the Markov basis.
    *fewer, space = (SensitivitySpace.semi(pairs, a) for a in (3, 4, 5, 6))
    assert [len(own.differences) for own in (*fewer, space)] == [0, 27, 27, 81]
    assert (space.delta("l1"), space.rank) == (12, 8)
    assert np.all(Invariants(pairs).matrix @ space.differences.T == 0)


def test_differences_realised_in_a_fiber_also_within_bounds_of_cells(monkeypatch):
    frame = labels(2, 3)
    exact = [Exact(Margins(frame, ["a"]), [3, 4]), Exact(Margins(frame, ["b"]), [2, 2, 3])]
    corner = Exact(LinearQuery(frame, sp.csr_array([[1, 0, 0, 0, 0, 0]]), ["corner"]), [0], sign="<=")
    fiber = Fiber.of([*exact, corner])
    space = SensitivitySpace.semi(fiber.invariants, 2, realised_in=fiber)
    assert both_signs(space.differences) == {z for z in two_by_two_moves(2, 3) if z[0] == 0}
    rng = np.random.default_rng(2)
    cases = [((3, 3), (["a"], ["b"]))] * 4
    cases += [((2, 2, 2), (["a"], ["b"], ["c"]))] * 4 + [((2, 2, 3), (["a", "b"], ["b", "c"]))] * 5
    fewer = 0
    for shape, kept in cases:
        counts = rng.integers(0, 3, size=shape) * (rng.random(shape) < 0.5)
        fiber = fiber_of(counts, *(Margins(labels(*shape), own) for own in kept))
        tables = enumerate_fiber(fiber).reshape(-1, math.prod(shape))
        space = SensitivitySpace.semi(fiber.invariants, 3, realised_in=fiber)
        change = (tables[:, None] - tables[None]).reshape(-1, math.prod(shape))
        size = np.abs(change).sum(axis=1)
        assert both_signs(space.differences) == {tuple(z) for z in change[(size > 0) & (size <= 6)].tolist()}
        fewer += len(space.differences) < len(SensitivitySpace.semi(fiber.invariants, 3).differences)
    assert fewer > 6
    monkeypatch.setattr("bayesdp.privacy.sensitivities.space._WORK", 1000)
    with pytest.raises(NotImplementedError, match="Leave out realised_in"):
        _ = SensitivitySpace.semi(PAIRS, 2, realised_in=FULL).differences


def test_the_span_is_orthonormal_and_holds_all_differences():
    weighted = LinearQuery(labels(5), [[1] * 5, [0, 1, 2, 3, 9]], ["n", "w"])
    spaces = [
        SensitivitySpace.semi(margins(3, 4), 3),
        SensitivitySpace.semi(Margins(CUBE, ["a", "b"], ["b", "c"]), 2),
        SensitivitySpace.semi(weighted, 2),
        SensitivitySpace.dp(margins(2, 3)),
    ]
    for space in spaces:
        span, flat = space.span, space.differences.astype(float)
        assert space.rank == np.linalg.matrix_rank(flat) == len(span)
        np.testing.assert_allclose(span @ span.T, np.eye(space.rank), atol=1e-12)
        np.testing.assert_allclose(space.coordinates(flat) @ span, flat, atol=1e-12)
    # The last cell of the weighted total moves with nobody: the span is less than the null space.
    assert spaces[2].rank < spaces[2].noise_space.dimension


def test_inclusions_of_proposition_24():
    pairs, table = Margins(labels(2, 2, 2), ["a", "b"], ["b", "c"]), labels(3, 2)
    for space in [
        SensitivitySpace.semi(margins(2, 2), 3),
        SensitivitySpace.semi(margins(2, 3), 2),
        SensitivitySpace.semi(pairs, 2, Margins(pairs.frame, ["a", "c"])),
        SensitivitySpace.semi(Totals(table), 2, Margins(table, ["a"])),
        SensitivitySpace.semi(Totals(table), 2, neighbours="add-remove"),
    ]:
        found = inclusions(space)
        assert found.hold
        assert found.group_gauge == pytest.approx(space.adjacency)
        assert found.semi_gauge <= found.group_gauge + 1e-9
        for norm, power in NORMS.items():
            semi, group, dp = found.sensitivities[norm]
            one = SensitivitySpace.dp(space.query, space.neighbours).differences
            assert dp == pytest.approx(space.adjacency * np.linalg.norm(one, power, axis=1).max())
            assert semi <= group
    # A table with both margins: two substitutions in the place of three.
    assert inclusions(SensitivitySpace.semi(margins(2, 2), 3)).semi_gauge == pytest.approx(2)


PAIRS = Margins(CUBE, ["a", "b"], ["b", "c"])
FULL = fiber_of(np.random.default_rng(3).integers(3, 9, size=(3, 3, 3)), PAIRS)
test_bad_arguments_are_named = refused(
    (lambda: SensitivitySpace.semi(margins(2, 2), 0), "adjacency must be an integer greater than 0"),
    (lambda: SensitivitySpace.semi(margins(2, 2), 2, Identity(CUBE)), "table of the invariants"),
    (lambda: SensitivitySpace.semi(margins(3, 3), 2, convention="paper"), "Proposition 32"),
    (lambda: SensitivitySpace.semi(margins(3, 3), 1).hull, "no differences"),
    (lambda: SensitivitySpace.semi(margins(2, 2), 2).delta("l3"), "norm must be one of 'l1', 'l2', 'linf'"),
    (lambda: SensitivitySpace.semi(margins(60, 60), 3).differences, "too many to list"),
    (lambda: SensitivitySpace.semi(Totals({"x": list(range(200))}), 2).differences, "too many to list"),
    (lambda: SensitivitySpace.semi(Margins(CUBE, ["a"]), 2, realised_in=FULL), "fiber of these invariants"),
    (lambda: inclusions(3), "semi must be a SensitivitySpace"),
    (lambda: inclusions(SensitivitySpace.semi(margins(2, 2), 2, Totals(labels(2, 2)))), "same answers on all databases"),
)  # fmt: skip
