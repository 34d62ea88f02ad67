"""Differences between two tables: the named kinds that share their invariants, their sizes, and the norms these are measured in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bayesdp._validate import choice

NORMS = ("l1", "l2")
"""Norms in which the difference of two tables is measured."""

NEIGHBOURS: Mapping[str, str] = {
    "substitution": "one record changes its cell (substitution)",
    "add-remove": "one record is added or removed (add-remove)",
}
"""How neighbouring tables differ, in words."""


@dataclass(frozen=True)
class Difference:
    """A kind of difference between two tables that share their invariants.

    Attributes
    ----------
    relation : str
        What sets the two tables apart, in words.
    l1, l2 : float
        The size of the difference in counts.
    found : bool
        Whether it is the smallest that a search has found for some invariants: for others another one may be the smallest, so that
        it is no kind that two releases have in common.
    """

    relation: str
    l1: float
    l2: float
    found: bool = False

    def size(self, norm: str) -> float:
        """Give the size in ``"l1"`` or ``"l2"``."""
        return self.l1 if choice(norm, NORMS, "norm") == "l1" else self.l2


DIFFERENCES: Mapping[str, Difference] = {
    "substitution": Difference(
        "one record moved between two cells that keep every invariant (substitution)", 2.0, math.sqrt(2.0)
    ),
    "2x2 move": Difference(
        "two records exchange a category within a 2x2 subtable, all its margins kept (2x2 move)", 4.0, 2.0
    ),
    "3-cycle": Difference(
        "three records exchange categories within a 3x3 subtable, all its margins kept (3-cycle)",
        6.0,
        math.sqrt(6.0),
    ),
}
"""The named differences: one record substituted; +1 and -1 on a 2x2 subtable, on a cycle of a 3x3 one."""


@dataclass(frozen=True)
class DifferenceLength:
    """One kind of difference that keeps the invariants, and how long it gets."""

    difference: Difference
    size: float  # the largest length of all differences of the kind, or an upper bound of it
    bound: (
        str  # "" if all differences of the kind are equally long, "largest" if this is the largest of them, or "upper"
    )
