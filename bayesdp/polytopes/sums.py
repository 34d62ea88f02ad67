"""Norms that are sums of norms along the principal axes of a polytope, with a smaller second moment than its own.

The ball of ``N(v) = sum_i w_i ||P_i v||_{K_i}``, with orthogonal projections ``P_i`` that add up to the identity and
``K_i = P_i K``, is the hull of all ``K_i / w_i``. If no vertex of K has a norm above 1, it contains K, so that noise of
this norm hides all that noise of the norm of K hides. Its pieces are independent, and so
``E ||z||^2 = sum_i tr(M_i) / w_i**2``, with ``M_i`` the second moment of K_i: where K is long in some directions, a larger
ball can have a smaller second moment.

This is the recursion of Bhaskara, Dadush, Krishnaswamy and Talwar (2012): noise for the long axes, and again for the others.
They cut the axes in halves and give each piece the same share; here cuts and shares are those of the least error at each
step. So two pieces have the best weights; more than two may have better ones, found for all of them at once. Axes of the same
length are never cut, so that the ball does not depend on the choice of a basis.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from bayesdp.polytopes.base import SymmetricHull, is_small
from bayesdp.polytopes.samplers import sample_hull

type Floats = npt.NDArray[np.float64]

MAX_AXES = 24
"""Most different lengths of principal axes: each contiguous range of them may become a piece."""

_TIE = 1e-6  # axes whose squared lengths differ by less than this share are one
# Coordinates of vertices below this share of the largest are rounding errors of zeros, as are differences of squared lengths.
_ZERO = 1e-12
_INSIDE = 1e-9  # points whose norm is below 1 by more than this are no vertices
_GAIN = 1e-6  # a cut has to lessen the error by this share at least


@dataclass(frozen=True, eq=False)
class Piece:
    """One term ``weight * ||basis^T v||_hull`` of a sum of norms."""

    basis: Floats  # orthonormal columns, shape (n, k)
    hull: SymmetricHull  # in k dimensions
    weight: float


@dataclass(frozen=True, eq=False)
class NormSum:
    """A sum of norms of orthogonal pieces."""

    pieces: tuple[Piece, ...]  # from the long axes to the short ones; one piece alone is the polytope itself
    error: float  # ``E ||z||^2`` under the density proportional to ``exp(-N(z))``

    @property
    def vertices(self) -> Floats:
        """Vertices of the ball, one of each pair."""
        found = np.concatenate([piece.hull.vertices @ piece.basis.T / piece.weight for piece in self.pieces])
        # Files compare numbers by their relative difference, which errors of rounding have none of.
        return np.where(np.abs(found) < _ZERO * np.abs(found).max(), 0.0, found)

    def norm(self, points: Floats) -> Floats:
        """``N`` of points, shape (..., n)."""
        terms = [piece.weight * piece.hull.gauge(points @ piece.basis) for piece in self.pieces]
        return np.asarray(np.sum(terms, axis=0))

    def draw(self, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw from the density proportional to ``exp(-epsilon N(z))``, exactly: the pieces are independent."""
        draws = [sample_hull(piece.hull, epsilon * piece.weight, rng, size, None, "exact") for piece in self.pieces]
        return np.asarray(
            np.sum([draw @ piece.basis.T for draw, piece in zip(draws, self.pieces, strict=True)], axis=0)
        )


@dataclass(frozen=True, eq=False)
class _Best:
    """The best norm found for a range of axes: its error, its terms as (first, last, weight), and the norms of all vertices."""

    error: float
    terms: tuple[tuple[int, int, float], ...]
    norms: Floats


def least_sum(vertices: npt.ArrayLike) -> NormSum | None:
    """Find a sum of norms with little error, among those that cut the principal axes of the vertices into ranges.

    Cuts are tried in all places, recursively; at each cut the two shares are optimal, which is a convex problem in one variable.
    So the error is never above that of the polytope itself, where that is known, nor above that of any sum of two; of three or more
    there may be sums with less. None if more than nine dimensions, or more vertices than Qhull can do with in these, are left
    together because their axes are equally long, or there are more than `MAX_AXES` different lengths.
    """
    array = SymmetricHull(vertices).vertices
    squares, axes = np.linalg.eigh(array.T @ array)
    squares, axes = squares[::-1], axes[:, ::-1]
    tie = _TIE * squares + _ZERO * squares[0]  # the second for rounding, which goes by the longest
    starts = [0, *(i for i in range(1, len(squares)) if squares[i - 1] - squares[i] > tie[i - 1]), len(squares)]
    groups = len(starts) - 1
    if groups > MAX_AXES:
        return None
    hulls: dict[tuple[int, int], SymmetricHull] = {}
    best: dict[tuple[int, int], _Best] = {}
    for width in range(1, groups + 1):
        for first in range(groups - width + 1):
            last = first + width
            shadow = array @ axes[:, starts[first] : starts[last]]
            found = _alone(shadow, first, last, hulls)
            for cut in range(first + 1, last):
                split = _combined(best[first, cut], best[cut, last])
                if split.error < found.error * (1.0 - _GAIN):
                    found = split
            best[first, last] = found
    whole = best[0, groups]
    if not math.isfinite(whole.error):
        return None
    pieces = [
        Piece(axes[:, starts[first] : starts[last]], hulls[first, last], weight) for first, last, weight in whole.terms
    ]
    return NormSum(tuple(pieces), whole.error)


def _alone(shadow: Floats, first: int, last: int, hulls: dict[tuple[int, int], SymmetricHull]) -> _Best:
    """The norm of the projected polytope; of infinite error where its boundary is not to be had."""
    _, index = np.unique(np.round(shadow / np.max(np.abs(shadow)), 9), axis=0, return_index=True)
    points = shadow[np.sort(index)]
    hull = SymmetricHull(points)
    if not is_small(*points.shape) or hull.boundary is None:
        return _Best(math.inf, ((first, last, 1.0),), np.ones(len(shadow)))
    norms = hull.gauge(shadow)
    hulls[first, last] = SymmetricHull(points[hull.gauge(points) > 1.0 - _INSIDE])
    assert hull.second_moment is not None  # its boundary is known
    return _Best(float(np.trace(hull.second_moment)), ((first, last, 1.0),), norms)


def _combined(one: _Best, other: _Best) -> _Best:
    """The sum of two norms with the shares of the least error, so that the largest norm of a vertex is 1."""
    if not (math.isfinite(one.error) and math.isfinite(other.error)):
        return _Best(math.inf, one.terms, one.norms)
    present = other.norms > _INSIDE

    def rest(share: float) -> float:
        """The largest weight of the other norm, given that of the one."""
        return float(np.min((1.0 - share * one.norms[present]) / other.norms[present]))

    def error(share: float) -> float:
        left = rest(share)
        return one.error / share**2 + other.error / left**2 if left > 0.0 else math.inf

    largest = 1.0 / float(one.norms.max())
    # Just inside: at the end the other norm may be left without any weight.
    share = float(minimize_scalar(error, bounds=(0.0, largest), method="bounded", options={"xatol": 1e-13}).x)
    if error(largest) <= error(share):  # a corner, which the search only approaches
        share = largest
    weight = rest(share)
    terms = (
        *((first, last, share * factor) for first, last, factor in one.terms),
        *((first, last, weight * factor) for first, last, factor in other.terms),
    )
    return _Best(error(share), terms, share * one.norms + weight * other.norms)
