"""How long the smallest differences that change no invariant are, in a norm that is not the same for all of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.spatial.distance import pdist

from bayesdp.invariants import Invariants
from bayesdp.mechanisms._differences import kept_differences
from bayesdp.privacy import DIFFERENCES, Difference

__all__ = ["kept_lengths"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_CELLS = 400
"""Larger tables: pairs of cells would be too many to compare."""

_COMPARED = 10_000_000
"""Largest number of comparisons of pairs of cells."""


def kept_lengths(invariants: Invariants, images: Floats) -> list[tuple[Difference, float]]:
    """The largest length of each kind of difference, over all differences of the kind; kinds not known are left out.

    Known are one record that comes or goes, one that changes its cell, and moves on four cells; in tables of at most 400
    cells. All of them are compared.

    Parameters
    ----------
    invariants : Invariants
        Of the table.
    images : numpy.ndarray, shape (cells, n)
        What a record in each cell adds; the length is the l2 norm there.

    Returns
    -------
    list of (Difference, float)

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> total = Invariants(Totals({"county": ["A", "B", "C"]}))
    >>> [(kind.l1, size) for kind, size in kept_lengths(total, np.array([[1.0], [2.0], [5.0]]))]
    [(2.0, 4.0)]
    """
    if invariants.frame.size > _CELLS:
        return []
    columns = np.asarray(invariants.matrix.toarray().T)
    found = []
    for difference in kept_differences(invariants):
        size: float | None = None
        if difference == DIFFERENCES["substitution"]:
            size = _longest_difference(columns, images)
        elif difference == DIFFERENCES["2x2 move"]:
            size = _longest_move(columns, images)
        elif difference.l1 == 1.0:
            size = float(np.linalg.norm(images[~columns.any(axis=1)], axis=1).max())
        if size is not None:
            found.append((difference, size))
    return found


def _groups(columns: Ints) -> list[Ints]:
    """Positions of equal rows, group by group; of at least two."""
    if not columns.shape[1]:
        return [np.arange(len(columns))]
    _, group = np.unique(columns, axis=0, return_inverse=True)
    order = np.argsort(group, kind="stable")
    cuts = np.flatnonzero(np.diff(group[order])) + 1
    return [own for own in np.split(order, cuts) if own.size > 1]


def _longest_difference(columns: Ints, images: Floats) -> float:
    return max(float(pdist(images[own]).max()) for own in _groups(columns))


def _longest_move(columns: Ints, images: Floats) -> float | None:
    """Two pairs of cells with the same sum of columns: +1 on the one and -1 on the other keeps the invariants."""
    first, second = np.triu_indices(len(columns), 1)
    groups = _groups(columns[first] + columns[second])
    if sum(own.size**2 for own in groups) > _COMPARED:
        return None
    longest = 0.0
    for own in groups:
        a, b = first[own], second[own]
        length = pdist(images[a] + images[b])
        i, j = np.triu_indices(own.size, 1)
        apart = (a[i] != a[j]) & (a[i] != b[j]) & (b[i] != a[j]) & (b[i] != b[j])
        longest = max(longest, float(length[apart].max(initial=0.0)))
    return longest
