"""Exact values that contradict one another or leave answers no choice, tables that break what they keep, cells published twice."""

from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
import pytest
from flint import fmpz_mat

from bayesdp.fibers import Fiber
from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.measurements.consistency import (
    check_consistent,
    check_noisy_keeps_invariants,
    counted_once,
    determined_answers,
)
from bayesdp.noise import DiscreteGaussian, LatticeLaplace, ProjectedGaussian
from bayesdp.queries import Identity, LinearQuery, Margins, Query, SumPart, Totals
from bayesdp.release import Release
from tests.refusals import refused
from tests.registering import only_here

COUNTIES = {
    "county": ["IL: Adams", "IL: Cook", "IN: Lake", "IN: Allen"],
    "state": ("county", ["IL", "IL", "IN", "IN"]),
    "size": ("county", ["small", "large", "large", "small"]),
    "race": ["white", "other"],
}
QUERIES = {
    "total": Totals(COUNTIES),
    "state": Totals(COUNTIES, "state"),
    "size": Totals(COUNTIES, "size"),
    "county": Margins(COUNTIES, ["county"]),
    "race": Margins(COUNTIES, ["race"]),
    "state and race": Margins(COUNTIES, ["state", "race"]),
    "matrix": LinearQuery(COUNTIES, [[1, 1, 0, 0, 0, 0, 0, 0], [2, 0, 1, 0, 0, 0, 0, 0]], ["Adams", "odd"]),
}


def test_answers_of_one_table_agree_and_a_changed_one_is_found_just_when_linear_algebra_finds_it():
    for names in (*combinations(QUERIES, 2), ("county", "race", "matrix"), tuple(QUERIES)):
        rng = np.random.default_rng(len(names))
        table = rng.integers(5, 50, (4, 2))
        parts = [Exact(QUERIES[name], QUERIES[name].apply(table)) for name in names]
        check_consistent(
            [*parts, *parts, Exact(QUERIES["total"], table.sum() + 1, ">=")]
        )  # bounds are left to the fiber
        for k, part in enumerate(parts):
            values = np.array(part.values)
            values.flat[rng.integers(values.size)] += 1
            changed = [*parts[:k], Exact(part.query, values), *parts[k + 1 :]]
            matrix = np.vstack([own.query.matrix.toarray() for own in changed])
            stated = np.concatenate([own.values.reshape(-1) for own in changed])
            if np.linalg.matrix_rank(matrix) == np.linalg.matrix_rank(np.column_stack([matrix, stated])):
                check_consistent(changed)
            else:
                with pytest.raises(ValueError, match="exact values contradict one another"):
                    check_consistent(changed)


TWO_WAY = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
ROWS, COLUMNS = Margins(TWO_WAY, ["county"]), Margins(TWO_WAY, ["education"])
PARTS = LinearQuery(TWO_WAY, [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [1, 1, 1, 1, 0, 0]], ["a", "b", "both"])

test_the_message_names_the_rows_and_both_numbers = refused(
    (
        [(ROWS, [20, 30, 10]), (COLUMNS, [40, 21])],
        r"total: by county, county=Alpha \+ county=Beta \+ county=Gamma is 60, but by education, .*Low \+ .*High is 61",
    ),
    ([(Totals(TWO_WAY), 59), (ROWS, [20, 30, 10])], r"the published total is 59, but by county, .* is 60"),
    (
        [(QUERIES["state"], [5, 6]), (QUERIES["state"], [5, 7])],
        r"at state=IN: the published state=IN is 6, but .* is 7",
    ),
    ([(QUERIES["matrix"], [4, 1]), (QUERIES["matrix"], [5, 1])], r"Adams must equal Adams .* give (4 and 5|5 and 4)"),
    ([(PARTS, [20, 30, 60])], r"(a \+ b must equal both|both must equal a \+ b).*(50 and 60|60 and 50)"),
    ([(QUERIES["state"], [10, 20]), (QUERIES["size"], [15, 16])], "contradict one another"),  # groups that cross
    ([(ROWS, [2**52] * 3), (Totals(TWO_WAY), 5)], r"add up to 2\*\*53 or more"),
    of=lambda parts: check_consistent([Exact(*part) for part in parts]),
)


LATTICE = LatticeLaplace(0.5)


def keeping(values, exact, law=LATTICE, query=ROWS):
    check_noisy_keeps_invariants(Measured(Identity(TWO_WAY), values, law, Invariants(query)), exact)


