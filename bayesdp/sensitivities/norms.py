"""How a mechanism measures what a difference between two tables changes in its answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.invariants import Invariants
from bayesdp.queries import Query, SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

RECORDS = {"substitution": 2.0, "add-remove": 1.0}
"""The l1 distance of neighbouring tables."""

MOST_CELLS = 3000
"""Cells whose answers are written out."""

MOST_NUMBERS = 30_000_000
"""Cells times coordinates that are written out."""

MOST_PRODUCTS = 2_000_000_000
"""Pairs of cells times coordinates: about a second."""


@dataclass(frozen=True, eq=False)
class DifferenceNorm:
    """The norm in which a mechanism hides differences.

    Parameters
    ----------
    query : Query
        What the noise is added to.
    invariants : Invariants
        Of the table.
    neighbours : {"substitution", "add-remove"}
    step : float
        The length of the largest step from a table to a neighbour.
    kind : {"l1", "l2", "K"}
        Of the coordinates.
    coordinates : callable, optional
        From answers, shape ``(m, *answers)``, to what the norm is of, shape ``(m, n)``; the answers themselves if left out.
    gauge : callable, optional
        The norm K of points, shape ``(m, n)`` to ``(m,)``.
    most : int
        How many points a gauge is computed of.
    helmert : bool
        Whether the coordinates are those of nested sums (`NestedSums.coordinates`).
    """

    query: Query
    invariants: Invariants
    neighbours: str
    step: float
    kind: str
    coordinates: Callable[[Floats], Floats] | None = None
    gauge: Callable[[Floats], Floats] | None = None
    most: int = 0
    helmert: bool = False
    shape: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", self.query.shape or (1,))

    @property
    def sums(self) -> tuple[SumPart, ...]:
        """The parts of the query if it asks for sums only and changed answers can be counted, else none."""
        parts = tuple(part for part in self.query.parts if isinstance(part, SumPart))
        if len(parts) < len(self.query.parts):
            return ()
        counted = len(parts) == 1 if self.kind == "K" else self.coordinates is None
        return parts if counted else ()

    def of_count(self, changed: int) -> float:
        """The length of a difference that changes `changed` answers by 1 or -1 and no other; for `sums`.

        The norm K of a difference u of a single sum that takes s neighbouring steps is at most s. It is s: the form
        ``z @ u / 2`` (for add-remove ``z @ u``) is at most 1 for all neighbours z, and is s for z = u.
        """
        if self.kind == "K":
            return changed / RECORDS[self.neighbours]
        return float(changed) if self.kind == "l1" else math.sqrt(changed)

    def images(self, columns: sp.csc_array) -> Floats:
        """What the norm is of, shape (m, n), for answers given as the m columns of a sparse matrix."""
        answers = columns.T.toarray().astype(np.float64)
        return answers if self.coordinates is None else self.coordinates(answers.reshape(-1, *self.shape))

    def lengths(self, points: Floats) -> Floats:
        """The norm of each point, shape (m,)."""
        if self.kind == "l1":
            return np.asarray(np.abs(points).sum(axis=1))
        if self.kind == "l2":
            return np.asarray(np.linalg.norm(points, axis=1))
        assert self.gauge is not None  # the norm of a norm K has one
        return self.gauge(points)

    def upper_length(self, l1: float) -> float:
        """An upper bound for a difference of this l1 norm: its number of neighbouring steps times the longest of these.

        The steps exist where the two tables have the same number of records, or records may come and go.
        """
        return l1 / RECORDS[self.neighbours] * self.step

    def cell_images(self) -> Floats | None:
        """What a record in each cell adds to the coordinates, shape (cells, n); None for large tables."""
        cells = self.invariants.frame.size
        if cells > MOST_CELLS or cells * self.query.rows > MOST_NUMBERS:
            return None
        return self.images(sp.csc_array(self.query.matrix))
