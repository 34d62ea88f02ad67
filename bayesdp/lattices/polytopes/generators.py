"""The vertices of a symmetric polytope, listed or not, and its gauge by the simplex method, in compiled code.

A linear program over the vertices never needs their list: only, step by step, the vertex on which a form is greatest.
Vertices come as

- a list, and their negatives;
- the tables with zero margins that a few records make by trading places. Two records exchange their columns, which
  changes four cells (a 2 x 2 move); three do so in turn, which changes six (a 3-cycle). For a table of forms W, and with
  ``gain(i, k) = max_j (W_ij - W_kj)``, what k records gain at best is the heaviest closed walk of k steps over the rows.
  So the 10^5 vertices of a 10 x 10 table are searched in a thousand additions.

The gauge of v is the least ``sum lambda`` with ``lambda >= 0`` and ``sum lambda_c c = v`` over the vertices c. Every basis
of n vertices, with signs, gives an upper bound; its form y, which is 1 on all of them, gives the lower bound ``y @ v / h``
with h the greatest value of y on a vertex. A step puts the vertex of that value into the basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import qr

from bayesdp._arrays import Floats, Ints
from bayesdp._numba import nb


class Vertices(NamedTuple):
    """Vertices by what compiled code needs to know of them."""

    # One in each column: vertices, or the coordinates of the unit tables in C order, divided by `Generators.scale`; shape (n, count).
    vectors: Floats
    shape: Ints  # for circuits: rows, columns, and how many records, 2 or 3; zeros for a list


class Basis(NamedTuple):
    """n vertices that span the space, one a row, and their inverse: ``inverse @ corners`` is the unit matrix."""

    corners: Floats
    inverse: Floats


@nb.njit(cache=True, error_model="numpy")
def copied(basis: Basis) -> Basis:
    """One to be overwritten."""
    return Basis(basis.corners.copy(), basis.inverse.copy())


@nb.njit(cache=True, error_model="numpy")
def best_vertex(vertices: Vertices, form: Floats, heights: Floats, gains: Floats, steps: Ints, column: Floats) -> float:
    """Find a vertex with the greatest value of a form; gives that value."""
    # `heights`, `gains`, `steps`: scratch, shapes (count,), (rows, rows), (rows, rows). `column`, shape (n,): overwritten by it.
    vectors, shape = vertices
    heights[:] = 0.0
    for t in range(len(form)):
        for i in range(len(heights)):  # along the memory, so that this is done several entries at a time
            heights[i] += form[t] * vectors[t, i]
    if shape[0]:
        return _best_circuit(vectors, shape, heights, gains, steps, column)
    best = 0
    for i in range(len(heights)):
        if abs(heights[i]) > abs(heights[best]):
            best = i
    sign = 1.0 if heights[best] >= 0.0 else -1.0
    for t in range(len(form)):
        column[t] = sign * vectors[t, best]
    return float(abs(heights[best]))


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


_GAP = 1e-10  # upper and lower bound agree to this, relatively, when a gauge counts as solved
_RESIDUAL = 1e-11  # the basis must give the point back to this, relatively
_SHIFT = 1e-9  # relative shift of the starting weights, so that no step has length zero; bounds are computed without it


@nb.njit(cache=True, error_model="numpy")
def solve(vertices: Vertices, basis: Basis, point: Floats, weights: Floats, form: Floats) -> float:
    """The gauge of a point, to a relative 1e-10 from below; NaN if rounding errors took over; see above."""
    # `basis`: overwritten by the last one. `point`: not zero. `weights` and `form`, shape (n,), are overwritten: `weights @ corners`
    # is the point, and the form is at most 1 on all vertices.
    corners, inverse = basis
    n = len(point)
    shifted, entering, column, spent = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    heights, rows = np.empty(vertices.vectors.shape[1]), vertices.shape[0]
    gains, steps = np.zeros((rows, rows)), np.zeros((rows, rows), dtype=np.int64)
    size = np.max(np.abs(point))
    _weigh(basis, point, weights, form, shifted)
    renewed = 0
    lower = 0.0
    for _ in range(200 * n + 1000):
        height = best_vertex(vertices, form, heights, gains, steps, column)
        lower = max(lower, np.sum(weights) / max(height, 1.0))
        if height <= 1.0 + _GAP:
            # The shift may have left the last weights slightly negative: then, and after rounding errors, not solved.
            upper = np.sum(np.abs(weights))
            spent[:] = -point
            for i in range(n):
                for t in range(n):
                    spent[t] += weights[i] * corners[i, t]
            if upper - lower <= 2.0 * _GAP * upper and np.max(np.abs(spent)) <= _RESIDUAL * size:
                if height > 1.0:
                    form /= height
                return lower
            if renewed == 3:
                return np.nan
            renewed += 1
            inverse[:] = np.linalg.inv(corners)
            _weigh(basis, point, weights, form, shifted)
            lower = 0.0
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
            return np.nan
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
    return np.nan


@nb.njit(cache=True, error_model="numpy")
def _weigh(basis: Basis, point: Floats, weights: Floats, form: Floats, shifted: Floats) -> None:
    """Weights of a point in a basis, whose vertices change sign where the weight would be negative."""
    corners, inverse = basis
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
        # Any positive numbers that are not in simple proportions.
        shifted[i] = weights[i] + _SHIFT * size * (0.5 + (i + 1) * 0.6180339887498949 % 1.0)
    for t in range(n):
        for i in range(n):
            form[t] += inverse[t, i]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(vertices: Vertices, start: Basis, points: Floats, values: Floats) -> None:
    """Fill `values`: the gauges of points, one a row."""
    weights, form = np.empty(points.shape[1]), np.empty(points.shape[1])
    for i in range(len(points)):
        values[i] = solve(vertices, copied(start), points[i], weights, form) if np.any(points[i] != 0.0) else 0.0


_WORK = 3e6  # of a call of compiled code, which cannot be interrupted, in units of the cube of the dimension: under a second


@dataclass(frozen=True, eq=False)
class Generators:
    """Vertices, and where linear programs over them begin. Made by `listed` and `circuits`."""

    vertices: Vertices
    start: Basis  # vertices, divided by `scale`
    scale: float

    @property
    def dimension(self) -> int:
        """Dimension n of the space."""
        return len(self.vertices.vectors)

    def gauges(self, points: Floats) -> Floats:
        """Gauges of points, shape (count, n) to (count,); NaN where rounding errors took over."""
        sizes, values = np.max(np.abs(points), axis=1), np.empty(len(points))
        rows = np.ascontiguousarray(points / np.where(sizes > 0.0, sizes, 1.0)[:, None])
        batch = max(1, int(_WORK / self.dimension**3))
        for first in range(0, len(points), batch):
            part = slice(first, first + batch)
            _fill(self.vertices, self.start, rows[part], values[part])
        return np.asarray(values * sizes / self.scale)

    def subgradient(self, point: Floats) -> tuple[float, Floats]:
        """Gauge of one point, and a form that attains it, which is at most 1 on the polytope; NaN likewise."""
        form, weights = np.zeros(self.dimension), np.zeros(self.dimension)
        size = float(np.max(np.abs(point)))
        if size == 0.0:
            return 0.0, form
        value = solve(self.vertices, copied(self.start), np.ascontiguousarray(point) / size, weights, form)
        return value * size / self.scale, form / self.scale


def _make(vectors: Floats, shape: tuple[int, int, int], corners: Floats) -> Generators:
    scale = float(np.max(np.abs(corners)))
    start = np.ascontiguousarray(corners / scale)
    vertices = Vertices(np.ascontiguousarray(vectors.T / scale), np.array(shape, dtype=np.int64))
    return Generators(vertices, Basis(start, np.ascontiguousarray(np.linalg.inv(start))), scale)


def listed(vertices: Floats) -> Generators:
    """Of vertices, shape (m, n), that span the space, and their negatives."""
    _, _, order = qr(vertices.T, mode="economic", pivoting=True)  # the first are far from dependent
    return _make(vertices, (0, 0, 0), vertices[order[: vertices.shape[1]]])


def circuits(units: Floats, rows: int, columns: int, records: int) -> Generators:
    """Of the tables with zero margins that at most so many records make by trading places."""
    # `units`, shape (rows * columns, n): coordinates of the unit tables, in C order, in the space of tables with zero margins.
    grid = units.reshape(rows, columns, -1)
    # Moves between each cell and the last one: a basis of the lattice.
    corners = (grid[:-1, :-1] - grid[-1, :-1] - grid[:-1, -1:] + grid[-1, -1]).reshape(-1, grid.shape[2])
    return _make(units, (rows, columns, records), corners)