TABLE = np.array([[15, 5], [20, 10], [3, 7]])
KNOWN = [Exact(ROWS, TABLE.sum(1))]
TOTAL = Totals(TWO_WAY)
HALVES = LinearQuery(TWO_WAY, [[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]], ["first two", "last"])
REAL = ProjectedGaussian(sigma=2.0)
UNPUBLISHED = r"keeps 'county=Alpha', but the release publishes no exact value"


def test_a_table_keeps_its_invariants_which_may_follow_from_finer_or_several_parts_up_to_rounding():
    keeping([[16, 4], [20, 10], [-1, 11]], KNOWN)
    for exact in (KNOWN, [Exact(HALVES, [50, 10])]):
        keeping(TABLE, exact, query=TOTAL)
    keeping(TABLE + np.array([[0.1234567, -0.1234567], [2 / 3, -2 / 3], [1e-9, 0]]), KNOWN, REAL)
    beyond = TABLE + 0.01 * (np.arange(6).reshape(3, 2) == 4)
    moved = TABLE + (np.arange(6).reshape(3, 2) == 3)
    for call, message in (
        ((moved, KNOWN), "county=Beta the published exact total is 30 and the noisy total is 31"),
        ((TABLE, [Exact(HALVES, [50, 11])], LATTICE, TOTAL), "total the published .* is 61 and the noisy total is 60"),
        ((beyond, KNOWN, REAL), r"county=Gamma .* 10 and the noisy total is 10\.01"),
        *(((TABLE, exact), UNPUBLISHED) for exact in ([], [Exact(TOTAL, 60)], [Exact(ROWS, [0] * 3, ">=")])),
    ):
        with pytest.raises(ValueError, match=message):
            keeping(*call)


CROSSING = {
    "leaf": ["a", "b", "c", "d"],
    "county": ("leaf", ["u", "v", "v", "v"]),
    "other": ("leaf", ["p", "p", "q", "q"]),
    "k": ["x", "y", "z"],
    "group": ("k", ["g", "h", "h"]),
}
FRAME = Frame.of(CROSSING)
EVERY = [
    Query(FRAME, (SumPart(FRAME, tuple(name for name in keep if name)),))
    for keep in product(("leaf", "county", "other", None), ("k", "group", None))
]


def _rank(rows):
    return fmpz_mat(rows.astype(int).tolist()).rank() if len(rows) else 0


def test_determined_answers_are_in_the_space_of_the_exact_rows():
    """Any sums, labels that cross and weights among them, and cells that are known besides: 60 sets, 3,000 answers and more."""
    unit = np.eye(12, dtype=int)
    asked = sum(EVERY[1:], EVERY[0]) + LinearQuery(FRAME, unit[:3] - unit[1:4], ["u", "v", "w"])
    matrix, several = asked.matrix.toarray(), 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        truth = rng.poisson(3.0, FRAME.shape)
        stated = [EVERY[i] for i in rng.choice(len(EVERY), rng.integers(0, 4), replace=False)]
        if seed % 3 == 0:
            weights = rng.integers(-2, 4, (2, FRAME.size)) * 10 ** rng.integers(0, 6)
            stated.append(LinearQuery(FRAME, [*weights, unit[seed % 12]], ["p", "q", "one"]))
        known = rng.random(FRAME.shape) < 0.4 if seed % 2 else np.zeros(FRAME.shape, dtype=bool)
        rows = np.concatenate([unit[known.reshape(-1)], *(own.matrix.toarray() for own in stated)])
        expected = [_rank(np.concatenate([rows, row[None]])) == _rank(rows) for row in matrix]
        exact = [Exact(own, own.apply(truth)) for own in stated]
        assert determined_answers(asked, exact, known if seed % 2 else None).tolist() == expected
        several += sum(expected)
    assert several > 500


def test_with_the_cells_that_nonnegativity_determines_they_are_all_that_are_constant():
    """2 x 3 tables with zeros, margins and limits, by enumeration; what is said to be determined is, and nothing is missed."""
    frame, fixed = Frame.of({"r": ["a", "b"], "c": ["x", "y", "z"]}), 0
    tables = np.array(list(product(range(5), repeat=6))).reshape(-1, 2, 3)
    margins = [rows := Margins(frame, ["r"]), Margins(frame, ["c"]), Totals(frame)]
    contrast = LinearQuery(frame, [[1, 0, 0, 1, 1, 0], [1, -1, 0, 0, 0, 0]], ["p", "q"])
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth = rng.poisson(0.7, (2, 3)).clip(0, 2)
        exact = [Exact(own, own.apply(truth)) for own in margins if rng.random() < 0.6]
        exact.append(Exact(rows, rows.apply(truth) + 1, "<="))
        cells = np.flatnonzero(rng.random(6) < 0.2)
        if len(cells):
            known = LinearQuery(frame, np.eye(6, dtype=int)[cells], [f"cell {i}" for i in cells])
            exact.append(Exact(known, truth.reshape(-1)[cells]))
        fiber = Fiber.of(exact)
        members = tables[fiber.members(tables)]
        for query in (*margins, Identity(frame), contrast):
            answers = query.apply(members).reshape(len(members), -1)
            expected = (answers == answers[0]).all(axis=0)
            found = determined_answers(query, exact, fiber.determined())
            np.testing.assert_array_equal(found, expected)
            fixed += int(found.sum())
    assert fixed > 200


