"""Symmetric polytopes that are given by their vertices, and the norms whose unit balls they are.

The containment order of K-norm mechanisms: whether one's ball lies inside the other's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, finite_array
from bayesdp.polytopes.base import Boundary, Hull, boundary_of, is_small

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
        needed (see `bayesdp.polytopes.base.POINTS` for what `auto` tries). A linear program a point takes
        microseconds to milliseconds, in any dimension.


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

    @cached_property
    def boundary(self) -> Boundary | None:
        """Facets and boundary simplices, or None where they are not to be had in seconds."""
        if self.method == "program" or (self.method == "auto" and not is_small(*self.vertices.shape)):
            return None
        found = boundary_of(self.vertices)
        if found is None and self.method == "facets":
            raise ArithmeticError("Qhull finds no consistent facets of this hull; use method='program'")
        return found

    @property
    def facets(self) -> Boundary | None:
        """What gauges are computed from: the boundary, unless it takes more than about a second (`auto`)."""
        return self.boundary if self.method == "facets" else super().facets

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


@dataclass(frozen=True)
class ContainmentOrder:
    """Definition 8 in numbers. Made by `containment_order`.

    Attributes
    ----------
    first_sensitivity, second_sensitivity : float
        ``Delta_K`` and ``Delta_H``.
    first_in_second : float
        The least r with ``Delta_K K`` inside ``r Delta_H H``.
    second_in_first : float
        The least r with ``Delta_H H`` inside ``r Delta_K K``.
    """

    first_sensitivity: float
    second_sensitivity: float
    first_in_second: float
    second_in_first: float

    @property
    def preferred(self) -> str:
        """``first``, ``second``, ``both`` (the balls are equal) or ``neither`` (none holds the other), to a relative 1e-9."""
        inside, outside = (ratio <= 1.0 + 1e-9 for ratio in (self.first_in_second, self.second_in_first))
        if inside:
            return "both" if outside else "first"
        return "second" if outside else "neither"

    def __str__(self) -> str:
        return (
            f"preferred in the containment order: {self.preferred} (the first ball is inside {self.first_in_second:.6g} times "
            f"the second, the second inside {self.second_in_first:.6g} times the first)"
        )


def containment_order(first: Hull, second: Hull, differences: npt.ArrayLike | None = None) -> ContainmentOrder:
    """Which of two K-norm mechanisms of one epsilon is preferred in the containment order (Definition 8).

    The noise of norm K has density proportional to ``exp(-epsilon / Delta_K ||v||_K)``. It is preferred over that of norm H if
    ``Delta_K K`` lies inside ``Delta_H H``. It is a partial order: often neither ball holds the other. Preferred noise has less
    entropy and is tighter about zero in the sense of Awan and Slavkovic (2021); that its *expected squared error* is less does
    not follow (see the page of corrections, "What optimal means").

    Parameters
    ----------
    first, second : Hull
        Unit balls of the two norms, in the same coordinates.
    differences : array_like, shape (m, n), optional
        The sensitivity space, from which both sensitivities are computed: the largest norm of a difference. Without it both balls
        are taken as they are, ``Delta_K = Delta_H = 1``.


    Notes
    -----
    K lies inside r H just if every vertex of K has a norm of at most r by H.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Definition 8.

    Examples
    --------
    >>> from bayesdp.polytopes import SymmetricHull
    >>> diamond, square = SymmetricHull([[1, 0], [0, 1]]), SymmetricHull([[1, 1], [1, -1]])
    >>> print(containment_order(diamond, square))
    preferred in the containment order: first (the first ball is inside 1 times the second, the second inside 2 times the first)
    >>> containment_order(diamond, square, differences=[[1, 1], [1, -1]]).preferred
    'second'
    """
    for hull, name in ((first, "first"), (second, "second")):
        if not isinstance(hull, Hull):
            raise TypeError(f"{name} must be a Hull, got {type(hull).__name__}")
    if first.dimension != second.dimension:
        raise ValueError(
            f"first and second must have one dimension, got {first.dimension} and {second.dimension}; use the same coordinates"
        )
    in_first, in_second = 1.0, 1.0  # the sensitivities
    if differences is not None:
        array = np.asarray(finite_array(differences, "differences"), dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != first.dimension:
            raise ValueError(f"differences must have shape (m, {first.dimension}), got {array.shape}")
        in_first, in_second = (float(np.max(hull.gauge(array), initial=0.0)) for hull in (first, second))
        if not in_first:
            raise ValueError("differences must not all be zero: nothing has to be hidden, and no noise is needed")
    ratio = in_first / in_second
    return ContainmentOrder(
        in_first,
        in_second,
        ratio * float(np.max(second.gauge(first.vertices))),
        float(np.max(first.gauge(second.vertices))) / ratio,
    )
