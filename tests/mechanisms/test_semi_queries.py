"""Semi-DP for any query, with whole and with real coefficients: losses and posteriors by enumeration; files; regression."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.optimize import linprog

import bayesdp as bdp
from bayesdp.invariants import Invariants
from bayesdp.measurements import Measured
from bayesdp.mechanisms import SemiGaussian, SemiKNorm, SemiNorm, stated
from bayesdp.mechanisms.protects import SemiAdjacentAnswers
from bayesdp.noise import SubspaceNorm
from bayesdp.privacy import SensitivitySpace
from bayesdp.queries import LinearQuery, Margins, Query, Totals

WAYS = {"sex": ["F", "M"], "age": ["young", "middle", "old"], "county": ["Alpha", "Beta"]}
SCORED = {"x": [0, 1, 2], "y": [0, 1, 2]}
PAIRS = np.array(list(product(range(3), repeat=2)))
NAMES = ["sum x", "sum xx", "sum y", "sum xy", "sum yy"]
REGRESSION = LinearQuery(
    SCORED,
    [
        PAIRS[:, 0],
        PAIRS[:, 0] ** 2,
        PAIRS[:, 1],
        PAIRS[:, 0] * PAIRS[:, 1],
        PAIRS[:, 1] ** 2,
    ],
    NAMES,
)
"""X'X, X'y and y'y of a regression of y on x, as sums over the cells of a table of coded values."""
BY_X = Margins(SCORED, ["x"])
COUNTS = np.array([[2, 1, 0], [0, 1, 1], [0, 1, 2]])


def tables_of(cells: int, records: int) -> np.ndarray:
    """All tables of so many records."""
    if cells == 1:
        return np.array([[records]])
    found = [np.column_stack([np.full(len(rest), k), rest]) for k in range(records + 1)
             for rest in [tables_of(cells - 1, records - k)]]  # fmt: skip
    return np.concatenate(found)


def changes_by_pairs(query: Query, invariants: Invariants, adjacency: int) -> set[tuple[int, ...]]:
    """All differences of answers other than zero, from all pairs of tables of `adjacency` records; more records add none."""
    tables = tables_of(query.frame.size, adjacency)
    exact, answers = tables @ invariants.matrix.toarray().T, tables @ query.matrix.toarray().T
    found: set[tuple[int, ...]] = set()
    for key in np.unique(exact, axis=0):
        own = np.unique(answers[np.all(exact == key, axis=1)], axis=0)
        found |= set(map(tuple, (own[:, None] - own[None]).reshape(-1, query.rows).tolist()))
    return found - {(0,) * query.rows}


CASES: dict[str, tuple[Query, Query, int]] = {
    "margin, one-way": (Margins(WAYS, ["sex", "age"]), Margins(WAYS, ["sex"], ["age"]), 3),
    "margin, sums by a dimension that is summed over": (
        Margins(WAYS, ["sex", "age"]),
        Margins(WAYS, ["sex"], ["county"]),
        3,
    ),
    "margin, sums across": (Margins(WAYS, ["sex", "age"]), Margins(WAYS, ["sex", "county"]), 2),
    "two margins": (Margins(WAYS, ["sex"], ["age"]), Margins(WAYS, ["county"]), 2),
    "regression": (REGRESSION, BY_X, 2),
}


@pytest.mark.parametrize("name", CASES)
def test_the_sensitivity_space_is_that_of_all_pairs_of_tables(name: str) -> None:
    query, exact, adjacency = CASES[name]
    changes = np.array(sorted(changes_by_pairs(query, Invariants(exact), adjacency)))
    space = SensitivitySpace.semi(exact, adjacency, query)
    both = np.concatenate([space.differences, -space.differences])
    assert {*map(tuple, both.tolist())} == {*map(tuple, changes.tolist())}
    for order, norm in ((1, "l1"), (2, "l2"), (np.inf, "linf")):
        assert space.delta(norm) == pytest.approx(np.linalg.norm(changes, order, axis=1).max(), abs=1e-12)
    assert space.rank == np.linalg.matrix_rank(changes.astype(float))


def gauge(points: np.ndarray, u: np.ndarray) -> float:
    """The norm whose unit ball is the hull of the points and their opposites, by a linear program of its own."""
    result = linprog(np.ones(2 * len(points)), A_eq=np.concatenate([points, -points]).T, b_eq=u)
    return float(result.fun)


