"""Semi-DP for any query, with whole and with real coefficients: losses and posteriors by enumeration; files; regression."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import product

import numpy as np
import pymc as pm
import pytest
from scipy.special import gammaln, softmax

import bayesdp as bdp
from bayesdp.measurements import Measured
from bayesdp.mechanisms import SemiGaussian, SemiKNorm, SemiNorm, stated
from bayesdp.noise import SubspaceNorm
from bayesdp.privacy import SensitivitySpace
from bayesdp.queries import LinearQuery, Margins, Query, Totals
from tests.lattices.oracles import labels
from tests.privacy.sensitivities.databases import changes_by_pairs, tables_of
from tests.refusals import refused

WAYS = {"sex": ["F", "M"], "age": ["young", "middle", "old"], "county": ["Alpha", "Beta"]}
SCORED = {"x": [0, 1, 2], "y": [0, 1, 2]}
PAIRS = np.array(list(product(range(3), repeat=2)))
NAMES = ["sum x", "sum xx", "sum y", "sum xy", "sum yy"]
X, Y = PAIRS.T
REGRESSION = LinearQuery(SCORED, [X, X**2, Y, X * Y, Y**2], NAMES)
"""X'X, X'y and y'y of a regression of y on x, as sums over the cells of a table of coded values."""
BY_X = Margins(SCORED, ["x"])
COUNTS = np.array([[2, 1, 0], [0, 1, 1], [0, 1, 2]])
CASES = [
    (Margins(WAYS, ["sex", "age"]), Margins(WAYS, ["sex"], ["county"]), 3),  # sums by a dimension that is summed over
    (REGRESSION, BY_X, 2),
    (Margins(WAYS, ["sex", "age"]), Margins(WAYS, ["sex"], ["age"]), 3),
    (Margins(WAYS, ["sex", "age"]), Margins(WAYS, ["sex", "county"]), 2),
    (Margins(WAYS, ["sex"], ["age"]), Margins(WAYS, ["county"]), 2),
]


def mechanism_of(kind, query, exact, **more):
    if kind == "gaussian":
        return SemiGaussian(exact, 0.8, query=query, **more)
    made = SemiKNorm if kind == "k-norm" else partial(SemiNorm, norm=kind)
    return made(exact, 0.9, query=query, **more)


@pytest.mark.parametrize(("query", "exact", "adjacency"), CASES[:2])
@pytest.mark.parametrize("kind", ["k-norm", "l1", "l2", "linf"])
def test_the_largest_log_ratio_of_protected_tables_is_epsilon(kind, query, exact, adjacency):
    mechanism = mechanism_of(kind, query, exact, adjacency=adjacency)
    relations, law = mechanism.answer_invariants, mechanism.law
    worst = 0.0
    for at in changes_by_pairs(query, exact, adjacency).reshape(-1, *relations.frame.shape).astype(float):
        for value in (0 * at, 20 * at):  # a norm adds up along a line: at both the ratio is as large as it gets
            worst = max(worst, abs(law.logp(value, at, relations) - law.logp(value, 0 * at, relations)))
    assert worst == pytest.approx(0.9, rel=1e-7)
    [row] = mechanism.guarantee.pairs
    assert row.loss.parameters == {"epsilon": pytest.approx(0.9, rel=1e-12)}


@pytest.mark.parametrize(("query", "exact", "adjacency"), CASES)
def test_the_sensitivity_space_of_all_pairs_and_that_normal_noise_loses_mu_at_the_farthest(query, exact, adjacency):
    mechanism = SemiGaussian(exact, 0.8, query=query, adjacency=adjacency)
    changes, found = (
        changes_by_pairs(query, exact, adjacency),
        SensitivitySpace.semi(exact, adjacency, query).differences,
    )
    assert sorted([*found.tolist(), *(-found).tolist()]) == changes.tolist()
    assert np.linalg.norm(changes, axis=1).max() / mechanism.sigma == pytest.approx(0.8, rel=1e-12)
    [row] = mechanism.guarantee.pairs
    assert row.loss.parameters == {"mu": pytest.approx(0.8)}
    noise = mechanism.noise(rng=3, size=2000).reshape(2000, -1)
    # The total squared error: a sum of independent multiples of chi-squared; 5 standard deviations, false alarm below 1e-5.
    assert np.mean(np.sum(noise**2, axis=1)) == pytest.approx(mechanism.error, rel=5 * np.sqrt(2 / 2000))


