"""Symmetric polytopes, the norms whose unit balls they are, and their boundary by Qhull.

The boundary: facets as linear forms, and a triangulation, by whose cones noise is drawn exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy
from scipy.spatial import ConvexHull, QhullError

from bayesdp._arrays import Floats, Words
from bayesdp._numba import exponential, nb, seed_state, uniform
from bayesdp._validate import finite_array
from bayesdp.lattices.polytopes.generators import Generators, listed

type Ints = npt.NDArray[np.int32]

POINTS = {1: 100_000, 2: 20_000, 3: 20_000, 4: 5000, 5: 2000, 6: 500, 7: 150, 8: 110, 9: 130}
"""Most vertices (one of each pair) that are given to Qhull, by dimension: from milliseconds to about 20 s.

At the last two limits stand the 3 x 5 and 4 x 4 tables with both margins and all substitutions: 267,265 and
782,060 simplices. Generic points of these numbers would take several times as long.
"""

_QUICK = {6: 150, 7: 60, 8: 40, 9: 18}  # likewise where that takes more than about a second

_INCIDENT = 1e-7  # a vertex lies on a facet if its form is this close to 1; forms of rounded vertices err by 1e-13
_VALID = 1e-9
_DETERMINANTS = 1 << 21  # matrix entries a batch of determinants


@dataclass(frozen=True, eq=False)
class Boundary:
    """Facets and boundary simplices of ``conv(+-vertices)``."""

    # One of each pair of opposite facets, as the form that is 1 on it, shape (facets / 2, n): the gauge of v is ``max |forms @ v|``.
    forms: Floats
    # Rows of the vertices followed by their negatives; the cones over the simplices fill the space, and overlap in sets of volume
    # zero only, shape (simplices, n).
    simplices: Ints
    determinants: Floats  # absolute determinants of the corners, greater than zero, shape (simplices,)


def boundary_of(vertices: Floats) -> Boundary | None:
    """Find facets and a triangulated boundary; None if Qhull fails or its answer does not stand the checks."""
    # Facets are identified by the vertices on them, so that what Qhull leaves in pieces, or gives with slightly different normals,
    # becomes one facet, and its form is computed anew from those vertices. Checked are: no vertex is beyond a facet, the vertices
    # on a facet determine it, and the triangulation has the volume of the hull.
    scale = float(np.max(np.linalg.norm(vertices, axis=1)))
    unit = vertices / scale
    n = unit.shape[1]
    if n == 1:
        far = int(np.argmax(np.abs(unit[:, 0])))
        corners = np.array([[far], [far + len(unit)]], dtype=np.int32)
        length = abs(float(vertices[far, 0]))
        return Boundary(np.array([[1.0 / length]]), corners, np.full(2, length))
    points = np.concatenate([unit, -unit])
    try:
        hull = ConvexHull(points, qhull_options="Qt" if n <= 4 else "Qt Qx")
    except QhullError:
        return None
    forms = _merged(unit, hull.equations)
    if forms is None:
        return None
    determinants = _determinants(points, hull.simplices)
    # Triangulating a facet may leave flat simplices behind.
    solid = determinants > 1e-12 * determinants.max()
    total = float(np.sum(determinants[solid]))
    if abs(total - hull.volume * float(np.prod(np.arange(1.0, n + 1)))) > 1e-7 * total:
        return None
    simplices = np.ascontiguousarray(hull.simplices[solid], dtype=np.int32)
    return Boundary(forms / scale, simplices, determinants[solid] * scale**n)


def _merged(unit: Floats, equations: Floats) -> Floats | None:
    """One form of each pair of facets, from the vertices that lie on it."""
    if not np.all(equations[:, -1] < 0):
        return None
    forms = equations[:, :-1] / -equations[:, -1:]
    # Rounding only makes the list short: facets that it leaves apart have the same vertices, see below.
    _, first = np.unique(np.round(forms, 6), axis=0, return_index=True)
    patterns: dict[bytes, npt.NDArray[np.int8]] = {}
    for form in forms[first]:
        heights = unit @ form
        on = (np.abs(heights) > 1.0 - _INCIDENT) * np.sign(heights).astype(np.int8)
        lead = on[np.argmax(on != 0)]
        pattern = np.asarray(on * lead, dtype=np.int8)
        patterns.setdefault(pattern.tobytes(), pattern)
    merged = np.empty((len(patterns), unit.shape[1]))
    for row, (_, pattern) in enumerate(sorted(patterns.items())):
        on = np.flatnonzero(pattern)
        corners = unit[on] * pattern[on, None]
        form, _, rank, _ = np.linalg.lstsq(corners, np.ones(len(on)), rcond=_INCIDENT)
        if rank < unit.shape[1] or np.max(np.abs(corners @ form - 1.0)) > _VALID:
            return None
        if np.max(np.abs(unit @ form)) > 1.0 + _VALID:
            return None
        merged[row] = form
    return merged


def _determinants(points: Floats, simplices: npt.NDArray[np.int32]) -> Floats:
    batch = max(1, _DETERMINANTS // points.shape[1] ** 2)
    found = [
        np.abs(np.linalg.det(points[simplices[start : start + batch]])) for start in range(0, len(simplices), batch)
    ]
    return np.concatenate(found)


def draw_cones(vertices: Floats, boundary: Boundary, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
    """Draw points with density proportional to ``exp(-epsilon ||v||)``, exactly, shape (size, n)."""
    # In the cone over a boundary simplex with corners c_1, ..., c_n the gauge of `sum t_j c_j` is `sum t_j`. So the cone has
    # probability proportional to `|det(c_1, ..., c_n)|`, and in it the t_j are independent exponential variables of rate epsilon.
    corners = np.concatenate([vertices, -vertices]) / epsilon
    draws = np.zeros((size, vertices.shape[1]))
    cumulative = np.cumsum(boundary.determinants)
    _fill(seed_state(rng), cumulative / cumulative[-1], boundary.simplices, corners, draws)
    return draws


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _fill(state: Words, cumulative: Floats, simplices: npt.NDArray[np.int32], corners: Floats, draws: Floats) -> None:
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
    """
    points = np.concatenate([vertices, -vertices])
    weights = boundary.determinants / boundary.determinants.sum()
    # How often each corner appears, and the sums of corners, weighted.
    share = np.bincount(boundary.simplices.reshape(-1), np.repeat(weights, points.shape[1]), len(points))
    sums = np.zeros((len(weights), points.shape[1]))
    for corner in boundary.simplices.T:
        sums += points[corner]
    return np.asarray((points.T * share) @ points + (sums.T * weights) @ sums)


