"""Covariance matrices: bounds, scales and losses of each element, likelihood, repair, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from bayesdp.papers.covariance_cone import CovarianceMatrix, CovarianceRelease
from bayesdp.privacy import truncated_epsilon

BOUNDS = [(-3.0, 3.0), (-4.5, 4.5)]
TRUTH = np.array([[1.0, 0.7 * np.sqrt(2)], [0.7 * np.sqrt(2), 2.0]])


def test_bounds_and_scales_of_table_1() -> None:
    mechanism, rng = CovarianceMatrix(1.0, 50, BOUNDS), np.random.default_rng(3)
    releases = (mechanism.release(TRUTH, rng) for _ in range(50))
    release = next(r for r in releases if r.matrix[0, 0] > 0 and r.matrix[1, 1] > 0)
    assert np.allclose(release.scales, 3 * np.array([[36, 54], [54, 81]]) / 50)  # a third of the budget each
    assert np.allclose(release.largest, 50 * np.array([36, 81]) / (4 * 49))
    edge = np.sqrt(release.matrix[0, 0] * release.matrix[1, 1])
    assert release.bounds(0, 1) == pytest.approx((-edge, edge))
    assert release.guarantee is not None
    assert release.guarantee.parameters["epsilon"] == 1.0
    assert release.guarantee.parameters["sensitivity"] == pytest.approx((36 + 81 + 54) / 50)


def test_truncated_elements_have_their_share_of_epsilon() -> None:
    parts = [0.5, 0.2, 0.3]  # upper triangle: first variance, covariance, second variance
    mechanism = CovarianceMatrix(1.0, 80, BOUNDS, rule="truncated", parts=parts)
    release = mechanism.release(TRUTH, rng=np.random.default_rng(2))
    for (i, j), part, size in zip([(0, 0), (0, 1), (1, 1)], parts, [36, 54, 81], strict=True):
        low, high = release.bounds(i, j)
        true = truncated_epsilon(release.scales[i, j], high - low, size / 80)
        assert true == pytest.approx(part, rel=1e-8)
    paper = CovarianceMatrix(1.0, 80, BOUNDS, rule="truncated", convention="paper")
    stated = paper.release(TRUTH, rng=np.random.default_rng(2)).guarantee
    assert stated is not None
    assert stated.parameters["epsilon"] > 1.05


@pytest.mark.parametrize("rule", ["boundary-inflated", "truncated"])
def test_covariance_is_drawn_given_the_released_variances(rule: str) -> None:
    """600 releases (300 truncated): the cdf of each element at its value is uniform (Kolmogorov-Smirnov, 1e-4), atoms spread out."""
    mechanism, rng = CovarianceMatrix(6.0, 200, BOUNDS, rule=rule), np.random.default_rng(5)
    uniform: list[list[float]] = [[], [], []]
    for _ in range(600):
        release = mechanism.release(TRUTH, rng)
        for k, (i, j) in enumerate([(0, 0), (0, 1), (1, 1)]):
            low, high = release.bounds(i, j)
            noise, y = stats.laplace(TRUTH[i, j], release.scales[i, j]), release.matrix[i, j]
            if rule == "truncated":
                share = (noise.cdf(y) - noise.cdf(low)) / (noise.cdf(high) - noise.cdf(low))
            elif low < y < high:
                share = noise.cdf(y)
            else:
                share = rng.uniform(0, noise.cdf(low)) if y <= low else rng.uniform(noise.cdf(high), 1)
            uniform[k].append(float(share))
        assert abs(release.correlation[0, 1]) <= 1.0
        if rule == "truncated" and len(uniform[0]) == 300:
            break  # solving for a scale a release takes time
    for sample in uniform:
        assert stats.kstest(sample, "uniform").pvalue > 1e-4


def test_likelihood_by_hand() -> None:
    matrix, scales = np.array([[0.9, 0.9], [0.9, 3.0]]), np.array([[0.2, 0.3], [0.3, 0.4]])
    truth = np.stack([TRUTH, [[1.2, -0.4], [-0.4, 1.0]]])
    edge = np.sqrt(2.7)
    bit = CovarianceRelease(matrix, scales, [8.0, 3.0], 50, ("x", "y"))
    expected = (
        stats.laplace.logpdf(0.9, truth[:, 0, 0], 0.2)
        + stats.laplace.logpdf(0.9, truth[:, 0, 1], 0.3)
        + stats.laplace.logsf(3.0, truth[:, 1, 1], 0.4)  # at its upper bound
    )
    assert np.allclose(bit.log_likelihood(truth), expected)
    inside = matrix - np.diag([0.0, 0.5])
    cut = CovarianceRelease(inside, scales, [8.0, 3.0], 50, ("x", "y"), "truncated")
    edge = np.sqrt(0.9 * 2.5)
    found = np.zeros(2)
    for (i, j), (low, high) in {(0, 0): (0, 8), (0, 1): (-edge, edge), (1, 1): (0, 3)}.items():
        noise = stats.laplace(truth[:, i, j], scales[i, j])
        found += noise.logpdf(inside[i, j]) - np.log(noise.cdf(high) - noise.cdf(low))
    assert np.allclose(cut.log_likelihood(truth), found)


def test_a_variance_of_zero_leaves_no_covariance() -> None:
    mechanism, rng = CovarianceMatrix(0.001, 20, BOUNDS), np.random.default_rng(1)
    releases = [mechanism.release(TRUTH, rng) for _ in range(30)]
    found = next(r for r in releases if r.matrix[0, 0] == 0.0)
    assert found.matrix[0, 1] == 0.0
    assert found.scales[0, 1] == 0.0
    assert np.isnan(found.correlation[0, 1])
    assert np.isfinite(found.log_likelihood(TRUTH))
    with pytest.raises(ValueError, match="variance of statistic 1 is 0"):
        found.repaired()


INDEFINITE = np.array([[1.0, 0.9, -0.9], [0.9, 2.0, 0.9], [-0.9, 0.9, 1.0]])


def test_repair() -> None:
    """The nearest correlation matrix, found by constrained optimisation (scipy's SLSQP), to the threshold."""
    positive = CovarianceRelease(TRUTH, np.ones((2, 2)), [9.0, 9.0], 50, ("x", "y"))
    assert np.array_equal(positive.repaired(), TRUTH)
    release = CovarianceRelease(INDEFINITE, np.ones((3, 3)), [9.0] * 3, 50, ("x", "y", "z"))
    assert not release.is_positive_definite
    pytest.importorskip("statsmodels")
    found = release.repaired()
    assert np.allclose(np.diag(found), [1, 2, 1])
    assert np.linalg.eigvalsh(found)[0] > 0
    nearest = np.array([0.42138447, -0.64487033, 0.42138447])
    assert np.allclose([found[0, 1] / np.sqrt(2), found[0, 2], found[1, 2] / np.sqrt(2)], nearest, atol=1e-5)


def test_repair_without_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "statsmodels.stats.correlation_tools", None)
    release = CovarianceRelease(INDEFINITE, np.ones((3, 3)), [9.0] * 3, 50, ("x", "y", "z"))
    with pytest.raises(ImportError, match=r"pip install 'bayesdp\[covariance\]'"):
        release.repaired()


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: CovarianceMatrix(1.0, 50, [(3.0, -3.0)]), ValueError, "lower one first, got 3"),
        (lambda: CovarianceMatrix(1.0, 50, [(-np.inf, 3.0)]), ValueError, "data_bounds must be finite"),
        (lambda: CovarianceMatrix(1.0, 50, BOUNDS, parts=[0.5, 0.5, 0.5]), ValueError, "add up to epsilon"),
        (lambda: CovarianceMatrix(1.0, 50, BOUNDS, parts=[0.5, 0.5]), ValueError, "one for each of 3 elements"),
        (lambda: CovarianceMatrix(1.0, 50, 3.0), TypeError, "data_bounds must be a pair"),
        (lambda: CovarianceMatrix(1.0, 50, BOUNDS).release(np.eye(3)), ValueError, r"of shape \(2, 2\)"),
        (lambda: CovarianceMatrix(1.0, 50, BOUNDS).release([[1, 2], [2, 1]]), ValueError, "positive semidefinite"),
        (lambda: CovarianceMatrix(1.0, 50, BOUNDS).release([[1, 2], [0, 1]]), ValueError, "symmetric"),
        (
            lambda: CovarianceMatrix(1.0, 50, BOUNDS).release(np.eye(2) * 10),
            ValueError,
            "variance of statistic 1 of at",
        ),
        (
            lambda: CovarianceRelease([[1, 1.1], [1.1, 1]], np.ones((2, 2)), [9, 9], 50, ("x", "y")),
            ValueError,
            "covariance of x and y",
        ),
        (
            lambda: CovarianceRelease([[1, 0], [0, 10]], np.ones((2, 2)), [9, 9], 50, ("x", "y")),
            ValueError,
            "that of y is 10",
        ),
        (
            lambda: CovarianceRelease([[0, 0], [0, 1]], np.ones((2, 2)), [9, 9], 50, ("x", "y")),
            ValueError,
            "positive where both variances are",
        ),
        (
            lambda: CovarianceRelease([[0, 0.5], [0.5, 1]], np.eye(2), [9, 9], 50, ("x", "y")),
            ValueError,
            "correlations within -1 and 1",
        ),
    ],
)
def test_bad_input(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()
