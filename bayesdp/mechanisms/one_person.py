"""What a guarantee means for one person: whether one record alone can change while all exact values stay, and at what loss.

A record moves from cell i to cell j without changing an exact value just when the invariants treat the two cells alike (equal
columns), and comes or goes unnoticed just when no invariant counts its cell (a column of zeros).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.privacy import DIFFERENCES, Difference, Guarantee
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.pairs import Kept, Neighbours, Relation, SemiAdjacent
from bayesdp.privacy.words import OnePerson
from bayesdp.queries import SumPart
from bayesdp.sensitivities.kept import ADDED, kept_differences
from bayesdp.sensitivities.norms import column_groups

type Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Alone:
    """How many cells let one record change alone, with all invariants kept.

    Attributes
    ----------
    cells : int
        All cells.
    movable : int
        Cells from which a record can move to some other cell.
    uncounted : int
        Cells in which a record can come or go.
    alike : bool
        Whether a record can move from every cell to every other.
    """

    cells: int
    movable: int
    uncounted: int
    alike: bool


def alone(invariants: Invariants) -> Alone:
    """Count the cells in which one record can change without any invariant.

    Examples
    --------
    >>> from bayesdp.queries import Margins, Totals
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> alone(Invariants(Totals(table)))
    Alone(cells=6, movable=6, uncounted=0, alike=True)
    >>> alone(Invariants(Margins(table, ["county"], ["education"])))
    Alone(cells=6, movable=0, uncounted=0, alike=False)
    """
    parts = [part for part in invariants.query.parts if isinstance(part, SumPart)]
    if parts and len(parts) == len(invariants.query.parts):
        group = np.zeros(invariants.frame.size, dtype=np.int64)
        for part in parts:
            group = np.unique(group * part.rows + part.row_of_cell, return_inverse=True)[1].astype(np.int64)
        uncounted = 0  # a set of sums counts every cell
    else:
        group = column_groups(invariants.matrix)
        uncounted = int(np.sum(group == 0))
    sizes = np.bincount(group)
    return Alone(len(group), int(sizes[sizes > 1].sum()), uncounted, int(sizes.max()) == len(group) > 1)


def with_person(
    stated: Guarantee, invariants: Invariants, neighbours: str | None = None, adjacency: int | None = None
) -> Guarantee:
    """The guarantee, complete but for this, with what it means for one person's record.

    `neighbours` is the relation that ``stated.parameters`` are for, if they are for neighbouring tables; `adjacency`, of Semi-DP,
    the largest number of records that may change together.
    """
    own, least, move, addition = alone(invariants), None, None, None
    if not own.movable and not own.uncounted:
        least = _least(invariants)
    if own.movable:
        move = _of_move(stated, neighbours)
    if own.uncounted:
        addition = _of_addition(stated, neighbours)
    # In the definition that the guarantee is stated in; a row may give others too.
    move, addition = (None if loss is None else loss.to(stated.kind) for loss in (move, addition))
    person = OnePerson(
        own.cells, own.movable, own.uncounted, own.alike, move, addition, least, adjacency, stated.sampler
    )
    return replace(stated, person=person)


def _row(stated: Guarantee, wanted: Callable[[Relation], bool]) -> Loss | None:
    """The loss of the first row about pairs of tables that are wanted."""
    return next((row.loss for row in stated.pairs if wanted(row.about)), None)


def _kept(difference: Difference) -> Callable[[Relation], bool]:
    return lambda about: isinstance(about, Kept) and about.difference == difference


def _of_neighbours(stated: Guarantee) -> Loss:
    found = _row(stated, lambda about: isinstance(about, Neighbours))
    return found if found is not None else stated.parameters.loss


def _of_move(stated: Guarantee, neighbours: str | None) -> Loss | None:
    """The loss of one record that moves: the row on it, else that of tables of Semi-DP, else that of neighbours."""
    row = _row(stated, _kept(DIFFERENCES["substitution"]))
    if row is None:
        row = _row(stated, lambda about: isinstance(about, SemiAdjacent))
    if row is not None or neighbours is None:
        return row
    # A record that moves is one that is removed and one that is added.
    return _of_neighbours(stated).group(1 if neighbours == "substitution" else 2)


def _of_addition(stated: Guarantee, neighbours: str | None) -> Loss | None:
    """The loss of one record that comes or goes."""
    row = _row(stated, _kept(ADDED))
    return _of_neighbours(stated) if row is None and neighbours == "add-remove" else row


def _least(invariants: Invariants) -> int | None:
    """How many records change together at least, where none can alone; None where that is not known."""
    if invariants.nested is None:
        return None
    # Nested sums keep the number of records, so that as many come to a cell as leave one.
    return round(min(own.l1 for own in kept_differences(invariants)) / 2.0)
