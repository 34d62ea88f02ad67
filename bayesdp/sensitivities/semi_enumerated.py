"""The semi-adjacent parameter of a fiber whose tables are listed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp.fibers import Fiber
from bayesdp.fibers.enumeration import enumerate_fiber
from bayesdp.sensitivities.cliques import IMPOSSIBLE

type Ints = npt.NDArray[np.int64]

_FAR = np.iinfo(np.int64).max // 4

_LISTED_CELLS = 100
"""The largest table whose fiber is listed."""

_WORK = 100_000
"""Steps of the search that lists it."""


def listed_tables(fiber: Fiber, limit: int) -> tuple[Ints | None, str]:
    """All tables, flat, shape (m, cells), or why they are not listed."""
    if fiber.frame.size > _LISTED_CELLS:
        return None, (
            f"the exact answers are not one-way margins, and tables of {fiber.frame.size} cells are too large to list the fiber "
            f"(the limit is {_LISTED_CELLS})"
        )
    fiber.find_point()  # an empty fiber is an error that names the answers
    try:
        return enumerate_fiber(fiber, limit, work=_WORK).reshape(-1, fiber.frame.size), ""
    except ValueError as error:
        return None, f"the exact answers are not one-way margins, and {error}"


def semi_adjacency_of_tables(tables: Ints, absence: bool = False) -> tuple[int, int]:
    """The semi-adjacent parameter in both conventions, infimum and worst, by going through all pairs of tables, shape (m, cells)."""
    # Record i has the value (cell) x in a database with table u, and y in one with table v. The other records can be matched as
    # well as their counts allow, so that `||(u - e_x) - (v - e_y)||_1` of them are left over on both sides, and record i itself
    # counts on both. With `w = u - v` that is `||w||_1 + 2 [w_x <= 0] + 2 [w_y >= 0]` records taken away or added, because `w_x -
    # 1` is smaller in absolute value just when w_x is positive; half as many are substituted. With `absence`, i may also not be
    # there: without e_x, and without its record on that side, the bracket of x falls away. The infimum is the largest over x and y
    # of the least over u and v; the worst is the largest over x, y and u of the least over v. `tables`, shape (m, cells): all
    # tables. `absence`: count records added or removed, absence among the values; else records substituted, where all tables must
    # have one total.
    possible = np.flatnonzero((tables > 0).any(axis=0))
    if not possible.size and not (absence and len(tables)):
        return 0, 0
    size = possible.size + absence
    best = np.full((size, size), _FAR)
    worst = 0
    for u in tables:
        own, distance = _distances(u, tables, possible, absence)
        worst = max(worst, int(distance.max(initial=0)))
        best[own] = np.minimum(best[own], distance)
    unit = 1 if absence else 2
    return int(best.max()) // unit, worst // unit


def distances_of_tables(table: Ints, tables: Ints) -> tuple[Ints, Ints]:
    """The number of substituted records if a record of one cell says another, in a database with one of the listed tables."""
    # `table`, shape (cells,): one of the tables. `tables`, shape (m, cells): all tables, with one total. Returns `cells`, shape
    # (own,): the cells that hold records; `distances`, shape (own, cells): as `Cliques.distances`.
    possible = np.flatnonzero((tables > 0).any(axis=0))
    own, distance = _distances(table, tables, possible, False)
    found = np.full((len(own), tables.shape[1]), IMPOSSIBLE, dtype=np.int64)
    found[:, possible] = distance // 2
    return possible[own], found


def _distances(u: Ints, tables: Ints, possible: Ints, absence: bool) -> tuple[Ints, Ints]:
    """Records taken away and added, from each own value (positions in `possible`, absence last) to each possible one."""
    change = u - tables
    norm = np.abs(change).sum(axis=1)
    # The closest table with a record in y has a distance of its norm + 4 at most, the two brackets included. A table whose norm
    # is larger by 4 has no smaller one.
    closest = np.array([norm[tables[:, y] > 0].min() for y in possible], dtype=np.int64)
    near = np.flatnonzero(norm <= closest.max(initial=0) + 3)
    norm, change, held = norm[near], change[near], tables[near] > 0
    positions = np.flatnonzero(u[possible] > 0)
    start = norm[:, None] + 2 * (change[:, possible[positions]] <= 0)
    if absence:
        positions = np.append(positions, len(possible))
        start = np.column_stack([start, norm])
    distance = np.empty((len(positions), len(possible) + absence), dtype=np.int64)
    for j, y in enumerate(possible):
        to_y = np.where(held[:, y], 2 * (change[:, y] >= 0), _FAR)
        distance[:, j] = (start + to_y[:, None]).min(axis=0)
    if absence:
        distance[:, -1] = start.min(axis=0)
    distance[np.arange(len(positions)), positions] = 0
    return positions, distance


def nearest_databases(tables: Ints, absence: bool = False) -> tuple[int, int]:
    """``a_min`` and ``a_maxmin`` of Remark 14: the least, and the largest, distance to the nearest other database.

    Databases are lists of records: where two records of a table differ, exchanging them is another database at distance 2,
    with the same table. In records added or removed (`absence`), a record can make room for that of somebody else with the same
    value, which is another database at distance 2. 0 where there is no other database.
    """
    nearest = []
    for u in tables:
        apart = np.abs(tables - u).sum(axis=1) // (1 if absence else 2)
        others = apart[apart > 0]
        exchange = [2] if np.count_nonzero(u) > (0 if absence else 1) else []
        nearest.append(min([*exchange, *([int(others.min())] if others.size else [])], default=0))
    return (min(nearest), max(nearest)) if nearest else (0, 0)
