"""The table of a fiber that is nearest to given numbers: what a noisy table may be turned into after its release."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesdp._validate import finite_array
from bayesdp.fibers.fiber import Fiber
from bayesdp.fibers.kernel.state import UNBOUNDED

type Ints = npt.NDArray[np.int64]

_NODES = 10_000


def nearest_table(fiber: Fiber, values: npt.ArrayLike) -> Ints:
    """The table of nonnegative whole numbers with the exact answers that is nearest to noisy counts (Remark 33).

    Uses the release and the published answers only: it is post-processing, and what the release guarantees stays as it
    is. It is for tables that are to look like tables. Give a model the noisy counts and not these: they no longer
    follow the law of the noise.

    Parameters
    ----------
    fiber : Fiber
        The published exact answers: any, with bounds and structural zeros.
    values : array_like, shape ``(*table)``
        Noisy counts, whole or real, which may be negative.

    Returns
    -------
    int64 array, shape ``(*table)``
        A member of the fiber with the least sum of distances ``|x - values|``. Of several such tables, the one that the
        program meets first.


    Notes
    -----
    An integer program. Each count is written as what lies below ``floor(values)``, up to one between the two neighbouring
    whole numbers, and what lies above; the cost is linear in each, so that for two-way margins and disjoint or nested totals
    the linear program has a solution of whole numbers already.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Remark 33.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Margins
    >>> margins = Margins({"row": ["a", "b"], "column": ["c", "d"]}, ["row"], ["column"])
    >>> fiber = Fiber.of([Exact(margins, [5, 3, 2, 6])])
    >>> nearest_table(fiber, [[-1.4, 6.4], [3.4, -0.4]])
    array([[0, 5],
           [2, 1]])
    """
    if not isinstance(fiber, Fiber):
        raise TypeError(f"fiber must be a Fiber, got {type(fiber).__name__}")
    noisy = np.asarray(finite_array(values, "values", fiber.frame.exact_cell_name), dtype=np.float64)
    if noisy.shape != fiber.frame.shape:
        raise ValueError(f"values must have shape {fiber.frame.shape}, got {noisy.shape}")
    fiber.find_point()  # an empty fiber is an error that names the answers
    flat = noisy.reshape(-1)
    system = fiber.system
    lower = np.maximum(system.lower, 0).astype(np.float64)
    upper = np.where(system.upper < UNBOUNDED, system.upper, np.inf)
    # x = base - down + middle + up, base the floor of the number, or the limit of the cell that is nearest to it.
    base = np.clip(np.floor(flat), lower, upper)
    part = np.where((base == np.floor(flat)) & (base < upper), flat - base, 0.0)
    above = np.where(flat < base, 1.0, 1.0 - 2.0 * part)  # cost of the first step up
    size = len(flat)
    rows, low, high = system.limited_rows()
    signed = sp.csr_array(sp.hstack([-rows, rows, rows], format="csr"))
    start = rows @ base
    cost = np.concatenate([np.ones(size), above, np.ones(size)])
    room = np.concatenate([base - lower, np.minimum(upper - base, 1.0), np.maximum(upper - base - 1.0, 0.0)])
    found = milp(
        cost,
        integrality=np.ones(3 * size),
        bounds=Bounds(np.zeros(3 * size), room),
        constraints=[LinearConstraint(signed, low - start, high - start)] if rows.shape[0] else [],
        options={"node_limit": _NODES, "mip_rel_gap": 0.0},
    )
    if found.status != 0:
        raise ArithmeticError(f"the nearest table was not found: {found.message}")
    down, middle, up = np.rint(found.x).reshape(3, size)
    table: Ints = (base - down + middle + up).astype(np.int64).reshape(fiber.frame.shape)
    if not fiber.contains(table):
        raise ArithmeticError("the nearest table was not found: the program's solution does not have the exact answers")
    return table
