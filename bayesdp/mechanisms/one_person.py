"""What a guarantee means for one person: whether one record alone can change while all exact values stay, and at what loss.

A record moves from cell i to cell j without changing an exact value just when the invariants treat the two cells alike (equal
columns), and comes or goes unnoticed just when no invariant counts its cell (a column of zeros).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.privacy import DIFFERENCES, Difference, Guarantee
from bayesdp.privacy.losses import Loss
from bayesdp.privacy.pairs import Conforming, Neighbours, SemiAdjacent
from bayesdp.privacy.words import OnePerson
from bayesdp.queries import SumPart
from bayesdp.sensitivities.kept import ADDED, kept_differences
from bayesdp.sensitivities.norms import column_groups


class Alone(NamedTuple):
    """In how many cells one record can change alone, with all invariants kept: see `OnePerson`."""

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
    free = alone(invariants)
    move = _of_move(stated, neighbours) if free.movable else None
    addition = _of_addition(stated, neighbours) if free.uncounted else None
    least = None
    if not free.movable and not free.uncounted and invariants.nested is not None:
        # Nested sums keep the number of records, so that as many come to a cell as leave one.
        least = round(min(difference.l1 for difference in kept_differences(invariants)) / 2.0)
    # In the definition that the guarantee is stated in; a row may give others too.
    move, addition = (None if loss is None else loss.to(stated.kind) for loss in (move, addition))
    return replace(stated, person=OnePerson(*free, move, addition, least, adjacency, stated.sampler))


def _of_difference(stated: Guarantee, difference: Difference) -> Loss | None:
    rows = (row for row in stated.pairs if isinstance(row.about, Conforming) and row.about.difference == difference)
    return next((row.loss for row in rows), None)


def _of_neighbours(stated: Guarantee) -> Loss:
    rows = (row.loss for row in stated.pairs if isinstance(row.about, Neighbours))
    return next(rows, stated.parameters.loss)


def _of_move(stated: Guarantee, neighbours: str | None) -> Loss | None:
    """The loss of one record that moves: the row on it, else that of tables of Semi-DP, else that of neighbours."""
    loss = _of_difference(stated, DIFFERENCES["substitution"])
    if loss is None:
        loss = next((row.loss for row in stated.pairs if isinstance(row.about, SemiAdjacent)), None)
    if loss is not None or neighbours is None:
        return loss
    # A record that moves is one that is removed and one that is added.
    return _of_neighbours(stated).group(1 if neighbours == "substitution" else 2)


def _of_addition(stated: Guarantee, neighbours: str | None) -> Loss | None:
    """The loss of one record that comes or goes."""
    loss = _of_difference(stated, ADDED)
    return _of_neighbours(stated) if loss is None and neighbours == "add-remove" else loss
