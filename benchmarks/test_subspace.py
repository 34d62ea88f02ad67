"""Release and likelihood of the subspace mechanisms on a million cells: linear in the cells, no dense matrix."""

from __future__ import annotations

import time

import numpy as np
import pytest

import bayesdp as bdp

SIDES = (316, 1000)  # a hundred thousand cells, and a million

CASES = {
    "projected gaussian, margins": (bdp.ProjectedGaussian, "margins", {"mu": 0.5}),
    "extended gaussian, margins": (bdp.ExtendedGaussian, "margins", {"mu": 0.5}),
    "extended laplace, margins": (bdp.ExtendedLaplace, "margins", {"epsilon": 0.5}),
    "projected gaussian, totals": (bdp.ProjectedGaussian, "totals", {"mu": 0.5}),
    "projected laplace, totals": (bdp.ProjectedLaplace, "totals", {"epsilon": 0.5}),
    "extended laplace, totals": (bdp.ExtendedLaplace, "totals", {"epsilon": 0.5}),
}


def _invariants(kind: str, side: int):
    if kind == "margins":
        return bdp.Margins({"row": range(side), "column": range(side)}, ["row"], ["column"]), (side, side)
    states = np.repeat(np.arange(side), side).tolist()
    return bdp.Totals({"county": range(side * side), "state": ("county", states)}, "state"), (side * side,)


@pytest.mark.parametrize("case", CASES)
def test_release_and_likelihood(benchmark, enter, case):
    make, kind, loss = CASES[case]
    seconds = []
    for side in SIDES:
        query, shape = _invariants(kind, side)
        table = np.random.default_rng(1).poisson(20.0, shape)

        def run(query=query, table=table):
            began = time.perf_counter()
            mechanism = make(query, **loss)
            release = mechanism.release(table, rng=np.random.default_rng(2))
            mechanism.logp(release.values, table)
            return time.perf_counter() - began

        seconds.append(run() if side == SIDES[0] else benchmark.pedantic(run, rounds=1, warmup_rounds=0))
    enter(f"{case}: release and likelihood, a million cells", seconds[1], "s")
    enter(f"{case}: a million cells against a hundred thousand", seconds[1] / seconds[0], "times", at_most=20)
