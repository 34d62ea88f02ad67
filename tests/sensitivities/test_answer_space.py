"""Sensitivity spaces of random queries under random invariants, against all pairs of tables of as many records as may change."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from bayesdp.frames import Frame
from bayesdp.privacy import SensitivitySpace
from bayesdp.queries import LinearQuery, Margins, Query, Totals

type Ints = npt.NDArray[np.int64]


def tables_of(cells: int, records: int) -> Ints:
    """All tables of so many records."""
    if cells == 1:
        return np.array([[records]])
    found = []
    for k in range(records + 1):
        rest = tables_of(cells - 1, records - k)
        found.append(np.column_stack([np.full(len(rest), k), rest]))
    return np.concatenate(found)


def changes_by_pairs(query: Query, exact: Query, adjacency: int) -> Ints:
    """All differences of answers other than zero; records that two tables share may be left out of both."""
    tables = tables_of(query.frame.size, adjacency)
    kept, answers = tables @ exact.matrix.toarray().T, tables @ query.matrix.toarray().T
    found: set[tuple[int, ...]] = {(0,) * query.rows}
    for key in np.unique(kept, axis=0):
        own = np.unique(answers[np.all(kept == key, axis=1)], axis=0)
        found |= set(map(tuple, (own[:, None] - own[None]).reshape(-1, query.rows).tolist()))
    return np.array(sorted(found - {(0,) * query.rows})).reshape(-1, query.rows)


def random_frame(rng: np.random.Generator) -> tuple[Frame, dict[str, list[str]]]:
    """Two or three dimensions, some of them with groups of labels; and what a sum may keep of each."""
    shape = rng.choice([2, 3, 4] if rng.random() < 0.5 else [2, 3], size=2).tolist() + [2] * int(rng.integers(2))
    groups = [
        (f"{name} of {dim}", dim, tuple(f"k{code}" for code in rng.integers(0, 2, size)))
        for dim, size in zip("abc", shape, strict=False)
        for name in ("one", "other")
        if rng.random() < 0.4
    ]
    frame = Frame(tuple("abc"[: len(shape)]), tuple(tuple(range(size)) for size in shape), tuple(groups))
    return frame, {dim: [dim, *(name for name, of, _ in groups if of == dim)] for dim in frame.dims}


def random_sums(rng: np.random.Generator, frame: Frame, names: dict[str, list[str]], count: int) -> Query:
    """So many sums, or fewer, with labels of each dimension, of a group of them, or none."""
    kept: list[list[str]] = []
    for _ in range(count):
        own = [str(rng.choice(levels)) for levels in names.values() if rng.random() < 0.6]
        if own and own not in kept:
            kept.append(own)
    return Margins(frame, *kept) if kept else Totals(frame)


@pytest.mark.parametrize("asked", ["a sum", "sums", "any"])
def test_the_space_of_random_queries_is_that_of_all_pairs_of_tables(asked: str) -> None:
    rng = np.random.default_rng({"a sum": 3, "sums": 4, "any": 5}[asked])
    short = 0
    for _ in range(60):
        frame, names = random_frame(rng)
        exact = random_sums(rng, frame, names, int(rng.integers(1, 4)))
        if asked == "any":
            query: Query = LinearQuery(frame, rng.integers(-2, 3, (2, frame.size)), ["u", "v"])
        else:
            query = random_sums(rng, frame, names, 1 if asked == "a sum" else 2)
        adjacency = int(rng.integers(1, 4 if frame.size < 10 else 3))
        space = SensitivitySpace.semi(exact, adjacency, query)
        changes = changes_by_pairs(query, exact, adjacency)
        own = np.concatenate([space.differences, -space.differences])
        case = (exact.describe(), query.describe(), adjacency)
        assert sorted(own.tolist()) == changes.tolist(), case
        for order, norm in ((1, "l1"), (2, "l2"), (np.inf, "linf")):
            largest = max((np.linalg.norm(change, order) for change in changes), default=0.0)
            assert space.delta(norm) == pytest.approx(largest, abs=1e-12), case
        assert space.rank == (np.linalg.matrix_rank(changes.astype(float)) if len(changes) else 0), case
        short += space.is_of_answers and not query.is_identity and len(changes) > 0
    assert (short >= 8) == (asked == "a sum")  # many of them by differences of the answers alone, without the table
