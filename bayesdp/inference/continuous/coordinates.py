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
import pytensor.sparse as ps
import pytensor.tensor as pt
import scipy.linalg
import scipy.sparse as sp

from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.inference.continuous.polytope import Limits, guide, inside, precision
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_DENSE_ENTRIES = 4_000_000
"""Entries of a dense matrix (cells times free dimensions) up to which it is built."""

_SMALL_ENTRIES = 10_000
"""Entries of a matrix up to which it is stored densely although it is sparse."""

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
class Splits:
    r"""Coordinates for disjoint totals: each total is split into halves recursively, down to cells; free cells are exponentials.

    A split gives the share ``logistic(z)`` to one half of the cells and the rest to the other, halves of similar counts.
    So the coordinates are nearly independent in the posterior, in blocks of any size (breaking off one cell after the
    other is badly conditioned in large ones). The logarithm of a cell is the logarithm of its total plus those of the
    shares on its way. The Jacobian has, for every split, ``(share)^a (1 - share)^b`` with a and b the cells on either side.

    Parameters
    ----------
    point : float array, shape (cells,)
        Positive numbers with the block totals, at coordinates 0; fixed cells have their values.
    sd : float array, shape (cells,)
        Approximate posterior standard deviation of each cell.
    blocks : int array, shape (cells,)
        Block of each cell, -1 for free cells, -2 for fixed ones.
    """

    point: Floats
    sd: Floats
    blocks: Ints

    @property
    def fixed(self) -> npt.NDArray[np.bool_]:
        """Cells that have one possible value."""
        return np.asarray(self.blocks == -2)

    @cached_property
    def _moving(self) -> Ints:
        """Cells in blocks, block by block and in ascending order inside."""
        cells = np.lexsort((self.point, self.blocks))
        return cells[self.blocks[cells] >= 0]

    @cached_property
    def _splits(self) -> list[tuple[Ints, Ints]]:
        """Both halves of every split, as positions among the moving cells."""
        starts = np.flatnonzero(np.diff(self.blocks[self._moving], prepend=-1))
        waiting = np.split(np.arange(len(self._moving)), starts[1:]) if len(starts) else []
        found: list[tuple[Ints, Ints]] = []
        while waiting:
            cells = waiting.pop()
            if len(cells) > 1:
                # Every other one in ascending order: halves of similar sums at every level.
                found.append((cells[::2], cells[1::2]))
                waiting += found[-1]
        return found

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self._splits) + int(np.sum(self.blocks == -1))

    def _paths(self) -> sp.csr_matrix:
        """0-1 matrix of the shares whose product a moving cell is, shape (moving cells, 2 x splits): first halves, second halves."""
        halves = [first for first, _ in self._splits] + [second for _, second in self._splits]
        rows = np.concatenate(halves)
        columns = np.repeat(np.arange(len(halves)), [len(half) for half in halves])
        return sp.csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(self._moving), len(halves)))

    def table(self, u: Any) -> tuple[Any, Any]:
        """The flat table of symbolic coordinates, and the log-Jacobian up to a constant."""
        free, fixed = np.flatnonzero(self.blocks == -1), np.flatnonzero(self.fixed)
        logs: list[Any] = []
        log_jacobian: Any = pt.zeros(())
        if self._splits:
            x, variance = self.point[self._moving], self.sd[self._moving] ** 2
            sums = np.array([[sizes[half].sum() for half in pair] for pair in self._splits for sizes in (x, variance)])
            mass, spread = sums[::2], sums[1::2]
            width = np.sqrt(spread.prod(axis=1) / spread.sum(axis=1)) * (1.0 / mass).sum(axis=1)
            z = np.log(mass[:, 0] / mass[:, 1]) + np.minimum(width, _LONGEST) * u[: len(self._splits)]
            shares = -pt.concatenate([pt.softplus(-z), pt.softplus(z)])
            paths = self._paths()
            block = self.blocks[self._moving]
            total = np.bincount(block, x)[block]
            logs.append(np.log(total) + _product(paths, shares))
            log_jacobian = log_jacobian + pt.dot(np.asarray(paths.sum(axis=0)).ravel(), shares)
        if len(free):
            width = np.minimum(self.sd[free] / self.point[free], _LONGEST)
            logs.append(np.log(self.point[free]) + width * u[len(self._splits) :])
            log_jacobian = log_jacobian + pt.sum(logs[-1])
        values = pt.concatenate([*(pt.exp(log) for log in logs), self.point[fixed]])
        place = np.argsort(np.concatenate([self._moving, free, fixed]))
        return values[place], log_jacobian


def _product(matrix: sp.csr_matrix, vector: Any) -> Any:
    """A constant sparse matrix times a vector; dense where it is small, which compiles faster."""
    if matrix.shape[0] * matrix.shape[1] <= _SMALL_ENTRIES:
        return pt.dot(matrix.toarray(), vector)
    # Shared, not constant: PyTensor's rewrites of signs and absolute values take every constant for an array.
    return ps.structured_dot(pytensor.shared(matrix), vector[:, None])[:, 0]


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
        return int(self.rates.shape[1])

    @property
    def fixed(self) -> npt.NDArray[np.bool_]:
        """Cells that have one value only."""
        cell_rates = self.rates[: len(self.point)]
        return np.asarray(self.forced | np.all(np.abs(cell_rates) * self.point[:, None] < 1e-9, axis=1))

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
    """Choose coordinates for the tables of a release."""
    # `cap`, shape (cells,): largest value of each cell under the prior; infinity for none. NotImplementedError if a dense matrix
    # would be too large.
    start = release.fiber.find_point(guide(release).reshape(release.frame.shape)).reshape(-1).astype(np.float64)
    blocks = release.invariants.blocks
    bounded = any(part.sign != "=" for part in release.exact)
    if blocks is not None and not bounded and np.all(cap >= _largest(blocks, start)):
        found: Coordinates = _splits_of(release, blocks, start)
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


def _splits_of(release: Release, blocks: Ints, start: Floats) -> Splits:
    point = np.maximum(guide(release), 0.5)
    total, members = _largest(blocks, start), np.bincount(blocks + 1)
    fixed = (blocks >= 0) & ((total == 0) | (members[blocks + 1] == 1))
    block_of = np.where(fixed, -2, blocks)
    for block in np.unique(block_of[block_of >= 0]):
        point[block_of == block] *= total[block_of == block][0] / point[block_of == block].sum()
    point[fixed] = start[fixed]
    return Splits(point, 1.0 / np.sqrt(precision(release, None, point)), block_of)


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
