"""Other balls than that of `KNorm`, and a lower bound for all: the figures of docs/papers/subspace-dp.md."""

from __future__ import annotations

from itertools import product
from math import gamma, pi

import numpy as np
import numpy.typing as npt
import pytest
from scipy.spatial import ConvexHull

import bayesdp as bdp
from bayesdp.mechanisms import ExtendedLaplace, KNorm
from bayesdp.papers.subspace import private_error_bound
from bayesdp.polytopes import SymmetricHull
from bayesdp.privacy import neighbour_differences, optimal_factorization

type Floats = npt.NDArray[np.float64]

CELLS, TABLE, MARGINS = {"cell": range(6)}, {"row": range(3), "column": range(3)}, {"row": range(2), "column": range(3)}
AGES, LONG = {"age": range(8)}, {"cell": range(16)}
BELOW = bdp.LinearQuery(AGES, np.tril(np.ones((7, 8), dtype=int)), [f"up to {a}" for a in range(7)])
ROWS = np.vstack([np.full(16, 100), np.array(list(product([-1, 1], repeat=4))).T])

CASES = {
    "six cells": (bdp.Invariants(bdp.Totals(CELLS)), bdp.Identity(CELLS), "substitution"),
    "3 x 3": (bdp.Invariants(bdp.Margins(TABLE, ["row"], ["column"])), bdp.Identity(TABLE), "substitution"),
    "margins": (bdp.Invariants(bdp.Totals(MARGINS)), bdp.Margins(MARGINS, ["row"], ["column"]), "substitution"),
    "running totals": (bdp.Invariants(bdp.Totals(AGES)), BELOW, "substitution"),
    "hundredfold": (bdp.Invariants(frame=LONG), bdp.LinearQuery(LONG, ROWS, list("habcd")), "add-remove"),
}
"""Invariants, query, neighbours."""

PAGE = {
    "six cells": (31.43, 60.00, 74.15, 29.72, 3.40),
    "3 x 3": (16.67, 26.67, 37.14, 15.59, 2.27),
    "margins": (30.00, 46.63, 67.18, 27.71, 4.17),
    "running totals": (70.00, 139.74, 686.00, 32.20, 5.58),
    "hundredfold": (140_056, 64_896, 108_160, 20_036, 4_406),
}
"""KNorm, ellipsoid, extended Laplace, no norm below, no mechanism below."""


def of_one_range(points: Floats) -> float:
    """``k (k + 1) r**2``, r the radius of the ball with the volume of the hull of points and their negatives."""
    k = points.shape[1]
    both = np.vstack([points, -points])
    volume = ConvexHull(both, qhull_options="QJ" if k > 4 else None).volume if k > 1 else 2.0 * np.abs(points).max()
    return float(k * (k + 1) * (volume * gamma(k / 2 + 1)) ** (2 / k) / pi)


def no_norm_below(vectors: Floats) -> float:
    """The largest sum over cuts of the principal axes into ranges."""
    turned = vectors @ np.linalg.eigh(vectors.T @ vectors)[1]
    best = [0.0]
    for last in range(1, turned.shape[1] + 1):
        best.append(max(best[first] + of_one_range(turned[:, first:last]) for first in range(last)))
    return best[-1]


def of_ellipsoid(vectors: Floats, tolerance: float) -> float:
    """The error of noise of the norm of the ellipsoid with the least trace."""
    return (vectors.shape[1] + 1) * float(np.trace(optimal_factorization(vectors, tolerance=tolerance).covariance))


@pytest.mark.parametrize("case", CASES)
def test_the_figures_of_the_page(case: str) -> None:
    kept, query, neighbours = CASES[case]
    vectors = neighbour_differences(query, kept, neighbours)
    k_norm, laplace = (kind(kept, 1.0, query=query, neighbours=neighbours).error for kind in (KNorm, ExtendedLaplace))
    pure = private_error_bound(vectors, 1e-3) * 1e-6
    found = (k_norm, of_ellipsoid(vectors, 1e-6), laplace, no_norm_below(vectors), pure)
    assert found == pytest.approx(PAGE[case], rel=3e-4, abs=0.006)


