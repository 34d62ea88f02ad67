"""The projection and the extension framework against dense algebra and enumeration; lower bounds of the error."""

import math
from itertools import product

import numpy as np
import pytest
import scipy.linalg
import scipy.stats
import xarray as xr
from scipy.optimize import linprog
from scipy.special import softmax

from bayesdp.invariants import Invariants
from bayesdp.noise import DiscreteLaplace, LatticeLaplace
from bayesdp.papers.subspace import base_decomposition, extend, gaussian_error_factor, private_error_bound, project
from bayesdp.privacy import gaussian_sigma, optimal_factorization
from bayesdp.queries import Identity, LinearQuery, Margins, Totals
from tests.refusals import refused

LABELS = {
    "county": ["Alpha", "Beta", "Gamma", "Delta"],
    "education": ["Low", "High"],
    "state": ("county", list("NNSS")),
}
TABLE = xr.DataArray([[15, 1], [20, 10], [3, 0], [7, 8]], dims=["county", "education"], coords=LABELS)
CELLS, COUNTIES = Identity(TABLE), Margins(TABLE, ["county"])
WEIGHTED = LinearQuery(TABLE, [[1, 1, 2, 0, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1, 3, -1]], ["weighted", "other"])
PURE = {"epsilon": 1.0}
CASES = [
    (CELLS, Margins(TABLE, ["county"], ["education"])),
    (CELLS, WEIGHTED),
    (COUNTIES, Totals(TABLE, by="state")),
    (COUNTIES, Margins(TABLE, ["education"])),
    (COUNTIES + Totals(TABLE), Totals(TABLE)),
    (Totals(TABLE), LinearQuery(TABLE, [[1, 0, 0, 0, 0, 0, 0, 0]], ["first"])),
]


def multiplicative(answers, rng):
    return answers * np.exp(rng.normal(scale=0.1, size=answers.shape))


def rounded_first(answers, rng):
    return 10 * np.round(answers / 10) + rng.geometric(0.1, size=answers.shape) - rng.geometric(0.1, size=answers.shape)


def cauchy(values, rng):
    return values + rng.standard_cauchy(values.shape)


def dense_projection(query, invariants):
    """Onto the image of the null space of the invariants, by singular values; nothing of the package but the matrices."""
    rows = invariants.matrix.toarray().astype(float)
    basis = scipy.linalg.orth(query.matrix.toarray() @ scipy.linalg.null_space(rows), rcond=1e-10)
    return basis @ basis.T


def assert_exact(made, released):
    """The exact answers are met exactly, and something else has changed."""
    change = released.values.values - made.query.apply(TABLE.values)
    assert np.any(change)
    assert not np.any(made.answer_invariants.matrix @ change.ravel())
    for part in released.exact:
        np.testing.assert_array_equal(part.values, part.query.apply(TABLE.values))


@pytest.mark.parametrize("mechanism", [multiplicative, rounded_first, cauchy])
@pytest.mark.parametrize(("query", "invariants"), CASES)
def test_projecting_any_function_is_the_formula_of_the_theorem(query, invariants, mechanism, make_rng):
    made = project(mechanism, query, invariants, loss=PURE, grid=2.0**-30)
    released, answers = made.release_values(TABLE, make_rng(3)), query.apply(TABLE.values)
    noise = mechanism(answers, make_rng(3)) - answers
    expected = answers.ravel() + dense_projection(query, invariants) @ noise.ravel()
    np.testing.assert_allclose(released.values.values.ravel(), expected, atol=1e-7)
    assert released.values.dims == query.dims
    assert_exact(made, released)