def mechanism_of(kind: str, query: Query, exact: Query, adjacency: int) -> SemiAdjacentAnswers:
    if kind == "gaussian":
        return SemiGaussian(exact, 0.8, query=query, adjacency=adjacency)
    if kind == "k-norm":
        return SemiKNorm(exact, 0.9, query=query, adjacency=adjacency)
    return SemiNorm(exact, 0.9, kind, query=query, adjacency=adjacency)


@pytest.mark.parametrize("name", ["margin, sums by a dimension that is summed over", "regression"])
@pytest.mark.parametrize("kind", ["k-norm", "l1", "l2", "linf"])
def test_the_largest_log_ratio_of_protected_tables_is_epsilon(kind: str, name: str) -> None:
    query, exact, adjacency = CASES[name]
    mechanism = mechanism_of(kind, query, exact, adjacency)
    relations, law = mechanism.answer_invariants, mechanism.law
    shape = relations.frame.shape
    worst = 0.0
    for change in sorted(changes_by_pairs(query, Invariants(exact), adjacency)):
        at = np.reshape(change, shape).astype(float)
        for value in (0 * at, 20 * at):  # a norm adds up along a line: at both the ratio is as large as it gets
            worst = max(worst, abs(law.logp(value, at, relations) - law.logp(value, 0 * at, relations)))
    assert worst == pytest.approx(0.9, rel=1e-7)
    [row] = mechanism.guarantee.pairs
    assert row.loss.parameters == {"epsilon": pytest.approx(0.9, rel=1e-12)}


@pytest.mark.parametrize("name", CASES)
def test_the_loss_of_normal_noise_is_mu_at_the_farthest_pair(name: str) -> None:
    query, exact, adjacency = CASES[name]
    mechanism = SemiGaussian(exact, 0.8, query=query, adjacency=adjacency)
    changes = np.array(sorted(changes_by_pairs(query, Invariants(exact), adjacency)))
    assert np.linalg.norm(changes, axis=1).max() / mechanism.sigma == pytest.approx(0.8, rel=1e-12)
    [row] = mechanism.guarantee.pairs
    assert row.loss.parameters == {"mu": pytest.approx(0.8)}
    noise = mechanism.noise(rng=3, size=2000).reshape(2000, -1)
    # The total squared error: a sum of independent multiples of chi-squared; 5 standard deviations, false alarm below 1e-5.
    assert np.mean(np.sum(noise**2, axis=1)) == pytest.approx(mechanism.error, rel=5 * np.sqrt(2 / 2000))


@pytest.fixture(scope="module")
def fiber() -> np.ndarray:
    """All tables with as many records at each x as the confidential one, shape (m, 9)."""
    rows = [tables_of(3, int(total)) for total in COUNTS.sum(axis=1)]
    return np.array([np.concatenate(own) for own in product(*rows)])


def slope(tables: np.ndarray) -> np.ndarray:
    """Of the least squares line of each table, shape (m, 9) to (m,): from X'X and X'y only."""
    x, xx, y, xy, _ = np.moveaxis(tables @ REGRESSION.matrix.toarray().T, -1, 0)
    n = tables.sum(axis=-1)
    return np.asarray((n * xy - x * y) / (n * xx - x**2))


