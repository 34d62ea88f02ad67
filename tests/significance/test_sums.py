"""Laws of sums: against closed forms, enumeration of masses, and inverted characteristic functions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import laplace, nchypergeom_fisher, norm

from bayesdp.privacy.canonical import GaussianNoise, Tulap
from bayesdp.significance._families import FamilySum, Hypergeometric, Noise
from bayesdp.significance.corners import (
    LaplaceNoise,
    WholeNoise,
    discrete_gaussian,
    is_whole,
    noise_of_sum,
)

X = np.linspace(-25.0, 25.0, 41)


def geometric(epsilon: float, reach: int) -> np.ndarray:
    mass = np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1)))
    return np.asarray(mass / mass.sum())


def test_whole_noise_is_enumerated() -> None:
    """Masses of J1 + 3 J2, pair by pair, and the uniform by a linear piece."""
    found = noise_of_sum([Tulap(0.5), discrete_gaussian(2.0)], [1.0, 3.0])
    assert isinstance(found, WholeNoise)
    one, two = geometric(0.5, 400), np.exp(-0.125 * np.arange(-60, 61) ** 2)
    two /= two.sum()
    total = np.zeros(2 * (400 + 180) + 1)
    for k, mass in enumerate(two):
        total[3 * k : 3 * k + one.size] += mass * one
    places = np.arange(-580, 581)
    expected = [total @ np.clip(x - places + 0.5, 0.0, 1.0) for x in X]
    np.testing.assert_allclose(found.cdf(X), expected, rtol=1e-11)
    assert found.cdf([-1e300, np.inf]).tolist() == [0.0, 1.0]


def test_one_tulap_noise_is_itself_and_its_tail_keeps_its_digits() -> None:
    found = noise_of_sum([Tulap(0.3)], [1.0])
    np.testing.assert_allclose(found.cdf([-0.3, -40.2, -500.0]), Tulap(0.3).cdf([-0.3, -40.2, -500.0]), rtol=1e-12)
    # Two sides of one geometric law: P(J1 + J2 = j) = t**2 r**|j| (|j| + (1 + r**2) / (1 - r**2)), t = (1 - r) / (1 + r).
    r = math.exp(-0.3)
    both = noise_of_sum([Tulap(0.3), Tulap(0.3)], [1.0, 1.0])
    assert isinstance(both, WholeNoise)
    for j in (0, 1, 7, 200):
        exact = ((1 - r) / (1 + r)) ** 2 * r**j * (j + (1 + r * r) / (1 - r * r))
        assert both.mass[j] == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("terms", [1, 2, 3, 4, 12])
def test_sums_of_laplace_noise(terms: int) -> None:
    own = LaplaceNoise(1.7, terms)
    for at in (0.3, 4.0):
        # The characteristic function is (1 + b**2 t**2)**-terms; beyond the end it adds less than 1e-9 for two or more.
        end = 60.0 if terms > 2 else 3000.0
        integral = quad(
            lambda t, at=at: np.sinc(t * at / np.pi) * at * (1 + (1.7 * t) ** 2) ** -terms, 0, end, limit=6000
        )[0]
        assert own.cdf(at) == pytest.approx(0.5 + integral / np.pi, abs=1e-9 if terms > 1 else 1e-4)
    if terms == 1:
        np.testing.assert_allclose(own.cdf(X), laplace(scale=1.7).cdf(X), rtol=1e-13)
    if terms == 4:  # the difference of two gamma variables of shape 4
        s = np.abs(X / 1.7)
        tail = np.exp(-s) * (48 + 33 * s + 9 * s**2 + s**3) / 96
        np.testing.assert_allclose(own.cdf(X), np.where(X <= 0, tail, 1 - tail), rtol=1e-12)
    assert 0.0 < own.cdf(-900.0) < 1e-200


def test_continuous_noise_adds_up_where_it_has_a_closed_form() -> None:
    normal = noise_of_sum([GaussianNoise(0.5), GaussianNoise(2.0)], [0.3, 1.0])
    np.testing.assert_allclose(normal.cdf(X), norm(scale=math.hypot(0.6, 0.5)).cdf(X), rtol=1e-12)
    assert noise_of_sum([LaplaceNoise(2.0), LaplaceNoise(1.0, 4)], [0.5, 1.0]) == LaplaceNoise(1.0, 5)
    refused: list[list[Noise]] = [
        [GaussianNoise(1.0), LaplaceNoise(1.0)],
        [LaplaceNoise(1.0), LaplaceNoise(2.0)],
        [Tulap(0.5), LaplaceNoise(1.0)],
    ]
    for noises in refused:
        with pytest.raises(NotImplementedError, match="no exact law is known here of the sum"):
            noise_of_sum(noises, [1.0, 1.0])
    with pytest.raises(NotImplementedError, match="takes too long"):
        noise_of_sum([Tulap(1e-4), Tulap(1e-4)], [1.0, 8.0])


def test_which_noise_is_what() -> None:
    # With delta > 0 Tulap noise ends within a cell: its fractional part is no independent uniform.
    assert [is_whole(own) for own in (Tulap(1.0), Tulap(1.0, 0.1), discrete_gaussian(1.0), LaplaceNoise(1.0))] == [
        True, False, True, False,
    ]  # fmt: skip
    edge = Tulap(1.0, 0.1)
    cells = np.arange(0.0, 6.0)
    inside = [edge.cdf(-j - 0.25) - edge.cdf(-j - 0.5) for j in cells]
    whole = [edge.cdf(-j + 0.5) - edge.cdf(-j - 0.5) for j in cells]
    share = [a / b for a, b in zip(inside, whole, strict=True) if b > 0]
    assert share[0] == pytest.approx(0.25)
    assert min(share) < 0.2


@pytest.mark.parametrize("log_odds", [0.0, 1.2, -math.inf, math.inf])
def test_sums_of_counts_are_enumerated(log_odds: float) -> None:
    tables = [(6, 9, 5), (3, 4, 2), (8, 1, 6)]
    own = FamilySum(tuple(Hypergeometric(*table) for table in tables))
    assert (own.low, own.high) == (0 + 0 + 5, 5 + 2 + 6)
    law = own.masses(log_odds)
    if math.isinf(log_odds):
        assert (law.first, law.weights.tolist()) == (own.high if log_odds > 0 else own.low, [1.0])
        return
    expected = np.zeros(14)
    single = [nchypergeom_fisher(r1 + r2, r1, c1, math.exp(log_odds)).pmf(np.arange(9)) for r1, r2, c1 in tables]
    for x in np.ndindex(9, 9, 9):
        if sum(x) < 14:
            expected[sum(x)] += math.prod(float(single[k][i]) for k, i in enumerate(x))
    np.testing.assert_allclose(law.weights, expected[law.first : law.first + law.weights.size], rtol=1e-9)
