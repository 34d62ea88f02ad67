"""Adjacency: in how many records two databases differ, seen from their tables of counts.

A database is a list of records, one a person; its table counts the records of each cell. Two metrics on databases are in
use (Cho and Awan, Example 1): the Hamming distance, the number of records that were substituted, for databases of one
(public) size; and the symmetric difference, the number of records that were added or removed. ``A_a(X, X')`` says that
the distance is at most a. Two *tables* are as far apart as the closest two databases that have these tables.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import choice, integer_array, nonnegative_integer
from bayesdp.fibers import Fiber
from bayesdp.fibers.enumeration import enumerate_fiber
from bayesdp.sensitivities.differences import NEIGHBOURS

type Ints = npt.NDArray[np.int64]


def record_distance(table: npt.ArrayLike, other: npt.ArrayLike, neighbours: str = "substitution") -> int | None:
    """The least number of records in which databases with these tables differ.

    Records that a database and the other share are matched cell by cell, as many as possible: ``||x - x'||_1`` records are
    left over. Substituting one takes away a record here and puts one there.

    Parameters
    ----------
    table, other : array_like of int, equal shapes
        Counts.
    neighbours : {"substitution", "add-remove"}
        Hamming distance, ``||x - x'||_1 / 2``; symmetric difference, ``||x - x'||_1``.

    Returns
    -------
    int or None
        None where no number of substitutions leads from one to the other: the totals differ.

    Raises
    ------
    ValueError
        If a count is not a whole number >= 0 or the shapes differ.

    Examples
    --------
    >>> record_distance([[2, 0], [0, 1]], [[1, 1], [1, 0]])
    2
    >>> record_distance([2, 1], [2, 0]) is None, record_distance([2, 1], [2, 0], "add-remove")
    (True, 1)
    """
    choice(neighbours, tuple(NEIGHBOURS), "neighbours")
    x, y = integer_array(table, "table", minimum=0), integer_array(other, "other", minimum=0)
    if x.shape != y.shape:
        raise ValueError(f"both tables must have one shape, got {x.shape} and {y.shape}")
    apart = int(np.abs(x - y).sum())
    if neighbours == "add-remove":
        return apart
    return apart // 2 if x.sum() == y.sum() else None


def adjacent(table: npt.ArrayLike, other: npt.ArrayLike, adjacency: int, neighbours: str = "substitution") -> bool:
    """The adjacency function ``A_a``: whether two tables are at most `adjacency` records apart.

    Examples
    --------
    >>> adjacent([[2, 0], [0, 1]], [[1, 1], [1, 0]], 1), adjacent([[2, 0], [0, 1]], [[1, 1], [1, 0]], 2)
    (False, True)
    """
    most = nonnegative_integer(adjacency, "adjacency")
    distance = record_distance(table, other, neighbours)
    return distance is not None and distance <= most


def conforming_pairs(
    fiber: Fiber, adjacency: int, neighbours: str = "substitution", *, limit: int = 2000
) -> list[tuple[Ints, Ints]]:
    """The pairs of different tables that a Semi-DP guarantee is about: both conform to the invariants, and are adjacent.

    Parameters
    ----------
    fiber : Fiber
        Small enough to be listed.
    adjacency : int
        Largest distance, in records.
    neighbours : {"substitution", "add-remove"}
        The metric.
    limit : int
        Largest number of tables.

    Returns
    -------
    list of pairs of int64 arrays, each ``(*table)``
        Each pair once.

    Raises
    ------
    ValueError
        If the fiber is infinite or has more than `limit` tables.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Definition 19.

    Examples
    --------
    >>> from bayesdp.measurements import Exact
    >>> from bayesdp.queries import Totals
    >>> fiber = Fiber.of([Exact(Totals({"county": ["Alpha", "Beta"]}), 2)])
    >>> [(x.tolist(), y.tolist()) for x, y in conforming_pairs(fiber, 1)]
    [([0, 2], [1, 1]), ([1, 1], [2, 0])]
    """
    if not isinstance(fiber, Fiber):
        raise TypeError(f"fiber must be a Fiber, got {type(fiber).__name__}")
    most = nonnegative_integer(adjacency, "adjacency")
    choice(neighbours, tuple(NEIGHBOURS), "neighbours")
    tables = enumerate_fiber(fiber, limit)
    flat: npt.NDArray[Any] = tables.reshape(len(tables), -1)
    found = []
    for first in range(len(flat)):
        change = flat[first + 1 :] - flat[first]
        apart = np.abs(change).sum(axis=1)
        good = apart <= most if neighbours == "add-remove" else (apart <= 2 * most) & (change.sum(axis=1) == 0)
        found += [(tables[first], tables[first + 1 + int(second)]) for second in np.flatnonzero(good)]
    return found
