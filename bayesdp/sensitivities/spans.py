"""Lists of integer differences: their span, and how large they can be where no list is needed."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat

from bayesdp.fibers.feasible import is_two_way
from bayesdp.invariants import Invariants

type Ints = npt.NDArray[np.int64]
type Floats = npt.NDArray[np.float64]


def closed_sensitivities(invariants: Invariants, a: int) -> tuple[float, float, float] | None:
    """The largest l1, l2 and l-infinity norm of a difference of tables that `a` substitutions lead from one to the other.

    Known for no invariants, disjoint totals of all cells, and both margins of a two-way table up to a = 3; else None.
    """
    blocks, shape = invariants.blocks, invariants.frame.shape
    if not invariants.rank or (blocks is not None and np.all(blocks >= 0)):
        sizes = [invariants.frame.size] if not invariants.rank else np.bincount(np.asarray(blocks))
        # All a records move from one cell of a total to another: no difference has a longer positive or negative part.
        return (2.0 * a, a * math.sqrt(2.0), float(a)) if max(sizes) > 1 else (0.0, 0.0, 0.0)
    if a <= 3 and is_two_way(invariants) and min(shape) > 1:
        # A row or column that changes at all has an even l1 norm of at least 2. Norm 4 is a 2x2 move. Norm 6 needs three
        # rows of norm 2 (two rows would be opposite, of odd norm 3), likewise three columns: a 3-cycle.
        length = 0.0 if a == 1 else 6.0 if a == 3 and min(shape) > 2 else 4.0
        return length, math.sqrt(length), min(length, 1.0)
    return None


def exact_rank(vectors: Ints) -> int:
    """Rank of integer vectors (rows). ``D^T D`` has the rank of D, and its small whole entries are exact in float64."""
    u = vectors.astype(np.float64)
    return int(fmpz_mat((u.T @ u).astype(np.int64).tolist()).rank())


def basis_of(vectors: Ints, rank: int) -> Floats:
    """An orthonormal basis of the span, as rows."""
    u = vectors.astype(np.float64)
    _, directions = np.linalg.eigh(u.T @ u)
    return np.asarray(directions[:, ::-1][:, :rank].T)


def determine_the_same(one: Invariants, other: Invariants) -> bool:
    """Whether two sets of invariants have the same row space."""
    if one == other:
        return True
    both = Invariants([one.query, other.query], one.frame).rank
    return one.rank == other.rank == both
