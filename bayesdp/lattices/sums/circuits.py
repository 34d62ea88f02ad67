"""Lengths of the circuits of an integer matrix: its kernel vectors with the fewest nonzero entries."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import numpy.typing as npt
from flint import fmpz_mat

from bayesdp.moves.basis import leading_signs

type Ints = npt.NDArray[np.int64]

_CHOICES = 20_000
"""More sets of columns than this are not searched: 0.05 ms each."""


def circuit_lengths(matrix: Ints) -> frozenset[int] | None:
    """Sizes ``||u||_1`` of all circuits u, the primitive integer vectors of the kernel with minimal support.

    Columns that are multiples of one another make circuits of two cells, and stand for each other in longer ones up
    to their factors: with equal columns up to sign, one of each is enough for those.

    Parameters
    ----------
    matrix : int64 array, shape (rows, cells)

    Returns
    -------
    frozenset of int, or None
        None if there are too many sets of columns to search.

    Examples
    --------
    >>> sorted(circuit_lengths(np.array([[1, 1, 0, 0], [0, 1, 1, 1]])))
    [2, 3]
    """
    lengths: set[int] = set()
    if np.any(~matrix.any(axis=0)):
        lengths.add(1)  # a cell that no row sees
    columns = matrix[:, matrix.any(axis=0)]
    distinct, count = np.unique(columns * leading_signs(columns.T), axis=1, return_counts=True)
    if np.any(count > 1):
        lengths.add(2)
    if distinct.shape[1] == 0:
        return frozenset(lengths)
    rank = fmpz_mat(distinct.astype(int).tolist()).rank()
    if math.comb(distinct.shape[1], rank + 1) > _CHOICES:
        return None
    # Every circuit lies in some rank + 1 columns of full rank, whose kernel is its line.
    for chosen in combinations(range(distinct.shape[1]), rank + 1):
        kernel, nullity = fmpz_mat(distinct[:, chosen].astype(int).tolist()).nullspace()
        if nullity == 1:
            vector = [abs(int(kernel[i, 0])) for i in range(rank + 1)]
            lengths.add(sum(vector) // math.gcd(*vector))
    return frozenset(lengths)
