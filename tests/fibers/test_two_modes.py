"""Precise sums beside noisy cells, variances 1 to 1000: chains leave a mode, and the law stays what it was.

How many moves a chain takes from one mode to another is worked out from the transition matrix of a move (`transitions`), for
the directions of the exact answers alone and for all: an oracle without chance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bayesdp.fibers import Chain
from bayesdp.moves.direction import draw_direction
from bayesdp.moves.moves import PRESERVING_SHARE
from tests.comparison.chi_square import chi_square_pvalue
from tests.fibers.harness import LEVEL
from tests.fibers.precise_cases import CASES, MORE, Precise
from tests.fibers.transitions import directions, moves_to_reach, relaxation, transition_matrix

STARTS = 4_000


def _modes(case):
    """Tables near the likeliest one, and tables that have at least three quarters of the counts elsewhere."""
    tables, probability = case.posterior
    apart = np.abs(tables - tables[probability.argmax()]).sum(axis=1)
    return apart <= 2, apart >= 0.75 * tables[probability.argmax()].sum()


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("2x3, rows", 100.0, 20.0),
        ("2x3, both margins", 70_000.0, 35.0),
        ("2x2, both margins, no total", 200_000.0, 20.0),
        ("3x3, both margins", 600.0, 45.0),
        ("3x3, both margins, Poisson", 150.0, 12.0),
        ("2x2x2, one two-way margin", 35.0, 20.0),
        ("2x2x2, two two-way margins", 15_000.0, 120.0),
        ("2x2x2, three two-way margins", 100_000.0, 350.0),
        ("general rows", 100.0, 40.0),
    ],
)
def test_moves_until_the_other_mode(name, before, now):
    case = CASES[name]
    tables, probability = case.posterior
    start, goal = _modes(case)
    assert probability[goal].sum() > 0.005  # worth finding
    old, new = (
        moves_to_reach(transition_matrix(target.moves, tables, probability), probability, start, goal)
        for target in (case.without, case.target)
    )
    assert old > before
    assert new < now


def test_relaxation_of_the_whole_posterior():
    case = Precise(((3, 0, 0), (0, 3, 0)), ("a", "b"))
    tables, probability = case.posterior
    old, new = (
        relaxation(transition_matrix(target.moves, tables, probability), probability)
        for target in (case.without, case.target)
    )
    assert old > 2_000.0
    assert new < 30.0


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_one_sweep_from_exact_draws(name):
    """The kernel itself, with all its families: zeros, limits, cycles and random sums too. False alarms: `LEVEL` each."""
    case = {**CASES, **MORE}[name]
    tables, probability = case.posterior
    assert len(case.target.moves.meta) > len(case.without.moves.meta)
    number = {table.tobytes(): i for i, table in enumerate(tables)}
    chain = Chain(case.target, np.random.default_rng(5))
    chain.set_prior(case.theta, case.shape)
    after = np.zeros(len(tables))
    for start in np.random.default_rng(6).choice(len(tables), size=STARTS, p=probability):
        chain.load(tables[start])
        chain.sweep(case.target.fiber.invariants.dimension)
        after[number.get(chain.counts.tobytes(), start)] += 1  # beyond the window of an infinite fiber: next to no mass
    assert chi_square_pvalue(after, STARTS * probability) > LEVEL


@pytest.mark.parametrize("name", ["2x3, both margins", "2x2, both margins, no total", "2x2x2, three two-way margins"])
def test_a_chain_in_one_mode_finds_the_other(name):
    """Within 300 sweeps, where one with the directions of the exact answers alone does not."""
    case = CASES[name]
    tables, probability = case.posterior
    goal = {table.tobytes() for table in tables[_modes(case)[1]]}
    found = []
    for target in (case.without, case.target):
        chain = Chain(target, np.random.default_rng(8))
        chain.set_prior(case.theta, case.shape)
        chain.load(tables[probability.argmax()])
        drawn = [chain.counts.copy() for _ in range(300) if chain.sweep(target.fiber.invariants.dimension) >= 0]
        found.append(any(table.tobytes() in goal for table in drawn))
    assert found == [False, True]


@pytest.mark.parametrize("name", ["2x3, both margins", "general rows", "2x2x2, two two-way margins"])
def test_the_kernel_draws_the_directions_of_the_matrix(name):
    """That the oracle's law of directions is the kernel's. False alarms: `LEVEL` each."""
    case = CASES[name]
    moves, cells = case.target.moves, case.counts.size
    law = directions(moves, cells)
    state = case.target.new_state()
    state.generator[:] = np.arange(1, 5)
    where, entries, dense, touched = np.zeros((4, 256), dtype=np.int64)
    drawn = dict.fromkeys(law, 0)
    for _ in range(8_000):
        count = draw_direction(
            moves.meta, moves.cumulative, moves.pool, state.generator, where, entries, dense, touched
        )
        vector = np.zeros(cells, dtype=np.int64)
        vector[where[:count]] = entries[:count]
        drawn[tuple((vector * np.sign(vector[np.flatnonzero(vector)[0]])).tolist())] += 1
    assert chi_square_pvalue(np.array(list(drawn.values())), 8_000 * np.array(list(law.values()))) > LEVEL


@pytest.mark.parametrize("name", [name for name in CASES if "one two-way" not in name])
def test_the_share_of_directions_that_keep_the_precise_answers(name):
    case = CASES[name]
    precise = [term.matrix.toarray() for term in case.target.terms[1:]]
    matrix = np.concatenate([*precise, case.target.fiber.invariants.matrix.toarray()])
    law = directions(case.target.moves, case.counts.size)
    without = directions(case.without.moves, case.counts.size)
    assert sum(law.values()) == pytest.approx(1.0)
    # What the exact answers alone keep has kept its proportions, at the share that is left to it.
    kept = sum(
        p - (1.0 - PRESERVING_SHARE) * without.get(u, 0.0) for u, p in law.items() if not np.any(matrix @ np.array(u))
    )
    assert kept == pytest.approx(PRESERVING_SHARE if len(case.target.moves.meta) == 2 else kept)
    assert all(p >= (1.0 - PRESERVING_SHARE) * without.get(u, 0.0) - 1e-12 for u, p in law.items())
    assert set(without) <= set(law)


def test_scales_that_change_later_change_no_direction():
    case = CASES["2x3, both margins"]
    chain = Chain(case.target, np.random.default_rng(1))
    before = chain.state.meta.copy(), chain.state.cumulative.copy(), chain.state.pool.copy()
    chain.set_scales([np.full(term.values.shape, 1.0) for term in case.target.terms])
    after = chain.state.meta, chain.state.cumulative, chain.state.pool
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    equal = replace(case.target, terms=tuple(replace(t, scale=np.ones(t.values.shape)) for t in case.target.terms))
    assert len(equal.moves.meta) > len(case.target.moves.meta)  # a target with these scales keeps one margin as well
