"""The vertices of a symmetric polytope, listed or not, and its gauge by the simplex method, in compiled code.

A linear program over the vertices never needs their list: only, step by step, the vertex on which a form is greatest.
Vertices come as

- a list, and their negatives;
- all differences of two of some points;
- the tables with zero margins that a few records make by trading places. Two records exchange their columns, which
  changes four cells (a 2 x 2 move); three do so in turn, which changes six (a 3-cycle). For a table of forms W, and with
  ``gain(i, k) = max_j (W_ij - W_kj)``, what k records gain at best is the heaviest closed walk of k steps over the rows.
  So the 10^5 vertices of a 10 x 10 table are searched in a thousand additions.

The gauge of v is the least ``sum lambda`` with ``lambda >= 0`` and ``sum lambda_c c = v`` over the vertices c. Every basis
of n vertices, with signs, gives an upper bound; its form y, which is 1 on all of them, gives the lower bound ``y @ v / h``
with h the greatest value of y on a vertex. A step puts the vertex of that value into the basis. Many questions are answered
before the last step: noise is kept if its gauge is below a limit, and it is settled as soon as one of the bounds is on one side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from bayesdp._numba import nb

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

LISTED, DIFFERENCES, CIRCUITS = 0, 1, 2


class Vertices(NamedTuple):
    """Vertices by what compiled code needs to know of them."""

    kind: int  # `LISTED`, `DIFFERENCES` or `CIRCUITS`
    # One in each column: vertices, points or the coordinates of the unit tables in C order, divided by `Generators.scale`; shape
    # (n, count).
    vectors: Floats
    shape: Ints  # for circuits: rows, columns, and how many records, 2 or 3


class Basis(NamedTuple):
    """n vertices that span the space, one a row; their inverse; for differences, the two points of each."""

    corners: Floats
    inverse: Floats  # ``inverse @ corners`` is the unit matrix
    ends: Ints


@nb.njit(cache=True, error_model="numpy")
def copied(basis: Basis) -> Basis:
    """One to be overwritten."""
    return Basis(basis.corners.copy(), basis.inverse.copy(), basis.ends.copy())


@nb.njit(cache=True, error_model="numpy")
def best_vertex(
    vertices: Vertices, form: Floats, heights: Floats, gains: Floats, steps: Ints, column: Floats
) -> tuple[float, int, int]:
    """Find a vertex with the greatest value of a form."""
    # `heights`, `gains`, `steps`: scratch, shapes (count,), (rows, rows), (rows, rows). `column`, shape (n,): overwritten by the
    # vertex. Returns its value; for differences, which two points.
    kind, vectors, shape = vertices
    heights[:] = 0.0
    for t in range(len(form)):
        for i in range(len(heights)):  # along the memory, so that this is done several entries at a time
            heights[i] += form[t] * vectors[t, i]
    if kind == CIRCUITS:
        return _best_circuit(vectors, shape, heights, gains, steps, column), 0, 0
    if kind == DIFFERENCES:
        top, bottom = int(np.argmax(heights)), int(np.argmin(heights))
        for t in range(len(form)):
            column[t] = vectors[t, top] - vectors[t, bottom]
        return heights[top] - heights[bottom], top, bottom
    best = 0
    for i in range(len(heights)):
        if abs(heights[i]) > abs(heights[best]):
            best = i
    sign = 1.0 if heights[best] >= 0.0 else -1.0
    for t in range(len(form)):
        column[t] = sign * vectors[t, best]
    return abs(heights[best]), best, 0


@nb.njit(cache=True, error_model="numpy")
def _best_circuit(vectors: Floats, shape: Ints, heights: Floats, gains: Floats, steps: Ints, column: Floats) -> float:
    rows, columns, records = shape
    for i in range(rows):
        for k in range(rows):
            # Staying in the row gains nothing; so two records are among the choices of three.
            gains[i, k] = 0.0
            if i != k:
                gains[i, k] = -np.inf
                for j in range(columns):
                    gain = heights[i * columns + j] - heights[k * columns + j]
                    if gain > gains[i, k]:
                        gains[i, k], steps[i, k] = gain, j
    best, first, second, third = -1.0, 0, 0, 0
    for i in range(rows):
        for k in range(i + 1, rows):
            gain = gains[i, k] + gains[k, i]
            if gain > best:
                best, first, second, third = gain, i, k, k
            if records == 3:
                for m in range(i + 1, rows):
                    gain = gains[i, k] + gains[k, m] + gains[m, i]
                    if gain > best:
                        best, first, second, third = gain, i, k, m
    column[:] = 0.0
    for up, down in ((first, second), (second, third), (third, first)):
        if up != down:
            j = steps[up, down]
            for t in range(len(column)):
                column[t] += vectors[t, up * columns + j] - vectors[t, down * columns + j]
    return best


FAILED, SOLVED, BELOW, ABOVE = -1, 0, 1, 2

_GAP = 1e-10  # upper and lower bound agree to this, relatively, when a gauge counts as solved
_RESIDUAL = 1e-11  # the basis must give the point back to this, relatively
_SHIFT = 1e-9  # relative shift of the starting weights, so that no step has length zero; bounds are computed without it


@nb.njit(cache=True, error_model="numpy")
def solve(
    vertices: Vertices, basis: Basis, point: Floats, limit: float, weights: Floats, form: Floats
) -> tuple[int, float, float, int]:
    """Bound the gauge of a point, until the bounds meet or one of them has passed a limit; see above."""
    # `basis`: overwritten by the last one. `point`: not zero. `limit`: NaN for none. `weights` and `form`, shape (n,), are
    # overwritten: `weights @ corners` is the point, and the form is at most 1 on all vertices. Returns the state, upper and lower
    # bound, and the number of steps.
    corners, inverse, ends = basis
    n = len(point)
    shifted, entering, column, spent = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    heights, rows = np.empty(vertices.vectors.shape[1]), vertices.shape[0]
    gains, steps = np.zeros((rows, rows)), np.zeros((rows, rows), dtype=np.int64)
    size = np.max(np.abs(point))
    _weigh(basis, point, weights, form, shifted)
    renewed = 0
    upper, lower = np.inf, 0.0
    for step in range(200 * n + 1000):
        height, top, bottom = best_vertex(vertices, form, heights, gains, steps, column)
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
            _weigh(basis, point, weights, form, shifted)
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
def _weigh(basis: Basis, point: Floats, weights: Floats, form: Floats, shifted: Floats) -> None:
    """Weights of a point in a basis, whose vertices change sign where the weight would be negative."""
    corners, inverse, ends = basis
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
def is_below(vertices: Vertices, start: Basis, points: Floats, limits: Floats, states: Ints) -> None:
    """Fill `states`: `BELOW` or `ABOVE` for points, one a row, whose gauges are to be compared with limits."""
    n = points.shape[1]
    weights, form = np.empty(n), np.empty(n)
    for i in range(len(points)):
        state, upper, lower, _ = solve(vertices, copied(start), points[i], limits[i], weights, form)
        if state == SOLVED:  # as close to the limit as the gap
            state = BELOW if 0.5 * (upper + lower) <= limits[i] else ABOVE
        states[i] = state


WORK = 3e6
"""Work of a call of compiled code, which cannot be interrupted, in units of the cube of the dimension: under a second."""


@dataclass(frozen=True, eq=False)
class Generators:
    """Vertices, and where linear programs over them begin. Made by `listed`, `differences` and `circuits`."""

    vertices: Vertices
    start: Basis  # vertices, divided by `scale`
    scale: float

    @property
    def dimension(self) -> int:
        """Dimension n of the space."""
        return len(self.vertices.vectors)

    def support(self, form: Floats) -> float:
        """Greatest value of a linear form, shape (n,), on the polytope."""
        rows = int(self.vertices.shape[0])
        heights, gains, steps = (
            np.empty(self.vertices.vectors.shape[1]),
            np.zeros((rows, rows)),
            np.zeros((rows, rows), int),
        )
        column, contiguous = np.empty(self.dimension), np.ascontiguousarray(form, dtype=np.float64)
        height, _, _ = best_vertex(self.vertices, contiguous, heights, gains, steps, column)
        return float(height) * self.scale

    def gauge(self, point: Floats, basis: Basis | None = None) -> tuple[float, Floats, Floats] | None:
        """Gauge of one point, a form that attains it, and weights of the last basis; None if rounding errors took over."""
        # `basis`: to begin with, and overwritten by the last one. The form is at most 1 on the polytope, and the sum of the weights
        # is the gauge.
        basis = copied(self.start) if basis is None else basis
        weights, form = np.zeros(self.dimension), np.zeros(self.dimension)
        size = float(np.max(np.abs(point)))
        if size == 0.0:
            return 0.0, form, weights
        state, _, lower, _ = solve(self.vertices, basis, np.ascontiguousarray(point) / size, np.nan, weights, form)
        if state != SOLVED:
            return None
        return lower * size / self.scale, form / self.scale, weights * size / self.scale

    def below(self, points: Floats, limits: Floats) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Whether gauges are at most so large; and where this is not known, because rounding errors took over."""
        states = np.full(len(points), FAILED, dtype=np.int64)
        rows, ends = np.ascontiguousarray(points), np.ascontiguousarray(limits * self.scale)
        batch = max(1, int(WORK / self.dimension**3))
        for first in range(0, len(points), batch):
            part = slice(first, first + batch)
            is_below(self.vertices, self.start, rows[part], ends[part], states[part])
        # The origin is in every polytope; compiled code is not asked, because nothing can be scaled to it.
        at_origin = ~np.any(rows, axis=1)
        return np.where(at_origin, limits >= 0, states == BELOW), (states == FAILED) & ~at_origin


