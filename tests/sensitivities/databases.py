"""All databases of a few records, record by record: what the tables of the package are compared with."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt

from bayesdp.queries import Query

type Ints = npt.NDArray[np.int64]


def conforming(table: Ints, queries: tuple[Query, ...], known: tuple[int, ...] = ()) -> Ints:
    """Every database (persons in columns) with the answers of `table`; the last persons have the known cells."""
    cells, n = table.size, int(table.sum()) - len(known)
    asked = np.concatenate([query.matrix.toarray() for query in queries])
    everything = np.array(list(product(range(cells), repeat=n)), dtype=np.int64).reshape(-1, n)
    everything = np.concatenate([everything, np.tile(np.array(known, dtype=np.int64), (len(everything), 1))], axis=1)
    answers = asked.T[everything].sum(axis=1)
    return everything[np.all(answers == asked @ table.reshape(-1), axis=1)]


def distances_from(database: Ints, person: int, databases: Ints, cells: int) -> Ints:
    """The least number of persons who change if this one says each cell; -1 where no database has it."""
    apart = np.sum(databases != database, axis=1)
    says = databases[:, person]
    return np.array([apart[says == y].min() if np.any(says == y) else -1 for y in range(cells)])
