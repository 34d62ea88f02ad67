"""The gauge of a symmetric polytope as a linear program over a list of its vertices: a second opinion, in milliseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

type Floats = npt.NDArray[np.float64]

_TOLERANCE = 1e-10
_GAP = 1e-8  # primal and dual value agree to this, relatively; usually to 1e-14
_OPTIONS = {"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE, "presolve": False}


def gauge_program(vertices: Floats, point: Floats) -> tuple[float, Floats]:
    """Gauge of one point, and a linear form that attains it.

    The gauge is the least ``sum |lambda|`` with ``vertices.T @ lambda = point``. Its dual has the greatest
    ``y @ point`` with ``|vertices @ y| <= 1``: y is a subgradient of the gauge. The value returned is that of
    the dual after y was made feasible to the last digit, and it is checked against the primal value.

    Parameters
    ----------
    vertices : float array, shape (m, n)
        One of each pair; they must span the space.
    point : float array, shape (n,)

    Returns
    -------
    gauge : float
    form : float array, shape (n,)

    Raises
    ------
    ArithmeticError
        If the program is not solved to relative accuracy 1e-8 (not seen).

    Examples
    --------
    >>> value, form = gauge_program(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, -4.0]))
    >>> value, form
    (7.0, array([ 1., -1.]))
    """
    size = float(np.max(np.abs(point)))
    if size == 0.0:
        return 0.0, np.zeros(len(point))
    scale = float(np.max(np.abs(vertices)))
    columns = vertices.T / scale
    target = point / size
    solution = _solve(np.ones(2 * len(vertices)), np.hstack([columns, -columns]), target)
    form = np.asarray(solution.eqlin.marginals, dtype=np.float64)
    form = form / max(1.0, float(np.max(np.abs(form @ columns))))
    value = float(form @ target)
    if abs(value - solution.fun) > _GAP * value:
        raise ArithmeticError(f"the gauge of a point is known only to lie between {value!r} and {solution.fun!r}")
    return value * size / scale, form / scale


def _solve(cost: Floats, matrix: Floats, target: Floats) -> Any:
    solution = linprog(cost, A_eq=matrix, b_eq=target, method="highs-ds", options=_OPTIONS)
    if not solution.success:
        raise ArithmeticError(f"a linear program about a hull was not solved: {solution.message}")
    return solution
