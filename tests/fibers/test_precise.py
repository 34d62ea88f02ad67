"""Which noisy answers get directions that keep them."""

from dataclasses import replace

import numpy as np
import pytest

from bayesdp import Exact, Frame
from bayesdp.fibers import Chain, Fiber, NoiseTerm, Target
from bayesdp.fibers import target as rule
from bayesdp.fibers.moves.moves import CYCLE, LISTED, PRODUCT, SUMS, UNPROVED
from bayesdp.fibers.target import precise_sets, spread_of
from bayesdp.queries import Identity, LinearQuery, Margins, Query, Totals
from tests.fibers.cases import frame_of, zeros_at

FRAME = frame_of(4, 5)
CELLS, ROWS, COLUMNS = Identity(FRAME), Margins(FRAME, ["a"]), Margins(FRAME, ["b"])


def _term(query, variance, kind="gaussian", measured=None):
    rows = query.matrix.shape[0]
    seen = np.ones(rows, dtype=np.bool_) if measured is None else measured
    if kind == "gaussian":
        return NoiseTerm(query, np.full(rows, 3.0), kind, np.sqrt(np.broadcast_to(variance, (rows,))), seen)
    rate = np.sqrt((2.0 if kind == "l1" else seen.sum() + 1.0) / variance)
    return NoiseTerm(query, np.full(rows, 3.0), kind, np.array(rate), seen)


def _kept(*terms, spread=np.inf, frame=FRAME):
    """The ranks of what the sets keep."""
    return [own.invariants.rank for own in precise_sets(Fiber.of((), frame), terms, spread)]


def test_four_times_the_variance_makes_a_level_and_variances_are_those_of_draws():
    """The l1 and the l2 law of five answers, drawn; four standard errors."""
    for kind in ("gaussian", "l1", "l2"):
        for variance, kept in ((4.01, [4]), (3.99, [])):  # the level holds the cells: no direction is left
            assert _kept(_term(CELLS, variance, kind), _term(ROWS, 1.0, kind)) == kept
    rng = np.random.default_rng(1)
    n, d, rate = 200_000, 5, 0.7
    length, direction = rng.gamma(d, 1.0 / rate, n), rng.normal(size=(n, d))
    ball = length * direction[:, 0] / np.linalg.norm(direction, axis=1)
    for kind, noise in (("l1", rng.laplace(scale=1.0 / rate, size=n)), ("l2", ball)):
        term = NoiseTerm(COLUMNS, np.zeros(5), kind, np.array(rate), np.ones(5, dtype=np.bool_))
        (variance,) = rule._variances([term]).values()
        assert np.all(np.abs(variance - np.mean(noise**2)) < 4.0 * np.std(noise**2) / np.sqrt(n))


def test_levels_of_nested_of_repeated_of_masked_answers_and_of_precise_cells():
    total = Totals(FRAME)
    assert _kept(_term(CELLS, 1e4), _term(ROWS, 100.0), _term(COLUMNS, 10.0), _term(total, 1.0)) == [1, 5, 8]
    # of the same precision: one level; and a total that the margins of its level say is no set more
    assert _kept(_term(CELLS, 1e4), _term(ROWS, 100.0), _term(COLUMNS, 101.0), _term(total, 1.0)) == [1, 8]
    assert _kept(_term(CELLS, 1e4), _term(ROWS, 1.0), _term(total, 5.0)) == [4]
    assert _kept(_term(CELLS, 6.0), _term(ROWS, 2.0)) == []
    assert _kept(_term(CELLS, 6.0), _term(ROWS, 2.0), _term(Margins(FRAME, ["a"]), 2.0)) == [4]
    own = np.ones((1, 20)) / np.sqrt(20.0)
    real = NoiseTerm(CELLS, np.zeros(1), "l1", np.array(30.0), np.ones(1, dtype=np.bool_), own)
    assert _kept(_term(CELLS, 1e3), real) == []
    for unseen, kept in (([0], [4]), ([0, 1, 2], [1]), ([0, 1, 2, 3], [])):
        measured = ~np.isin(np.arange(4), unseen)
        assert _kept(_term(CELLS, 1e3), _term(ROWS, 1.0, measured=measured)) == kept
    variance = np.where(np.arange(20) < 7, 1.0, 1000.0)
    assert _kept(_term(CELLS, variance)) == []
    given = Fiber.of((), FRAME), (_term(CELLS, variance), _term(ROWS, 1.0))
    assert [(own.invariants.rank, int(own.fixed.sum())) for own in precise_sets(*given)] == [(4, 7)]
    moves = Target(*given, "flat").moves
    kept = moves.meta[1]  # pairs within a row, of the cells that are not precise
    assert sorted(moves.pool[kept[3] : kept[3] + kept[2]].tolist()) == list(range(7, 20))


