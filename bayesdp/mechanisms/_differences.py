"""Which differences between two tables keep all the invariants: the rows of a guarantee."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from bayesdp._nested import NestedSums
from bayesdp.invariants import Invariants
from bayesdp.lattices.basis import integer_kernel
from bayesdp.lattices.families import product_families
from bayesdp.lattices.listed import short_combinations
from bayesdp.privacy import DIFFERENCES, Difference

__all__ = ["kept_differences"]

_ADDED = Difference("one record added to or removed from a cell that no invariant counts", 1.0, 1.0)

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
    columns = sp.csc_array(invariants.matrix)
    columns.sort_indices()
    seen: set[tuple[bytes, bytes]] = set()
    found: list[Difference] = []
    for cell in range(columns.shape[1]):
        own = slice(columns.indptr[cell], columns.indptr[cell + 1])
        column = (columns.indices[own].tobytes(), columns.data[own].tobytes())
        if column in seen and DIFFERENCES["substitution"] not in found:
            found.append(DIFFERENCES["substitution"])
        if column == (b"", b"") and _ADDED not in found:
            found.append(_ADDED)
        seen.add(column)
    return tuple(found) if found else _shortest(invariants)


def _of_sums(nested: NestedSums) -> tuple[Difference, ...]:
    cells = math.prod(axis.size for axis in nested.axes)
    found: list[Difference] = []
    for factors in product_families(nested, np.ones(cells, dtype=np.bool_)):
        blocks = len(factors)
        if blocks == 1:
            found.append(DIFFERENCES["substitution"])
        elif blocks == 2:
            found.append(DIFFERENCES["2x2 move"])
            if all(any(len(own) >= 3 for own in classes) for classes in factors):
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
    if invariants.frame.size > _GENERAL_CELLS:
        return ()
    vectors = short_combinations(integer_kernel(invariants.matrix.toarray()))
    if not len(vectors):
        return ()
    shortest = vectors[np.argmin(np.abs(vectors).sum(axis=1))].astype(np.float64)
    return (
        Difference(
            "the smallest change found that keeps every invariant (there may be smaller ones)",
            float(np.abs(shortest).sum()),
            float(np.linalg.norm(shortest)),
        ),
    )
