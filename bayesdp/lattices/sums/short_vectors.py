"""How many points of a lattice have each squared length, up to a bound: depth-first search (Fincke and Pohst 1985)."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]


def squared_lengths(gram: Floats, unit: float, bound: float, limit: int) -> tuple[Ints, Ints] | None:
    """Count the points of a lattice with squared length up to `bound`.

    Parameters
    ----------
    gram : float64 array, shape (n, n)
        Inner products of a basis, all multiples of ``1 / unit``.
    unit : float
    bound : float
    limit : int
        Number of points from which to give up.

    Returns
    -------
    (int64 array, int64 array) or None
        Squared lengths in units of ``1 / unit``, ascending from 0, and how many points have each.

    Examples
    --------
    >>> squared_lengths(np.array([[2.0, -1.0], [-1.0, 2.0]]), 1.0, 8.0, 1000)
    (array([0, 2, 6, 8]), array([1, 6, 6, 6]))
    """
    lower = np.linalg.cholesky(gram)
    diagonal = np.diag(lower).copy()
    # Half a unit more, so that rounding loses no point on the bound; lengths are rounded to whole units.
    found = _search(lower / diagonal, diagonal**2, unit, bound + 0.5 / unit, limit, math.floor(bound * unit + 1e-6))
    if found[0] == 0:
        return None
    lengths = np.flatnonzero(found)
    return lengths.astype(np.int64), found[lengths]


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _search(mu: Floats, squares: Floats, unit: float, bound: float, limit: int, last: int) -> Ints:
    """Points by squared length, all zero if there are more than `limit`; ``mu`` has ones on its diagonal.

    With ``z = sum c_i b_i``, ``||z||**2 = sum_i squares[i] (c_i + sum_{l > i} c_l mu[l, i])**2``: coordinates are
    chosen from the last one on.
    """
    n = len(squares)
    counts = np.zeros(last + 1, dtype=np.int64)
    c = np.zeros(n, dtype=np.int64)
    top = np.zeros(n, dtype=np.int64)
    centre = np.zeros(n)
    used = np.zeros(n + 1)  # squared length of the coordinates from here on
    i, seen, fresh = n - 1, 0, True
    while i < n:
        if fresh:
            centre[i] = 0.0
            for later in range(i + 1, n):
                centre[i] -= c[later] * mu[later, i]
            reach = math.sqrt(max(bound - used[i + 1], 0.0) / squares[i])
            c[i] = math.ceil(centre[i] - reach)
            top[i] = math.floor(centre[i] + reach)
        else:
            c[i] += 1
        if c[i] > top[i]:
            i, fresh = i + 1, False
            continue
        used[i] = used[i + 1] + squares[i] * (c[i] - centre[i]) ** 2
        if i > 0:
            i, fresh = i - 1, True
            continue
        fresh = False
        length = round(used[0] * unit)
        if length <= last:
            counts[length] += 1
            seen += 1
            if seen > limit:
                counts[:] = 0
                return counts
    return counts
