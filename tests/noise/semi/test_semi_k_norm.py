"""The K-norm laws of Semi-DP, real and integer: closed forms, what they promise, and how files describe them."""

from __future__ import annotations

import json
import math
from itertools import product

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.noise import KNorm, LatticeKNorm, LatticeLaplace, NoiseLaw, SemiKNorm, parse_law
from bayesdp.polytopes.base import gauge_program
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.polytopes.examples import both_margins

MOVE = np.array([[1, -1, 0], [-1, 1, 0], [0, 0, 0]])
CYCLE = np.array([[1, -1, 0], [0, 1, -1], [-1, 0, 1]])


def test_the_same_law_as_with_listed_vertices() -> None:
    for shape, adjacency in [((3, 3), 2), ((3, 3), 3), ((3, 4), 3), ((2, 4), 2)]:
        margins = both_margins(*shape)
        law = SemiKNorm(0.7, adjacency)
        other = KNorm(0.7, law.hull(margins).vertices)
        rng = np.random.default_rng(1)
        start = rng.integers(0, 9, shape)
        for _ in range(5):
            values = start + margins.project(rng.normal(size=shape) * 4)
            assert law.logp(values, start, margins) == pytest.approx(other.logp(values, start, margins), rel=1e-9)
        assert law.log_normaliser(margins) == pytest.approx(other.log_normaliser, rel=1e-9)
        assert law.variance(shape, margins) == pytest.approx(other.variance(shape, margins), rel=1e-9)
        assert law.logp(start + 1.0, start, margins) == -math.inf


def test_disjoint_totals_have_the_l1_norm() -> None:
    totals = Invariants(Totals({"cell": range(5), "group": ("cell", ["p", "p", "p", "q", "q"])}, "group"))
    values, start = np.array([4.0, 1.5, -2.0, 3.0, 1.0]), np.array([1.0, 2.0, 0.5, 2.0, 2.0])
    size = np.abs(values - start).sum()
    law = SemiKNorm(1.2, 2)
    cones = (
        math.log(6 * math.sqrt(3)) + math.log(2 * math.sqrt(2)) + 3 * math.log(2.0)
    )  # root polytopes, twice as large
    assert law.logp(values, start, totals) == pytest.approx(3 * math.log(1.2) - cones - 1.2 * size / 4, rel=1e-12)
    draws = law.draw(np.random.default_rng(1), (5,), 20_000, totals)
    variance = law.variance((5,), totals)
    assert variance is not None
    error = (draws**2).std(axis=0) / math.sqrt(len(draws))
    assert np.max(np.abs((draws**2).mean(axis=0) - variance) / error) < 5  # five cells: below 3e-6
    # On integers it is lattice Laplace noise of rate epsilon / 4, normaliser and all.
    whole, laplace = LatticeKNorm(1.2, 2), LatticeLaplace(0.3)
    z = np.array([2, -1, -1, 3, -3])
    assert whole.logp(z, 0 * z, totals) == pytest.approx(laplace.logp(z, 0 * z, totals), rel=1e-12)


@pytest.mark.parametrize("adjacency", [2, 3])
def test_what_it_promises(adjacency: int) -> None:
    # The loss between tables that differ by so many records is epsilon at most, and is attained.
    margins = both_margins(3, 3)
    start = np.zeros((3, 3))
    rng = np.random.default_rng(2)
    for change, cost in [(MOVE, 1.0), (CYCLE, 1.0 if adjacency == 3 else 2.0)]:
        law, whole = SemiKNorm(0.6, adjacency), LatticeKNorm(0.6, adjacency)
        losses = []
        for _ in range(50):
            values = margins.project(rng.normal(size=(3, 3)) * 8)
            losses.append(law.logp(values, start, margins) - law.logp(values, change, margins))
        for k in (-7, 9):
            losses.append(law.logp(k * change, start, margins) - law.logp(k * change, change, margins))
            losses.append(whole.logp(k * change, start, margins) - whole.logp(k * change, change, margins))
        assert max(losses) == pytest.approx(0.6 * cost, rel=1e-9)
        assert min(losses) == pytest.approx(-0.6 * cost, rel=1e-9)


def test_mass_on_the_lattice() -> None:
    # Ratios of masses by another program; the normaliser is left out where it is not known.
    margins = both_margins(3, 3)
    law = LatticeKNorm(0.9, 3)
    start = np.arange(9).reshape(3, 3)
    vertices = law.hull(margins).vertices
    for weights in product((-2, 0, 3), repeat=2):
        z = weights[0] * MOVE + weights[1] * CYCLE
        expected = -0.9 * gauge_program(vertices, margins.coordinates(z))[0]
        assert law.logp(start + z, start, margins) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert law.log_normaliser(margins) is None
    assert law.logp(start + 0.5 * MOVE, start, margins) == -math.inf
    step = np.zeros((3, 3), dtype=int)
    step[0, 0] = 1
    assert law.logp(start + step, start, margins) == -math.inf
    # 2 x 3: l1 noise of a quarter of the rate; here the normaliser is known, and the masses add up to one.
    small = both_margins(2, 3)
    tables = np.array([[[a, b, -a - b], [-a, -b, a + b]] for a, b in product(range(-30, 31), repeat=2)])
    total = sum(math.exp(law.logp(table, 0 * table, small)) for table in tables)
    assert total == pytest.approx(1.0, abs=1e-9)


