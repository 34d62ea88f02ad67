"""Masses by ratio recursion against exact integers, against SciPy, and at the ends of the odds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import binom, hypergeom, nchypergeom_fisher

from bayesdp.significance._families import Binomial, Family, Hypergeometric


def exactly(family: Family, odds: Fraction) -> dict[int, float]:
    """Masses from binomial coefficients, in rational numbers."""
    if isinstance(family, Hypergeometric):
        weights = {
            x: math.comb(family.r1, x) * math.comb(family.r2, family.c1 - x) * odds**x
            for x in range(max(0, family.c1 - family.r2), min(family.r1, family.c1) + 1)
        }
    else:
        assert isinstance(family, Binomial)
        weights = {x: math.comb(family.n, x) * odds**x for x in range(family.n + 1)}
    total = sum(weights.values())
    return {x: float(weight / total) for x, weight in weights.items()}


MARGINS = [(50, 50, 40), (3, 9, 10), (9, 3, 10), (1, 1, 1), (7, 0, 4), (0, 5, 2), (5, 6, 0), (5, 6, 11), (200, 31, 77)]
FAMILIES = [*(Hypergeometric(*own) for own in MARGINS), Binomial(1), Binomial(30), Binomial(301)]


@pytest.mark.parametrize("odds", [Fraction(1), Fraction(1, 50), Fraction(7, 2), Fraction(10**9)], ids=str)
@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_masses_are_those_of_exact_arithmetic(family: Family, odds: Fraction) -> None:
    law, exact = family.masses(math.log(odds)), exactly(family, odds)
    assert min(exact) == family.low
    assert max(exact) == family.high
    found = dict(zip(law.points.tolist(), law.weights.tolist(), strict=True))
    assert set(found) <= set(exact)
    for x, mass in exact.items():
        assert found.get(x, 0.0) == pytest.approx(mass, rel=2e-12, abs=1e-290)
    assert law.mean == pytest.approx(sum(x * mass for x, mass in exact.items()), rel=1e-12)


@pytest.mark.parametrize("margins", [(60, 40, 30), (400, 900, 500)])
@pytest.mark.parametrize("odds", [1.0, 0.3, 5.0])
def test_masses_are_those_of_scipy(margins: tuple[int, int, int], odds: float) -> None:
    r1, r2, c1 = margins
    law = Hypergeometric(*margins).masses(math.log(odds))
    kept = law.weights > 1e-12
    expected = nchypergeom_fisher(r1 + r2, r1, c1, odds).pmf(law.points[kept])
    np.testing.assert_allclose(law.weights[kept], expected, rtol=1e-7)  # SciPy's own accuracy


def test_large_counts_against_scipy() -> None:
    law = Hypergeometric(5000, 4000, 3000).masses(0.0)
    kept = law.weights > 1e-20
    np.testing.assert_allclose(law.weights[kept], hypergeom(9000, 5000, 3000).pmf(law.points[kept]), rtol=1e-9)
    many = Binomial(10**6).masses(math.log(0.3 / 0.7))
    kept = many.weights > 1e-20
    np.testing.assert_allclose(many.weights[kept], binom(10**6, 0.3).pmf(many.points[kept]), rtol=1e-8)


@pytest.mark.parametrize(("margins", "tolerance"), [((10**4, 9000, 8000), 1e-13), ((10**6, 10**6, 10**6), 5e-12)])
def test_rounding_stays_small_with_large_margins(margins: tuple[int, int, int], tolerance: float) -> None:
    # The mode and a point six standard deviations off, from log-factorials with 200 digits.
    r1, r2, c1 = margins
    family = Hypergeometric(*margins)
    law = family.masses(0.0)
    sd = math.sqrt(float(law.weights @ (law.points - law.mean) ** 2))
    digits = ctx.dps
    ctx.dps = 200
    try:

        def log_choose(n: int, k: int) -> arb:
            return arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()

        for x in (round(law.mean), round(law.mean + 6 * sd)):
            exact = (log_choose(r1, x) + log_choose(r2, c1 - x) - log_choose(r1 + r2, c1)).exp()
            assert law.weights[x - law.first] == pytest.approx(float(exact), rel=tolerance)
    finally:
        ctx.dps = digits


@pytest.mark.parametrize("log_odds", [-math.inf, -1e6, 1e6, math.inf])
def test_extreme_odds_put_all_mass_at_an_end(log_odds: float) -> None:
    law = Hypergeometric(10**6, 2 * 10**6, 2_500_000).masses(log_odds)
    assert law.weights.max() == 1.0
    assert law.points[law.weights.argmax()] == (10**6 if log_odds > 0 else 500_000)
