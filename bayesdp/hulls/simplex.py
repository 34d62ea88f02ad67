"""The gauge of a polytope by the simplex method, in compiled code, with bounds from both sides at every step.

The gauge of v is the least ``sum lambda`` with ``lambda >= 0`` and ``sum lambda_c c = v`` over the vertices c. Every basis
of n vertices, with signs, gives an upper bound; its form y, which is 1 on all of them, gives the lower bound ``y @ v / h``
with h the greatest value of y on a vertex (`bayesdp.hulls.pricing`). A step puts the vertex of that value into the basis.

Many questions are answered before the last step: noise is kept if its gauge is below a limit, and it is settled as soon as
one of the bounds is on one side of it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp.hulls.pricing import best_vertex

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

FAILED, SOLVED, BELOW, ABOVE = -1, 0, 1, 2

_GAP = 1e-10
"""Upper and lower bound agree to this, relatively, when a gauge counts as solved."""

_RESIDUAL = 1e-11
"""The basis must give the point back to this, relatively."""

_SHIFT = 1e-9
"""Relative shift of the starting weights, so that no step has length zero; bounds are computed without it."""


@nb.njit(cache=True, error_model="numpy")
def solve(
    kind: int, vectors: Floats, shape: Ints, corners: Floats, inverse: Floats, ends: Ints, point: Floats,
    limit: float, weights: Floats, form: Floats,
) -> tuple[int, float, float, int]:  # fmt: skip
    """Bound the gauge of a point, until the bounds meet or one of them has passed a limit.

    Parameters
    ----------
    kind, vectors, shape
        The vertices, see `bayesdp.hulls.pricing`; entries of order 1.
    corners : float array, shape (n, n)
        A basis of vertices, one a row. Overwritten by the last basis, as are the next two.
    inverse : float array, shape (n, n)
        Its inverse: ``inverse @ corners`` is the unit matrix.
    ends : int array, shape (n, 2)
        For differences, the two points of each.
    point : float array, shape (n,)
        Not zero.
    limit : float
        NaN for none.
    weights, form : float array, shape (n,)
        Overwritten: ``weights @ corners`` is the point, and the form is at most 1 on all vertices.

    Returns
    -------
    int
        `SOLVED`, `BELOW` or `ABOVE` the limit, or `FAILED` (rounding errors took over; not seen).
    float, float
        Upper and lower bound.
    int
        Number of steps.
    """
    n = len(point)
    shifted, entering, column, spent = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    heights = np.empty(vectors.shape[1])
    gains, steps = np.zeros((shape[0], shape[0])), np.zeros((shape[0], shape[0]), dtype=np.int64)
    size = np.max(np.abs(point))
    _weigh(corners, inverse, ends, point, weights, form, shifted)
    renewed = 0
    upper, lower = np.inf, 0.0
    for step in range(200 * n + 1000):
        height, top, bottom = best_vertex(kind, vectors, shape, form, heights, gains, steps, column)
        value = np.sum(weights)
        upper, lower = np.sum(np.abs(weights)), max(lower, value / max(height, 1.0))
        state = FAILED
        if upper <= limit:
            state = BELOW
        elif lower > limit:
            state = ABOVE
        elif height <= 1.0 + _GAP:
            # The shift may have left the last weights slightly negative: then, and after rounding errors, not solved.
            if upper - lower <= 2.0 * _GAP * upper:
                state = SOLVED
            elif renewed == 3:
                return FAILED, upper, lower, step
        if state != FAILED or height <= 1.0 + _GAP:
            spent[:] = -point
            for i in range(n):
                for t in range(n):
                    spent[t] += weights[i] * corners[i, t]
            if state != FAILED and np.max(np.abs(spent)) <= _RESIDUAL * size:
                if height > 1.0:
                    form /= height
                return state, upper, lower, step
            if renewed == 3:
                return FAILED, upper, lower, step
            renewed += 1
            inverse[:] = np.linalg.inv(corners)
            _weigh(corners, inverse, ends, point, weights, form, shifted)
            upper, lower = np.inf, 0.0
            continue
        entering[:] = 0.0
        for t in range(n):
            for i in range(n):
                entering[i] += column[t] * inverse[t, i]
        length, leaving = np.inf, -1
        for i in range(n):
            if entering[i] > 1e-9 and shifted[i] < length * entering[i]:
                length, leaving = shifted[i] / entering[i], i
        if leaving < 0:
            return FAILED, upper, lower, step
        pivot = entering[leaving]
        true = weights[leaving] / pivot
        for i in range(n):
            shifted[i] -= length * entering[i]
            weights[i] -= true * entering[i]
        shifted[leaving], weights[leaving] = length, true
        for t in range(n):
            share = inverse[t, leaving] / pivot
            for i in range(n):
                inverse[t, i] -= share * entering[i]
            inverse[t, leaving] = share
            form[t] -= (height - 1.0) * share
            corners[leaving, t] = column[t]
        ends[leaving, 0], ends[leaving, 1] = top, bottom
    return FAILED, upper, lower, -1


@nb.njit(cache=True, error_model="numpy")
def _weigh(
    corners: Floats, inverse: Floats, ends: Ints, point: Floats, weights: Floats, form: Floats, shifted: Floats
) -> None:
    """Weights of a point in a basis, whose vertices change sign where the weight would be negative."""
    n = len(point)
    weights[:] = 0.0
    for t in range(n):
        for i in range(n):
            weights[i] += point[t] * inverse[t, i]
    size = np.max(np.abs(weights))
    form[:] = 0.0
    for i in range(n):
        if weights[i] < 0.0:
            weights[i] = -weights[i]
            corners[i] *= -1.0
            inverse[:, i] *= -1.0
            ends[i, 0], ends[i, 1] = ends[i, 1], ends[i, 0]
        # Any positive numbers that are not in simple proportions.
        shifted[i] = weights[i] + _SHIFT * size * (0.5 + (i + 1) * 0.6180339887498949 % 1.0)
    for t in range(n):
        for i in range(n):
            form[t] += inverse[t, i]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def is_below(
    kind: int, vectors: Floats, shape: Ints, corners: Floats, inverse: Floats, ends: Ints, points: Floats,
    limits: Floats, states: Ints,
) -> None:  # fmt: skip
    """Fill `states`: `BELOW` or `ABOVE` for points, one a row, whose gauges are to be compared with limits."""
    n = points.shape[1]
    weights, form = np.empty(n), np.empty(n)
    for i in range(len(points)):
        state, upper, lower, _ = solve(
            kind, vectors, shape, corners.copy(), inverse.copy(), ends.copy(), points[i], limits[i], weights, form
        )
        if state == SOLVED:  # as close to the limit as the gap
            state = BELOW if 0.5 * (upper + lower) <= limits[i] else ABOVE
        states[i] = state
