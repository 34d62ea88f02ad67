"""Buchberger's algorithm for integer vectors: moves that connect, completed so that every walk can be made to go downhill.

A vector v stands for the step that takes its positive part away from a table and gives its negative part. An order of tables tells
which of v and -v goes down. Two vectors u and v that both go down from one table leave for two tables, ``u - v`` apart; if every
such difference can be walked down to zero by other vectors, each table has one lowest table that it walks down to, and all
that are connected have the same one. Missing differences are added until none is missing.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb

type Ints = npt.NDArray[np.int64]
type Words = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

MOST_COORDINATES = 62
"""Supports of vectors are kept as bits of one word."""

_LARGEST = 1 << 40
"""Entries beyond this are given up rather than let overflow."""


@nb.njit(cache=True, error_model="numpy")
def _orient(v: Ints, cost: int, inside: Mask) -> bool:
    """Turn a vector so that its step goes down; False if it is zero."""
    # Down is: more at `cost`; else fewer in all among the coordinates `inside`; else more at the last of these that changes.
    sign = -np.sign(v[cost])
    if sign == 0:
        total = 0
        for i in range(len(v)):
            if inside[i]:
                total += v[i]
        sign = np.sign(total)
    if sign == 0:
        for i in range(len(v) - 1, -1, -1):
            if inside[i] and v[i] != 0:
                sign = -np.sign(v[i])
                break
    if sign < 0:
        for i in range(len(v)):
            v[i] = -v[i]
    return bool(sign != 0)


@nb.njit(cache=True, error_model="numpy")
def _support(v: Ints, sign: int, inside: Mask) -> int:
    word = 0
    for i in range(len(v)):
        if inside[i] and sign * v[i] > 0:
            word |= 1 << i
    return word


@nb.njit(cache=True, error_model="numpy")
def _fits(g: Ints, v: Ints, sign: int, inside: Mask) -> bool:
    """Whether a table that has no more than one side of v has room for the step of g."""
    for i in range(len(v)):
        if inside[i] and g[i] > 0 and g[i] > sign * v[i]:
            return False
    return True


@nb.njit(cache=True, error_model="numpy")
def _walk_down(
    v: Ints, store: Ints, words: Words, alive: Mask, count: int, cost: int, inside: Mask, left: Ints
) -> bool:
    """Walk both ends of v down along the stored vectors as far as it goes; False if nothing of it is left."""
    # `left` is the work that may still be done; negative afterwards if it ran out.
    while _orient(v, cost, inside):
        moved = False
        for sign in (1, -1):
            word = _support(v, sign, inside)
            for i in range(count):
                if alive[i] and words[i] & ~word == 0 and _fits(store[i], v, sign, inside):
                    for k in range(len(v)):
                        v[k] -= sign * store[i, k]
                        if abs(v[k]) > _LARGEST:
                            left[0] = -1
                    moved = True
                    break
            left[0] -= count
            if moved or left[0] < 0:
                break
        if left[0] < 0:
            return False
        if not moved:
            return True
    return False


@nb.njit(cache=True, error_model="numpy")
def completed(start: Ints, cost: int, inside: Mask, most: int, left: Ints) -> Ints:
    """Vectors by which every table walks down to the lowest that it is connected with.

    Parameters
    ----------
    start : int64 array, shape (n, coordinates)
        Vectors that connect the tables whose coordinates `inside` are not negative. None of them vanishes on these coordinates.
    cost : int
        The coordinate of which a lower table has more. It must be bounded above among connected tables.
    inside : bool array, shape (coordinates,)
    most : int
        Most vectors in all.
    left : int64 array, shape (1,)
        The work that may be done, in comparisons of vectors; what is left of it is written back, and is negative if it was too
        little (then nothing is shown of what is returned).

    Returns
    -------
    int64 array, shape (m, coordinates)
        Each of them goes down; from every table of nonnegative coordinates `inside` a walk along them ends in the lowest one.

    Notes
    -----
    Buchberger (1965), for the vectors of a lattice: Hemmecke and Malkin (2009), "Computing generating sets of lattice ideals and
    Markov bases of lattices", Journal of Symbolic Computation 44(10). Two vectors are not looked at if they take from different
    coordinates, or if one of them was replaced by a vector that needs less (Buchberger's two criteria).
    """
    coordinates = start.shape[1]
    store = np.empty((most, coordinates), np.int64)
    words = np.zeros(most, np.int64)
    alive = np.zeros(most, np.bool_)
    waiting = np.empty((most, coordinates), np.int64)
    count, waits, first, second = 0, 0, 0, 0
    v = np.empty(coordinates, np.int64)
    fed = 0
    while left[0] >= 0:
        if waits > 0:  # vectors that a shorter one replaced
            waits -= 1
            v[:] = waiting[waits]
        elif fed < len(start):
            v[:] = start[fed]
            fed += 1
        else:
            while second < count and (first >= second or not alive[second]):
                first, second = 0, second + 1
            if second >= count:
                break
            first += 1
            left[0] -= 1
            if not alive[first - 1] or words[first - 1] & words[second] == 0:
                continue
            v[:] = store[first - 1] - store[second]
        if not _walk_down(v, store, words, alive, count, cost, inside, left):
            continue
        if count >= most:
            left[0] = -1
            break
        word = _support(v, 1, inside)
        for i in range(count):
            if alive[i] and word & ~words[i] == 0 and _fits(v, store[i], 1, inside):
                alive[i] = False
                waiting[waits] = store[i]
                waits += 1
        store[count], words[count], alive[count] = v, word, True
        count += 1
    return store[:count][alive[:count]]
