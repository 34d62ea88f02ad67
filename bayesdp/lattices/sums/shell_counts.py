"""How many integer vectors of each size ||z||_1 a matrix sends to zero, counted cell by cell.

A cell adds a multiple of its column to the sums so far. What matters of the cells passed is those sums, and how many
ways there are to reach them at each size.

With few rows, all sums that can come back to zero are held in one array. Adding a cell with column a multiplies the
generating function ``P(y, x)`` of sums and sizes by ``sum_k x**|k| y**(k a) = (1 - x**2) / ((1 - x y**a) (1 - x
y**-a))``: two passes through the array, one each way.

With more rows, only the sums that occur are held, and those that the cells to come cannot bring back to zero in time are
dropped. Rows that are begun and not ended are few if cells of the same rows stand together.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

type Ints = npt.NDArray[np.int64]

_NUMBERS = 4_000_000
"""States times sizes that are held at most, where only those that occur are held."""

_BOX_ROWS = 3
"""Up to so many independent rows all sums are held."""

_BOX_NUMBERS = 30_000_000
"""Sums times sizes in that array at most."""


def l1_shells(matrix: Ints, largest: int) -> Ints | None:
    """Count the integer vectors z with ``matrix @ z = 0`` by their size ``||z||_1``.

    Parameters
    ----------
    matrix : int64 array, shape (rows, cells)
    largest : int
        Size up to which to count.

    Returns
    -------
    int64 array, shape (largest + 1,), or None
        None if it would take too much memory, or numbers beyond 64 bits.

    Examples
    --------
    >>> l1_shells(np.array([[1, 1, 1]]), 6).tolist()
    [1, 0, 6, 0, 12, 0, 18]
    """
    # No count is larger than that of all integer vectors of such a size.
    cells = matrix.shape[1]
    if sum(2**k * math.comb(cells, k) * math.comb(largest, k) for k in range(cells + 1)) >= 2**62:
        return None
    box = largest * np.abs(matrix).max(axis=1) // 2
    if len(matrix) <= _BOX_ROWS and math.prod((2 * box + 1).tolist()) * (largest + 1) <= _BOX_NUMBERS:
        return _count_dense(matrix, box, largest)
    return _count_sparse(matrix, largest)


def _count_dense(matrix: Ints, box: Ints, largest: int) -> Ints:
    """Hold all sums up to `box` in size: half of a vector has at most half of its size."""
    spans = 2 * box + 1
    strides = np.cumprod(np.concatenate([[1], spans[:-1]]))
    ways = np.zeros((int(np.prod(spans)), largest + 1), dtype=np.int64)
    ways[int(box @ strides), 0] = 1
    for column in matrix.T:
        _multiply(ways, column, spans, strides)
    return np.array(ways[int(box @ strides)])


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _multiply(ways: Ints, column: Ints, spans: Ints, strides: Ints) -> None:
    """Add a cell: times ``1 - x**2``, then divided by ``1 - x y**a`` and ``1 - x y**-a``, in place."""
    largest = ways.shape[1] - 1
    for place in range(len(ways)):
        for size in range(largest, 1, -1):
            ways[place, size] -= ways[place, size - 2]
    for sign in (1, -1):
        shift = 0
        for row in range(len(column)):
            shift += sign * column[row] * strides[row]
        for step in range(len(ways)):
            # Upwards where the cell moves to later places (or nowhere, in the box without rows), so that what is
            # added has been added to.
            place = step if shift >= 0 else len(ways) - 1 - step
            inside = True
            for row in range(len(column)):
                digit = place // strides[row] % spans[row] - sign * column[row]
                inside &= 0 <= digit < spans[row]
            if inside:
                for size in range(1, largest + 1):
                    ways[place, size] += ways[place - shift, size - 1]


def _count_sparse(matrix: Ints, largest: int) -> Ints | None:
    """Hold only the sums that occur."""
    matrix = matrix[:, _order(matrix)]
    # The largest entry to come in each row, for each number of cells passed.
    coming = np.maximum.accumulate(np.abs(matrix[:, ::-1]), axis=1)[:, ::-1]
    coming = np.concatenate([coming, np.zeros((len(matrix), 1), dtype=np.int64)], axis=1)
    sums = np.zeros((1, len(matrix)), dtype=np.int64)
    ways = np.zeros((1, largest + 1), dtype=np.int64)
    ways[0, 0] = 1
    for cell in range(matrix.shape[1]):
        moved = _add_cell(sums, ways, matrix[:, cell], coming[:, cell + 1], largest)
        if moved is None:
            return None
        sums, ways = moved
    return np.array(ways[0])


def _order(matrix: Ints) -> list[int]:
    """Cells so that few rows are open at a time."""
    left = np.count_nonzero(matrix, axis=1)
    begun = np.zeros(len(matrix), dtype=np.bool_)
    order: list[int] = []
    todo = list(range(matrix.shape[1]))
    while todo:
        inside = matrix[:, todo] != 0
        opened = (inside & ~begun[:, None]).sum(axis=0)
        ended = (inside & (left == 1)[:, None]).sum(axis=0)
        # Among equals, rows that are near their end come first.
        near = np.where(inside, left[:, None], 10**6).min(axis=0)
        cell = todo.pop(int(np.lexsort((near, opened - ended))[0]))
        begun |= matrix[:, cell] != 0
        left -= matrix[:, cell] != 0
        order.append(cell)
    return order


def _add_cell(sums: Ints, ways: Ints, column: Ints, coming: Ints, largest: int) -> tuple[Ints, Ints] | None:
    """States after one more cell; `coming` is the largest entry to come in each row."""
    least = np.argmax(ways > 0, axis=1)
    open_rows = coming > 0
    found: list[tuple[int, Ints, Ints]] = []
    total = 0
    for step in range(-largest, largest + 1):
        moved = sums + step * column
        need = np.zeros(len(moved), dtype=np.int64)
        if open_rows.any():
            need = (-(-np.abs(moved[:, open_rows]) // coming[open_rows])).max(axis=1)
        kept = np.flatnonzero(~moved[:, ~open_rows].any(axis=1) & (least + abs(step) + need <= largest))
        if kept.size:
            found.append((step, kept, moved[kept]))
            total += kept.size
            if total > 16 * _NUMBERS // (largest + 1):
                return None
    # One number for each state: the open rows in a mixed radix.
    stacked = np.concatenate([moved for _, _, moved in found])
    low, span = stacked.min(axis=0), np.ptp(stacked, axis=0) + 1
    if math.prod(span.tolist()) >= 2**62:
        return None
    radix = np.concatenate([[1], np.cumprod(span[:-1])])
    codes, first, place = np.unique((stacked - low) @ radix, return_index=True, return_inverse=True)
    if codes.size * (largest + 1) > _NUMBERS:
        return None
    after = np.zeros((codes.size, largest + 1), dtype=np.int64)
    start = 0
    for step, kept, moved in found:
        # A step takes different states to different states, so that no place occurs twice.
        after[place[start : start + len(moved)], abs(step) :] += ways[kept, : largest + 1 - abs(step)]
        start += len(moved)
    return stacked[first], after
