"""Definition 8, Proposition 11, Proposition 15, Corollary 18, Lemma 34 and Remark 33 of Cho and Awan, each against an oracle."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.stats import norm

from bayesdp.fibers import Fiber, enumerate_fiber, nearest_table
from bayesdp.measurements import Exact
from bayesdp.papers.semi_dp import full_characterization, margin_guarantee, private_test, semi_guarantee
from bayesdp.polytopes import SymmetricHull
from bayesdp.privacy import SensitivitySpace, approximate_dp, conforming_pairs, gaussian_dp, semi_adjacency
from bayesdp.privacy.tradeoffs.base import DiscretePair, TradeOff
from bayesdp.queries import LinearQuery, Margins, Totals

PAIR = {"group": ["a", "b"], "success": ["yes", "no"]}
CUBE = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
LEVELS = np.linspace(0.0, 1.0, 401)


def fiber_of(table: object, *queries: object) -> Fiber:
    return Fiber.of([Exact(query, query.apply(np.asarray(table))) for query in queries])


# ------------------------------------------------------------------------------------------------------------ Definition 8


def containment(first: SymmetricHull, second: SymmetricHull) -> float:
    """The least r with the first ball in r times the second: the largest norm of a vertex by the second."""
    return float(np.max(second.gauge(first.vertices)))


def test_containment_of_the_usual_balls_in_closed_form() -> None:
    for n in (2, 3, 4):
        diamond = SymmetricHull(np.eye(n))
        cube = SymmetricHull(np.array([(1.0, *rest) for rest in product([-1.0, 1.0], repeat=n - 1)]))
        assert (containment(diamond, cube), containment(cube, diamond)) == pytest.approx((1.0, n))
        stretched = SymmetricHull(np.diag([2.0, *([0.5] * (n - 1))]))
        assert min(containment(diamond, stretched), containment(stretched, diamond)) > 1.0  # neither holds the other


def test_containment_as_points_see_it() -> None:
    rng = np.random.default_rng(1)
    for _ in range(40):
        first, second = (SymmetricHull(rng.normal(size=(4, 2)) * scale) for scale in (1.0, rng.choice([0.3, 1.0, 3.0])))
        angle = np.linspace(0.0, np.pi, 20001)
        points = np.column_stack([np.cos(angle), np.sin(angle)])
        # A point on the boundary of the first ball has this norm by the second.
        assert np.max(second.gauge(points) / first.gauge(points)) == pytest.approx(containment(first, second), rel=0.02)


def test_the_hull_of_the_sensitivity_space_is_preferred_over_all_others() -> None:
    space = SensitivitySpace.semi(Margins({"r": [0, 1, 2], "c": [0, 1, 2]}, ["r"], ["c"]), 3)
    differences = space.coordinates(space.differences)
    rng = np.random.default_rng(2)
    for _ in range(10):
        other = SymmetricHull(rng.normal(size=(12, 4)))
        assert containment(space.hull, other) <= np.max(other.gauge(differences)) * (1 + 1e-9)


# ---------------------------------------------------------------------------- Propositions 11 and 15, Corollary 18


def of_outcomes(p: np.ndarray, q: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Trade-off of two laws on the same outcomes, by the lemma of Neyman and Pearson."""
    order = np.argsort(-(q / p))
    a, power = (np.concatenate([[0.0], np.cumsum(own[order])]) for own in (p, q))
    return 1.0 - np.interp(alpha, a, power)


@pytest.mark.parametrize("apart", [0, 1, 2, 3])
def test_proposition_11_holds_for_a_mechanism_and_is_attained(apart: int) -> None:
    table, other = [[5, 3], [1, 2]], [[5 - apart, 3], [1, 2 + apart]]
    mu = 0.7
    bound = full_characterization(gaussian_dp(mu), table, other)
    inner = LEVELS[1:-1]
    assert np.allclose(
        bound(inner), norm.cdf(norm.isf(inner) - apart * mu), atol=1e-12
    )  # the Gaussian mechanism, exactly
    # Geometric noise on one count, by all its outcomes.
    epsilon, outcomes = 0.6, np.arange(-80, 90)
    laws = [np.exp(-epsilon * np.abs(outcomes - own[0][0])) for own in (table, other)]
    p, q = (own / own.sum() for own in laws)
    pure = full_characterization(approximate_dp(epsilon), table, other)
    assert np.all(of_outcomes(p, q, LEVELS) >= pure(LEVELS) - 1e-9)


