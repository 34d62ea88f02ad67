"""Answers about the same records, which count once: classes of rows, kept up to date while a table moves.

Rows that may share a perturbation (`bayesdp.noise.base`) have a law, a number from 1 on. The class of such a row is the set of its
cells that are not empty, told by the sum of random numbers of 64 bits, one for each of them; two sets have one sum with
probability 2**-64. A sum of 0 is an empty answer, which is a class by itself. In the likelihood a class has one factor; where its
rows have different published numbers, the table is impossible.

Along a direction the classes are those of all cells being held, but for the steps at which some cell of the direction is
empty: at most as many as it has cells. So a draw works out the classes of both kinds, and sums the factors of what leads them. A
class that has a row beside those that the direction meets is led by that one, which does not change.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayesdp._arrays import Floats, Ints, Words
from bayesdp._numba import below, by_log_weight, compiled, exponential, inside
from bayesdp.fibers.kernel.state import NOISY, ONE, VALUE, WINDOW, WINDOW_WEIGHT, ZERO, X
from bayesdp.fibers.kernel.weights import log_ratio, windowed

CODE, ROWS, NUMBERS = 0, 1, 2
"""Columns of the slots, a hash table of the classes: their code, how many rows they have, the sum of their published numbers."""

ROW, REST, NOW, STEP = 0, 1, 2, 3
LEADS: Any = np.int64(4)
LEADS_EMPTY: Any = np.int64(5)
"""Rows of the work space of a line, one column a row that it meets: which one, its code without the cells of the line and with them,
what a step adds to it, whether it leads its class, and whether it does where cells of the line are empty."""


@inside
def _home(code: int, mask: int) -> int:
    return ((code ^ (code >> 29)) * 6364136223846793005 >> 24) & mask


@inside
def _slot(slots: Ints, code: int) -> int:
    """Where a class is, or would be."""
    mask = len(slots) - 1
    at = _home(code, mask)
    while slots[at, ROWS] != 0 and slots[at, CODE] != code:
        at = (at + 1) & mask
    return at


@inside
def _enter(slots: Ints, code: int, number: int) -> bool:
    """Add a row to its class; whether it is the first one. Empty answers have no class."""
    if code == 0:
        return True
    at = _slot(slots, code)
    slots[at, CODE] = code
    slots[at, ROWS] += 1
    slots[at, NUMBERS] += number
    return bool(slots[at, ROWS] == 1)


@inside
def _leave(slots: Ints, code: int, number: int) -> None:
    """Take a row out of its class; slots behind one that becomes free move up, so that searches may stop at free ones."""
    if code == 0:
        return
    mask, hole = len(slots) - 1, _slot(slots, code)
    slots[hole, ROWS] -= 1
    slots[hole, NUMBERS] -= number
    if slots[hole, ROWS] > 0:
        return
    at = (hole + 1) & mask
    while slots[at, ROWS] != 0:
        if ((at - _home(slots[at, CODE], mask)) & mask) >= ((at - hole) & mask):
            for column in range(3):
                slots[hole, column] = slots[at, column]
            hole = at
        at = (at + 1) & mask
    slots[hole, ROWS] = 0
    slots[hole, NUMBERS] = 0


@inside
def apart(code: int, number: float, slots: Ints) -> float:
    """How much a row has another number than others of its class: 0 if it is their mean, else from 1 to 2."""
    if code == 0:
        return 0.0
    at = _slot(slots, code)
    away = abs(slots[at, ROWS] * int(number) - slots[at, NUMBERS])
    return float(2.0 * away / (1.0 + away))


@compiled
def gather_classes(cells_int: Ints, rows: Floats, indptr: Ints, indices: Ints, codes: Ints, laws: Ints, classes: Ints,
                   slots: Ints) -> None:  # fmt: skip
    """The classes of a table, from scratch."""
    slots[:] = 0
    classes[:] = 0
    for c in range(len(cells_int)):
        if cells_int[c, X] != 0:
            for at in range(indptr[c], indptr[c + 1]):
                if laws[indices[at]] > 0:
                    classes[indices[at]] += codes[c] * (2 * laws[indices[at]] + 1)
    for j in range(len(rows)):
        if laws[j] > 0:
            _enter(slots, classes[j], int(rows[j, NOISY]))


@compiled
def count_places(first: int, last: int, lowest: int, rows: Floats, laws: Ints, classes: Ints, slots: Ints,
                 found: Floats) -> None:  # fmt: skip
    """Add to `found`, shape (counts, deviations), how often each deviation of each count occurs in a range of rows; a class is one."""
    for j in range(first, last):
        if rows[j, WINDOW_WEIGHT] > 0.0:
            count = int(rows[j, VALUE])
            together = slots[_slot(slots, classes[j]), ROWS] if len(laws) > 0 and classes[j] != 0 else ONE
            found[min(count, len(found) - 1), int(rows[j, NOISY]) - count - lowest] += 1.0 / together


@inside
def turn_cell(cell: int, held: bool, rows: Floats, indptr: Ints, indices: Ints, codes: Ints, laws: Ints, classes: Ints,
              slots: Ints) -> None:  # fmt: skip
    """A cell that was empty is held, or the other way round: the rows that it is in change their classes."""
    for at in range(indptr[cell], indptr[cell + 1]):
        j = indices[at]
        if laws[j] > 0:
            code, number = codes[cell] * (2 * laws[j] + 1), int(rows[j, NOISY])
            _leave(slots, classes[j], number)
            classes[j] += code if held else -code
            _enter(slots, classes[j], number)


@inside
def open_classes(low: int, high: int, cells_int: Ints, rows: Floats, indptr: Ints, indices: Ints, cells: Ints, steps: Ints,
                 count: int, mark: Ints, codes: Ints, laws: Ints, classes: Ints, slots: Ints, met_rows: Ints) -> int:  # fmt: skip
    """Take the rows that a direction meets out of their classes, if these may change along it or have other rows."""
    # Returns how many rows there are, in the work space and by their places plus one in `mark`; 0 if each row is the only one of
    # its class at every step from `low` to `high`. Then nothing has changed.
    found = 0
    alone = True
    for i in range(count):
        c = cells[i]
        held = cells_int[c, X] != 0
        if not held or cells_int[c, X] + low * steps[i] <= 0 or cells_int[c, X] + high * steps[i] <= 0:
            alone = False
        for at in range(indptr[c], indptr[c + 1]):
            j = indices[at]
            if laws[j] == 0:
                continue
            if mark[j] == 0:
                met_rows[ROW, found] = j
                met_rows[REST, found] = classes[j]
                met_rows[STEP, found] = 0
                found += 1
                mark[j] = found
                alone = alone and (classes[j] == 0 or slots[_slot(slots, classes[j]), ROWS] == 1)
            met_rows[STEP, mark[j] - 1] += steps[i]
            if held:
                met_rows[REST, mark[j] - 1] -= codes[c] * (2 * laws[j] + 1)
    for t in range(found):
        j = met_rows[ROW, t]
        if alone:
            mark[j] = 0
        else:
            _leave(slots, classes[j], int(rows[j, NOISY]))
    return 0 if alone else found


@inside
def _codes_at(k: int, always: int, cells_int: Ints, indptr: Ints, indices: Ints, cells: Ints, steps: Ints, count: int,
              mark: Ints, codes: Ints, laws: Ints, met_rows: Ints, found: int) -> None:  # fmt: skip
    """The codes of the rows after k steps; `always` above 0: with all cells of the direction held."""
    for t in range(found):
        met_rows[NOW, t] = met_rows[REST, t]
    for i in range(count):
        c = cells[i]
        if always > 0 or cells_int[c, X] + k * steps[i] != 0:
            for at in range(indptr[c], indptr[c + 1]):
                j = indices[at]
                if laws[j] > 0:
                    met_rows[NOW, mark[j] - 1] += codes[c] * (2 * laws[j] + 1)


@inside
def _lead(k: int, always: int, leads: int, cells_int: Ints, rows: Floats, indptr: Ints, indices: Ints, cells: Ints, steps: Ints,
          count: int, mark: Ints, codes: Ints, laws: Ints, slots: Ints, met_rows: Ints, found: int) -> float:  # fmt: skip
    """Note which rows lead their classes after k steps, and return the weight of those that differ from others of their class."""
    _codes_at(k, always, cells_int, indptr, indices, cells, steps, count, mark, codes, laws, met_rows, found)
    differing = 0.0
    for t in range(found):
        met_rows[leads, t] = _enter(slots, met_rows[NOW, t], int(rows[met_rows[ROW, t], NOISY]))
    for t in range(found):
        away = apart(met_rows[NOW, t], rows[met_rows[ROW, t], NOISY], slots)
        if away > 0.0:
            met_rows[leads, t] = 1  # where that has a price, the row has that of its own number, too
            differing += away * rows[met_rows[ROW, t], WINDOW_WEIGHT]
    for t in range(found):
        _leave(slots, met_rows[NOW, t], int(rows[met_rows[ROW, t], NOISY]))
    return differing


@inside
def _joined_mass(k: int, differing: float, cells_int: Ints, rows: Floats, windows: Floats, indptr: Ints, indices: Ints, cells: Ints,
                 steps: Ints, count: int, mark: Ints, codes: Ints, laws: Ints, slots: Ints, met_rows: Ints, each: float,
                 found: int) -> float:  # fmt: skip
    """The log-mass of the rows after k steps; rows of the weight `differing` differ where no cell is empty, at the log-mass `each`."""
    leads = LEADS
    for i in range(count):
        if cells_int[cells[i], X] + k * steps[i] == 0:
            leads = LEADS_EMPTY
    if leads == LEADS_EMPTY:
        differing = _lead(k, ZERO, leads, cells_int, rows, indptr, indices, cells, steps, count, mark, codes, laws, slots,
                          met_rows, found)  # fmt: skip
    total = each * differing
    for t in range(found):
        if met_rows[leads, t]:
            j = met_rows[ROW, t]
            total += rows[j, WINDOW_WEIGHT] * windowed(rows, windows, j, rows[j, VALUE] + k * met_rows[STEP, t])
    return total


@inside
def draw_joined(low: int, high: int, family: int, cells_int: Ints, cells_float: Floats, rows: Floats, groups: Floats,
                windows: Floats, generator: Words, cells: Ints, steps: Ints, count: int, met: Ints,
                met_steps: Floats, rows_met: int, curvature: float, slope: float, weights: Floats, indptr: Ints, indices: Ints,
                mark: Ints, codes: Ints, laws: Ints, slots: Ints, met_rows: Ints, each: float, found: int) -> int:  # fmt: skip
    """Draw a step along a direction that meets `found` rows of classes; the first `rows_met` of `met` are the other rows."""
    # From the whole interval, which the windows of the rows bound; where that is too long, one slice-sampling update.
    differing = _lead(ZERO, ONE, LEADS, cells_int, rows, indptr, indices, cells, steps, count, mark, codes, laws, slots, met_rows,
                      found)  # fmt: skip
    span = high - low + 1
    scanned = span <= WINDOW
    level, largest, tried = math.inf, -math.inf, 0
    k = low if scanned else ZERO
    # One loop for both ways: what it calls is compiled for each place that calls it.
    while True:
        height = log_ratio(k, family, cells_int, cells_float, rows, groups, windows, cells, steps, count, met, met_steps, rows_met,
                           curvature, slope)  # fmt: skip
        height += _joined_mass(k, differing, cells_int, rows, windows, indptr, indices, cells, steps, count, mark, codes, laws,
                               slots, met_rows, each, found)  # fmt: skip
        if scanned:
            weights[tried] = height
            largest = max(largest, height)
            tried += 1
            k += 1
            if tried == span:
                break
            continue
        if level == math.inf:
            level = height - exponential(generator)
        elif height > level:
            return k
        elif k < 0:
            low = k + 1
        else:
            high = k - 1
        k = low + below(generator, high - low + 1)
        if k == 0:
            return 0
    at = by_log_weight(generator, weights, span, largest)
    return low + at if at >= 0 else 0


@inside
def close_classes(k: int, cells_int: Ints, rows: Floats, indptr: Ints, indices: Ints, cells: Ints, steps: Ints, count: int,
                  mark: Ints, codes: Ints, laws: Ints, classes: Ints, slots: Ints, met_rows: Ints, found: int) -> None:  # fmt: skip
    """Put the rows into their classes after k steps, which are taken afterwards."""
    _codes_at(k, ZERO, cells_int, indptr, indices, cells, steps, count, mark, codes, laws, met_rows, found)
    for t in range(found):
        j = met_rows[ROW, t]
        classes[j] = met_rows[NOW, t]
        mark[j] = 0
        _enter(slots, classes[j], int(rows[j, NOISY]))
