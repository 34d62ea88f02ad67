"""The census by query and level: shares that add up, and factors from the sensitivity spaces of a small country."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from bayesdp.datasets.nmf.products import LEVELS, QUERIES, RHO, share_of
from bayesdp.papers.semi_dp import census_queries
from bayesdp.privacy import SensitivitySpace
from bayesdp.queries import LinearQuery, Query


def country(divided: bool) -> tuple[Query, dict[tuple[str, str], Query]]:
    """Two states of two counties, one of them in two units if divided, two races; the exact totals, and queries by level."""
    frame = {"county": ["A1", "A2", "B1", "B2"], "race": ["p", "q"]}
    state = np.array([0, 0, 1, 1])
    unit = np.array([0, 1, 2, 2]) if divided else state
    county = np.repeat(np.arange(4), 2)
    race = np.tile(np.arange(2), 4)

    def count(codes: np.ndarray) -> Query:
        rows = (codes[None, :] == np.unique(codes)[:, None]).astype(int)
        return LinearQuery(frame, rows, [f"r{i}" for i in range(len(rows))])

    return count(state[county]), {
        ("US", "cenrace"): count(race),
        ("State", "total"): count(unit[county]),
        ("State", "cenrace"): count(unit[county] * 2 + race),
        ("County", "total"): count(county),
        ("County", "cenrace"): count(county * 2 + race),
    }


@pytest.mark.parametrize("undivided", [False, True])
@pytest.mark.parametrize("a", [1, 2, 3])
def test_factors_from_the_sensitivity_spaces_of_a_small_country(a: int, undivided: bool) -> None:
    exact, queries = country(not undivided)
    rows = {(row.level, row.query): row for row in census_queries(a, undivided=undivided)}
    for key, query in queries.items():
        one = SensitivitySpace.dp(query).delta("l2")
        found = SensitivitySpace.semi(exact, a, query).delta("l2")
        assert one**2 == pytest.approx(2.0)
        assert rows[key].semi_rho == pytest.approx(rows[key].rho * (found / one) ** 2)


def test_the_largest_losses_are_those_of_one_pair() -> None:
    exact, queries = country(divided=True)
    change = np.zeros(8, dtype=np.int64)
    change[0], change[3] = -2, 2  # two records of one state, from one county and race to the other
    assert not np.any(exact.matrix @ change)
    for key, query in queries.items():
        assert float(np.sum((query.matrix @ change) ** 2)) == 8.0, key


def test_the_published_allocation_beside_the_figures_of_the_paper() -> None:
    rows = census_queries()
    assert sum((share_of(level, query) for level in LEVELS for query in QUERIES), Fraction(0)) == 1
    assert len(rows) == len(LEVELS) * len(QUERIES) - 1 + 1  # no total of the US; the sum of all
    assert all(row.rho > 0 for row in rows)
    total = rows[-1]
    assert sum(row.rho for row in rows[:-1]) == pytest.approx(total.rho) == pytest.approx(float(RHO))
    assert sum(row.semi_rho for row in rows[:-1]) == pytest.approx(total.semi_rho)
    assert (round(total.rho, 2), round(total.semi_rho, 2)) == (2.56, 10.22)  # the paper: 2.56, 10.24 = 4 x 2.56
    one_unit = census_queries(undivided=True)[-1]
    share = share_of("State", "total")
    assert one_unit.semi_rho == pytest.approx(float(4 * RHO * (1 - share)))
    assert round(one_unit.semi_rho, 4) == 6.9169
    with pytest.raises(TypeError, match="undivided"):
        census_queries(undivided=1)
