"""Coupled chains: each alone is the chain it should be, together they meet, and the bound is above the true distance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from bayesdp._random import seed_state
from bayesdp.papers.integer_subspace import (
    BasisLaw,
    clopper_pearson,
    couple,
    coupled_sweep,
    gibbs,
    least_limit,
    meeting_times,
    new_pieces,
    suggest_lag,
    upper_limits,
)
from benchmarks.paper_sampler import coupled
from tests.lattices.oracles import LEVEL, one_way, pvalue
from tests.papers.coupled_chains import Plane

LAWS = [("l1", 0.8), ("l2", 1.0), ("gaussian", 1.3)]
A = math.exp(-0.7)
KERNELS = [None, A]
"""Jump parameters: none for Gibbs."""


def pairs_of(a: float | None):
    return gibbs if a is None else coupled.metropolis(a)


class Pair:
    """Two coupled chains, as the kernels see them."""

    def __init__(self, target: BasisLaw, coordinates, a: float | None, rng: np.random.Generator) -> None:
        self.c = np.array(coordinates, dtype=np.int64)
        self.z = self.c @ target.basis.toarray()
        self.norms = (self.z**2).sum(axis=1)
        self.rates, self.arrays = None if a is None else np.full(target.dimension, -math.log(a)), target.arrays
        self.pieces, self.generator = np.stack([new_pieces(target.widest)] * 2), seed_state(rng)

    def sweep(self) -> None:
        if self.rates is None:
            coupled_sweep(self.arrays, self.z, self.c, self.norms, self.pieces, self.generator)
        else:
            coupled.coupled_sweep(self.rates, *self.arrays, self.z, self.c, self.norms, self.generator)


# 12 tests at the level LEVEL.
@pytest.mark.parametrize("a", KERNELS)
@pytest.mark.parametrize(("law", "scale"), LAWS)
def test_each_of_two_coupled_chains_moves_as_it_would_alone(law, scale, a, make_rng):
    plane, rng = Plane(law, scale, 10), make_rng(3)
    target = BasisLaw(plane.basis, law, scale)
    starts = np.array([[1, -1], [-1, 1]])
    ends = []
    for _ in range(4000):
        pair = Pair(target, starts, a, rng)
        pair.sweep()
        pair.sweep()
        ends.append(pair.z)
    assert (pair.z == pair.c @ target.basis.toarray()).all()
    assert (pair.norms == (pair.z**2).sum(axis=1)).all()
    two = np.linalg.matrix_power(plane.sweep(a), 2)
    for i in range(2):
        at = int(np.flatnonzero((plane.coordinates == starts[i]).all(axis=1))[0])
        assert pvalue(np.array(ends)[:, i], plane.points, two[at]) > LEVEL


@pytest.mark.parametrize("a", KERNELS)
@pytest.mark.parametrize(("law", "scale"), LAWS)
def test_one_step_meets_as_often_as_is_possible(law, scale, a, make_rng):
    # One coordinate apart: a maximal coupling meets with probability 1 - TV of the two laws of that coordinate. Gibbs:
    # the same law, so always. Metropolis: the proposals coincide with probability 1 - TV.
    plane, rng = Plane(law, scale, 10), make_rng(4)
    target = BasisLaw(plane.basis[:1], law, scale)
    met = []
    for _ in range(3000):
        pair = Pair(target, [[0], [2]], a, rng)
        pair.sweep()
        met.append(pair.c[0, 0] == pair.c[1, 0])
    if a is None:
        assert all(met)
        return
    v, line = np.arange(-60, 61), lambda e: np.outer(e, [1, -1])
    energy = {
        "l1": lambda e: scale * np.abs(line(e)).sum(axis=1),
        "l2": lambda e: scale * np.sqrt((line(e) ** 2).sum(axis=1)),
        "gaussian": lambda e: (line(e) ** 2).sum(axis=1) / (2 * scale**2),
    }[law]
    proposals = [(1 - a) / (1 + a) * a ** np.abs(v - start) for start in (0, 2)]
    accepted = [np.minimum(1, np.exp(energy([start])[0] - energy(v))) for start in (0, 2)]
    both = np.minimum(*proposals) * np.minimum(*accepted)  # a common uniform number
    chance = float(both.sum())  # the other ways to meet: proposals differ, and only one is taken, to where the other is
    chance_of_others = 2 * float(np.maximum(proposals[0] - proposals[1], 0).sum())
    margin = 4 * math.sqrt(chance * (1 - chance) / 3000)
    assert chance - margin < np.mean(met) < chance + chance_of_others + margin


@pytest.mark.parametrize("a", KERNELS)
@pytest.mark.parametrize(("law", "scale"), [("l1", 0.3), ("l2", 0.4), ("gaussian", 3.0)])
def test_chains_that_have_met_stay_together(law, scale, a, make_rng):
    pair = Pair(BasisLaw.of(one_way(3, 4), law, scale), np.tile(np.arange(6), (2, 1)), a, make_rng(5))
    start = pair.z.copy()
    for _ in range(300):
        pair.sweep()
        assert (pair.z[0] == pair.z[1]).all()
    assert (pair.z != start).any()


@pytest.mark.parametrize("lag", [1, 4, 15])
@pytest.mark.parametrize("a", KERNELS)
@pytest.mark.parametrize(("law", "scale"), LAWS)
def test_the_bound_is_above_the_true_distance(law, scale, a, lag, make_rng):
    plane = Plane(law, scale, 12)
    found = couple(BasisLaw(plane.basis, law, scale), make_rng(6), pairs=4000, lag=lag, meet=pairs_of(a))
    truth = plane.distances(plane.sweep(a), int(found.times[-1]) + 1)[found.times]
    assert truth[0] > 0.3
    assert found.bound[0] > 0.3
    # Five standard errors at every time; where no pair is apart any more, the true distance is small.
    assert (truth <= found.bound + 5 * found.standard_error + 5 / 4000).all()
    assert (np.minimum(found.bound, 1.0) <= found.upper).all()
    assert (np.diff(found.upper) <= 0).all()
    if lag == 15:
        # And not far above: the bound says something.
        assert found.sweeps_to(0.05) <= 3 * int(np.flatnonzero(truth <= 0.05)[0]) + 3


def test_the_bound_is_the_mean_of_its_definition(make_rng):
    found = couple(BasisLaw.of(one_way(3, 3), "l1", 0.5), make_rng(7), pairs=500, lag=3)
    for i in (0, 1, len(found.times) // 2, -1):
        t = found.times[i]
        terms = np.array([max(0, math.ceil((int(tau) - 3 - int(t)) / 3)) for tau in found.meetings])
        assert found.bound[i] == pytest.approx(terms.mean())
        assert found.standard_error[i] == pytest.approx(terms.std() / math.sqrt(500))
    assert found.bound[-1] == 0 < found.bound[-2]
    assert found.sweeps_to(0.0) == found.meetings.max() - 3


def test_one_dimension_is_forgotten_in_one_gibbs_step(make_rng):
    found = couple(BasisLaw.of(one_way(2, 2), "l1", 0.25), make_rng(8), pairs=1000, lag=2)
    assert set(found.meetings.tolist()) == {2, 3}
    assert found.times.tolist() == [0, 1]
    # At zero with probability tanh(2 * 0.25), so that this part of the pairs has met at once.
    assert abs((found.meetings == 2).mean() - 0.4621171573) < 4 * 0.5 / math.sqrt(1000)


# Lattice notes: 4 x 4 table, epsilon 0.25; medians 7 (Gibbs) and 94 to 110, 43 to 52 (Metropolis), and 50 to 55, 680 to 1000,
# 260 to 360 sweeps to a bound below 0.01. Ranges here are about four standard errors wider.
@pytest.mark.parametrize(
    ("a", "pairs", "lag", "median", "sweeps"),
    [
        (None, 2000, 50, (5, 8), (40, 62)),
        (math.exp(-1), 100, 1000, (70, 140), (450, 1500)),
        (math.exp(-0.25), 300, 500, (35, 62), (200, 450)),
    ],
)
def test_meeting_times_of_a_4x4_table(a, pairs, lag, median, sweeps, make_rng):
    target = BasisLaw.of(one_way(4, 4), "l1", 0.25)
    found = couple(target, make_rng(9), pairs=pairs, lag=lag, meet=pairs_of(a))
    assert median[0] <= np.median(found.meetings - lag) <= median[1]
    assert sweeps[0] <= found.sweeps_to(0.01) <= sweeps[1]


def test_pairs_that_do_not_meet_make_the_bound_unknown(make_rng):
    target = BasisLaw.of(one_way(4, 4), "l1", 0.25)
    found = couple(target, make_rng(10), pairs=300, lag=20, horizon=30)
    assert 0 < found.censored == (found.meetings == 0).sum() < 300
    assert len(found.meetings) == 300
    assert np.isnan(found.bound).all()
    assert np.isnan(found.standard_error).all()
    assert (found.upper >= found.censored / 300).all()
    assert found.sweeps_to(0.5) is None
    with pytest.raises(ValueError, match=r"of 200 pairs of chains have not met within 5 sweeps"):
        suggest_lag(target, make_rng(10), horizon=5)


@pytest.mark.parametrize(("r", "lag"), [(0.5, 1), (0.9, 10), (0.99, 300)])
def test_upper_limits_fail_no_more_often_than_stated(r, lag, make_rng):
    # Geometric meeting times, for which the assumption holds and the bound is known. 300 experiments at 90%
    # confidence: more than 46 failures would be seen once in a thousand times at the stated rate.
    rng, experiments = make_rng(11), 300
    most = int(binom.ppf(0.999, experiments, 0.1))
    times = np.arange(0, 12 * math.ceil(-1 / math.log(r)), max(1, math.ceil(-0.2 / math.log(r))))
    # P(tau > t) = r ** (t - lag), so the bound at t is the sum over j of r ** (t + j lag - lag).
    truth = np.minimum(r**times / (1 - r**lag), 1.0)
    fails, early = np.zeros(len(times)), 0
    for _ in range(experiments):
        limits = upper_limits(lag + rng.geometric(1 - r, size=400), lag, 10**9, times, 0.9)
        fails += limits < truth
        below = np.flatnonzero(limits <= 0.05)
        early += bool(below.size) and truth[below[0]] > 0.05
    assert fails.max() <= most
    assert early <= most


def test_upper_limits_at_the_edges():
    assert float(clopper_pearson(0, 50, 0.95)) == pytest.approx(1 - 0.05 ** (1 / 50))
    assert float(clopper_pearson(50, 50, 0.95)) == 1.0
    assert binom.cdf(3, 50, float(clopper_pearson(3, 50, 0.95))) == pytest.approx(0.05)
    assert least_limit(1000, 0.99) == pytest.approx(1 - 0.005 ** (1 / 800))
    # Nothing can be said from pairs that all were given up, or from very few.
    assert (upper_limits(np.zeros(100, dtype=np.int64), 5, 50, np.arange(9), 0.99) == 1).all()
    assert (upper_limits(np.array([6, 7]), 5, 50, np.arange(9), 0.99) == 1).all()


def test_wrong_arguments(make_rng):
    target = BasisLaw.of(one_way(2, 3), "l1", 0.5)
    with pytest.raises(ValueError, match="more sweeps than the lag of 9, got 9"):
        meeting_times(target, make_rng(1), pairs=10, lag=9, horizon=9)
    with pytest.raises(ValueError, match="confidence must lie strictly between 0 and 1"):
        couple(target, make_rng(1), pairs=10, lag=2, confidence=1.0)


@pytest.mark.parametrize("rate", [0.05, 0.1])
def test_upper_limits_never_increase(rate):
    # Without the running maximum these do, where the last summand changes: at 22 and at 27 and 47.
    times, lag = np.arange(150), 20
    meetings = lag + np.random.default_rng(lag).geometric(rate, size=200)
    limits = upper_limits(meetings, lag, 10_000, times, 0.99)
    assert np.all(np.diff(limits) <= 0)
    assert limits[0] > 0.8
    assert 0.0 < limits[-1] < 0.1
