"""Exact answers as rows over cells: equalities, limits of rows, limits of single cells."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp._validate import no_table
from bayesdp.fibers.kernel.state import UNBOUNDED
from bayesdp.frames import Frame
from bayesdp.queries import Query
from bayesdp.queries.exact_sums import exact_product, largest_size

__all__ = ["System"]

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
                matrix, flat = query.matrix, values.reshape(-1)
                counts = np.diff(matrix.indptr)
                for row in np.flatnonzero(counts <= 1).tolist():
                    empty = _single(frame, query.answer_name(row), matrix, row, int(flat[row]), sign, lower, upper)
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


def _single(
    frame: Frame, name: str, matrix: sp.csr_array, row: int, value: int, sign: str, lower: Ints, upper: Ints
) -> int | None:
    """Turn a row with one cell (or none) into limits of that cell, in place; the cell if nothing is left for it."""
    start, end = matrix.indptr[row], matrix.indptr[row + 1]
    if start == end:
        if (sign == "=" and value != 0) or (sign == ">=" and value > 0) or (sign == "<=" and value < 0):
            raise ValueError(no_table([f"{name} {sign} {value}"]) + " (the answer adds up no cell, so it is 0)")
        return None
    cell, entry = int(matrix.indices[start]), int(matrix.data[start])
    low, high = 0, UNBOUNDED
    if sign == "=":
        if value % entry:
            reason = f" (the answer is {entry} times the cell {frame.cell_name(cell)}, and no whole number fits)"
            raise ValueError(no_table([f"{name} = {value}"]) + reason)
        low = high = value // entry
    elif (sign == ">=") == (entry > 0):
        low = -((-value) // entry)  # ceiling
    else:
        high = value // entry
    lower[cell], upper[cell] = max(int(lower[cell]), low), min(int(upper[cell]), high)
    return cell if lower[cell] > upper[cell] or high < 0 else None


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
