"""Units of answers: real coefficients are whole multiples of a unit, exactly as the decimals that they print as.

Sums of integers that are exact or refused: int64 wraps silently, and a wrapped sum looks like any other number.

Sums of the cells that share labels: a part of a query that needs no matrix.

Any integer linear map of the cells: a part of a query.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from numbers import Rational, Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._arrays import Floats, Ints, Mask
from bayesdp._text import printable
from bayesdp._validate import MAX_COUNT, instance, integer_array, shown
from bayesdp.frames import Frame, Label

ONE = Fraction(1)

_MOST_DIGITS = 40
"""Digits of numerator and denominator of a unit in a file."""


def exact_number(value: Any, argument: str) -> Fraction:
    """A number as a fraction: a float is the shortest decimal that it prints as, so that 0.1 is a tenth."""
    kinds = (Rational, Real, np.number)
    if isinstance(value, (bool, np.bool_)) or not (isinstance(value, kinds) or hasattr(value, "as_integer_ratio")):
        raise TypeError(f"{argument} must be a real number, got {value!r}")
    if isinstance(value, Rational | np.integer):
        return Fraction(int(value)) if isinstance(value, np.integer) else Fraction(value)
    if not math.isfinite(value):
        raise ValueError(f"{argument} must be finite, got {value!r}")
    return Fraction(str(value))


def unit_from_text(text: Any) -> Fraction:
    """The unit of a file, written as a fraction; only the one way to write it that this package has."""
    if not isinstance(text, str) or len(text) > 2 * _MOST_DIGITS + 1 or not all(sign in "0123456789/" for sign in text):
        raise ValueError(f"unit of a query must be a fraction such as '1/100', got {str(text)[:40]!r}")
    try:
        unit = Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"unit of a query must be a fraction such as '1/100', got {text!r}") from None
    if unit <= 0 or str(unit) != text or unit == ONE:
        raise ValueError(f"unit of a query must be a positive fraction in lowest terms other than 1, got {text!r}")
    return unit


def shown_unit(unit: Fraction) -> str:
    """A unit for people: a decimal where it is a short one (0.01), otherwise the fraction."""
    short = f"{float(unit):.15g}"
    return short if Fraction(short) == unit else str(unit)


def common_unit(values: Sequence[Fraction]) -> Fraction:
    """The largest number of which all are whole multiples, 1/4 for 0.5, 0.75 and 2; 1 if all are zero."""
    below = math.lcm(*(value.denominator for value in values))
    above = math.gcd(*(int(value * below) for value in values))
    return Fraction(above, below) if above else ONE


def whole_multiples(values: Sequence[Fraction], unit: Fraction, name_of: Callable[[int], str], argument: str) -> Ints:
    """Each value divided by the unit; ValueError that names the first one that is no whole multiple, or is too large."""
    made = np.zeros(len(values), dtype=np.int64)
    for i, value in enumerate(values):
        ratio = value / unit
        if ratio.denominator != 1:
            raise ValueError(
                f"{argument} must have whole multiples of the unit {shown_unit(unit)}, but {name_of(i)} is "
                f"{shown_unit(value)}: round it, or take a unit such as {shown_unit(common_unit([value, unit]))}"
            )
        if abs(ratio.numerator) >= MAX_COUNT:
            raise ValueError(
                f"{argument} must have multiples of the unit below 2**53, but {name_of(i)} is {shown_unit(value)} with the "
                f"unit {shown_unit(unit)}: round the entries to fewer digits"
            )
        made[i] = ratio.numerator
    return made


_BEYOND = 2**63
"""int64 holds whole numbers that are smaller than this in absolute value."""

_SURE = 2.0**63 * (1.0 - 1e-6)
"""Sums of absolute values below this, added up in float64, are below 2**63: a float64 sum of n terms errs by a share of n
times 1.1e-16 at most, which is less than 1e-6 for anything that fits into memory."""


def exact_integers(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Booleans and integers of any width as int64; everything else as it is."""
    # Sums of narrow integers wrap at their own width (`np.add.reduceat` adds int32 in int32, and booleans by "or").
    if values.dtype.kind == "u" and values.dtype.itemsize == 8 and np.any(values >= np.uint64(_BEYOND)):
        raise ValueError("values must be smaller than 2**63, which is the largest that 64-bit integers hold")
    return values.astype(np.int64, copy=False) if values.dtype.kind in "biu" else values