def test_twenty_ages() -> None:
    """Laplace noise for all ages but the middle one, of scale 2: running totals from both ends."""
    ages = {"age": range(20)}
    below = bdp.LinearQuery(ages, np.tril(np.ones((19, 20), dtype=int)), [f"up to {a}" for a in range(19)])
    vectors = neighbour_differences(below, bdp.Invariants(bdp.Totals(ages)), "substitution")
    assert of_ellipsoid(vectors, 1e-5) == pytest.approx(1477.4, abs=0.5)
    noisy = [age for age in range(20) if age != 10]
    sums = np.array([np.arange(20) <= a if a < 10 else -(np.arange(20) > a).astype(int) for a in range(19)])
    moves = np.array([np.eye(20)[a] - np.eye(20)[b] for a in range(20) for b in range(20) if a != b])
    scale = np.abs(moves[:, noisy]).sum(axis=1).max()
    assert 2.0 * scale**2 * np.sum(sums[:, noisy].astype(float) ** 2) == pytest.approx(800.0)
    assert not sums[:, 10].any()  # nothing is left out that has no noise


def test_the_bounds_hold_for_random_hulls() -> None:
    """Normal vertices, boxes, and many points on an ellipsoid; the bounds are below all noise of norms that is known."""
    rng = np.random.default_rng(1)
    for turn in range(24):
        d = int(rng.integers(2, 5))
        scales = 10 ** rng.uniform(0, 1.5, d)
        if turn % 3 == 0:
            vectors = rng.normal(size=(4 * d, d))
        elif turn % 3 == 1:
            vectors = np.array(list(product([-1.0, 1.0], repeat=d)))[: 2 ** (d - 1)]
        else:
            vectors = rng.normal(size=(30, d))
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = vectors * scales
        ball = SymmetricHull(vectors).second_moment
        assert ball is not None
        axes = np.linalg.eigh(vectors.T @ vectors)[1]
        laplace = min(2 * d * float(np.abs(vectors @ basis).sum(axis=1).max()) ** 2 for basis in (np.eye(d), axes))
        least = min(float(np.trace(ball)), laplace, of_ellipsoid(vectors, 1e-3))
        assert no_norm_below(vectors) <= least * (1 + 1e-9)
        assert private_error_bound(vectors, 1e-3) * 1e-6 <= least


def test_an_ellipsoid_can_win() -> None:
    """A rectangle, in closed form: 3 (a + b)**2 against 4 (a**2 + b**2) of its own norm; and the hull of the page."""
    rectangle = np.array([[7.2, 1.0], [7.2, -1.0]])
    assert np.trace(SymmetricHull(rectangle).second_moment) == pytest.approx(4 * (7.2**2 + 1), rel=1e-9)
    assert of_ellipsoid(rectangle, 1e-7) == pytest.approx(3 * 8.2**2, rel=1e-6)
    hull = np.array([[-13.0, 4], [-38, 2], [-36, 4], [38, 4]])
    assert round(of_ellipsoid(hull, 1e-6)) == 5073
    # Rows of the inverse of the basis: noise of rate 1 along each, which no vertex exceeds.
    one, other = 0.16144295580947549, 1.5896869740131976
    rows = np.array([[0.3 * np.cos(one), 0.3 * np.sin(one)], [0.7 * np.cos(other), 0.7 * np.sin(other)]])
    rows /= np.abs(hull @ rows.T).sum(axis=1).max()
    assert round(2 * float(np.sum(np.linalg.inv(rows) ** 2))) == 5070


@pytest.mark.parametrize("d", [1, 2, 3])
def test_the_bound_is_attained_by_one_ball(d: int) -> None:
    """Laplace noise for one answer; nearly, for points all over a sphere: ``d (d + 1)``."""
    points = np.random.default_rng(2).normal(size=(1500, d))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    assert of_one_range(points) == pytest.approx(d * (d + 1), rel=0.01)