ONE_KIND = {"area": ["a", "b", "c"], "kind": ["only"]}
TWO = {"area": ["a", "b"], "kind": ["x", "y"]}


@dataclass(frozen=True, eq=False, init=False)
class Keyed(DiscreteGaussian):
    name = "keyed-for-same-cells"
    same_cell_same_value = True


registered = only_here(Keyed)
LAW = Keyed(sigma=2.0)


def test_margins_totals_and_combinations_of_the_same_cells_count_once_also_with_a_scale_for_each_answer():
    cells = Measured(Identity(ONE_KIND), np.array([[3], [5], [8]]), LAW)
    margin = Measured(Margins(ONE_KIND, ["area"], ["kind"]), [3, 5, 8, 17], LAW)  # 17 is the total, which is new
    kept, said = counted_once([cells, margin])
    assert kept[0] is cells
    np.testing.assert_array_equal(kept[1].unmeasured, [True, True, True, False])
    assert kept[1].values[3] == 17
    words = "3 of the 3 answers by area and 1 answer by kind published before with the same value (area=a"
    assert said.startswith(words)
    one = Measured(Totals(TWO), 40, LAW, name="census")
    again = Measured(LinearQuery(TWO, [[1, 1, 1, 1], [1, 1, 0, 0]], ["all", "a"]), [40, 22], LAW)
    kept, said = counted_once([one, again])
    np.testing.assert_array_equal(kept[1].unmeasured, [True, False])
    assert "(all)" in said
    assert len(counted_once([one, Measured(Totals(TWO), 40, LAW)])[0]) == 1
    np.testing.assert_array_equal(counted_once([again], earlier=[one])[0][0].unmeasured, [True, False])
    areas = Measured(Margins(TWO, ["area"]), [22, 18], Keyed(sigma=np.array([2.0, 3.0])))
    rows = LinearQuery(TWO, [[1, 1, 0, 0], [0, 0, 1, 1]], ["a", "b"])
    kept, _ = counted_once([areas, Measured(rows, [22, 17], Keyed(sigma=np.array([2.0, 4.0])))])
    np.testing.assert_array_equal(kept[1].unmeasured, [True, False])


def test_two_values_of_one_cell_are_an_error_that_names_them_and_other_answers_stay():
    one = Measured(Margins(TWO, ["area"]), [22, 18], LAW, name="by area")
    other = Measured(LinearQuery(TWO, [[0, 0, 1, 1]], ["sum of b"]), [19], LAW)
    words = r"sum of b is published with two values, 18 in the 2 answers by area named 'by area' and 19"
    with pytest.raises(ValueError, match=words):
        counted_once([one, other])
    with pytest.raises(ValueError, match="one cell has one perturbation"):
        Release.from_published(TWO, [one, other])
    independent = DiscreteGaussian(sigma=2.0)
    same = [Measured(Totals(TWO), 40, independent), Measured(Totals(TWO), 40, independent)]
    assert counted_once(same) == (tuple(same), None)
    # Another law, another unit, other weights, and answers that were not published.
    parts = [
        Measured(Totals(TWO), 40, LAW),
        Measured(Totals(TWO), 41, Keyed(sigma=3.0)),
        Measured(Totals(TWO), 42, independent),
        Measured(LinearQuery(TWO, [[2, 2, 2, 2]], ["twice"]), [79], LAW),
        Measured(LinearQuery.of_values(TWO, [[0.5, 0.5, 0.5, 0.5]], ["half"]), [39], LAW),
        Measured(Margins(TWO, ["area"]), [np.nan, 20.0], LAW, unmeasured=["area=a"]),
        Measured(Margins(TWO, ["area"]), [21.0, np.nan], LAW, unmeasured=["area=b"]),
    ]
    assert counted_once(parts) == (tuple(parts), None)
