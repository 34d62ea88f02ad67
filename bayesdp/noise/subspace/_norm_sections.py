"""The unit balls of l1, l2 and l-infinity, cut with the space that invariants leave free: volumes, and small polytopes."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.spatial import HalfspaceIntersection

from bayesdp.hulls import SymmetricHull, sensitivity_hull
from bayesdp.hulls.boundary import is_quick
from bayesdp.hulls.proposals import proposal_for
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]

_LARGEST_TOTAL = 500
"""Cells of a total whose section of the cube is computed by exact fractions."""

_INTERSECTED = 5
"""Dimensions up to which the corners of a section of the cube are found."""


@lru_cache(maxsize=64)
def log_integral_of(invariants: Invariants, norm: str) -> float | None:
    """Logarithm of the integral of ``exp(-||v||)`` over the space, ``n! vol`` of the unit ball; None where not computed.

    In closed form for l2, and for disjoint totals and tables with two rows or columns (l-infinity: totals of up to 500
    cells); by triangulation for l1 and 3 x c tables up to c = 4, and for l-infinity up to five dimensions.
    """
    n = invariants.dimension
    if not n:
        return 0.0
    if norm == "l2":
        return math.log(2.0) + 0.5 * n * math.log(math.pi) - math.lgamma(0.5 * n) + math.lgamma(n)
    proposal = proposal_for(invariants)
    if proposal is not None and proposal.blocks is not None:
        return _of_totals(proposal.blocks, norm)
    table = None if proposal is None else proposal.table
    if table is not None and min(table) == 2:
        # Such tables are (a, -a): both lines have the same largest cell, and twice the l1 norm; lengths grow by sqrt(2).
        own = _of_totals(np.zeros(max(table), dtype=np.int64), norm)
        return None if own is None else own + 0.5 * n * math.log(2.0) - (n * math.log(2.0) if norm == "l1" else 0.0)
    section = section_of(invariants, norm)
    return None if section is None else section.log_cone_mass


@lru_cache(maxsize=64)
def section_of(invariants: Invariants, norm: str) -> SymmetricHull | None:
    """The unit ball as a polytope in coordinates; None where that is not small, or the norm is l2."""
    if norm == "l1":
        proposal = proposal_for(invariants)
        table = None if proposal is None else proposal.table
        return _of_circuits(invariants) if table is not None and min(table) in (2, 3) else None
    return _of_cube(invariants) if norm == "linf" and invariants.dimension <= _INTERSECTED else None


def _of_totals(blocks: npt.NDArray[np.int64], norm: str) -> float | None:
    """Disjoint totals; block -1 has the free cells."""
    sizes = np.bincount(blocks[blocks >= 0]).tolist() if np.any(blocks >= 0) else []
    free = int(np.count_nonzero(blocks < 0))
    if norm == "l1":
        # Under the l1 norm totals are independent: each is the root polytope with C(2m - 2, m - 1) unit simplices.
        return free * math.log(2.0) + math.fsum(
            math.log(math.comb(2 * (m - 1), m - 1)) + 0.5 * math.log(m) - (m - 1) * math.log(2.0) for m in sizes
        )
    if max(sizes, default=0) > _LARGEST_TOTAL:
        return None
    # The unit ball is a product.
    n = free + sum(m - 1 for m in sizes)
    return math.lgamma(n + 1) + free * math.log(2.0) + math.fsum(_log_central_section(m) for m in sizes)


def _log_central_section(m: int) -> float:
    """Logarithm of the volume of ``{z : |z_i| <= 1, sum z = 0}`` with m cells.

    All but one cell are free, and the last one is in the cube if the sum of the others is within [-1, 1]: a probability of
    the Irwin-Hall law, whose alternating sum needs exact arithmetic.
    """
    n = m - 1
    if n == 0:
        return 0.0

    def below(twice: int) -> Fraction:  # of the sum of n uniform numbers on [0, 1], times n!
        terms = ((-1) ** k * math.comb(n, k) * Fraction(twice - 2 * k, 2) ** n for k in range(twice // 2 + 1))
        return sum(terms, Fraction(0))

    share = (below(n + 1) - below(n - 1)) / math.factorial(n)
    return 0.5 * math.log(m) + n * math.log(2.0) + math.log(share.numerator) - math.log(share.denominator)


def _of_circuits(invariants: Invariants) -> SymmetricHull | None:
    """The corners of the section of the l1 ball are the circuits; of 3 x c tables these are 2 x 2 moves and 3-cycles."""
    hull = sensitivity_hull(invariants, 3)
    if not is_quick(hull.count, hull.dimension):
        return None
    tables = invariants.from_coordinates(hull.vertices).reshape(hull.count, -1)
    return SymmetricHull(hull.vertices / np.sum(np.abs(tables), axis=1)[:, None])


def _of_cube(invariants: Invariants) -> SymmetricHull | None:
    """The corners of the section of the cube, from its facets."""
    n, cells = invariants.dimension, invariants.frame.size
    basis = invariants.from_coordinates(np.eye(n)).reshape(n, cells).T
    facets = basis[np.any(np.abs(basis) > 1e-12, axis=1)]
    if n == 1:
        return SymmetricHull([[1.0 / float(np.max(np.abs(facets)))]])
    rows = np.concatenate([np.column_stack([facets, -np.ones(len(facets))])] * 2)
    rows[len(facets) :, :-1] *= -1.0
    corners = np.unique(np.round(HalfspaceIntersection(rows, np.zeros(n)).intersections, 12), axis=0)
    return SymmetricHull(corners) if is_quick(len(corners), n) else None
