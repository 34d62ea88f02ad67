"""How lattices fall into parts with a closed form."""

from __future__ import annotations

import numpy as np
import pytest

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.lattices.parts import Line, Part, Table, lattice_parts
from bayesdp.noise.lattice.laws import variances
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.noise.oracles import all_margins, frame_of


def closed(part: Part) -> bool:
    """Whether it is a line, or integers that sum to zero."""
    return isinstance(part, Line) or (isinstance(part, Table) and len(part.shape) == 1)


def shown(invariants: Invariants) -> list[tuple[str, list[int], list[int]]]:
    found = lattice_parts(invariants)
    assert all(map(closed, found))
    return sorted(
        ("line", part.cells.tolist(), part.entries.tolist())
        if isinstance(part, Line)
        else ("zero sum", np.sort(part.cells, axis=None).tolist(), [*part.shape, part.copies])
        for part in found
    )


def test_totals_by_group() -> None:
    frame = Frame.of(
        {"county": ["a", "b", "c", "d", "e", "f"]},
    )
    query = LinearQuery(frame, [[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 0]], ["first", "second"])
    assert shown(Invariants(query)) == [
        ("line", [3, 4], [1, -1]),
        ("line", [5], [1]),
        ("zero sum", [0, 1, 2], [3, 1]),
    ]


def test_a_determined_cell_is_in_no_part() -> None:
    query = LinearQuery(frame_of(3), [[1, 0, 0], [0, 1, 1]], ["alone", "pair"])
    assert shown(Invariants(query)) == [("line", [1, 2], [1, -1])]


def test_two_rows_or_columns_are_a_doubled_total() -> None:
    assert shown(all_margins(2, 4)) == [("zero sum", list(range(8)), [4, 2])]
    assert shown(all_margins(3, 2)) == [("zero sum", list(range(6)), [3, 2])]
    assert shown(all_margins(2, 2)) == [("line", [0, 1, 2, 3], [1, -1, -1, 1])]


def test_three_way_table_with_all_two_way_margins_is_one_line() -> None:
    pairs = [["d0", "d1"], ["d0", "d2"], ["d1", "d2"]]
    assert [kind for kind, *_ in shown(Invariants(Margins(frame_of(2, 2, 2), *pairs)))] == ["line"]


def test_overlapping_rows_that_only_repeat_still_split() -> None:
    query = LinearQuery(frame_of(4), [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], ["a", "b", "all"])
    assert [kind for kind, *_ in shown(Invariants(query))] == ["line", "line"]


def test_uneven_coefficients() -> None:
    query = LinearQuery(frame_of(3), [[2, 4, 0]], ["weighted"])
    assert ("line", [0, 1], [2, -1]) in shown(Invariants(query))


@pytest.mark.parametrize("invariants", [all_margins(3, 3), all_margins(2, 2, 2), all_margins(30, 30)])
def test_other_parts_are_told_apart(invariants: Invariants) -> None:
    assert not all(map(closed, lattice_parts(invariants)))
    assert variances(invariants, 1, float, float) is None


def test_a_zero_sum_needs_equal_copies() -> None:
    # x0 + x1 and x1 + x2 + x3 + x4 fixed: the lattice mixes one pair with a sum.
    query = LinearQuery(frame_of(5), [[1, 1, 0, 0, 0], [0, 1, 1, 1, 1]], ["a", "b"])
    assert not all(map(closed, lattice_parts(Invariants(query))))


def test_dimensions_add_up() -> None:
    for invariants in [
        all_margins(2, 5),
        Invariants(Totals(frame_of(3, 4))),
        Invariants(Margins(frame_of(3, 4), ["d0"])),
        Invariants(None, frame_of(2, 2)),
    ]:
        found = lattice_parts(invariants)
        assert sum(1 if isinstance(part, Line) else part.shape[0] - 1 for part in found) == invariants.dimension
        cells = np.concatenate([part.cells.ravel() for part in found])
        assert len(np.unique(cells)) == len(cells)
