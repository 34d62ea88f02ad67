"""Labels of single answers of a query, as tuples: a joined name cannot be taken apart, as labels may hold what joins it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bayesdp.frames import Label
from bayesdp.queries.query import Part, Query
from bayesdp.queries.sum_part import SumPart

__all__ = ["answer_labels"]


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
