"""Precise sums beside noisy cells, variances 1 to 1000: chains leave a mode, and the law stays what it was.

How many moves a chain takes from one mode to another is worked out from the transition matrix of a move: an oracle without chance. The
kernel draws a direction, then a table of its line by its exact conditional law; both are written here from what they are.
"""

from collections import defaultdict
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from bayesdp.fibers import Chain
from bayesdp.fibers.moves.direction import draw_direction
from bayesdp.fibers.moves.moves import LISTED, PRESERVING_SHARE, PRODUCT
from tests.comparison.chi_square import chi_square_pvalue
from tests.fibers.harness import LEVEL
from tests.fibers.precise_cases import CASES, MORE

STARTS = 2_500


def directions(moves, cells):
    """Probability of each direction up to sign; only of families without cycles and random sums."""
    found = defaultdict(float)
    for row, share in zip(moves.meta, np.diff(moves.cumulative, prepend=0.0), strict=True):
        kind, factors, *numbers = (int(n) for n in row)
        for vector, probability in {PRODUCT: _products, LISTED: _lists}[kind](moves.pool, factors, numbers, cells):
            first = vector[np.flatnonzero(vector)[0]]
            found[tuple((vector * np.sign(first)).tolist())] += share * probability
    return dict(found)


def _products(pool, factors, numbers, cells):
    choices = []
    for i in range(factors):
        size, offsets, members, bounds = numbers[4 * i : 4 * i + 4]
        own = []
        for place in range(size):
            group = pool[members + place]
            start, end = pool[bounds + group], pool[bounds + group + 1]
            others = [other for other in range(start, end) if other != place]
            own += [(pool[offsets + place], pool[offsets + other], 1.0 / (size * len(others))) for other in others]
        choices.append(own)
    for pairs in product(*choices):
        vector = np.zeros(cells, dtype=np.int64)
        for signs in product((0, 1), repeat=factors):
            vector[sum(int(pair[sign]) for pair, sign in zip(pairs, signs, strict=True))] += (-1) ** sum(signs)
        yield vector, np.prod([pair[2] for pair in pairs])


def _lists(pool, factors, numbers, cells):
    count, starts, where, entries = numbers[:4]
    for i in range(count):
        vector = np.zeros(cells, dtype=np.int64)
        for at in range(pool[starts + i], pool[starts + i + 1]):
            vector[pool[where + at]] += pool[entries + at]
        yield vector, 1.0 / count


def transition_matrix(moves, tables, probability):
    """Of one move, between the tables of an enumeration."""
    n = len(tables)
    total = sp.csr_array((n, n))
    for direction, share in directions(moves, tables.shape[1]).items():
        u = np.array(direction)
        cell = int(np.flatnonzero(u)[0])
        bottom = tables - (tables[:, cell] // u[cell])[:, None] * u
        line = np.unique(bottom, axis=0, return_inverse=True)[1].reshape(-1)
        on = sp.csr_array((np.ones(n), (np.arange(n), line)))
        mass = np.bincount(line, weights=probability)
        total = total + share * (on @ sp.diags_array(1.0 / mass) @ on.T @ sp.diags_array(probability))
    return sp.csr_array(total)


def moves_to_reach(matrix, probability, start, goal):
    """Expected number of moves from the posterior within `start` until a table of `goal`."""
    others = np.flatnonzero(~goal)
    inner = sp.csc_array(sp.eye_array(len(others)) - matrix[others][:, others])
    times = np.zeros(len(probability))
    times[others] = spl.spsolve(inner, np.ones(len(others)))
    return times[start] @ probability[start] / probability[start].sum()


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
def test_moves_until_the_other_mode_and_the_share_of_directions_that_keep_the_precise_answers(name, before, now):
    """From tables near the likeliest one to tables that have at least three quarters of the counts elsewhere."""
    case = CASES[name]
    tables, probability = case.posterior
    likeliest = tables[probability.argmax()]
    apart = np.abs(tables - likeliest).sum(axis=1)
    start, goal = apart <= 2, apart >= 0.75 * likeliest.sum()
    assert probability[goal].sum() > 0.005  # worth finding
    matrices = [transition_matrix(target.moves, tables, probability) for target in (case.without, case.target)]
    old, new = (moves_to_reach(matrix, probability, start, goal) for matrix in matrices)
    assert old > before
    assert new < now
    if "one two-way" in name:
        return
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
