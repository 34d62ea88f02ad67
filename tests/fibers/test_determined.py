"""Determined cells and limits of single sums against enumeration and plain propagation; what is said to be complete is."""

import numpy as np
import pytest

from bayesdp import Exact, Frame, LinearQuery
from bayesdp.fibers import Fiber, determined, enumerate_fiber
from bayesdp.fibers.system import propagated_bounds
from tests.fibers.cases import frame_of, with_margins, zeros_at
from tests.fibers.test_fiber import random_exact


@pytest.mark.parametrize("cells", [150, 3000])
def test_sums_that_determine_cells_in_the_middle_of_their_limits(cells):
    """Three sums of two cells each determine three cells; nothing is said of the others."""
    frame = Frame.of({"cell": list(range(cells))})
    rows = np.pad([[1, 1, 0], [1, 0, 1], [0, 1, 1]], ((0, 0), (0, cells - 3)))
    fiber = Fiber.of([Exact(LinearQuery(frame, rows, ["a", "b", "c"]), [3, 4, 5])], frame)
    assert np.flatnonzero(fiber.determined()).tolist() == [0, 1, 2]
    assert fiber.bounds()[0][:3].tolist() == [1, 2, 3]
    assert fiber.determined_is_complete
    assert fiber.determined_names() == ("cell=0", "cell=1", "cell=2")


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 40), marks=pytest.mark.slow)])
def test_random_fibers_against_enumeration(monkeypatch, seeds):
    """Linear programs alone leave cells open, and say so; integer programs leave none."""
    monkeypatch.setattr(determined, "EXACT_CELLS", 0)
    for programs in (0, 300):
        monkeypatch.setattr(determined, "PROGRAM_CELLS", programs)
        complete, found = 0, 0
        for seed in seeds:
            fiber = Fiber.of(*random_exact(seed))
            tables = enumerate_fiber(fiber)
            truth = tables.min(axis=0) == tables.max(axis=0)
            stated = fiber.determined()
            assert not np.any(stated & ~truth), seed  # never a cell that can move
            np.testing.assert_array_equal(fiber.bounds()[0][stated], tables[0][stated])
            if fiber.determined_is_complete:
                complete += 1
                np.testing.assert_array_equal(stated, truth)
            found += int(stated.sum())
        assert found > len(seeds)
        assert complete == len(seeds) if programs else len(seeds) / 3 < complete < len(seeds), complete


@pytest.mark.parametrize(("programs", "found"), [(300, [0, 1, 2]), (0, [])])
def test_what_only_whole_numbers_determine_is_open_to_linear_programs(monkeypatch, programs, found):
    """2a + 2b + 3c = 3: a = b = 0 and c = 1 in whole numbers; a may be 3/2 in others. A list that may lack cells says so."""
    monkeypatch.setattr(determined, "PROGRAM_CELLS", programs)
    frame = Frame.of({"cell": list(range(200))})
    fiber = Fiber.of([Exact(LinearQuery(frame, [[2, 2, 3, *[0] * 197]], ["weighted"]), [3])], frame)
    assert np.flatnonzero(fiber.determined()).tolist() == found
    assert fiber.determined_is_complete == bool(found)


def test_large_counts_do_not_spoil_a_proof_and_propagation_is_as_tight_as_single_sums_allow():
    table = np.diag(10**9 + np.arange(20))
    table[0, 1] = 5
    zeros = [20 * i + j for i in range(20) for j in range(20) if j not in (i, i + 1)]
    fiber = with_margins(table, "a", "b", more=(zeros_at(frame_of(20, 20), zeros),)).fiber
    assert fiber.determined().all()  # a staircase: every cell follows from the one before
    np.testing.assert_array_equal(fiber.bounds()[0], table)
    for seed in range(30):
        fiber = Fiber.of(*random_exact(seed))
        assert tuple(own.tolist() for own in propagated_bounds(fiber.system)) == plain_propagation(fiber), seed


def plain_propagation(fiber):
    """Limits that single sums give, one sum and one cell at a time, in whole numbers, until nothing changes."""
    system = fiber.system
    rows = np.vstack([system.matrix.toarray(), system.limit_matrix.toarray()]).tolist()
    low, high = ([*system.totals.tolist(), *own.tolist()] for own in (system.limit_lower, system.limit_upper))
    lower, upper = system.lower.tolist(), [u if u < 2**53 else np.inf for u in system.upper.tolist()]
    changed = True
    while changed:
        changed = False
        for row, least, most in zip(rows, low, high, strict=True):
            for cell, entry in ((i, a) for i, a in enumerate(row) if a):
                others = [(a, i) for i, a in enumerate(row) if a and i != cell]
                smallest = sum(a * (lower[i] if a > 0 else upper[i]) for a, i in others)
                largest = sum(a * (upper[i] if a > 0 else lower[i]) for a, i in others)
                ends = [(least - largest) / entry, (most - smallest) / entry]
                below, above = ends if entry > 0 else ends[::-1]
                tight_low = lower[cell] if np.isinf(below) else max(lower[cell], int(np.ceil(below)))
                tight_high = upper[cell] if np.isinf(above) else min(upper[cell], int(np.floor(above)))
                changed |= (tight_low, tight_high) != (lower[cell], upper[cell])
                lower[cell], upper[cell] = tight_low, tight_high
    return lower, upper


@pytest.mark.parametrize("entry", [2, 3, -2, -3])
@pytest.mark.parametrize(("sign", "holds"), [(">=", np.greater_equal), ("<=", np.less_equal), ("=", np.equal)])
def test_limits_of_a_weighted_cell_are_rounded_inwards(sign, holds, entry):
    frame = frame_of(2)
    total = Exact(LinearQuery(frame, [[1, 1]], ["total"]), [9])
    for value in (2 * entry,) if sign == "=" else (2 * entry, 2 * entry - np.sign(entry)):
        fiber = Fiber.of([total, Exact(LinearQuery(frame, [[entry, 0]], ["weighted"]), [value], sign)], frame)
        counts = [a for a in range(10) if holds(entry * a, value)]
        # The limits of the cell itself: integer programs would mend a wrong rounding before `bounds` shows it.
        assert (fiber.system.lower[0], min(fiber.system.upper[0], 9)) == (counts[0], counts[-1])
        assert counts == [a for a in range(10) if fiber.contains(np.array([a, 9 - a]))]
