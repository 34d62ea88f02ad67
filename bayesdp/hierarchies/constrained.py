"""Nonnegative weighted least squares with sums that are exact or have limits, and rounding that keeps these sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import LinearConstraint, milp
from scipy.sparse.linalg import splu

type Floats = npt.NDArray[np.float64]

_REGULAR = 1e-10  # pivot of a constraint that others imply, relative to the weights
_WHOLE = 1e-6  # a number that is nearer to a whole one is whole
_ROUNDS, _SPLITTINGS, _GUESSES = 40, 100, 40


class NoTable(ValueError):
    """No table keeps the constraints."""


@dataclass(frozen=True, eq=False)
class Constraints:
    """Limits of sums of the unknowns: ``lower <= matrix @ x <= upper``, exact where both are equal.

    Parameters
    ----------
    matrix : sparse array, shape (m, n)
    lower, upper : float64 arrays, shape (m,)
        Whole numbers or infinite.
    """

    matrix: sp.csr_array
    lower: Floats
    upper: Floats

    def with_slack(self) -> tuple[sp.csr_array, Floats]:
        """As equations: every limit of a sum that is not exact has an unknown of its own, which is at least 0."""
        exact = self.lower == self.upper
        below, above = ~exact & np.isfinite(self.lower), ~exact & np.isfinite(self.upper)
        matrix = sp.vstack([self.matrix[exact], self.matrix[below], self.matrix[above]], format="csr")
        slack = np.concatenate([np.zeros(exact.sum()), -np.ones(below.sum()), np.ones(above.sum())])
        columns = sp.diags_array(slack, format="csr")[:, np.flatnonzero(slack)]
        right = np.concatenate([self.lower[exact], self.lower[below], self.upper[above]])
        return sp.csr_array(sp.hstack([matrix, columns], format="csr")), right

    def check(self, n: int) -> None:
        """Raise NoTable if no nonnegative numbers keep them."""
        found = milp(
            np.zeros(n), bounds=(0, np.inf), constraints=[LinearConstraint(self.matrix, self.lower, self.upper)]
        )
        if found.status == 2:
            raise NoTable("no nonnegative table has these sums")


def nonnegative_least_squares(
    rows: sp.csr_array, values: Floats, weights: Floats, constraints: Constraints | None = None
) -> Floats:
    """Minimise ``sum(weights * (rows @ x - values)**2)`` over nonnegative x with given sums.

    Parameters
    ----------
    rows : sparse array, shape (m, n)
        Of rank n: they fix every unknown.
    values, weights : float64 arrays, shape (m,)
        Answers and their precisions, above 0.
    constraints : Constraints, optional

    Returns
    -------
    float64 array, shape (n,)


    Notes
    -----
    The set of the unknowns that are 0 is guessed, the others solved for, and the guess mended by the signs of the solution and of the
    multipliers (a primal-dual active set method) until the conditions of optimality hold. Should the guesses run in
    circles, steps of an alternating direction method, which converges from everywhere, make a better one.

    Examples
    --------
    >>> x = nonnegative_least_squares(sp.eye_array(3, format="csr"), np.array([5.0, 1.0, -3.0]), np.ones(3))
    >>> x.round(6).tolist()
    [5.0, 1.0, 0.0]
    """
    n = rows.shape[1]
    if constraints is None:
        constraints = Constraints(sp.csr_array((0, n)), np.zeros(0), np.zeros(0))
    if not n:
        round_within(np.zeros(0), constraints)  # nothing is free: the sums must be 0
        return np.zeros(0)
    equations, right = constraints.with_slack()
    size = equations.shape[1]
    wide = sp.csr_array(sp.hstack([rows, sp.csr_array((rows.shape[0], size - n))], format="csr"))
    problem = _Problem(wide, values, weights / np.median(weights), equations, right)
    zero = np.zeros(size, dtype=np.bool_)
    x, scaled = np.zeros(size), np.zeros(size)
    solver = None
    for _ in range(_ROUNDS):
        found = problem.from_guess(zero)
        if found is not None:
            return np.asarray(found[:n])
        solver = solver or problem.factor(np.arange(size), 1.0)
        for _ in range(_SPLITTINGS):
            step = problem.solve(solver, np.arange(size), x - scaled)[0]
            x, scaled = np.maximum(step + scaled, 0.0), np.minimum(step + scaled, 0.0)
        zero = x == 0
    constraints.check(n)
    raise ArithmeticError("nonnegative least squares did not converge")


@dataclass(frozen=True, eq=False)
class _Problem:
    rows: sp.csr_array
    values: Floats
    weights: Floats
    equations: sp.csr_array
    right: Floats

    def factor(self, kept: npt.NDArray[np.int64], ridge: float) -> object:
        """The equations of optimality of some unknowns, factored; a ridge holds them near a point."""
        # The first block are these unknowns, the second weighted residuals, the third multipliers.
        rows, equations = self.rows[:, kept], self.equations[:, kept]
        corner = [
            [ridge * sp.eye_array(len(kept)), rows.T, equations.T],
            [rows, -sp.diags_array(1.0 / self.weights), None],
            [equations, None, -_REGULAR * sp.eye_array(len(self.right))],
        ]
        return splu(sp.csc_array(sp.block_array(corner, format="csc")))

    def solve(self, solver: object, kept: npt.NDArray[np.int64], near: Floats) -> tuple[Floats, Floats]:
        """The unknowns (of which those that are not kept are 0) and the gradient, shape (n,) both."""
        found = solver.solve(np.concatenate([near, self.values, self.right]))  # type: ignore[attr-defined]  # of SuperLU
        x = np.zeros(self.rows.shape[1])
        x[kept] = found[: len(kept)]
        residuals = found[len(kept) : len(kept) + len(self.values)]
        multipliers = found[len(kept) + len(self.values) :]
        return x, self.rows.T @ residuals + self.equations.T @ multipliers

    def from_guess(self, zero: npt.NDArray[np.bool_]) -> Floats | None:
        """The solution, from a guess of the unknowns that are 0; None if guesses do not settle."""
        for _ in range(_GUESSES):
            kept = np.flatnonzero(~zero)
            try:
                solver = self.factor(kept, 0.0)
            except RuntimeError:  # exactly singular: too many of them are 0 for the constraints
                return None
            x, gradient = self.solve(solver, kept, np.zeros(len(kept)))
            scale = max(float(np.abs(x).max(initial=0.0)), 1.0)
            if np.abs(self.equations @ x - self.right).max(initial=0.0) > 1e-6 * scale:
                return None
            slope = max(float(np.abs(self.weights * (self.rows @ x - self.values)).max(initial=0.0)), 1.0)
            wrong = (x < -1e-10 * scale) | (zero & (gradient < -1e-10 * slope))
            if not wrong.any():
                return np.maximum(x, 0.0)
            zero = np.where(zero, gradient > 0, x < 0)
        return None


def round_within(x: Floats, constraints: Constraints | None = None) -> npt.NDArray[np.int64]:
    """Round numbers up or down to whole numbers that keep sums, as near as that is possible.

    Parameters
    ----------
    x : float64 array, shape (n,)
        Nonnegative numbers that keep the constraints, up to floating point.
    constraints : Constraints, optional

    Returns
    -------
    int64 array, shape (n,)
        Each less than 1 from `x`, whole numbers as they are; of all such tables one with the least sum of distances.


    Examples
    --------
    >>> total = Constraints(sp.csr_array(np.ones((1, 3))), np.array([4.0]), np.array([4.0]))
    >>> round_within(np.array([1.4, 1.4, 1.2]), total).tolist() in ([2, 1, 1], [1, 2, 1])
    True
    """
    nearest = np.rint(x)
    whole = np.where(np.abs(x - nearest) < _WHOLE, nearest, np.floor(x))
    left = x - whole
    if constraints is None or not len(constraints.lower):
        return (whole + (left > 0.5)).astype(np.int64)
    open_ = np.flatnonzero(left >= _WHOLE)
    missing = constraints.matrix @ whole
    if not open_.size:
        if np.any(missing < constraints.lower) or np.any(missing > constraints.upper):
            raise NoTable("no rounding keeps the sums")
        return whole.astype(np.int64)
    own = LinearConstraint(constraints.matrix[:, open_], constraints.lower - missing, constraints.upper - missing)
    found = milp(1.0 - 2.0 * left[open_], integrality=np.ones(len(open_)), bounds=(0, 1), constraints=[own])
    if found.x is None:
        raise NoTable("no rounding to neighbouring whole numbers keeps the sums")
    whole[open_] += np.rint(found.x)
    return whole.astype(np.int64)
