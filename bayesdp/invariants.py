"""Invariants: a stack of exact queries, and the linear algebra of what they leave free."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from flint import fmpz_mat

from bayesdp._arrays import Floats, Ints
from bayesdp._nested import NestedSums
from bayesdp.frames import Frame
from bayesdp.queries import LinearQuery, Query, SumPart

__all__ = ["COORDINATE_RULES", "Invariants"]


COORDINATE_RULES = ("helmert-1", "echelon-1")
"""How orthonormal coordinates of a null space are chosen; see `Invariants.coordinate_rule`."""

_DENSE_CELLS = 4000
"""Above this many cells, orthonormal coordinates (a dense matrix) are refused."""

type Relations = tuple[list[Query], Frame]
"""Exact queries of the answers, none if the answers are free, and the labels of the answers."""

_WRITTEN_OUT = 6
"""Relations between more answers than this are named by a number."""

_IMAGE_CELLS = 2000
"""Stacked or general queries: above this many answers, or distinct columns, relations between answers are refused."""


@dataclass(frozen=True, eq=False)
class Invariants:
    """The exact queries of a release as one linear map ``A``, and the space ``null(A)`` that they leave free.

    Margins and totals, in any number, are handled by their structure: nothing of size cells x cells is ever built.
    Redundant rows are allowed (all sets of two margins have one).

    Parameters
    ----------
    queries : Query, iterable of Query, or None
        What is published exactly. None (with `frame`) for no invariants.
    frame : object, optional
        Labels of the table; needed only without queries.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    >>> both = Invariants(Margins(table, ["county"], ["education"]))
    >>> both.rank, both.dimension
    (4, 2)
    """

    query: Query

    def __init__(self, queries: Query | Iterable[Query] | None = None, frame: Any = None) -> None:
        listed = [] if queries is None else [queries] if isinstance(queries, Query) else list(queries)
        for query in listed:
            if not isinstance(query, Query):
                raise TypeError(f"queries must be Margins, Totals, LinearQuery ..., got {type(query).__name__}")
        if not listed and frame is None:
            raise ValueError("without queries, Invariants needs the frame of the table")
        frame = Frame.of(frame) if frame is not None else listed[0].frame
        for query in listed:
            if not query.frame.same_cells(frame):
                raise ValueError("all invariants must be about the same table (same dimensions and labels)")
        parts = tuple(dict.fromkeys(part for query in listed for part in query.parts))
        object.__setattr__(self, "query", Query(frame, parts))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Invariants) and self.query == other.query

    def __hash__(self) -> int:
        return hash(("invariants", self.query))

    def __getstate__(self) -> dict[str, Query]:
        # Without what was computed from it: a sparse factor cannot be pickled.
        return {"query": self.query}

    @property
    def frame(self) -> Frame:
        """Labels of the table."""
        return self.query.frame

    @cached_property
    def nested(self) -> NestedSums | None:
        """The closed-form structure where all queries are nested sums; None for general matrices."""
        parts = [part for part in self.query.parts if isinstance(part, SumPart)]
        if not parts or len(parts) < len(self.query.parts):
            return None
        return NestedSums.of(parts)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """``A`` as a sparse int64 matrix, rows by cells."""
        if not self.query.parts:
            return sp.csr_array((0, self.frame.size), dtype=np.int64)
        return self.query.matrix

    @cached_property
    def rank(self) -> int:
        """Rank of ``A``, exact."""
        if not self.query.parts:
            return 0
        if self.nested is not None:
            return self.nested.rank
        return len(self.independent_rows)

    @cached_property
    def independent_rows(self) -> Ints:
        """Rows of ``A`` that form a basis of its row space (general matrices; exact integer arithmetic)."""
        # The pivots of the reduced echelon form of the transpose are the first rows not spanned by earlier ones. Cells with equal
        # columns add nothing to the rank: one of each is enough.
        used = np.flatnonzero(np.diff(self.matrix.tocsc().indptr))
        if not used.size:
            return np.zeros(0, dtype=np.int64)
        columns = np.unique(self.matrix[:, used].toarray(), axis=1)
        reduced, _, rank = fmpz_mat(columns.T.astype(int).tolist()).rref()
        return np.array(echelon_pivots(reduced, rank), dtype=np.int64)

    @property
    def dimension(self) -> int:
        """Dimension of ``null(A)``: the degrees of freedom that the invariants leave."""
        return self.frame.size - self.rank

    @cached_property
    def blocks(self) -> Ints | None:
        """For disjoint totals: the block of each cell, -1 for cells in none; None for other invariants."""
        if not self.query.parts:
            return np.full(self.frame.size, -1, dtype=np.int64)
        if self.nested is not None:
            if len(self.nested.generators) != 1:
                return None
            top = self.nested.generators[0]
            return next(part.row_of_cell for part in self.nested.parts if self.nested.level_of(part) == top)
        columns = self.matrix.tocsc()
        if np.any(np.diff(columns.indptr) > 1) or np.any(columns.data != 1):
            return None
        block = np.full(self.frame.size, -1, dtype=np.int64)
        block[np.repeat(np.arange(self.frame.size), np.diff(columns.indptr))] = columns.indices
        return block

    @cached_property
    def _gram_solver(self) -> Any:
        rows = sp.csr_array(self.matrix[self.independent_rows]).astype(np.float64)
        return rows, spl.splu(sp.csc_matrix(rows @ rows.T))

    def project(self, values: npt.ArrayLike) -> Floats:
        """Project values of shape ``(..., *table)`` orthogonally onto ``null(A)``: remove everything that the invariants see.

        Examples
        --------
        >>> from bayesdp.queries import Totals
        >>> Invariants(Totals({"county": ["Alpha", "Beta"]})).project([1.0, 3.0])
        array([-1.,  1.])
        """
        array = self._table(values)
        if not self.rank:
            return array.copy()
        if self.nested is not None:
            return self.nested.project_null(array)
        rows, solver = self._gram_solver
        flat = array.reshape(-1, self.frame.size).T
        return np.asarray((flat - rows.T @ solver.solve(rows @ flat)).T).reshape(array.shape)

    @cached_property
    def _dense_basis(self) -> Floats:
        if self.frame.size > _DENSE_CELLS:
            raise ValueError(
                f"orthonormal coordinates of general invariants need a dense matrix; the table has {self.frame.size} cells, "
                f"more than {_DENSE_CELLS}. State the invariants as Margins or Totals, which need none"
            )
        return _echelon_basis(self.matrix, self.independent_rows)

    @property
    def coordinate_rule(self) -> str:
        """The rule that fixes the orthonormal coordinates: published with noise that is a product in them.

        ``helmert-1`` (margins and totals): nested weighted Helmert contrasts, coarse levels first, in C order of the
        dimensions. ``echelon-1`` (other matrices): the vectors of the null space with a 1 in one free cell and 0 in the
        other free cells, in their order, orthonormalised by Gram and Schmidt; free cells are those without a pivot in the
        reduced row echelon form of ``A``. Both are the same on every machine.
        """
        return "helmert-1" if self.nested is not None else "echelon-1"

    def coordinates(self, values: npt.ArrayLike) -> Floats:
        """Orthonormal coordinates ``Q^T values`` in ``null(A)``, shape ``(..., dimension)``, chosen by `coordinate_rule`."""
        array = self._table(values)
        if self.nested is not None:
            return self.nested.coordinates(array)
        lead = array.shape[: array.ndim - len(self.frame.shape)]
        return array.reshape(*lead, -1) @ self._dense_basis

    def from_coordinates(self, coordinates: npt.ArrayLike) -> Floats:
        """The table ``Q c`` in ``null(A)`` with the given orthonormal coordinates, shape ``(..., *table)``."""
        array = np.asarray(coordinates, dtype=np.float64)
        if array.shape[-1:] != (self.dimension,):
            raise ValueError(f"coordinates must have shape (..., {self.dimension}), got {array.shape}")
        if self.nested is not None:
            return self.nested.from_coordinates(array)
        return np.asarray(array @ self._dense_basis.T).reshape(*array.shape[:-1], *self.frame.shape)

    def _table(self, values: npt.ArrayLike) -> Floats:
        array = np.asarray(values, dtype=np.float64)
        if array.shape[max(array.ndim - len(self.frame.shape), 0) :] != self.frame.shape:
            raise ValueError(f"values must have shape (..., {self.frame.shape}), got {array.shape}")
        return array

    def is_null(self, values: npt.ArrayLike) -> bool:
        """Whether integer values (one table) change no invariant, exactly."""
        array = np.asarray(values)
        if array.dtype.kind not in "iu":
            raise TypeError(f"values must be integers, got dtype {array.dtype}")
        return all(not np.any(part.apply(array)) for part in self.query.parts)

    def through(self, query: Query) -> Invariants:
        """The linear relations between the answers of a query that these invariants make exact.

        Noise that is added to the answers of a query ``W`` of the same table and respects the invariants lives on ``W null(A)``.
        That is again a null space: of all ``b`` with ``W^T b`` in the row space of ``A``, the combinations of answers that the
        invariants determine. What is known about noise on a table thus holds for noise on any query.

        Returns
        -------
        Invariants
            On the answers: their labels for a single margin or total, else one dimension ``answer``. Relations that the
            answers have with one another anyway (a stack of a margin and its total) are among them.

        Raises
        ------
        NotImplementedError
            If stacked or general queries have too many answers for exact dense algebra.

        Examples
        --------
        >>> from bayesdp.queries import Margins
        >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
        >>> both = Invariants(Margins(table, ["county"], ["education"]))
        >>> both.through(Margins(table, ["county"])).dimension
        0
        >>> Invariants(Margins(table, ["education"])).through(Margins(table, ["county"])).dimension
        2
        """
        if not query.frame.same_cells(self.frame):
            raise ValueError("query must be about the table of the invariants (same dimensions and labels)")
        if query.is_identity:
            return self
        queries, frame = _sums_through(self.query, query) or _matrix_through(self.matrix, query)
        return Invariants(queries, frame)

    def describe(self) -> dict[str, Any]:
        """The invariants as plain data, without the frame."""
        return self.query.describe()

    @classmethod
    def from_description(cls, description: Mapping[str, Any], frame: Frame) -> Invariants:
        """Rebuild from `describe`."""
        return cls(Query.from_description(description, frame), frame)

    def __repr__(self) -> str:
        size = f"{self.matrix.shape[0]} rows, rank {self.rank}, {self.dimension} free dimensions of {self.frame.size} cells"
        return f"<Invariants: {size}>"


def echelon_pivots(echelon: fmpz_mat, rank: int) -> list[int]:
    """The pivots of a reduced row echelon form: the first columns that do not depend on earlier ones."""
    pivots: list[int] = []
    for row in range(rank):
        start = pivots[-1] + 1 if pivots else 0
        pivots.append(next(j for j in range(start, echelon.ncols()) if echelon[row, j] != 0))
    return pivots


def _echelon_basis(matrix: sp.csr_array, independent: Ints) -> Floats:
    """Orthonormal basis of the null space by the rule ``echelon-1`` of `Invariants.coordinate_rule`, shape (cells, n)."""
    cells = matrix.shape[1]
    if not len(independent):
        return np.eye(cells)
    echelon, denominator, rank = fmpz_mat(matrix[independent].toarray().astype(int).tolist()).rref()
    reduced = np.array([[int(v) for v in row] for row in echelon.tolist()], dtype=object) / int(denominator)
    pivots = echelon_pivots(echelon, rank)
    free = np.setdiff1d(np.arange(cells), pivots)
    kernel = np.zeros((cells, len(free)))
    kernel[free, np.arange(len(free))] = 1.0
    kernel[pivots] = -reduced[:, free].astype(np.float64)
    basis, triangle = np.linalg.qr(kernel)
    # The sign that Gram and Schmidt would give: unique, whatever the linear algebra library.
    return np.asarray(basis * np.sign(np.diag(triangle)))


def _sums_through(invariants: Query, query: Query) -> Relations | None:
    """A single sum under invariants that are sums nested with it: the coarser of both labels, dimension by dimension."""
    # Tables of the row space are sums of tables that are constant on the classes of one part. Functions that are constant on nested
    # classes form a distributive lattice, so that the answers constant on the coarser classes are all that both have in common.
    [asked, *others] = query.parts
    parts = [part for part in invariants.parts if isinstance(part, SumPart)]
    if others or not isinstance(asked, SumPart) or not asked.keep or len(parts) < len(invariants.parts):
        return None
    if NestedSums.of([*parts, asked]) is None:
        return None
    groups: dict[str, tuple[str, str, tuple[Any, ...]]] = {}
    kept: list[tuple[str, ...]] = []
    for part in parts:
        keep: list[str] = []
        for ours, theirs, code, coarse in zip(asked.levels, part.levels, asked.codes, part.codes, strict=True):
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
    frame = Frame(asked.keep, asked.answer_labels, tuple(groups.values()))
    return [Query(frame, (SumPart(frame, keep),)) for keep in kept], frame


def _matrix_through(matrix: sp.csr_array, query: Query) -> Relations:
    """Exact integer algebra: the left kernel of ``W`` on a basis of the null space."""
    frame = query.answer_frame or Frame(("answer",), (tuple(query.names),))
    both = sp.csc_array(sp.vstack([matrix, query.matrix]))
    # Cells with equal columns differ by a vector of the null space that the query does not see: the first of each will do.
    keys = row_keys(sp.csr_array(both.T))
    columns = sorted(dict(zip(reversed(keys), reversed(range(len(keys))), strict=True)).values())
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
            return _stated(fmpz_mat(np.eye(frame.size, dtype=int).tolist()), frame)
        asked = asked * fmpz_mat([row[:nullity] for row in kernel.tolist()])
    left, count = asked.transpose().nullspace()
    if not count:
        return [], frame
    return _stated(fmpz_mat([row[:count] for row in left.tolist()]).transpose().lll(), frame)


def _stated(relations: fmpz_mat, frame: Frame) -> Relations:
    entries = _entries(relations)
    return [LinearQuery(frame, entries, _relation_names(entries, frame))], frame


def row_keys(matrix: sp.csr_array) -> list[bytes]:
    """A key for each row of a sparse matrix, the same for the same row."""
    rows = sp.csr_array(matrix, copy=True)
    rows.sort_indices()
    indices, data = rows.indices.astype(np.int64), rows.data.astype(np.float64)
    return [indices[first:last].tobytes() + data[first:last].tobytes() for first, last in pairwise(rows.indptr)]


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


def _relation_names(entries: Ints, frame: Frame) -> list[str]:
    """Short relations written out (``county=Alpha + county=Beta - total``), long ones counted."""
    names: list[str] = []
    for number, row in enumerate(entries, start=1):
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
