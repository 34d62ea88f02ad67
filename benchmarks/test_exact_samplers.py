"""Exact noise on lattices: draws a second, against the aims, and against independent draws by the Gibbs sampler."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices import sample_noise, sampler_for
from bayesdp.queries import LinearQuery, Margins, Totals

SWEEPS = 60
"""After so many sweeps, the bound on the distance of the 4 x 4 chain to its law falls below .01."""


def _margins(*sizes: int) -> Invariants:
    frame = dict(zip("abc", map(range, sizes), strict=False))
    return Invariants(Margins(frame, *([dim] for dim in frame)))


def _two_way_margins(*sizes: int) -> Invariants:
    return Invariants(Margins(dict(zip("abc", map(range, sizes), strict=True)), ["a", "b"], ["b", "c"], ["a", "c"]))


VENN = [[s >> i & 1 for s in range(1, 8) for _ in range(2)] for i in range(3)]
CASES = {
    "fixed total, 102 cells, l1 .192": (Invariants(Totals({"a": range(102)})), "l1", 0.192, 20_000, 30_000),
    "fixed total, 3143 cells, l1 .192": (Invariants(Totals({"a": range(3143)})), "l1", 0.192, 500, 1000),
    "14 cells, 3 overlapping sets, l1 .25": (
        Invariants(LinearQuery({"a": range(14)}, VENN, ["x", "y", "z"])), "l1", 0.25, 50_000, 100_000,
    ),
    "4 x 4 margins, l1 .25": (_margins(4, 4), "l1", 0.25, 20_000, 20_000),
    "6 x 6 margins, l1 .25": (_margins(6, 6), "l1", 0.25, 2000, None),
    "10 x 4 margins, l1 .25": (_margins(10, 4), "l1", 0.25, 2000, None),
    "3 x 3 x 3 two-way margins, l1 .25": (_two_way_margins(3, 3, 3), "l1", 0.25, 1000, None),
    "4 x 4 margins, l2 .25": (_margins(4, 4), "l2", 0.25, 50_000, None),
    "20 x 20 margins, l2 .25": (_margins(20, 20), "l2", 0.25, 200, None),
    "4 x 4 margins, gaussian 2": (_margins(4, 4), "gaussian", 2.0, 50_000, 50_000),
    "4 x 4 margins, gaussian 4": (_margins(4, 4), "gaussian", 4.0, 50_000, 50_000),
    "20 x 20 margins, gaussian 4": (_margins(20, 20), "gaussian", 4.0, 2000, None),
}  # fmt: skip
CHAINS = {
    "14 cells, 3 overlapping sets, l1 .25",
    "4 x 4 margins, l1 .25",
    "4 x 4 margins, l2 .25",
    "4 x 4 margins, gaussian 4",
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.benchmark(group="exact noise on lattices")
def test_draws_a_second(benchmark, enter, case):
    invariants, law, scale, size, aim = CASES[case]
    rng = np.random.default_rng(1)
    assert sampler_for(invariants, law, scale).exact
    benchmark.pedantic(sample_noise, (invariants, law, scale, rng, size, "exact"), rounds=3, warmup_rounds=1)
    rate = size / benchmark.stats.stats.min
    enter(f"{case}: exact draws", rate, "a second", at_least=aim)
    if case in CHAINS:
        chain = _rate(invariants, law, scale, rng, 500)
        enter(f"{case}: exact draws against {SWEEPS} sweeps of Gibbs", rate / chain, "times")


def _rate(invariants: Invariants, law: str, scale: float, rng: np.random.Generator, size: int) -> float:
    from time import perf_counter

    sample_noise(invariants, law, scale, rng, 2, "mcmc", SWEEPS)
    best = np.inf
    for _ in range(3):
        start = perf_counter()
        sample_noise(invariants, law, scale, rng, size, "mcmc", SWEEPS)
        best = min(best, perf_counter() - start)
    return size / best
