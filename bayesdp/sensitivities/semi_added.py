"""The semi-adjacent parameter in records added or removed, where the number of records may be unknown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp.fibers import Fiber

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AddedTotals:
    """a(t), the same in both conventions, and the distance to the nearest other database, for disjoint totals."""

    parameter: int
    nearest: int


def added_of_totals(fiber: Fiber) -> AddedTotals | None:
    """Disjoint totals, with cells that are in none of them, or no exact answers at all; None for other answers."""
    # Of a cell that is in no total, a record can come and go. Of a cell in a total, only if another one of that total goes or
    # comes. So absence and a free cell are 1 record apart, absence and a total 2, two cells of one total or two free cells 2 (the
    # record goes, and comes elsewhere), a total and a free cell 3, and two totals 4. Totals of 0 have no records. All this is so
    # from every database.
    blocks = fiber.invariants.blocks
    if blocks is None or fiber.bounds_below or fiber.bounds_above:
        return None
    fiber.find_point()  # an empty fiber is an error that names the answers
    totals = np.zeros(int(blocks.max(initial=-1)) + 1, dtype=np.int64)
    for query, values in fiber.equalities:
        entries = query.matrix.tocoo()
        totals[blocks[entries.col]] = values.reshape(-1)[entries.row]
    free = int(np.count_nonzero(blocks < 0))
    sizes = np.bincount(blocks[blocks >= 0], minlength=len(totals))
    held = totals > 0
    several = int(np.count_nonzero(held))
    parameter = max(
        4 if several > 1 else 0,
        3 if several and free else 0,
        2 if several or free > 1 else 0,
        1 if free else 0,
    )
    return AddedTotals(parameter, 1 if free else 2 if several and int(sizes[held].max()) else 0)
