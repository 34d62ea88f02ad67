"""How lattices fall into parts, and sums over them."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import General, Line, Table, lattice_parts
from bayesdp.lattices.sums import l1_log_sum
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.lattices.oracles import BLOCKS, CASES, LOOSE, labels, lattice_points, one_way, two_way_margins

CAMPUS = {"a": range(4), "b": range(3), "c": range(5)}
STATES = {"county": range(6), "education": range(3), "state": ("county", list("xxxyyy"))}


def shown(invariants: Invariants) -> list[object]:
    return [
        "line"
        if isinstance(part, Line)
        else (tuple(sorted(part.shape)), part.copies)
        if isinstance(part, Table)
        else "general"
        for part in lattice_parts(invariants)
    ]


@pytest.mark.parametrize(
    ("invariants", "expected"),
    [
        (BLOCKS, [((3,), 1), "line"]),
        (LOOSE, ["line", ((3,), 1)]),
        (one_way(2, 2), ["line"]),
        (one_way(2, 4), [((4,), 2)]),
        (one_way(5, 3), [((3, 5), 1)]),
        (two_way_margins(3, 4, 5), [((3, 4, 5), 1)]),
        (two_way_margins(3, 2, 5), [((3, 5), 2)]),
        (two_way_margins(2, 2, 5), [((5,), 4)]),
        (one_way(3, 3, 3), ["general"]),
        (Invariants(Margins(CAMPUS, ["a", "c"], ["b", "c"])), [((3, 4), 1)] * 5),
        (Invariants(Margins(STATES, ["county"], ["state", "education"], ["education"])), [((3, 3), 1)] * 2),
        (Invariants([Totals(STATES), Margins(STATES, ["county"])]), [((3,), 1)] * 6),
        (Invariants(Margins(labels(1, 4), ["a"], ["b"])), []),
        (Invariants(LinearQuery(labels(5), [[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], list("xyz"))), ["line", ((3,), 1)]),
        (Invariants(LinearQuery(labels(4), [[1, 1, 1, 0], [1, 0, -1, 1]], list("xy"))), ["general"]),
    ],
)  # fmt: skip
def test_the_kinds_of_part(invariants, expected):
    found = sorted(map(str, shown(invariants)))
    assert found == sorted(map(str, expected))


@pytest.mark.parametrize(
    "invariants", [*(c for c, _ in CASES.values()), two_way_margins(2, 4, 3), one_way(4, 3)], ids=repr
)
def test_parts_share_no_cell_and_add_up(invariants):
    parts = lattice_parts(invariants)
    cells = np.concatenate([part.cells.ravel() for part in parts])
    assert len(np.unique(cells)) == len(cells)
    dimension = 0
    for part in parts:
        one = np.zeros(invariants.frame.size, dtype=np.int64)
        if isinstance(part, Line):
            one[part.cells] = part.entries
            dimension += 1
        elif isinstance(part, Table):
            # A product of differences of random labels keeps all sums over one way at zero.
            table = np.ones((), dtype=np.int64)
            for size in part.shape:
                difference = np.zeros(size, dtype=np.int64)
                difference[0], difference[size - 1] = 1, -1
                table = np.multiply.outer(table, difference)
            one[part.cells] = part.signs * table
            dimension += int(np.prod([size - 1 for size in part.shape]))
        else:
            dimension += part.cells.size - np.linalg.matrix_rank(part.matrix.toarray())
        assert invariants.is_null(one.reshape(invariants.frame.shape))
    assert dimension == invariants.dimension


def test_what_looks_like_a_table_with_three_ways_but_is_none():
    # Three partitions whose joins are the ways of a 3 x 3 x 3 table; the first one is finer than two ways.
    grid = np.indices((3, 3, 3)).reshape(3, -1)
    codes = [grid[0] * 9 + grid[2] * 3 + (grid[1] + grid[0]) % 2, grid[0] * 3 + grid[1], grid[1] * 3 + grid[2]]
    groups = {f"g{k}": ("cell", [str(v) for v in code]) for k, code in enumerate(codes)}
    frame = {"cell": range(27), **groups}
    parts = lattice_parts(Invariants([Totals(frame, by=name) for name in groups]))
    assert all(not isinstance(part, Table) or len(part.shape) < 3 for part in parts)
    assert any(isinstance(part, (General, Line, Table)) for part in parts)


@pytest.mark.parametrize(
    ("invariants", "reach"),
    [(BLOCKS, 25), (LOOSE, 25), (one_way(2, 3), 20), (two_way_margins(2, 2, 3), 12), (one_way(2, 2), 30)],
    ids=repr,
)
def test_sums_in_closed_form(invariants, reach):
    points = lattice_points(invariants.matrix.toarray(), reach)
    expected = np.log(np.exp(-1.1 * np.abs(points).sum(axis=1)).sum())
    assert l1_log_sum(invariants, 1.1) == pytest.approx(expected, abs=1e-9)


def test_unknown_sums_are_none():
    assert l1_log_sum(one_way(5, 5), 1.0) is None
    assert l1_log_sum(one_way(3, 3, 3), 1.0) is None
