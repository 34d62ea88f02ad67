"""How far tables of a fiber are apart, by parts and a knapsack: against all pairs of tables of enumerated fibers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayesdp.fibers import Fiber
from bayesdp.fibers.fiber import enumerate_fiber
from bayesdp.measurements import Exact
from bayesdp.privacy import SensitivitySpace
from bayesdp.queries import LinearQuery, Margins, Query, Totals
from bayesdp.sensitivities import space as module
from bayesdp.sensitivities.space import realised_lengths

STRATA = {"stratum": range(3), "a": range(2), "b": range(3)}
SQUARE = {"a": range(3), "b": range(3)}
CASES: dict[str, tuple[Query, float]] = {
    "a total": (Totals(SQUARE), 0.4),
    "totals of strata": (Totals(STRATA, by="stratum"), 0.15),
    "both margins": (Margins(SQUARE, ["a"], ["b"]), 0.7),
    "margins in strata, 2 x 3": (Margins(STRATA, ["stratum", "a"], ["stratum", "b"]), 0.5),
    "margins in strata, 2 x 2": (
        Margins({"stratum": range(4), "a": range(2), "b": range(2)}, ["stratum", "a"], ["stratum", "b"]),
        0.8,
    ),
    "one-way margins": (Margins({"a": range(2), "b": range(2), "c": range(2)}, ["a"], ["b"], ["c"]), 0.3),
    "all pairs": (
        Margins({"a": range(3), "b": range(3), "c": range(2)}, ["a", "b"], ["b", "c"], ["a", "c"]),
        0.8,
    ),
    "overlapping": (
        LinearQuery(
            {"cell": range(6)}, [[1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]], ["u", "v", "all"]
        ),
        1.0,
    ),
    "a line of steps of 2 and 1": (
        LinearQuery({"cell": range(3)}, [[1, 1, 1], [0, 1, 2]], ["all", "weighted"]),
        3.0,
    ),
}


def of_pairs(fiber: Fiber, a: int) -> list[tuple[float, float, float]]:
    """For k = 1, ..., a the largest norms of all differences of two tables at most k records apart."""
    tables = enumerate_fiber(fiber).reshape(-1, fiber.frame.size)
    best = np.zeros((a + 1, 3))
    for x in tables:
        z = tables - x
        records = np.abs(z).sum(axis=1) // 2
        for norm, size in enumerate((np.abs(z).sum(axis=1), (z * z).sum(axis=1), np.abs(z).max(axis=1))):
            np.maximum.at(best[:, norm], records[records <= a], size[records <= a])
    best = np.maximum.accumulate(best)
    return [(l1, math.sqrt(squared), most) for l1, squared, most in best.tolist()]


@pytest.mark.parametrize("name", CASES)
def test_norms_are_those_of_all_pairs_of_tables(name: str) -> None:
    query, mean = CASES[name]
    rng = np.random.default_rng(11)
    moved = 0
    for _ in range(4):
        counts = rng.poisson(mean, size=query.frame.shape)
        fiber = Fiber.of([Exact(query, query.apply(counts))])
        truth = of_pairs(fiber, 5)
        moved += truth[-1][0] > 0
        for a in (1, 2, 3, 5):
            assert realised_lengths(fiber, a) == pytest.approx(truth[a], rel=1e-14), (counts.tolist(), a)
    assert moved  # some fibers have several tables


def test_a_sensitivity_space_of_a_fiber_uses_them_and_agrees_with_its_list() -> None:
    query, _ = CASES["margins in strata, 2 x 3"]
    counts = np.zeros((3, 2, 3), dtype=np.int64)
    counts[0] = [[1, 0, 2], [0, 1, 1]]
    counts[1] = [[1, 0, 0], [0, 1, 0]]
    fiber = Fiber.of([Exact(query, query.apply(counts))])
    for a in (2, 3):
        space = SensitivitySpace.semi(query, a, realised_in=fiber)
        z = space.table_differences
        for norm, order in (("l1", 1), ("l2", 2), ("linf", np.inf)):
            assert space.delta(norm) == pytest.approx(max(np.linalg.norm(own, order) for own in z))


def test_large_tables_take_no_list() -> None:
    table = {"stratum": range(200), "a": range(5), "b": range(5)}
    query = Margins(table, ["stratum", "a"], ["stratum", "b"])
    counts = np.zeros((200, 5, 5), dtype=np.int64)
    counts[:, [0, 1], [0, 1]] = 1
    fiber = Fiber.of([Exact(query, query.apply(counts))])
    assert realised_lengths(fiber, 3) == (4.0, 2.0, 1.0)
    assert realised_lengths(fiber, 7) == (12.0, math.sqrt(12.0), 1.0)  # three strata
    with pytest.raises(ValueError, match="too many to list"):
        SensitivitySpace.semi(query, 3).delta("l2")


def test_what_takes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    query, _ = CASES["all pairs"]
    large = Fiber.of([Exact(query, query.apply(np.full((3, 3, 2), 9)))])
    monkeypatch.setattr(module, "_TABLES", 5)
    with pytest.raises(NotImplementedError, match="by listing its tables"):
        realised_lengths(large, 5)
    monkeypatch.undo()
    many = Margins({"s": range(3), "a": range(3), "b": range(3)}, ["s", "a"], ["s", "b"])
    monkeypatch.setattr(module, "_KINDS", 1)
    counts = np.stack([np.diag([own, 1, 1]) for own in (2, 3, 4)])
    with pytest.raises(NotImplementedError, match="more than 1 different parts"):
        realised_lengths(Fiber.of([Exact(many, many.apply(counts))]), 4)
    alone = LinearQuery({"cell": range(3)}, [[1, 1, 0]], ["two"])
    with pytest.raises(NotImplementedError, match="determine the number of records"):
        realised_lengths(Fiber.of([Exact(alone, [2])]), 1)
