"""Linear queries of a table, with labelled answers.

A query is built from parts. Two kinds of part are enough: sums of the cells that share labels (`SumPart`, which
covers the identity, margins and totals, and never needs a matrix), and an explicit sparse integer matrix
(`MatrixPart`). `Identity`, `Margins`, `Totals` and `LinearQuery` are the names that users meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import xarray as xr

from bayesdp._validate import integer_array, shown
from bayesdp.frames import Frame, Label

__all__ = ["Identity", "LinearQuery", "Margins", "MatrixPart", "Query", "SumPart", "Totals"]


@dataclass(frozen=True)
class SumPart:
    """Sums of the cells that share the labels `keep`: dimension names or group labels, one a dimension at most.

    Parameters
    ----------
    frame : Frame
        Labels of the table.
    keep : tuple of str
        What the answer is labelled by; the rest is summed over. All dimensions: the identity. None: the grand total.
    """

    frame: Frame
    keep: tuple[str, ...]

    def __post_init__(self) -> None:
        taken: dict[str, str] = {}
        for name in self.keep:
            dim = name if name in self.frame.dims else self.frame.group(name)[0]
            if dim in taken:
                raise ValueError(f"{taken[dim]!r} and {name!r} both belong to dimension {dim!r}; keep one of them")
            taken[dim] = name
        # The order of the table's dimensions, whatever the order in which they were named.
        ordered = tuple(taken[dim] for dim in self.frame.dims if dim in taken)
        object.__setattr__(self, "keep", ordered)

    @cached_property
    def levels(self) -> tuple[str | None, ...]:
        """For each dimension of the table, what is kept of it: its own name, a group label, or None."""
        kept = {name if name in self.frame.dims else self.frame.group(name)[0]: name for name in self.keep}
        return tuple(kept.get(dim) for dim in self.frame.dims)

    @cached_property
    def codes(self) -> tuple[npt.NDArray[np.int64], ...]:
        """For each dimension, the position in the answer that each label is summed into."""
        codes = []
        for dim, level, size in zip(self.frame.dims, self.levels, self.frame.shape, strict=True):
            if level is None:
                codes.append(np.zeros(size, dtype=np.int64))
            elif level == dim:
                codes.append(np.arange(size, dtype=np.int64))
            else:
                own = self.frame.group(level)[1]
                where = {label: i for i, label in enumerate(dict.fromkeys(own))}
                codes.append(np.array([where[label] for label in own], dtype=np.int64))
        return tuple(codes)

    @cached_property
    def answer_labels(self) -> tuple[tuple[Label, ...], ...]:
        """Labels of the answer along each kept name."""
        return tuple(
            self.frame.labels_of(name) if name in self.frame.dims else tuple(dict.fromkeys(self.frame.group(name)[1]))
            for name in self.keep
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return tuple(len(own) for own in self.answer_labels)

    @property
    def rows(self) -> int:
        """Number of answers."""
        return int(np.prod(self.shape, dtype=np.int64))

    @cached_property
    def row_of_cell(self) -> npt.NDArray[np.int64]:
        """For each cell, in C order, the one answer that it is summed into."""
        row = np.zeros(self.frame.shape, dtype=np.int64)
        for axis, (level, code) in enumerate(zip(self.levels, self.codes, strict=True)):
            if level is not None:
                size = int(code.max()) + 1
                row = row * size + code.reshape([-1 if a == axis else 1 for a in range(row.ndim)])
        return row.reshape(-1)

    @property
    def names(self) -> list[str]:
        """A name for each answer."""
        if not self.keep:
            return ["total"]
        return Frame(self.keep, self.answer_labels).cell_names()

    @property
    def matrix(self) -> sp.csr_array:
        """The part as a sparse integer matrix, rows by cells."""
        cells = self.frame.size
        return sp.csr_array(
            (np.ones(cells, dtype=np.int64), (self.row_of_cell, np.arange(cells))), shape=(self.rows, cells)
        )

    def apply(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sum values of shape ``(..., *table)`` into answers of shape ``(..., *shape)``."""
        lead = values.ndim - len(self.frame.shape)
        for axis in reversed(range(len(self.frame.shape))):
            level, code = self.levels[axis], self.codes[axis]
            if level is None:
                values = values.sum(axis=lead + axis)
            elif level != self.frame.dims[axis]:
                order = np.argsort(code, kind="stable")
                starts = np.flatnonzero(np.diff(code[order], prepend=-1))
                values = np.add.reduceat(np.take(values, order, axis=lead + axis), starts, axis=lead + axis)
        return values

    def adjoint(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Spread answers of shape ``(..., *shape)`` back onto the cells they are sums of, ``(..., *table)``."""
        lead = answers.ndim - len(self.keep)
        for axis, (level, code, size) in enumerate(zip(self.levels, self.codes, self.frame.shape, strict=True)):
            if level is None:
                answers = np.repeat(np.expand_dims(answers, lead + axis), size, axis=lead + axis)
            elif level != self.frame.dims[axis]:
                answers = np.take(answers, code, axis=lead + axis)
        return answers

    def describe(self) -> dict[str, Any]:
        """The part as plain data."""
        return {"sum": list(self.keep)}


@dataclass(frozen=True, eq=False)
class MatrixPart:
    """Any integer linear map of the cells, one named answer a row."""

    frame: Frame
    matrix: sp.csr_array
    names: list[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer: one dimension."""
        return (self.matrix.shape[0],)

    @property
    def rows(self) -> int:
        """Number of answers."""
        return int(self.matrix.shape[0])

    @property
    def keep(self) -> tuple[str, ...]:
        """The one dimension of the answer."""
        return ("answer",)

    @property
    def answer_labels(self) -> tuple[tuple[Label, ...], ...]:
        """The names of the rows."""
        return (tuple(self.names),)

    def apply(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Map values of shape ``(..., *table)`` to answers of shape ``(..., rows)``."""
        lead = values.shape[: values.ndim - len(self.frame.shape)]
        flat = values.reshape(-1, self.frame.size)
        return np.asarray((self.matrix @ flat.T).T).reshape(*lead, self.rows)

    def adjoint(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Map answers of shape ``(..., rows)`` back to cells by the transposed matrix."""
        flat = answers.reshape(-1, self.rows)
        return np.asarray((self.matrix.T @ flat.T).T).reshape(*answers.shape[:-1], *self.frame.shape)

    def describe(self) -> dict[str, Any]:
        """The part as plain data: coordinates of the non-zero entries."""
        entries = self.matrix.tocoo()
        return {
            "rows": [int(i) for i in entries.row],
            "cells": [int(j) for j in entries.col],
            "entries": [int(v) for v in entries.data],
            "names": list(self.names),
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixPart) and self.frame == other.frame and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash((self.frame, self.matrix.shape, self.matrix.nnz))


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
        return f"<Query: {self.rows} answers, by {' × '.join(self.dims) or 'nothing: the total'}>"

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
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the answer: the kept labels of a single sum, else ``("answer",)``."""
        return self._only.keep if self._only is not None else ("answer",)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the answer."""
        return self._only.shape if self._only is not None else (self.rows,)

    @cached_property
    def names(self) -> list[str]:
        """A name for each answer, in order."""
        return [name for part in self.parts for name in part.names]

    @property
    def coords(self) -> dict[str, list[Label]]:
        """Coordinates of the answer."""
        if self._only is not None:
            return {dim: list(own) for dim, own in zip(self.dims, self._only.answer_labels, strict=True)}
        return {"answer": list(self.names)}

    @property
    def answer_frame(self) -> Frame | None:
        """Labels of the answer; None for a grand total, whose answer is a single number."""
        if not self.dims:
            return None
        return Frame(self.dims, tuple(tuple(own) for own in self.coords.values()))

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
            Answers, labelled if the values were, of shape ``(..., *query.shape)``.

        Examples
        --------
        >>> import xarray as xr
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
        for dim, own in zip(self.frame.dims, self.frame.labels, strict=True):
            theirs = order.labels_of(dim)
            if theirs != own:
                if set(theirs) != set(own):
                    odd = sorted(set(theirs) ^ set(own), key=str)
                    raise ValueError(f"labels of {dim!r} do not match those of the query's table: {shown(odd)}")
                aligned = aligned.isel({dim: [theirs.index(label) for label in own]})
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
        ends = np.cumsum([part.rows for part in self.parts])[:-1]
        pieces = np.split(array, ends, axis=-1)
        shaped = [p.reshape(*array.shape[:-1], *part.shape) for part, p in zip(self.parts, pieces, strict=True)]
        return np.asarray(sum(part.adjoint(p) for part, p in zip(self.parts, shaped, strict=True)))

    def align(self, values: Any, argument: str) -> npt.NDArray[Any]:
        """Answers in the order of the query, of shape `shape`; labelled values are matched by label."""
        frame = self.answer_frame
        if frame is None:
            array = np.asarray(values)
            if array.shape != ():
                raise ValueError(f"{argument} must be a single number (a grand total), got shape {array.shape}")
            return array
        return frame.align(values, argument)

    def answer_name(self, position: int) -> str:
        """The name of one answer, given its position."""
        return self.names[position]

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
            elif set(part) == {"rows", "cells", "entries", "names"}:
                parts.append(_matrix_part(frame, part["rows"], part["cells"], part["entries"], part["names"]))
            else:
                raise ValueError(f"unknown kind of query part with the keys {shown(sorted(part))}")
        return Query(frame, tuple(parts))


def _matrix_part(frame: Frame, rows: Any, cells: Any, entries: Any, names: Sequence[str]) -> MatrixPart:
    row, cell, entry = (integer_array(v, a) for v, a in ((rows, "rows"), (cells, "cells"), (entries, "entries")))
    if not row.shape == cell.shape == entry.shape or row.ndim != 1:
        raise ValueError("rows, cells and entries of a query matrix must be lists of one length")
    if row.size and (row.min() < 0 or row.max() >= len(names) or cell.min() < 0 or cell.max() >= frame.size):
        raise ValueError(f"entries of a query matrix must lie in {len(names)} rows and {frame.size} cells")
    matrix = sp.csr_array((entry, (row, cell)), shape=(len(names), frame.size), dtype=np.int64)
    return _checked(frame, matrix, names)


def _checked(frame: Frame, matrix: sp.csr_array, names: Sequence[str]) -> MatrixPart:
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"names must be strings, got {name!r}")
    if len(set(listed)) < len(listed):
        raise ValueError(f"names of the rows must be distinct, got {shown(sorted(listed))}")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return MatrixPart(frame, matrix, listed)


def _names(value: str | Iterable[str], argument: str) -> tuple[str, ...]:
    """A list of names; a single name may be given bare, as in xarray."""
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be names of dimensions or group labels, got {name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"{argument} names a dimension twice: {shown(names)}")
    return names


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
        own = Frame.of(frame)
        super().__init__(own, (SumPart(own, own.dims),))


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
        own = Frame.of(frame)
        if not dims:
            raise ValueError("Margins needs at least one list of dimensions; for the grand total use Totals(frame)")
        parts = tuple(SumPart(own, _names(kept, "dims")) for kept in dims)
        if len(set(parts)) < len(parts):
            raise ValueError(f"the same margin is asked for twice: {shown(part.keep for part in parts)}")
        super().__init__(own, parts)


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
        own = Frame.of(frame)
        super().__init__(own, (SumPart(own, () if by is None else _names(by, "by")),))


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
        If the shape does not fit the frame or the names, or an entry is not a whole number.

    Examples
    --------
    >>> households = {"type": ["owner", "renter", "vacant"]}
    >>> LinearQuery(households, [[1, 1, 0]], ["occupied"]).apply([4, 5, 6])
    array([9])
    """

    def __init__(self, frame: Any, matrix: Any, names: Sequence[str]) -> None:
        own = Frame.of(frame)
        sparse = sp.csr_array(matrix) if sp.issparse(matrix) else sp.csr_array(np.atleast_2d(np.asarray(matrix)))
        if isinstance(names, str):
            raise TypeError("names must be a sequence of strings, one a row")
        if sparse.shape != (len(names), own.size):
            raise ValueError(
                f"matrix must have shape ({len(names)}, {own.size}): one row a name, one column a cell; got {sparse.shape}"
            )
        entries = sparse.tocoo()
        values = integer_array(entries.data, "matrix", lambda i: f"entry ({entries.row[i]}, {entries.col[i]})")
        exact = sp.csr_array((values, (entries.row, entries.col)), shape=sparse.shape, dtype=np.int64)
        super().__init__(own, (_checked(own, exact, names),))