def assert_posterior(release, fiber, weight, rates, of):
    """A number of each table by steps against the enumeration of the fiber, 4.5 standard errors: false alarm below 1e-4."""
    share = softmax(weight + np.sum(fiber * np.log(rates) - gammaln(fiber + 1), axis=1))
    with pm.Model(coords=release.coords):
        x = bdp.ConfidentialCounts("counts", pm.Poisson.dist(rates.reshape(release.frame.shape)), dims=release.dims)
        bdp.observe(release, x)
        drawn = bdp.sample(1500, tune=200, chains=2, cores=1, random_seed=2, quiet=True, progressbar=False)
    batches = of(np.asarray(drawn.posterior["counts"]).reshape(50, -1, fiber.shape[1])).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(len(batches))
    assert abs(batches.mean() - share @ of(fiber)) < 4.5 * error + 1e-9
    assert error < 0.05


def fiber_by_rows(table):
    """All tables with the sums of this table's rows, flat."""
    return np.array([np.concatenate(own) for own in product(*(tables_of(3, int(n)) for n in table.sum(axis=1)))])


def slope(tables):
    """Of the least squares line of each table, from X'X and X'y only."""
    x, xx, y, xy, _ = np.moveaxis(tables @ REGRESSION.matrix.toarray().T, -1, 0)
    n = tables.sum(axis=-1)
    return np.asarray((n * xy - x * y) / (n * xx - x**2))


@pytest.mark.parametrize("kind", ["gaussian", "l1"])
def test_the_posterior_of_a_regression_given_exact_counts_is_that_of_the_enumeration(kind):
    release = mechanism_of(kind, REGRESSION, BY_X, adjacency=1).release(COUNTS, rng=5)
    noisy = np.asarray(release.measurements[0].values, dtype=float)
    # X'X is known from the exact counts.
    assert noisy[:2].tolist() == [8.0, 14.0]
    fiber = fiber_by_rows(COUNTS)
    gaps = noisy - fiber @ REGRESSION.matrix.toarray().T
    changes = changes_by_pairs(REGRESSION, BY_X, 1)
    if kind == "gaussian":
        weight = -0.5 * np.sum(gaps**2, axis=1) * (0.8 / np.linalg.norm(changes, axis=1).max()) ** 2
    else:
        weight = -0.9 / np.abs(changes).sum(axis=1).max() * np.abs(gaps).sum(axis=1)
    assert_posterior(release, fiber, weight, np.array([0.5, 1.0, 2.0])[Y], slope)


def test_a_table_of_sixty_cells():
    frame = labels(5, 4, 3)
    asked, exact = Margins(frame, ["a", "b"]), Margins(frame, ["a"], ["b"], ["c"])
    table = np.random.default_rng(4).poisson(3.0, (5, 4, 3))
    mechanism = SemiGaussian(exact, 0.5, query=asked)  # three features: at most 4 records
    # Four records can make the same 2x2 move twice: four answers change by 2, and no difference of 8 in l1 is longer.
    assert (mechanism.adjacency, mechanism.sensitivity) == (4, pytest.approx(4.0))
    release = mechanism.release(table, rng=6)
    noisy = np.asarray(release.measurements[0].values)
    assert np.array_equal(noisy.sum(axis=0), table.sum(axis=(0, 2)))
    assert np.array_equal(noisy.sum(axis=1), table.sum(axis=(1, 2)))
    # Orthonormal coordinates of the 12 free dimensions, by a singular value decomposition.
    own = noisy - table.sum(axis=2)
    expected = -0.5 * np.sum(own**2) / 64 - 12 * np.log(8.0 * np.sqrt(2 * np.pi))
    assert mechanism.logp(noisy, table) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["gaussian", "k-norm", "l1"])
