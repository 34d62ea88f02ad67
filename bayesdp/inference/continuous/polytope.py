"""The polytope of real tables that agree with the exact part of a release: an interior point, and the scale of the posterior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from scipy.optimize import linprog

from bayesdp.invariants import Invariants
from bayesdp.measurements import Measured
from bayesdp.release import Release

type Floats = npt.NDArray[np.float64]

_NEWTON_STEPS = 60


@dataclass(frozen=True, eq=False)
class Limits:
    """Linear inequalities ``matrix @ x >= lower`` of a flat table; the first rows are ``x >= 0``, cell by cell.

    Parameters
    ----------
    matrix : sparse array, shape (rows, cells)
    lower : float array, shape (rows,)
    """

    matrix: sp.csr_array
    lower: Floats

    @classmethod
    def of(cls, release: Release, cap: Floats) -> Limits:
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
        return cls(sp.csr_array(sp.vstack(rows, format="csr")), np.concatenate(lower))

    def slack(self, x: Floats) -> Floats:
        """``matrix @ x - lower``, shape (rows,)."""
        return np.asarray(self.matrix @ x - self.lower)


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


def guide(release: Release) -> Floats:
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


def precision(release: Release, basis: Floats | None, point: Floats) -> Floats:
    """Approximate precision of the posterior around a flat table: Poisson counts and the noise.

    Parameters
    ----------
    basis : float array, shape (cells, n), or None
        Directions; None for the cells themselves, one by one.
    point : float array, shape (cells,)

    Returns
    -------
    float array, shape (n, n), or (cells,) without a basis
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


@dataclass(frozen=True, eq=False)
class Inside:
    """A table inside all limits, and the directions in which it can move.

    Parameters
    ----------
    point : float array, shape (cells,)
    basis : float array, shape (cells, n)
        Orthonormal directions that change neither an exact answer nor a forced limit.
    forced : bool array, shape (rows,)
        Limits that hold with equality for every table, such as cells of a row with total 0.
    """

    point: Floats
    basis: Floats
    forced: npt.NDArray[np.bool_]


def inside(invariants: Invariants, limits: Limits, start: Floats, target: Floats) -> Inside:
    """A relative interior point of the real tables, close to `target`, and the directions of their space.

    Parameters
    ----------
    start : float array, shape (cells,)
        Any table of the fiber.
    target : float array, shape (cells,)
        The table that the point is to be close to.
    """
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
    return Inside(point, basis, forced)


def _relative_interior(invariants: Invariants, limits: Limits, start: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
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


def _centre(
    limits: Limits, forced: npt.NDArray[np.bool_], start: Floats, basis: Floats, target: Floats, coordinates: Floats
) -> Floats:
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
