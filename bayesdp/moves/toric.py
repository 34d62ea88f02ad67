"""Markov bases of small lattices by projecting and lifting: moves that are proved to connect, where no closed form is known.

Some coordinates are left out at first, which means that they may be negative: the fewer must not be negative, the easier tables are
connected. Then one is taken in after the other.

- Where a vector of the lattice raises the new coordinate and lowers none that was taken in, it is added: walks go up along it
  first, make their way as before, and come down.
- Else the vectors are completed (`completion`) so that every table walks to the one that has most of the new coordinate, and
  which has at least as much of it at every step: two tables meet there without a negative count on the way.

Limits are coordinates too: that a cell is at most u is that ``u - x`` is not negative, and likewise for sums of cells.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import lcm

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from bayesdp.moves.basis import integer_kernel
from bayesdp.moves.completion import MOST_COORDINATES, completed
from bayesdp.moves.listed import distinct_up_to_sign

type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

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

    Parameters
    ----------
    matrix : int64 array, shape (rows, cells)
        ``A``.
    limited : int64 array, shape (limits, cells), optional
        Sums of cells, or single cells, that may have lower and upper limits. Where they are all cells (the identity matrix), the
        moves are the Graver basis of A.

    Returns
    -------
    int64 array, shape (moves, cells), or None
        Distinct up to sign. Any two tables with the same answers are joined by steps of +1 or -1 times these moves, all of
        whose tables are nonnegative and within any limits that the two are within. None if finding them takes too long; that is
        measured in operations, so that the answer is the same on every machine.

    Notes
    -----
    Hemmecke and Malkin (2009), "Computing generating sets of lattice ideals and Markov bases of lattices", Journal of Symbolic
    Computation 44(10), 1463-1476. That tables within limits are the nonnegative points of a longer lattice, whose Markov basis is
    the Graver basis where every cell is limited: Sturmfels (1996), "Groebner bases and convex polytopes", chapter 7. Integers
    only, but for linear programs, whose answers are checked in whole numbers.

    Moves that others can stand in for are left out, as far as a short search shows.

    Examples
    --------
    >>> markov_basis(np.array([[1, 2, 3]]))
    array([[ 1,  1, -1],
           [ 2, -1,  0]])
    >>> markov_basis(np.array([[1, 2, 3]]), np.eye(3, dtype=np.int64))
    array([[ 0,  3, -2],
           [ 1, -2,  1],
           [ 1,  1, -1],
           [ 2, -1,  0],
           [ 3,  0, -1]])
    """
    cells = matrix.shape[1]
    sums = np.zeros((0, cells), dtype=np.int64) if limited is None else limited
    own = {row.tobytes() for row in np.eye(cells, dtype=np.int64)}
    # A sum with limits is a coordinate twice, up to the one and down to the other. Cells that are coordinates anyway are so once.
    extra = [row for row in np.unique(np.concatenate([sums, -sums]), axis=0) if row.any() and row.tobytes() not in own]
    if cells + len(extra) > MOST_COORDINATES:
        return None
    limits = np.array(extra, dtype=np.int64).reshape(-1, cells)
    found = _found(cells, np.ascontiguousarray(matrix, dtype=np.int64).tobytes(), limits.tobytes())
    return None if found is None else found.copy()


@lru_cache(maxsize=64)
def _found(cells: int, matrix: bytes, extra: bytes) -> Ints | None:
    """The same by the bytes of the rows, those of the limits as coordinates: chains and releases ask for it again and again."""
    rows, limits = (np.frombuffer(own, dtype=np.int64).reshape(-1, cells) for own in (matrix, extra))
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
    solved = linprog(
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
    solved = linprog(np.ones(kept.shape[1]), A_eq=kept, b_eq=-basis[:, i], bounds=(0, None), method="highs-ds")
    if solved.x is None:
        return False
    weights, unit = _whole(solved.x)
    return bool(np.all(weights >= 0) and not np.any(kept.astype(object) @ weights + unit * basis[:, i].astype(object)))


def _whole(numbers: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.object_], int]:
    """Fractions near some numbers, as whole multiples of a unit fraction, and its denominator."""
    fractions = [Fraction(number).limit_denominator(_MOST_DENOMINATOR) for number in numbers.tolist()]
    unit = lcm(*(own.denominator for own in fractions))
    return np.array([int(own * unit) for own in fractions], dtype=object), unit


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
