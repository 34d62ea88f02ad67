"""How many 4 x c tables with zero margins have each size: two rows at a time.

The first two rows and the last two have opposite column sums S, and are counted alike: with ``q_S(x)`` the sum of
``x**(||a||_1 + ||S - a||_1)`` over the rows a with sum zero, tables have the generating function ``sum_S q_S(x)**2``. It
depends on S up to its order only, and two rows with column sums S have at least the size ``||S||_1``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

type Ints = npt.NDArray[np.int64]


def four_row_shells(columns: int, largest: int) -> Ints | None:
    """Count the 4 x `columns` tables with zero margins by their size ``||z||_1``, up to `largest`.

    Returns
    -------
    int64 array, shape (largest + 1,), or None
        None if there may be more than 64 bits can count.

    Examples
    --------
    >>> four_row_shells(3, 8).tolist()  # moves of 4, 6 and 8 cells
    [1, 0, 0, 0, 36, 0, 48, 0, 378]
    """
    # Free cells say everything, and are no larger than the table.
    free = 3 * (columns - 1)
    if sum(2**k * math.comb(free, k) * math.comb(largest, k) for k in range(free + 1)) >= 2**62:
        return None
    counts = np.zeros(largest + 1, dtype=np.int64)
    for sums in _zero_sums(columns, largest // 4):
        room = largest - 2 * int(np.abs(sums).sum())  # beyond the least size of the four rows
        two = _two_rows(np.array(sums, dtype=np.int64), room)
        orders = math.factorial(columns) // math.prod(math.factorial(n) for n in Counter(sums).values())
        counts[largest - room :] += orders * np.convolve(two, two)[: room + 1]
    return counts


def _zero_sums(length: int, half: int) -> Iterator[tuple[int, ...]]:
    """Ascending vectors with sum zero whose positive entries add up to at most `half`."""

    def continued(start: tuple[int, ...], negative: int) -> Iterator[tuple[int, ...]]:
        left, total = length - len(start), sum(start)
        if left == 0:
            if total == 0:
                yield start
            return
        least = start[-1] if start else -half
        for entry in range(least, half + 1):
            if total + entry * left > 0:  # later entries are no smaller
                return
            down = negative - min(entry, 0)
            if down <= half:
                yield from continued((*start, entry), down)

    return continued((), 0)


@nb.njit(cache=True, nogil=True, error_model="numpy")
def _two_rows(sums: Ints, room: int) -> Ints:
    """Pairs of rows with these column sums, the first of which sums to zero, by size beyond the least one."""
    # An entry beyond 0..s costs 2 for each unit; sums of the first row that have gone further cannot come back.
    reach = room + np.abs(sums).sum()
    ways = np.zeros((2 * reach + 1, room + 1), dtype=np.int64)
    ways[reach, 0] = 1
    for s in sums:
        low, high = min(s, 0), max(s, 0)
        after = np.zeros_like(ways)
        for entry in range(low - room // 2, high + room // 2 + 1):
            cost = 2 * max(low - entry, entry - high, 0)
            for place in range(max(0, -entry), min(len(ways), len(ways) - entry)):
                for size in range(room + 1 - cost):
                    after[place + entry, size + cost] += ways[place, size]
        ways = after
    return np.asarray(ways[reach])
