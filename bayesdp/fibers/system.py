"""Exact answers as rows over cells: equalities, limits of rows, limits of single cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import no_table
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.fibers.laminar import Laminar
from bayesdp.frames import Frame
from bayesdp.queries import Query
from bayesdp.queries.parts import exact_product, largest_size

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]
type Answers = Sequence[tuple[Query, Ints]]


@dataclass(frozen=True, eq=False)
class System:
    """Exact answers as linear equalities ``matrix @ x = totals``, limits of sums of cells, and limits of single cells.

    Parameters
    ----------
    frame : Frame
    matrix : sparse int array, shape (rows, cells)
        Equality rows over two or more cells.
    totals : int64 array, shape (rows,)
    names : list of str
        Names of the equality rows.
    limit_matrix : sparse int array, shape (limits, cells)
        Rows over two or more cells with limits.
    limit_lower, limit_upper : float64 arrays, shape (limits,)
        Infinite where there is none.
    limit_names : list of str
    lower, upper : int64 arrays, shape (cells,)
        Limits that are stated of single cells; `UNBOUNDED` above where there is none.
    """

    frame: Frame
    matrix: sp.csr_array
    totals: Ints
    names: list[str]
    limit_matrix: sp.csr_array
    limit_lower: Floats
    limit_upper: Floats
    limit_names: list[str]
    lower: Ints
    upper: Ints

    @cached_property
    def laminar(self) -> Laminar | None:
        """The rows as sets that nest or are disjoint, where they are."""
        rows = sp.csr_array(sp.vstack([self.matrix, self.limit_matrix], format="csr"))
        totals = self.totals.astype(np.float64)
        low, high = np.concatenate([totals, self.limit_lower]), np.concatenate([totals, self.limit_upper])
        return Laminar.of(rows, low, high, self.lower, self.upper)

    @property
    def fixed(self) -> npt.NDArray[np.bool_]:
        """Cells whose value is stated."""
        return np.asarray(self.lower == self.upper)

    def limited_rows(self) -> tuple[sp.csr_array, Floats, Floats]:
        """All rows over two or more cells with their lower and upper limits, the equalities first; float64, as solvers take them."""
        rows = sp.csr_array(sp.vstack([self.matrix, self.limit_matrix], format="csr")).astype(np.float64)
        totals = self.totals.astype(np.float64)
        return rows, np.concatenate([totals, self.limit_lower]), np.concatenate([totals, self.limit_upper])

    @classmethod
    def of(cls, frame: Frame, equal: Answers, below: Answers, above: Answers) -> System:
        """Gather rows; rows over a single cell become limits of that cell.

        Raises
        ------
        ValueError
            If statements about one cell contradict each other or allow no whole number >= 0.
        """
        lower = np.zeros(frame.size, dtype=np.int64)
        upper = np.full(frame.size, UNBOUNDED, dtype=np.int64)
        kept: dict[str, list[tuple[sp.csr_array, Ints, list[str]]]] = {"=": [], ">=": [], "<=": []}
        by_sign = (("=", equal), (">=", below), ("<=", above))
        for sign, answers in by_sign:
            for query, values in answers:
                # Not `query.matrix`, which the query would keep: an entry a cell, of a table that is large as a rule here.
                matrix = sp.csr_array(sp.vstack([part.matrix for part in query.parts], format="csr"))
                flat = values.reshape(-1)
                counts = np.diff(matrix.indptr)
                _check_no_cell(query, flat, np.flatnonzero(counts == 0), sign)
                empty = _single(query, matrix, flat, np.flatnonzero(counts == 1), sign, lower, upper)
                if empty is not None:
                    stated = ((s, query, values) for s, listed in by_sign for query, values in listed)
                    raise ValueError(no_table(_about(empty, stated)))
                several = np.flatnonzero(counts > 1)
                if several.size:
                    kept[sign].append((matrix[several], flat[several], [query.answer_name(int(i)) for i in several]))

        def stack(sign: str) -> tuple[sp.csr_array, Ints, list[str]]:
            if not kept[sign]:
                return sp.csr_array((0, frame.size), dtype=np.int64), np.zeros(0, dtype=np.int64), []
            matrices, totals, names = zip(*kept[sign], strict=True)
            return (
                sp.csr_array(sp.vstack(matrices, format="csr")),
                np.concatenate(totals),
                [n for own in names for n in own],
            )

        matrix, totals, names = stack("=")
        low_matrix, low, low_names = stack(">=")
        high_matrix, high, high_names = stack("<=")
        return cls(
            frame,
            matrix,
            totals,
            names,
            sp.csr_array(sp.vstack([low_matrix, high_matrix], format="csr")),
            np.concatenate([low.astype(np.float64), np.full(len(high), -np.inf)]),
            np.concatenate([np.full(len(low), np.inf), high.astype(np.float64)]),
            low_names + high_names,
            lower,
            upper,
        )

    def free_totals(self) -> Ints:
        """What the equality rows leave for the cells that are not fixed."""
        fixed = np.where(self.fixed, self.lower, 0)
        return np.asarray(self.totals - self.sums(fixed), dtype=np.int64)

    def sums(self, table: Ints) -> Ints:
        """What the equality rows are for a table of shape ``(cells,)``, exactly.

        Raises
        ------
        ValueError
            If int64 might not hold a sum.
        """
        return _sums(self.matrix, table, self.names)

    def limit_sums(self, table: Ints) -> Ints:
        """The same for the rows with limits."""
        return _sums(self.limit_matrix, table, self.limit_names)


def _sums(matrix: sp.csr_array, table: Ints, names: list[str]) -> Ints:
    most = largest_size(matrix.data) * int(np.diff(matrix.indptr).max(initial=0))
    return np.asarray(exact_product(matrix, table[None], most, names.__getitem__)[0])


def _check_no_cell(query: Query, values: Ints, rows: Ints, sign: str) -> None:
    """Rows that add up no cell are 0."""
    own = values[rows]
    wrong = np.flatnonzero(own != 0 if sign == "=" else own > 0 if sign == ">=" else own < 0)
    if wrong.size:
        stated = f"{query.answer_name(int(rows[wrong[0]]))} {sign} {own[wrong[0]]}"
        raise ValueError(no_table([stated]) + " (the answer adds up no cell, so it is 0)")


def _single(
    query: Query, matrix: sp.csr_array, values: Ints, rows: Ints, sign: str, lower: Ints, upper: Ints
) -> int | None:
    """Turn rows with one cell into limits of these cells, in place; a cell for which nothing is left, if there is one."""
    if not rows.size:
        return None
    at = matrix.indptr[rows]
    cell, entry, value = matrix.indices[at], matrix.data[at].astype(np.int64), values[rows]
    down = value // entry
    if sign == "=":
        odd = np.flatnonzero(value % entry)
        if odd.size:
            first = int(odd[0])
            name = query.frame.cell_name(int(cell[first]))
            reason = f" (the answer is {entry[first]} times the cell {name}, and no whole number fits)"
            raise ValueError(no_table([f"{query.answer_name(int(rows[first]))} = {value[first]}"]) + reason)
        low = high = down
    else:
        from_below = (entry > 0) == (sign == ">=")
        low = np.where(from_below, -((-value) // entry), 0)  # ceiling
        high = np.where(from_below, UNBOUNDED, down)
    np.maximum.at(lower, cell, low)
    np.minimum.at(upper, cell, high)
    wrong = np.flatnonzero((lower[cell] > upper[cell]) | (high < 0))
    return int(cell[wrong[0]]) if wrong.size else None


def _about(cell: int, stated: Iterable[tuple[str, Query, Ints]]) -> list[str]:
    """What is stated of a single cell."""
    found = []
    for sign, query, values in stated:
        matrix, flat = query.matrix, values.reshape(-1)
        counts = np.diff(matrix.indptr)
        for row in np.flatnonzero(counts == 1):
            if matrix.indices[matrix.indptr[row]] == cell:
                found.append(f"{query.answer_name(int(row))} {sign} {flat[row]}")
    return list(dict.fromkeys(found))
