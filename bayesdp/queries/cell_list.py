"""Single cells as a query: a list of cells of any length, whose names are made when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import integer_array
from bayesdp.frames import Frame
from bayesdp.queries.matrix_part import MatrixPart
from bayesdp.queries.query import Query

type Ints = npt.NDArray[np.int64]


class CellNames(Sequence[str]):
    """The names of some cells, each made when it is read: a million of them take no more memory than their places.

    Parameters
    ----------
    frame : Frame
    cells : int64 array
        Places in C order.
    """

    __slots__ = ("cells", "frame")

    def __init__(self, frame: Frame, cells: Ints) -> None:
        self.frame, self.cells = frame, cells

    def __len__(self) -> int:
        return len(self.cells)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> CellNames: ...
    def __getitem__(self, place: int | slice) -> str | CellNames:
        if isinstance(place, slice):
            return CellNames(self.frame, self.cells[place])
        return self.frame.exact_cell_name(int(self.cells[place]))

    def __iter__(self) -> Iterator[str]:
        frame = self.frame
        along = [[f"{dim}={label}" for label in own] for dim, own in zip(frame.dims, frame.labels, strict=True)]
        places = [own.tolist() for own in np.unravel_index(self.cells, frame.shape)]
        for at in zip(*places, strict=True):
            yield ", ".join([own[i] for own, i in zip(along, at, strict=True)])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, CellNames) and self.frame.same_cells(other.frame):
            return np.array_equal(self.cells, other.cells)
        return isinstance(other, Sequence) and len(self) == len(other) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as lists have none


def cell_list(frame: Any, cells: npt.ArrayLike) -> Query:
    """Some cells of a table, one answer each.

    Parameters
    ----------
    frame : object
        Anything with labels.
    cells : array_like of int, shape (answers,)
        Their places in C order, each once.

    Raises
    ------
    ValueError
        If a place is not one of the table's, or is there twice.

    Examples
    --------
    >>> table = {"county": ["Alpha", "Beta"], "age": ["young", "old"]}
    >>> query = cell_list(table, [1, 2])
    >>> query.names, query.apply([[1, 2], [3, 4]]).tolist()
    (['county=Alpha, age=old', 'county=Beta, age=young'], [2, 3])
    """
    own = Frame.of(frame)
    places = integer_array(np.asarray(cells), "cells").astype(np.int64)
    if places.ndim != 1 or not places.size or places.min() < 0 or places.max() >= own.size:
        raise ValueError(f"cells must be a list of places from 0 to {own.size - 1}")
    if len(np.unique(places)) < len(places):
        raise ValueError("cells must be distinct")
    matrix = sp.csr_array(
        (np.ones(len(places), dtype=np.int64), places, np.arange(len(places) + 1)), shape=(len(places), own.size)
    )
    names: Sequence[str] = CellNames(own, places)
    if _ambiguous(own) and len(set(names)) < len(names):
        raise ValueError("names of cells must be distinct, and labels of this table make some alike")
    return Query(own, (MatrixPart(own, matrix, names),))


def _ambiguous(frame: Frame) -> bool:
    """Whether labels hold what joins them, so that two cells may have one name; or differ in nothing that a name shows."""
    texts = [[str(label) for label in own] for own in frame.labels]
    return any(", " in text or len(set(own)) < len(own) for own in texts for text in own)
