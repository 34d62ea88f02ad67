"""The space of the real tables that agree with the exact part of a release: an inner point, and unconstrained coordinates.

Both maps from coordinates to tables are one to one onto the interior, so that no proposal is ever outside, and both come with
the logarithm of their Jacobian, up to a constant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytensor
import pytensor.sparse as ps
import pytensor.tensor as pt
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.optimize import linprog

from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.invariants import Invariants
from bayesdp.measurements import Measured
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

_NEWTON_STEPS = 60

_DENSE_ENTRIES = 4_000_000
"""Entries of a dense matrix (cells times free dimensions) up to which it is built."""

_SMALL_ENTRIES = 10_000
"""Entries of a matrix up to which it is stored densely although it is sparse."""

_LONGEST = 2.0
"""Largest scale of a coordinate on the logistic or logarithmic scale."""


class _Limits(NamedTuple):
    """Linear inequalities ``matrix @ x >= lower`` of a flat table; the first rows are ``x >= 0``, cell by cell."""

    matrix: sp.csr_array
    lower: Floats

    def slack(self, x: Floats) -> Floats:
        """By how much each holds, shape (rows,)."""
        return np.asarray(self.matrix @ x - self.lower)


def _limits(release: Release, cap: Floats) -> _Limits:
    """``x >= 0``, ``x <= cap`` where that is finite, and the bounds of the exact part."""
    identity = sp.csr_array(sp.eye_array(release.frame.size))
    capped = np.flatnonzero(np.isfinite(cap))
    rows = [identity, -identity[capped]]
    lower: list[Floats] = [np.zeros(release.frame.size), -cap[capped]]
    for part in release.exact:
        if part.sign != "=":
            sign = 1.0 if part.sign == ">=" else -1.0
            rows.append(sign * part.query.matrix.astype(np.float64))
            lower.append(sign * part.values.reshape(-1).astype(np.float64))
    return _Limits(sp.csr_array(sp.vstack(rows, format="csr")), np.concatenate(lower))


def _weights(measured: Measured) -> Floats:
    """One over the variance of the noise of each answer, flat; 0 for answers that were not published."""
    # Where a law has no closed variance, 2 / epsilon^2 (that of Laplace noise) stands in: the numbers only scale coordinates.
    kept = measured.noise_invariants
    shape = measured.query.shape if kept is None else kept.frame.shape
    variance = measured.law.variance(shape, kept)
    if variance is None:
        rate = getattr(measured.law, "epsilon", None)
        variance = np.full(shape, 2.0 / rate**2 if rate else 1.0)
    # Answers that the exact part determines have no noise; any positive number will do for them.
    flat = np.broadcast_to(np.maximum(variance, 0.01), shape).reshape(-1)
    return np.where(measured.unmeasured.reshape(-1), 0.0, 1.0 / flat)


def _guide(release: Release) -> Floats:
    """A flat real table that fits noisy and exact answers by least squares: a starting point and scale, not an estimate."""
    size = release.frame.size
    rows: list[Any] = []
    values: list[Floats] = []
    for measured in release.measurements:
        weight = np.sqrt(_weights(measured))
        rows.append(sp.diags_array(weight) @ measured.query.matrix)
        values.append(weight * measured.values.reshape(-1).astype(np.float64))
    for part in release.exact:
        if part.sign == "=":
            rows.append(10.0 * part.query.matrix)
            values.append(10.0 * part.values.reshape(-1).astype(np.float64))
    if not rows:
        return np.ones(size)
    matrix, target = sp.csr_array(sp.vstack(rows)), np.concatenate(values)
    # Least squares around a constant table, so that cells about which nothing is known are as large as the others.
    ones = matrix @ np.ones(size)
    level = max(float(ones @ target) / max(float(ones @ ones), 1e-300), 0.5)
    return np.asarray(level + spl.lsmr(matrix, target - level * ones, damp=1e-3)[0])


def _precision(release: Release, basis: Floats | None, point: Floats) -> Floats:
    """Approximate precision of the posterior around a flat table: Poisson counts and the noise.

    Of directions, shape (cells, n): a matrix of shape (n, n). Without any: of the cells one by one, shape (cells,).
    """
    poisson = 1.0 / np.maximum(point, 1.0)
    total = poisson if basis is None else basis.T @ (poisson[:, None] * basis)
    for measured in release.measurements:
        weight = _weights(measured)
        if basis is None:
            total = total + (measured.query.matrix.astype(np.float64) ** 2).T @ weight
        else:
            answers = np.asarray(measured.query.matrix @ basis)
            total = total + answers.T @ (weight[:, None] * answers)
    return np.asarray(total)


class _Inside(NamedTuple):
    """A table inside all limits, and the directions in which it can move."""

    point: Floats
    basis: Floats  # orthonormal directions that change neither an exact answer nor a forced limit, shape (cells, n)
    forced: Mask  # limits that hold with equality for every table, such as cells of a row with total 0


def _inside(invariants: Invariants, limits: _Limits, start: Floats, target: Floats) -> _Inside:
    """A relative interior point of the real tables, close to `target`, and the directions of their space."""
    # `start`: any table of the fiber.
    found, forced = _relative_interior(invariants, limits, start)
    basis = np.ascontiguousarray(
        invariants.from_coordinates(np.eye(invariants.dimension)).reshape(invariants.dimension, -1).T
    )
    if forced.any() and basis.shape[1]:
        basis = basis @ scipy.linalg.null_space(limits.matrix[forced] @ basis, rcond=1e-9)
    # Forced cells have slack 0, and rounding errors of the null space would be divided by it.
    basis[forced[: len(start)]] = 0.0
    coordinates = _centre(limits, forced, start, basis, target, basis.T @ (found - start))
    point = start + basis @ coordinates
    point[forced[: len(start)]] = 0.0
    return _Inside(point, basis, forced)


def _relative_interior(invariants: Invariants, limits: _Limits, start: Floats) -> tuple[Floats, Mask]:
    """One linear program: scaled copies of the tables, and the largest number of limits with a slack of 1.

    Over ``A X = tau t, G X - tau g >= y, 0 <= y <= 1, tau >= 1`` the sum of y is largest where y is 1 for each limit
    that some table satisfies strictly, and 0 for the others; ``X / tau`` is inside all of the former.
    """
    rows, cells = limits.matrix.shape
    unit = max(1.0, float(np.abs(start).mean()))
    equal = invariants.matrix.astype(np.float64)
    column = sp.csr_array(-(equal @ start / unit)[:, None])
    a_eq = sp.hstack([equal, sp.csr_array((equal.shape[0], rows)), column], format="csr")
    a_ub = sp.hstack([-limits.matrix, sp.eye_array(rows), sp.csr_array(limits.lower[:, None] / unit)], format="csr")
    cost = np.concatenate([np.zeros(cells), -np.ones(rows), [0.0]])
    bounds = np.concatenate([np.tile([-np.inf, np.inf], (cells, 1)), np.tile([0.0, 1.0], (rows, 1)), [[1.0, np.inf]]])
    answer = linprog(
        cost,
        A_ub=a_ub,
        b_ub=np.zeros(rows),
        A_eq=a_eq if equal.shape[0] else None,
        b_eq=np.zeros(equal.shape[0]) if equal.shape[0] else None,
        bounds=bounds,
        method="highs",
    )
    if answer.status != 0:
        raise RuntimeError(f"no point inside the exact answers was found: {answer.message}")
    return answer.x[:cells] / answer.x[-1] * unit, np.asarray(answer.x[cells:-1] < 0.5)


def _centre(limits: _Limits, forced: Mask, start: Floats, basis: Floats, target: Floats, coordinates: Floats) -> Floats:
    """Newton's method for the point that is close to the target and away from the limits.

    The smallest ``sum_i w_i (x_i - target_i)^2 / 2 - sum log(slack)``; it decides where the sampler starts, and does not
    enter the posterior.
    """
    directions = np.asarray(limits.matrix[~forced] @ basis)
    offset = limits.slack(start)[~forced]
    weight = 1.0 / np.maximum(target, 1.0)
    gap = start - target

    def value(c: Floats) -> float:
        slack = offset + directions @ c
        if np.any(slack <= 0):
            return math.inf
        return float(0.5 * (weight * (gap + basis @ c) ** 2).sum() - np.log(slack).sum())

    current = value(coordinates)
    for _ in range(_NEWTON_STEPS if basis.shape[1] else 0):
        slack = offset + directions @ coordinates
        gradient = basis.T @ (weight * (gap + basis @ coordinates)) - directions.T @ (1.0 / slack)
        scaled = directions / slack[:, None]
        step = scipy.linalg.solve(basis.T @ (weight[:, None] * basis) + scaled.T @ scaled, -gradient, assume_a="pos")
        decrease = float(-gradient @ step)
        length = 1.0
        while length > 1e-10 and not value(coordinates + length * step) <= current - 0.25 * length * decrease:
            length /= 2.0
        if decrease < 1e-8 or length <= 1e-10:
            break
        coordinates = coordinates + length * step
        current = value(coordinates)
    return coordinates


@dataclass(frozen=True, eq=False)
class Splits:
    r"""Coordinates for disjoint totals: each total is split into halves recursively, down to cells; free cells are exponentials.

    A split gives the share ``logistic(z)`` to one half of the cells and the rest to the other, halves of similar counts.
    So the coordinates are nearly independent in the posterior, in blocks of any size (breaking off one cell after the
    other is badly conditioned in large ones). The logarithm of a cell is the logarithm of its total plus those of the
    shares on its way. The Jacobian has, for every split, ``(share)^a (1 - share)^b`` with a and b the cells on either side.
    """

    point: Floats  # positive numbers with the block totals, at coordinates 0; fixed cells have their values
    sd: Floats  # approximate posterior standard deviation of each cell
    blocks: Ints  # block of each cell, -1 for free cells, -2 for fixed ones

    @property
    def fixed(self) -> Mask:
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
    """

    point: Floats  # x*, inside all limits that are not forced
    rates: Floats  # -G B / s, cells first; 0 for limits that always hold with equality
    forced: Mask  # cells that are 0 in all tables
    cap: Floats  # upper limits of cells, for rounding only

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(self.rates.shape[1])

    @property
    def fixed(self) -> Mask:
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


