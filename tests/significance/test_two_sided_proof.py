"""docs/TWO-SIDED-TEST.md, step by step, on random tests that satisfy the privacy constraint, the size and unbiasedness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import linprog

from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff
from bayesdp.significance import umpu_odds_ratio

TRADEOFFS = [
    approximate_dp(1.0),
    approximate_dp(0.4, 0.05),
    approximate_dp(0.0, 0.2),
    gaussian_dp(0.8),
    tradeoff([0.6, 0.25, 0.1, 0.05], [0.05, 0.1, 0.25, 0.6]),
]
MARGINS = (9, 8, 7)
SLACK = 1e-10


def corners() -> np.ndarray:
    r1, r2, c1 = MARGINS
    return np.arange(max(0, c1 - r2), min(r1, c1) + 1)


def masses(odds_ratio: float) -> np.ndarray:
    r1, r2, c1 = MARGINS
    weights = [math.comb(r1, int(x)) * math.comb(r2, c1 - int(x)) * odds_ratio ** float(x) for x in corners()]
    return np.array(weights) / math.fsum(weights)


def private(f: TradeOff, wanted: np.ndarray) -> np.ndarray:
    """The largest test below `wanted` that satisfies the constraint: the constraint, over and over, until nothing changes."""
    phi = wanted.copy()
    while True:
        power = np.asarray(f.power(phi))
        right, left = np.append(power[1:], 1.0), np.insert(power[:-1], 0, 1.0)
        lower = np.minimum(phi, np.minimum(left, right))
        if np.array_equal(lower, phi):
            return phi
        phi = lower


def unbiased_tests(f: TradeOff, alpha: float, rng: np.random.Generator, number: int) -> list[np.ndarray]:
    """Convex combinations of random private tests (the constraint is convex) with the size alpha and no covariance with x."""
    p, x = masses(1.0), corners()
    found = []
    while len(found) < number:
        shapes = [rng.random(x.size) ** rng.uniform(0.2, 6.0) for _ in range(12)]
        shapes += [np.where(rng.random(x.size) < 0.5, 1.0, 0.0) * rng.random() for _ in range(12)]
        candidates = np.array([private(f, shape) for shape in shapes] + [np.zeros(x.size), np.ones(x.size)])
        sums = np.array([np.ones(len(candidates)), candidates @ p, candidates @ (p * (x - p @ x))])
        weights = linprog(rng.normal(size=len(candidates)), A_eq=sums, b_eq=[1.0, alpha, 0.0])
        if weights.status == 0:
            found.append(weights.x @ candidates)
    return found


@pytest.mark.parametrize("f", TRADEOFFS, ids=repr)
@pytest.mark.parametrize("alpha", [0.05, 0.3, 0.8])
def test_each_step_of_the_proof(f: TradeOff, alpha: float) -> None:
    rng = np.random.default_rng(1806)
    x, p = corners(), masses(1.0)
    rule = umpu_odds_ratio(alpha, rows=MARGINS[:2], column=MARGINS[2], tradeoff=f, alternative="two-sided")
    best = rule.probability(x)
    # Step 1, and the equality that step 3 uses: outwards of the centre, where the value is not 0.
    assert np.all(best[1:] <= f.power(best[:-1]) + SLACK)
    assert np.all(best[:-1] <= f.power(best[1:]) + SLACK)
    right, left = (x[:-1] >= rule.centre) & (best[:-1] > SLACK), (x[1:] <= rule.centre) & (best[1:] > SLACK)
    np.testing.assert_allclose(best[1:][right], np.asarray(f.power(best[:-1]))[right], atol=SLACK)
    np.testing.assert_allclose(best[:-1][left], np.asarray(f.power(best[1:]))[left], atol=SLACK)
    patterns = set()
    for phi in unbiased_tests(f, alpha, rng, 25):
        assert np.all(phi[1:] <= f.power(phi[:-1]) + SLACK)
        assert np.all(phi[:-1] <= f.power(phi[1:]) + SLACK)
        d = best - phi
        # Step 2.
        assert abs(d @ p) < SLACK
        assert abs(d @ (p * x)) < SLACK * x.size
        # Steps 3 and 4: plus, minus, plus; nothing else, unless the tests are the same.
        signs = np.sign(d[np.abs(d) > 1e-8])
        kept = signs[np.insert(np.diff(signs) != 0, 0, True)] if signs.size else signs
        patterns.add(tuple(kept.tolist()))
        for odds_ratio in (0.02, 0.4, 0.9, 1.5, 30.0):
            assert masses(odds_ratio) @ d >= -SLACK
    assert patterns <= {(), (1.0, -1.0, 1.0)}
    assert (1.0, -1.0, 1.0) in patterns


def test_a_test_of_another_form_fails_a_step() -> None:
    """The pattern of signs is not automatic: the noisy test, of the same size and unbiased, has no plus at the ends."""
    from bayesdp.significance import unbiased_odds_ratio

    x, f = corners(), approximate_dp(1.0)
    given = {"rows": MARGINS[:2], "column": MARGINS[2], "tradeoff": f}
    noisy = unbiased_odds_ratio(0.3, **given).probability(x)  # type: ignore[arg-type]
    best = umpu_odds_ratio(0.3, **given, alternative="two-sided").probability(x)  # type: ignore[arg-type]
    d = noisy - best
    signs = np.sign(d[np.abs(d) > 1e-8])
    assert tuple(signs[np.insert(np.diff(signs) != 0, 0, True)].tolist()) == (-1.0, 1.0, -1.0)