def fill[T: npt.NDArray[Any]](rows: T, accepted: Callable[[int], npt.NDArray[Any]]) -> T:
    """Overwrite all rows by what is accepted of one batch of proposals after the other; `accepted` is told how many are missing."""
    found = 0
    while found < len(rows):
        chosen = accepted(len(rows) - found)[: len(rows) - found]
        rows[found : found + len(chosen)] = chosen
        found += len(chosen)
    return rows


_GAP = 1e-8  # primal and dual value agree to this, relatively; usually to 1e-14
_OPTIONS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10, "presolve": False}


def gauge_program(vertices: Floats, point: Floats) -> tuple[float, Floats]:
    """Gauge of one point by HiGHS, and a linear form that attains it: a second opinion, in milliseconds."""
    # The gauge is the least `sum |lambda|` with `vertices.T @ lambda = point`. Its dual has the greatest `y @ point` with
    # `|vertices @ y| <= 1`. The value is that of the dual after y was made feasible to the last digit.
    size = float(np.max(np.abs(point)))
    if size == 0.0:
        return 0.0, np.zeros(len(point))
    scale = float(np.max(np.abs(vertices)))
    columns, target = vertices.T / scale, point / size
    cost, both = np.ones(2 * len(vertices)), np.hstack([columns, -columns])
    solution = scipy.optimize.linprog(cost, A_eq=both, b_eq=target, method="highs-ds", options=_OPTIONS)
    if not solution.success:
        raise ArithmeticError(f"a linear program about a hull was not solved: {solution.message}")
    form = np.asarray(solution.eqlin.marginals, dtype=np.float64)
    form = form / max(1.0, float(np.max(np.abs(form @ columns))))
    value = float(form @ target)
    if abs(value - solution.fun) > _GAP * value:
        raise ArithmeticError(f"the gauge of a point is known only to lie between {value!r} and {solution.fun!r}")
    return value * size / scale, form / scale


_PRODUCTS = 1 << 22  # forms times points in one go