@pytest.mark.parametrize(("query", "invariants"), CASES)
def test_extending_a_function_adds_what_the_invariants_determine(query, invariants, make_rng):
    # With c the coordinates of the answers, c -> 3 c triples what is free of them: A + 2 P A, whatever the basis.
    made = extend(lambda coordinates, rng: 3.0 * coordinates, query, invariants, loss=PURE, grid=2.0**-30)
    released, answers = made.release_values(TABLE), query.apply(TABLE.values).ravel()
    expected = answers + 2.0 * dense_projection(query, invariants) @ answers
    np.testing.assert_allclose(released.values.values.ravel(), expected, atol=1e-7)
    assert made.coordinate_rule == made.answer_invariants.coordinate_rule
    noisy = extend(cauchy, query, invariants, loss=PURE)
    for seed in range(5):
        assert_exact(noisy, noisy.release_values(TABLE, make_rng(seed)))


COUNTY = {"county": ["Alpha", "Beta", "Gamma"]}


# An exponential mechanism on three counts, with all its outputs listed: the law of what is released is then a sum of
# probabilities, and Theorem 3.1 can be checked to rounding: for neighbours that share the invariant, and (where the count
# of Alpha is exact) for those that do not.
@pytest.mark.parametrize(
    ("invariants", "released"), [(Totals(COUNTY), 37), (LinearQuery(COUNTY, [[1, 0, 0]], ["Alpha"]), 16)]
)
def test_projecting_an_exponential_mechanism_is_subspace_private_by_enumeration(invariants, released):
    outputs, epsilon = np.array(list(product(range(4), repeat=3)), dtype=float), 0.7

    def masses(answers):
        # Utility -|y - x|_1 - (y_0 - x_0)**2 / 8: not additive, as outputs are limited to 0..3.
        utility = -np.abs(outputs - answers).sum(axis=1) - (outputs[:, 0] - answers[0]) ** 2 / 8
        spread = 2.0 + 5 / 8  # how much one substituted record changes it, at most, for counts within 0..3
        return softmax(epsilon * utility / (2 * spread))

    def law(table):
        """Probability of each released table, within the space that the invariant leaves free."""
        found = {}
        for output, mass in zip(outputs, masses(np.array(table)), strict=True):
            made = project(lambda answers, rng, y=output: y, Identity(COUNTY), invariants, loss={"epsilon": epsilon})
            values = made.release_values(table).values.values
            assert invariants.apply(values).item() == invariants.apply(np.array(table)).item()
            free = tuple(np.round(made.invariants.project(values), 4) + 0.0)
            found[free] = found.get(free, 0.0) + mass
        return found

    tables = {table: law(table) for table in [(1, 2, 0), (2, 1, 0), (1, 1, 1)]}
    assert [len(own) for own in tables.values()] == [released] * 3  # of 64 outputs: the others differ in what is exact
    moved = [(one, other) for one, other in product(tables, repeat=2) if np.abs(np.subtract(one, other)).sum() == 2]
    assert len(moved) == 6
    for one, other in moved:
        assert 0.01 < max(math.log(tables[one][y] / tables[other][y]) for y in tables[one]) <= epsilon + 1e-12
    assert sum(tables[1, 2, 0].values()) == pytest.approx(1.0)


# Student noise with 12 degrees of freedom has fourth moments, and a kurtosis of 3.75.
NOISE = [(lambda rng, size: 3.0 * rng.standard_t(12, size=(size, 4, 2)), 9.0 * 12 / 10, 3.75)]
NOISE += [(DiscreteLaplace(2.0), 2 * np.exp(-0.5) / (1 - np.exp(-0.5)) ** 2, 6.1)]


# Covariances of 15,000 draws: within 6 standard errors, 36 or fewer entries each (below 1e-6 in all).
@pytest.mark.parametrize(("noise", "variance", "kurtosis"), NOISE)
@pytest.mark.parametrize("invariants", [Totals(TABLE, by="state"), WEIGHTED])
def test_additive_noise_has_the_mean_and_the_projected_covariance(noise, variance, kurtosis, invariants, make_rng):
    made = project(noise, CELLS, invariants, loss=PURE, additive=True)
    draws = made.noise(make_rng(7), 15_000).reshape(-1, 8)
    expected = variance * dense_projection(CELLS, invariants)
    assert np.max(np.abs(draws.mean(axis=0)) / np.sqrt(np.diag(expected) / len(draws))) < 6
    spread = np.sqrt((kurtosis - 1) * np.outer(np.diag(expected), np.diag(expected)) / len(draws))
    assert np.max(np.abs(draws.T @ draws / len(draws) - expected) / spread) < 6
    one = made.release_values(TABLE, make_rng(9)).values.values - TABLE.values
    np.testing.assert_array_equal(one, made.noise(make_rng(9))[0])


