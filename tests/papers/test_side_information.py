"""Side information, against lists of all databases in which the known persons stay what they are."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.fibers import Fiber
from bayesdp.measurements import Exact
from bayesdp.papers.semi_dp import side_information
from bayesdp.privacy import semi_adjacency
from bayesdp.queries import LinearQuery, Margins, Query, Totals
from tests.sensitivities.databases import conforming, distances_from

SQUARE = {"r": [0, 1, 2], "c": [0, 1]}
CUBE = {"a": [0, 1], "b": [0, 1], "c": [0, 1]}
KINDS: dict[str, tuple[tuple[int, ...], tuple[Query, ...]]] = {
    "both margins": ((3, 2), (Margins(SQUARE, ["r"], ["c"]),)),
    "the total": ((3, 2), (Totals(SQUARE),)),
    "a chain": ((2, 2, 2), (Margins(CUBE, ["a", "b"], ["b", "c"]),)),
    "all pairs": ((2, 2, 2), (Margins(CUBE, ["a", "b"], ["b", "c"], ["a", "c"]),)),
    "weights": ((3, 2), (Totals(SQUARE), LinearQuery(SQUARE, [[0, 1, 2, 3, 1, 1]], ["w"]))),
}


def exact_of(table: np.ndarray, queries: tuple[Query, ...]) -> list[Exact]:
    return [Exact(query, query.apply(table)) for query in queries]


@pytest.mark.parametrize("name", KINDS)
def test_everything_by_all_databases(name: str) -> None:
    shape, queries = KINDS[name]
    rng = np.random.default_rng(len(name))
    shares = set()
    for n, k in [(4, 0), (4, 1), (4, 2), (4, 3), (5, 3)] * 2:
        cells = rng.integers(0, np.prod(shape), size=n)
        table = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
        # The last k persons are known.
        database, known = cells, tuple(cells[n - k :].tolist())
        before = conforming(table, queries)
        claimable = np.unique(before[:, 0])
        if len(claimable) < 2:
            continue
        after = conforming(table, queries, known)
        counted = np.bincount(np.array(known, dtype=np.int64), minlength=table.size).reshape(shape)
        adjacency = 2
        own = side_information(exact_of(table, queries), table, counted, adjacency)
        at = {int(cell): row.tolist() for cell, row in zip(own.cells, own.distances, strict=True)}
        alone, kept, farthest = 0, 0, 0
        for person in range(n - k):
            expected = distances_from(database, person, after, table.size)
            assert at[int(database[person])] == expected.tolist()
            near = [d for d in expected if 0 < d <= adjacency]
            alone, kept, farthest = alone + (not near), kept + len(near), max(farthest, int(expected.max()))
        assert own.unprotected == pytest.approx(alone / (n - k))
        assert own.claims == pytest.approx(kept / ((n - k) * (len(claimable) - 1)))
        assert np.flatnonzero(own.claimable).tolist() == claimable.tolist()
        assert (own.known, own.remaining) == (k, n - k)
        # Definition 13 over the databases that the adversary still has to reckon with.
        worst = 0
        for one in after:
            worst = max(worst, *(int(distances_from(one, i, after, table.size).max()) for i in range(n - k)))
        assert own.parameter.worst == worst >= farthest
        assert own.loss({"rho": 0.5}) == (None if not worst else {"rho": 0.5 * worst**2})
        shares.add(round(own.unprotected, 3))
    # With the total only, everybody can be everything. One record of a given weight may still have two cells.
    assert len(shares) > 1 or name in ("the total", "weights")


def test_nothing_known_is_the_semi_adjacent_parameter() -> None:
    table = np.array([[4, 1], [2, 3], [0, 2]])
    exact = exact_of(table, KINDS["both margins"][1])
    own = side_information(exact, table, np.zeros_like(table))
    assert (own.adjacency, own.parameter.worst, own.unprotected, own.claims) == (3, 3, 0.0, 1.0)
    assert own.adjacency == semi_adjacency(exact).worst


def test_a_table_of_real_size() -> None:
    rng = np.random.default_rng(1)
    frame = {"r": list(range(20)), "c": list(range(15)), "s": [0, 1]}
    table = rng.poisson(0.5, size=(20, 15, 2))
    margins = Margins(frame, ["r", "s"], ["c", "s"])
    exact, last = exact_of(table, (margins,)), np.zeros_like(table)
    last[tuple(np.argwhere(table)[0])] = 1
    nothing, all_but_one = (side_information(exact, table, known) for known in (0 * table, table - last))
    assert (nothing.unprotected, nothing.claims) == (0.0, 1.0)
    assert (all_but_one.unprotected, all_but_one.claims) == (1.0, 0.0)


def test_bad_input() -> None:
    table = np.array([[2, 1], [1, 1]])
    pair = {"r": [0, 1], "c": [0, 1]}
    exact = exact_of(table, (Margins(pair, ["r"], ["c"]),))
    zero = np.zeros_like(table)
    with pytest.raises(ValueError, match="known must not have more records than the table"):
        side_information(exact, table, [[0, 2], [0, 0]])
    with pytest.raises(ValueError, match="known must leave at least one record"):
        side_information(exact, table, table)
    with pytest.raises(ValueError, match=r"known must have shape \(2, 2\)"):
        side_information(exact, table, [0, 0])
    with pytest.raises(ValueError, match="table must have shape"):
        side_information(exact, table + 1, zero)
    alone = np.array([[3, 0], [0, 0]])
    with pytest.raises(ValueError, match="nothing to protect"):
        side_information(exact_of(alone, (Margins(pair, ["r"], ["c"]),)), alone, zero)
    wide = {"a": list(range(6)), "b": list(range(6)), "c": list(range(6))}
    large = np.random.default_rng(1).poisson(2.0, size=(6, 6, 6))
    with pytest.raises(NotImplementedError, match="junction tree"):
        side_information(exact_of(large, (Margins(wide, ["a", "b"], ["b", "c"], ["a", "c"]),)), large, 0 * large, 4)
    open_ = LinearQuery({"cell": [0, 1]}, [[1, 2]], ["w"])
    with pytest.raises(ValueError, match="must fix the number of records"):
        side_information([Exact(open_, [4])], [2, 1], [0, 0])
    limited = Fiber.of([*exact, Exact(LinearQuery(pair, [[1, 0, 0, 0]], ["first"]), [1], sign=">=")])
    assert side_information(limited, table, [[1, 0], [0, 0]]).remaining == 4
