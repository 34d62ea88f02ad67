"""Canonical noise: recursion against closed forms and independent numbers, and the properties of Definition 35."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, hypergeom, kstest, norm

from bayesdp.privacy.canonical import CanonicalNoise, GaussianNoise, RecursiveNoise, Tulap
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import approximate_dp, gaussian_dp, tradeoff

COIN = tradeoff(binom.pmf(range(9), 8, 0.35), binom.pmf(range(9), 8, 0.65))
RESPONSE = tradeoff([0.7, 0.2, 0.1, 0.0], [0.0, 0.2, 0.1, 0.7])
SMOOTH = [approximate_dp(1.0), approximate_dp(0.3, 0.05), approximate_dp(0.0, 0.2), gaussian_dp(0.8)]
PAIRS: list[tuple[TradeOff, CanonicalNoise]] = [
    *((f, f.canonical_noise()) for f in [*SMOOTH, COIN, RESPONSE, approximate_dp(0.5, 1e-3).group(2)]),
    *((f, RecursiveNoise(f)) for f in SMOOTH),
]
X = np.linspace(-9.3, 9.3, 373)


def names(value: object) -> str:
    return repr(value)[:60]


@pytest.mark.parametrize(
    ("epsilon", "delta", "at", "expected"),
    [
        (1.0, 0.0, (-0.5, 0.25, 1, 2.5), (0.26894142137, 0.61552928932, 0.81606027941, 0.96360273657)),
        (1.0, 0.01, (-0.5, 0.25, 1, 2.5), (0.26625200716, 0.61687399642, 0.81973907383, 0.96899885645)),
        # At 1, Lemma 36 gives 1 - f(1/2) = 1 - exp(-0.5) (0.5 - 1e-7), by hand.
        (0.5, 1e-7, (-1, -0.5, 0, 0.5, 1), (0.30326526920, 0.37754063104, 0.5, 0.62245936896, 0.69673473080)),
    ],
)
def test_numbers_computed_elsewhere(epsilon: float, delta: float, at: tuple[float], expected: tuple[float]) -> None:
    f = approximate_dp(epsilon, delta)
    assert f.canonical_noise() == Tulap(epsilon, delta)
    np.testing.assert_allclose(f.canonical_noise().cdf(at), expected, rtol=0, atol=1e-11)
    np.testing.assert_allclose(RecursiveNoise(f).cdf(at), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("f", "expected"),
    [(approximate_dp(1), 0.012274126450), (approximate_dp(1, 0.01), 0.010336811134), (gaussian_dp(1), 0.007901356460)],
    ids=names,
)
def test_p_values_computed_elsewhere(f: TradeOff, expected: float) -> None:
    # Odds ratio 1 against more, rows (50, 50), first column 40, noisy corner 26.4 (paper 003, Theorem 37).
    corner = np.arange(41)
    p_value = hypergeom.pmf(corner, 100, 50, 40) @ f.canonical_noise().cdf(corner - 26.4)
    assert p_value == pytest.approx(expected, abs=1e-12)


def tulap_as_printed(x: np.ndarray, epsilon: float, delta: float) -> np.ndarray:
    """Awan and Slavkovic: discrete Laplace plus uniform, its q/2 tails cut off; for moderate x only."""
    b = math.exp(-epsilon)
    q = 2 * delta * b / (1 - b + 2 * delta * b)
    z = -np.abs(x)
    low = b ** -np.round(z) / (1 + b) * (b + (z - np.round(z) + 0.5) * (1 - b))
    low = np.maximum(low - q / 2, 0) / (1 - q)
    return np.where(x <= 0, low, 1 - low)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.3, 0.05), (3.0, 1e-6), (0.01, 1e-9), (8.0, 0.3)])
def test_recursion_and_both_closed_forms_agree(epsilon: float, delta: float) -> None:
    f = approximate_dp(epsilon, delta)
    closed, recursive = Tulap(epsilon, delta), RecursiveNoise(f)
    np.testing.assert_allclose(closed.cdf(X), tulap_as_printed(X, epsilon, delta), rtol=0, atol=1e-12)
    np.testing.assert_allclose(recursive.cdf(X), closed.cdf(X), rtol=0, atol=1e-12)
    np.testing.assert_allclose(recursive.pdf(X), closed.pdf(X), rtol=1e-11, atol=1e-12)
    levels = np.linspace(0.0, 1.0, 203)[1:-1]
    np.testing.assert_allclose(recursive.ppf(levels), closed.ppf(levels), rtol=1e-9, atol=1e-9)


def test_uniform_noise_without_epsilon() -> None:
    closed, recursive = Tulap(0.0, 0.2), RecursiveNoise(approximate_dp(0.0, 0.2))
    expected = np.clip(0.5 + 0.2 * X, 0, 1)
    np.testing.assert_allclose(closed.cdf(X), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(recursive.cdf(X), expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(recursive.ppf([0.0, 0.3, 1.0]), [-2.5, -1.0, 2.5], rtol=1e-13)


def test_recursion_meets_the_gaussian_at_half_integers() -> None:
    # Canonical noise of mu-GDP is not unique: Lemma 36 is uniform in the centre. Both obey the same recursion.
    for mu in (0.2, 1.0, 3.0):
        assert gaussian_dp(mu).canonical_noise() == GaussianNoise(mu)
        half = np.arange(-8, 8) + 0.5
        np.testing.assert_allclose(
            RecursiveNoise(gaussian_dp(mu)).cdf(half), norm.cdf(mu * half), rtol=1e-10, atol=1e-15
        )
        np.testing.assert_allclose(GaussianNoise(mu).cdf(X), norm.cdf(X, scale=1 / mu), rtol=1e-12)
        np.testing.assert_allclose(GaussianNoise(mu).pdf(X), norm.pdf(X, scale=1 / mu), rtol=1e-12)


@pytest.mark.parametrize(("f", "noise"), PAIRS, ids=names)
def test_canonical_property(f: TradeOff, noise: CanonicalNoise) -> None:
    # Definition 35: F(x - 1) = f(1 - F(x)) for 0 < F(x) < 1, in the increasing convention f(F(x)); F symmetric.
    x = X[(noise.cdf(X) > 0.0) & (noise.sf(X) > 0.0)]
    np.testing.assert_allclose(noise.cdf(x - 1), f(noise.sf(x)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(noise.cdf(x - 3), f.group(3)(noise.sf(x)), rtol=0, atol=1e-12)
    x = x[noise.cdf(x) < 0.99]  # a distribution function near 1 has lost the digits of its tail
    np.testing.assert_allclose(noise.cdf(x - 1), f.increasing(noise.cdf(x)), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(noise.cdf(x - 3), f.group(3).increasing(noise.cdf(x)), rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(noise.cdf(-X), noise.sf(X), rtol=1e-14)
    np.testing.assert_allclose(noise.cdf(X) + noise.sf(X), 1.0, rtol=1e-14)
    assert noise.cdf(0.0) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize(("f", "noise"), PAIRS, ids=names)
def test_smaller_shifts_are_harder_to_tell(f: TradeOff, noise: CanonicalNoise) -> None:
    # Definition 35, 1: for shifts of 0 to 1 no threshold test does better than f allows.
    for shift in (0.1, 0.5, 0.9):
        assert np.all(noise.cdf(X - shift) >= f(noise.sf(X)) - 1e-13)


@pytest.mark.parametrize(("f", "noise"), PAIRS, ids=names)
def test_density_integrates_to_the_distribution(f: TradeOff, noise: CanonicalNoise) -> None:
    edges = np.arange(-4.5, 5.5)
    for low, high in itertools.pairwise(edges):
        inner = np.unique(noise.ppf(_kinks(noise, low, high)))
        cuts = [low, *inner[(inner > low) & (inner < high)], high]
        area = sum(quad(noise.pdf, a, b, epsabs=1e-13, limit=200)[0] for a, b in itertools.pairwise(cuts))
        assert area == pytest.approx(noise.cdf(high) - noise.cdf(low), abs=1e-7)  # small jumps are left to quad


def _kinks(noise: CanonicalNoise, low: float, high: float) -> np.ndarray:
    """Levels at which the density jumps inside a cell, found where it changes by much on a fine grid."""
    x = np.linspace(low, high, 20_001)[1:-1]
    density = noise.pdf(x)
    jumps = np.flatnonzero(np.abs(np.diff(density)) > 1e-3 * density.max())
    return np.clip(noise.cdf(np.concatenate([x[jumps], x[jumps + 1]])), 0, 1)


@pytest.mark.parametrize(("f", "noise"), PAIRS, ids=names)
def test_quantiles_invert_the_distribution(f: TradeOff, noise: CanonicalNoise) -> None:
    levels = np.concatenate([np.linspace(0.0, 1.0, 301)[1:-1], [1e-12, 1e-6]])
    np.testing.assert_allclose(noise.cdf(noise.ppf(levels)), levels, rtol=1e-10, atol=1e-15)
    np.testing.assert_allclose(noise.sf(-noise.ppf(levels)), levels, rtol=1e-10, atol=1e-15)
    inside = (noise.cdf(X) > 1e-9) & (noise.cdf(X) < 0.99)
    np.testing.assert_allclose(noise.ppf(noise.cdf(X[inside])), X[inside], rtol=0, atol=1e-9)


@pytest.mark.parametrize(("f", "noise"), PAIRS, ids=names)
def test_draws_follow_the_law(f: TradeOff, noise: CanonicalNoise) -> None:
    # 11 laws, each with a false alarm of 1e-4 (the seed is fixed).
    draws = noise.rvs(20_000, rng=np.random.default_rng(5))
    assert kstest(draws, noise.cdf).pvalue > 1e-4


def test_shapes_of_draws() -> None:
    assert isinstance(Tulap(1.0).rvs(rng=np.random.default_rng(1)), float)
    assert Tulap(1.0).rvs((2, 3)).shape == (2, 3)
    assert isinstance(Tulap(1.0).cdf(0.3), float)
    assert RecursiveNoise(COIN).pdf(np.zeros((2, 2))).shape == (2, 2)


@pytest.mark.parametrize("noise", [Tulap(1.0), RecursiveNoise(approximate_dp(1.0))], ids=names)
def test_far_tails_keep_their_digits(noise: CanonicalNoise) -> None:
    # For integer k, F(-k) = exp(-k) / 2.
    k = np.array([1.0, 10.0, 300.0, 700.0])
    np.testing.assert_allclose(noise.cdf(-k), 0.5 * np.exp(-k), rtol=1e-12)
    np.testing.assert_allclose(noise.sf(k), 0.5 * np.exp(-k), rtol=1e-12)
    np.testing.assert_allclose(noise.ppf(0.5 * np.exp(-k)), -k, rtol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 600.0, 1e3, 1e4])
def test_nothing_overflows(epsilon: float) -> None:
    # Warnings are errors here.
    x = np.array([-math.inf, -1e4, -1.0, 0.0, 1e4 / epsilon, 1e7, math.inf])
    for delta in (0.0, 1e-7):
        closed = Tulap(epsilon, delta)
        laws = [closed] if not 1 <= epsilon < 700 else [closed, RecursiveNoise(approximate_dp(epsilon, delta))]
        for noise in laws:
            assert np.all(np.diff(noise.cdf(x)) >= 0)
            assert noise.cdf(-math.inf) == 0.0
            assert noise.sf(math.inf) == 0.0
            assert np.all(np.isfinite(noise.pdf(x)))
            ends = noise.ppf([0.0, 5e-324, 1e-300, 1.0])
            assert not np.isnan(ends).any()
            assert (ends[0] == -math.inf) == (delta == 0.0)
    assert np.all(np.isfinite(GaussianNoise(epsilon).pdf([1e200, -1e308])))
    assert GaussianNoise(epsilon).cdf(-1e308) == 0.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Tulap(0.0), ValueError, "epsilon and delta must not both be 0"),
        (lambda: Tulap(1.0, 1.0), ValueError, "delta must be at least 0 and less than 1"),
        (lambda: GaussianNoise(-1.0), ValueError, "mu must be"),
        (lambda: approximate_dp(0.0).canonical_noise(), ValueError, "not both be 0"),
        (lambda: tradeoff([0.5, 0.5], [0.1, 0.9]).canonical_noise(), ValueError, "tradeoff must be symmetric"),
        (lambda: tradeoff([0.5, 0.5], [0.5, 0.5]).canonical_noise(), ValueError, "must differ from 1 - alpha"),
        (lambda: Tulap(1.0).cdf([0.0, math.nan]), ValueError, "x must not be NaN, but entry 1 is"),
        (lambda: Tulap(1.0).ppf(1.1), ValueError, "q must lie between 0 and 1"),
        (lambda: Tulap(1.0).rvs(3, rng=7.0), TypeError, "rng must be an integer seed"),  # type: ignore[arg-type]
        (lambda: Tulap(1.0).cdf("a"), TypeError, "x must hold integers or real numbers"),
    ],
)
def test_bad_arguments_are_named(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]
