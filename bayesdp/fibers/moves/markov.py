"""Markov bases of small lattices by projecting and lifting: moves that are proved to connect, where no closed form is known.

Some coordinates are left out at first, which means that they may be negative: the fewer must not be negative, the easier tables are
connected. Then one is taken in after the other.

- Where a vector of the lattice raises the new coordinate and lowers none that was taken in, it is added: walks go up along it
  first, make their way as before, and come down.
- Else the vectors are completed so that every table walks to the one that has most of the new coordinate, and
  which has at least as much of it at every step: two tables meet there without a negative count on the way.

Limits are coordinates too: that a cell is at most u is that ``u - x`` is not negative, and likewise for sums of cells. Cells that are
in the same sums, as often, are one.

Completion is Buchberger's algorithm for integer vectors, so that every walk can be made to go downhill. A vector v stands for
the step that takes its positive part away from a table and gives its negative part. An order of tables tells which of v and -v
goes down. Two vectors u and v that both go down from one table leave for two tables, ``u - v`` apart; if every such difference
can be walked down to zero by other vectors, each table has one lowest table that it walks down to, and all that are connected
have the same one. Missing differences are added until none is missing.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np
import numpy.typing as npt
import scipy
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._numba import nb
from bayesdp.fibers.moves.basis import distinct_up_to_sign, integer_kernel

MOST_COORDINATES = 62
"""Supports of vectors are kept as bits of one word."""

_OVERFLOWING = 1 << 40
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
def _walk_down(v: Ints, store: Ints, words: Ints, alive: Mask, count: int, cost: int, inside: Mask, left: Ints) -> bool:
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
                        if abs(v[k]) > _OVERFLOWING:
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
    """Vectors by which every table walks down to the lowest that it is connected with, along which it never leaves `inside`."""
    # `start`, shape (n, coordinates): vectors that connect the tables whose coordinates `inside` are not negative, none of which
    # vanishes there. `cost`: the coordinate of which a lower table has more; it must be bounded above among connected tables. `left`,
    # shape (1,): the work that may be done, in comparisons of vectors; what is left of it is written back, and is negative if it was
    # too little (then nothing is shown). Buchberger (1965), for lattices Hemmecke and Malkin (2009). Two vectors are not looked at if
    # they take from different coordinates, or if one of them was replaced by a vector that needs less (Buchberger's two criteria).
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


_MOST_VECTORS = 20_000
"""Most vectors at any time."""

_WORK = 5_000_000_000
"""Most comparisons of vectors, of a nanosecond or two each."""

_MOST_DENOMINATOR = 10_000

_LARGEST = 1 << 30

_LOOKED_AT = 200
"""Most tables that are looked at to see whether a vector can be done without."""


def markov_basis(matrix: Ints, limited: Ints | None = None) -> Ints | None:
    """Moves that connect all nonnegative tables x with the same ``A x``, whatever limits some of their sums have.

    `limited` are sums of cells, or single cells, that may have lower and upper limits; where they are all cells (the identity
    matrix), the moves are the Graver basis of A. Distinct up to sign: any two tables with the same answers are joined by steps of +1
    or -1 times these moves, all of whose tables are nonnegative and within any limits that the two are within. None if finding them
    takes too long; that is measured in operations, so that the answer is the same on every machine.

    Hemmecke and Malkin (2009), "Computing generating sets of lattice ideals and Markov bases of lattices", Journal of Symbolic
    Computation 44(10). That tables within limits are the nonnegative points of a longer lattice, whose Markov basis is the Graver
    basis where every cell is limited: Sturmfels (1996), "Groebner bases and convex polytopes", chapter 7.
    """
    cells = matrix.shape[1]
    sums = np.zeros((0, cells), dtype=np.int64) if limited is None else limited
    single = {row.tobytes() for row in np.eye(cells, dtype=np.int64)}
    # A sum with limits is a coordinate twice, up to the one and down to the other. Cells that are coordinates anyway are so once.
    both = np.unique(np.concatenate([sums, -sums]), axis=0)
    extra = [row for row in both if row.any() and row.tobytes() not in single]
    if cells + len(extra) > MOST_COORDINATES:
        return None
    limits = np.array(extra, dtype=np.int64).reshape(-1, cells)
    found = _found(cells, np.ascontiguousarray(matrix, dtype=np.int64).tobytes(), limits.tobytes())
    return None if found is None else found.copy()


@lru_cache(maxsize=64)
def _found(cells: int, matrix: bytes, extra: bytes) -> Ints | None:
    """The same by the bytes of the rows, those of the limits as coordinates: chains and releases ask for it again and again."""
    rows, limits = (np.frombuffer(stored, dtype=np.int64).reshape(-1, cells) for stored in (matrix, extra))
    basis = integer_kernel(rows) if len(rows) else np.eye(cells, dtype=np.int64)
    longer = np.concatenate([basis, basis @ limits.T], axis=1)
    found = longer if not len(longer) else _project_and_lift(longer)
    return None if found is None else distinct_up_to_sign(_needed(found)[:, :cells])


def _project_and_lift(basis: Ints) -> Ints | None:
    """Vectors that connect all nonnegative points which differ by a vector of the lattice with this basis."""
    coordinates = basis.shape[1]
    inside = np.zeros(coordinates, dtype=np.bool_)
    vectors = basis
    later = []
    for i in range(coordinates):
        if not basis[:, i].any():
            inside[i] = True  # no step changes it
            continue
        up = _raising(basis, inside, i)
        if up is not None:
            vectors = np.concatenate([vectors, up[None]])
            inside[i] = True
        elif _has_most(basis, inside, i):  # and will have with more coordinates inside
            later.append(i)
        else:
            return None
    # All others are limited by those inside, so that no vector vanishes inside.
    left = np.array([_WORK], dtype=np.int64)
    for i in later:
        vectors = completed(vectors, i, inside, _MOST_VECTORS, left)
        if left[0] < 0:
            return None
        inside[i] = True
    return vectors


def _raising(basis: Ints, inside: Mask, i: int) -> Ints | None:
    """A vector of the lattice that is positive at i and nowhere negative inside; None if none was found."""
    kept = basis[:, inside]
    solved = scipy.optimize.linprog(
        kept.sum(axis=1) + basis[:, i],
        A_ub=-np.concatenate([kept, basis[:, i : i + 1]], axis=1).T,
        b_ub=np.append(np.zeros(kept.shape[1]), -1.0),
        bounds=(None, None),
        method="highs-ds",
    )
    if solved.x is None:
        return None
    vector = np.asarray(_whole(solved.x)[0] @ basis.astype(object))
    if vector[i] <= 0 or np.any(vector[inside] < 0) or np.any(np.abs(vector) > _LARGEST):
        return None
    return vector.astype(np.int64)


def _has_most(basis: Ints, inside: Mask, i: int) -> bool:
    """Whether it is shown that i is largest where some weighted sum inside, with nonnegative weights, is smallest."""
    kept = basis[:, inside]
    if not kept.shape[1]:
        return False  # an empty sum limits nothing, and SciPy takes no program without variables
    solved = scipy.optimize.linprog(np.ones(kept.shape[1]), A_eq=kept, b_eq=-basis[:, i], method="highs-ds")
    if solved.x is None:
        return False
    weights, unit = _whole(solved.x)
    return bool(np.all(weights >= 0) and not np.any(kept.astype(object) @ weights + unit * basis[:, i].astype(object)))


def _whole(numbers: Floats) -> tuple[npt.NDArray[np.object_], int]:
    """Fractions near some numbers, as whole multiples of a unit fraction, and its denominator."""
    fractions = [Fraction(number).limit_denominator(_MOST_DENOMINATOR) for number in numbers.tolist()]
    unit = lcm(*(fraction.denominator for fraction in fractions))
    return np.array([int(fraction * unit) for fraction in fractions], dtype=object), unit


def _needed(vectors: Ints) -> Ints:
    """The vectors without those whose two sides are joined by others, as far as a short search shows; short ones first."""
    order = np.lexsort((*np.abs(vectors).T, np.abs(vectors).sum(axis=1)))
    kept = np.zeros((0, vectors.shape[1]), dtype=np.int64)
    for vector in vectors[order]:
        if not _joined(np.maximum(vector, 0), np.maximum(-vector, 0), kept):
            kept = np.concatenate([kept, [vector, -vector]])
    return kept[::2]


def _joined(start: Ints, end: Ints, steps: Ints) -> bool:
    """Whether steps lead from one point to another without a negative coordinate, by a search of `_LOOKED_AT` points."""
    seen, waiting, goal = {start.tobytes()}, [start], end.tobytes()
    for point in waiting:  # grows while it is read
        near = point + steps
        for other in near[np.all(near >= 0, axis=1)]:
            key = other.tobytes()
            if key == goal:
                return True
            if key not in seen:
                seen.add(key)
                waiting.append(other)
        if len(waiting) > _LOOKED_AT:
            return False
    return False


COMPUTED_CELLS = 1_000
"""Most cells for which a basis is looked for; far fewer must be left once equal ones are one."""


def computed_moves(
    matrix: sp.csr_array, allowed: Mask, limited_cells: Mask, limited: sp.csr_array
) -> tuple[sp.csr_array, Ints] | None:
    """Directions that connect all tables with the same exact answers, within any limits of cells and sums; and classes of cells."""
    # Two cells of a class, one number for each cell of `allowed`, may be exchanged besides: counts of cells in the same sums are
    # brought together in one of them, and moves of the sums are moves of that cell. None where the computation is too large.
    free = np.flatnonzero(allowed)
    if not 0 < free.size <= COMPUTED_CELLS:
        return None
    rows, sums = (part[:, free].toarray().astype(np.int64) for part in (matrix, limited))
    single = np.eye(free.size, dtype=np.int64)[limited_cells[free]]
    columns, classes = np.unique(np.concatenate([rows, single, sums]), axis=1, return_inverse=True)
    found = markov_basis(columns[: len(rows)], columns[len(rows) :])
    if found is None:
        return None
    wide = np.zeros((0, len(allowed)), dtype=np.int64)
    members = [free[classes == k] for k in range(columns.shape[1])]
    listed = [wide, *(_written_out(move, members, len(allowed)) for move in found)]
    return sp.csr_array(distinct_up_to_sign(np.concatenate(listed))), classes


def largest_primitive_norm(matrix: sp.csr_array, allowed: Mask, limited: sp.csr_array) -> int | None:
    """The largest l1 norm in the Graver basis of some exact answers; None where its computation is too large."""
    # Between two tables of a fiber there is a sum of vectors of that basis, none of which has an entry of the other sign than another:
    # each of them alone leads from either table to one of the fiber, within all limits that the two are within. Equal cells are one
    # here: with them, the basis has the same vectors, written out in ways of the same norm, and exchanges of norm 2.
    free = np.flatnonzero(allowed)
    if not 0 < free.size <= COMPUTED_CELLS:
        return None
    stacked = np.concatenate([part[:, free].toarray().astype(np.int64) for part in (matrix, limited)])
    columns = np.unique(stacked, axis=1) if len(stacked) else stacked[:, :1]
    rows, kinds = int(matrix.shape[0]), int(columns.shape[1])
    found = markov_basis(columns[:rows], np.concatenate([np.eye(kinds, dtype=np.int64), columns[rows:]]))
    if found is None:
        return None
    exchange = 2 if kinds < free.size else 0
    return max(exchange, int(np.abs(found).sum(axis=1).max(initial=0)))


def _written_out(move: Ints, members: list[Ints], cells: int) -> Ints:
    """A move of classes as moves of their cells: the first by their first cells, and so many that each cell has a turn."""
    moving = np.flatnonzero(move)
    wide = np.zeros((max(members[k].size for k in moving), cells), dtype=np.int64)
    turns = np.arange(len(wide))
    for k in moving:
        wide[turns, members[k][turns % members[k].size]] = move[k]
    return wide
