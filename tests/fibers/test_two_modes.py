"""Precise sums beside noisy cells, variances 1 to 1000: chains leave a mode, and the law stays what it was.

How many moves a chain takes from one mode to another is worked out from the transition matrix of a move (`transitions`), for
the directions of the exact answers alone and for all: an oracle without chance.
"""

import numpy as np
import pytest

from bayesdp.fibers import Chain
from bayesdp.moves.direction import draw_direction
from bayesdp.moves.moves import PRESERVING_SHARE
from tests.comparison.chi_square import chi_square_pvalue
from tests.fibers.harness import LEVEL
from tests.fibers.precise_cases import CASES, MORE
from tests.fibers.transitions import directions, moves_to_reach, transition_matrix

STARTS = 2_500


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
    """From tables near the likeliest one to tables that have at least three quarters of the counts elsewhere."""
    case = CASES[name]
    tables, probability = case.posterior
    likeliest = tables[probability.argmax()]
    apart = np.abs(tables - likeliest).sum(axis=1)
    start, goal = apart <= 2, apart >= 0.75 * likeliest.sum()
    assert probability[goal].sum() > 0.005  # worth finding
    old, new = (
        moves_to_reach(transition_matrix(target.moves, tables, probability), probability, start, goal)
        for target in (case.without, case.target)
    )
    assert old > before
    assert new < now


@pytest.mark.parametrize("name", [*CASES, *MORE])
def test_one_sweep_from_exact_draws(name):
    """The kernel itself, with all its families: zeros, limits, cycles and random sums too. False alarms: `LEVEL` each."""
    case = {**CASES, **MORE}[name]
    tables, probability = case.posterior
    assert len(case.target.moves.meta) > len(case.without.moves.meta)
    number = {table.tobytes(): i for i, table in enumerate(tables)}
    chain = Chain(case.target, np.random.default_rng(5))
    chain.set_prior(*case.parameters)
    after = np.zeros(len(tables))
    for start in np.random.default_rng(6).choice(len(tables), size=STARTS, p=probability):
        chain.load(tables[start])
        chain.sweep(case.target.fiber.invariants.dimension)
        after[number.get(chain.counts.tobytes(), start)] += 1  # beyond the window of an infinite fiber: next to no mass
    assert chi_square_pvalue(after, STARTS * probability) > LEVEL


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
        given = moves.meta, moves.cumulative, moves.pool, state.generator
        count = draw_direction(*given, where, entries, dense, touched)
        vector = np.zeros(cells, dtype=np.int64)
        vector[where[:count]] = entries[:count]
        drawn[tuple((vector * np.sign(vector[np.flatnonzero(vector)[0]])).tolist())] += 1
    assert chi_square_pvalue(np.array(list(drawn.values())), 8_000 * np.array(list(law.values()))) > LEVEL


@pytest.mark.parametrize("name", [name for name in CASES if "one two-way" not in name])
def test_the_share_of_directions_that_keep_the_precise_answers(name):
    case = CASES[name]
    precise = [term.matrix.toarray() for term in case.target.terms[1:]]
    matrix = np.concatenate([*precise, case.target.fiber.invariants.matrix.toarray()])
    law, without = (directions(own.moves, case.counts.size) for own in (case.target, case.without))
    assert sum(law.values()) == pytest.approx(1.0)
    assert set(without) <= set(law)
    # What the exact answers alone keep has kept its proportions, at the share that is left to it.
    more = {u: p - (1.0 - PRESERVING_SHARE) * without.get(u, 0.0) for u, p in law.items()}
    assert min(more.values()) >= -1e-12
    if len(case.target.moves.meta) == 2:
        kept = sum(own for u, own in more.items() if not np.any(matrix @ np.array(u)))
        assert kept == pytest.approx(PRESERVING_SHARE)
