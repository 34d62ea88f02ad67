"""Starts of chains: always tables of the fiber, and near the linear estimate."""

from dataclasses import replace

import numpy as np
import pytest

from bayesdp.hierarchies.kernel.sweeps import gather
from bayesdp.hierarchies.start import Stage, nearest, rounded, share_out, start_table
from bayesdp.hierarchies.structure import structure_of
from tests.hierarchies.cases import CASES, Case

CELLS, RACES, ZEROS = ("tract", "age", "race"), ("tract", "race"), ((0, 1, 1), (1, 0, 0), (2, 0, 0), (2, 0, 1))
LARGER = {
    "sparse, zeros and limits": Case((9, 2, 4), "AABBBBCCC", 30, limits=True, zeros=ZEROS),
    "exact totals at two levels": Case((6, 2, 2), "ABABAB", 50, exact=(("tract",), ("county",), ())),
    "ages of tracts, exact total": Case((6, 3, 2), "ABABAB", 80, exact=(("tract", "age"), ("tract",), ())),
    "margins that cross": Case((4, 3, 2), "ABAB", 60, exact=(("tract",), ("county", "age"))),
    "limits below, ages of counties": Case((5, 2, 2), "ABABB", 40, exact=(("county", "age"),), limits=True),
    "nothing exact": Case((5, 2, 2), "ABABB", 40, exact=()),
    "no noise at leaves": Case((5, 2, 2), "ABABB", 40, noise=((("county",), 1.0), (RACES, 1.0))),
    "every cell exact": Case((3, 2, 2), "ABA", 40, exact=(CELLS,)),
}


def _start(target, seed=1, scatter=0.0):
    structure = structure_of(target, "tract")
    found = start_table(target, structure, seed, scatter)
    assert found.shape == structure.free.shape
    return np.asarray(structure.in_frame(found), dtype=np.int64).reshape(-1)


@pytest.mark.parametrize("name", [*CASES, *LARGER])
@pytest.mark.parametrize("scatter", [0.0, 30.0])
def test_it_is_a_table_of_the_fiber(name, scatter):
    target = (CASES | LARGER)[name].target
    for seed in range(3):
        assert target.fiber.contains(_start(target, seed, scatter).reshape(target.fiber.frame.shape))
    with pytest.raises(ValueError, match="scatter"):
        _start(target, scatter=-1.0)


def test_it_is_near_the_answers_that_there_are_scatters_as_asked_and_keeps_limits():
    """Many counts in few cells, where nothing is cut off: residuals have the size of their noise."""
    noise = ((CELLS, 30.0), (RACES, 3.0), (("county",), 1.0))
    target = Case((6, 2, 2), "AABBBB", 40_000, noise=noise).target

    def squares(scatter, draws):
        tables = np.array([_start(target, seed, scatter) for seed in range(draws)])
        own = [((term.values - tables @ term.query.matrix.T.toarray()) / term.scale) ** 2 for term in target.terms]
        return np.mean(sum(each.sum(axis=1) for each in own))

    # 38 answers of 24 cells with one exact total: without scatter the residuals have 15 degrees of freedom.
    fixed = squares(0.0, 2)
    assert fixed == squares(0.0, 1) < 30.0  # exceeded with probability 1 %; the seed is fixed
    # Errors of the estimate, on 23 dimensions: the residuals' variance grows by 23 in the sum over all answers, to 4 standard errors.
    for scatter in (1.0, 2.0):  # twice the errors, four times the squares
        grown = (squares(scatter, 100) - fixed) / scatter**2
        assert abs(grown - 23.0) < 4 * np.sqrt(2 * 23 / 100) + 0.5
    # Four cells of a tract whose total is exact: 100 each, one of them not measured; without it equal shares, and not 25.
    target = Case((3, 2, 2), "AAB", 1200, exact=(("tract",),), noise=((CELLS, 2.0),)).target
    [term], measured = target.terms, np.arange(12) != 5
    own = replace(term, values=np.where(measured, term.values, 0.0), measured=measured)
    found = _start(replace(target, terms=(own,)))
    assert abs(found[5] - target.fiber.equalities[0][1].reshape(-1)[1] / 4.0) < 10.0
    # 24 cells in each precise sum: rounding each cell by itself would miss it by more than its own rounding explains.
    target = Case((6, 24, 2), "AABBBB", 6_000, exact=((),), noise=((CELLS, 30.0), (RACES, 0.05))).target
    sums = target.terms[1]
    assert np.abs(sums.values - sums.query.matrix @ _start(target)).max() <= 1.0
    top = Stage(np.zeros(1, int), np.array([5.0]), np.array([9.0]), np.array([np.inf]))
    parts = Stage(np.zeros(2, int), np.ones(2), np.zeros(2), np.array([4.0, 4.0]))
    assert nearest([top, parts]) is None
    real = np.random.default_rng(1).uniform(0.0, 4.0, 40)
    upper = np.where(np.arange(40) < 35, np.ceil(real), np.inf)
    for total in (np.rint(real.sum()) - 40.0, np.rint(real.sum()) + 40.0):
        found = rounded(real, np.zeros(40), upper, np.zeros(40, int), np.array([total]))
        assert found.sum() == total
        assert np.all((found >= 0) & (found <= upper) & (found == np.rint(found)))