@pytest.mark.parametrize("kind", ["gaussian", "l1", pytest.param("k-norm", marks=pytest.mark.slow)])
def test_the_posterior_of_a_regression_given_exact_counts_is_that_of_the_enumeration(
    kind: str, fiber: np.ndarray
) -> None:
    mechanism = mechanism_of(kind, REGRESSION, BY_X, 1)
    release = mechanism.release(COUNTS, rng=5)
    noisy = np.asarray(release.measurements[0].values, dtype=float)
    # X'X is known from the exact counts.
    assert noisy[:2].tolist() == [8.0, 14.0] == (REGRESSION.matrix @ COUNTS.ravel())[:2].tolist()
    gaps = noisy - fiber @ REGRESSION.matrix.toarray().T
    changes = np.array(sorted(changes_by_pairs(REGRESSION, Invariants(BY_X), 1)), dtype=float)
    if kind == "gaussian":
        weight = -0.5 * np.sum(gaps**2, axis=1) * (0.8 / np.linalg.norm(changes, axis=1).max()) ** 2
    elif kind == "l1":
        weight = -0.9 / np.abs(changes).sum(axis=1).max() * np.abs(gaps).sum(axis=1)
    else:
        weight = -0.9 * np.array([gauge(changes[:, 2:], gap[2:]) for gap in gaps])
    rates = np.array([0.5, 1.0, 2.0])[PAIRS[:, 1]]
    prior = np.sum(fiber * np.log(rates) - np.vectorize(lambda k: np.log(np.arange(1, k + 1)).sum())(fiber), axis=1)
    share = np.exp(weight + prior - np.max(weight + prior))
    share /= share.sum()
    with pm.Model(coords=release.coords):
        bdp.observe(release, bdp.ConfidentialCounts("counts", pm.Poisson.dist(rates.reshape(3, 3)), dims=release.dims))
        drawn = bdp.sample(2500, tune=200, chains=2, cores=1, random_seed=2, quiet=True, progressbar=False)
    tables = np.asarray(drawn.posterior["counts"]).reshape(2, -1, 9)
    batches = slope(tables).reshape(2 * 25, -1).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(len(batches))
    # 4.5 standard errors by batch means: false alarm below 1e-4.
    assert abs(batches.mean() - share @ slope(fiber)) < 4.5 * error + 1e-9
    assert error < 0.03 < np.sqrt(share @ (slope(fiber) - share @ slope(fiber)) ** 2)


def test_a_table_of_some_hundred_cells() -> None:
    labels = {"a": range(8), "b": range(6), "c": range(5)}
    asked, exact = Margins(labels, ["a", "b"]), Margins(labels, ["a"], ["b"], ["c"])
    table = np.random.default_rng(4).poisson(3.0, (8, 6, 5))
    mechanism = SemiGaussian(exact, 0.5, query=asked)  # three features: at most 4 records
    # Four records can make the same 2x2 move twice: four answers change by 2, and no difference of 8 in l1 is longer.
    assert mechanism.adjacency == 4
    assert mechanism.sensitivity == pytest.approx(4.0)
    release = mechanism.release(table, rng=6)
    noisy = np.asarray(release.measurements[0].values)
    assert np.array_equal(noisy.sum(axis=0), table.sum(axis=(0, 2)))
    assert np.array_equal(noisy.sum(axis=1), table.sum(axis=(1, 2)))
    # Orthonormal coordinates of the 35 free dimensions, by a singular value decomposition.
    own = noisy - table.sum(axis=2)
    expected = -0.5 * np.sum(own**2) / 64 - 35 * np.log(8.0 * np.sqrt(2 * np.pi))
    assert mechanism.logp(noisy, table) == pytest.approx(expected, rel=1e-9)
    with pm.Model(coords=release.coords):
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(3.0), dims=release.dims))
        drawn = bdp.sample(200, tune=100, chains=1, cores=1, random_seed=2, quiet=True, progressbar=False)
    x = np.asarray(drawn.posterior["x"])[0]
    for axes in ((1, 2), (0, 2), (0, 1)):
        assert np.all(x.sum(axis=tuple(axis + 1 for axis in axes)) == table.sum(axis=axes))
    # The posterior knows more of the margin than its noise alone: prior and release together.
    assert np.mean((x.mean(axis=0).sum(axis=2) - table.sum(axis=2)) ** 2) < np.mean(own**2)


