"""Relations between the answers of a query that invariants make exact."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from flint import fmpz_mat

from bayesdp._nested import NestedSums
from bayesdp.frames import Frame
from bayesdp.queries import LinearQuery, Query, SumPart

type Ints = npt.NDArray[np.int64]

type Relations = tuple[list[Query], Frame]
"""Exact queries of the answers, none if the answers are free, and the labels of the answers."""

_WRITTEN_OUT = 6
"""Relations between more answers than this are named by a number."""

_IMAGE_CELLS = 2000
"""Stacked or general queries: above this many answers, or distinct columns, relations between answers are refused."""


def sums_through(invariants: Query, query: Query) -> Relations | None:
    """A single sum under invariants that are sums nested with it: the coarser of both labels, dimension by dimension.

    Tables of the row space are sums of tables that are constant on the classes of one part. Subspaces of functions
    that are constant on nested classes form a distributive lattice, so that the answers constant on the coarser
    classes are all that the row space and the answers have in common.
    """
    [own, *others] = query.parts
    parts = [part for part in invariants.parts if isinstance(part, SumPart)]
    if others or not isinstance(own, SumPart) or not own.keep or len(parts) < len(invariants.parts):
        return None
    if NestedSums.of([*parts, own]) is None:
        return None
    groups: dict[str, tuple[str, str, tuple[Any, ...]]] = {}
    kept: list[tuple[str, ...]] = []
    for part in parts:
        keep: list[str] = []
        for ours, theirs, code, coarse in zip(own.levels, part.levels, own.codes, part.codes, strict=True):
            if ours is None or theirs is None:
                continue
            if int(coarse.max()) >= int(code.max()):
                keep.append(ours)
                continue
            first = [int(np.argmax(code == answer)) for answer in range(int(code.max()) + 1)]
            labels = invariants.frame.group(theirs)[1]
            groups[theirs] = (theirs, ours, tuple(labels[cell] for cell in first))
            keep.append(theirs)
        kept.append(tuple(keep))
    frame = Frame(own.keep, own.answer_labels, tuple(groups.values()))
    return [Query(frame, (SumPart(frame, keep),)) for keep in kept], frame


def matrix_through(matrix: sp.csr_array, query: Query) -> Relations:
    """Exact integer algebra: the left kernel of ``W`` on a basis of the null space."""
    frame = query.answer_frame or Frame(("answer",), (tuple(query.names),))
    both = sp.csc_array(sp.vstack([matrix, query.matrix]))
    # Cells with equal columns differ by a vector of the null space that the query does not see: one of each will do.
    columns = _distinct_columns(both)
    if max(len(columns), frame.size) > _IMAGE_CELLS:
        raise NotImplementedError(
            f"relations between the answers of stacked or general queries are found by exact dense algebra, for at most "
            f"{_IMAGE_CELLS} answers and as many distinct columns; here are {frame.size} answers and {len(columns)} columns. "
            "Ask for one margin or total at a time, which have a closed form"
        )
    dense = both[:, columns].toarray()
    asked = fmpz_mat(dense[matrix.shape[0] :].astype(int).tolist())
    if matrix.nnz:
        kernel, nullity = fmpz_mat(dense[: matrix.shape[0]].astype(int).tolist()).nullspace()
        if not nullity:
            relations = fmpz_mat(np.eye(frame.size, dtype=int).tolist())
            return _stated(relations, frame)
        asked = asked * fmpz_mat([row[:nullity] for row in kernel.tolist()])
    left, count = asked.transpose().nullspace()
    if not count:
        return [], frame
    relations = fmpz_mat([row[:count] for row in left.tolist()]).transpose().lll()
    return _stated(relations, frame)


def _stated(relations: fmpz_mat, frame: Frame) -> Relations:
    return [LinearQuery(frame, _entries(relations), _relation_names(relations, frame))], frame


def _distinct_columns(matrix: sp.csc_array) -> Ints:
    """Positions of the first column of each kind."""
    matrix.sort_indices()
    seen: dict[tuple[bytes, bytes], int] = {}
    for cell in range(matrix.shape[1]):
        own = slice(matrix.indptr[cell], matrix.indptr[cell + 1])
        seen.setdefault((matrix.indices[own].tobytes(), matrix.data[own].tobytes()), cell)
    return np.array(list(seen.values()), dtype=np.int64)


def _entries(relations: fmpz_mat) -> Ints:
    """A matrix of arbitrary integers as int64, each row without a common factor."""
    rows = [[int(v) for v in row] for row in relations.tolist()]
    whole = [[v // (math.gcd(*row) or 1) for v in row] for row in rows]
    if any(abs(v) >= 2**53 for row in whole for v in row):
        raise ValueError(
            "the invariants have relations among one another whose whole-number weights are 2**53 or more, which are not held "
            "exactly: state invariants with smaller weights"
        )
    return np.array(whole, dtype=np.int64)


def _relation_names(relations: fmpz_mat, frame: Frame) -> list[str]:
    """Short relations written out (``county=Alpha + county=Beta - total``), long ones counted."""
    names: list[str] = []
    for number, row in enumerate(_entries(relations), start=1):
        used = np.flatnonzero(row)
        if len(used) > _WRITTEN_OUT:
            names.append(f"relation {number}, of {len(used)} answers")
            continue
        terms = [
            f"{'-' if row[i] < 0 else '+'} {abs(row[i]) if abs(row[i]) != 1 else ''}{frame.cell_name(int(i))}"
            for i in used
        ]
        text = " ".join(terms).removeprefix("+ ").replace("answer=", "")
        names.append(text if text not in names else f"{text} ({number})")
    return names
