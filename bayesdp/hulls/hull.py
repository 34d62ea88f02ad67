"""Symmetric polytopes that are given by their vertices, and the norms whose unit balls they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, finite_array
from bayesdp.hulls.base import Hull
from bayesdp.hulls.boundary import Boundary, boundary_of, is_quick, is_small
from bayesdp.hulls.generators import Generators, listed

type Floats = npt.NDArray[np.float64]

METHODS = ("auto", "facets", "program")
"""How a gauge is computed; ``auto``: by facets where Qhull takes up to a second, else by a linear program a point."""

_RANK = 1e-9  # singular values below this share of the largest are zero


@dataclass(frozen=True, eq=False)
class SymmetricHull(Hull):
    """The polytope ``K = conv(+-vertices)``, and the norm ``||v||_K``: the least r with v in r K (its gauge).

    Two hulls are equal if their vertices are, in the same order.

    Parameters
    ----------
    vertices : array_like, shape (m, n)
        One of each pair v, -v (both do no harm). Points inside the hull may be among them.
    method : {"auto", "facets", "program"}
        By facets, a gauge is a maximum of linear forms, and the volume is known; they are found when first
        needed (see `bayesdp.hulls.boundary.POINTS` for what `auto` tries). A linear program a point takes
        microseconds to milliseconds, in any dimension.

    Raises
    ------
    TypeError, ValueError
        If the vertices are not a matrix of finite numbers, or do not span the space: the gauge of some points
        would then be infinite.

    Examples
    --------
    >>> import math
    >>> diamond = SymmetricHull([[1, 0], [0, 1]])
    >>> diamond.gauge([[3.0, -4.0], [0.5, 0.0]])
    array([7. , 0.5])
    >>> print(f"{math.exp(diamond.log_volume):.6f}")
    2.000000
    """

    vertices: Floats
    method: str = field(default="auto", kw_only=True)

    def __init__(self, vertices: npt.ArrayLike, *, method: str = "auto") -> None:
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
        object.__setattr__(self, "vertices", array)
        object.__setattr__(self, "method", choice(method, METHODS, "method"))

    @property
    def dimension(self) -> int:
        """Dimension n of the space."""
        return int(self.vertices.shape[1])

    @cached_property
    def boundary(self) -> Boundary | None:
        """Facets and boundary simplices, or None where they are not to be had in seconds.

        Raises
        ------
        ArithmeticError
            If facets are insisted on (`method`), and Qhull does not find them.
        """
        if self.method == "program" or (self.method == "auto" and not is_small(*self.vertices.shape)):
            return None
        found = boundary_of(self.vertices)
        if found is None and self.method == "facets":
            raise ArithmeticError("Qhull finds no consistent facets of this hull; use method='program'")
        return found

    @property
    def facets(self) -> Boundary | None:
        """What gauges are computed from: the boundary, unless it takes more than about a second (`auto`)."""
        return self.boundary if self.method == "facets" or is_quick(*self.vertices.shape) else None

    @cached_property
    def generators(self) -> Generators:
        """The vertices, as linear programs read them."""
        return listed(self.vertices)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, SymmetricHull)
            and self.method == other.method
            and np.array_equal(self.vertices, other.vertices)
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.vertices.shape, self.method, self.vertices.tobytes()))

    def __getstate__(self) -> dict[str, Any]:
        # Without what was computed from it, which can be large.
        return {"vertices": self.vertices, "method": self.method}

    def __repr__(self) -> str:
        return f"<SymmetricHull: {len(self.vertices)} pairs of vertices, {self.dimension} dimensions>"


@lru_cache(maxsize=8)
def shared(hull: SymmetricHull) -> SymmetricHull:
    """Give the hull that was first asked for with these vertices, so that facets are computed once a process.

    Examples
    --------
    >>> shared(SymmetricHull([[1.0]])) is shared(SymmetricHull([[1.0]]))
    True
    """
    return hull
