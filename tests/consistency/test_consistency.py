"""Exact values that contradict one another, and noisy tables that break what their law keeps."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from bayesdp.consistency import check_consistent, check_noisy_keeps_invariants
from bayesdp.invariants import Invariants
from bayesdp.measurements import Exact, Measured
from bayesdp.noise import LatticeLaplace, ProjectedGaussian
from bayesdp.queries import Identity, LinearQuery, Margins, Query, Totals

COUNTIES = {
    "county": ["IL: Adams", "IL: Cook", "IN: Lake", "IN: Allen"],
    "state": ("county", ["IL", "IL", "IN", "IN"]),
    "size": ("county", ["small", "large", "large", "small"]),
    "race": ["white", "other"],
}
TWO_WAY = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
QUERIES = {
    "total": Totals(COUNTIES),
    "state": Totals(COUNTIES, "state"),
    "size": Totals(COUNTIES, "size"),
    "county": Margins(COUNTIES, ["county"]),
    "race": Margins(COUNTIES, ["race"]),
    "state and race": Margins(COUNTIES, ["state", "race"]),
    "matrix": LinearQuery(COUNTIES, [[1, 1, 0, 0, 0, 0, 0, 0], [2, 0, 1, 0, 0, 0, 0, 0]], ["Adams", "odd"]),
}


def answers(query: Query, table) -> Exact:
    return Exact(query, query.apply(np.asarray(table)))


def test_the_answers_of_one_table_agree(rng):
    table = rng.integers(0, 50, (4, 2))
    parts = [answers(query, table) for query in QUERIES.values()]
    check_consistent([*parts, *parts, Exact(Totals(COUNTIES), table.sum() + 1, ">=")])  # bounds are left to the fiber


def solvable(parts: list[Exact]) -> bool:
    """The oracle: rank of the matrix with and without the values, in floating point."""
    matrix = np.vstack([part.query.matrix.toarray() for part in parts]).astype(float)
    values = np.concatenate([part.values.reshape(-1) for part in parts]).astype(float)
    return np.linalg.matrix_rank(matrix) == np.linalg.matrix_rank(np.column_stack([matrix, values]))


@pytest.mark.parametrize("names", [*combinations(QUERIES, 2), ("county", "race", "matrix"), tuple(QUERIES)])
def test_one_changed_answer_is_found_just_when_linear_algebra_finds_it(names, make_rng):
    rng = make_rng(len(names))
    table = rng.integers(5, 50, (4, 2))
    for changed in names:
        parts = []
        for name in names:
            values = np.array(QUERIES[name].apply(table))
            if name == changed:
                values.flat[rng.integers(values.size)] += 1
            parts.append(Exact(QUERIES[name], values))
        if solvable(parts):
            check_consistent(parts)
        else:
            with pytest.raises(ValueError, match="exact values contradict one another"):
                check_consistent(parts)


ROW_TOTALS, COLUMN_TOTALS = Margins(TWO_WAY, ["county"]), Margins(TWO_WAY, ["education"])
PARTS = LinearQuery(TWO_WAY, [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [1, 1, 1, 1, 0, 0]], ["a", "b", "both"])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            [(ROW_TOTALS, [20, 30, 10]), (COLUMN_TOTALS, [40, 21])],
            r"at total: by county, county=Alpha \+ county=Beta \+ county=Gamma is 60, "
            r"but by education, education=Low \+ education=High is 61",
        ),
        ([(Totals(TWO_WAY), 59), (ROW_TOTALS, [20, 30, 10])], r"the published total is 59, but by county, .* is 60"),
        (
            [(QUERIES["state"], [5, 6]), (QUERIES["state"], [5, 7])],
            r"at state=IN: the published state=IN is 6, but .* is 7",
        ),
        (
            [(QUERIES["matrix"], [4, 1]), (QUERIES["matrix"], [5, 1])],
            r"Adams must equal Adams .* give (4 and 5|5 and 4)",
        ),
        ([(PARTS, [20, 30, 60])], r"(a \+ b must equal both|both must equal a \+ b).*(50 and 60|60 and 50)"),
        ([(QUERIES["state"], [10, 20]), (QUERIES["size"], [15, 16])], "contradict one another"),  # groups that cross
        ([(ROW_TOTALS, [2**52] * 3), (Totals(TWO_WAY), 5)], r"add up to 2\*\*53 or more"),
    ],
)
def test_the_message_names_the_rows_and_both_numbers(parts, message):
    with pytest.raises(ValueError, match=message):
        check_consistent([Exact(query, values) for query, values in parts])


def noisy(values, law=None, invariants=None):
    law = law or LatticeLaplace(0.5)
    return Measured(Identity(TWO_WAY), values, law, invariants or Invariants(Margins(TWO_WAY, ["county"])))


TABLE = np.array([[15, 5], [20, 10], [3, 7]])
ROWS = Exact(Margins(TWO_WAY, ["county"]), TABLE.sum(1))


def test_a_lattice_table_must_keep_its_invariants():
    check_noisy_keeps_invariants(noisy([[16, 4], [20, 10], [-1, 11]]), [ROWS])
    with pytest.raises(ValueError, match=r"county=Beta the published exact total is 30 and the noisy total is 31"):
        check_noisy_keeps_invariants(noisy([[16, 4], [20, 11], [3, 7]]), [ROWS])


def test_invariants_may_follow_from_finer_or_several_exact_parts():
    total = Invariants(Totals(TWO_WAY))
    check_noisy_keeps_invariants(noisy(TABLE, invariants=total), [ROWS])
    halves = LinearQuery(TWO_WAY, [[1, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]], ["first two", "last"])
    check_noisy_keeps_invariants(noisy(TABLE, invariants=total), [Exact(halves, [50, 10])])
    with pytest.raises(ValueError, match=r"total the published exact total is 61 and the noisy total is 60"):
        check_noisy_keeps_invariants(noisy(TABLE, invariants=total), [Exact(halves, [50, 11])])


@pytest.mark.parametrize(
    "exact", [[], [Exact(Totals(TWO_WAY), 60)], [Exact(Margins(TWO_WAY, ["county"]), [0] * 3, ">=")]]
)
def test_an_invariant_of_the_noise_must_be_published(exact):
    with pytest.raises(ValueError, match=r"keeps 'county=Alpha', but the release publishes no exact value"):
        check_noisy_keeps_invariants(noisy(TABLE), exact)


def test_projected_tables_keep_their_invariants_up_to_rounding():
    law = ProjectedGaussian(sigma=2.0)
    shift = np.array([[0.1234567, -0.1234567], [2 / 3, -2 / 3], [1e-9, 0]])
    check_noisy_keeps_invariants(noisy(TABLE + shift, law), [ROWS])
    with pytest.raises(ValueError, match=r"county=Gamma .* 10 and the noisy total is 10\.01"):
        check_noisy_keeps_invariants(noisy(TABLE + np.array([[0, 0], [0, 0], [0.01, 0]]), law), [ROWS])
