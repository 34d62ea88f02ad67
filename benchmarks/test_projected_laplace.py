"""The density of projected Laplace noise with its gradient, against quadrature and a NumPy version, and exact row noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from bayesdp._numba import seed_state
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.projected_laplace import blocks_density, directions_of, sweep
from bayesdp.queries import Margins

_TIMES: dict[int, float] = {}


def block(d: int) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    u = np.random.default_rng(d).laplace(size=d)
    return u - u.mean(), (np.array([0, d]), np.arange(d), np.ones(d))


def in_numpy(u: np.ndarray, b: float) -> tuple[float, np.ndarray]:
    """The same sums, vectorised: value (without constants) and gradient."""
    order = np.argsort(-u)
    knots = -u[order]
    d = len(u)
    slopes = (2.0 * np.arange(1, d) - d) / b
    rise = np.concatenate([[0.0], np.cumsum(slopes * np.diff(knots))])
    least = rise[(d - 1) // 2]
    rise -= least
    steps = np.diff(rise)
    safe = np.where(steps == 0.0, 1.0, np.abs(steps))
    shape = np.where(steps == 0.0, 1.0, -np.expm1(-safe) / safe)
    pieces = np.diff(knots) * np.exp(-np.minimum(rise[1:], rise[:-1])) * shape
    masses = np.concatenate([[math.exp(-rise[0]) * b / d], pieces, [math.exp(-rise[-1]) * b / d]])
    total = masses.sum()
    gradient = np.empty(d)
    gradient[order] = -(1.0 - 2.0 * np.cumsum(masses[:-1]) / total) / b
    return math.log(total) - float(np.abs(knots - knots[(d - 1) // 2]).sum()) / b, gradient


@pytest.mark.parametrize(("d", "target"), [(102, 10.0), (3143, 500.0)])
def test_value_and_gradient(benchmark, enter, d, target):
    benchmark.group = f"projected Laplace density, {d} cells"
    u, blocks = block(d)
    gradient = np.empty(d)
    value, _ = benchmark(blocks_density, u, 1.0, *blocks, gradient)
    _TIMES[d] = benchmark.stats.stats.min
    enter(f"projected Laplace density and gradient, {d} cells", 1e6 * _TIMES[d], "us", at_most=target)
    expected, slope = in_numpy(u, 1.0)
    assert value + d * math.log(2.0) == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(gradient, slope, atol=1e-9)


@pytest.mark.parametrize("d", [102, 3143])
def test_against_numpy(benchmark, enter, d):
    benchmark.group = f"projected Laplace density, {d} cells"
    u, _ = block(d)
    benchmark(in_numpy, u, 1.0)
    enter(f"projected Laplace density, {d} cells, against NumPy", benchmark.stats.stats.min / _TIMES[d], "times")


@pytest.mark.parametrize("d", [102, 3143])
def test_against_quadrature(benchmark, enter, d):
    benchmark.group = f"projected Laplace density, {d} cells"
    u, _ = block(d)
    least = float(np.abs(u - np.median(u)).sum())
    # Where the integrand counts, with the knots there as its kinks.
    reach = 12.0 / math.sqrt(d)
    knots = np.sort(-u[np.abs(u) < reach])
    ends = np.concatenate([[-reach], knots, [reach]])

    def integral() -> float:
        def integrand(w: float) -> float:
            return math.exp(least - float(np.abs(u + w).sum()))

        return sum(quad(integrand, a, b, epsabs=0.0)[0] for a, b in itertools.pairwise(ends))

    found = benchmark.pedantic(integral, rounds=3)
    assert math.log(found) - least == pytest.approx(in_numpy(u, 1.0)[0], rel=1e-6)
    enter(f"projected Laplace density, {d} cells, against quadrature", benchmark.stats.stats.min / _TIMES[d], "times")


@pytest.mark.parametrize("blocks", [1, 1000])
def test_a_million_cells(benchmark, enter, blocks):
    d = 1_000_000
    u, (_, cells, entries) = block(d)
    gradient = np.empty(d)
    starts = np.linspace(0, d, blocks + 1).astype(np.int64)
    benchmark.pedantic(blocks_density, args=(u, 1.0, starts, cells, entries, gradient), rounds=5, warmup_rounds=1)
    enter(
        f"projected Laplace density, a million cells in {blocks}", 1e3 * benchmark.stats.stats.min, "ms", at_most=250.0
    )


@pytest.mark.parametrize("shape", [(4, 4), (100, 100)])
def test_row_noise(benchmark, enter, shape):
    invariants = Invariants(Margins({"row": range(shape[0]), "column": range(shape[1])}, ["row"], ["column"]))
    own, rng = directions_of(invariants), np.random.default_rng(1)
    e, w = rng.laplace(size=shape).reshape(-1), np.zeros(invariants.rank)
    benchmark(sweep, e, w, 1.0, own, 1, seed_state(rng))
    steps = len(own.cell_starts) - 1
    enter(
        f"exact steps of row noise, {shape[0]}x{shape[1]} with both margins",
        1e-6 * steps / benchmark.stats.stats.min,
        "million a second",
    )
