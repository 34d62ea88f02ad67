"""A query: parts stacked, with labelled answers.

Labels of single answers of a query, as tuples: a joined name cannot be taken apart, as labels may hold what joins it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xarray as xr

from bayesdp._text import printable
from bayesdp._validate import shown
from bayesdp.frames import Frame, Label
from bayesdp.queries.parts import ONE, MatrixPart, SumPart, largest_size, part_from_entries, shown_unit, unit_from_text

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
    """The labels of some answers of a query along each of its dimensions.

    Parameters
    ----------
    query : Query
    rows : iterable of int
        Places of the answers.


    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> query = Margins({"age, years": ["0, 1", "2, 3"], "sex": ["F", "M"]}, ["age, years"], [])
    >>> answer_labels(query, [1, 2])
    [('2, 3',), ('total',)]
    """
    return [_labels(*query._part_of(int(row))) for row in rows]


def _labels(part: Part, place: int) -> tuple[Label, ...]:
    if isinstance(part, SumPart) and part.keep:
        index = np.unravel_index(place, part.shape)
        return tuple(labels[int(i)] for labels, i in zip(part.answer_labels, index, strict=True))
    return (part.names[place],)


def rows_of(matrix: sp.csr_array) -> Iterator[tuple[bytes, bytes]]:
    """The cells of each row of a matrix and their weights, as keys that are equal where rows are.

    Examples
    --------
    >>> one, two = rows_of(sp.csr_array([[1, 0, 1], [0, 2, 0]]))
    >>> list(rows_of(sp.csr_array([[0, 2, 0]]))) == [two]
    True
    """
    merged = matrix.copy()
    merged.sum_duplicates()
    merged.eliminate_zeros()
    cells, weights = merged.indices.astype(np.int64), merged.data.astype(np.int64)
    for start, end in zip(merged.indptr[:-1].tolist(), merged.indptr[1:].tolist(), strict=True):
        yield cells[start:end].tobytes(), weights[start:end].tobytes()


def sets_of_records(query: Query) -> npt.NDArray[np.bool_]:
    """Which answers count the records of some cells, each of them once: no other weights than 1, in whole units.

    Examples
    --------
    >>> from bayesdp.queries import LinearQuery, Totals
    >>> two = LinearQuery({"sex": ["F", "M"]}, [[1, 0], [1, -1]], ["women", "difference"])
    >>> sets_of_records(two + Totals({"sex": ["F", "M"]})).tolist()
    [True, False, True]
    """
    found = []
    for part in query.parts:
        if isinstance(part, MatrixPart):
            weights = sp.csr_array(part.matrix)
            others = sp.csr_array((weights.data != 1, weights.indices, weights.indptr), weights.shape).sum(axis=1)
            found.append((np.asarray(others).reshape(-1) == 0) & (part.unit == ONE))
        else:
            found.append(np.ones(part.rows, dtype=np.bool_))
    return np.concatenate(found)


def has_negative_entry(query: Query) -> npt.NDArray[np.bool_]:
    """For each answer, whether some cell counts negatively in it."""
    found = []
    for part in query.parts:
        negative = np.zeros(part.rows, dtype=np.bool_)
        if isinstance(part, MatrixPart):
            entries = part.matrix.tocoo()
            negative[entries.row[entries.data < 0]] = True
        found.append(negative)
    return np.concatenate([np.zeros(0, dtype=np.bool_), *found])


def described(query: Query) -> str:
    """A query in a few words: how many answers, and what they are by."""
    words = []
    for part in query.parts:
        if isinstance(part, MatrixPart):
            unit = "" if part.unit == 1 else f" in units of {shown_unit(part.unit)}"
            words.append(f"{part.rows} linear combination{'s' if part.rows > 1 else ''}{unit}")
        elif part.keep:
            words.append(f"{part.rows} answer{'s' if part.rows > 1 else ''} by {printable(' × '.join(part.keep))}")
        else:
            words.append("grand total")
    return " and ".join(words)


def checked_query(query: Any, frame: Frame | None = None, about: str = "the table of the invariants") -> Query:
    """Accept a query; of the table that has this frame, if one is given."""
    if not isinstance(query, Query):
        raise TypeError(f"query must be Identity, Margins, Totals or LinearQuery, got {type(query).__name__}")
    if frame is not None and not query.frame.same_cells(frame):
        raise ValueError(f"query must be about {about} (same dimensions and labels)")
    return query