def test_extended_additive_noise_is_that_of_its_coordinates(make_rng):
    own = Invariants(Totals(TABLE, by="state"))
    made = extend(lambda rng, size: rng.laplace(size=(size, 6)), CELLS, own, loss=PURE, additive=True, grid=2.0**-30)
    noise = made.noise(make_rng(2), 3)
    assert noise.shape == (3, 4, 2)
    np.testing.assert_allclose(own.coordinates(noise), make_rng(2).laplace(size=(3, 6)), atol=1e-7)


def test_a_mechanism_may_take_the_table_but_not_change_it(make_rng):
    def greedy(table, rng):
        noisy = COUNTIES.apply(table) + table.max() * rng.laplace(size=4)
        table[...] = 0
        return noisy

    released = project(greedy, COUNTIES, Totals(TABLE), loss=PURE, takes="table").release_values(TABLE, make_rng(1))
    noise = 20 * make_rng(1).laplace(size=4)
    np.testing.assert_allclose(released.values, COUNTIES.apply(TABLE) + noise - noise.mean(), atol=1e-5)
    assert list(released.values.county) == LABELS["county"]
    assert released.exact[0].values == TABLE.values.sum() == 64


@pytest.mark.parametrize(
    ("loss", "kind", "of_two"),
    [
        ({"epsilon": 0.5}, "pure", {"epsilon": 1.0}),
        ({"rho": 0.1}, "zcdp", {"rho": 0.4}),
        ({"mu": 0.5}, "gdp", {"mu": 1.0}),
        ({"epsilon": 1.0, "delta": 0.1}, "approximate", {"epsilon": 2.0, "delta": 0.1 + 0.1 * np.e}),
        ({"epsilon": 1.0, "delta": 0.6}, "approximate", {"epsilon": 2.0, "delta": 1.0}),
    ],
)
def test_the_guarantee_is_the_stated_loss_and_that_of_groups(loss, kind, of_two):
    stated = project(multiplicative, CELLS, Margins(TABLE, ["county"], ["education"]), loss=loss).guarantee
    assert (stated.kind, stated.parameters) == (kind, {**loss, "sensitivity": 2.0})
    assert [(row.size, dict(row.loss)) for row in stated.pairs] == [(2.0, loss), (4.0, pytest.approx(of_two))]
    law = project(DiscreteLaplace(2.0), CELLS, Totals(TABLE), loss=loss, additive=True).guarantee
    text, of_law = (" ".join(str(own).split()) for own in (stated, law))
    assert ("no protection by this bound" in text) == (loss.get("delta") == 0.6)
    for words in (
        "no likelihood is known",
        "drawn by the function that was handed in; that it has the stated loss is not",
    ):
        assert (words in text, words in of_law) == (True, False)
    assert ("drawn exactly from its law" in text, "drawn exactly from its law" in of_law) == (False, True)
    more = project(multiplicative, CELLS, Totals(TABLE), loss=loss, neighbours="add-remove").guarantee
    assert [(row.size, dict(row.loss)) for row in more.pairs] == [(1.0, loss), (2.0, pytest.approx(of_two))]
    assert "one record is added or removed" in more.pairs[0].relation


