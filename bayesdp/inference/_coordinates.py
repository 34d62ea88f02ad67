"""Unconstrained coordinates of the real tables that agree with the exact part of a release.

Both maps are one to one onto the interior, so that no proposal is ever outside, and both come with the logarithm of
their Jacobian, up to a constant.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pytensor
import pytensor.tensor as pt
import scipy.linalg

from bayesdp.inference._polytope import Limits, guide, inside, precision
from bayesdp.lattices.state import UNBOUNDED
from bayesdp.release import Release

__all__ = ["Coordinates", "Rays", "Sticks", "coordinates_of"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_DENSE_ENTRIES = 4_000_000
"""Entries of a dense matrix (cells times free dimensions) up to which it is built."""

_LONGEST = 2.0
"""Largest scale of a coordinate on the logistic or logarithmic scale."""


class Coordinates(Protocol):
    """A map from unconstrained coordinates to tables."""

    @property
    def size(self) -> int:
        """Number of coordinates."""

    @property
    def fixed(self) -> npt.NDArray[np.bool_]:
        """Cells that have one value only, shape (cells,)."""

    def table(self, u: Any) -> tuple[Any, Any]:
        """The flat table of symbolic coordinates, and the log-Jacobian up to a constant."""


@dataclass(frozen=True, eq=False)
class Sticks:
    """Disjoint totals: each block is a stick, broken into its cells one after the other; free cells are exponentials.

    Within a block with total t, the cells in ascending order of a first guess take the share ``logistic(z_k)`` of what
    the cells before them have left, and the last and largest takes the rest. So the coordinates are nearly independent
    in the posterior: the last cell absorbs what the others do.

    Parameters
    ----------
    point : float array, shape (cells,)
        Positive numbers with the block totals, at coordinates 0; fixed cells have their values.
    scale : float array, shape (cells,)
        Approximate posterior standard deviation of each cell.
    blocks : int array, shape (cells,)
        Block of each cell, -1 for free cells, -2 for fixed ones.
    """

    point: Floats
    scale: Floats
    blocks: Ints

    @property
    def fixed(self) -> npt.NDArray[np.bool_]:
        """Cells that have one value only."""
        return self.blocks == -2

    @cached_property
    def _sorted(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Cells that break off, the rests of the blocks, free cells, fixed cells; the first two block by block."""
        cells = np.lexsort((self.point, self.blocks))
        cells = cells[self.blocks[cells] >= 0]
        last = np.diff(self.blocks[cells], append=-1) != 0
        return cells[~last], cells[last], np.flatnonzero(self.blocks == -1), np.flatnonzero(self.fixed)

    @cached_property
    def _stick(self) -> tuple[Ints, Ints, Floats]:
        """For each cell that breaks off its block's number; where each block starts among them; logarithms of totals."""
        broken, rest, _, _ = self._sorted
        number = np.searchsorted(self.blocks[rest], self.blocks[broken])
        start = np.searchsorted(number, np.arange(len(rest) + 1))
        totals = self.point[rest] + np.bincount(number, self.point[broken], minlength=len(rest))
        return number, start, np.log(totals)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self._sorted[0]) + len(self._sorted[2])

    def table(self, u: Any) -> tuple[Any, Any]:
        """The flat table of symbolic coordinates, and the log-Jacobian up to a constant."""
        broken, rest, free, fixed = self._sorted
        number, start, log_totals = self._stick
        before = log_totals[number] + _log_left(self._at_zero)[np.arange(len(broken))]
        before -= _log_left(self._at_zero)[start[number]]
        share = np.exp(np.log(self.point[broken]) - before)
        width = np.minimum(self.scale[broken] / (self.point[broken] * (1.0 - share)), _LONGEST)
        z = self._at_zero + width * u[: len(broken)]
        left = pt.concatenate([np.zeros(1), pt.cumsum(-pt.softplus(z))])
        log_before = log_totals[number] + left[: len(broken)] - left[start[number]]
        log_broken = log_before - pt.softplus(-z)
        log_rest = log_totals + left[start[1:]] - left[start[:-1]]
        widths = np.minimum(self.scale[free] / self.point[free], _LONGEST)
        log_free = np.log(self.point[free]) + widths * u[len(broken) :]
        values = pt.concatenate([pt.exp(log_broken), pt.exp(log_rest), pt.exp(log_free), self.point[fixed]])
        place = np.argsort(np.concatenate([broken, rest, free, fixed]))
        return values[place], pt.sum(log_broken - pt.softplus(z)) + pt.sum(log_free)

    @cached_property
    def _at_zero(self) -> Floats:
        """Log-odds of the shares at `point`."""
        broken, rest, _, _ = self._sorted
        number, start, _ = self._stick
        own = np.zeros(len(broken))
        for block in range(len(rest)):  # once, in the setting up
            of_block = slice(start[block], start[block + 1])
            x = np.append(self.point[broken[of_block]], self.point[rest[block]])
            own[of_block] = np.log(x[:-1]) - np.log(np.cumsum(x[::-1])[::-1][1:])
        return own


def _log_left(z: Floats) -> Floats:
    """Running logarithm of what shares with the log-odds z leave."""
    return np.concatenate([[0.0], np.cumsum(-np.logaddexp(0.0, z))])


