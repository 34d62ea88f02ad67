"""One test from several noisy corners: exact size by enumeration, weights, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import brentq
from scipy.stats import hypergeom, kstest, norm

import bayesdp as bdp
from bayesdp.noise.base import NoiseLaw
from bayesdp.privacy import approximate_dp, gaussian_dp
from bayesdp.privacy.canonical import GaussianNoise, Tulap
from bayesdp.significance import odds_ratio_test, odds_ratio_test_from_release, odds_ratio_test_from_releases
from bayesdp.significance._families import Hypergeometric, NoisyCount
from bayesdp.significance.corners import LaplaceNoise
from bayesdp.significance.odds_ratio import _weights

TABLE = xr.DataArray(
    [[12, 30], [25, 17]], dims=("sex", "admission"), coords={"sex": ["men", "women"], "admission": ["yes", "no"]}
)
MARGINS = bdp.Margins(TABLE, ["sex"], ["admission"])
EXACT = [
    bdp.Exact(bdp.Margins(TABLE, [dim]), TABLE.sum(other))
    for dim, other in (("sex", "admission"), ("admission", "sex"))
]
SQUARE = np.array([[1, -1], [-1, 1]])
NULL = hypergeom(84, 42, 37).pmf(np.arange(38))


def released(law: NoiseLaw, j: float) -> bdp.Release:
    return bdp.Release.from_published(TABLE, [bdp.Measured(bdp.Identity(TABLE), TABLE.values + j * SQUARE, law)], EXACT)


def geometric(epsilon: float, reach: int = 150) -> np.ndarray:
    mass = np.exp(-epsilon * np.abs(np.arange(-reach, reach + 1)))
    return np.asarray(mass / mass.sum())


def test_two_lattice_laplace_corners_by_enumeration() -> None:
    """Weights 1 : 4 for epsilon 0.05 and 0.1; the p-value from every corner and every pair of steps."""
    result = odds_ratio_test_from_releases(
        [released(bdp.noise.LatticeLaplace(e), j) for e, j in ((0.05, 4), (0.1, -3))], rng=9
    )
    uniform = np.random.default_rng(9).random() - 0.5
    assert result.published == pytest.approx((16 + 4 * 9) / 5)
    assert result.uniform == pytest.approx(uniform / 5)
    assert "weights 0.2, 0.8" in result.tradeoff
    steps = np.arange(-150, 151)
    sums = steps[:, None] + 4 * steps[None, :]
    masses = np.outer(geometric(0.2), geometric(0.4))
    expected = 0.0
    for x, mass in enumerate(NULL):
        reached = 5 * x + sums - (16 + 4 * 9)  # at least the published sum, with both uniforms
        expected += mass * float((masses * np.clip(reached - uniform + 0.5, 0.0, 1.0)).sum())
    assert result.pvalue == pytest.approx(expected, rel=1e-9)
    assert not result.optimal


def test_size_by_enumeration() -> None:
    """Rejecting for p <= alpha has probability alpha, by masses that the code did not make; and more power than either alone."""
    noise = odds_ratio_test_from_releases([released(bdp.noise.LatticeLaplace(e), 0) for e in (0.05, 0.06)], rng=1).noise
    a, b = 6, 8  # 8 (0.2 / 0.24)**2 = 5.6 or so, by variances
    variances = [0.5 / math.sinh(0.5 * e) ** 2 for e in (0.2, 0.24)]
    assert round(8 * variances[1] / variances[0]) == a
    steps = np.arange(-150, 151)
    sums = (a * steps[:, None] + b * steps[None, :]).reshape(-1) / math.gcd(a, b)
    masses = np.outer(geometric(0.2), geometric(0.24)).reshape(-1)
    total = (a + b) // math.gcd(a, b)
    for alpha in (0.05, 0.4):
        cut = brentq(
            lambda u, alpha=alpha: NoisyCount(u, Hypergeometric(42, 42, 37), noise).pvalue(0.0, "greater") - alpha,
            -90,
            120,
        )
        size = sum(
            m * float(masses @ np.clip(total * x + sums - total * cut + 0.5, 0.0, 1.0)) for x, m in enumerate(NULL)
        )
        assert size == pytest.approx(alpha, rel=1e-7)


def test_normal_noise_is_the_test_of_the_composition() -> None:
    """Two normal corners: the mean by precision is canonical for sqrt(mu1**2 + mu2**2)-GDP, and the test is UMPU for that."""
    parts = [released(bdp.noise.ProjectedGaussian(sigma), j) for sigma, j in ((3.0, 1.25), (5.0, -2.5))]
    result = odds_ratio_test_from_releases(parts)
    mu = [2 / 3.0, 2 / 5.0]
    mean = 12 + (mu[0] ** 2 * 1.25 - mu[1] ** 2 * 2.5) / (mu[0] ** 2 + mu[1] ** 2)
    direct = odds_ratio_test(mean, rows=(42, 42), column=37, tradeoff=gaussian_dp(math.hypot(*mu)))
    assert result.pvalue == pytest.approx(direct.pvalue, rel=1e-12)
    assert result.optimal
    assert result.tradeoff == direct.tradeoff
    assert NULL @ norm(scale=1 / math.hypot(*mu)).cdf(np.arange(38) - mean) == pytest.approx(result.pvalue, rel=1e-9)


def test_laplace_corners_of_one_scale() -> None:
    """By quadrature of the density of a sum of two."""
    both = odds_ratio_test_from_releases(
        [released(bdp.noise.SubspaceNorm(0.1, "l1"), 1.5), released(bdp.noise.SubspaceNorm(0.1, "l1"), -2.5)]
    )
    b = 1.0 / (0.4 + 0.4)
    x = np.linspace(-80, 80, 320001)
    density = np.exp(-np.abs(x) / b) * (1 + np.abs(x) / b) / (4 * b)  # of half the sum of two of scale 2 b
    mean = 12 - 0.5
    assert both.statistic == pytest.approx(mean)
    cumulated = np.cumsum(density) * (x[1] - x[0])
    assert both.pvalue == pytest.approx(NULL @ np.interp(np.arange(38) - mean, x, cumulated), rel=2e-4)


def test_independent_noise_in_each_cell_is_four_corners() -> None:
    """Until now refused: every cell says what the corner is. P-values of simulated releases are uniform."""
    rng = np.random.default_rng(5)
    law = bdp.noise.DiscreteLaplace(2.5)
    p = []
    for x in rng.hypergeometric(42, 42, 37, 150).tolist():
        values = np.array([[x, 42 - x], [37 - x, 5 + x]]) + law.draw(rng, (2, 2))
        release = bdp.Release(bdp.Frame.of(TABLE), (bdp.Measured(bdp.Identity(TABLE), values, law),), tuple(EXACT))
        result = odds_ratio_test_from_releases(release, rng=rng)
        p.append(result.pvalue)
        signs = (values * SQUARE).sum() + 42 + 37 - 5  # x11 + (42 - x12) + (37 - x21) + (x22 - 5)
        assert result.published == pytest.approx(signs / 4)
    assert kstest(p, "uniform").pvalue > 1e-3  # a false alarm in 1,000; the seed is fixed
    scaled = bdp.noise.Gaussian(np.array([[1.0, 2.0], [2.0, 4.0]]))
    measured = bdp.Measured(bdp.Identity(TABLE), TABLE.values + 0.25, scaled)
    normal = odds_ratio_test_from_releases(bdp.Release.from_published(TABLE, [measured], EXACT))
    assert normal.tradeoff == f"{math.sqrt(1 + 0.25 + 0.25 + 1 / 16):.10g}-GDP"


def test_weights() -> None:
    assert _weights([Tulap(0.2), Tulap(0.2)]) == [1.0, 1.0]
    assert _weights([Tulap(0.01), Tulap(1.0)]) == [0.0, 1.0]
    assert _weights([GaussianNoise(1.0), GaussianNoise(3.0)]) == pytest.approx([1.0, 9.0])
    assert _weights([LaplaceNoise(1.0), LaplaceNoise(1.0)]) == [1.0, 1.0]


def test_one_release_is_the_test_of_that_release() -> None:
    for release in (released(bdp.noise.LatticeLaplace(0.2), 3), released(bdp.noise.ProjectedGaussian(2.0), 1.25)):
        one = odds_ratio_test_from_releases([release], "two-sided", rng=2)
        assert one == odds_ratio_test_from_release(release, "two-sided", rng=2)


def test_published_tulap_noise_brings_its_uniform() -> None:
    parts = [
        bdp.mechanisms.SemiCanonical(MARGINS, approximate_dp(e)).release(TABLE, rng=k) for k, e in enumerate((0.5, 0.5))
    ]
    result = odds_ratio_test_from_releases(parts)
    assert result == odds_ratio_test_from_releases(parts)  # nothing is drawn
    values = [float(own.measurements[0].values[0]) for own in parts]
    assert result.published == pytest.approx(sum(round(value) for value in values) / 2)
    assert result.uniform == pytest.approx((values[0] - round(values[0])) / 2)


def test_what_cannot_be_combined_is_refused() -> None:
    release = released(bdp.noise.LatticeLaplace(0.2), 1)
    normal, plain = released(bdp.noise.ProjectedGaussian(2.0), 1.25), released(bdp.noise.SubspaceNorm(0.3, "l1"), 0.5)
    wider, totals = released(bdp.noise.SubspaceNorm(0.2, "l1"), 0.5), bdp.Release.from_published(TABLE, [], EXACT)
    rows = bdp.Measured(bdp.Margins(TABLE, ["sex"]), [40, 44], bdp.noise.DiscreteLaplace(2.0))
    other = bdp.Release.from_published(TABLE, [rows], EXACT)
    cases: list[tuple[Any, type[Exception], str]] = [
        ([], ValueError, "at least one release"),
        ([release, release], ValueError, "again: its noise would be counted twice"),
        ([normal, plain], NotImplementedError, "no exact law is known here of the sum"),
        ([release, plain], NotImplementedError, "no exact law is known here of the sum"),
        ([plain, wider], NotImplementedError, "no exact law is known here of the sum"),
        ([totals], ValueError, "none"),
        ([release, other], ValueError, "of the cells or of single cells"),
    ]
    for given, error, message in cases:
        with pytest.raises(error, match=message):
            odds_ratio_test_from_releases(given)
    with pytest.raises(TypeError, match="must be Release objects"):
        odds_ratio_test_from_releases([TABLE])  # type: ignore[list-item]