@pytest.mark.parametrize("name", ["scale", "values"])
def test_scales_and_answers_that_are_not_the_targets(name):
    case, terms = CASES["exact total"], []
    for k, term in enumerate(case.target.terms):
        other = {"scale": term.scale * (k + 1.0) ** 2, "values": term.values + 3.0 * (np.arange(len(term.values)) % 2)}
        terms.append(replace(term, **{name: other[name]}))
    stated, chain = replace(case.target, terms=tuple(terms)), case.chain(1)
    before = [chain.near(seed) for seed in range(10)]
    chain.set_scales([term.scale for term in terms], [term.values for term in terms])
    found = [chain.near(seed) for seed in range(10)]
    assert np.array_equal(found, [_start(stated, seed, 1.0) for seed in range(10)])
    assert not np.array_equal(found, before)


@pytest.mark.parametrize("seed", range(8))
def test_shares_are_the_nearest_numbers(seed):
    """Against the conditions of the optimum: no unit can go from one part to another and bring both nearer than rounding explains."""
    rng = np.random.default_rng(seed)
    parent = np.sort(rng.integers(0, 5, 40))
    lower = rng.integers(0, 3, 40).astype(float)
    upper = np.where(rng.random(40) < 0.3, np.inf, lower + rng.integers(0, 8, 40))
    aim = rng.normal(3.0, 10.0, 40)
    inside = np.where(np.isinf(upper), lower + 30, upper)
    low, high = (np.bincount(parent, weights=own, minlength=5) for own in (lower, inside))
    totals = np.rint(low + rng.random(5) * (high - low))
    found = share_out(aim, lower, upper, parent, totals)
    assert np.array_equal(np.bincount(parent, weights=found, minlength=5), totals)
    assert np.all((found >= lower) & (found <= upper) & (found == np.rint(found)))
    for own in range(5):
        gain, give, take = (each[parent == own] for each in (aim - found, found > lower, found < upper))
        if give.any() and take.any():
            assert gain[take].max() - gain[give].min() <= 2.0 + 1e-6


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("limits", [True, False])
def test_as_much_as_is_allowed(limits, seed):
    """Sums of tract and age may be from 1 to one more than in truth: what goes out of one cell is too much for the other age."""
    case, rng = Case((3, 2, 3), "AAB", 60, limits=limits), np.random.default_rng(seed)
    chain = case.chain(1)
    chain.load(case.target.fiber.find_point().reshape(-1))
    chain.sweep(3)
    state = chain.state
    before = state.counts.copy()
    lower, upper = (np.maximum(before + side * rng.integers(0, 6, before.shape), 0) for side in (-1, 1))
    groups = state.group_start.shape[1] - 1
    assert (np.diff(state.group_start, axis=1) == 2).all()  # the two ages of a race
    end = rng.integers(0, 2, (len(before), groups))
    gather(state, end, lower, upper)
    after, sums = state.counts.copy(), state.sums.copy()
    chain.renew()
    assert state.limited == limits
    if limits:  # if not, sums are not kept up to date
        np.testing.assert_array_equal(sums, state.sums)
    assert case.target.fiber.contains(chain.counts.reshape(case.target.fiber.frame.shape))
    # Against the definition, pair after pair, with the sums by age worked out anew each time.
    expected = before.copy()
    for t, g in np.ndindex(len(before), groups):
        least, most = state.sum_lower[state.path[t, 0]], state.sum_upper[state.path[t, 0]]
        pair = state.group_cell[state.group_start[t, g] : state.group_start[t, g + 1]]
        to, own = pair[end[t, g]], pair[1 - end[t, g]]
        while expected[t, own] > lower[t, own] and expected[t, to] < upper[t, to]:
            expected[t, [own, to]] += -1, 1
            sums = np.bincount(state.sum_class, weights=expected[t])
            if limits and ((sums < least) | (sums > most)).any():
                expected[t, [own, to]] += 1, -1
                break
    np.testing.assert_array_equal(after, expected)
    assert (after != before).any()
