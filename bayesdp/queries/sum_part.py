"""Sums of the cells that share labels: a part of a query that needs no matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import shown
from bayesdp.frames import Frame, Label
from bayesdp.queries.exact_sums import check_no_overflow, exact_integers


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
        return self._row_of_cell()

    def _row_of_cell(self) -> npt.NDArray[np.int64]:
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


def kept_names(value: str | Iterable[str], argument: str) -> tuple[str, ...]:
    """A list of names; a single name may be given bare, as in xarray."""
    names = (value,) if isinstance(value, str) else tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{argument} must be names of dimensions or group labels, got {name!r}")
    if len(set(names)) < len(names):
        raise ValueError(f"{argument} names a dimension twice: {shown(names)}")
    return names
