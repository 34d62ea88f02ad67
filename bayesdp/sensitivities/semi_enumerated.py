"""The semi-adjacent parameter of a fiber whose tables are listed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["nearest_databases", "semi_adjacency_of_tables"]

type Ints = npt.NDArray[np.int64]

_FAR = np.iinfo(np.int64).max // 4


def semi_adjacency_of_tables(tables: Ints) -> tuple[int, int]:
    """The semi-adjacent parameter in both conventions, infimum and worst, by going through all pairs of tables, shape (m, cells).

    Record i has the value (cell) x in a database with table u, and y in one with table v. The other records can be
    matched as well as their counts allow, so that the two databases differ in ``1 + ||(u - e_x) - (v - e_y)||_1 / 2``
    records: record i, and what is left over of the others. With ``w = u - v`` that is ``||w||_1 / 2 + [w_x <= 0] + [w_y >= 0]``,
    because ``w_x - 1`` is smaller in absolute value just when w_x is positive. The infimum is the largest over x and y of the least
    over u and v; the worst is the largest over x, y and u of the least over v.
    """
    cells = tables.shape[1]
    best = np.full((cells, cells), _FAR)
    worst = 0
    holds = tables > 0
    possible = np.flatnonzero(holds.any(axis=0))
    if not possible.size:
        return 0, 0
    for u in tables:
        change = u - tables
        half = np.abs(change).sum(axis=1) // 2
        # The closest table with a record in y has distance half + 2 at most, the two brackets included. A table whose half is
        # larger by 2 has no smaller one, brackets or not; one that is larger by 1 may (a record that moves, not an exchange).
        closest = np.array([half[holds[:, y]].min() for y in possible])
        near = np.flatnonzero(half <= closest.max() + 1)
        half, change, held = half[near], change[near], holds[near]
        own = np.flatnonzero(u > 0)
        start = half[:, None] + (change[:, own] <= 0)
        distance = np.empty((len(own), len(possible)), dtype=np.int64)
        for j, y in enumerate(possible):
            to_y = np.where(held[:, y], (change[:, y] >= 0).astype(np.int64), _FAR)
            distance[:, j] = (start + to_y[:, None]).min(axis=0)
        distance[own[:, None] == possible] = 0
        worst = max(worst, int(distance.max()))
        best[np.ix_(own, possible)] = np.minimum(best[np.ix_(own, possible)], distance)
    return int(best[np.ix_(possible, possible)].max()), worst


def nearest_databases(tables: Ints) -> tuple[int, int]:
    """``a_min`` and ``a_maxmin`` of Remark 14: the least, and the largest, distance to the nearest other database.

    Databases are lists of records: where two records of a table differ, exchanging them is another database at distance 2,
    with the same table. 0 where there is no other database.
    """
    nearest = []
    for u in tables:
        half = np.abs(tables - u).sum(axis=1) // 2
        others = half[half > 0]
        exchange = [2] if np.count_nonzero(u) > 1 else []
        nearest.append(min([*exchange, *([int(others.min())] if others.size else [])], default=0))
    return (min(nearest), max(nearest)) if nearest else (0, 0)