def test_claims_above_the_law_are_refused(kind):
    mechanism = mechanism_of(kind, REGRESSION, BY_X, adjacency=1)
    release = mechanism.release(COUNTS, rng=5)
    name = "mu" if kind == "gaussian" else "epsilon"
    [own] = release.measurements
    [row] = release.guarantee.pairs
    less = replace(row, loss=type(row.loss)(0.01))
    swapped = LinearQuery(SCORED, REGRESSION.matrix.toarray()[[0, 1, 4, 3, 2]], NAMES)
    fewer = Measured(own.query, own.values, SubspaceNorm(9.0), own.invariants)
    for changed, message in [
        ({"mechanism": {**release.mechanism, name: 0.1}}, "law|states|has"),
        ({"measurements": (Measured(swapped, own.values, own.law),)}, "what was measured is"),
        ({"guarantee": replace(release.guarantee, pairs=(less,))}, r"0\.01|other rows"),
        ({"measurements": (fewer,)}, r"epsilon=9|9\.0"),
    ][: 4 if kind == "l1" else 3]:
        with pytest.raises(ValueError, match=message):
            stated.check_stated(replace(release, **changed))


TABLE = {"sex": ["F", "M"], "income": [0.5, 1.2, 2.0]}
"""Income in thousands, with one decimal."""
INCOME = np.tile([0.5, 1.2, 2.0], 2)
BY_SEX = Margins(TABLE, ["sex"])
OF_WOMEN = np.repeat([1.0, 0.0], 3)
SUMS = LinearQuery.of_values(TABLE, [INCOME, INCOME * OF_WOMEN], ["income", "income of women"])
OF_INCOME = np.array([[2, 0, 1], [0, 1, 1]])


def test_coefficients_are_the_decimals_that_they_print_as():
    assert SUMS.unit == Fraction(1, 10)
    assert SUMS.matrix.toarray().tolist() == [[5, 12, 20] * 2, [5, 12, 20, 0, 0, 0]]
    assert SUMS.apply(OF_INCOME).tolist() == [62, 30]
    assert SUMS.in_unit(SUMS.apply(OF_INCOME)).tolist() == [6.2, 3.0]  # the sum of floats is 6.199999999999999 or so
    for matrix in (INCOME.astype(np.float32), [Decimal(str(x)) for x in INCOME], [Fraction(str(x)) for x in INCOME]):
        other = LinearQuery.of_values(TABLE, matrix, ["income"])
        assert (other.unit, other.matrix.toarray().tolist()) == (Fraction(1, 10), [[5, 12, 20] * 2])
    whole = LinearQuery.of_values(TABLE, INCOME * 20, ["income"], unit=1)
    assert whole == LinearQuery(TABLE, [[10, 24, 40] * 2], ["income"])
    assert "unit" not in whole.describe()["parts"][0]
    finer = LinearQuery.of_values(TABLE, INCOME, ["income"], unit=0.05)
    assert (finer.unit, finer.matrix.toarray().tolist()) == (Fraction(1, 20), [[10, 24, 40] * 2])
    assert Query.from_description(SUMS.describe(), SUMS.frame) == SUMS
    stack = SUMS + BY_SEX
    assert stack.unit is None
    assert stack.in_unit([62, 30, 3, 2]).tolist() == pytest.approx([6.2, 3.0, 3.0, 2.0])
    third = LinearQuery.of_values(TABLE, [[Fraction(1, 3)] * 6], ["share"])
    assert Query.from_description(third.describe(), third.frame).unit == Fraction(1, 3)


test_bad_coefficients = refused(
    ({"unit": 0.2}, r"whole multiples of the unit 0\.2, but the entry of income and .*0\.5.* is 0\.5"),
    ({"unit": 0.0}, "unit must be greater than 0"),
    ({"unit": "0.1"}, "unit must be a real number"),
    ({"matrix": [[np.nan] * 6]}, r"the entry of income and .* must be finite"),
    ({"matrix": [[True] * 6]}, r"the entry of income and .* must be a real number"),
    ({"matrix": [[0.1] * 5]}, r"matrix must have shape \(1, 6\)"),
    ({"matrix": [[1e-9, 1e9, 0, 0, 0, 0]]}, r"below 2\*\*53, but the entry of income and"),
    ({"names": "income"}, "names must be a sequence"),
    of=lambda own: LinearQuery.of_values(**{"frame": TABLE, "matrix": [INCOME], "names": ["income"], **own}),
)  # fmt: skip


@pytest.mark.parametrize("text", ["1", "0", "2/4", "1/0", "-1/2", "0.1", 3, "1/" + "9" * 99, " 1/2"])
def test_a_file_states_a_unit_in_one_way(text):
    description = SUMS.describe()
    description["parts"][0]["unit"] = text
    with pytest.raises(ValueError, match="unit of a query"):
        Query.from_description(description, SUMS.frame)