@pytest.mark.parametrize("kind", ["gaussian", "k-norm", "l1"])
def test_files_and_claims_above_the_law(kind: str, tmp_path: Path) -> None:
    mechanism = mechanism_of(kind, REGRESSION, BY_X, 1)
    release = mechanism.release(COUNTS, rng=5)
    release.to_netcdf(tmp_path / "release.nc")
    again = bdp.Release.from_netcdf(tmp_path / "release.nc")
    assert again == release
    assert type(mechanism).from_description(release.mechanism, release.frame) == mechanism
    name = "mu" if kind == "gaussian" else "epsilon"
    with pytest.raises(ValueError, match=r"law|states|has"):
        stated.check_stated(replace_description(release, **{name: 0.1}))
    [own] = release.measurements
    cells = Measured(LinearQuery(SCORED, REGRESSION.matrix.toarray()[[0, 1, 4, 3, 2]], NAMES), own.values, own.law)
    with pytest.raises(ValueError, match="what was measured is"):
        stated.check_stated(replaced(release, measurements=(cells,)))
    if kind == "l1":
        fewer = Measured(own.query, own.values, SubspaceNorm(9.0), own.invariants)
        with pytest.raises(ValueError, match=r"epsilon=9|9\.0"):
            stated.check_stated(replaced(release, measurements=(fewer,)))
    assert release.guarantee is not None
    [row] = release.guarantee.pairs
    claim = replace(release.guarantee, pairs=(replace(row, loss=type(row.loss)(0.01)),))
    with pytest.raises(ValueError, match=r"0\.01|other rows"):
        stated.check_stated(replaced(release, guarantee=claim))


def replaced(release: Any, **parts: Any) -> Any:
    given = {"mechanism": release.mechanism, "guarantee": release.guarantee, "measurements": release.measurements}
    made = {**given, **parts}
    return bdp.Release(
        release.frame,
        made["measurements"],
        release.exact,
        mechanism=made["mechanism"],
        guarantee=made["guarantee"],
        simulated=release.simulated,
    )


def replace_description(release: Any, **parts: Any) -> Any:
    return replaced(release, mechanism={**release.mechanism, **parts})


def test_answers_that_are_exact_beside_noisy_ones() -> None:
    table = np.arange(12).reshape(2, 3, 2)
    asked = Margins(WAYS, ["sex"]) + Margins(WAYS, ["age"])
    mechanism = SemiGaussian(Margins(WAYS, ["sex"]), 1.0, query=asked)
    noisy = np.asarray(mechanism.release(table, rng=1).measurements[0].values)
    assert noisy[:2].tolist() == [15.0, 51.0]
    assert noisy[2:].sum() == 66.0
    assert not np.array_equal(noisy[2:], table.sum(axis=(0, 2)))
    assert "carry no noise" in str(mechanism.guarantee).replace("\n    ", " ")


@pytest.mark.parametrize("kind", ["gaussian", "k-norm", "l1"])
def test_bad_queries(kind: str) -> None:
    with pytest.raises(TypeError, match="query must be Identity"):
        mechanism_of(kind, "sex", BY_X, 1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="about the table of the invariants"):
        mechanism_of(kind, Totals(WAYS), BY_X, 1)
    with pytest.raises(ValueError, match="determine every answer of the query"):
        mechanism_of(kind, Totals(SCORED), BY_X, 1)
    with pytest.raises(ValueError, match="Proposition 32, about the cells"):
        SemiGaussian(Margins(SCORED, ["x"], ["y"]), 1.0, query=REGRESSION, convention="paper")


TABLE = {"sex": ["F", "M"], "income": [0.5, 1.2, 2.0]}
"""Income in thousands, with one decimal."""
INCOME = np.tile([0.5, 1.2, 2.0], 2)
BY_SEX = Margins(TABLE, ["sex"])
OF_WOMEN = np.repeat([1.0, 0.0], 3)
SUMS = LinearQuery.of_values(TABLE, [INCOME, INCOME * OF_WOMEN], ["income", "income of women"])
OF_INCOME = np.array([[2, 0, 1], [0, 1, 1]])


