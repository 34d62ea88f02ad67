"""Gaussian laws within bounds: densities, atoms, tails and moments against quadrature and 50 digits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import flint
import numpy as np
import pytest
from scipy import integrate, stats

from bayesdp.noise import BoundaryInflatedDiscreteGaussian, BoundaryInflatedGaussian, TruncatedGaussian, parse_law
from tests.comparison.chi_square import chi_square_pvalue
from tests.noise.bounded.test_bounded_laws import _edges

KINDS = [TruncatedGaussian, BoundaryInflatedGaussian]
INF = np.inf
CASES = [
    (1.0, (0.0, 1.0), 0.3),
    (1.0, (0.0, 1.0), 0.0),
    (0.02, (0.0, 1.0), 0.97),
    (30.0, (0.0, 1.0), 0.2),
    (0.5, (-2.0, INF), -1.8),
    (0.5, (-INF, 3.0), 2.0),
    (2.0, (-1.0, 4.0), -3.0),
    (2.0, (-1.0, 4.0), 4.5),
    (0.3, (0.0, 1.0), -2.0),
    (0.3, (0.0, INF), -3.0),
]


def _by_quadrature(law: Any, mu: float, power: int) -> float:
    """E (Y - mu)**power from the law without bounds, by quadrature of its own density."""
    sigma, low, high = float(law.scale), float(law.lower), float(law.upper)
    near = min(max(mu, low), high)
    shift = 0.0 if law.has_atoms else 0.5 * ((near - mu) / sigma) ** 2  # far outside the density is small throughout

    def free(y: float) -> float:
        return float(np.exp(shift - 0.5 * ((y - mu) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi)))

    left, right = max(low, min(mu, high) - 12 * sigma), min(high, max(mu, low) + 12 * sigma)
    points = sorted(
        {left, right, *[near + i * sigma / 2 for i in range(-24, 25) if left < near + i * sigma / 2 < right]}
    )

    def over(function: Any) -> float:
        return float(sum(integrate.quad(function, a, c, epsabs=0.0, epsrel=1e-13)[0] for a, c in pairwise(points)))

    inner = over(lambda y: free(y) * (y - mu) ** power)
    if not law.has_atoms:
        return inner / over(free)
    for edge, tail in ((low, stats.norm.cdf(low, mu, sigma)), (high, stats.norm.sf(high, mu, sigma))):
        if np.isfinite(edge):
            inner += tail * (edge - mu) ** power
    return inner


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # integrals that are exactly 0
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sigma", "bounds", "mu"), CASES)
def test_moments_are_those_of_quadrature(kind: Any, sigma: float, bounds: Any, mu: float) -> None:
    law = kind(sigma, bounds)
    first, second = _by_quadrature(law, mu, 1), _by_quadrature(law, mu, 2)
    assert law.bias(mu) == pytest.approx(first, rel=1e-9, abs=1e-12)
    assert law.mse(mu) == pytest.approx(second, rel=1e-9)
    assert law.variance((), location=mu) == pytest.approx(second - first**2, rel=1e-7)
    assert law.variance((), location=mu) < sigma**2  # what the privacy of truncated noise rests on


def _digits(value: float) -> Any:
    return flint.arb(float(value))


def _normal_between(low: float, high: float, mu: float, sigma: float) -> Any:
    """Probability of an interval under the law without bounds, to 1000 bits."""

    def upper_tail(x: Any) -> Any:
        return (x / flint.arb(2).sqrt()).erfc() / 2

    ends = [(_digits(side) - _digits(mu)) / _digits(sigma) if np.isfinite(side) else None for side in (low, high)]
    if ends[0] is not None and ends[0] > 0:
        return upper_tail(ends[0]) - (0 if ends[1] is None else upper_tail(ends[1]))
    if ends[1] is not None and ends[1] < 0:
        return upper_tail(-ends[1]) - (0 if ends[0] is None else upper_tail(-ends[0]))
    return 1 - (0 if ends[0] is None else upper_tail(-ends[0])) - (0 if ends[1] is None else upper_tail(ends[1]))


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 1.0, 7.0, 1e9])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-2.0, 5.0), (0.0, INF), (-INF, 3.0), (0.0, 1e-9), (0.0, 1e12)])
def test_densities_and_tails_keep_their_digits(sigma: float, low: float, high: float) -> None:
    """Locations inside, outside and far outside, intervals much wider and much narrower than the noise."""
    law, checked = TruncatedGaussian(sigma, (low, high)), 0
    before, flint.ctx.prec = flint.ctx.prec, 1000
    try:
        for mu in (-50.0, -3.0, -1e-9, 0.0, 0.2, 1.0, 2.5, 80.0):
            total = _normal_between(low, high, mu, sigma)
            for y in (0.3, 0.9999, 1e-10):
                if not low <= y <= high or not total > 0:
                    continue
                z = (_digits(y) - _digits(mu)) / _digits(sigma)
                exact = -(z**2) / 2 - _digits(sigma).log() - (2 * flint.arb.pi()).log() / 2 - total.log()
                assert law.log_density(y, mu) == pytest.approx(float(exact), rel=1e-12, abs=1e-12), (mu, y)
                below, above = _normal_between(low, y, mu, sigma), _normal_between(y, high, mu, sigma)
                for found, part in ((law.log_cdf(y, mu), below), (law.log_sf(y, mu), above)):
                    expected = (part / total).log() if part > 0 else flint.arb(0, 1)
                    if expected.rel_accuracy_bits() > 60:  # 1000 bits hold it
                        assert found == pytest.approx(float(expected), rel=1e-9, abs=1e-300), (mu, y)
                        checked += 1
    finally:
        flint.ctx.prec = before
    assert checked >= 8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sigma", "bounds", "mu"), CASES)
def test_tails_agree(kind: Any, sigma: float, bounds: Any, mu: float) -> None:
    law = kind(sigma, bounds)
    near = min(max(mu, bounds[0]), bounds[1])
    y = near + sigma * np.array([-6.0, -3.0, -0.8, -0.05, 0.0, 0.05, 0.8, 3.0, 6.0])
    y = y[(y > bounds[0]) & (y < bounds[1])]
    np.testing.assert_allclose(law.cdf(y, mu) + np.exp(law.log_sf(y, mu)), 1.0, rtol=1e-13)
    for left, right in pairwise(y):
        mass = integrate.quad(lambda x: np.exp(law.log_density(x, mu)), left, right, epsabs=1e-14, epsrel=1e-11)[0]
        assert law.cdf(right, mu) - law.cdf(left, mu) == pytest.approx(mass, rel=1e-9, abs=1e-13)
    if law.has_atoms:
        expected = stats.norm.cdf(bounds[0], mu, sigma), stats.norm.sf(bounds[1], mu, sigma)
        np.testing.assert_allclose(law.atoms(mu), expected, rtol=1e-12)
        logs = stats.norm.logcdf(bounds[0], mu, sigma), stats.norm.logsf(bounds[1], mu, sigma)
        for edge, log in zip(bounds, logs, strict=True):
            if np.isfinite(edge):
                assert law.log_density(edge, mu) == pytest.approx(log, rel=1e-10)
    else:
        inner = np.linspace(max(bounds[0], mu - 6 * sigma), min(bounds[1], mu + 6 * sigma), 7)[1:-1]
        scipy = stats.truncnorm((bounds[0] - mu) / sigma, (bounds[1] - mu) / sigma, mu, sigma)
        np.testing.assert_allclose(law.log_density(inner, mu), scipy.logpdf(inner), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("sigma", "bounds", "mu"),
    [(2.0, (0, 9), 3.0), (20.0, (0, 9), 2.5), (2.0, (0, 90), -6.0), (2.0, (0, 90), -1.0), (1.7, (-4, None), -3.0)],
)
def test_draws_follow_the_law(kind: Any, sigma: float, bounds: Any, mu: float) -> None:
    """Chi-square over 10 groups, 20,000 draws, every way of the sampler; 10 tests with a false alarm in 10,000 each."""
    law = kind(sigma, bounds)
    drawn = law.draw(np.random.default_rng(20190729), (2,), 10_000, location=[mu, mu])
    assert np.all((drawn >= law.lower) & (drawn <= law.upper))
    edges = _edges(law, mu)
    expected = np.diff(np.concatenate([[0.0], law.cdf(edges, mu), [1.0]]))
    observed = np.bincount(np.searchsorted(edges, drawn.ravel(), side="left"), minlength=len(expected))
    possible = np.where(expected > 1e-12, expected, 0.0)
    assert chi_square_pvalue(observed, possible * drawn.size, least=0.0) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_words_of_the_command_line_and_wrong_parameters(kind: Any) -> None:
    law = parse_law(f"{kind.name} sigma=2.5 bounds=0:9")
    assert (law.sigma, law.bounds) == (2.5, (0.0, 9.0))
    with pytest.raises(ValueError, match="sigma = sensitivity / sqrt"):
        parse_law(f"{kind.name} b=2.5 bounds=0:9")
    for wrong, error, message in (
        (lambda: kind(0.0, (0, 1)), ValueError, "sigma must be .*greater than 0"),
        (lambda: kind(1.0, (1, 0)), ValueError, "reversed: 1 and 0"),
        (lambda: kind(1.0, (None, None)), ValueError, "both are infinite"),
    ):
        with pytest.raises(error, match=message):
            wrong()


@pytest.mark.parametrize("kind", [*KINDS, BoundaryInflatedDiscreteGaussian])
def test_locations_far_outside_have_moments(kind: Any) -> None:
    for sigma, bounds, mu, near in ((1.0, (None, 5), 1e9, 5.0), (1e-10, (0, 1), 3.0, 1.0), (1e-120, (0, 1), 0.0, 0.0)):
        law = kind(sigma, bounds)
        assert law.mean(mu) == pytest.approx(near, abs=1e-6)
        assert law.mse(mu) == pytest.approx((near - mu) ** 2, abs=1e-6)
        assert 0.0 <= law.variance((), location=mu) < 1e-6
