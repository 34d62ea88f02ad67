"""What every symmetric polytope offers: its norm, and its volume where that is known.

The gauge of a symmetric polytope as a linear program over a list of its vertices: a second opinion, in milliseconds.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from bayesdp.hulls.boundary import Boundary
from bayesdp.hulls.cones import second_moment
from bayesdp.hulls.generators import Generators
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]

_TOLERANCE = 1e-10
_GAP = 1e-8  # primal and dual value agree to this, relatively; usually to 1e-14
_OPTIONS = {"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE, "presolve": False}


def gauge_program(vertices: Floats, point: Floats) -> tuple[float, Floats]:
    """Gauge of one point, and a linear form that attains it.

    The gauge is the least ``sum |lambda|`` with ``vertices.T @ lambda = point``. Its dual has the greatest
    ``y @ point`` with ``|vertices @ y| <= 1``: y is a subgradient of the gauge. The value returned is that of
    the dual after y was made feasible to the last digit, and it is checked against the primal value.

    Parameters
    ----------
    vertices : float array, shape (m, n)
        One of each pair; they must span the space.
    point : float array, shape (n,)

    Returns
    -------
    gauge : float
    form : float array, shape (n,)

    Raises
    ------
    ArithmeticError
        If the program is not solved to relative accuracy 1e-8 (not seen).

    Examples
    --------
    >>> value, form = gauge_program(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, -4.0]))
    >>> value, form
    (7.0, array([ 1., -1.]))
    """
    size = float(np.max(np.abs(point)))
    if size == 0.0:
        return 0.0, np.zeros(len(point))
    scale = float(np.max(np.abs(vertices)))
    columns = vertices.T / scale
    target = point / size
    solution = _solve(np.ones(2 * len(vertices)), np.hstack([columns, -columns]), target)
    form = np.asarray(solution.eqlin.marginals, dtype=np.float64)
    form = form / max(1.0, float(np.max(np.abs(form @ columns))))
    value = float(form @ target)
    if abs(value - solution.fun) > _GAP * value:
        raise ArithmeticError(f"the gauge of a point is known only to lie between {value!r} and {solution.fun!r}")
    return value * size / scale, form / scale


def _solve(cost: Floats, matrix: Floats, target: Floats) -> Any:
    solution = linprog(cost, A_eq=matrix, b_eq=target, method="highs-ds", options=_OPTIONS)
    if not solution.success:
        raise ArithmeticError(f"a linear program about a hull was not solved: {solution.message}")
    return solution


_PRODUCTS = 1 << 22  # forms times points in one go


class Hull(ABC):
    """A symmetric polytope K, and the norm ``||v||_K``: the least r with v in r K (its gauge).

    A gauge is a maximum of linear forms where the facets are to be had in about a second, and a linear program elsewhere
    (`bayesdp.hulls.simplex`, in compiled code; exact to a relative 1e-10).

    Parameters
    ----------
    vertices : float array, shape (m, n)
        One of each pair.
    """

    vertices: Floats

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Dimension n of the space."""

    @property
    @abstractmethod
    def boundary(self) -> Boundary | None:
        """Facets and boundary simplices, or None where they are not to be had in half a minute."""

    @property
    @abstractmethod
    def facets(self) -> Boundary | None:
        """The same, where they are to be had in about a second."""

    @property
    @abstractmethod
    def generators(self) -> Generators:
        """The vertices, as linear programs read them."""

    def gauge(self, points: npt.ArrayLike) -> Floats:
        """The norm of points.

        Parameters
        ----------
        points : array_like, shape (..., n)

        Returns
        -------
        float array, shape (...)
        """
        array = self._points(points)
        flat = array.reshape(-1, self.dimension)
        if self.facets is None:
            values = np.array([self._program(point)[0] for point in flat])
            return values.reshape(array.shape[:-1])
        forms = self.facets.forms.T
        batch = max(1, _PRODUCTS // forms.shape[1])
        values = np.empty(len(flat))
        for start in range(0, len(flat), batch):
            values[start : start + batch] = np.max(np.abs(flat[start : start + batch] @ forms), axis=1)
        return values.reshape(array.shape[:-1])

    def below(self, points: Floats, limits: Floats) -> npt.NDArray[np.bool_]:
        """Whether the norms of points are at most so large; often faster than the norms themselves.

        Parameters
        ----------
        points : float array, shape (count, n)
        limits : float array, shape (count,)
        """
        if self.facets is not None:
            return np.asarray(self.gauge(points) <= limits)
        found, unknown = self.generators.below(points, limits)
        for i in np.flatnonzero(unknown):
            found[i] = self._program(points[i])[0] <= limits[i]
        return found

    def subgradient(self, point: npt.ArrayLike) -> tuple[float, Floats]:
        """The norm of one point, and a linear form that attains it: ``form @ point``; zeros at the origin.

        Parameters
        ----------
        point : array_like, shape (n,)
        """
        [flat] = self._points(point).reshape(-1, self.dimension)
        if self.facets is None:
            return self._program(flat)
        heights = self.facets.forms @ flat
        top = int(np.argmax(np.abs(heights)))
        return abs(float(heights[top])), np.sign(heights[top]) * self.facets.forms[top]

    def _program(self, point: Floats) -> tuple[float, Floats]:
        found = self.generators.gauge(point)
        # A second opinion should rounding errors ever defeat the first.
        return gauge_program(self.vertices, point) if found is None else found[:2]

    @property
    def log_volume(self) -> float | None:
        """Logarithm of the volume of K, or None where it is not known."""
        cones = self.log_cone_mass
        return None if cones is None else cones - math.lgamma(self.dimension + 1)

    @cached_property
    def log_cone_mass(self) -> float | None:
        """Logarithm of ``n! vol(K)``, the integral of ``exp(-||v||_K)``, or None as for `log_volume`."""
        return None if self.boundary is None else math.log(math.fsum(self.boundary.determinants.tolist()))

    @cached_property
    def second_moment(self) -> Floats | None:
        """Expectation of ``v v^T`` under the density proportional to ``exp(-||v||_K)``, or None likewise."""
        return None if self.boundary is None else second_moment(self.vertices, self.boundary)

    def check_coordinates(self, invariants: Invariants) -> None:
        """Refuse invariants whose orthonormal coordinates have another dimension than the hull.

        Raises
        ------
        ValueError
            If they do.
        """
        if invariants.dimension != self.dimension:
            raise ValueError(
                f"the hull must be in the coordinates of the invariants, of dimension {invariants.dimension}, "
                f"but it has dimension {self.dimension}"
            )

    def _points(self, points: npt.ArrayLike) -> Floats:
        array = np.asarray(points, dtype=np.float64)
        if array.shape[-1:] != (self.dimension,):
            raise ValueError(f"points must have shape (..., {self.dimension}), got {array.shape}")
        return array
