"""Labels of single answers of a query, as tuples: a joined name cannot be taken apart, as labels may hold what joins it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from bayesdp.frames import Label
from bayesdp.queries.matrix_part import MatrixPart
from bayesdp.queries.query import Part, Query
from bayesdp.queries.sum_part import SumPart
from bayesdp.queries.units import ONE


def answer_labels(query: Query, rows: Iterable[int]) -> list[tuple[Label, ...]]:
    """The labels of some answers of a query along each of its dimensions.

    Parameters
    ----------
    query : Query
    rows : iterable of int
        Places of the answers.

    Returns
    -------
    list of tuple
        One label a kept dimension; for linear combinations and the grand total their name alone.

    Raises
    ------
    IndexError
        If the query has no such answer.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> query = Margins({"age, years": ["0, 1", "2, 3"], "sex": ["F", "M"]}, ["age, years"], [])
    >>> answer_labels(query, [1, 2])
    [('2, 3',), ('total',)]
    """
    return [_labels(*_part(query, int(row))) for row in rows]


def _labels(part: Part, place: int) -> tuple[Label, ...]:
    if isinstance(part, SumPart) and part.keep:
        index = np.unravel_index(place, part.shape)
        return tuple(own[int(i)] for own, i in zip(part.answer_labels, index, strict=True))
    return (part.names[place],)


def _part(query: Query, row: int) -> tuple[Part, int]:
    """The part that an answer is of, and its place in it."""
    place = row
    for part in query.parts:
        if 0 <= place < part.rows:
            return part, place
        place -= part.rows
    raise IndexError(f"row must be from 0 to {query.rows - 1}, got {row}")


def rows_of(matrix: sp.csr_array) -> Iterator[tuple[bytes, bytes]]:
    """The cells of each row of a matrix and their weights, as keys that are equal where rows are.

    Examples
    --------
    >>> one, two = rows_of(sp.csr_array([[1, 0, 1], [0, 2, 0]]))
    >>> list(rows_of(sp.csr_array([[0, 2, 0]]))) == [two]
    True
    """
    own = matrix.copy()
    own.sum_duplicates()
    own.eliminate_zeros()
    cells, weights = own.indices.astype(np.int64), own.data.astype(np.int64)
    for start, end in zip(own.indptr[:-1].tolist(), own.indptr[1:].tolist(), strict=True):
        yield cells[start:end].tobytes(), weights[start:end].tobytes()


def sets_of_records(query: Query) -> npt.NDArray[np.bool_]:
    """Which answers count the records of some cells, each of them once: no other weights than 1, in whole units.

    Examples
    --------
    >>> from bayesdp.queries import LinearQuery, Totals
    >>> two = LinearQuery({"sex": ["F", "M"]}, [[1, 0], [1, -1]], ["women", "difference"])
    >>> sets_of_records(two + Totals({"sex": ["F", "M"]})).tolist()
    [True, False, True]
    """
    found = []
    for part in query.parts:
        if isinstance(part, MatrixPart):
            weights = sp.csr_array(part.matrix)
            others = sp.csr_array((weights.data != 1, weights.indices, weights.indptr), weights.shape).sum(axis=1)
            found.append((np.asarray(others).reshape(-1) == 0) & (part.unit == ONE))
        else:
            found.append(np.ones(part.rows, dtype=np.bool_))
    return np.concatenate(found)
