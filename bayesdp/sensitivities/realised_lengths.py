"""How far two tables of a fiber can be apart, a few records apart: by the independent parts of the table, at any size.

The lattice of differences is an orthogonal sum of lattices on parts of the cells (`bayesdp.lattices.parts`), and so the fiber is the
product of the fibers of its parts: strata with margins of their own are independent. Each part has a profile, how long a realised
difference of k records gets, k = 0, 1, ..., and the records of all parts add up to at most a: a knapsack.

Profiles. In a total of T records over several cells, k <= T records move from one cell to another, of l2 norm ``k sqrt(2)``. A line
has as many steps as its tables. In a table with both margins up to 3 records form a 2x2 move or a 3-cycle, realised just when as many
rows and columns have records and there are as many records; other differences are listed. Other parts: all pairs of their tables.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.fibers import Fiber
from bayesdp.fibers.enumeration import enumerate_fiber
from bayesdp.lattices.parts import Line, Part, Table, lattice_parts
from bayesdp.moves.bounded import bounded_kernel
from bayesdp.queries import LinearQuery, Margins, Query

type Ints = npt.NDArray[np.int64]
type Profile = tuple[tuple[int, ...], ...]
"""Largest l1 norm, squared l2 norm and l-infinity norm of a difference of at most k records, for k = 0, 1, ..."""

_TABLES = 1000  # parts of more tables are not listed
_KINDS = 200  # different parts that have to be listed, at most: a bound of the work


def realised_lengths(fiber: Fiber, adjacency: int) -> tuple[float, float, float]:
    """The largest l1, l2 and l-infinity norm of ``x - x'`` for tables x, x' of the fiber at most so many substituted records apart.

    The fiber has exact answers without bounds, which determine the number of records.
    """
    point = fiber.find_point().reshape(-1)
    listed: set[object] = set()
    profiles = Counter(_profile(fiber, part, point, adjacency, listed) for part in lattice_parts(fiber.invariants))
    l1, squared = [0] * (adjacency + 1), [0] * (adjacency + 1)
    for (part_l1, part_squared, _), count in profiles.items():
        for _ in range(min(count, adjacency)):  # each takes a record at least
            l1, squared = _both(l1, part_l1), _both(squared, part_squared)
    most = max((profile[2][-1] for profile in profiles), default=0)
    return float(l1[-1]), float(np.sqrt(squared[-1])), float(most)


def _both(best: list[int], more: tuple[int, ...]) -> list[int]:
    """The best sums of two profiles, up to as many records as the first goes."""
    return [max(best[k - j] + more[j] for j in range(min(k + 1, len(more)))) for k in range(len(best))]


def _profile(fiber: Fiber, part: Part, point: Ints, a: int, listed: set[object]) -> Profile:
    if isinstance(part, Line):
        return _of_line(part.entries, point[part.cells], a)
    if isinstance(part, Table) and part.copies == 1 and len(part.shape) == 1:
        k = np.arange(min(a, int(point[part.cells].sum())) + 1)
        return _plain(np.stack([2 * k, 2 * k * k, k]))
    grid = _two_way_cells(part)
    if grid is not None:
        counts = point[grid]
        rows, columns = (tuple(sorted(sums[sums > 0].tolist())) for sums in (counts.sum(axis=1), counts.sum(axis=0)))
        margins, most = sorted((rows, columns), key=len), min(a, sum(rows))
        if most > 3:
            _counted(listed, tuple(margins))
        return _of_margins(*margins, most)
    cells = np.unique(part.cells)
    matrix = fiber.invariants.matrix[:, cells]
    dense = np.unique(matrix[np.flatnonzero(np.diff(matrix.indptr))].toarray(), axis=0).astype(np.int64)
    key = dense.shape, dense.tobytes(), (dense @ point[cells]).tobytes()
    _counted(listed, key)
    return _of_rows(*key, a)


def _counted(listed: set[object], key: object) -> None:
    listed.add(key)
    if len(listed) > _KINDS:
        raise NotImplementedError(
            f"more than {_KINDS} different parts of the table would have to be listed to find which differences their tables have"
        )


def _plain(norms: Ints) -> Profile:
    return tuple(tuple(row) for row in norms.tolist())


def _of_line(entries: Ints, counts: Ints, a: int) -> Profile:
    """Steps along one vector whose entries add up to zero."""
    if entries.sum():
        raise NotImplementedError("the exact answers must determine the number of records")
    up, down = entries > 0, entries < 0
    # From one end of the line, where no more steps down are left, to the other.
    steps = int((counts[down] // -entries[down]).min()) + int((counts[up] // entries[up]).min())
    taken = np.minimum(np.arange(a + 1) // int(entries[up].sum()), steps)
    l1, squared, most = int(np.abs(entries).sum()), int(entries @ entries), int(np.abs(entries).max())
    return _plain(np.stack([taken * l1, taken**2 * squared, taken * most]))


def _two_way_cells(part: Part) -> Ints | None:
    """The cells of a part that is a table with both margins, as a table; None for other parts."""
    if not isinstance(part, Table):
        return None
    if part.copies == 1 and len(part.shape) == 2:
        return np.asarray(part.cells[0])
    opposite = part.copies == 2 and len(part.shape) == 1 and np.array_equal(part.signs[0], -part.signs[1])
    return np.asarray(part.cells) if opposite and np.all(part.signs[0] == part.signs[0, 0]) else None


@lru_cache(maxsize=4096)
def _of_margins(rows: tuple[int, ...], columns: tuple[int, ...], a: int) -> Profile:
    """A table with both margins, all positive, the fewer labels first; a is at most the number of records."""
    shape = len(rows), len(columns)
    if a <= 3:
        length = [0, 0, 4 if shape[0] > 1 else 0, 6 if shape[0] > 2 else 4 if shape[0] > 1 else 0][: a + 1]
        return tuple(length), tuple(length), tuple(int(size > 0) for size in length)
    table = {"row": range(shape[0]), "column": range(shape[1])}
    margins = Margins(table, ["row"], ["column"])
    try:
        z = bounded_kernel(margins.matrix, a, balanced=True).reshape(-1, *shape)
    except ValueError as error:
        return _of_pairs(_fiber(margins, np.array([*rows, *columns])), a, error)
    # The records that are taken away must be there; the others can be arranged as one likes.
    taken = np.maximum(-z, 0)
    fits = np.all(taken.sum(axis=2) <= rows, axis=1) & np.all(taken.sum(axis=1) <= columns, axis=1)
    return _largest(z[fits].reshape(-1, shape[0] * shape[1]), a)


@lru_cache(maxsize=4096)
def _of_rows(shape: tuple[int, int], matrix: bytes, answers: bytes, a: int) -> Profile:
    """Any other part: all pairs of its tables."""
    rows = sp.csr_array(np.frombuffer(matrix, dtype=np.int64).reshape(shape))
    query = LinearQuery({"cell": range(shape[1])}, rows, [f"row {i}" for i in range(shape[0])])
    return _of_pairs(_fiber(query, np.frombuffer(answers, dtype=np.int64)), a, None)


def _fiber(query: Query, answers: Ints) -> Fiber:
    return Fiber(query.frame, ((query, answers),))


def _of_pairs(fiber: Fiber, a: int, error: Exception | None) -> Profile:
    try:
        tables = enumerate_fiber(fiber, _TABLES, work=50 * _TABLES).reshape(-1, fiber.frame.size)
    except ValueError as other:
        raise NotImplementedError(
            f"which differences two tables of a part have is found by listing its tables or its differences: {error or other}"
        ) from None
    changes = [tables[i + 1 :] - tables[i] for i in range(len(tables))]
    return _largest(np.concatenate([change[np.abs(change).sum(axis=1) <= 2 * a] for change in changes]), a)


def _largest(z: Ints, a: int) -> Profile:
    """The profile of a list of realised differences, shape ``(m, cells)``."""
    l1, squared, most = np.abs(z).sum(axis=1), (z * z).sum(axis=1), np.abs(z).max(axis=1, initial=0)
    norms = np.zeros((3, a + 1), dtype=np.int64)
    np.maximum.at(norms, (slice(None), l1 // 2), np.stack([l1, squared, most]))
    return _plain(np.maximum.accumulate(norms, axis=1))
