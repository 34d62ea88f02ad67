"""Directions drawn by looking at which cells are not 0: the law stays, and sparse tables with precise sums are connected."""

from dataclasses import replace

import numpy as np
import pytest

from bayesdp.fibers import Chain
from bayesdp.fibers.kernel.occupied_moves import take_occupied_moves
from bayesdp.fibers.kernel.state import FAMILIES
from tests.comparison.chi_square import chi_square_pvalue
from tests.fibers.harness import LEVEL
from tests.fibers.precise_cases import CASES, MORE, Precise

THREE = ("ab", "ac", "bc")
SIX = (((1, 0, 0), (0, 1, 0), (0, 0, 1)), ((0, 1, 0), (0, 0, 1), (1, 0, 0)))
HEXAGON = Precise(SIX, THREE, zeros=(2, 3, 7, 11, 12, 16))
"""Six counts, and the only other table with these two-way margins: its layers change places, by a walk of six labels."""
TWELVE = (((1, 0, 1, 1), (1, 1, 0, 0), (0, 0, 1, 1)), ((0, 1, 0, 0), (0, 0, 1, 1), (1, 1, 0, 0)))
KNOWN = Precise(TWELVE, THREE, prior="poisson", zeros=(7, 9, 14, 15, 16, 23), tight=True)
"""As `HEXAGON`, and a 1 in six cells that the margins determine: walks may go there, and lead nowhere. In its two tables they may
do so at other steps, so that all that the chance of a walk is made of differs: what is left out changes their shares by a tenth."""

LOOKING = {
    "dense pairs": Precise(((2, 1, 0), (1, 1, 0)), ("a",), prior="poisson"),
    "dense squares": Precise((6 * (1,),) * 2, ("a", "b"), prior="poisson", tight=True),
    "dense cubes": Precise(((3 * (1,),) * 2,) * 2, ("ab", "ac", "bc"), prior="poisson", tight=True),
    "dense walks": Precise(((3 * (1,),) * 3,) * 2, ("ab", "ac", "bc"), prior="poisson", tight=True),
    "2x2x3, three two-way margins": Precise((((2, 0, 0), (0, 1, 0)), ((0, 1, 1), (1, 0, 0))), ("ab", "ac", "bc")),
    "2x3x3, a longer walk": HEXAGON,
    "the chance of a walk": KNOWN,
    "2x2x2, Poisson": replace(CASES["2x2x2, three two-way margins"], prior="poisson"),
    "2x2x2, zeros": replace(CASES["2x2x2, three two-way margins"], zeros=(1,)),
    **{own: CASES[own] for own in ("2x3, both margins", "2x2x2, three two-way margins", "2x2x2, one two-way margin")},
    **{own: MORE[own] for own in ("Laplace", "l2", "structural zeros", "limits of sums", "two levels")},
}
"""Of the dense ones a direction and its opposite are often both possible: each then has a part in the chance of the line."""


def _chain(case, target=None):
    chain = Chain(target or case.target, np.random.default_rng(5))
    chain.set_prior(*case.parameters)
    return chain


def _look(chain, moves):
    family = FAMILIES[chain.target.family]
    return take_occupied_moves(moves, family, chain.concave, chain.state, chain._occupied_moves)


@pytest.mark.parametrize("name", LOOKING)
def test_steps_from_exact_draws(name):
    """The steps alone, without those along random directions. False alarms: `LEVEL` each."""
    case, starts = LOOKING[name], {"2x2x2, zeros": 4_000, "the chance of a walk": 10_000}.get(name, 2_000)
    tables, probability = case.posterior
    number = {table.tobytes(): i for i, table in enumerate(tables)}
    chain, families = _chain(case), len(case.target.moves.looking)
    after, moved = np.zeros(len(tables)), 0
    for start in np.random.default_rng(6).choice(len(tables), size=starts, p=probability):
        chain.load(tables[start])
        moved += _look(chain, 20 * families)
        after[number.get(chain.counts.tobytes(), start)] += 1  # beyond the window of an infinite fiber: next to no mass
    assert moved > 0
    assert chi_square_pvalue(after, starts * probability) > LEVEL


def test_layers_that_a_cube_cannot_change_and_sparse_three_way_tables_move():
    """The two tables with the margins of `HEXAGON` are equally likely but for the noise of the cells; no cube joins them."""
    only = _chain(HEXAGON)
    only.load(HEXAGON.counts.reshape(-1))
    seen = set()
    for _ in range(400):
        _look(only, 1)
        seen.add(only.counts.tobytes())
    assert HEXAGON.counts[::-1].tobytes() in seen
    # 5 x 4 x 4 with three precise two-way margins: the share of steps that change the table, against random directions.
    rng = np.random.default_rng(2)
    counts = rng.negative_binomial(0.1, 0.02, (5, 4, 4))
    case = Precise(tuple(tuple(map(tuple, layer)) for layer in counts.tolist()), ("ab", "ac", "bc"))
    shares = []
    for target in (case.without, case.target):
        chain = _chain(case, target)
        chain.load(counts.reshape(-1))
        chain.sweep(2_000)
        shares.append(chain.sweep(20_000) / 20_000)
    assert shares[1] > 3 * shares[0]
    assert not case.without.moves.whole
    assert len(case.without.moves.looking) == 0


@pytest.mark.parametrize("name", ["2x2x3, three two-way margins", "2x3, both margins"])
def test_directions_keep_what_their_families_say(name):
    """Those of whole sets change no precise sum; the exact total is changed by none."""
    case = LOOKING[name]
    precise = np.concatenate([term.matrix.toarray() for term in case.target.terms[1:]])
    chain = _chain(case)
    chain.load(case.counts.reshape(-1))
    kept = changed = 0
    for _ in range(3_000):
        before = chain.counts.copy()
        _look(chain, 1)  # the first of a call is of a family that keeps the whole set
        step = chain.counts - before
        assert not np.any(precise @ step)
        kept += bool(np.any(step))
        _look(chain, 2 * len(case.target.moves.looking))
        changed += bool(np.any(precise @ (chain.counts - before)))
        assert chain.counts.sum() == case.counts.sum()
    assert kept > 5
    assert changed > 5