def test_proposition_11_is_about_tables_that_are_apart() -> None:
    assert full_characterization(gaussian_dp(1.0), [[2, 0], [0, 1]], [[1, 1], [1, 0]]) == gaussian_dp(2.0)
    with pytest.raises(ValueError, match="their totals differ"):
        full_characterization(gaussian_dp(1.0), [2, 1], [2, 0])
    assert full_characterization(gaussian_dp(1.0), [2, 1], [2, 0], "add-remove") == gaussian_dp(1.0)
    with pytest.raises(TypeError, match="tradeoff must be a trade-off function"):
        full_characterization(1.0, [2, 1], [2, 0])


def test_corollary_18_and_proposition_15_for_every_pair_of_tables() -> None:
    queries = [Margins(CUBE, [name]) for name in "abc"]
    table = np.array([[[1, 0], [1, 1]], [[0, 1], [0, 1]]])
    fiber = fiber_of(table, *queries)
    f = gaussian_dp(0.5)
    stated, sharper = margin_guarantee(f, fiber), semi_guarantee(f, fiber)
    own = semi_adjacency(fiber)
    assert stated.adjacency == sharper.adjacency == own.worst
    assert (stated.tradeoff, sharper.tradeoff) == (gaussian_dp(0.5 * 4), gaussian_dp(0.5 * own.worst))
    pairs = conforming_pairs(fiber, stated.adjacency)
    assert len(pairs) > 20
    for x, y in pairs:
        true = full_characterization(f, x, y)
        for bound in (stated, sharper):
            assert np.all(true(LEVELS) >= bound.tradeoff(LEVELS) - 1e-12)


def test_guarantees_say_where_there_is_none() -> None:
    f = gaussian_dp(0.5)
    overlapping = fiber_of(np.ones((2, 2, 2), dtype=int), Margins(CUBE, ["a", "b"], ["b", "c"]))
    with pytest.raises(ValueError, match="must be one-way margins"):
        margin_guarantee(f, overlapping)
    assert semi_guarantee(f, overlapping).adjacency == semi_adjacency(overlapping).worst
    alone = fiber_of([[3, 0], [0, 0]], Margins(PAIR, ["group"], ["success"]))
    for state in (margin_guarantee, semi_guarantee):
        with pytest.raises(ValueError, match="nothing left to protect"):
            state(f, alone)
    open_ = Fiber.of([Exact(LinearQuery(PAIR, [[1, 0, 0, 0]], ["first"]), [3])])
    with pytest.raises(ValueError, match="no known semi-adjacent parameter"):
        semi_guarantee(f, open_)


# ----------------------------------------------------------------------------------------------------------- Lemma 34


def binary_tradeoff(p: float, q: float, alpha: np.ndarray) -> np.ndarray:
    """Trade-off of a coin of p against one of q: the four tests without chance, and straight lines between them."""
    corners = sorted({(0.0, 1.0), (1.0, 0.0), (p, 1.0 - q), (1.0 - p, q)})
    best = np.ones_like(alpha)
    for (a, b), (c, d) in product(corners, repeat=2):
        if a < c:
            on = (alpha >= a) & (alpha <= c)
            best[on] = np.minimum(best[on], b + (d - b) * (alpha[on] - a) / (c - a))
    return best


SKEW: TradeOff = DiscretePair(0.0, (0.1, 0.9), (0.5, 0.5))
"""A trade-off function that is not symmetric."""


@pytest.mark.parametrize("f", [approximate_dp(0.8), approximate_dp(0.3, 0.1), gaussian_dp(0.7), SKEW], ids=str)
def test_lemma_34_against_the_trade_off_of_the_outcome(f: TradeOff) -> None:
    fiber = fiber_of([[2, 1], [1, 2]], Margins(PAIR, ["group"], ["success"]))
    rng = np.random.default_rng(3)
    pairs = conforming_pairs(fiber, 2)
    assert len(pairs) == 3
    seen = []
    grid = np.linspace(0.0, 1.0, 2001)
    for _ in range(60):
        phi = 0.5 + rng.choice([0.1, 0.3, 0.9]) * (rng.random(4) - 0.5)
        found = private_test(lambda x, phi=phi: phi[x[0, 0]], f, fiber, 2)
        gap = max(
            float(np.max(f(grid) - binary_tradeoff(phi[x[0, 0]], phi[y[0, 0]], grid)))
            for one in pairs
            for x, y in (one, one[::-1])
        )
        if abs(found.excess) > 2e-3:
            assert found.private == (gap <= 1e-9)
        seen.append(found.private)
        assert found.pairs == 6
        x, y = found.pair
        assert found.excess == phi[x[0, 0]] - min(g.power(phi[y[0, 0]]) for g in (f, f.inverse()))
    assert 3 < sum(seen) < 57


