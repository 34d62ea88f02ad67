"""Projection of a 14x24x20 table with its 740 constraints: structured, sparse and dense, side by side."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.queries import Margins

_TIMES: dict[str, float] = {}


@pytest.fixture(scope="module")
def invariants() -> Invariants:
    frame = {"group": range(14), "hour": range(24), "building": range(20)}
    return Invariants(Margins(frame, ["building", "hour"], ["building", "group"]))


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(14, 24, 20))


@pytest.mark.benchmark(group="projection of 6720 cells")
def test_structured(benchmark, enter, invariants, noise):
    projected = benchmark(invariants.project, noise)
    assert abs(invariants.query.apply(projected)).max() < 1e-11
    _TIMES["structured"] = benchmark.stats.stats.min
    enter("projection of 14x24x20", 1e3 * _TIMES["structured"], "ms", at_most=0.2)


@pytest.mark.benchmark(group="projection of 6720 cells")
def test_sparse_factor(benchmark, enter, invariants, noise):
    rows, solver = invariants._gram_solver
    flat = noise.reshape(-1)
    benchmark(lambda: flat - rows.T @ solver.solve(rows @ flat))
    enter(
        "projection of 14x24x20, against a sparse factorisation",
        benchmark.stats.stats.min / _TIMES["structured"],
        "times",
    )


@pytest.mark.benchmark(group="projection of 6720 cells")
def test_dense(benchmark, enter, invariants, noise):
    rows = invariants.matrix[invariants.independent_rows].toarray().astype(float)
    dense = np.eye(rows.shape[1]) - rows.T @ np.linalg.solve(rows @ rows.T, rows)  # 361 MB
    flat = noise.reshape(-1)
    benchmark.pedantic(lambda: dense @ flat, rounds=20)
    np.testing.assert_allclose(dense @ flat, invariants.project(noise).reshape(-1), atol=1e-10)
    enter(
        "projection of 14x24x20, against the dense matrix",
        benchmark.stats.stats.min / _TIMES["structured"],
        "times",
    )
