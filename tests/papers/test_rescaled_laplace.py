"""The law of rescaled noisy proportions: against quadrature of the definition, its total mass, and simulation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from bayesdp.papers.bounded_statistics import RescaledLaplace

BIT, CUT = "boundary-inflated", "truncated"


def _by_definition(shares: Any, mu: Any, b: float, rule: str) -> float:
    """Adaptive quadrature over the sum, with the density of Laplace noise of scipy; shares with one largest only."""
    r, centre = np.asarray(shares), np.asarray(mu)
    noise, positive = stats.laplace(loc=centre, scale=b), r > 0
    inside = noise.cdf(1.0) - noise.cdf(0.0) if rule == CUT else np.ones(len(r))
    zeros = np.prod(noise.cdf(0.0)[~positive]) if rule == BIT else float(np.all(positive))
    k, most = int(positive.sum()), 1.0 / r.max()

    def integrand(s: float) -> float:
        return float(s ** (k - 1) * np.prod((noise.pdf(s * r) / inside)[positive]))

    kinks = sorted({0.0, most, *(float(x) for x in (centre[positive] / r[positive]) if 0 < x < most)})
    found = sum(integrate.quad(integrand, a, c, epsabs=1e-13, epsrel=1e-11)[0] for a, c in itertools.pairwise(kinks))
    if rule == BIT:
        # y = s r with the largest at its atom; d(r) / d(y) has determinant 1 / s^k.
        others = positive & (r < r.max())
        found += most**k * float(noise.sf(1.0)[r == r.max()][0]) * float(np.prod(noise.pdf(most * r)[others]))
    return found * float(zeros)


@pytest.mark.parametrize("rule", [BIT, CUT])
@pytest.mark.parametrize("b", [0.03, 0.2, 1.5])
def test_density_by_quadrature_of_the_definition(rule: str, b: float) -> None:
    mu = np.array([0.1, 0.25, 0.65])
    cases = [[0.2, 0.3, 0.5], [0.05, 0.35, 0.6], [0.7, 0.2, 0.1], [0.0, 0.45, 0.55], [1.0, 0.0, 0.0]]
    found = np.exp(RescaledLaplace(b, rule).log_density(cases, mu))
    for case, value in zip(cases, found, strict=True):
        assert value == pytest.approx(_by_definition(case, mu, b, rule), rel=1e-9, abs=1e-300), case


def _mass_of_two(b: float, rule: str, mu: Any) -> float:
    law = RescaledLaplace(b, rule)
    nodes, weights = np.polynomial.legendre.leggauss(60)
    top, cuts = float(mu[0]), {0.0, 0.5, 1.0, float(mu[0])}
    cuts |= {min(max(top + sign * width * b, 0.0), 1.0) for sign in (-1, 1) for width in (1, 3, 8, 20, 45)}
    # A kink also where a kink of the integrand meets the end, r/max(r) = mu.
    cuts |= {float(m / (1 + m)) for m in mu} | {float(1 / (1 + m)) for m in mu}
    total = 0.0
    for low, high in itertools.pairwise(sorted(cuts)):
        x = low + 0.5 * (high - low) * (1 + nodes)
        total += 0.5 * (high - low) * float(weights @ np.exp(law.log_density(np.stack([x, 1 - x], axis=-1), mu)))
    return total + (float(np.exp(law.log_density([[0, 1], [1, 0], [0.5, 0.5]], mu)).sum()) if rule == BIT else 0.0)


@pytest.mark.parametrize("rule", [BIT, CUT])
@pytest.mark.parametrize("b", [1e-6, 0.02, 0.3, 4.0, 1e9])
@pytest.mark.parametrize("mu", [(0.3, 0.7), (0.0, 1.0), (0.5, 0.5)])
def test_total_mass_of_two_shares(rule: str, b: float, mu: Any) -> None:
    assert _mass_of_two(b, rule, np.array(mu)) == pytest.approx(1.0, abs=2e-6)


@pytest.mark.parametrize(("rule", "b"), [(BIT, 0.3), (BIT, 2.0), (CUT, 0.3), (CUT, 2.0)])
def test_total_mass_of_three_shares(rule: str, b: float) -> None:
    """Interior, lines of ties, edges, their middles, vertices and centre."""
    law, mu = RescaledLaplace(b, rule), np.array([0.2, 0.3, 0.5])
    nodes, weights = np.polynomial.legendre.leggauss(40)
    u, w = 0.5 * (1 + nodes), 0.5 * weights
    total = 0.0
    for order in itertools.permutations(range(3)):  # corners of a sextant: a vertex, the middle of an edge, the centre
        corners = np.zeros((3, 3))
        corners[0, order[0]] = 1.0
        corners[1, list(order[:2])] = 0.5
        corners[2] = 1 / 3
        first, second = (a.reshape(-1, 1) for a in np.meshgrid(u, u))
        points = corners[0] + first * ((corners[1] - corners[0]) + second * (corners[2] - corners[1]))
        area = abs(np.linalg.det((corners[1:] - corners[0])[:, :2]))
        total += area * float(np.outer(w, w).reshape(-1) @ (first[:, 0] * np.exp(law.log_density(points, mu))))
    if rule == BIT:
        for third in range(3):  # two shares tie at the top, the third is smaller
            x = u / 3
            line = np.repeat(((1 - x) / 2)[:, None], 3, axis=1)
            line[:, third] = x
            total += float(w @ np.exp(law.log_density(line, mu))) / 3
            for part in (0.5 * u, 0.5 + 0.5 * u):  # an edge
                edge = np.insert(np.stack([part, 1 - part], axis=-1), third, 0.0, axis=-1)
                total += 0.5 * float(w @ np.exp(law.log_density(edge, mu)))
            total += float(np.exp(law.log_density(np.insert([0.5, 0.5], third, 0.0), mu)))
            total += float(np.exp(law.log_density(np.eye(3)[third], mu)))
        total += float(np.exp(law.log_density(np.full(3, 1 / 3), mu)))
    assert total == pytest.approx(1.0, abs=3e-4)


def test_probabilities_of_faces_and_a_region_by_simulation() -> None:
    """100,000 draws: seven probabilities within 4.5 standard errors (false alarm below 1e-4 for all)."""
    b, mu = 0.4, np.array([0.2, 0.3, 0.5])
    law = RescaledLaplace(b, BIT)
    draws = law.draw(np.random.default_rng(12), (3,), 100_000, location=mu)
    assert np.allclose(draws.sum(axis=-1), 1.0)
    density = lambda shares: np.exp(law.log_density(shares, mu))  # noqa: E731
    nodes, weights = np.polynomial.legendre.leggauss(60)
    u, w = 0.5 * (1 + nodes), 0.5 * weights
    x = 0.5 * u
    edge = 0.5 * float(w @ density(np.stack([np.zeros(60), x, 1 - x], axis=-1)))  # first 0, second below third
    x = u / 3
    tie = float(w @ density(np.stack([(1 - x) / 2, x, (1 - x) / 2], axis=-1))) / 3
    top = draws == draws.max(axis=-1, keepdims=True)
    zero = draws == 0.0
    expected = {
        "vertex": (density(np.eye(3)[2]), zero[:, :2].all(axis=-1)),
        "middle": (density([0.5, 0.0, 0.5]), zero[:, 1] & top[:, 0] & top[:, 2]),
        "centre": (density(np.full(3, 1 / 3)), top.all(axis=-1)),
        "edge": (edge, zero[:, 0] & (draws[:, 1] > 0) & (draws[:, 1] < draws[:, 2])),
        "tie": (tie, top[:, 0] & top[:, 2] & ~top[:, 1] & ~zero[:, 1]),
    }
    for name, (probability, happened) in expected.items():
        error = np.sqrt(float(probability) * (1 - float(probability)) / len(draws))
        assert abs(happened.mean() - float(probability)) < 4.5 * error, name
    # The centre has two atoms: all values 1, and all values 0.
    noise = stats.laplace(loc=mu, scale=b)
    assert float(density(np.full(3, 1 / 3))) == pytest.approx(np.prod(noise.sf(1)) + np.prod(noise.cdf(0)), rel=1e-12)


def test_extreme_scales_and_values_at_the_bounds() -> None:
    wide = RescaledLaplace(1e9, BIT)
    # Each value is 0 or 1 with probability 1/2: the centre is all of one kind.
    assert np.exp(wide.log_density([0.5, 0.5], [0.2, 0.8])) == pytest.approx(0.5, rel=1e-6)
    assert np.exp(wide.log_density([1.0, 0.0], [0.2, 0.8])) == pytest.approx(0.25, rel=1e-6)
    narrow = RescaledLaplace(1e-9, CUT)
    found = narrow.log_density([0.2 + 1e-9, 0.8 - 1e-9], [0.2, 0.8])
    exact = _line(1e-9, np.array([0.2, 0.8]), 1e-9)
    assert found == pytest.approx(np.log(exact), rel=1e-6)
    assert np.isfinite(narrow.log_density([0.9, 0.1], [0.0, 1.0]))
    many = np.full(60, 1 / 60)
    assert np.isfinite(RescaledLaplace(0.01, CUT).log_density(np.linspace(1, 2, 60) / 90, many))


def _line(b: float, mu: Any, shift: float) -> float:
    """Near mu, with s = 1 + b v: the integral of s exp(-|s r - mu| / b) / 4 over v, in units of 1 / b."""
    r = mu + np.array([shift, -shift])
    kinks = sorted(((mu / r - 1) / b).tolist())

    def integrand(v: float) -> float:
        return float(np.exp(-np.abs((r - mu) / b + v * r).sum()) / 4)

    edges = [-80.0, *kinks, 80.0]
    return sum(integrate.quad(integrand, a, c, epsabs=1e-14)[0] for a, c in itertools.pairwise(edges)) / b


def test_scales_per_category_and_broadcasting() -> None:
    law = RescaledLaplace([0.1, 0.3], BIT)
    both = law.log_density([[0.4, 0.6], [0.0, 1.0]], [[[0.3, 0.7]], [[0.6, 0.4]]])
    assert both.shape == (2, 2)
    assert np.exp(law.log_density([0.0, 1.0], [0.3, 0.7])) == pytest.approx(
        stats.laplace.cdf(0, 0.3, 0.1) * stats.laplace.sf(0, 0.7, 0.3), rel=1e-9
    )
    assert RescaledLaplace(0.1, CUT).log_density([0.0, 1.0], [0.5, 0.5]) == -np.inf
    tied = RescaledLaplace(0.1, CUT).log_density([[0.5, 0.5], [0.5 + 1e-9, 0.5 - 1e-9]], [0.5, 0.5])  # no atoms
    assert tied[0] == pytest.approx(tied[1], rel=1e-6)
    assert law.log_density([0.4, 0.5], [0.3, 0.7]) == -np.inf
    assert law.log_density([-0.1, 1.1], [0.3, 0.7]) == -np.inf
    assert law == RescaledLaplace(np.array([0.1, 0.3]), BIT)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: RescaledLaplace(0.0, BIT), "b must"),
        (lambda: RescaledLaplace(1.0, "clip"), "rule must be one of"),
        (lambda: RescaledLaplace(1.0, BIT).log_density(0.5, [0.5, 0.5]), "2 entries or more"),
        (lambda: RescaledLaplace(1.0, BIT).log_density([np.nan, 0.5], [0.5, 0.5]), "shares must be finite"),
    ],
)
def test_bad_input(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()
