"""The K-norm law of Semi-DP: closed forms, what they promise, and how files describe them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.noise import KNorm, NoiseLaw, SemiKNorm, parse_law
from bayesdp.queries import Margins, Totals
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


@pytest.mark.parametrize("adjacency", [2, 3])
def test_what_it_promises(adjacency: int) -> None:
    # The loss between tables that differ by so many records is epsilon at most, and is attained.
    margins = both_margins(3, 3)
    start = np.zeros((3, 3))
    rng = np.random.default_rng(2)
    for change, cost in [(MOVE, 1.0), (CYCLE, 1.0 if adjacency == 3 else 2.0)]:
        law = SemiKNorm(0.6, adjacency)
        losses = []
        for _ in range(50):
            values = margins.project(rng.normal(size=(3, 3)) * 8)
            losses.append(law.logp(values, start, margins) - law.logp(values, change, margins))
        for k in (-7, 9):
            losses.append(law.logp(k * change, start, margins) - law.logp(k * change, change, margins))
        assert max(losses) == pytest.approx(0.6 * cost, rel=1e-9)
        assert min(losses) == pytest.approx(-0.6 * cost, rel=1e-9)


def test_draws_of_large_tables_are_exact_and_said_to_be() -> None:
    margins, law, location = both_margins(8, 8), SemiKNorm(1.0, 3), np.arange(64).reshape(8, 8)
    assert law.sampler(margins).exact
    draws = law.draw(np.random.default_rng(3), (8, 8), 3, margins, location) - location
    assert np.max(np.abs(draws.sum(axis=1))) < 1e-9
    assert np.max(np.abs(draws.sum(axis=2))) < 1e-9
    assert law.draw(np.random.default_rng(3), (8, 8), None, margins).shape == (8, 8)
    again = law.draw(np.random.default_rng(3), (8, 8), 3, margins, location) - location
    assert np.array_equal(draws, again)


def test_descriptions_are_small_and_read_back() -> None:
    law = SemiKNorm(0.4, 3)
    again = NoiseLaw.from_description(json.loads(json.dumps(law.describe())))
    assert again == law
    assert hash(again) == hash(law)
    assert SemiKNorm(0.4, 3).describe() == {"law": "semi-k-norm", "epsilon": 0.4, "adjacency": 3}
    assert parse_law("semi-k-norm epsilon=0.4 adjacency=3") == SemiKNorm(0.4, 3)
    assert SemiKNorm(0.4, 3) != SemiKNorm(0.4, 2)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="epsilon must be a finite number greater than 0"):
        SemiKNorm(-1.0, 3)
    with pytest.raises(TypeError, match=r"adjacency must be a positive integer, got 2\.5"):
        SemiKNorm(1.0, 2.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="adjacency must be an integer greater than 0, got 0"):
        SemiKNorm(1.0, 0)
    with pytest.raises(TypeError, match="the law 'semi-k-norm' needs invariants"):
        SemiKNorm(1.0, 3).logp([1.0], [1.0])
    cube = {"a": range(2), "b": range(2), "c": range(2)}
    overlapping = Invariants(Margins(cube, ["a", "b"], ["b", "c"]))
    with pytest.raises(NotImplementedError, match="give its vertices instead"):
        SemiKNorm(1.0, 3).draw(None, (2, 2, 2), 1, overlapping)