def test_releases_say_whether_they_are_simulated_and_which_cells_are_determined(make_rng):
    table = TABLE.copy(data=[[15, 1], [20, 10], [0, 0], [7, 8]])
    made = project(multiplicative, CELLS, COUNTIES, loss=PURE)
    simulated, real = made.release_values(table, make_rng(1)), made.release_values(table)
    assert (simulated.guarantee.simulated, real.guarantee.simulated) == (True, False)
    assert real.guarantee.determined_cells == ("county=Gamma, education=Low", "county=Gamma, education=High")
    assert made.guarantee.determined_cells == ()
    np.testing.assert_array_equal(real.values.values * 2.0**20 % 1, 0)
    assert not np.array_equal(real.values, made.release_values(table).values)


def framed(framework, changes):
    given = {"mechanism": multiplicative, "query": CELLS, "invariants": COUNTIES, "loss": PURE, **changes}
    return framework(given.pop("mechanism"), given.pop("query"), given.pop("invariants"), **given)


BAD = (
    ({"loss": {}}, "loss must map names"),
    ({"loss": {"epsilon": 1.0, "rho": 1.0}}, "state the loss by epsilon= or epsilon= and delta="),
    ({"loss": {"sensitivity": 1.0}}, "got sensitivity"),
    ({"loss": {"epsilon": 1.0, "delta": 1.0}}, "delta must lie strictly between 0 and 1"),
    ({"loss": {"epsilon": 0.0}}, "epsilon must be a finite number greater than 0"),
    ({"loss": {"sigma": 1.0}}, "unknown names 'sigma'"),
    ({"mechanism": 3}, "mechanism must be a function or a noise law, got int"),
    ({"mechanism": DiscreteLaplace(1.0)}, "hand it in with additive=True"),
    ({"mechanism": LatticeLaplace(1.0), "additive": True}, "keeps invariants already"),
    ({"query": "county"}, "query must be Identity"),
    ({"invariants": Identity(TABLE)}, "determine every answer of the query.*county=Alpha"),
    ({"invariants": Totals({"county": ["Alpha"]})}, "same table|same dimensions"),
    ({"neighbours": "all"}, "neighbours must be one of"),
    ({"grid": 0.3}, "grid must be a power of two"),
    ({"grid": 2.0}, "grid must be a power of two of at most 1"),
)
test_bad_arguments_of_projection = refused(*BAD, of=lambda changes: framed(project, changes))
test_bad_arguments_of_extension = refused(*BAD, of=lambda changes: framed(extend, changes))
GOOD = project(DiscreteLaplace(1.0), CELLS, COUNTIES, loss=PURE, additive=True)
INFINITE = project(lambda rng, size: np.full((4, 2), np.inf), CELLS, COUNTIES, loss=PURE, additive=True)
WIDE = extend(lambda rng, size: np.full((size, 4), np.inf), CELLS, COUNTIES, loss=PURE, additive=True)
NEGATIVE = TABLE.copy(data=[[15, -1], [20, 10], [0, 0], [7, 8]])


def released(output):
    return project(output, CELLS, WEIGHTED, loss=PURE).release_values(TABLE)


test_bad_calls_and_outputs_are_refused = refused(
    (lambda: released(lambda a, rng: a.ravel()), r"output of mechanism must have shape \(4, 2\), got \(8,\)"),
    (lambda: released(lambda a, rng: np.where(a == 10, np.nan, a)), "must be finite, but county=Beta, education=High is not$"),
    (lambda: released(lambda a, rng: a + 2.0**40), "grid must be larger"),
    (INFINITE.noise, r"the noise that mechanism\(rng, size\) returns must have shape \(1, 4, 2\)"),
    (WIDE.noise, "must be finite, but coordinate 1 is not$"),
    (lambda: GOOD.noise(size=0), "size must be an integer greater than 0"),
    (lambda: GOOD.release_values(TABLE, 3.0), "rng must be an integer seed"),
    (lambda: GOOD.release_values(NEGATIVE), "table must be at least 0, but county=Alpha, education=High is not$"),
    (lambda: project(multiplicative, CELLS, COUNTIES, loss=PURE, takes="cells"), "takes must be one of"),
    (project(multiplicative, CELLS, COUNTIES, loss=PURE).noise, "not additive"),
    (lambda: private_error_bound([[1.0]], 1.0, 1.0), "delta must be less than 1"),
    (lambda: private_error_bound([[1.0]], 0.0), "epsilon must be"),
    (lambda: private_error_bound([[1.0, 0.0]], 1.0), "span"),
    (lambda: gaussian_error_factor(0, 1.0, 1e-6), "dimension must be"),
    (lambda: gaussian_error_factor(3, 1.0, 0.0), "delta"),
    (lambda: gaussian_error_factor(3, 1.0, 1e-6, method="ball"), "method must be one of 'factorization', 'ellipsoid'"),
    (lambda: gaussian_error_factor(301, 1.0, 1e-6, method="ellipsoid"), "dimension must be at most 300"),
)  # fmt: skip


