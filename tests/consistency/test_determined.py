"""Answers that exact values leave no choice: against ranks in exact arithmetic, and against all tables of small fibers."""

from __future__ import annotations

from itertools import product

import numpy as np
from flint import fmpz_mat

import bayesdp as bdp
from bayesdp.consistency import determined_answers
from bayesdp.fibers import Fiber
from bayesdp.queries import Query, SumPart

TABLE = {
    "leaf": ["a", "b", "c", "d"],
    "county": ("leaf", ["u", "v", "v", "v"]),
    "other": ("leaf", ["p", "p", "q", "q"]),
    "k": ["x", "y", "z"],
    "group": ("k", ["g", "h", "h"]),
}
FRAME = bdp.Frame.of(TABLE)
EVERY = [
    Query(FRAME, (SumPart(FRAME, tuple(name for name in keep if name)),))
    for keep in product(("leaf", "county", "other", None), ("k", "group", None))
]


def _rank(rows):
    return fmpz_mat(rows.astype(int).tolist()).rank() if len(rows) else 0


def test_they_are_in_the_space_of_the_exact_rows():
    """Any sums, labels that cross and weights among them, and cells that are known besides: 60 sets, 3,000 answers and more."""
    asked = sum(EVERY[1:], EVERY[0]) + bdp.LinearQuery(
        FRAME, np.eye(12, dtype=int)[:3] - np.eye(12, dtype=int)[1:4], ["u", "v", "w"]
    )
    matrix, several = asked.matrix.toarray(), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = rng.poisson(3.0, FRAME.shape)
        stated = [EVERY[i] for i in rng.choice(len(EVERY), rng.integers(0, 4), replace=False)]
        if seed % 3 == 0:
            weights = rng.integers(-2, 4, (2, FRAME.size)) * 10 ** rng.integers(0, 6)
            stated.append(bdp.LinearQuery(FRAME, [*weights, np.eye(12, dtype=int)[seed % 12]], ["p", "q", "one"]))
        known = rng.random(FRAME.shape) < 0.4 if seed % 2 else None
        rows = np.concatenate([np.zeros((0, 12)), *(own.matrix.toarray() for own in stated)])
        if known is not None:
            rows = np.concatenate([rows, np.eye(12)[known.reshape(-1)]])
        rank = _rank(rows)
        expected = [_rank(np.concatenate([rows, row[None]])) == rank for row in matrix]
        exact = [bdp.Exact(own, own.apply(truth)) for own in stated]
        assert determined_answers(asked, exact, known).tolist() == expected
        several += sum(expected)
    assert several > 500


def test_with_the_cells_that_nonnegativity_determines_they_are_all_that_are_constant():
    """2 x 3 tables with zeros, margins and limits, by enumeration; what is said to be determined is, and nothing is missed."""
    frame = bdp.Frame.of({"r": ["a", "b"], "c": ["x", "y", "z"]})
    tables = np.array(list(product(range(5), repeat=6))).reshape(-1, 2, 3)
    margins = [bdp.Margins(frame, ["r"]), bdp.Margins(frame, ["c"]), bdp.Totals(frame)]
    queries = [
        *margins,
        bdp.Identity(frame),
        bdp.LinearQuery(frame, [[1, 0, 0, 1, 1, 0], [1, -1, 0, 0, 0, 0]], ["p", "q"]),
    ]
    fixed = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = rng.poisson(0.7, (2, 3)).clip(0, 2)
        exact = [bdp.Exact(own, own.apply(truth)) for own in margins if rng.random() < 0.6] + [
            bdp.Exact(bdp.Margins(frame, ["r"]), bdp.Margins(frame, ["r"]).apply(truth) + 1, "<=")
        ]
        cells = np.flatnonzero(rng.random(6) < 0.2)
        if len(cells):
            known = bdp.LinearQuery(frame, np.eye(6, dtype=int)[cells], [f"cell {i}" for i in cells])
            exact.append(bdp.Exact(known, truth.reshape(-1)[cells]))
        fiber = Fiber.of(exact)
        members = tables[fiber.members(tables)]
        for query in queries:
            answers = query.apply(members).reshape(len(members), -1)
            expected = (answers == answers[0]).all(axis=0)
            found = determined_answers(query, exact, fiber.determined())
            np.testing.assert_array_equal(found, expected)
            fixed += int(found.sum())
    assert fixed > 300