def coordinates_of(release: Release, cap: Floats) -> Splits | Rays:
    """Choose coordinates for the tables of a release."""
    # `cap`, shape (cells,): largest value of each cell under the prior; infinity for none. NotImplementedError if a dense matrix
    # would be too large.
    start = release.fiber.find_point(_guide(release).reshape(release.frame.shape)).reshape(-1).astype(np.float64)
    blocks = release.invariants.blocks
    bounded = any(part.sign != "=" for part in release.exact)
    if blocks is not None and not bounded and np.all(cap >= _largest(blocks, start)):
        found: Splits | Rays = _splits_of(release, blocks, start)
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
    point = np.maximum(_guide(release), 0.5)
    total, members = _largest(blocks, start), np.bincount(blocks + 1)
    fixed = (blocks >= 0) & ((total == 0) | (members[blocks + 1] == 1))
    block_of = np.where(fixed, -2, blocks)
    for block in np.unique(block_of[block_of >= 0]):
        point[block_of == block] *= total[block_of == block][0] / point[block_of == block].sum()
    point[fixed] = start[fixed]
    return Splits(point, 1.0 / np.sqrt(_precision(release, None, point)), block_of)


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
    target = _guide(release)
    start = fiber.find_point(target.reshape(release.frame.shape)).reshape(-1).astype(np.float64)
    limits = _limits(release, cap)
    found = _inside(release.invariants, limits, start, target)
    slack = np.where(found.forced, 1.0, limits.slack(found.point))
    # In these directions the posterior is about a standard normal law, whatever the noise.
    if found.basis.shape[1]:
        root = np.linalg.cholesky(_precision(release, found.basis, found.point))
        directions = scipy.linalg.solve_triangular(root, found.basis.T, lower=True).T
    else:
        directions = found.basis
    rates = -np.asarray(limits.matrix @ directions) / slack[:, None]
    rates[found.forced] = 0.0
    return Rays(found.point, rates, found.forced[:cells], cap)
