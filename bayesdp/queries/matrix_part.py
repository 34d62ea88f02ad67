"""Any integer linear map of the cells: a part of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import MAX_COUNT, integer_array, shown
from bayesdp.frames import Frame, Label
from bayesdp.queries.exact_sums import exact_integers, exact_product, largest_size
from bayesdp.queries.units import ONE


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
        row, cell = (int(np.diff(own.indptr).max(initial=0)) for own in (self.matrix, self.matrix.tocsc()))
        return most * row, most * cell

    def apply(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Map values of shape ``(..., *table)`` to answers of shape ``(..., rows)``.

        Integers are added up exactly, in int64; ValueError where that might not hold a sum.
        """
        lead = values.shape[: values.ndim - len(self.frame.shape)]
        flat = exact_integers(values.reshape(-1, self.frame.size))
        answers = _product(self.matrix, flat, self._largest_weights[0], self.name)
        return answers.reshape(*lead, self.rows)

    def adjoint(self, answers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Map answers of shape ``(..., rows)`` back to cells by the transposed matrix, exactly as `apply` does."""
        flat = exact_integers(answers.reshape(-1, self.rows))
        cells = _product(sp.csr_array(self.matrix.T), flat, self._largest_weights[1], self.frame.cell_name)
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


def _product(
    matrix: sp.csr_array, flat: npt.NDArray[Any], largest_weight: int, name_of: Callable[[int], str]
) -> npt.NDArray[Any]:
    """``matrix`` times each of the vectors of shape ``(many, columns)``: exact for int64, rounded for float64."""
    if flat.dtype == np.int64:
        return exact_product(matrix, flat, largest_weight, name_of)
    return np.asarray((matrix @ flat.T).T)


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
    entries: npt.NDArray[np.int64],
    names: Sequence[str],
    unit: Fraction = ONE,
) -> MatrixPart:
    """The part of a matrix with these non-zero entries (those of one place add up), and of names that are distinct strings."""
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"names must be strings, got {name!r}")
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
