"""Draws of K-norm laws for square tables with both margins, beside the third paper's Algorithm 3, and their gauges."""

from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes import SymmetricHull, choose_hull_sampler, sample_hull, sensitivity_hull
from bayesdp.lattices.polytopes.base import gauge_program
from bayesdp.lattices.polytopes.sensitivity import proposal_for
from bayesdp.queries import Margins

_RATES: dict[tuple[int, int], float] = {}

WORDS = {2: "two records (2 x 2 moves)", 3: "three records (3-cycles too)"}


def both_margins(size: int) -> Invariants:
    return Invariants(Margins({"row": range(size), "column": range(size)}, ["row"], ["column"]))


def substitutions(invariants: Invariants) -> SymmetricHull:
    cells = invariants.frame.size
    units = invariants.coordinates(np.eye(cells).reshape(cells, *invariants.frame.shape))
    return SymmetricHull(np.array([one - other for one, other in combinations(units, 2)]))


@pytest.mark.parametrize(
    ("size", "adjacency", "draws"),
    [
        *[(3, 2, 500_000), (3, 3, 500_000), (4, 2, 10_000), (4, 3, 10_000), (5, 2, 2000), (5, 3, 2000)],
        *[(8, 2, 1000), (8, 3, 2000), (10, 2, 500), (10, 3, 1000), (15, 2, 10), (15, 3, 10)],
    ],
)
@pytest.mark.benchmark(group="K-norm noise")
def test_draws(benchmark, enter, size, adjacency, draws):
    invariants, rng = both_margins(size), np.random.default_rng(1)
    hull = sensitivity_hull(invariants, adjacency)
    sampler = choose_hull_sampler(hull, invariants)  # sets up, and compiles
    benchmark.pedantic(sample_hull, args=(hull, 1.0, rng, draws, invariants), rounds=3, warmup_rounds=1)
    rate = _RATES[size, adjacency] = draws / benchmark.stats.stats.min
    target = {"at_least": {5: 50.0, 10: 1000.0}[size]} if size in (5, 10) else {}
    enter(f"K-norm noise, {size} x {size}, {WORDS[adjacency]}, by {sampler.name}", rate, "draws a second", **target)


@pytest.mark.parametrize(("size", "draws"), [(10, 10_000), (20, 1000), (40, 100)])
@pytest.mark.benchmark(group="K-norm noise")
def test_l1_noise(benchmark, enter, size, draws):
    # What K-norm noise is proposed from; row by row, with rejection of whole tables, a 10 x 10 table took 24 to 33 ms.
    proposal = proposal_for(both_margins(size))
    args = (1.0, np.random.default_rng(1), draws)
    benchmark.pedantic(proposal.draw, args=args, rounds=3, warmup_rounds=1)
    milliseconds = 1e3 * benchmark.stats.stats.min / draws
    enter(f"l1 noise with both margins, {size} x {size}", milliseconds, "ms")


@pytest.mark.parametrize(("size", "draws"), [(3, 300), (4, 2)])
@pytest.mark.benchmark(group="K-norm noise")
def test_algorithm_3(benchmark, enter, size, draws):
    # As printed: uniform points of a cube around K, and a linear program each to see whether they are in K.
    invariants, rng = both_margins(size), np.random.default_rng(1)
    hull = sensitivity_hull(invariants, 2)
    half = np.max(np.abs(hull.vertices), axis=0)
    tries = {3: 100, 4: 100}[size]

    def programs():
        return sum(gauge_program(hull.vertices, rng.uniform(-half, half))[0] <= 1.0 for _ in range(tries))

    start = time.perf_counter()
    programs()
    one = (time.perf_counter() - start) / tries
    acceptance = {3: 0.1719, 4: 3.66e-4}[size]  # volumes of K and of the cube
    printed = acceptance / one
    enter(
        f"K-norm noise, {size} x {size}, Algorithm 3 with linear programs (acceptance known)", printed, "draws a second"
    )
    enter(
        f"K-norm noise, {size} x {size}, ours against Algorithm 3", _RATES[size, 2] / printed, "times", at_least=1000.0
    )
    # The same with our gauge, by name.
    sample_hull(hull, 1.0, rng, 1, invariants, "algorithm-3")
    benchmark.pedantic(sample_hull, args=(hull, 1.0, rng, draws, invariants, "algorithm-3"), rounds=3)
    rate = draws / benchmark.stats.stats.mean
    enter(f"K-norm noise, {size} x {size}, Algorithm 3 with compiled bounds", rate, "draws a second")


@pytest.mark.parametrize(("size", "draws"), [(3, 20_000), (4, 2000)])
@pytest.mark.benchmark(group="K-norm noise of all substitutions")
def test_substitutions(benchmark, enter, size, draws):
    invariants, rng = both_margins(size), np.random.default_rng(1)
    hull = substitutions(invariants)
    sampler = choose_hull_sampler(hull, invariants)
    assert sampler.exact
    benchmark.pedantic(sample_hull, args=(hull, 1.0, rng, draws, invariants), rounds=3)
    rate = draws / benchmark.stats.stats.mean
    enter(f"K-norm noise, {size} x {size}, all substitutions, exact by {sampler.name}", rate, "draws a second")


@pytest.mark.parametrize(("size", "adjacency"), [(5, 2), (10, 2), (10, 3)])
@pytest.mark.benchmark(group="K-norm gauges")
def test_gauge(benchmark, enter, size, adjacency):
    invariants = both_margins(size)
    hull = sensitivity_hull(invariants, adjacency)
    points = np.random.default_rng(1).normal(size=(5, hull.dimension))
    benchmark.pedantic(hull.gauge, args=(points,), rounds=3, warmup_rounds=1)
    own = benchmark.stats.stats.min / len(points)
    enter(f"K-norm of a {size} x {size} table, {WORDS[adjacency]}", 1e3 * own, "ms")
    if adjacency == 2:
        start = time.perf_counter()
        gauge_program(hull.vertices, points[0])
        enter(
            f"K-norm of a {size} x {size} table, against HiGHS on all vertices",
            (time.perf_counter() - start) / own,
            "times",
        )