def test_coefficients_are_the_decimals_that_they_print_as() -> None:
    assert SUMS.unit == Fraction(1, 10)
    assert SUMS.matrix.toarray().tolist() == [[5, 12, 20] * 2, [5, 12, 20, 0, 0, 0]]
    assert SUMS.apply(OF_INCOME).tolist() == [62, 30]
    assert SUMS.in_unit(SUMS.apply(OF_INCOME)).tolist() == [
        6.2,
        3.0,
    ]  # the sum of floats is 6.199999999999999 or so
    for matrix in (INCOME.astype(np.float32), [Decimal(str(x)) for x in INCOME], [Fraction(str(x)) for x in INCOME]):
        other = LinearQuery.of_values(TABLE, matrix, ["income"])
        assert other.unit == Fraction(1, 10)
        assert other.matrix.toarray().tolist() == [[5, 12, 20] * 2]
    whole = LinearQuery.of_values(TABLE, INCOME * 20, ["income"], unit=1)
    assert whole == LinearQuery(TABLE, [[10, 24, 40] * 2], ["income"])
    assert "unit" not in whole.describe()["parts"][0]
    finer = LinearQuery.of_values(TABLE, INCOME, ["income"], unit=0.05)
    assert finer.unit == Fraction(1, 20)
    assert finer.matrix.toarray().tolist() == [[10, 24, 40] * 2]
    assert Query.from_description(SUMS.describe(), SUMS.frame) == SUMS
    stack = SUMS + BY_SEX
    assert stack.unit is None
    assert stack.in_unit([62, 30, 3, 2]).tolist() == pytest.approx([6.2, 3.0, 3.0, 2.0])
    labelled = xr.DataArray(OF_INCOME, dims=list(TABLE), coords=TABLE)
    assert SUMS.in_unit(SUMS.apply(labelled)).sel(answer="income").item() == 6.2
    third = LinearQuery.of_values(TABLE, [[Fraction(1, 3)] * 6], ["share"])
    assert Query.from_description(third.describe(), third.frame).unit == Fraction(1, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"unit": 0.2}, ValueError, r"whole multiples of the unit 0\.2, but the entry of income and .*0\.5.* is 0\.5"),
        ({"unit": 0.0}, ValueError, "unit must be greater than 0"),
        ({"unit": "0.1"}, TypeError, "unit must be a real number"),
        ({"matrix": [[np.nan] * 6]}, ValueError, r"the entry of income and .* must be finite"),
        ({"matrix": [[True] * 6]}, TypeError, r"the entry of income and .* must be a real number"),
        ({"matrix": [[0.1] * 5]}, ValueError, r"matrix must have shape \(1, 6\)"),
        ({"matrix": [[1e-9, 1e9, 0, 0, 0, 0]]}, ValueError, r"below 2\*\*53, but the entry of income and"),
        ({"names": "income"}, TypeError, "names must be a sequence"),
    ],
)
def test_bad_coefficients(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        LinearQuery.of_values(**{"frame": TABLE, "matrix": [INCOME], "names": ["income"], **arguments})


@pytest.mark.parametrize("text", ["1", "0", "2/4", "1/0", "-1/2", "0.1", 3, "1/" + "9" * 99, " 1/2"])
def test_a_file_states_a_unit_in_one_way(text: Any) -> None:
    description = SUMS.describe()
    description["parts"][0]["unit"] = text
    with pytest.raises(ValueError, match="unit of a query"):
        Query.from_description(description, SUMS.frame)


def made(kind: str, **more: Any) -> Any:
    own = {"query": SUMS, **more}
    if kind == "gaussian":
        return SemiGaussian(BY_SEX, 0.8, **own)
    if kind == "k-norm":
        return SemiKNorm(BY_SEX, 0.8, **own)
    return SemiNorm(BY_SEX, 0.8, kind, **own)


KINDS = ["gaussian", "k-norm", "l2"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_all_pairs_and_files(kind: str, tmp_path: Path) -> None:
    mechanism = made(kind)
    found = np.array(sorted(changes_by_pairs(SUMS, Invariants(BY_SEX), mechanism.adjacency)))
    if kind == "gaussian":
        assert np.linalg.norm(found, axis=1).max() / mechanism.sigma == pytest.approx(0.8, rel=1e-12)
        # In thousands: the same as by real arithmetic.
        real = np.linalg.norm(found * 0.1, axis=1).max() / 0.8
        assert float(mechanism.query.unit) * mechanism.sigma == pytest.approx(real, rel=1e-12)
    else:
        relations, law = mechanism.answer_invariants, mechanism.law
        far = 30 * found
        worst = max(
            abs(law.logp(y, 0 * x, relations) - law.logp(y, x, relations)) for x, y in zip(found, far, strict=True)
        )
        assert worst == pytest.approx(0.8, rel=1e-7)
    assert "counted in units of 0.1" in str(mechanism.guarantee).replace("\n    ", " ")
    release = mechanism.release(OF_INCOME, rng=5)
    [own] = release.measurements
    assert "in units of 0.1" in repr(own)
    assert np.array_equal(own.in_unit.values, own.values / 10)
    release.to_netcdf(tmp_path / "release.nc")
    again = bdp.Release.from_netcdf(tmp_path / "release.nc")
    assert again == release
    assert again.measurements[0].query.unit == Fraction(1, 10)
    assert type(mechanism).from_description(release.mechanism, release.frame) == mechanism
    stated.check_stated(again)
    assert np.isfinite(mechanism.logp(own.values, OF_INCOME))


@pytest.mark.parametrize("kind", ["gaussian", "l2"])
def test_the_posterior_is_that_of_the_enumeration_in_real_numbers(kind: str) -> None:
    mechanism = made(kind)
    release = mechanism.release(OF_INCOME, rng=7)
    rows = [tables_of(3, int(total)) for total in OF_INCOME.sum(axis=1)]
    fiber = np.array([np.concatenate([one, two]) for one in rows[0] for two in rows[1]])
    real = np.column_stack([INCOME, INCOME * OF_WOMEN])
    gaps = release.measurements[0].in_unit.values - fiber @ real
    # Scales by real arithmetic, from all pairs of tables of as many records as may change.
    found = 0.1 * np.array(sorted(changes_by_pairs(SUMS, Invariants(BY_SEX), mechanism.adjacency)))
    if kind == "gaussian":
        weight = -0.5 * np.sum(gaps**2, axis=1) * (0.8 / np.linalg.norm(found, axis=1).max()) ** 2
    else:
        weight = -0.8 * np.linalg.norm(gaps, axis=1) / np.linalg.norm(found, axis=1).max()
    rates = np.array([0.5, 1.0, 2.0] * 2)
    prior = np.sum(
        fiber * np.log(rates) - np.array([[np.log(np.arange(1, k + 1)).sum() for k in row] for row in fiber]), axis=1
    )
    share = np.exp(weight + prior - np.max(weight + prior))
    share /= share.sum()
    with pm.Model(coords=release.coords):
        bdp.observe(release, bdp.ConfidentialCounts("x", pm.Poisson.dist(rates.reshape(2, 3)), dims=release.dims))
        drawn = bdp.sample(2500, tune=200, chains=2, cores=1, random_seed=2, quiet=True, progressbar=False)
    income = (np.asarray(drawn.posterior["x"]).reshape(50, -1, 6) @ INCOME).mean(axis=1)
    error = income.std(ddof=1) / np.sqrt(50)
    # 4.5 standard errors by batch means: false alarm below 1e-4.
    assert abs(income.mean() - share @ fiber @ INCOME) < 4.5 * error + 1e-9
    assert error < 0.05


def test_one_scale_of_noise_needs_one_unit() -> None:
    with pytest.raises(ValueError, match=r"one unit.* but its parts have the units 0\.1, 1"):
        made("gaussian", query=SUMS + BY_SEX)


@pytest.mark.parametrize("kind", ["gaussian", "l2"])
def test_published_answers_map_through_the_query(kind: str) -> None:
    counts = np.array([[1, 0, 0], [0, 0, 0]])  # one woman: only she can change
    known = [bdp.Exact(BY_SEX, counts.sum(axis=1))]
    mechanism = made(kind, published=known, adjacency=2)
    found = np.array([[a - b] * 2 for a in (5, 12, 20) for b in (5, 12, 20)])
    assert mechanism.sensitivity == pytest.approx(np.linalg.norm(found, axis=1).max())
    assert mechanism.sensitivity < made(kind, adjacency=2).sensitivity
    release = mechanism.release(counts, rng=1)
    assert type(mechanism).from_description(release.mechanism, release.frame) == mechanism
    stated.check_stated(release)
    with pytest.raises(ValueError, match="published answers"):
        mechanism.release(OF_INCOME, rng=1)
    of_men = LinearQuery(TABLE, [[0, 0, 0, 1, 2, 3]], ["men"])
    with pytest.raises(ValueError, match="differ in an answer of the query"):
        made(kind, query=of_men, published=known, adjacency=2)


def test_a_hull_of_published_differences_needs_all_dimensions() -> None:
    counts = np.array([[1, 0, 0], [0, 0, 0]])
    with pytest.raises(ValueError, match="published leaves differences in 1 of the 2 dimensions"):
        made("k-norm", published=[bdp.Exact(BY_SEX, counts.sum(axis=1))], adjacency=2)