def _make(kind: int, vectors: Floats, shape: tuple[int, int, int], corners: Floats, ends: Ints) -> Generators:
    scale = float(np.max(np.abs(corners)))
    start = np.ascontiguousarray(corners / scale)
    basis = Basis(start, np.ascontiguousarray(np.linalg.inv(start)), np.ascontiguousarray(ends, dtype=np.int64))
    vertices = Vertices(kind, np.ascontiguousarray(vectors.T / scale), np.array(shape, dtype=np.int64))
    return Generators(vertices, basis, scale)


def _independent(vectors: Floats) -> Ints:
    """Rows that span the space, far from dependent."""
    _, _, order = qr(vectors.T, mode="economic", pivoting=True)
    return np.asarray(order[: vectors.shape[1]], dtype=np.int64)


def listed(vertices: Floats) -> Generators:
    """Of vertices, shape (m, n), that span the space, and their negatives."""
    chosen = _independent(vertices)
    return _make(LISTED, vertices, (0, 0, 0), vertices[chosen], np.column_stack([chosen, chosen]))


def differences(points: Floats) -> Generators:
    """Of all differences of two points, shape (count, n), which must span the space."""
    chosen = 1 + _independent(points[1:] - points[0])
    ends = np.column_stack([chosen, np.zeros(len(chosen), dtype=np.int64)])
    return _make(DIFFERENCES, points, (0, 0, 0), points[chosen] - points[0], ends)


def circuits(units: Floats, rows: int, columns: int, records: int) -> Generators:
    """Of the tables with zero margins that at most so many records make by trading places."""
    # `units`, shape (rows * columns, n): coordinates of the unit tables, in C order, in the space of tables with zero margins.
    grid = units.reshape(rows, columns, -1)
    # Moves between each cell and the last one: a basis of the lattice.
    corners = (grid[:-1, :-1] - grid[-1, :-1] - grid[:-1, -1:] + grid[-1, -1]).reshape(-1, grid.shape[2])
    ends = np.zeros((len(corners), 2), dtype=np.int64)
    return _make(CIRCUITS, units, (rows, columns, records), corners, ends)
