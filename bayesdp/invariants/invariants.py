"""Invariants: a stack of exact queries, and the linear algebra of what they leave free."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
import scipy.sparse.linalg as spl

from bayesdp._nested import NestedSums
from bayesdp.frames import Frame
from bayesdp.invariants.general import check_dense, echelon_basis, independent_rows
from bayesdp.invariants.relations import matrix_through, sums_through
from bayesdp.queries import Query, SumPart

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

COORDINATE_RULES = ("helmert-1", "echelon-1")
"""How orthonormal coordinates of a null space are chosen; see `Invariants.coordinate_rule`."""


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

    Raises
    ------
    ValueError
        If the queries are not all about the same table.

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
        """Rows of ``A`` that form a basis of its row space (general matrices; exact integer arithmetic).

        The pivots of the reduced echelon form of the transpose are the first rows not spanned by earlier ones.
        """
        return independent_rows(self.matrix)

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

    @property
    def is_disjoint_totals(self) -> bool:
        """Whether the invariants are sums over sets of cells that do not overlap."""
        return self.blocks is not None

    @cached_property
    def _gram_solver(self) -> Any:
        rows = sp.csr_array(self.matrix[self.independent_rows]).astype(np.float64)
        return rows, spl.splu(sp.csc_matrix(rows @ rows.T))

    def project(self, values: npt.ArrayLike) -> Floats:
        """Project orthogonally onto ``null(A)``: remove everything that the invariants see.

        Parameters
        ----------
        values : array_like, shape ``(..., *table)``

        Returns
        -------
        numpy.ndarray
            Float64, of the same shape.

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
        check_dense(self.frame.size)
        return echelon_basis(self.matrix, self.independent_rows)

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
        """Orthonormal coordinates ``Q^T values`` in ``null(A)``, shape ``(..., dimension)``.

        They are chosen by `coordinate_rule`.
        """
        array = self._table(values)
        if self.nested is not None:
            return self.nested.coordinates(array)
        return array.reshape(*self._lead(array), -1) @ self._dense_basis

    def from_coordinates(self, coordinates: npt.ArrayLike) -> Floats:
        """The table ``Q c`` in ``null(A)`` with the given orthonormal coordinates, shape ``(..., *table)``."""
        array = np.asarray(coordinates, dtype=np.float64)
        if array.shape[-1:] != (self.dimension,):
            raise ValueError(f"coordinates must have shape (..., {self.dimension}), got {array.shape}")
        if self.nested is not None:
            return self.nested.from_coordinates(array)
        return np.asarray(array @ self._dense_basis.T).reshape(*array.shape[:-1], *self.frame.shape)

    def _lead(self, array: Floats) -> tuple[int, ...]:
        return array.shape[: array.ndim - len(self.frame.shape)]

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

        Noise that is added to the answers of a query ``W`` and respects the invariants lives on ``W null(A)``. That is
        again a null space: of all ``b`` with ``W^T b`` in the row space of ``A``, the combinations of answers that the
        invariants determine. What is known about noise on a table thus holds for noise on any query.

        Parameters
        ----------
        query : Query
            Of the same table.

        Returns
        -------
        Invariants
            On the answers: their labels for a single margin or total, else one dimension ``answer``. Relations that the
            answers have with one another anyway (a stack of a margin and its total) are among them.

        Raises
        ------
        ValueError
            If the query is about another table.
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
        queries, frame = sums_through(self.query, query) or matrix_through(self.matrix, query)
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
