"""Integrals of ``exp(-sum_i |u_i + (R^T w)_i| / b)`` over a plane or a space, for small components of rank 2 and 3.

The innermost integral is in closed form (`bayesdp.noise.subspace.laplace_line`). As a function of the other coordinates what
remains is log-concave, and analytic between kinks: the coordinates of the corners of the arrangement of the planes
``u_i + (R^T w)_i = 0``. So Gauss and Legendre's rule is used between all kinks, on pieces over which the logarithm
changes little, where it is accurate to rounding.
"""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import numpy.typing as npt

from bayesdp.noise.subspace.laplace_line import line_integrals

type Floats = npt.NDArray[np.float64]

MAX_RANK = 3
"""Highest rank of a component for which integrals are nested."""

_CORNERS = 3000  # most corners of an arrangement; each is an end of a piece

_DROP = 3.0
"""Largest change of the logarithm over a piece: Gauss and Legendre's rule then errs by less than 1e-18 on exponentials."""

_DEPTH = 45.0
"""Pieces are left out where the integrand is below ``exp(-45) = 3e-20`` of its peak."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def within_reach(rank: int, cells: int) -> bool:
    """Whether a component is small enough for nested integrals."""
    return rank <= MAX_RANK and comb(cells, rank) <= _CORNERS


def log_integral(u: Floats, rows: Floats, b: float) -> float:
    """Logarithm of the integral over w; accurate to about 1e-12 (1e-9 is promised). `rows`, R: linearly independent small integers."""
    if len(rows) == 1:
        return float(line_integrals(u[None, :], rows[0], b)[0])

    def height(at: Floats) -> Floats:
        shifted = u + at[:, None] * rows[-1]
        if len(rows) == 2:
            return line_integrals(shifted, rows[0], b)
        return np.array([log_integral(own, rows[:-1], b) for own in shifted])

    ends, heights = _pieces(_kinks(u, rows), height, b / float(np.max(np.abs(rows[-1]))))
    half = 0.5 * np.diff(ends)
    centre = 0.5 * (ends[1:] + ends[:-1])
    top = float(np.max(heights))
    seen = np.flatnonzero(np.maximum(heights[1:], heights[:-1]) > top - _DEPTH)
    values = np.exp(height((centre[seen, None] + half[seen, None] * _NODES).reshape(-1)) - top)
    return top + float(np.log(np.sum(half[seen] * (values.reshape(-1, len(_NODES)) @ _WEIGHTS))))


def _kinks(u: Floats, rows: Floats) -> Floats:
    """Last coordinates of the corners of the arrangement: points w where as many terms ``u_i + (R^T w)_i`` as its rank are 0."""
    rank, cells = rows.shape
    chosen = np.array(list(combinations(range(cells), rank)))
    systems = rows.T[chosen]
    chosen, systems = _regular(chosen, systems)
    return np.unique(np.linalg.solve(systems, -u[chosen][..., None])[:, -1, 0])


def _regular(chosen: npt.NDArray[np.int64], systems: Floats) -> tuple[npt.NDArray[np.int64], Floats]:
    """Keep the systems with a unique solution; determinants of integers are integers."""
    regular = np.abs(np.linalg.det(systems)) > 0.5
    return chosen[regular], systems[regular]


def _pieces(kinks: Floats, height, scale: float) -> tuple[Floats, Floats]:  # type: ignore[no-untyped-def]
    """Split the axis at the kinks and until the logarithm changes little on every piece that counts."""
    ends, heights = kinks, height(kinks)
    reach = scale
    # Concave: once the ends are low enough, what is outside of them is negligible.
    while min(heights[0], heights[-1]) > heights.max() - 2.0 * _DEPTH or heights.max() in (heights[0], heights[-1]):
        outer = np.array([ends[0] - reach, ends[-1] + reach])
        ends = np.concatenate([outer[:1], ends, outer[1:]])
        more = height(outer)
        heights = np.concatenate([more[:1], heights, more[1:]])
        reach *= 2.0
    open_ = np.ones(len(ends) - 1, dtype=np.bool_)
    while np.any(open_):
        which = np.flatnonzero(open_)
        middle = 0.5 * (ends[which] + ends[which + 1])
        found = height(middle)
        low, high = heights[which], heights[which + 1]
        top = max(float(np.max(heights)), float(np.max(found)))
        # A concave function on a piece exceeds its ends at most by how far its middle is above their mean.
        bulge = found - 0.5 * (low + high)
        flat = (np.abs(high - low) <= _DROP) & (bulge <= 0.25 * _DROP)
        buried = np.maximum(low, high) + 2.0 * bulge < top - _DEPTH
        buried |= middle == ends[which]  # no number between the ends
        split = ~(flat | buried)
        order = np.argsort(np.concatenate([np.arange(len(ends), dtype=np.float64), which[split] + 0.5]), kind="stable")
        ends = np.concatenate([ends, middle[split]])[order]
        heights = np.concatenate([heights, found[split]])[order]
        still = np.zeros(len(open_), dtype=np.bool_)
        still[which[split]] = True
        open_ = np.repeat(still, np.where(still, 2, 1))
    return ends, heights
