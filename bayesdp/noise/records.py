"""Answers about the same records, which laws of cell keys perturb once: sums of cells that differ in empty cells only.

An office of this kind gives each record a key, and perturbs an answer by the keys of its records. So the sums A and B have one
perturbation where the table x is 0 in the cells that are in one of them only. That is an equivalence of answers given x: the class of
an answer is its set of cells that are not empty. The published numbers y have the probability

    prod over classes c of 1{all y of c are equal} p(y_c | x_c),

where equal x_c follow. An answer without records has no key of records; what offices do with it (categories of the cell as
keys, or no perturbation) differs by cell, so that it is a class by itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.queries import Query, sets_of_records

type Ints = npt.NDArray[np.int64]


def shared_laws(parts: Sequence[tuple[Any, Query]]) -> list[Ints]:
    """For each law and query, which answers may share a perturbation: equal numbers from 1 for equal laws, 0 for those that do not.

    Answers share where their law says so and they count records of cells once each, not weighted.
    """
    numbers: dict[Any, int] = {}
    found = []
    for law, query in parts:
        own = np.zeros(query.rows, dtype=np.int64)
        if law.same_cell_same_value and query.rows:
            sets = np.flatnonzero(sets_of_records(query))
            if law.of_answer(0, query.shape) is law:
                own[sets] = numbers.setdefault(law, len(numbers) + 1)
            else:
                own[sets] = [numbers.setdefault(law.of_answer(int(i), query.shape), len(numbers) + 1) for i in sets]
        found.append(own)
    return found


def _records(query: Query, law: Ints, table: Ints) -> Iterator[tuple[int, Hashable]]:
    """Place and class of each answer of a query that may share a perturbation and has records."""
    matrix = query.matrix
    for place in np.flatnonzero(law):
        cells = np.sort(matrix.indices[matrix.indptr[place] : matrix.indptr[place + 1]])
        held = cells[table[cells] != 0]
        if held.size:
            yield int(place), (int(law[place]), held.tobytes())


def share_by_records(law: Any, queries: Sequence[Query], drawn: Sequence[npt.NDArray[Any]], table: Ints) -> None:
    """Give all answers about the same records the number of the first one, in place."""
    first: dict[Hashable, Any] = {}
    for query, shared, values in zip(queries, shared_laws([(law, own) for own in queries]), drawn, strict=True):
        flat = values.reshape(-1)
        for place, records in _records(query, shared, table):
            flat[place] = first.setdefault(records, flat[place])
        values[...] = flat.reshape(values.shape)
