"""Directions of movement: random integer vectors that change no invariant.

A direction is drawn without looking at the table, and the step along it is then drawn from its exact
conditional law. That leaves every law on the fiber invariant whatever the distribution of the directions, so
a family of moves is judged only by what it connects and how fast it mixes. (Those of `Moves.looking` are drawn by looking at the
table, and steps along them accepted or rejected.) The families:

product
    a product of differences: pair moves ``e_a - e_b`` of totals, 2x2 moves of two-way margins, and so on
    (`families`).
cycle
    a simple cycle of the bipartite graph of the cells of a two-way table that may move.
listed
    vectors of an explicit list: single cells, or a reduced lattice basis with short combinations (`listed`).
sums
    signed sums of 1 + Geometric(1/2) moves of the other families. As the others generate the whole lattice,
    every integer direction that the kernel has room for (64 moves without common cells, and more) has
    positive probability.

Noisy answers that are precise beside the others are kept by a share of the directions (`Kept`), all of them or some: a direction
that changes one has next to no room, and two tables that agree in it may be joined by no others. These families come
beside those of the exact answers, so that they take nothing from what is proved.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.queries import SumPart

type Ints = npt.NDArray[np.int64]
type Mask = npt.NDArray[np.bool_]

MOST_FACTORS = 3
"""Products of more differences are not drawn by looking at the table."""

EXACT = "exact answers"
"""Name of the families that keep nothing else."""

PRODUCT, LISTED, CYCLE, SUMS = 0, 1, 2, 3
"""Kinds of families; the first number of a family's row in `Moves.meta`."""


@dataclass(frozen=True, eq=False)
class Moves:
    """Families of directions, packed for the kernel.

    Parameters
    ----------
    meta : int64 array, shape (families, width)
        What each family is: kind, number of factors, then four numbers a factor that say where its lists
        start in `pool` (see `moves.builder`). Random sums, if there are any, come last.
    cumulative : float64 array, shape (families,)
        Cumulative probabilities of the families.
    pool : int64 array
        All index lists of all families, one after the other.
    longest : int
        Bound on the number of cells in one direction that is not a sum.
    proved : bool
        Whether the moves other than sums are known to connect every fiber of these invariants (a Markov
        basis).
    claim : str
        What is known of connectivity, in words.
    looking : int64 array, shape (others, width)
        Products of up to three differences that are drawn by looking at which cells are not 0 (`fibers.kernel.donors`), laid
        out as in `meta`. None where no noisy answer is precise beside the others.
    whole : int
        How many of these, the first ones, keep all that a set of directions keeps; the others only some of its sums.
    names : tuple of str
        What each family keeps, by the dimensions of the sums; `EXACT` for those of the exact answers alone.
    """

    meta: Ints
    cumulative: npt.NDArray[np.float64]
    pool: Ints
    longest: int
    proved: bool
    claim: str
    looking: Ints = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    whole: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Kept:
    """What some directions keep beside the exact answers."""

    invariants: Invariants  # the exact answers and some noisy ones
    fixed: Mask  # cells that these directions do not move, shape (cells,)
    whole: bool = True  # all precise answers of a level, and not only some of its sums

    @property
    def name(self) -> str:
        """What is kept, by the dimensions of the sums."""
        words = [
            " × ".join(part.keep) or "the total" if isinstance(part, SumPart) else "other sums"
            for part in self.invariants.query.parts
        ]
        return ", ".join(dict.fromkeys(words)) or EXACT