def test_listed_vertices_for_any_invariants() -> None:
    crossed = Invariants(LinearQuery({"cell": range(4)}, [[1, 1, 1, 0], [0, 1, 1, 1]], ["left", "right"]))
    steps = np.array([[0, 1, -1, 0], [1, -1, 0, 1], [1, 0, -1, 1]])
    law = LatticeKNorm(1.1, vertices=steps)
    z = 2 * steps[0] + steps[1]
    expected = -1.1 * gauge_program(crossed.coordinates(steps), crossed.coordinates(z))[0]
    assert law.logp(z, 0 * z, crossed) == pytest.approx(expected, rel=1e-9)
    draws = law.draw(np.random.default_rng(1), (4,), 50, crossed, [5, 5, 5, 5])
    assert draws.dtype == np.int64
    assert not np.any(crossed.matrix @ (draws - 5).T)
    assert law.sampler(crossed).exact
    with pytest.raises(ValueError, match="vertices must change no invariant, but vertex 0 does"):
        LatticeKNorm(1.0, vertices=[[1, 0, 0, 0]]).hull(crossed)
    with pytest.raises(ValueError, match=r"vertices must have shape \(m, \*\(4,\)\), got \(1, 3\)"):
        LatticeKNorm(1.0, vertices=[[1, -1, 0]]).hull(crossed)
    with pytest.raises(ValueError, match="vertices must span the space of dimension 2, but they span 1"):
        LatticeKNorm(1.0, vertices=steps[:1]).hull(crossed)


def test_draws_of_large_tables_are_exact_and_said_to_be() -> None:
    margins = both_margins(8, 8)
    for law in (SemiKNorm(1.0, 3), LatticeKNorm(1.0, 3)):
        assert law.sampler(margins).exact
        location = np.arange(64).reshape(8, 8)
        draws = law.draw(np.random.default_rng(3), (8, 8), 3, margins, location) - location
        assert np.max(np.abs(draws.sum(axis=1))) < 1e-9
        assert np.max(np.abs(draws.sum(axis=2))) < 1e-9
        assert draws.dtype == (np.int64 if law.integer else np.float64)
        assert law.draw(np.random.default_rng(3), (8, 8), None, margins).shape == (8, 8)
        again = law.draw(np.random.default_rng(3), (8, 8), 3, margins, location) - location
        assert np.array_equal(draws, again)


def test_descriptions_are_small_and_read_back() -> None:
    for law in (SemiKNorm(0.4, 3), LatticeKNorm(0.4, 3), LatticeKNorm(0.4, vertices=[MOVE, CYCLE])):
        again = NoiseLaw.from_description(json.loads(json.dumps(law.describe())))
        assert again == law
        assert hash(again) == hash(law)
    assert SemiKNorm(0.4, 3).describe() == {"law": "semi-k-norm", "epsilon": 0.4, "adjacency": 3}
    assert LatticeKNorm(0.4, 2).describe() == {"law": "lattice-k-norm", "epsilon": 0.4, "adjacency": 2}
    assert parse_law("semi-k-norm epsilon=0.4 adjacency=3") == SemiKNorm(0.4, 3)
    assert SemiKNorm(0.4, 3) != SemiKNorm(0.4, 2)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="epsilon must be a finite number greater than 0"):
        SemiKNorm(-1.0, 3)
    with pytest.raises(TypeError, match=r"adjacency must be a positive integer, got 2\.5"):
        SemiKNorm(1.0, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="adjacency must be an integer greater than 0, got 0"):
        LatticeKNorm(1.0, 0)
    with pytest.raises(ValueError, match="either adjacency or vertices, and not both"):
        LatticeKNorm(1.0)
    with pytest.raises(ValueError, match="either adjacency or vertices, and not both"):
        LatticeKNorm(1.0, 2, np.array([MOVE]))
    with pytest.raises(ValueError, match="vertices must be tables"):
        LatticeKNorm(1.0, vertices=np.array([1, -1]))
    with pytest.raises(TypeError, match="the law 'semi-k-norm' needs invariants"):
        SemiKNorm(1.0, 3).logp([1.0], [1.0])
    cube = {"a": range(2), "b": range(2), "c": range(2)}
    overlapping = Invariants(Margins(cube, ["a", "b"], ["b", "c"]))
    with pytest.raises(NotImplementedError, match="give its vertices instead"):
        SemiKNorm(1.0, 3).draw(None, (2, 2, 2), 1, overlapping)