def best_error(counts, epsilon, delta):
    """The least worst-case squared error of all mechanisms for a count from 0 to counts, outputs on a grid, by a linear program.

    Deltas are those of each output alone, which is weaker than (epsilon, delta): the program's mechanisms are more than all.
    """
    outputs, tables = np.linspace(0, counts, 2 * counts + 1), np.eye(counts + 1)
    each = np.eye(len(outputs))
    # Unknowns are probabilities, by table and output, and the worst error.
    errors = [np.append(np.outer(one, (outputs - x) ** 2), -1.0) for x, one in enumerate(tables)]
    pairs = [(x, y) for x in range(counts + 1) for y in (x - 1, x + 1) if 0 <= y <= counts]
    ratios = [np.append(np.outer(tables[x] - math.exp(epsilon) * tables[y], at), 0.0) for x, y in pairs for at in each]
    sums = np.array([np.append(np.outer(one, np.ones(len(outputs))), 0.0) for one in tables])
    limits = np.append(np.zeros(len(errors)), np.full(len(ratios), delta))
    goal, rows = np.append(np.zeros(sums.shape[1] - 1), 1.0), np.array(errors + ratios)
    return linprog(goal, rows, limits, sums, np.ones(len(sums)), bounds=(0, None), method="highs").fun


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (3.0, 0.0), (1.0, 1e-3), (0.6, 0.0)])
def test_no_mechanism_for_a_count_is_below_it(epsilon, delta):
    bound, best = private_error_bound([[1.0]], epsilon, delta), best_error(12, epsilon, delta)
    assert 0.2 * best < bound <= best * (1 + 1e-9)


def _moves(kind, rng):
    """Vectors of neighbours of several shapes: alike, long in few directions, nearly flat, few or many, running totals."""
    n = int(rng.integers(1, 9))
    if kind == "running totals":
        return np.tril(np.ones((n, n)))
    vectors = rng.normal(size=(n + int(rng.integers(0, 12)), n))
    if kind == "long":
        vectors *= 10.0 ** rng.uniform(-2, 2, n)
    if kind == "signs":
        vectors = np.vstack([np.sign(vectors) * (rng.random(vectors.shape) < 0.5), np.eye(n)])
    return vectors


