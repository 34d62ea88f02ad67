"""Answers that exact values leave no choice: those that no random table which the exact values do not see can move."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import lsqr

from bayesdp._nested import NestedSums
from bayesdp.consistency._general import equalities
from bayesdp.frames import Frame
from bayesdp.measurements import Exact
from bayesdp.queries import MatrixPart, Query, SumPart

type Floats = npt.NDArray[np.float64]
type Mask = npt.NDArray[np.bool_]

_MOST_ENTRIES = 2 * 10**7
"""Of larger matrices of exact values, only sums over nested labels are looked at, without cells that are known besides."""

_ZERO = 1e-8
"""Of the length of an answer's weights: three random tables of normal numbers move one that varies by less once in 1e12 times."""


def determined_answers(query: Query, exact: Iterable[Exact], known: Mask | None = None) -> Mask:
    """Which answers follow from equal exact ones by adding and subtracting, and from cells that are known for whatever reason."""
    # All are found; of exact values with more than 20 million terms, those that follow from nested sums, or from known cells.
    listed = tuple(exact)
    if known is None and not any(True for _ in equalities(listed)):
        return np.zeros(query.rows, dtype=np.bool_)
    return unmoved(query, *unseen_tables(query.frame, listed, known))


def unseen_tables(frame: Frame, exact: Iterable[Exact], known: Mask | None = None) -> tuple[Floats, Mask]:
    """Three random tables that equal exact answers do not see, shape (3, cells), and the cells that are known, shape (cells,)."""
    cells = np.zeros(frame.size, dtype=np.bool_) if known is None else np.array(known, dtype=np.bool_).reshape(-1)
    parts = list(dict.fromkeys(part for part, _ in equalities(exact)))
    for part in [part for part in parts if isinstance(part, MatrixPart)]:
        alone = (
            np.diff(part.matrix.indptr) == 1
        )  # what only says what single cells are leaves the structure of sums as it is
        cells[part.matrix[np.flatnonzero(alone)].indices] = True
        if alone.all():
            parts.remove(part)
    make = _unseen if frame.size <= 10**6 else _unseen.__wrapped__  # kept, as one summary asks about many queries
    return make(Query(frame, tuple(parts)), np.packbits(cells).tobytes()), cells


def unmoved(query: Query, tables: Floats, cells: Mask) -> Mask:
    """Which answers random tables do not move, or are about known cells only."""
    found = [np.zeros(0, dtype=np.bool_)]
    for own in query.parts:
        moved = np.abs(_answers(own, tables)).max(axis=1)
        squares = _answers(own, np.stack([np.ones(cells.size), ~cells]), 2)
        found.append((moved <= _ZERO * np.sqrt(squares[:, 0])) | (squares[:, 1] == 0.0))
    return np.concatenate(found)


def _answers(part: SumPart | MatrixPart, tables: Floats, power: int = 1) -> Floats:
    """Answers about tables, shape (tables, cells), by the weights or a power of them: shape (rows, tables)."""
    if isinstance(part, SumPart):
        return (
            np.asarray(part.apply(tables.reshape(-1, *part.frame.shape)), dtype=np.float64).reshape(len(tables), -1).T
        )
    return np.asarray(part.matrix.astype(np.float64).power(power) @ tables.T)


@lru_cache(maxsize=4)
def _unseen(stated: Query, known: bytes) -> Floats:
    """Three random tables that the stated sums do not see and that are 0 in known cells, shape (3, cells)."""
    frame = stated.frame
    open_ = np.unpackbits(np.frombuffer(known, np.uint8), count=frame.size) == 0
    tables = np.random.default_rng(0).standard_normal((3, *frame.shape))
    sums = [part for part in stated.parts if isinstance(part, SumPart)]
    nested = NestedSums.of(sums) if sums else None
    large = frame.size * len(stated.parts) > _MOST_ENTRIES
    if nested is not None and (large or (open_.all() and len(sums) == len(stated.parts))):
        return nested.project_null(tables).reshape(3, -1)
    flat = tables.reshape(3, -1)
    if stated.parts and not large:
        coarse = [part for part in sums if nested is not None and nested.level_of(part) not in nested.generators]
        parts = tuple(part for part in stated.parts if part not in coarse)  # sums of other sums say nothing new
        matrix = Query(frame, parts).matrix.astype(np.float64)
        pattern = abs(matrix).sign()
        while (alone := pattern @ open_ == 1.0).any():  # a cell that is alone in a sum is known with it
            open_ &= alone.astype(np.float64) @ pattern == 0.0
        lengths = np.sqrt(matrix.multiply(matrix).sum(axis=1))
        back = sp.csr_array((sp.diags_array(1.0 / np.where(lengths > 0.0, lengths, 1.0)) @ matrix[:, open_]).T)
        for _ in range(2):  # the second time takes away what rounding left
            seen = [lsqr(back, own, atol=1e-13, btol=1e-13)[0] for own in flat[:, open_]]
            flat[:, open_] -= (back @ np.stack(seen, axis=1)).T
    return np.where(open_, flat, 0.0)
