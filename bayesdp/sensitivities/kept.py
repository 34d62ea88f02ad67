"""Which differences between two tables keep all the invariants: the rows of a guarantee."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._nested import NestedSums
from bayesdp.invariants import Invariants
from bayesdp.moves.basis import integer_kernel
from bayesdp.moves.families import family_sizes
from bayesdp.moves.listed import short_combinations
from bayesdp.sensitivities.differences import DIFFERENCES, Difference

ADDED = Difference("one record added to or removed from a cell that no invariant counts", 1.0, 1.0)
"""The difference of general invariants that leave cells out."""

type Ints = npt.NDArray[np.int64]

_GENERAL_CELLS = 400
"""General invariants of larger tables: the search for short differences would take too long."""


def kept_differences(invariants: Invariants) -> tuple[Difference, ...]:
    """The smallest kinds of difference that change no invariant.

    Tables that differ by more are further apart, and protected less. Margins and totals: one record
    substituted, 2x2 moves and 3-cycles, 2x2x2 moves and so on, whichever the invariants let happen. General
    invariants: a record substituted between cells that all invariants treat alike, or the smallest change
    that a reduced basis shows.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> [d.l1 for d in kept_differences(Invariants(Margins(table, ["county"], ["education"])))]
    [4.0]
    """
    if invariants.nested is not None:
        return _of_sums(invariants.nested)
    alike = np.bincount(
        column_groups(invariants.matrix), minlength=1
    )  # cells with one column; first those that nothing counts
    found = [ADDED] if alike[0] else []
    if np.any(alike > 1):
        found.append(DIFFERENCES["substitution"])
    return tuple(found) if found else _shortest(invariants)


def _of_sums(nested: NestedSums) -> tuple[Difference, ...]:
    """The kinds of product moves that nested sums let happen, with 3-cycles beside 2x2 moves of three labels."""
    found: list[Difference] = []
    for sizes in family_sizes(nested):
        blocks = len(sizes)
        if blocks == 1:
            found.append(DIFFERENCES["substitution"])
        elif blocks == 2:
            found.append(DIFFERENCES["2x2 move"])
            if min(sizes) >= 3:
                found.append(DIFFERENCES["3-cycle"])
        else:
            size, name = 2.0**blocks, "x".join("2" * blocks)
            found.append(
                Difference(
                    f"{2 ** (blocks - 1)} records exchange categories within a {name} subtable, all its "
                    f"margins of fewer dimensions kept ({name} move)",
                    size,
                    math.sqrt(size),
                )
            )
    return tuple(sorted(dict.fromkeys(found), key=lambda difference: difference.l1))


def _shortest(invariants: Invariants) -> tuple[Difference, ...]:
    """The smallest change that the search has found, as a kind of its own; nothing where none was found."""
    vectors = found_changes(invariants)
    if not len(vectors):
        return ()
    shortest = vectors[np.argmin(np.abs(vectors).sum(axis=1))].astype(np.float64)
    return (
        Difference(
            "the smallest change found that keeps every invariant (there may be smaller ones)",
            float(np.abs(shortest).sum()),
            float(np.linalg.norm(shortest)),
            found=True,
        ),
    )


@lru_cache(maxsize=8)
def found_changes(invariants: Invariants) -> npt.NDArray[np.int64]:
    """Short changes of a table that keep general invariants, shape (changes, cells); none where it is too large to search."""
    if invariants.frame.size > _GENERAL_CELLS:
        return np.zeros((0, invariants.frame.size), dtype=np.int64)
    return short_combinations(integer_kernel(invariants.matrix.toarray()))


def column_groups(matrix: sp.csr_array) -> Ints:
    """For each cell a number that it shares with the cells that have the same column; 0 for a column of zeros."""
    columns = sp.csc_array(matrix)
    columns.sort_indices()
    group = np.zeros(columns.shape[1], dtype=np.int64)
    ends, seen = columns.indptr, {(b"", b""): 0}
    for cell in np.flatnonzero(np.diff(ends)).tolist():  # most cells may be in no invariant
        own = slice(ends[cell], ends[cell + 1])
        group[cell] = seen.setdefault((columns.indices[own].tobytes(), columns.data[own].tobytes()), len(seen))
    return group
