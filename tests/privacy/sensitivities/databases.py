"""All databases of a few records, record by record: what the tables of the package are compared with."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations, product

import numpy as np
import numpy.typing as npt

from bayesdp.fibers import Fiber
from bayesdp.measurements import Exact
from bayesdp.queries import LinearQuery, Query

type Ints = npt.NDArray[np.int64]


def exact_of(table: npt.ArrayLike, queries: tuple[Query, ...]) -> list[Exact]:
    return [Exact(query, query.apply(np.asarray(table))) for query in queries]


def fiber_of(table: npt.ArrayLike, *queries: Query) -> Fiber:
    return Fiber.of(exact_of(table, queries))


def tables_of(cells: int, records: int) -> Ints:
    """All tables of so many records, flat."""
    pairs = combinations_with_replacement(range(cells), records)
    return np.array([np.bincount(own, minlength=cells) for own in pairs])


def weighted(rows: list[list[int]]) -> LinearQuery:
    return LinearQuery({"cell": range(len(rows[0]))}, rows, [f"sum {i}" for i in range(len(rows))])


def neighbours_of(cells: int, kind: str) -> Ints:
    """All differences of neighbouring tables, flat."""
    unit = np.eye(cells, dtype=np.int64)
    return np.array([*unit, *-unit] if kind == "add-remove" else [u - v for u, v in permutations(unit, 2)])


def changes_by_pairs(query: Query, exact: Query, adjacency: int) -> Ints:
    """All differences of answers other than zero; records that two tables share may be left out of both."""
    tables = tables_of(query.frame.size, adjacency)
    kept, answers = tables @ exact.matrix.toarray().T, tables @ query.matrix.toarray().T
    found: set[tuple[int, ...]] = {(0,) * query.rows}
    for key in np.unique(kept, axis=0):
        own = np.unique(answers[np.all(kept == key, axis=1)], axis=0)
        found |= set(map(tuple, (own[:, None] - own[None]).reshape(-1, query.rows).tolist()))
    return np.array(sorted(found - {(0,) * query.rows})).reshape(-1, query.rows)


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
