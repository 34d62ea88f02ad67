"""Exact draws from the density proportional to ``exp(-epsilon ||v||)`` by the cones over boundary simplices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._random import exponential, seed_state, uniform
from bayesdp.hulls.boundary import Boundary

type Floats = npt.NDArray[np.float64]


def draw_cones(
    vertices: Floats, boundary: Boundary, epsilon: float, rng: np.random.Generator, size: int
) -> npt.NDArray[np.float64]:
    """Draw points with density proportional to ``exp(-epsilon ||v||)``, exactly."""
    # In the cone over a boundary simplex with corners c_1, ..., c_n the gauge of `sum t_j c_j` is `sum t_j`. So the cone has
    # probability proportional to `|det(c_1, ..., c_n)|`, and in it the t_j are independent exponential variables of rate epsilon.
    # `vertices`, shape (m, n). `boundary`: of these vertices. Returns shape (size, n).
    corners = np.concatenate([vertices, -vertices]) / epsilon
    draws = np.zeros((size, vertices.shape[1]))
    cumulative = np.cumsum(boundary.determinants)
    _fill(seed_state(rng), cumulative / cumulative[-1], boundary.simplices, corners, draws)
    return draws


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(
    state: npt.NDArray[np.uint64], cumulative: Floats, simplices: npt.NDArray[np.int32], corners: Floats, draws: Floats
) -> None:
    n = corners.shape[1]
    for draw in range(draws.shape[0]):
        row = draws[draw]
        cone = np.searchsorted(cumulative, uniform(state), side="right")
        for j in range(n):
            corner = corners[simplices[cone, j]]
            weight = exponential(state)
            for i in range(n):
                row[i] += weight * corner[i]


def second_moment(vertices: Floats, boundary: Boundary) -> Floats:
    """Expectation of ``v v^T`` under the density proportional to ``exp(-||v||)``.

    In one cone it is ``sum_j c_j c_j^T + (sum_j c_j) (sum_j c_j)^T``, because independent standard
    exponential variables have ``E t_j t_k = 1`` and ``E t_j**2 = 2``.

    Returns
    -------
    float array, shape (n, n)
    """
    points = np.concatenate([vertices, -vertices])
    weights = boundary.determinants / boundary.determinants.sum()
    # How often each corner appears, and the sums of corners, weighted.
    share = np.bincount(boundary.simplices.reshape(-1), np.repeat(weights, points.shape[1]), len(points))
    sums = np.zeros((len(weights), points.shape[1]))
    for corner in boundary.simplices.T:
        sums += points[corner]
    return np.asarray((points.T * share) @ points + (sums.T * weights) @ sums)
