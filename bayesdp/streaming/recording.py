"""Answers of queries to a table that moves, computed from its leaves and cells without a matrix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._numba import nb
from bayesdp._validate import shown
from bayesdp.composition import CELLS
from bayesdp.frames import Frame
from bayesdp.hierarchies.structure import Tree
from bayesdp.queries import MatrixPart, Query, SumPart

type Ints = npt.NDArray[np.int64]

type Occupied = tuple[Ints, Ints, Ints]
"""Leaves, places in the leaf and counts of the cells of a table that are not zero."""


def named_queries(
    record: Query | Mapping[str, Query] | Iterable[Query], frame: Frame, taken: Iterable[str]
) -> dict[str, Query]:
    """The queries whose draws are kept, by name."""
    # `record`: without names they are called by what they keep: `by_county_race`, `total`, or `answers` for stacks. `frame`: of the
    # table that they must be about. `taken`: names of hyperparameters.
    given: list[tuple[Any, Any]]
    asked: Any = record  # what a caller without types may give
    if isinstance(asked, Query):
        given = [(None, asked)]
    elif isinstance(asked, Mapping):
        given = list(asked.items())
    elif isinstance(asked, str) or not isinstance(asked, Iterable):
        raise TypeError(f"record must be queries, in a list or by name, got {asked!r}")
    else:
        given = [(None, own) for own in asked]
    found: dict[str, Query] = {}
    used = {*frame.dims, *(name for name, _, _ in frame.groups), *taken, "chain", "draw", CELLS}
    for key, query in given:
        if not isinstance(query, Query):
            raise TypeError(f"record must hold queries (bdp.Margins, bdp.Totals, bdp.Identity), got {query!r}")
        if not query.frame.same_cells(frame):
            raise ValueError(
                f"record: {query!r} is about a table with the dimensions {shown(query.frame.dims)}, not about the release's "
                f"({shown(frame.dims)}) with its labels; build it with release.frame"
            )
        name = _name_of(query) if key is None else key
        if not isinstance(name, str) or not name:
            raise TypeError(f"record: names of queries must be strings that are not empty, got {name!r}")
        if key is None and name in found:
            raise ValueError(
                f"record: two queries are called {name!r}; give them names, record={{'first': ..., 'second': ...}}"
            )
        if name in used:
            raise ValueError(
                f"record: the name {name!r} is that of a dimension, a group label, a hyperparameter or the summaries of cells; choose "
                "another"
            )
        found[name] = query
    return found


def _name_of(query: Query) -> str:
    if len(query.parts) > 1 or not isinstance(query.parts[0], SumPart):
        return "answers"
    return "by_" + "_".join(query.dims) if query.dims else "total"


class Recorder:
    """Keeps the answers of a query for every draw."""

    # `answers`: shape (draws, rows).

    def __init__(self, query: Query, tree: Tree, draws: int) -> None:
        self.answers = np.zeros((draws, query.rows), dtype=np.int64)
        self._sums: list[tuple[slice, Ints, Ints]] = []
        self._rows: list[tuple[int, Ints, Ints, Ints]] = []
        for part, rows in query.placed_parts:
            if isinstance(part, SumPart):
                self._sums.append((rows, *_row_of(part, tree)))
            else:
                self._rows.append((rows.start, *_entries(part, tree)))

    def take(self, counts: Ints, draw: int, cells: Occupied | None = None) -> None:
        """Keep the answers for a table, leaves by cells; `cells` is `occupied(counts)`, where several queries need it."""
        if self._sums:
            found = occupied(counts) if cells is None else cells
            for part, of_leaf, of_cell in self._sums:
                _add_sums(*found, of_leaf, of_cell, self.answers[draw, part])
        for start, pointers, where, entries in self._rows:
            _add_rows(counts, pointers, where, entries, self.answers[draw, start:])


def _row_of(part: SumPart, tree: Tree) -> tuple[Ints, Ints]:
    """The answer that a cell counts in, as a sum of a number of its leaf and a number of its place in the leaf."""
    shape = part.frame.shape
    stride, of_leaf = 1, np.zeros(len(tree.order), dtype=np.int64)
    of_cell = np.zeros([n for axis, n in enumerate(shape) if axis != tree.axis] or [1], dtype=np.int64)
    for axis in reversed(range(len(shape))):
        if part.levels[axis] is None:
            continue
        codes = part.codes[axis]
        if axis == tree.axis:
            of_leaf = codes[tree.order] * stride
        else:
            place = axis - (axis > tree.axis)
            of_cell = of_cell + stride * codes.reshape([-1 if i == place else 1 for i in range(of_cell.ndim)])
        stride *= int(codes.max()) + 1
    return of_leaf, np.ascontiguousarray(of_cell.reshape(-1))


def _entries(part: MatrixPart, tree: Tree) -> tuple[Ints, Ints, Ints]:
    """The rows of a part with weights, and where their cells are in the table, leaves by cells."""
    matrix = part.matrix
    place = np.empty(part.frame.size, dtype=np.int64)
    flat = np.asarray(tree.leaves_by_cells(np.arange(part.frame.size))).reshape(-1)
    place[flat] = np.arange(part.frame.size)
    return matrix.indptr.astype(np.int64), place[matrix.indices], matrix.data.astype(np.int64)


@nb.njit(cache=True, nogil=True)
def occupied(counts: Ints) -> Occupied:
    """The cells that are not zero, found once for all queries: most cells of a large table are empty."""
    size = np.count_nonzero(counts)
    leaf, cell, count = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    i = 0
    for t in range(counts.shape[0]):
        for c in range(counts.shape[1]):
            if counts[t, c] != 0:
                leaf[i], cell[i], count[i] = t, c, counts[t, c]
                i += 1
    return leaf, cell, count


@nb.njit(cache=True, nogil=True)
def _add_sums(leaf: Ints, cell: Ints, count: Ints, of_leaf: Ints, of_cell: Ints, answers: Ints) -> None:
    for i in range(len(leaf)):
        answers[of_leaf[leaf[i]] + of_cell[cell[i]]] += count[i]


@nb.njit(cache=True, nogil=True)
def _add_rows(counts: Ints, pointers: Ints, where: Ints, entries: Ints, answers: Ints) -> None:
    flat = counts.reshape(-1)
    for row in range(len(pointers) - 1):
        for i in range(pointers[row], pointers[row + 1]):
            answers[row] += entries[i] * flat[where[i]]
