"""Which exact values cannot all hold: a short list of them, each with its number, for the error of an empty fiber."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesdp._validate import no_table
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.system import System

type Floats = npt.NDArray[np.float64]

_LARGEST = 400_000
"""Statements times cells: beyond that the list is of those that an elastic program relaxes, and need not be complete."""

_MOST_STATEMENTS = 300
"""Each statement is left out once, which takes one linear program."""


@dataclass(frozen=True, eq=False)
class _Statements:
    """All statements of a system as rows ``low <= row @ x <= high``."""

    rows: sp.csr_array
    low: Floats
    high: Floats
    names: list[str]

    @classmethod
    def of(cls, system: System) -> _Statements:
        stated = np.flatnonzero((system.lower > 0) | (system.upper < UNBOUNDED))
        ones = np.ones(stated.size)
        cells = sp.csr_array((ones, (np.arange(stated.size), stated)), shape=(stated.size, system.frame.size))
        lower, upper = system.lower[stated], system.upper[stated]
        names = [f"{name} = {total}" for name, total in zip(system.names, system.totals.tolist(), strict=True)]
        limits = zip(system.limit_names, system.limit_lower.tolist(), system.limit_upper.tolist(), strict=True)
        names += [f"{name} >= {low:.0f}" if np.isfinite(low) else f"{name} <= {high:.0f}" for name, low, high in limits]
        for cell, low, high in zip(stated.tolist(), lower.tolist(), upper.tolist(), strict=True):
            name = system.frame.cell_name(cell)
            if low == high:
                names.append(f"{name} = {low}")
            else:
                ends = [f"{name} >= {low}"] * (low > 0) + [f"{name} <= {high}"] * (high < UNBOUNDED)
                names.append(" and ".join(ends))
        return cls(
            sp.csr_array(sp.vstack([system.matrix, system.limit_matrix, cells], format="csr").astype(np.float64)),
            np.concatenate([system.totals, system.limit_lower, lower]).astype(np.float64),
            np.concatenate([system.totals, system.limit_upper, np.where(upper == UNBOUNDED, np.inf, upper)]),
            names,
        )

    def possible(self, kept: npt.NDArray[np.int64], *, whole: bool) -> bool:
        """Whether some ``x >= 0`` fits the kept statements; an unfinished search counts as yes."""
        if not kept.size:
            return True
        result = milp(
            np.zeros(self.rows.shape[1]),
            integrality=np.full(self.rows.shape[1], int(whole)),
            bounds=Bounds(0, np.inf),
            constraints=LinearConstraint(self.rows[kept], self.low[kept], self.high[kept]),
            options={"time_limit": 5.0},
        )
        return bool(result.status != 2)

    def needed(self, order: npt.NDArray[np.int64], *, whole: bool) -> list[int]:
        """Statements without any one of which there is a table, found by leaving out one after the other."""
        kept = np.sort(order)
        for row in order:
            rest = kept[kept != row]
            if not self.possible(rest, whole=whole):
                kept = rest
        return [int(row) for row in kept]

    def relaxed(self) -> list[str]:
        """Statements that have to give way: those that an elastic linear program relaxes."""
        cells, rows = self.rows.shape[1], len(self.names)
        eye = sp.eye_array(rows, format="csr")
        result = milp(
            np.concatenate([np.zeros(cells), np.ones(2 * rows)]),
            bounds=Bounds(0, np.inf),
            constraints=LinearConstraint(sp.hstack([self.rows, eye, -eye], format="csr"), self.low, self.high),
        )
        if result.x is None:
            return []
        slack = result.x[cells : cells + rows] + result.x[cells + rows :]
        return [name for name, s in zip(self.names, slack, strict=True) if s > 1e-6]


def conflict(system: System) -> str:
    """The error message of a system without a solution.

    Parameters
    ----------
    system : System
        Without a table of whole numbers >= 0.

    Returns
    -------
    str
        With the statements that contradict one another. Of a system of moderate size these are all needed: without any
        one of them there is a table (a deletion filter, Chinneck and Dravnieks 1991). Of a larger one they are some that
        would have to give way.

    Examples
    --------
    >>> from bayesdp.fibers import Fiber
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Identity, Totals
    >>> table = {"county": ["Alpha", "Beta"]}
    >>> conflict(Fiber.of([Exact(Totals(table), 3), Exact(Identity(table), [5, 0], sign=">=")]).system)
    'no nonnegative integer table satisfies the exact values: total = 3; county=Alpha >= 5'

    References
    ----------
    Chinneck, J. W. and Dravnieks, E. W. (1991). Locating minimal infeasible constraint sets in linear programs. ORSA Journal
    on Computing 3(2), 157-168.
    """
    statements = _Statements.of(system)
    every = np.arange(len(statements.names))
    if len(every) > _MOST_STATEMENTS or len(every) * system.frame.size > _LARGEST:
        return no_table(statements.relaxed() or statements.names, complete=False)
    whole = statements.possible(every, whole=False)  # real numbers would fit: only whole ones do not
    found = [statements.needed(order, whole=whole) for order in (every, every[::-1])]  # one may be the shorter
    return no_table([statements.names[row] for row in min(found, key=len)])