def test_the_spread_of_a_cell_is_the_last_level_and_what_it_is_for_each_prior():
    margins = (_term(ROWS, 9.0), _term(COLUMNS, 9.0))
    assert [_kept(*margins, spread=spread) for spread in (np.inf, 36.0, 35.0)] == [[8], [8], []]
    ones = np.ones(2)
    assert spread_of("poisson", np.log([1.0, 5.0]), ones, ()) == pytest.approx(3.0)
    assert spread_of("negbin", np.log(0.8) * ones, 0.5 * ones, ()) == pytest.approx(0.5 * 0.8 / 0.04)
    assert spread_of("binomial", np.log(3.0) * ones, 8.0 * ones, ()) == pytest.approx(8 * 0.75 * 0.25)
    assert spread_of("flat", np.log(0.5) * ones, ones, ()) == pytest.approx(2.0)
    assert spread_of("flat", 0.0 * ones, ones, ()) == np.inf
    # what the answers show counts where the prior's parameters say less: here 3 in a row of 5 cells
    assert spread_of("poisson", np.log([0.1, 0.1]), ones, [_term(ROWS, 1.0)]) == pytest.approx(0.6)
    assert spread_of("negbin", 0.0 * ones, 0.1 * ones, [_term(ROWS, 1.0)]) == pytest.approx(0.6 + 3.6)
    assert spread_of("poisson", np.array([-np.inf, np.log(2.0)]), ones, ()) == pytest.approx(1.0)


def test_without_precise_answers_the_directions_are_those_of_the_fiber_and_so_are_the_draws():
    fiber = Fiber.of([Exact(Totals(FRAME), 60)], FRAME)
    for terms in ((), (_term(CELLS, 1.0), _term(ROWS, 900.0)), (_term(CELLS, 9.0), _term(ROWS, 9.0))):
        target = Target(fiber, terms, "poisson")
        assert target.moves is fiber.moves
    draws = []
    for own in (target, replace(target, spread=0.0)):
        chain = Chain(own, np.random.default_rng(3))
        chain.load(fiber.find_point().reshape(-1))
        draws.append([chain.counts.copy() for _ in range(50) if chain.sweep(20) >= 0])
    assert np.array_equal(*draws)


def test_exact_answers_zeros_and_limits_keep_what_is_known_of_connectivity():
    fiber = Fiber.of([Exact(COLUMNS, np.full(5, 9))], FRAME)
    terms = (_term(CELLS, 1e3), _term(ROWS, 1.0))
    moves = Target(fiber, terms, "poisson").moves
    assert (moves.proved, moves.claim) == (fiber.moves.proved, fiber.moves.claim)
    assert [own.invariants.rank for own in precise_sets(fiber, terms)] == [8]
    assert moves.meta[:, :2].tolist() == [[PRODUCT, 1], [PRODUCT, 2]]
    terms = (_term(CELLS, 1e3), _term(ROWS, 1.0), _term(COLUMNS, 1.0))
    zeros = Fiber.of([Exact(Totals(FRAME), 60), zeros_at(FRAME, [0, 6, 12])], FRAME)
    moves = Target(zeros, terms, "poisson").moves
    assert (moves.proved, moves.claim) == (zeros.moves.proved, zeros.moves.claim)
    assert moves.meta[:, 0].tolist() == [PRODUCT, PRODUCT, CYCLE]
    limits = Fiber.of([Exact(Totals(FRAME), 60), Exact(ROWS, np.full(4, 20), "<=")], FRAME)
    moves = Target(limits, terms, "poisson").moves
    assert (moves.proved, moves.claim) == (limits.moves.proved, limits.moves.claim) != (True, zeros.moves.claim)
    assert moves.proved  # by four kinds of cells
    moves = Target(limits, terms, "poisson", open=True).moves
    assert (moves.proved, moves.claim) == (False, UNPROVED)
    assert moves.meta[-1, 0] == SUMS  # random sums stay, of directions of all families
    assert moves.cumulative[-1] - moves.cumulative[-2] == pytest.approx(0.08 / 1.08)
    opened = Target(zeros, terms, "poisson", open=True)
    assert opened.moves.meta[-1, 0] == SUMS
    assert not opened.moves.proved


def test_large_tables_take_structure_only(monkeypatch):
    frame = frame_of(5, 5, 5)
    query = Query(frame, tuple(p for d in ("ab", "bc", "ac") for p in Margins(frame, list(d)).parts))
    exact = [Exact(Totals(frame), 300), zeros_at(frame, [3])]
    moves = Target(Fiber.of(exact, frame), (_term(Identity(frame), 1e3), _term(query, 1.0)), "poisson").moves
    assert LISTED not in moves.meta[:, 0]
    # What keeps all three margins, and what keeps one or two of them.
    assert moves.meta[:2, :2].tolist() == [[PRODUCT, 1], [PRODUCT, 3]]
    assert sorted(moves.meta[2:, 1].tolist()) == 3 * [1] + 6 * [2]
    frame = Frame.of({"a": range(40), "b": range(5)})
    general = LinearQuery(frame, np.arange(200).reshape(1, 200) % 3, ["weighted"])
    terms = (_term(Identity(frame), 1e3), _term(Margins(frame, ["a"]), 1.0), _term(general, 1.0))
    assert _kept(*terms, frame=frame) == [40]
    assert _kept(terms[0], terms[2], frame=frame) == []
    # not all rows of a margin: disjoint totals still, which need no list
    some = _term(Margins(frame, ["a"]), np.where(np.arange(40) < 9, 1.0, 1e3))
    assert _kept(terms[0], some, frame=frame) == [9]
    monkeypatch.setattr(rule, "LARGEST", 199)
    assert _kept(*terms, frame=frame) == []