def _share(size, taken):
    """What a block may need, in units of G: it takes so many of the axes that are left."""
    return 2.0 * taken * size / ((size // 2 + 1) * (size // 2 + 2))


def _largest_shares(dimension):
    """By dimension and number of blocks, the largest sum of shares over all sizes of blocks."""
    found = [[0.0]]
    for size in range(1, dimension + 1):
        row = [-math.inf] * (size.bit_length() + 1)
        for taken in range((size + 1) // 2, size + 1):
            for blocks, rest in enumerate(found[size - taken]):
                row[blocks + 1] = max(row[blocks + 1], _share(size, taken) + rest)
        found.append(row)
    return found


def test_all_sizes_of_blocks_are_within_the_factor_of_the_ellipsoid_method():
    """The enumeration of the proof: 3.06 K**2, and 4 K**2 is stated; with ties of 1e-6 and gaps of 1e-3 it is still enough."""
    unit, most = gaussian_error_factor(1, 0.2, 1e-6), 0.0
    for size, row in enumerate(_largest_shares(300)[1:], 1):
        needed = max(blocks * total for blocks, total in enumerate(row) if blocks)
        stated = gaussian_error_factor(size, 0.2, 1e-6, method="ellipsoid") / unit
        assert needed * (1 + 1e-3) * (1 + 1e-6) ** 2 < stated
        most = max(most, needed / (1 + math.floor(math.log2(size))) ** 2)
    assert most == pytest.approx(3.0575, abs=5e-4)


@pytest.mark.parametrize("kind", ["alike", "long", "signs", "running totals"])
def test_theorem_3_11_the_least_gaussian_noise_and_the_base_decomposition_are_within_their_factors(kind):
    """Each step of the proofs, with a constant, and the factors of every mechanism that follow, in 20 cases of each kind."""
    rng, unit, sigma = np.random.default_rng(4), private_error_bound([[1.0]], 0.2, 1e-6), gaussian_sigma(0.2, 1e-6)
    for _ in range(20):
        vectors = _moves(kind, rng)
        n = left = vectors.shape[1]
        least = private_error_bound(vectors, 0.2, 1e-6)
        pivots, factor = least / unit, sum(1.0 / i for i in range(1, n + 1))
        trace = float(np.trace(optimal_factorization(vectors).covariance))
        assert trace <= factor * pivots * (1 + 1e-5)  # the gap of the factorization is 1e-6
        # The pivots, for other weights p than the best: at least sum_i i l_i.
        p = rng.dirichlet(np.ones(len(vectors)))
        eigenvalues = np.sort(np.linalg.eigvalsh((vectors * p[:, None]).T @ vectors))[::-1]
        assert pivots >= float(np.arange(1, n + 1) @ eigenvalues) * (1 - 1e-9)
        assert sigma**2 * trace <= gaussian_error_factor(n, 0.2, 1e-6) * least * (1 + 1e-5)
        covariance, blocks = base_decomposition(vectors)
        total = 0.0
        for block in blocks:
            taken, radius = block.shape[1], float(np.max(np.linalg.norm(vectors @ block, axis=1)))
            assert taken >= left / 2
            assert taken * radius**2 <= _share(left, taken) * pivots * (1 + 2e-3)  # gaps of 1e-3, ties of 1e-6
            left, total = left - taken, total + taken * radius**2
        assert len(blocks) <= n.bit_length()
        assert np.trace(covariance) <= len(blocks) * total * (1 + 1e-9)
        assert sigma**2 * np.trace(covariance) <= gaussian_error_factor(n, 0.2, 1e-6, method="ellipsoid") * least


def test_theorem_3_11_in_its_own_form_and_that_one_bit_is_sharp():
    """Epsilon up to 1, delta up to epsilon / 1000: 5 log(1/delta) for one answer, by steps of the proof and as a whole."""
    for epsilon in (1.0, 0.97, 0.8, 0.5, 0.3, 0.1, 0.01):
        for delta in (epsilon / 1000, epsilon**2 / 1000, 1e-6, 1e-9, 1e-20, 1e-100, 1e-300):
            if delta <= epsilon / 1000:
                assert gaussian_sigma(epsilon, delta) ** 2 <= 2 * math.log(1 / delta) / epsilon**2
                assert private_error_bound([[1.0]], epsilon, delta) * epsilon**2 >= 0.403
                assert gaussian_error_factor(1, epsilon, delta) <= 5 * math.log(1 / delta)
    at_its_largest = gaussian_error_factor(1, 1.0, 1e-300) / math.log(1e300)
    assert 4.6 < at_its_largest < 5  # not far from what is stated
    # Two tables only: randomised response, with the posterior mean as its output, attains the bound for a prior of one half.
    for epsilon in (2.5, 3.0, 5.0):  # one step is best from about 2.4 on
        keep = 1 / (1 + math.exp(-epsilon))
        assert private_error_bound([[1.0]], epsilon) == pytest.approx(keep * (1 - keep), rel=1e-12)