def test_lemma_34_as_printed_needs_a_symmetric_function() -> None:
    """Both printed inequalities hold, and the outcome is yet told apart better than f allows."""
    p, q = 0.02, 0.09
    assert p <= SKEW.power(q)
    assert q <= SKEW.power(p)
    grid = np.linspace(0.0, 1.0, 2001)
    assert min(np.min(binary_tradeoff(*own, grid) - SKEW(grid)) for own in ((p, q), (q, p))) < -0.01
    fiber = fiber_of([1, 0], Totals({"cell": ["u", "v"]}))
    assert not private_test(lambda x: (p, q)[x[0]], SKEW, fiber, 1).private


def test_private_test_refuses() -> None:
    fiber = fiber_of([1, 0], Totals({"cell": ["u", "v"]}))
    with pytest.raises(ValueError, match="must return a probability"):
        private_test(lambda x: 1.5, gaussian_dp(1.0), fiber, 1)
    with pytest.raises(TypeError, match="test must be a function"):
        private_test(0.5, gaussian_dp(1.0), fiber, 1)
    alone = fiber_of([[3, 0], [0, 0]], Margins(PAIR, ["group"], ["success"]))
    found = private_test(lambda x: 1.0, gaussian_dp(1.0), alone, 3)
    assert found.private
    assert (found.pair, found.pairs, found.excess) == (None, 0, -math.inf)


# ----------------------------------------------------------------------------------------------------------- Remark 33


def test_the_nearest_table_by_all_tables() -> None:
    rng = np.random.default_rng(4)
    square = {"r": [0, 1, 2], "c": [0, 1]}
    corner = LinearQuery(square, [[1, 0, 0, 0, 0, 0]], ["corner"])
    kinds = [
        (square, [Margins(square, ["r"], ["c"])], []),
        (square, [Totals(square)], []),
        (CUBE, [Margins(CUBE, ["a", "b"], ["b", "c"], ["a", "c"])], []),
        (CUBE, [Margins(CUBE, ["a", "b"], ["b", "c"])], []),
        (square, [LinearQuery(square, [[1, 2, 1, 1, 3, 1]], ["weights"])], []),
        (square, [Margins(square, ["r"], ["c"])], [(corner, [1], ">=")]),
        (square, [Totals(square)], [(corner, [1], "<=")]),
        (square, [Totals(square)], [(corner, [0], "=")]),
    ]
    for frame, queries, more in kinds:
        shape = tuple(len(own) for own in frame.values())
        for round_ in range(4):
            table = rng.integers(0, 3, size=shape)
            if more:
                table.reshape(-1)[0] = more[0][1][0]
            limits = [Exact(query, values, sign=sign) for query, values, sign in more]
            fiber = Fiber.of([*(Exact(query, query.apply(table)) for query in queries), *limits])
            noisy = table + (rng.normal(scale=3.0, size=shape) if round_ % 2 else rng.integers(-4, 5, size=shape))
            found = nearest_table(fiber, noisy)
            assert fiber.contains(found)
            tables = enumerate_fiber(fiber)
            least = np.abs(tables - noisy).reshape(len(tables), -1).sum(axis=1).min()
            assert np.abs(found - noisy).sum() == pytest.approx(least, abs=1e-9)
            assert np.array_equal(nearest_table(fiber, table), table)


def test_the_nearest_table_of_real_size() -> None:
    rng = np.random.default_rng(5)
    frame = {"r": list(range(60)), "c": list(range(40))}
    table = rng.poisson(2.0, size=(60, 40))
    fiber = fiber_of(table, Margins(frame, ["r"], ["c"]))
    noisy = table + rng.normal(scale=4.0, size=table.shape)
    found = nearest_table(fiber, noisy)
    assert fiber.contains(found)
    assert np.abs(found - noisy).sum() <= np.abs(table - noisy).sum()


def test_nearest_table_refuses() -> None:
    fiber = fiber_of([[2, 1], [1, 2]], Margins(PAIR, ["group"], ["success"]))
    with pytest.raises(ValueError, match=r"values must have shape \(2, 2\)"):
        nearest_table(fiber, [1.0, 2.0])
    with pytest.raises(ValueError, match="values"):
        nearest_table(fiber, [[np.nan, 1.0], [1.0, 1.0]])
    with pytest.raises(TypeError, match="fiber must be a Fiber"):
        nearest_table(Margins(PAIR, ["group"]), [[1, 1], [1, 1]])