def largest_size(values: Ints) -> int:
    """The largest absolute value, as a Python integer (that of ``-2**63`` is no int64); 0 for no values."""
    return max(int(values.max()), -int(values.min())) if values.size else 0


def check_no_overflow(
    values: Ints,
    largest_weight: int,
    add_up: Callable[[Floats], Floats],
    name_of: Callable[[int], str],
) -> None:
    """Refuse sums of integers that int64 might not hold, partial ones included."""
    # `values`: what is added up. `largest_weight`: a bound on the sum of the absolute weights of one sum; with the largest value it
    # mostly settles the matter. `add_up`: the sums of the absolute values with the absolute weights, in float64, sums last: asked
    # where that bound is too coarse. `name_of`: position of a sum to its name.
    if largest_size(values) * largest_weight < _BEYOND:
        return
    sizes = add_up(np.abs(values.astype(np.float64)))
    over = np.argwhere(~(sizes < _SURE))
    if over.size:
        raise ValueError(
            f"the terms of {name_of(int(over[0, -1]))} add up to about 2**63 or more in absolute value, which 64-bit integers "
            "cannot hold exactly: the values, or the weights of the query, are too large"
        )


def exact_product(
    matrix: sp.csr_array, flat: npt.NDArray[Any], largest_weight: int, name_of: Callable[[int], str]
) -> npt.NDArray[Any]:
    """A sparse int64 matrix times each of the vectors of shape ``(many, columns)``: exact for int64, rounded for float64."""
    if flat.dtype == np.int64:
        check_no_overflow(flat, largest_weight, lambda sizes: (abs(matrix.astype(np.float64)) @ sizes.T).T, name_of)
    return np.asarray((matrix @ flat.T).T)


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
        """What the answer keeps of each dimension of the table: the dimension itself, a group label, or None (summed over)."""
        kept = {name if name in self.frame.dims else self.frame.group(name)[0]: name for name in self.keep}
        return tuple(kept.get(dim) for dim in self.frame.dims)

    @cached_property
    def codes(self) -> tuple[Ints, ...]:
        """For each dimension, the position in the answer that each label is summed into."""
        codes = []
        for dim, level, size in zip(self.frame.dims, self.levels, self.frame.shape, strict=True):
            if level is None:
                codes.append(np.zeros(size, dtype=np.int64))
            elif level == dim:
                codes.append(np.arange(size, dtype=np.int64))
            else:
                group = self.frame.group(level)[1]
                where = {label: i for i, label in enumerate(dict.fromkeys(group))}
                codes.append(np.array([where[label] for label in group], dtype=np.int64))
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
        return tuple(len(labels) for labels in self.answer_labels)

    @property
    def rows(self) -> int:
        """Number of answers."""
        return int(np.prod(self.shape, dtype=np.int64))

    @cached_property
    def row_of_cell(self) -> Ints:
        """For each cell, in C order, the one answer that it is summed into."""
        return self._row_of_cell()

    def _row_of_cell(self) -> Ints:
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
        return self._answer_frame.cell_names()

    def name(self, row: int) -> str:
        """The name of one answer."""
        return self._answer_frame.exact_cell_name(row) if self.keep else "total"

    @cached_property
    def _answer_frame(self) -> Frame:
        return Frame(self.keep, self.answer_labels)

    @property
    def matrix(self) -> sp.csr_array:
        """The part as a sparse integer matrix, rows by cells."""
        cells = self.frame.size
        # Not `row_of_cell`, which the part would keep: what needs a matrix needs no more of the part, as a rule.
        return sp.csr_array(
            (np.ones(cells, dtype=np.int64), (self._row_of_cell(), np.arange(cells))), shape=(self.rows, cells)
        )

    @cached_property
    def _most_cells(self) -> int:
        """The largest number of cells that one answer adds up."""
        most = 1
        for level, code in zip(self.levels, self.codes, strict=True):
            most *= len(code) if level is None else int(np.bincount(code).max())
        return most

    def apply(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sum values of shape ``(..., *table)`` into answers of shape ``(..., *shape)``.

        Integers are added up exactly, in int64; ValueError where that might not hold a sum.
        """
        whole = exact_integers(values)
        if whole.dtype == np.int64:
            check_no_overflow(
                whole, self._most_cells, lambda sizes: self._sums(sizes).reshape(-1, self.rows), lambda i: self.names[i]
            )
        return self._sums(whole)

    def _sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
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
        """Spread answers of shape ``(..., *shape)`` back onto the cells they are sums of, ``(..., *table)``.

        Nothing is added up: each cell is in one answer.
        """
        answers = exact_integers(answers)
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

    def labels_at(self, row: int) -> tuple[Label, ...]:
        """The labels of one answer along each dimension of the answer."""
        index = np.unravel_index(row, self.shape)
        return tuple(labels[int(i)] for labels, i in zip(self.answer_labels, index, strict=True)) or ("total",)

    @property
    def negative(self) -> Mask:
        """Which answers some cell counts negatively in: none."""
        return np.zeros(self.rows, dtype=np.bool_)

    @property
    def counting(self) -> Mask:
        """Which answers count the records of some cells, each once, in whole units: all."""
        return np.ones(self.rows, dtype=np.bool_)

    @property
    def described(self) -> str:
        """The part in a few words."""
        return (
            f"{self.rows} answer{'s' * (self.rows > 1)} by {printable(' × '.join(self.keep))}"
            if self.keep
            else "grand total"
        )


def kept_names(value: str | Iterable[str], argument: str) -> tuple[str, ...]:
    """A list of names; a single name may be given bare, as in xarray."""
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        instance(name, str, f"{argument} must be names of dimensions or group labels", quoted=True)
    if len(set(names)) < len(names):
        raise ValueError(f"{argument} names a dimension twice: {shown(names)}")
    return names


@dataclass(frozen=True, eq=False)
class MatrixPart:
    """Any integer linear map of the cells, one named answer a row; answers are counted in multiples of `unit`."""

    frame: Frame
    matrix: sp.csr_array
    names: Sequence[str]
    unit: Fraction = ONE

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

    def name(self, row: int) -> str:
        """The name of one answer."""
        return self.names[row]

    @property
    def answer_labels(self) -> tuple[tuple[Label, ...], ...]:
        """The names of the rows."""
        return (tuple(self.names),)

    @cached_property
    def _largest_weights(self) -> tuple[int, int]:
        """Bounds on the sum of the absolute weights of one answer, and of one cell."""
        most = largest_size(self.matrix.data)
        row, cell = (int(np.diff(matrix.indptr).max(initial=0)) for matrix in (self.matrix, self.matrix.tocsc()))
        return most * row, most * cell

    def apply(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Map values of shape ``(..., *table)`` to answers of shape ``(..., rows)``.

        Integers are added up exactly, in int64; ValueError where that might not hold a sum.
        """
        lead = values.shape[: values.ndim - len(self.frame.shape)]
        flat = exact_integers(values.reshape(-1, self.frame.size))
        answers = exact_product(self.matrix, flat, self._largest_weights[0], self.name)
        return answers.reshape(*lead, self.rows)

    def adjoint(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Map answers of shape ``(..., rows)`` back to cells by the transposed matrix, exactly as `apply` does."""
        flat = exact_integers(answers.reshape(-1, self.rows))
        cells = exact_product(sp.csr_array(self.matrix.T), flat, self._largest_weights[1], self.frame.cell_name)
        return cells.reshape(*answers.shape[:-1], *self.frame.shape)

    def describe(self) -> dict[str, Any]:
        """The part as plain data: coordinates of the non-zero entries."""
        entries = self.matrix.tocoo()
        described: dict[str, Any] = {
            "rows": [int(i) for i in entries.row],
            "cells": [int(j) for j in entries.col],
            "entries": [int(v) for v in entries.data],
            "names": list(self.names),
        }
        return described if self.unit == ONE else {**described, "unit": str(self.unit)}

    def labels_at(self, row: int) -> tuple[Label, ...]:
        """The label of one answer: its name."""
        return (self.names[row],)

    @property
    def negative(self) -> Mask:
        """Which answers some cell counts negatively in."""
        return self._rows_with(self.matrix.data < 0)

    @property
    def counting(self) -> Mask:
        """Which answers count the records of some cells, each once, in whole units."""
        return ~self._rows_with(self.matrix.data != 1) & (self.unit == ONE)

    def _rows_with(self, entries: Mask) -> Mask:
        found = np.zeros(self.rows, dtype=np.bool_)
        found[self.matrix.tocoo().row[entries]] = True
        return found

    @property
    def described(self) -> str:
        """The part in a few words."""
        unit = "" if self.unit == ONE else f" in units of {shown_unit(self.unit)}"
        return f"{self.rows} linear combination{'s' * (self.rows > 1)}{unit}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, MatrixPart)
            and self.frame == other.frame
            and self.unit == other.unit
            and self.matrix.shape == other.matrix.shape
            and self.matrix.nnz == other.matrix.nnz
            and not (self.matrix != other.matrix).nnz
            and (self.names == other.names or list(self.names) == list(other.names))
        )

    def __hash__(self) -> int:
        return hash((self.frame, self.matrix.shape, self.matrix.nnz))


def part_from_entries(
    frame: Frame, rows: Any, cells: Any, entries: Any, names: Sequence[str], unit: Fraction = ONE
) -> MatrixPart:
    """The part with the given coordinates of non-zero entries, checked: they come from files."""
    row, cell, entry = (integer_array(v, a) for v, a in ((rows, "rows"), (cells, "cells"), (entries, "entries")))
    if not row.shape == cell.shape == entry.shape or row.ndim != 1:
        raise ValueError("rows, cells and entries of a query matrix must be lists of one length")
    if row.size and (row.min() < 0 or row.max() >= len(names) or cell.min() < 0 or cell.max() >= frame.size):
        raise ValueError(f"entries of a query matrix must lie in {len(names)} rows and {frame.size} cells")
    return checked_part(frame, row, cell, entry, names, unit)


def checked_part(
    frame: Frame,
    rows: npt.NDArray[Any],
    cells: npt.NDArray[Any],
    entries: Ints,
    names: Sequence[str],
    unit: Fraction = ONE,
) -> MatrixPart:
    """The part of a matrix with these non-zero entries (those of one place add up), and of names that are distinct strings."""
    listed = list(names)
    for name in listed:
        instance(name, str, "names must be strings", quoted=True)
    if len(set(listed)) < len(listed):
        raise ValueError(f"names of the rows must be distinct, got {shown(sorted(listed))}")
    shape = (len(listed), frame.size)
    # Entries of one place are added up here, in int64: their absolute values must add up to a weight that is allowed.
    sizes = sp.csr_array((np.abs(entries.astype(np.float64)), (rows, cells)), shape=shape)
    sizes.sum_duplicates()
    if sizes.nnz and float(sizes.data.max()) >= MAX_COUNT:
        raise ValueError("weights of a query that are stated for one row and cell must add up to less than 2**53")
    matrix = sp.csr_array((entries, (rows, cells)), shape=shape, dtype=np.int64)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return MatrixPart(frame, matrix, listed, unit)


def rows_of(matrix: sp.csr_array) -> Iterator[tuple[bytes, bytes]]:
    """The cells of each row of a matrix and their weights, as keys that are equal where rows are."""
    merged = matrix.copy()
    merged.sum_duplicates()
    merged.eliminate_zeros()
    cells, weights = merged.indices.astype(np.int64), merged.data.astype(np.int64)
    for start, end in zip(merged.indptr[:-1].tolist(), merged.indptr[1:].tolist(), strict=True):
        yield cells[start:end].tobytes(), weights[start:end].tobytes()


def combined_answers(matrix: sp.csr_array, part: SumPart) -> tuple[sp.csr_array, Mask]:
    """Each row of a matrix as a combination of the answers of a part, shape ``(rows, answers)``, and whether it is one."""
    spread = part.matrix
    weights = sp.csr_array(matrix @ spread.T)
    weights.data //= np.bincount(part.row_of_cell, minlength=part.rows)[weights.indices]
    return weights, np.diff(sp.csr_array(weights @ spread != matrix).indptr) == 0
