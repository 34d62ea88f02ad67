"""How many records it can take to find a given label of every feature among them.

A set of n records has m_f records with a certain label of feature f. In the worst arrangement, the least number of
records that have all these labels among them is the largest hitting number of sets of sizes m_1 .. m_k in n points.
Two questions have a formula. It is k if the sets can be disjoint: ``m_1 + ... + m_k <= n``. It is at least 2 if no point has to be
in all of them: ``m_1 + ... + m_k <= (k - 1) n``. Between these it is the problem of covering designs, and there is no formula;
a search decides small cases.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, milp

type Types = npt.NDArray[np.bool_]

_MOST_SETS = 6
_MOST_PROGRAMS = 200


def largest_hitting_number(sizes: tuple[int, ...], points: int) -> tuple[int, int]:
    """The largest hitting number of sets of the given sizes: limits that are equal where the search ends in time.

    Parameters
    ----------
    sizes : tuple of int
        Each from 1 to `points`.
    points : int

    Returns
    -------
    lower, upper : int

    Examples
    --------
    Three sets of two among four points cannot be disjoint, but {1, 2}, {2, 3}, {3, 1} have no point in common.

    >>> largest_hitting_number((2, 2, 2), 4), largest_hitting_number((2, 2, 2), 6)
    ((2, 2), (3, 3))
    """
    k = len(sizes)
    if not k:
        return 0, 0
    if sum(sizes) <= points:
        return k, k
    # Disjoint sets among them need as many points as there are sets.
    ordered = np.cumsum(sorted(sizes))
    lower = max(int(np.searchsorted(ordered, points, side="right")), 1)
    if k > 1 and sum(sizes) <= (k - 1) * points:
        lower = max(lower, 2)
    else:
        return 1, 1
    upper = min(k - 1, _greedy(sizes, points))
    while lower < upper:
        if k > _MOST_SETS:
            return lower, upper
        answer = _reaches(np.array(sizes), points, lower + 1)
        if answer is None:
            return lower, upper
        if not answer:
            return lower, lower
        lower += 1
    return lower, upper


def _greedy(sizes: tuple[int, ...], points: int) -> int:
    """An upper bound of the hitting number: take the point that is in most sets, again and again."""
    # Some point is in at least `sum(sizes) / points` of the sets, rounded up. At worst the smallest sets are left over.
    left = sorted(sizes)
    used = 0
    while left:
        left = left[: len(left) + (-sum(left) // (points - used))]  # less the average, rounded up
        used += 1
    return used


def _reaches(sizes: npt.NDArray[np.int64], points: int, wanted: int) -> bool | None:
    """Whether the hitting number can be at least `wanted`; None where the search was given up.

    A point is of a type: the sets it is in. The hitting number is at least `wanted` if no ``wanted - 1`` of the types in use have
    all sets among them. Branch and bound: the fewest points that give every set its size, with the types that are
    still allowed (an integer program without large constants); if the types it uses cover too well, one of
    those that do must go, and all types that contain it.
    """
    k = len(sizes)
    types = ((np.arange(1, 2**k)[:, None] >> np.arange(k)) & 1).astype(np.bool_)
    open_nodes = [np.ones(len(types), dtype=np.bool_)]
    seen: set[bytes] = set()
    programs = 0
    while open_nodes:
        allowed = open_nodes.pop()
        programs += 1
        if programs > _MOST_PROGRAMS:
            return None
        try:
            used = _fewest_points(types, allowed, sizes, points)
        except ArithmeticError:
            return None
        if used is None:
            continue
        cover = _cover(types[used], wanted - 1)
        if cover is None:
            return True
        for one in np.flatnonzero(used)[list(cover)]:
            contains = np.all(types >= types[one], axis=1)
            fewer = allowed & ~contains
            if fewer.tobytes() not in seen:
                seen.add(fewer.tobytes())
                open_nodes.append(fewer)
    return False


def _fewest_points(
    types: Types, allowed: npt.NDArray[np.bool_], sizes: npt.NDArray[np.int64], points: int
) -> npt.NDArray[np.bool_] | None:
    """Types in use where the fewest points give each set at least its size; None if that takes more than `points`."""
    # At least is enough: a point can leave a set, which never makes a cover. ArithmeticError if the integer program fails, or its
    # answer does not pass an exact check.
    if not np.all(np.any(types[allowed], axis=0)):
        return None
    own = types[allowed].T.astype(np.float64)
    found = milp(
        np.ones(own.shape[1]),
        integrality=np.ones(own.shape[1]),
        bounds=Bounds(0, float(points)),
        constraints=[LinearConstraint(own, lb=sizes.astype(np.float64))],
        options={"mip_rel_gap": 0.0},
    )
    if found.x is None:
        raise ArithmeticError(f"an integer program has found no arrangement of records: {found.message}")
    counts = np.rint(found.x).astype(np.int64)
    if np.any(types[allowed].T.astype(np.int64) @ counts < sizes):
        raise ArithmeticError("an integer program has returned an arrangement of records that does not fit")
    if int(counts.sum()) > points:
        return None
    used = np.zeros(len(types), dtype=np.bool_)
    used[np.flatnonzero(allowed)[counts > 0]] = True
    return used


def _cover(types: Types, most: int) -> tuple[int, ...] | None:
    """Positions of at most `most` types that have all sets among them, as few as possible; None if there are none."""
    for count in range(1, most + 1):
        for chosen in combinations(range(len(types)), count):
            if np.all(np.any(types[list(chosen)], axis=0)):
                return chosen
    return None
