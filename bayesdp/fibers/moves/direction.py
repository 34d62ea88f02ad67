"""Draw one random direction inside a kernel, as a sparse integer vector in scratch arrays."""

from __future__ import annotations

import numpy as np

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import below, compiled, inlined, inside, uniform
from bayesdp.fibers.moves.moves import CYCLE, LISTED, PRODUCT, SUMS


@inlined
def _product(meta: Ints, which: int, pool: Ints, state: Words, cells: Ints, steps: Ints) -> int:
    """A product of differences: in each factor, two distinct offsets of one class (in proportion to its size)."""
    count = 1
    cells[0], steps[0] = 0, 1
    for factor in range(meta[which, 1]):
        at = 2 + 4 * factor
        position = below(state, meta[which, at])
        group = pool[meta[which, at + 2] + position]
        bounds = meta[which, at + 3] + group
        start = pool[bounds]
        other = start + below(state, pool[bounds + 1] - start - 1)
        if other >= position:
            other += 1
        first = pool[meta[which, at + 1] + position]
        second = pool[meta[which, at + 1] + other]
        for i in range(count):
            cells[count + i] = cells[i] + second
            steps[count + i] = -steps[i]
            cells[i] += first
        count *= 2
    return count


@inside
def _listed(meta: Ints, family: int, pool: Ints, state: Words, cells: Ints, steps: Ints) -> int:
    which = below(state, meta[family, 2])
    start, end = pool[meta[family, 3] + which], pool[meta[family, 3] + which + 1]
    for i in range(start, end):
        cells[i - start] = pool[meta[family, 4] + i]
        steps[i - start] = pool[meta[family, 5] + i]
    return int(end - start)


@inside
def _cycle(meta: Ints, which: int, pool: Ints, state: Words, cells: Ints, steps: Ints) -> int:
    """A random simple cycle of a bipartite graph whose edges are cells; every one of them has positive probability."""
    # Walk from row to column to row along random free cells, never straight back; the first node met twice closes a simple cycle, and
    # the tail before it is dropped. The walk gives up at a node with a single cell (no cycle passes through it).
    rows = meta[which, 2]
    row = below(state, rows)
    # nodes: rows 0 .. rows-1, columns rows .. rows+columns-1; the path is kept in `steps`, the cells in `cells`
    length = 0
    node = row
    steps[0] = node
    arrived = np.int64(-1)
    while True:
        side = 0 if node < rows else 1
        number = node if side == 0 else node - rows
        at = 2 + 4 * side
        start, end = pool[meta[which, at + 2] + number], pool[meta[which, at + 2] + number + 1]
        degree = end - start
        if degree < 2:
            return 0
        pick = start + below(state, degree)
        other = pool[meta[which, at + 1] + pick]
        cell = pool[meta[which, at + 3] + pick]
        if cell == arrived:
            continue
        node = other + rows if side == 0 else other
        cells[length] = cell
        arrived = cell
        length += 1
        for i in range(length):
            if steps[i] == node:
                count = length - i
                for j in range(count):
                    cells[j] = cells[i + j]
                for j in range(count):
                    steps[j] = 1 if j % 2 == 0 else -1
                return count
        steps[length] = node


@inlined
def _one(meta: Ints, cumulative: Floats, pool: Ints, families: int, state: Words, cells: Ints, steps: Ints) -> int:  # fmt: skip
    """A move of one of the first `families` families."""
    which = 0
    if families > 1:
        u = uniform(state) * cumulative[families - 1]
        while which < families - 1 and u >= cumulative[which]:
            which += 1
    kind = meta[which, 0]
    if kind == PRODUCT:
        return _product(meta, which, pool, state, cells, steps)
    if kind == LISTED:
        return _listed(meta, which, pool, state, cells, steps)
    if kind == CYCLE:
        return _cycle(meta, which, pool, state, cells, steps)
    return 0


@compiled
def draw_direction(meta: Ints, cumulative: Floats, pool: Ints, state: Words, cells: Ints,
                   steps: Ints, dense: Ints, touched: Ints) -> int:  # fmt: skip
    """Draw a direction into ``cells`` and ``steps`` and return its number of cells (0: nothing to move)."""
    # `dense`, shape (cells,): scratch, all zero before and after. `touched`: scratch, no longer than `cells` and `steps`, at least as
    # long as the longest ordinary direction.
    families = len(cumulative)
    if families == 0:
        return 0
    if meta[families - 1, 0] != SUMS or uniform(state) < cumulative[families - 2]:
        ordinary = families - 1 if meta[families - 1, 0] == SUMS else families
        return _one(meta, cumulative, pool, ordinary, state, cells, steps)
    # A signed sum of 1 + Geometric(1/2) moves.
    seen = 0
    while True:
        count = _one(meta, cumulative, pool, families - 1, state, cells, steps)
        if seen + count > len(touched):
            break  # the scratch arrays are full (far in the tail of the geometric law): use what there is
        sign = 1 if uniform(state) < 0.5 else -1
        for i in range(count):
            cell = cells[i]
            if dense[cell] == 0:
                # A cell that cancels to zero and comes back is listed twice; it is read and zeroed at the first.
                touched[seen] = cell
                seen += 1
            dense[cell] += sign * steps[i]
        if uniform(state) < 0.5:
            break
    filled = 0
    for i in range(seen):
        cell = touched[i]
        if dense[cell] != 0:
            cells[filled] = cell
            steps[filled] = dense[cell]
            filled += 1
            dense[cell] = 0
    return filled
