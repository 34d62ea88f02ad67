"""Lattices that fall into independent parts with a closed form.

Of the parts that `bayesdp.lattices.parts` tells apart, two have closed forms for sums over them. They cover
disjoint totals, free cells, 2 x 2 and 2 x c tables and many small cases:

line
    the multiples of one integer vector u: a free cell, a pair of cells with a fixed sum, a 2 x 2 table.
zero sum
    m integers that sum to zero, each written into `copies` cells up to sign: a fixed total over m cells
    (one copy), a 2 x c table with both margins (m = c, two copies).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import Line, Table, lattice_parts
from bayesdp.noise.base import Ints

__all__ = ["Line", "ZeroSum", "parts"]


@dataclass(frozen=True, eq=False)
class ZeroSum:
    """`count` integers that sum to zero, each standing in `copies` of the flat `cells`, up to sign."""

    cells: Ints
    count: int
    copies: int


@lru_cache(maxsize=64)
def parts(invariants: Invariants) -> tuple[Line | ZeroSum, ...] | None:
    """Split the lattice of the invariants into parts; None where one of them has no closed form."""
    # Together the parts have the dimension of the lattice; cells in none of them carry no noise.
    found: list[Line | ZeroSum] = []
    for part in lattice_parts(invariants):
        if isinstance(part, Line):
            found.append(part)
        elif isinstance(part, Table) and len(part.shape) == 1:
            found.append(ZeroSum(np.sort(part.cells, axis=None), part.shape[0], part.copies))
        else:
            return None
    return tuple(found)