class Hull:
    """A symmetric polytope K, and the norm ``||v||_K``: the least r with v in r K (its gauge).

    A gauge is a maximum of linear forms where the facets are to be had in about a second, and a linear program elsewhere
    (`bayesdp.lattices.polytopes.generators`, in compiled code; exact to a relative 1e-10).

    Parameters
    ----------
    vertices : float array, shape (m, n)
        One of each pair.
    """

    vertices: Floats

    @property
    def dimension(self) -> int:
        """Dimension n of the space."""
        return int(self.vertices.shape[1])

    @property
    def count(self) -> int:
        """Number of pairs of vertices."""
        return len(self.vertices)

    @cached_property
    def boundary(self) -> Boundary | None:
        """Facets and boundary simplices, or None where they are not to be had in half a minute."""
        return boundary_of(self.vertices) if self.count <= POINTS.get(self.dimension, 0) else None

    @property
    def facets(self) -> Boundary | None:
        """The same, where they are to be had in about a second."""
        return self.boundary if self.count <= {**POINTS, **_QUICK}.get(self.dimension, 0) else None

    @cached_property
    def generators(self) -> Generators:
        """The vertices, as linear programs read them."""
        return listed(self.vertices)

    def gauge(self, points: npt.ArrayLike, limits: npt.ArrayLike = np.nan) -> Floats:
        """The norm of points.

        Parameters
        ----------
        points : array_like, shape (..., n)
        limits : array_like, shape (...), optional
            A bound of the norm on its side of a limit is given where that is known before the norm.

        Returns
        -------
        float array, shape (...)
        """
        array = self._points(points)
        flat = array.reshape(-1, self.dimension)
        if self.facets is None:
            values = self.generators.gauges(flat, np.reshape(limits, -1))
            for i in np.flatnonzero(np.isnan(values)):
                values[i] = gauge_program(self.vertices, flat[i])[0]
            return values.reshape(array.shape[:-1])
        forms = self.facets.forms.T
        batch = max(1, _PRODUCTS // forms.shape[1])
        values = np.empty(len(flat))
        for start in range(0, len(flat), batch):
            values[start : start + batch] = np.max(np.abs(flat[start : start + batch] @ forms), axis=1)
        return values.reshape(array.shape[:-1])

    def subgradient(self, point: npt.ArrayLike) -> tuple[float, Floats]:
        """The norm of one point, and a linear form that attains it: ``form @ point``; zeros at the origin.

        Parameters
        ----------
        point : array_like, shape (n,)
        """
        [flat] = self._points(point).reshape(-1, self.dimension)
        if self.facets is None:
            value, form = self.generators.subgradient(flat)
            return gauge_program(self.vertices, flat) if math.isnan(value) else (value, form)
        heights = self.facets.forms @ flat
        top = int(np.argmax(np.abs(heights)))
        return abs(float(heights[top])), np.sign(heights[top]) * self.facets.forms[top]

    @cached_property
    def log_cone_mass(self) -> float | None:
        """Logarithm of ``n! vol(K)``, the integral of ``exp(-||v||_K)``, or None where the boundary is not known."""
        return None if self.boundary is None else math.log(math.fsum(self.boundary.determinants.tolist()))

    @cached_property
    def second_moment(self) -> Floats | None:
        """Expectation of ``v v^T`` under the density proportional to ``exp(-||v||_K)``, or None likewise."""
        return None if self.boundary is None else second_moment(self.vertices, self.boundary)

    def _points(self, points: npt.ArrayLike) -> Floats:
        array = np.asarray(points, dtype=np.float64)
        if array.shape[-1:] != (self.dimension,):
            raise ValueError(f"points must have shape (..., {self.dimension}), got {array.shape}")
        return array


_RANK = 1e-9  # singular values below this share of the largest are zero


class SymmetricHull(Hull):
    """The polytope ``K = conv(+-vertices)``, and the norm ``||v||_K``: the least r with v in r K (its gauge).

    Two hulls are equal if their vertices are, in the same order. See `POINTS` in this module for the hulls whose facets, and with them
    the volume, are found, when they are first needed.

    Parameters
    ----------
    vertices : array_like, shape (m, n)
        One of each pair v, -v (both do no harm). Points inside the hull may be among them.

    Examples
    --------
    >>> import math
    >>> diamond = SymmetricHull([[1, 0], [0, 1]])
    >>> diamond.gauge([[3.0, -4.0], [0.5, 0.0]])
    array([7. , 0.5])
    >>> print(f"{math.exp(diamond.log_cone_mass):.6f}")  # twice the area
    4.000000
    """

    def __init__(self, vertices: npt.ArrayLike) -> None:
        array = np.array(finite_array(vertices, "vertices"), dtype=np.float64)
        if array.ndim != 2 or not array.size:
            raise ValueError(f"vertices must be a matrix with one vertex a row, got an array of shape {array.shape}")
        singular = np.linalg.svd(array, compute_uv=False)
        rank = int(np.count_nonzero(singular > _RANK * singular[0]))
        if rank < array.shape[1]:
            raise ValueError(
                f"vertices must span the space of dimension {array.shape[1]}, but they span {rank} dimensions only: "
                "the norm would be infinite outside of these"
            )
        array += 0.0  # no negative zeros, which have other bytes
        array.flags.writeable = False
        self.vertices = array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymmetricHull) and np.array_equal(self.vertices, other.vertices)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.vertices.shape, self.vertices.tobytes()))

    def __getstate__(self) -> dict[str, Any]:
        # Without what was computed from it, which can be large.
        return {"vertices": self.vertices}

    def __repr__(self) -> str:
        return f"<SymmetricHull: {len(self.vertices)} pairs of vertices, {self.dimension} dimensions>"
