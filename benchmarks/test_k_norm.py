"""Draws of the K-norm law for square tables with both margins: triangulation and envelope against cube rejection."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bayesdp.hulls import SymmetricHull, sample_hull
from bayesdp.hulls.envelope import envelope_of
from bayesdp.invariants import Invariants
from bayesdp.queries import Margins

_RATES: dict[str, float] = {}


def moves(size: int) -> tuple[Invariants, np.ndarray]:
    """Vertices: all 2 x 2 moves, in coordinates."""
    units, tables = np.eye(size), []
    for i, k in combinations(range(size), 2):
        tables.extend(np.outer(units[i] - units[k], units[j] - units[m]) for j, m in combinations(range(size), 2))
    frame = {"row": range(size), "column": range(size)}
    invariants = Invariants(Margins(frame, ["row"], ["column"]))
    return invariants, invariants.coordinates(np.array(tables))


def cube_rejection(hull: SymmetricHull, rng: np.random.Generator, size: int) -> np.ndarray:
    """Algorithm 3 of the third paper: uniform points of the cube around K, a linear program each to see if it is in K."""
    n, half = hull.dimension, np.max(np.abs(hull.vertices), axis=0)
    kept: list[np.ndarray] = []
    while len(kept) < size:
        point = rng.uniform(-half, half)
        if hull.gauge(point) <= 1.0:
            kept.append(point * rng.gamma(n + 1.0))
    return np.array(kept)


@pytest.mark.parametrize(("size", "draws"), [(3, 1_000_000), (4, 500_000)])
@pytest.mark.benchmark(group="K-norm noise")
def test_triangulation(benchmark, enter, size, draws):
    invariants, vertices = moves(size)
    hull, rng = SymmetricHull(vertices), np.random.default_rng(1)
    sample_hull(hull, 1.0, rng, 1, invariants)  # Qhull, once: milliseconds for 3 x 3, seconds for 4 x 4
    benchmark.pedantic(sample_hull, args=(hull, 1.0, rng, draws, invariants), rounds=5, warmup_rounds=1)
    rate = _RATES[f"{size}"] = draws / benchmark.stats.stats.min
    enter(f"K-norm noise, {size} x {size} moves, exact draws by triangulation", rate, "a second")


@pytest.mark.parametrize(("size", "draws"), [(3, 100_000), (5, 100), (8, 10)])
@pytest.mark.benchmark(group="K-norm noise")
def test_envelope(benchmark, enter, size, draws):
    invariants, vertices = moves(size)
    envelope, rng = envelope_of(SymmetricHull(vertices), invariants), np.random.default_rng(1)
    assert envelope is not None
    benchmark.pedantic(envelope.draw, args=(1.0, rng, draws), rounds=3, warmup_rounds=1)
    rate = draws / benchmark.stats.stats.min
    gauge = "facets" if size < 5 else "linear programs"
    enter(f"K-norm noise, {size} x {size} moves, exact draws by l1 envelope and {gauge}", rate, "a second")


@pytest.mark.benchmark(group="K-norm noise")
def test_cube_rejection(benchmark, enter):
    _, vertices = moves(3)
    hull, rng = SymmetricHull(vertices, method="program"), np.random.default_rng(1)
    benchmark.pedantic(cube_rejection, args=(hull, rng, 30), rounds=3)
    rate = 30 / benchmark.stats.stats.min
    enter(
        "K-norm noise, 3 x 3 moves, triangulation against cube rejection by linear programs",
        _RATES["3"] / rate,
        "times",
    )
