"""What every symmetric polytope offers: its norm, and its volume where that is known."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp.hulls.boundary import Boundary
from bayesdp.hulls.cones import second_moment
from bayesdp.hulls.generators import Generators
from bayesdp.hulls.programs import gauge_program
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]

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
