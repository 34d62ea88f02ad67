"""Any integer linear map of the cells: a part of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import integer_array, shown
from bayesdp.frames import Frame, Label

__all__ = ["MatrixPart", "checked_part", "part_from_entries"]


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


def part_from_entries(frame: Frame, rows: Any, cells: Any, entries: Any, names: Sequence[str]) -> MatrixPart:
    """The part with the given coordinates of non-zero entries, checked: they come from files."""
    row, cell, entry = (integer_array(v, a) for v, a in ((rows, "rows"), (cells, "cells"), (entries, "entries")))
    if not row.shape == cell.shape == entry.shape or row.ndim != 1:
        raise ValueError("rows, cells and entries of a query matrix must be lists of one length")
    if row.size and (row.min() < 0 or row.max() >= len(names) or cell.min() < 0 or cell.max() >= frame.size):
        raise ValueError(f"entries of a query matrix must lie in {len(names)} rows and {frame.size} cells")
    matrix = sp.csr_array((entry, (row, cell)), shape=(len(names), frame.size), dtype=np.int64)
    return checked_part(frame, matrix, names)


def checked_part(frame: Frame, matrix: sp.csr_array, names: Sequence[str]) -> MatrixPart:
    """The part of a matrix, without entries that are zero or stated twice, and of names that are distinct strings."""
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise TypeError(f"names must be strings, got {name!r}")
    if len(set(listed)) < len(listed):
        raise ValueError(f"names of the rows must be distinct, got {shown(sorted(listed))}")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return MatrixPart(frame, matrix, listed)
