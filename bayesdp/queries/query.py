"""A query: parts stacked, with labelled answers; and those that users name.

`Identity`, `Margins` and `Totals` are sums, `LinearQuery` any linear map of the cells, `cell_list` single cells, of any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xarray as xr

from bayesdp._arrays import Ints, Mask
from bayesdp._text import printable
from bayesdp._validate import integer_array, shown
from bayesdp.frames import Frame, Label
from bayesdp.queries.parts import (
    ONE,
    MatrixPart,
    SumPart,
    checked_part,
    common_unit,
    exact_number,
    kept_names,
    largest_size,
    part_from_entries,
    unit_from_text,
    whole_multiples,
)

type Part = SumPart | MatrixPart


@dataclass(frozen=True, eq=False, repr=False)
class Query:
    """A linear map of a table with labelled answers; add two queries of one frame to stack them.

    Users build queries with `Identity`, `Margins`, `Totals` and `LinearQuery`.

    Parameters
    ----------
    frame : Frame
        Labels of the table.
    parts : tuple of SumPart or MatrixPart
        What is asked, in order.
    """

    frame: Frame
    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        for part in self.parts:
            if not part.frame.same_cells(self.frame):
                raise ValueError("all parts of a query must be about the same table (same dimensions and labels)")

    def __eq__(self, other: object) -> bool:
        # By content: Identity(frame) equals the same query read back from a file.
        return isinstance(other, Query) and self.frame == other.frame and self.parts == other.parts

    def __hash__(self) -> int:
        return hash((self.frame, self.parts))

    def __repr__(self) -> str:
        return f"<Query: {self.rows} answers, by {printable(' × '.join(self.dims)) or 'nothing: the total'}>"

    @property
    def _only(self) -> Part | None:
        return self.parts[0] if len(self.parts) == 1 else None

    @property
    def is_identity(self) -> bool:
        """Whether the answer is the table itself, cell by cell."""
        return isinstance(self._only, SumPart) and self._only.keep == self.frame.dims

    @property
    def rows(self) -> int:
        """Number of answers."""
        return sum(part.rows for part in self.parts)

    @property
    def placed_parts(self) -> Iterator[tuple[Part, slice]]:
        """The parts, each with the places of its answers among all answers, flat."""
        start = 0
        for part in self.parts:
            yield part, slice(start, start := start + part.rows)

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the answer: the kept labels of a single sum, else ``("answer",)``."""
        return self._only.keep if self._only is not None else ("answer",)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return self._only.shape if self._only is not None else (self.rows,)

    @cached_property
    def names(self) -> list[str]:
        """A name for each answer, in order, with its labels character for character."""
        return [name for part in self.parts for name in part.names]

    @property
    def units(self) -> tuple[Fraction, ...]:
        """What the answers of each part are multiples of: 1 for counts, otherwise the unit of `LinearQuery.of_values`."""
        return tuple(part.unit if isinstance(part, MatrixPart) else ONE for part in self.parts)

    @property
    def unit(self) -> Fraction | None:
        """The unit that all answers have in common; None where parts have different ones."""
        units = set(self.units)
        return units.pop() if len(units) == 1 else None

    @overload
    def in_unit(self, answers: xr.DataArray) -> xr.DataArray: ...
    @overload
    def in_unit(self, answers: npt.ArrayLike) -> npt.NDArray[Any]: ...
    def in_unit(self, answers: xr.DataArray | npt.ArrayLike) -> xr.DataArray | npt.NDArray[Any]:
        """Answers, exact or noisy, as the real numbers that they stand for: times the unit, rounded to float64.

        Parameters
        ----------
        answers : xarray.DataArray or array_like, shape ``(..., *query.shape)``
            Multiples of the unit, as `apply` and releases have them.

        Returns
        -------
        xarray.DataArray or numpy.ndarray
            Of the same shape, labelled if the answers were.
        """
        if isinstance(answers, xr.DataArray):
            ordered = answers.transpose(..., *self.dims)
            return ordered.copy(data=self.in_unit(ordered.values))
        array = np.asarray(answers)
        if array.shape[array.ndim - len(self.shape) :] != self.shape:
            raise ValueError(f"answers must have shape (..., {self.shape}), got {array.shape}")
        if self.unit is not None:  # one division, rounded once where the product is exact
            return np.asarray(array * float(self.unit.numerator) / float(self.unit.denominator))
        each = np.repeat([float(unit) for unit in self.units], [part.rows for part in self.parts])
        return np.asarray(array * each)

    @property
    def coords(self) -> dict[str, list[Label]]:
        """Coordinates of the answer."""
        if self._only is not None:
            return {dim: list(labels) for dim, labels in zip(self.dims, self._only.answer_labels, strict=True)}
        return {"answer": list(self.names)}

    @property
    def answer_frame(self) -> Frame | None:
        """Labels of the answer; None for a grand total, whose answer is a single number."""
        if not self.dims:
            return None
        return Frame(self.dims, tuple(tuple(labels) for labels in self.coords.values()))

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The query as a sparse int64 matrix of shape (rows, cells)."""
        return sp.csr_array(sp.vstack([part.matrix for part in self.parts], format="csr"))

    @overload
    def apply(self, values: xr.DataArray) -> xr.DataArray: ...
    @overload
    def apply(self, values: npt.ArrayLike) -> npt.NDArray[Any]: ...
    def apply(self, values: xr.DataArray | npt.ArrayLike) -> xr.DataArray | npt.NDArray[Any]:
        """Answer the query on a table, or on many.

        Parameters
        ----------
        values : xarray.DataArray or array_like
            A table; further dimensions (chain, draw) pass through. An array without labels has shape
            ``(..., *frame.shape)``.

        Returns
        -------
        xarray.DataArray or numpy.ndarray
            Answers, labelled if the values were, of shape ``(..., *query.shape)``. Those of integers and booleans are exact
            int64; those of real numbers are rounded as float64 rounds.

        Raises
        ------
        ValueError
            If dimensions or labels do not match, or the terms of an answer of integers may add up to 2**63 or more in absolute
            value: int64 would wrap. The message names the answer, and no value.

        Examples
        --------
        >>> import xarray as xr
        >>> from bayesdp.queries import Margins
        >>> labels = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
        >>> table = xr.DataArray([[1, 2], [3, 4]], dims=list(labels), coords=labels)
        >>> Margins(table, ["county"]).apply(table).values
        array([3, 7])
        """
        if not isinstance(values, xr.DataArray):
            array = np.asarray(values)
            if array.shape[array.ndim - len(self.frame.shape) :] != self.frame.shape:
                raise ValueError(f"values must have shape (..., {self.frame.shape}), got {array.shape}")
            return self._apply(array)
        missing = [dim for dim in self.frame.dims if dim not in values.dims]
        if missing:
            raise ValueError(f"values lack the dimensions {shown(missing)} of the query's table")
        lead = [dim for dim in values.dims if dim not in self.frame.dims]
        first = values.isel(dict.fromkeys(lead, 0))
        order = Frame.of(first)
        aligned = values
        for dim, labels in zip(self.frame.dims, self.frame.labels, strict=True):
            theirs = order.labels_of(dim)
            if theirs != labels:
                if set(theirs) != set(labels):
                    odd = sorted(set(theirs) ^ set(labels), key=str)
                    raise ValueError(f"labels of {dim!r} do not match those of the query's table: {shown(odd)}")
                aligned = aligned.isel({dim: [theirs.index(label) for label in labels]})
        answers = self._apply(aligned.transpose(*lead, *self.frame.dims).values)
        kept = {name: coord for name, coord in values.coords.items() if set(coord.dims) <= set(lead)}
        return xr.DataArray(answers, dims=(*lead, *self.dims), coords={**kept, **self.coords}, name=values.name)

    def _apply(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if self._only is not None:
            return self._only.apply(array)
        lead = array.shape[: array.ndim - len(self.frame.shape)]
        return np.concatenate([part.apply(array).reshape(*lead, part.rows) for part in self.parts], axis=-1)

    def adjoint(self, answers: npt.ArrayLike) -> npt.NDArray[Any]:
        """Apply the transposed map: answers of shape ``(..., *query.shape)`` to cells, ``(..., *frame.shape)``."""
        array = np.asarray(answers)
        if self._only is not None:
            return self._only.adjoint(array)
        spread = [
            part.adjoint(array[..., rows].reshape(*array.shape[:-1], *part.shape)) for part, rows in self.placed_parts
        ]
        if all(cells.dtype == np.int64 for cells in spread) and sum(map(largest_size, spread)) >= 2**63:
            raise ValueError(
                "answers are too large: what they add up to in a cell may be 2**63 or more, and int64 would wrap"
            )
        return np.asarray(sum(spread))

    def align(self, values: Any, argument: str) -> npt.NDArray[Any]:
        """Answers in the order of the query, of shape `shape`; labelled values are matched by label."""
        if isinstance(values, np.ndarray) and values.shape == self.shape:
            return values
        frame = self.answer_frame
        if frame is None:
            array = np.asarray(values)
            if array.shape != ():
                raise ValueError(f"{argument} must be a single number (a grand total), got shape {array.shape}")
            return array
        return frame.align(values, argument)

    def answer_name(self, position: int) -> str:
        """The name of one answer, given its position, as it may be shown."""
        part, place = self._part_of(position)
        return printable(part.name(place))

    def _part_of(self, row: int) -> tuple[Part, int]:
        """The part that an answer is of, and its place in it."""
        for part, rows in self.placed_parts:
            if rows.start <= row < rows.stop:
                return part, row - rows.start
        raise IndexError(f"row must be from 0 to {self.rows - 1}, got {row}")

    def __add__(self, other: Query) -> Query:
        if not isinstance(other, Query):
            return NotImplemented
        if not self.frame.same_cells(other.frame):
            raise ValueError("queries can be stacked when they are about the same table (same dimensions and labels)")
        return Query(self.frame, self.parts + other.parts)

    def describe(self) -> dict[str, Any]:
        """The query as plain data, without its frame."""
        return {"parts": [part.describe() for part in self.parts]}

    @staticmethod
    def from_description(description: Mapping[str, Any], frame: Frame) -> Query:
        """Rebuild a query of `frame` from `describe`."""
        if set(description) != {"parts"} or not isinstance(description["parts"], list):
            raise ValueError(f"a query description has the one key 'parts', a list; got {shown(sorted(description))}")
        parts: list[Part] = []
        for part in description["parts"]:
            if set(part) == {"sum"}:
                parts.append(SumPart(frame, tuple(part["sum"])))
            elif set(part) - {"unit"} == {"rows", "cells", "entries", "names"}:
                unit = unit_from_text(part["unit"]) if "unit" in part else ONE
                parts.append(
                    part_from_entries(frame, part["rows"], part["cells"], part["entries"], part["names"], unit)
                )
            else:
                raise ValueError(f"unknown kind of query part with the keys {shown(sorted(part))}")
        return Query(frame, tuple(parts))


def answer_labels(query: Query, rows: Iterable[int]) -> list[tuple[Label, ...]]:
    """The labels of some answers of a query, by their places, along each of its dimensions.

    Tuples: a joined name cannot be taken apart, as labels may hold what joins it.
    """
    placed = (query._part_of(int(row)) for row in rows)
    return [part.labels_at(place) for part, place in placed]


def sets_of_records(query: Query) -> Mask:
    """Which answers count the records of some cells, each of them once: no other weights than 1, in whole units."""
    return np.concatenate([part.counting for part in query.parts])


def has_negative_entry(query: Query) -> Mask:
    """For each answer, whether some cell counts negatively in it."""
    return np.concatenate([np.zeros(0, dtype=np.bool_), *(part.negative for part in query.parts)])


def described(query: Query) -> str:
    """A query in a few words: how many answers, and what they are by."""
    return " and ".join(part.described for part in query.parts)


def checked_query(query: Any, frame: Frame | None = None, about: str = "the table of the invariants") -> Query:
    """Accept a query; of the table that has this frame, if one is given."""
    if not isinstance(query, Query):
        raise TypeError(f"query must be Identity, Margins, Totals or LinearQuery, got {type(query).__name__}")
    if frame is not None and not query.frame.same_cells(frame):
        raise ValueError(f"query must be about {about} (same dimensions and labels)")
    return query


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
        step = common_unit(exact) if unit is None else exact_number(unit, "unit")
        if step <= 0:
            raise ValueError(f"unit must be greater than 0, got {unit!r}")
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