def made(kind, query=SUMS, **more):
    return mechanism_of(kind, query, BY_SEX, **more)


@pytest.mark.parametrize("kind", ["gaussian", "k-norm", "l2"])
def test_the_loss_of_all_pairs_and_files(kind, tmp_path):
    mechanism = made(kind)
    found = changes_by_pairs(SUMS, BY_SEX, mechanism.adjacency)
    if kind == "gaussian":
        assert np.linalg.norm(found, axis=1).max() / mechanism.sigma == pytest.approx(0.8, rel=1e-12)
    else:
        relations, law = mechanism.answer_invariants, mechanism.law
        ratios = [law.logp(30 * x, 0 * x, relations) - law.logp(30 * x, x, relations) for x in found]
        assert np.abs(ratios).max() == pytest.approx(0.9, rel=1e-7)
    assert "counted in units of 0.1" in str(mechanism.guarantee).replace("\n    ", " ")
    release = mechanism.release(OF_INCOME, rng=5)
    [own] = release.measurements
    assert np.array_equal(own.in_unit.values, own.values / 10)
    release.to_netcdf(tmp_path / "release.nc")
    again = bdp.Release.from_netcdf(tmp_path / "release.nc")
    assert (again, again.measurements[0].query.unit) == (release, Fraction(1, 10))
    assert type(mechanism).from_description(release.mechanism, release.frame) == mechanism


@pytest.mark.parametrize("kind", ["gaussian", "l2"])
def test_the_posterior_is_that_of_the_enumeration_in_real_numbers(kind):
    mechanism = made(kind)
    release = mechanism.release(OF_INCOME, rng=7)
    fiber = fiber_by_rows(OF_INCOME)
    gaps = release.measurements[0].in_unit.values - fiber @ np.column_stack([INCOME, INCOME * OF_WOMEN])
    # Scales by real arithmetic, from all pairs of tables of as many records as may change.
    found = 0.1 * changes_by_pairs(SUMS, BY_SEX, mechanism.adjacency)
    lengths = np.linalg.norm(gaps, axis=1) / np.linalg.norm(found, axis=1).max()
    weight = -0.5 * (0.8 * lengths) ** 2 if kind == "gaussian" else -0.9 * lengths
    assert_posterior(release, fiber, weight, np.array([0.5, 1.0, 2.0] * 2), lambda tables: tables @ INCOME)


ONLY_SHE = {"published": [bdp.Exact(BY_SEX, [1, 0])], "adjacency": 2}


def test_published_answers_map_through_the_query():
    mechanism = made("l2", **ONLY_SHE)
    assert mechanism.sensitivity == pytest.approx(np.sqrt(2.0) * (20 - 5))
    release = mechanism.release([[1, 0, 0], [0, 0, 0]], rng=1)
    assert type(mechanism).from_description(release.mechanism, release.frame) == mechanism
    stated.check_stated(release)


OF_MEN = LinearQuery(TABLE, [[0, 0, 0, 1, 2, 3]], ["men"])
BY_X_AND_Y = Margins(SCORED, ["x"], ["y"])
test_bad_arguments_are_named = refused(
    (lambda: mechanism_of("gaussian", "sex", BY_X, adjacency=1), "query must be Identity"),
    (lambda: mechanism_of("k-norm", Totals(WAYS), BY_X, adjacency=1), "about the table of the invariants"),
    (lambda: mechanism_of("l1", Totals(SCORED), BY_X, adjacency=1), "determine every answer of the query"),
    (lambda: SemiGaussian(BY_X_AND_Y, 1.0, query=REGRESSION, convention="paper"), "Proposition 32, about the cells"),
    (lambda: made("gaussian", query=SUMS + BY_SEX), r"one unit.* but its parts have the units 0\.1, 1"),
    (lambda: made("gaussian", **ONLY_SHE).release(OF_INCOME, rng=1), "published answers"),
    (lambda: made("gaussian", query=OF_MEN, **ONLY_SHE), "differ in an answer of the query"),
    (lambda: made("k-norm", **ONLY_SHE), "published leaves differences in 1 of the 2 dimensions"),
)  # fmt: skip
