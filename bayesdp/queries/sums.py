"""Margins, totals, and the table itself as queries.

Single cells as a query: a list of cells of any length, whose names are made when they are asked for.

Any linear map of the cells as a query: whole coefficients, or whole multiples of a unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._text import printable
from bayesdp._validate import integer_array, shown
from bayesdp.frames import Frame
from bayesdp.queries.parts import (
    MatrixPart,
    SumPart,
    checked_part,
    common_unit,
    exact_number,
    kept_names,
    positive_unit,
    whole_multiples,
)
from bayesdp.queries.query import Query


class Identity(Query):
    """The table itself, cell by cell.

    Parameters
    ----------
    frame : object
        Anything with labels: DataArray, Dataset, DataFrame, mapping, Frame.

    Examples
    --------
    >>> Identity({"county": ["Alpha", "Beta"]}).names
    ['county=Alpha', 'county=Beta']
    """

    def __init__(self, frame: Any) -> None:
        labels = Frame.of(frame)
        super().__init__(labels, (SumPart(labels, labels.dims),))


class Totals(Query):
    """Totals of the cells that share a group label; without one, the grand total.

    Parameters
    ----------
    frame : object
        Anything with labels: DataArray, Dataset, DataFrame, mapping, Frame.
    by : str or list of str, optional
        Group label (a non-dimension coordinate such as ``state``) or dimension; several are crossed.

    Examples
    --------
    >>> counties = {"county": ["IL: Adams", "IL: Cook", "IN: Lake"], "state": ("county", ["IL", "IL", "IN"])}
    >>> Totals(counties, by="state").names
    ['state=IL', 'state=IN']
    >>> int(Totals(counties).apply([1, 2, 3]))
    6
    """

    def __init__(self, frame: Any, by: str | Iterable[str] | None = None) -> None:
        labels = Frame.of(frame)
        super().__init__(labels, (SumPart(labels, () if by is None else kept_names(by, "by")),))


class Margins(Query):
    """Margins of a table: for each list of dimensions, the sums over all the others.

    Parameters
    ----------
    frame : object
        Anything with labels: DataArray, Dataset, DataFrame, mapping, Frame.
    *dims : list of str
        The dimensions that each margin keeps. Group labels may stand for their dimension.

    Raises
    ------
    ValueError
        If a name is neither a dimension nor a group label, or no margin is named.

    Examples
    --------
    >>> both = Margins({"county": ["Alpha", "Beta"], "education": ["Low", "High"]}, ["county"], ["education"])
    >>> both.names
    ['county=Alpha', 'county=Beta', 'education=Low', 'education=High']
    """

    def __init__(self, frame: Any, *dims: str | Iterable[str]) -> None:
        labels = Frame.of(frame)
        if not dims:
            raise ValueError("Margins needs at least one list of dimensions; for the grand total use Totals(frame)")
        parts = tuple(SumPart(labels, kept_names(kept, "dims")) for kept in dims)
        if len(set(parts)) < len(parts):
            raise ValueError(f"the same margin is asked for twice: {shown(part.keep for part in parts)}")
        super().__init__(labels, parts)


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
        along = [[f"{dim}={label}" for label in named] for dim, named in zip(frame.dims, frame.labels, strict=True)]
        places = [code.tolist() for code in np.unravel_index(self.cells, frame.shape)]
        for at in zip(*places, strict=True):
            yield ", ".join([named[i] for named, i in zip(along, at, strict=True)])

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


    Examples
    --------
    >>> table = {"county": ["Alpha", "Beta"], "age": ["young", "old"]}
    >>> query = cell_list(table, [1, 2])
    >>> query.names, query.apply([[1, 2], [3, 4]]).tolist()
    (['county=Alpha, age=old', 'county=Beta, age=young'], [2, 3])
    """
    table = Frame.of(frame)
    places = integer_array(np.asarray(cells), "cells").astype(np.int64)
    if places.ndim != 1 or not places.size or places.min() < 0 or places.max() >= table.size:
        raise ValueError(f"cells must be a list of places from 0 to {table.size - 1}")
    if len(np.unique(places)) < len(places):
        raise ValueError("cells must be distinct")
    matrix = sp.csr_array(
        (np.ones(len(places), dtype=np.int64), places, np.arange(len(places) + 1)), shape=(len(places), table.size)
    )
    names: Sequence[str] = CellNames(table, places)
    if _ambiguous(table) and len(set(names)) < len(names):
        raise ValueError("names of cells must be distinct, and labels of this table make some alike")
    return Query(table, (MatrixPart(table, matrix, names),))


def _ambiguous(frame: Frame) -> bool:
    """Whether labels hold what joins them, so that two cells may have one name; or differ in nothing that a name shows."""
    texts = [[str(label) for label in axis] for axis in frame.labels]
    return any(", " in text or len(set(axis)) < len(axis) for axis in texts for text in axis)


