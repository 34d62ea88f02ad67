"""The vertices of a symmetric polytope, listed or not, and its gauge by the simplex method, in compiled code.

A linear program over the vertices never needs their list: only, step by step, the vertex on which a form is greatest.
Vertices come as

- a list, and their negatives;
- the tables with zero margins that a few records make by trading places. Two records exchange their columns, which
  changes four cells (a 2 x 2 move); three do so in turn, which changes six (a 3-cycle). For a table of forms W, and with
  ``gain(i, k) = max_j (W_ij - W_kj)``, what k records gain at best is the heaviest closed walk of k steps over the rows.
  So the 10^5 vertices of a 10 x 10 table are searched in a thousand additions. The coordinates are the cells of all rows and
  columns but the last, in which a vertex has at most six numbers that are not zero.

The gauge of v is the least ``sum lambda`` with ``lambda >= 0`` and ``sum lambda_c c = v`` over the vertices c. Every basis
of n vertices, with signs, gives an upper bound; its form y, which is 1 on all of them, gives the lower bound ``y @ v / h``
with h the greatest value of y on a vertex. A step puts the vertex of that value into the basis. For circuits the first basis has those
of a greedy decomposition of the point (`_decompose`), about a tenth above the gauge at most, which leaves a quarter of the steps.
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

    vectors: Floats  # for a list: one in each column, divided by `Generators.scale`, shape (n, count); else empty
    shape: Ints  # for circuits: rows, columns, and how many records, 2 or 3; zeros for a list


class Basis(NamedTuple):
    """n vertices that span the space, one a row, and their inverse: ``inverse @ corners`` is the unit matrix."""

    corners: Floats
    inverse: Floats


@nb.njit(cache=True, error_model="numpy")
def best_vertex(vertices: Vertices, form: Floats, heights: Floats, gains: Floats, column: Floats) -> float:
    """Find a vertex with the greatest value of a form; gives that value."""
    # `heights`, `gains`: scratch, shapes (count,) or (rows * columns,), and (rows, rows). `column`, shape (n,): overwritten by it.
    vectors, shape = vertices
    if shape[0]:
        return _best_circuit(shape, form, heights.reshape(shape[0], shape[1]), gains, column)
    heights[:] = np.dot(form, vectors)
    best = np.argmax(np.abs(heights))
    column[:] = vectors[:, best] if heights[best] >= 0.0 else -vectors[:, best]
    return float(abs(heights[best]))


@nb.njit(cache=True, error_model="numpy")
def _best_circuit(shape: Ints, form: Floats, heights: Floats, gains: Floats, column: Floats) -> float:
    rows, columns, records = shape
    heights[-1], heights[:, -1] = 0.0, 0.0
    heights[:-1, :-1] = form.reshape(rows - 1, columns - 1)
    for i in range(rows):
        gains[i, i] = 0.0  # staying in the row gains nothing; so two records are among the choices of three
        for k in range(i + 1, rows):
            most, least = -np.inf, np.inf
            for j in range(columns):
                gain = heights[i, j] - heights[k, j]
                most = gain if gain > most else most
                least = gain if gain < least else least
            gains[i, k], gains[k, i] = most, -least
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
            _trade(column, shape, up, down, int(np.argmax(heights[up] - heights[down])))
    return best


@nb.njit(cache=True, error_model="numpy")
def _trade(column: Floats, shape: Ints, up: int, down: int, j: int) -> None:
    """Add one record in a row, and take one from another, both in column j."""
    rows, columns, _ = shape
    if j < columns - 1:
        if up < rows - 1:
            column[up * (columns - 1) + j] += 1.0
        if down < rows - 1:
            column[down * (columns - 1) + j] -= 1.0


@nb.njit(cache=True, error_model="numpy")
def _decompose(shape: Ints, point: Floats, basis: Basis) -> None:
    """Put circuits whose multiples add up to nearly the point into a basis of the moves with the last cell."""
    # A circuit is taken out as often as leaves one of its cells at zero and turns no sign: the one for which this is most, and then
    # moves of which one cell may turn. What leads from row k to row i in one column: both cells, or one where the other may turn.
    rows, columns, records = shape
    n = len(point)
    left, both = np.zeros((rows, columns)), np.empty((rows, rows))
    up, down = np.zeros(rows, dtype=np.int64), np.zeros(rows, dtype=np.int64)
    left[:-1, :-1] = point.reshape(rows - 1, columns - 1)
    left[:, -1] = -left.sum(axis=1)
    left[-1] = -left.sum(axis=0)
    column, entering, kept, changed = np.empty(n), np.empty(n), np.ones(n), np.ones(rows)
    least, missing = 1e-9 * np.max(np.abs(point)), n
    for _ in range(4 * n):
        for i in range(rows):
            if changed[i]:
                up[i], down[i] = np.argmax(left[i]), np.argmin(left[i])
            for k in range(rows):
                if changed[i] or changed[k]:
                    most = 0.0
                    for j in range(columns):
                        here = left[i, j] if left[i, j] < -left[k, j] else -left[k, j]
                        most = here if here > most else most
                    both[i, k] = most
        most, first, second, third = least, -1, -1, -1
        for i in range(rows):
            for k in range(i + 1, rows):
                if records == 2 and min(both[i, k], both[k, i]) > most:
                    most, first, second, third = min(both[i, k], both[k, i]), i, k, k
                elif records == 3 and both[i, k] > most:
                    for m in range(i + 1, rows):
                        if both[k, m] > most and both[m, i] > most:
                            most, first, second, third = min(both[i, k], both[k, m], both[m, i]), i, k, m
        back = -1
        for i in range(rows if first < 0 else 0):
            for k in range(rows):
                either = max(left[k, up[k]], -left[i, down[i]])
                if min(both[i, k], either) > most:
                    most, first, second, third = min(both[i, k], either), i, k, k
                    back = up[k] if left[k, up[k]] == either else down[i]
        if first < 0 or missing == 0:
            return
        column[:], changed[:] = 0.0, 0.0
        for more, less in ((first, second), (second, third), (third, first)):
            if more != less:
                j = back if back >= 0 and more != first else int(np.argmax(np.minimum(left[more], -left[less])))
                _trade(column, shape, more, less, j)
                left[more, j] -= most
                left[less, j] += most
                changed[more] = 1.0
        _enter(basis, column, entering)
        size, leaving = 1e-6, -1
        for i in range(n):
            if abs(entering[i]) > size and kept[i]:
                size, leaving = abs(entering[i]), i
        if leaving >= 0:
            kept[leaving] = 0.0
            missing -= 1
            _exchange(basis, column, entering, leaving)


@nb.njit(cache=True, error_model="numpy")
def _enter(basis: Basis, column: Floats, entering: Floats) -> None:
    """Weights of a vertex in a basis."""
    entering[:] = 0.0
    for t in range(len(column)):
        if column[t] != 0.0:
            for i in range(len(column)):
                entering[i] += column[t] * basis.inverse[t, i]


@nb.njit(cache=True, error_model="numpy")
def _exchange(basis: Basis, column: Floats, entering: Floats, leaving: int) -> None:
    """Put a vertex in the place of one."""
    corners, inverse = basis
    for t in range(len(column)):
        if inverse[t, leaving] != 0.0:
            share = inverse[t, leaving] / entering[leaving]
            for i in range(len(column)):
                inverse[t, i] -= share * entering[i]
            inverse[t, leaving] = share
        corners[leaving, t] = column[t]


_GAP = 1e-10  # upper and lower bound agree to this, relatively, when a gauge counts as solved
_RESIDUAL = 1e-11  # the basis must give the point back to this, relatively
_SHIFT = 1e-9  # relative shift of the starting weights, so that no step has length zero; bounds are computed without it


@nb.njit(cache=True, error_model="numpy")
def solve(vertices: Vertices, start: Basis, point: Floats, weights: Floats, form: Floats, limit: float) -> float:
    """The gauge of a point, to a relative 1e-10 from below, or a bound of it on its side of a limit (NaN: none); see above."""
    # NaN if rounding errors took over. `point`: not zero. `weights` and `form`, shape (n,), are overwritten: the weights of the last
    # basis, and a form at most 1 on all vertices.
    corners, inverse = start.corners.copy(), start.inverse.copy()
    basis, n = Basis(corners, inverse), len(point)
    shifted, entering, column = np.empty(n), np.empty(n), np.empty(n)
    rows, columns, _ = vertices.shape
    heights, gains = np.empty(max(vertices.vectors.shape[1], rows * columns)), np.zeros((rows, rows))
    size = np.max(np.abs(point))
    if rows:
        _decompose(vertices.shape, point, basis)
    _weigh(basis, point, weights, form, shifted)
    renewed = 0
    lower = 0.0
    for _ in range(200 * n + 1000):
        height = best_vertex(vertices, form, heights, gains, column)
        lower, upper = max(lower, np.dot(form, point) / max(height, 1.0)), np.sum(np.abs(weights))
        if height <= 1.0 + _GAP or upper <= limit or lower > limit:
            # The shift may have left the last weights slightly negative: then, and after rounding errors, not solved.
            known = upper <= limit or lower > limit or upper - lower <= 2.0 * _GAP * upper
            spent = np.dot(weights, corners) - point
            if known and np.max(np.abs(spent)) <= _RESIDUAL * size:
                if height > 1.0:
                    form /= height
                return float(upper if upper <= limit else lower)
            if renewed == 3:
                return np.nan
            renewed += 1
            inverse[:] = np.linalg.inv(corners)
            _weigh(basis, point, weights, form, shifted)
            lower = 0.0
            continue
        _enter(basis, column, entering)
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
        _exchange(basis, column, entering, leaving)
        for t in range(n):
            form[t] -= (height - 1.0) * inverse[t, leaving]
    return np.nan


@nb.njit(cache=True, error_model="numpy")
def _weigh(basis: Basis, point: Floats, weights: Floats, form: Floats, shifted: Floats) -> None:
    """Weights of a point in a basis, whose vertices change sign where the weight would be negative."""
    corners, inverse = basis
    weights[:] = np.dot(point, inverse)
    size = np.max(np.abs(weights))
    for i in range(len(point)):
        if weights[i] < 0.0:
            weights[i] = -weights[i]
            corners[i] *= -1.0
            inverse[:, i] *= -1.0
        # Any positive numbers that are not in simple proportions.
        shifted[i] = weights[i] + _SHIFT * size * (0.5 + (i + 1) * 0.6180339887498949 % 1.0)
    form[:] = inverse.sum(axis=1)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(vertices: Vertices, start: Basis, points: Floats, values: Floats) -> None:
    """Replace limits by the gauges of points, one a row, or by bounds on their side of the limit."""
    weights, form = np.empty(points.shape[1]), np.empty(points.shape[1])
    for i in range(len(points)):
        limit, values[i] = values[i], 0.0
        if np.any(points[i] != 0.0):
            values[i] = solve(vertices, start, points[i], weights, form, limit)


_WORK = 3e6  # of a call of compiled code, which cannot be interrupted, in units of the cube of the dimension: a second, or one gauge


@dataclass(frozen=True, eq=False)
class Generators:
    """Vertices, and where linear programs over them begin. Made by `listed` and `circuits`."""

    vertices: Vertices
    start: Basis  # vertices, divided by `scale`
    scale: float
    cells: Floats | None = None  # for circuits: cells from coordinates of the space, shape (n, n)

    @property
    def dimension(self) -> int:
        """Dimension n of the space."""
        return len(self.start.corners)

    def gauges(self, points: Floats, limits: Floats) -> Floats:
        """Gauges of points, shape (count, n) to (count,), or bounds on their side of limits (NaN: none); NaN after rounding errors."""
        points = points if self.cells is None else points @ self.cells.T
        sizes = np.max(np.abs(points), axis=1)
        scales = np.where(sizes > 0.0, sizes, 1.0)
        rows, values = np.ascontiguousarray(points / scales[:, None]), np.array(limits * self.scale / scales)
        batch = max(1, int(_WORK / self.dimension**3))
        for first in range(0, len(points), batch):
            part = slice(first, first + batch)
            _fill(self.vertices, self.start, rows[part], values[part])
        return np.asarray(values * sizes / self.scale)

    def subgradient(self, point: Floats) -> tuple[float, Floats]:
        """Gauge of one point, and a form that attains it, which is at most 1 on the polytope; NaN likewise."""
        form, weights = np.zeros(self.dimension), np.zeros(self.dimension)
        point = point if self.cells is None else self.cells @ point
        size = float(np.max(np.abs(point)))
        if size == 0.0:
            return 0.0, form
        value = solve(self.vertices, self.start, np.ascontiguousarray(point) / size, weights, form, np.nan)
        return value * size / self.scale, (form if self.cells is None else form @ self.cells) / self.scale


def listed(vertices: Floats) -> Generators:
    """Of vertices, shape (m, n), that span the space, and their negatives."""
    _, _, order = qr(vertices.T, mode="economic", pivoting=True)  # the first are far from dependent
    scale = float(np.max(np.abs(vertices)))
    start = vertices[order[: vertices.shape[1]]] / scale
    listed = Vertices(np.ascontiguousarray(vertices.T / scale), np.zeros(3, dtype=np.int64))
    return Generators(listed, Basis(start, np.ascontiguousarray(np.linalg.inv(start))), scale)


def circuits(units: Floats, rows: int, columns: int, records: int) -> Generators:
    """Of the tables with zero margins that at most so many records make by trading places."""
    # `units`, shape (rows * columns, n): coordinates of the unit tables, in C order, in the space of tables with zero margins; these
    # are orthonormal. The moves between each cell and the last one are a basis, with one free cell each.
    cells = units.reshape(rows, columns, -1)[:-1, :-1].reshape(-1, units.shape[1])
    unit = np.eye(len(cells))
    vertices = Vertices(np.empty((0, 0)), np.array([rows, columns, records], dtype=np.int64))
    return Generators(vertices, Basis(unit, unit.copy()), 1.0, np.ascontiguousarray(cells))
