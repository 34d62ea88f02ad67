"""Sums of norms of projections of a polytope: their balls, their errors by triangulation and in closed form, and draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesdp.polytopes import SymmetricHull
from bayesdp.polytopes.sums import least_sum

RECTANGLE = np.array([[100.0, 1.0], [100.0, -1.0]])
NEEDLE = np.array([[50.0, 1.0, 0.0], [50.0, -1.0, 0.4], [50.0, 0.3, -0.4], [49.0, -0.2, 0.3], [10.0, 2.0, 0.1]])


def test_a_rectangle_becomes_two_laplace_variables_with_the_best_shares() -> None:
    """Shares u and 1 - u of the loss: error 2 (100 / u)**2 + 2 / (1 - u)**2, by a fine grid."""
    found = least_sum(RECTANGLE)
    shares = np.linspace(0.5, 0.9999, 200_001)
    assert found.error == pytest.approx(np.min(2 * (100 / shares) ** 2 + 2 / (1 - shares) ** 2), rel=1e-8)
    assert np.trace(SymmetricHull(RECTANGLE).second_moment) == pytest.approx(3 * 4 * (100**2 + 1) / 3)


@pytest.mark.parametrize("vertices", [RECTANGLE, NEEDLE])
def test_the_ball_holds_the_polytope_and_has_the_stated_error(vertices: np.ndarray) -> None:
    found, alone = least_sum(vertices), SymmetricHull(vertices)
    ball = SymmetricHull(found.vertices)
    assert len(found.pieces) > 1
    assert found.norm(vertices).max() == pytest.approx(1.0, rel=1e-12)  # holds it, and not with room to spare
    points = np.random.default_rng(1).normal(size=(200, vertices.shape[1])) * np.ptp(vertices, axis=0)
    np.testing.assert_allclose(found.norm(points), ball.gauge(points), rtol=1e-9)
    assert np.trace(ball.second_moment) == pytest.approx(found.error, rel=1e-9)
    assert found.error < 0.8 * np.trace(alone.second_moment)


def test_a_turned_polytope_has_the_same_error() -> None:
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    assert least_sum(NEEDLE @ turn).error == pytest.approx(least_sum(NEEDLE).error, rel=1e-9)


def test_axes_of_one_length_are_not_cut() -> None:
    cube = np.array([[1.0, a, b] for a in (-1, 1) for b in (-1, 1)])
    found = least_sum(cube)
    assert len(found.pieces) == 1
    assert found.error == pytest.approx(4 * 5 * 3 / 3)  # (n + 1)(n + 2) times a third for each half side


def test_draws_have_the_norm_of_a_gamma_variable() -> None:
    """Kolmogorov-Smirnov at 1e-6, and the mean square within 5 standard errors."""
    found = least_sum(NEEDLE)
    draws = found.draw(0.5, np.random.default_rng(7), 20_000)
    assert stats.kstest(0.5 * found.norm(draws), stats.gamma(3).cdf).pvalue > 1e-6
    squares = np.sum(draws**2, axis=1)
    assert abs(squares.mean() - found.error / 0.25) < 5 * squares.std() / np.sqrt(len(squares))


def test_more_dimensions_than_can_be_triangulated() -> None:
    """Six long axes and five short ones: in eleven dimensions no boundary is known, in the pieces it is."""
    long, short = 100 * np.eye(6), np.eye(5)
    both = np.block([[long, np.zeros((6, 5))], [np.zeros((5, 6)), short]])
    assert SymmetricHull(both).second_moment is None
    found = least_sum(both)
    assert found.norm(both).max() == pytest.approx(1.0)
    # All are vertices of an l1 ball, whose coordinates are independent Laplace variables.
    assert found.error == pytest.approx(2 * (6 * 100**2 + 5), rel=1e-9)
    assert least_sum(np.eye(11)) is None
    assert least_sum(np.diag(np.arange(1.0, 27.0))) is None  # more lengths than are tried