class LinearQuery(Query):
    """Any integer linear map of the cells.

    Parameters
    ----------
    frame : object
        Anything with labels: DataArray, Dataset, DataFrame, mapping, Frame.
    matrix : array_like or scipy.sparse array, shape (rows, cells)
        Integer coefficients; columns are the cells in C order of the frame.
    names : sequence of str
        One name a row.

    Raises
    ------
    ValueError
        If the shape does not fit the frame or the names, or an entry is not a whole number below 2**53 in absolute value.

    See Also
    --------
    LinearQuery.of_values : real coefficients.

    Examples
    --------
    >>> households = {"type": ["owner", "renter", "vacant"]}
    >>> LinearQuery(households, [[1, 1, 0]], ["occupied"]).apply([4, 5, 6])
    array([9])
    """

    def __init__(self, frame: Any, matrix: Any, names: Sequence[str]) -> None:
        table = Frame.of(frame)
        # As coordinates: entries that are stated twice are added up below, where that is checked.
        entries = sp.coo_array(matrix if sp.issparse(matrix) else np.atleast_2d(np.asarray(matrix)))
        _check_shape(entries.shape, names, table)
        values = integer_array(entries.data, "matrix", lambda i: f"entry ({entries.row[i]}, {entries.col[i]})")
        super().__init__(table, (checked_part(table, entries.row, entries.col, values, names),))

    @classmethod
    def of_values(cls, frame: Any, matrix: Any, names: Sequence[str], unit: Any = None) -> Self:
        """A linear map with real coefficients, which are whole multiples of a unit.

        The answers are counted in that unit: they are whole numbers, so that sums, exact answers and noise on whole numbers stay
        exact, which multiples of 0.1 as floats would not be. So are the sensitivity, the noise and its scale: a mechanism for
        real coefficients ``unit * c`` is that for the whole numbers c, and its loss the same. `in_unit` gives answers as
        the real numbers that they stand for, ``query.unit`` the unit.

        Parameters
        ----------
        frame : object
            Anything with labels, as for `LinearQuery`.
        matrix : array_like or scipy.sparse array, shape (rows, cells)
            Real coefficients, read as the decimals that they print as (0.1 is a tenth), or `fractions.Fraction` or
            `decimal.Decimal`.
        names : sequence of str
            One name a row.
        unit : float, Fraction or Decimal, optional
            What all coefficients are whole multiples of; by default the largest such number.

        Raises
        ------
        TypeError, ValueError
            If the shape does not fit, or an entry is not a finite number, no whole multiple of the unit or 2**53 of it or
            more. The message names the answer and the cell.

        Examples
        --------
        Two sums over persons: income in thousands, and its square.

        >>> income = {"income": [12.5, 30.0, 47.5]}
        >>> query = LinearQuery.of_values(income, [[12.5, 30.0, 47.5], [156.25, 900, 2256.25]], ["sum", "squares"])
        >>> query.unit, query.apply([2, 1, 1])
        (Fraction(5, 4), array([  82, 2775]))
        >>> query.in_unit(query.apply([2, 1, 1]))
        array([ 102.5 , 3468.75])
        """
        table = Frame.of(frame)
        if sp.issparse(matrix):
            entries = sp.coo_array(matrix)
            rows, cells, data = entries.row, entries.col, entries.data
            shape = entries.shape
        else:
            dense = np.asarray(matrix)
            if dense.ndim == 1:
                dense = dense[None]
            shape = dense.shape
            rows, cells = (at.reshape(-1) for at in np.indices(shape)) if dense.ndim == 2 else ([], [])
            data = dense.reshape(-1)
        _check_shape(shape, names, table)
        listed = list(names)

        def place(i: int) -> str:
            return f"the entry of {printable(str(listed[rows[i]]))} and {table.cell_name(int(cells[i]))}"

        # Item by item: a float32 prints as its own shortest decimal, and not as that of the float64 with its value.
        exact = [exact_number(value, place(i)) for i, value in enumerate(data)]
        step = common_unit(exact) if unit is None else positive_unit(unit)
        whole = whole_multiples(exact, step, place, "matrix")
        made = cls.__new__(cls)
        Query.__init__(made, table, (checked_part(table, np.asarray(rows), np.asarray(cells), whole, listed, step),))
        return made


def _check_shape(shape: tuple[int, ...], names: Sequence[str], frame: Frame) -> None:
    if isinstance(names, str):
        raise TypeError("names must be a sequence of strings, one a row")
    if shape != (len(names), frame.size):
        raise ValueError(
            f"matrix must have shape ({len(names)}, {frame.size}): one row a name, one column a cell; got {shape}"
        )
