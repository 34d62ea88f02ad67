"""Lower and upper bounds of the semi-adjacent parameter where the tables are too many to list."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, milp

from bayesdp.fibers import Fiber
from bayesdp.invariants import Invariants
from bayesdp.moves.computed import COMPUTED_CELLS, largest_primitive_norm
from bayesdp.queries import Totals
from bayesdp.sensitivities.cliques import Cliques
from bayesdp.sensitivities.hitting import largest_hitting_number

type Ints = npt.NDArray[np.int64]

_PAIRS = 2_000_000
"""The largest number of pairs of cells whose distances are computed: any of them give a lower bound."""

_STARTS = 6
"""Tables from which distances are computed: the larger of them is a proved lower bound from each."""

_PROGRAM_CELLS = 1000
_PROGRAMS = 12
_NODES = 2000


@dataclass(frozen=True)
class SemiBounds:
    """Limits of a(t) in both conventions, and how they were found."""

    infimum: tuple[int, int]
    worst: tuple[int, int]
    reason: str


def record_count(fiber: Fiber, point: Ints) -> int | None:
    """The number of records, that of `point`, if the exact answers fix it; None if not."""
    both = Invariants([fiber.invariants.query, Totals(fiber.frame)], fiber.frame) if fiber.equalities else None
    return int(point.sum()) if both is not None and both.rank == fiber.invariants.rank else None


def bounds_of_cliques(fiber: Fiber, cliques: Cliques) -> SemiBounds:
    """Limits where the margins form a junction tree: see `Cliques` for the theorem.

    From above: by the theorem, 1 plus the largest hitting number of the rarest labels, hence at most one more than there are
    margins with two labels or more. From below: the largest distance from some explicit tables with these answers.
    """
    point = fiber.find_point().reshape(-1)
    records = int(point.sum())
    margins = cliques.margins(point)
    rarest = tuple(int(own[own > 0].min()) for own in margins if np.count_nonzero(own) > 1)
    m = len(rarest)
    if not records:
        return SemiBounds((0, 0), (0, 0), "there is no record")
    if not m:
        possible = np.all([own[code] > 0 for code, own in zip(cliques.codes, margins, strict=True)], axis=0)
        alone = int(np.count_nonzero(possible) > 1)
        return SemiBounds((alone, alone), (alone, alone), "all records have the same labels")
    upper = min(1 + largest_hitting_number(rarest, records - 1)[1], records)
    lower = 2
    rng = np.random.default_rng(0)
    for start in range(_STARTS):
        if lower == upper:
            break
        if start:
            point = fiber.find_point(rng.gamma(0.1, size=point.size).reshape(fiber.frame.shape) * records).reshape(-1)
        lower = max(lower, int(cliques.distances(point, max(_PAIRS // point.size, 1))[1].max()))
    reason = (
        f"the margins form a junction tree: at most one more than the {m} margins with several labels, and at most what their rarest "
        "labels allow; at least as from a table that was found"
    )
    return SemiBounds((2, upper), (lower, upper), reason)


def bounds_by_programs(fiber: Fiber, records: int) -> SemiBounds:
    """Limits for any exact answers that fix the number of records.

    From above: two databases of n records differ in n records at most, and in no more than n less the counts that all tables
    have, nor than half of what the counts can vary by, two records (i itself, on both sides) apart; and, where the Graver basis
    can be computed, in no more than 1 plus half of its largest norm, whatever n: if the cell y is empty in u and not in another
    table of the fiber, one vector g of that basis has a positive entry at y and u + g is in the fiber
    (`bayesdp.moves.computed.largest_primitive_norm`); record i may be one more. From below: from
    one explicit table u, integer programs find the nearest table with a record in a cell y that is empty in u; and where it leaves
    the record of i alone, whether some table equally near does not.
    """
    point = fiber.find_point().reshape(-1)
    low, high = (own.reshape(-1) for own in fiber.bounds())
    uppers = [records, records - int(low.sum()) + 2]
    if np.all(high >= 0):
        uppers.append(int((high - low).sum()) // 2 + 2)
    free, norm = ~fiber.system.fixed, None
    if np.count_nonzero(free) <= COMPUTED_CELLS:  # the matrix of a large table is not asked for
        norm = largest_primitive_norm(fiber.moving_invariants.matrix, free, fiber.system.limit_matrix)
    if norm is not None:
        uppers.append(max(2, 1 + norm // 2))
    upper = max(min(uppers), 0)
    lower = int(np.count_nonzero(point) > 1)
    if fiber.frame.size <= _PROGRAM_CELLS:
        lower = max(lower, _farthest_found(fiber, point, high))
    graver = "" if norm is None else " and the Graver basis of the exact answers"
    found = f"at most by the number of records, the limits of the cells{graver}"
    found += "; at least by integer programs from a table that was found"
    return SemiBounds((min(lower, 1), upper), (lower, upper), found)


def _farthest_found(fiber: Fiber, point: Ints, high: Ints) -> int:
    """The largest distance from this table to a value that programs find, 0 if none."""
    empty = np.flatnonzero((point == 0) & (high != 0))
    chosen = (
        empty[np.unique(np.linspace(0, len(empty) - 1, min(len(empty), _PROGRAMS)).astype(np.int64))]
        if len(empty)
        else empty
    )
    lower = 0
    for y in map(int, chosen):
        found = _nearest(fiber, point, y, None)
        if found is None:
            continue
        half, table = found
        lower = max(lower, half)
        # Record i in a cell that the nearest table leaves as it is: one more, unless another table as near does not.
        kept = np.flatnonzero((point > 0) & (table >= point))
        if lower == half and len(kept):
            other = _nearest(fiber, point, y, int(kept[0]))
            if other is not None and other[0] > half:
                lower = half + 1
    return lower


def _nearest(fiber: Fiber, point: Ints, y: int, less: int | None) -> tuple[int, Ints] | None:
    """Half the least distance of a table with a record in y, and less than here in one cell if wanted; None if there is none."""
    size = len(point)
    rows, low, high = fiber.system.limited_rows()
    # v = point - down + up; half the distance is the sum of up, as the number of records is the same.
    moved = sp.csr_array(sp.hstack([-rows, rows], format="csr"))
    start = rows @ point
    least = np.zeros(2 * size)
    least[size + y] = 1.0
    if less is not None:
        least[less] = 1.0
    stated = fiber.system.upper.astype(np.float64)
    most = np.concatenate([(point - np.maximum(fiber.system.lower, 0)).astype(np.float64), stated - point])
    if np.any(least > most):
        return None
    found = milp(
        np.concatenate([np.zeros(size), np.ones(size)]),
        integrality=np.ones(2 * size),
        bounds=Bounds(least, most),
        constraints=[LinearConstraint(moved, low - start, high - start)] if rows.shape[0] else [],
        options={"node_limit": _NODES, "mip_rel_gap": 0.0},
    )
    if found.status != 0:
        return None
    down, up = np.rint(found.x).astype(np.int64).reshape(2, size)
    table = point - down + up
    if not fiber.contains(table.reshape(fiber.frame.shape)):
        return None
    return int(np.abs(table - point).sum()) // 2, table
