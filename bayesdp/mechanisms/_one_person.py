"""What a guarantee means for one person: whether one record alone can change while all exact values stay, and at what loss.

A record moves from cell i to cell j without changing an exact value just when the invariants treat the two cells alike (equal
columns), and comes or goes unnoticed just when no invariant counts its cell (a column of zeros).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.invariants import Invariants
from bayesdp.mechanisms._differences import ADDED, kept_differences
from bayesdp.privacy import DIFFERENCES, Difference, Guarantee
from bayesdp.privacy.loss import Loss
from bayesdp.privacy.relations import Apart, Kept, Neighbours, Relation
from bayesdp.queries import SumPart

__all__ = ["Alone", "alone", "column_groups", "with_person"]

type Ints = npt.NDArray[np.int64]

_UNPROTECTED = "changes an exact value and is not protected at all"


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
        Whether a record can move from any cell to any other.
    """

    cells: int
    movable: int
    uncounted: int
    alike: bool


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
    """The guarantee with plain sentences on one person's record.

    Parameters
    ----------
    stated : Guarantee
        With its rows and the sampler that it will be printed with.
    invariants : Invariants
        What is published exactly.
    neighbours : {"substitution", "add-remove"}, optional
        The relation that ``stated.parameters`` are for, if they are for neighbouring tables.
    adjacency : int, optional
        Of Semi-DP: the largest number of records that may change together.
    """
    own = alone(invariants)
    if not own.movable and not own.uncounted:
        how_many = _together(invariants, adjacency)
        sentence = (
            f"Changing, adding or removing one person's record alone {_UNPROTECTED}. Protected are only changes of {how_many} "
            "together that leave every exact value as it is."
        )
        return replace(stated, person=sentence)
    sentences = (_moved(stated, own, neighbours), _came(stated, own, neighbours))
    return replace(stated, person=" ".join(filter(None, sentences)))


def _moved(stated: Guarantee, own: Alone, neighbours: str | None) -> str:
    if not own.movable:
        return f"Moving one person's record from one cell to another {_UNPROTECTED}." if own.cells > 1 else ""
    cost = _cost(stated, _of_move(stated, neighbours))
    if own.alike:
        return f"Moving one person's record from one cell to any other {cost}."
    if own.movable == own.cells:
        return (
            f"Moving one person's record between two cells that count towards the same exact values {cost}; moving it anywhere "
            f"else {_UNPROTECTED}."
        )
    return (
        f"In {own.movable} of {own.cells} cells one person's record can move to another cell without changing an exact value, "
        f"which {cost}; every other move of one record {_UNPROTECTED}."
    )


def _came(stated: Guarantee, own: Alone, neighbours: str | None) -> str:
    if not own.uncounted:
        return f"Adding or removing one {_UNPROTECTED}."
    loss = _of_addition(stated, neighbours)
    everywhere = own.uncounted == own.cells
    if loss is None and everywhere:
        return "Nothing is stated about adding or removing one: the number of records is taken to be public."
    where = "" if everywhere else f" in {own.uncounted} of {own.cells} cells, which no exact value counts,"
    cost = "is something about which nothing is stated" if loss is None else _cost(stated, loss)
    rest = "" if everywhere else f"; adding or removing one anywhere else {_UNPROTECTED}"
    return f"Adding or removing one{where} {cost}{rest}."


def _cost(stated: Guarantee, loss: Loss | None) -> str:
    if loss is None:
        return "is protected, but at what loss is not known"
    # In the definition that the guarantee is stated in; a row may give others too.
    own = loss.to(stated.kind)
    return f"{'has' if own.says_nothing else 'costs at most'} {stated.shown_loss(own)}"


def _row(stated: Guarantee, wanted: Callable[[Relation], bool]) -> Loss | None:
    return next((row.loss for row in stated.pairs if wanted(row.about)), None)


def _kept(difference: Difference) -> Callable[[Relation], bool]:
    return lambda about: isinstance(about, Kept) and about.difference == difference


def _of_neighbours(stated: Guarantee) -> Loss:
    found = _row(stated, lambda about: isinstance(about, Neighbours))
    return found if found is not None else stated.parameters.loss


def _of_move(stated: Guarantee, neighbours: str | None) -> Loss | None:
    row = _row(stated, _kept(DIFFERENCES["substitution"]))
    if row is None:
        row = _row(stated, lambda about: isinstance(about, Apart))
    if row is not None:
        return row
    if neighbours is None:
        return None
    # A record that moves is one that is removed and one that is added.
    return _of_neighbours(stated).group(1 if neighbours == "substitution" else 2)


def _of_addition(stated: Guarantee, neighbours: str | None) -> Loss | None:
    row = _row(stated, _kept(ADDED))
    return _of_neighbours(stated) if row is None and neighbours == "add-remove" else row


def _together(invariants: Invariants, adjacency: int | None) -> str:
    """How many records change at least, and with Semi-DP at most."""
    if invariants.nested is None:
        return "several records" if adjacency is None else f"up to {adjacency} records"
    # Nested sums keep the number of records, so that as many come to a cell as leave one.
    least = round(min(own.l1 for own in kept_differences(invariants)) / 2.0)
    if adjacency is None:
        return f"{least} or more records"
    return f"{least} records" if adjacency == least else f"{least} to {adjacency} records"