@dataclass(frozen=True, eq=False)
class Rays:
    r"""Any invariants and bounds: from an inner point, along each ray to the boundary.

    .. math:: x = x^* + \frac{\tanh m}{m} B u, \qquad m = \max_r \max(0, -(G B u)_r / s_r)

    with s the slacks of the limits ``G x >= g`` at x*. m is 1 where ``x* + B u`` meets the boundary, and 0 in directions
    that have none. Near x* the map is linear; on every ray it is a hyperbolic tangent, so that the boundary is at infinity.
    Its Jacobian is ``(tanh(m) / m)^(n-1) / cosh(m)^2`` times a constant.

    Parameters
    ----------
    point : float array, shape (cells,)
        x*, inside all limits that are not forced.
    rates : float array, shape (rows, n)
        ``-G B / s``, cells first; 0 for limits that always hold with equality.
    forced : bool array, shape (cells,)
        Cells that are 0 in all tables.
    cap : float array, shape (cells,)
        Upper limits of cells, for rounding only.
    """

    point: Floats
    rates: Floats
    forced: npt.NDArray[np.bool_]
    cap: Floats

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.rates.shape[1]

    @property
    def fixed(self) -> npt.NDArray[np.bool_]:
        """Cells that have one value only."""
        own = self.rates[: len(self.point)]
        return np.asarray(self.forced | np.all(np.abs(own) * self.point[:, None] < 1e-9, axis=1))

    def table(self, u: Any) -> tuple[Any, Any]:
        """The flat table of symbolic coordinates, and the log-Jacobian up to a constant."""
        r = pt.dot(_constant(self.rates), u)
        m = pt.maximum(pt.max(r), 0.0)
        away = m > 1e-4
        safe = pt.switch(away, m, 1.0)
        slope = pt.switch(away, pt.tanh(safe) / safe, 1.0 - m**2 / 3.0)
        # x* (1 - slope r) = x* ((1 - tanh m) + slope (m - r)), of two terms that are never negative: no cancellation.
        x = self.point * (2.0 * pt.sigmoid(-2.0 * m) + slope * (m - r[: len(self.point)]))
        if np.isfinite(self.cap).any():
            x = pt.minimum(x, self.cap)  # beyond by rounding errors only
        return x, (self.size - 1) * pt.log(slope) - 2.0 * (m + pt.log1p(pt.exp(-2.0 * m)))


def _constant(matrix: Floats) -> Any:
    """A matrix in a graph; large ones as a shared variable, as PyTensor does not store functions with large constants."""
    return pt.constant(matrix) if matrix.nbytes < 10**6 else pytensor.shared(matrix)


def coordinates_of(release: Release, cap: Floats) -> Coordinates:
    """Choose coordinates for the tables of a release.

    Parameters
    ----------
    release : Release
    cap : float array, shape (cells,)
        Largest value of each cell under the prior; infinity for none.

    Raises
    ------
    ValueError
        If no table agrees with the exact part and the caps, or only one does.
    NotImplementedError
        If a dense matrix would be too large.
    """
    start = release.fiber.find_point(guide(release).reshape(release.frame.shape)).reshape(-1).astype(np.float64)
    blocks = release.invariants.blocks
    bounded = any(part.sign != "=" for part in release.exact)
    if blocks is not None and not bounded and np.all(cap >= _largest(blocks, start)):
        found: Coordinates = _sticks(release, blocks, start)
    else:
        found = _rays(release, cap)
    if not found.size:
        raise ValueError("the exact answers determine every cell: nothing is left to infer")
    return found


def _largest(blocks: Ints, start: Floats) -> Floats:
    """The largest value of each cell: the total of its block."""
    if not np.any(blocks >= 0):
        return np.full(len(start), np.inf)
    totals = np.bincount(blocks[blocks >= 0], start[blocks >= 0])
    return np.where(blocks >= 0, totals[np.maximum(blocks, 0)], np.inf)


def _sticks(release: Release, blocks: Ints, start: Floats) -> Sticks:
    point = np.maximum(guide(release), 0.5)
    total, members = _largest(blocks, start), np.bincount(blocks + 1)
    fixed = (blocks >= 0) & ((total == 0) | (members[blocks + 1] == 1))
    own = np.where(fixed, -2, blocks)
    for block in np.unique(own[own >= 0]):
        point[own == block] *= total[own == block][0] / point[own == block].sum()
    point[fixed] = start[fixed]
    return Sticks(point, 1.0 / np.sqrt(precision(release, None, point)), own)


def _rays(release: Release, cap: Floats) -> Rays:
    cells, dimension = release.frame.size, release.invariants.dimension
    if cells * dimension > _DENSE_ENTRIES:
        raise NotImplementedError(
            f"continuous counts need a dense matrix here, of {cells} cells by {dimension} free dimensions, more than "
            f"{_DENSE_ENTRIES} entries. For tables of this size: exact answers that are disjoint totals without bounds, and a "
            "prior without upper limits (Poisson, negative binomial); or ConfidentialCounts, which has no limit"
        )
    upper = np.where(np.isfinite(cap), cap, UNBOUNDED).astype(np.int64)
    fiber = release.fiber if not np.isfinite(cap).any() else release.fiber.with_cells_at_most(upper)
    target = guide(release)
    start = fiber.find_point(target.reshape(release.frame.shape)).reshape(-1).astype(np.float64)
    limits = Limits.of(release, cap)
    found = inside(release.invariants, limits, start, target)
    slack = np.where(found.forced, 1.0, limits.slack(found.point))
    # In these directions the posterior is about a standard normal law, whatever the noise.
    if found.basis.shape[1]:
        root = np.linalg.cholesky(precision(release, found.basis, found.point))
        directions = scipy.linalg.solve_triangular(root, found.basis.T, lower=True).T
    else:
        directions = found.basis
    rates = -np.asarray(limits.matrix @ directions) / slack[:, None]
    rates[found.forced] = 0.0
    return Rays(found.point, rates, found.forced[:cells], cap)
