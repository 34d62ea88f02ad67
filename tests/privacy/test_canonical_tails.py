"""Logarithms and moments of canonical noise, against closed forms, SciPy, 50-digit arithmetic and quadrature."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, dlaplace, norm

from bayesdp.privacy import CanonicalNoise, approximate_dp, gaussian_dp, tradeoff
from bayesdp.privacy.canonical import GaussianNoise, RecursiveNoise, Tulap

COIN = tradeoff(binom.pmf(range(6), 5, 0.3), binom.pmf(range(6), 5, 0.7))
LAWS = [
    Tulap(1.0),
    Tulap(0.5, 1e-7),
    Tulap(0.0, 0.1),
    Tulap(0.3, 0.05),
    GaussianNoise(0.8),
    RecursiveNoise(approximate_dp(1.0)),
    RecursiveNoise(approximate_dp(0.3, 0.05)),
    RecursiveNoise(gaussian_dp(0.8)),
    RecursiveNoise(COIN),
    RecursiveNoise(COIN.group(2)),
    RecursiveNoise(tradeoff([0.6, 0.3, 0.1], [0.1, 0.3, 0.6])),
]
names = [repr(law)[:60] for law in LAWS]
X = np.linspace(-6.0, 6.0, 241) + 0.003


@pytest.mark.parametrize("law", LAWS, ids=names)
def test_logarithms_are_those_of_the_probabilities(law: CanonicalNoise) -> None:
    for log, plain in ((law.logcdf, law.cdf), (law.logpdf, law.pdf)):
        value = plain(X)
        assert np.all(np.isneginf(log(X)[value == 0.0]))
        inside = value > 1e-12  # below, at the ends of a bounded support, the probability itself has few digits
        np.testing.assert_allclose(log(X)[inside], np.log(value[inside]), rtol=1e-9, atol=1e-12)
        assert isinstance(log(0.3), float)
    np.testing.assert_array_equal(law.logcdf([-math.inf, math.inf]), [-math.inf, 0.0])
    np.testing.assert_array_equal(law.logpdf([-math.inf, math.inf]), [-math.inf, -math.inf])


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 30.0, 1e4])
def test_far_tails_of_pure_noise_are_finite_and_exact(epsilon: float) -> None:
    # For integer k, F(-k) = exp(-k epsilon) / 2, and the density there is (1 - b) / (1 + b) exp(-k epsilon).
    k = np.unique(np.ceil(np.array([1.0, 1e2, 1e3, 1e4]) / epsilon))
    noise = Tulap(epsilon)
    np.testing.assert_allclose(noise.logcdf(-k), -k * epsilon - math.log(2.0), rtol=1e-13)
    np.testing.assert_allclose(noise.logpdf(k), -k * epsilon + math.log(math.tanh(epsilon / 2)), rtol=1e-12)
    if epsilon <= 30.0:
        np.testing.assert_allclose(RecursiveNoise(approximate_dp(epsilon)).logcdf(-k), noise.logcdf(-k), rtol=1e-9)


def test_far_tails_of_a_coin_follow_its_last_segment() -> None:
    # The last segment of the symmetric coin has slope (3/7)**5: each step of 1 multiplies the tail by it, in the end.
    noise = COIN.canonical_noise()
    log = noise.logcdf(np.array([-50.0, -51.0, -1e4, -1e4 - 1.0]))
    assert np.all(np.isfinite(log))
    np.testing.assert_allclose(np.diff(log)[[0, 2]], 5 * math.log(3 / 7), rtol=1e-9)


def test_far_tails_of_gaussian_noise() -> None:
    x = np.array([-1e4, -300.0, -3.0, 0.2])
    np.testing.assert_allclose(GaussianNoise(0.8).logcdf(x), norm.logcdf(0.8 * x), rtol=1e-12)
    np.testing.assert_allclose(GaussianNoise(0.8).logpdf(x), norm.logpdf(x, scale=1 / 0.8), rtol=1e-12)


def test_truncated_tail_against_fifty_digits() -> None:
    # F(z) = b F(z + 1) - delta b, from the centre down (Lemma 36 for f_{epsilon, delta}).
    with localcontext(prec=50):
        epsilon, delta = Decimal("0.5"), Decimal("1e-7")
        b = (-epsilon).exp()
        c = (1 - delta) * b / (1 + b)
        value = c + (1 - 2 * c) * Decimal("0.3")  # F(-1/2 + 0.3)
        expected = []
        for _ in range(28):
            expected.append(float(value.ln()))
            value = b * (value - delta)
    at = -0.2 - np.arange(28.0)
    np.testing.assert_allclose(Tulap(0.5, 1e-7).logcdf(at), expected, rtol=1e-9)
    np.testing.assert_allclose(Tulap(0.5, 1e-7).cdf(1.0), 0.69673473080, rtol=0, atol=5e-12)
    assert Tulap(0.5, 1e-7).logcdf(-1e9) == -math.inf


@pytest.mark.parametrize("epsilon", [1e-3, 0.2, 1.0, 5.0, 800.0])
def test_variance_of_pure_noise_is_discrete_laplace_plus_uniform(epsilon: float) -> None:
    # SciPy overflows at 800, where the discrete part is constant.
    discrete = float(dlaplace(epsilon).var()) if epsilon < 100 else 0.0
    assert Tulap(epsilon).var() == pytest.approx(discrete + 1 / 12, rel=1e-8)


@pytest.mark.parametrize("law", LAWS, ids=names)
def test_variance_is_the_integral(law: CanonicalNoise) -> None:
    end = min(law.support()[1], 60.0)
    f = getattr(law, "tradeoff", None)
    kinks = np.empty(0) if f is None else np.asarray(law.ppf(1.0 - f._kinks()))
    offsets = np.unique(np.round(np.concatenate([[0.5], kinks % 1.0, -kinks % 1.0]), 12))
    edges = np.unique(np.clip([0.0, end, *(k + o for k in range(61) for o in offsets)], 0.0, end))
    nodes, weights = np.polynomial.legendre.leggauss(30)  # between jumps of the density
    centre, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    x = centre[:, None] + half[:, None] * nodes
    area = float(np.sum(half[:, None] * weights * x * x * law.pdf(x)))
    assert law.var() == pytest.approx(2.0 * area, rel=1e-8)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-9, 1e-7), (2e-7, 1e-7), (1e-5, 1e-9), (1e-3, 0.3)])
def test_variance_with_a_great_many_cells(epsilon: float, delta: float) -> None:
    # Nearly continuous: density proportional to exp(-epsilon |x|) on the support, or so many cells are added up.
    law = Tulap(epsilon, delta)
    end = law.support()[1]
    if end > 1e4:
        t = epsilon * end
        inner = quad(lambda u: u * u * math.exp(-t * u), 0, 1, epsabs=0)[0]
        mass = quad(lambda u: math.exp(-t * u), 0, 1, epsabs=0)[0]
        assert law.var() == pytest.approx(end**2 * inner / mass, rel=1e-5)
    else:
        assert law.var() == pytest.approx(
            quad(lambda x: 2 * x * x * law.pdf(x), 0, end, points=[0.5, 1.5])[0], rel=1e-9
        )


def test_support() -> None:
    assert Tulap(1.0).support() == (-math.inf, math.inf)
    low, high = Tulap(0.5, 0.01).support()
    assert low == -high
    assert Tulap(0.5, 0.01).sf(high) == pytest.approx(0.0, abs=1e-15)
    assert Tulap(0.5, 0.01).sf(high - 1e-3) > 0.0
