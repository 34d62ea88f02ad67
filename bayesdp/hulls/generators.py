"""The vertices of a symmetric polytope, listed or not, and linear programs over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from bayesdp.hulls.pricing import CIRCUITS, DIFFERENCES, LISTED, best_vertex
from bayesdp.hulls.simplex import BELOW, FAILED, SOLVED, is_below, solve

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_WORK = 3e6
"""Work of a call of compiled code, which cannot be interrupted, in units of the cube of the dimension: under a second."""


class Basis(NamedTuple):
    """n vertices that span the space, one a row; their inverse; for differences, the two points of each."""

    corners: Floats
    inverse: Floats
    ends: Ints

    def copy(self) -> Basis:
        """One to be overwritten."""
        return Basis(self.corners.copy(), self.inverse.copy(), self.ends.copy())


@dataclass(frozen=True, eq=False)
class Generators:
    """Vertices by what compiled code needs to know of them. Made by `listed`, `differences` and `circuits`."""

    kind: int  # see `bayesdp.hulls.pricing`
    vectors: Floats  # one in each column, divided by `scale`, shape (n, count)
    shape: Ints  # shape (3,)
    start: Basis  # vertices, divided by `scale`
    scale: float

    @property
    def dimension(self) -> int:
        """Dimension n of the space."""
        return len(self.vectors)

    def support(self, form: Floats) -> float:
        """Greatest value of a linear form, shape (n,), on the polytope."""
        rows = int(self.shape[0])
        height, _, _ = best_vertex(
            self.kind, self.vectors, self.shape, np.ascontiguousarray(form, dtype=np.float64),
            np.empty(self.vectors.shape[1]), np.zeros((rows, rows)), np.zeros((rows, rows), dtype=np.int64),
            np.empty(self.dimension),
        )  # fmt: skip
        return float(height) * self.scale

    def gauge(self, point: Floats, basis: Basis | None = None) -> tuple[float, Floats, Floats] | None:
        """Gauge of one point, a form that attains it, and weights of the last basis."""
        # `point`, shape (n,). `basis`: to begin with, and overwritten by the last one. The form is at most 1 on the polytope, and
        # the sum of the weights is the gauge. None if rounding errors took over.
        basis = self.start.copy() if basis is None else basis
        weights, form = np.zeros(self.dimension), np.zeros(self.dimension)
        size = float(np.max(np.abs(point)))
        if size == 0.0:
            return 0.0, form, weights
        state, _, lower, _ = solve(
            self.kind, self.vectors, self.shape, *basis, np.ascontiguousarray(point) / size, np.nan, weights, form
        )
        if state != SOLVED:
            return None
        return lower * size / self.scale, form / self.scale, weights * size / self.scale

    def below(self, points: Floats, limits: Floats) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Whether gauges are at most so large; and where this is not known, because rounding errors took over.

        Parameters
        ----------
        points : float array, shape (count, n)
        limits : float array, shape (count,)
        """
        states = np.full(len(points), FAILED, dtype=np.int64)
        rows, ends = np.ascontiguousarray(points), np.ascontiguousarray(limits * self.scale)
        batch = max(1, int(_WORK / self.dimension**3))
        for first in range(0, len(points), batch):
            part = slice(first, first + batch)
            is_below(self.kind, self.vectors, self.shape, *self.start, rows[part], ends[part], states[part])
        # The origin is in every polytope; compiled code is not asked, because nothing can be scaled to it.
        at_origin = ~np.any(rows, axis=1)
        return np.where(at_origin, limits >= 0, states == BELOW), (states == FAILED) & ~at_origin


def _make(kind: int, vectors: Floats, shape: tuple[int, int, int], corners: Floats, ends: Ints) -> Generators:
    scale = float(np.max(np.abs(corners)))
    start = np.ascontiguousarray(corners / scale)
    basis = Basis(start, np.ascontiguousarray(np.linalg.inv(start)), np.ascontiguousarray(ends, dtype=np.int64))
    return Generators(kind, np.ascontiguousarray(vectors.T / scale), np.array(shape, dtype=np.int64), basis, scale)


def _independent(vectors: Floats) -> Ints:
    """Rows that span the space, far from dependent."""
    _, _, order = qr(vectors.T, mode="economic", pivoting=True)
    return np.asarray(order[: vectors.shape[1]], dtype=np.int64)


def listed(vertices: Floats) -> Generators:
    """Of vertices and their negatives.

    Parameters
    ----------
    vertices : float array, shape (m, n)
        They must span the space.

    Examples
    --------
    >>> print(f"{listed(np.array([[1.0, 0.0], [0.0, 2.0]])).gauge(np.array([3.0, -4.0]))[0]:.6f}")
    5.000000
    """
    chosen = _independent(vertices)
    return _make(LISTED, vertices, (0, 0, 0), vertices[chosen], np.column_stack([chosen, chosen]))


def differences(points: Floats) -> Generators:
    """Of all differences of two points.

    Parameters
    ----------
    points : float array, shape (count, n)
        Their differences must span the space.

    Examples
    --------
    >>> print(f"{differences(np.array([[0.0], [1.0], [3.0]])).gauge(np.array([-6.0]))[0]:.6f}")
    2.000000
    """
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
