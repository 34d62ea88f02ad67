"""The parts of a lattice by what is known of sums over them: closed forms, and series from counted vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import General, Line, Table, lattice_parts
from bayesdp.lattices.sums.l1_series import L1Series, l1_series
from bayesdp.lattices.sums.theta_series import ThetaSeries, theta_series


@dataclass(frozen=True)
class Multiples:
    """The integer multiples of a vector of this `length`, in the norm in question."""

    length: float


@dataclass(frozen=True)
class ZeroSum:
    """`count` integers that sum to zero, each written into `copies` cells."""

    count: int
    copies: int


@dataclass(frozen=True)
class Counted[Series]:
    """A lattice whose vectors have been counted by size, written `copies` times."""

    series: Series
    copies: int


type Sum[Series] = Multiples | ZeroSum | Counted[Series]


@lru_cache(maxsize=64)
def l1_sums(invariants: Invariants) -> Counter[Sum[L1Series]] | None:
    """How many parts there are of each kind, for sums of ``exp(-rate ||z||_1)``; None if one is not known.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> blocks = {"cell": range(6), "block": ("cell", ["a", "a", "b", "b", "b", "b"])}
    >>> l1_sums(Invariants(Totals(blocks, by="block")))
    Counter({Multiples(length=2.0): 1, ZeroSum(count=4, copies=1): 1})
    """
    return _sums(invariants, 1, l1_series)


@lru_cache(maxsize=64)
def l2_sums(invariants: Invariants) -> Counter[Sum[ThetaSeries]] | None:
    """How many parts there are of each kind, for Gaussian sums; None if one is not known."""
    return _sums(invariants, 2, theta_series)


def _sums[Series](
    invariants: Invariants, order: int, series_of: Callable[[Table | General], Series | None]
) -> Counter[Sum[Series]] | None:
    """Count the parts by kind: lengths in the l1 or l2 norm (`order`), and series of the parts without a closed form."""
    found: Counter[Sum[Series]] = Counter()
    for part in lattice_parts(invariants):
        if isinstance(part, Line):
            found[Multiples(float(np.linalg.norm(part.entries.astype(np.float64), ord=order)))] += 1
        elif isinstance(part, Table) and len(part.shape) == 1:
            found[ZeroSum(part.shape[0], part.copies)] += 1
        else:
            series = series_of(part)
            if series is None:
                return None
            found[Counted(series, part.copies if isinstance(part, Table) else 1)] += 1
    return found
