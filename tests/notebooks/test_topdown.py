"""Tables in the manner of TopDown: each step against its definition, projections against the listing of all sets of zeros."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

import bayesdp as bdp
from bayesdp.queries import Query, SumPart
from notebooks import topdown
from notebooks.topdown import Constraints, NoTable, nonnegative_least_squares, round_within, topdown_like


def by_enumeration(rows, values, weights, equations, right, limits=()):
    """The best of all sets of unknowns that are 0 and limits that hold with equality; the first equations hold, others are limited."""
    n, fixed = rows.shape[1], len(right)
    best, least = None, np.inf
    for positive in itertools.product([False, True], repeat=n):
        kept = np.flatnonzero(positive)
        for active in itertools.product(*[(None, *own) for own in limits]):
            own = [fixed + i for i, value in enumerate(active) if value is not None]
            e = equations[[*range(fixed), *own]][:, kept]
            f = np.concatenate([right, [value for value in active if value is not None]])
            own_rows = rows[:, kept]
            system = np.block([[own_rows.T @ (weights[:, None] * own_rows), e.T], [e, np.zeros((len(e), len(e)))]])
            x = np.zeros(n)
            sides = np.concatenate([own_rows.T @ (weights * values), f])
            x[kept] = np.linalg.lstsq(system, sides, rcond=None)[0][: len(kept)]
            sums = equations @ x
            within = zip(sums[fixed:], limits, strict=True)
            feasible = x.min(initial=0.0) >= -1e-9 and np.allclose(sums[:fixed], right, atol=1e-8)
            feasible = feasible and all(low - 1e-8 <= value <= high + 1e-8 for value, (low, high) in within)
            loss = np.sum(weights * (rows @ x - values) ** 2)
            if feasible and loss < least - 1e-12:
                best, least = x, loss
    assert best is not None
    return best


def nearest(x, matrix, lower, upper):
    down = np.floor(x + 1e-6)
    ups = itertools.product(*[(0, 1) if left > 2e-6 else (0,) for left in x - down])
    tables = np.array([down + np.array(up) for up in ups])
    kept = np.all((tables @ matrix.T >= lower) & (tables @ matrix.T <= upper), axis=1)
    return np.abs(tables[kept] - x).sum(axis=1).min()


@pytest.mark.parametrize("seed", range(2))
def test_limits_of_sums_against_enumeration(seed):
    """A noisy table of 2 x 3 with a noisy total and a precise row; columns are exact, rows within 1 of the truth."""
    rng = np.random.default_rng(100 + seed)
    by_row, by_column = np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3))
    truth = rng.poisson(1.5, 6)
    rows = np.vstack([np.eye(6), np.ones((1, 6)), by_row[:1]])
    weights = np.concatenate([np.full(6, 0.25), [3.0], [100.0]]) * rng.choice([0.01, 1.0, 10.0])
    values = rows @ truth + rng.normal(0.0, 2.5, len(rows))
    matrix, right = np.vstack([by_column, by_row]), (by_column @ truth).astype(float)
    lower, upper = (by_row @ truth - 1.0).clip(0), by_row @ truth + 1.0
    known = Constraints(sp.csr_array(matrix), np.concatenate([right, lower]), np.concatenate([right, upper]))
    found = nonnegative_least_squares(sp.csr_array(rows), values, weights, known)
    expected = by_enumeration(rows, values, weights, matrix, right, [*zip(lower, upper, strict=True)])
    np.testing.assert_allclose(found, expected, atol=2e-6)
    whole = round_within(found, known)
    assert np.all((matrix @ whole >= known.lower) & (matrix @ whole <= known.upper))
    assert np.abs(whole - found).sum() == pytest.approx(nearest(found, matrix, known.lower, known.upper), abs=1e-5)


def exactly(matrix, sums):
    return Constraints(sp.csr_array(np.array(matrix, float)), np.array(sums, float), np.array(sums, float))


def test_sums_that_no_table_or_no_rounding_has():
    known = exactly([[1, 1], [1, 0]], [3, 5])
    with pytest.raises(NoTable, match="no nonnegative table"):
        nonnegative_least_squares(sp.eye_array(2, format="csr"), np.zeros(2), np.ones(2), known)
    pairs = exactly([[1, 1, 0], [0, 1, 1], [1, 0, 1]], [1, 1, 1])  # of all halves, and of no whole numbers
    for x in (np.full(3, 0.5), np.array([1.0, 1.0, 0.0])):
        with pytest.raises(NoTable, match="no rounding"):
            round_within(x, pairs)
    assert round_within(np.array([0.4, 0.6, 2.0]), exactly(np.zeros((0, 3)), [])).tolist() == [0, 1, 2]


# The TopDown-like table.

TABLE = {
    "tract": ["a", "b", "c", "d", "e"],
    "county": ("tract", ["west", "east", "west", "east", "east"]),
    "age": ["young", "mid", "old"],
    "grown": ("age", ["no", "yes", "yes"]),
}
FRAME = bdp.Frame.of(TABLE)
COUNTIES = {"west": [0, 2], "east": [1, 3, 4]}
SIGMA = {("tract", "age"): 2.0, ("tract",): 0.6, ("county", "age"): 1.5, ("county", "grown"): 0.5, ("age",): 1.0}
AGES, GROWN, TOTAL = np.eye(3), np.array([[1.0, 0, 0], [0, 1, 1]]), np.ones((1, 3))


law = bdp.noise.DiscreteGaussian


def _query(*keep):
    return Query(FRAME, (SumPart(FRAME, keep),))


def _release(seed, exact=(), measured=SIGMA, mean=1.0):
    rng = np.random.default_rng(seed)
    truth = rng.poisson(mean, FRAME.shape)
    parts = []
    for query, sigma in ((_query(*keep), sigma) for keep, sigma in measured.items()):
        noise = np.rint(rng.normal(0.0, sigma, query.shape)).astype(int)
        parts.append(bdp.Measured(query, query.apply(truth) + noise, law(sigma)))
    known = [bdp.Exact(_query(*keep), _query(*keep).apply(truth)) for keep in exact]
    return bdp.Release.from_published(FRAME, parts, known), truth


def _check(out, rows, values, sigmas, equations, right):
    weights = np.array([1.0 / float(law(sigma).variance(())) for sigma in sigmas])
    best = by_enumeration(rows, np.array(values, float), weights, equations, right)
    assert np.abs(out - best).max() < 1
    np.testing.assert_array_equal(equations @ out, right)
    assert np.abs(out - best).sum() == pytest.approx(nearest(best, equations, right, right), abs=1e-4)


@pytest.mark.parametrize("exact", [(), ((),), (("county",),), (("tract",),)])
def test_every_step_is_that_of_its_definition(exact):
    release, truth = _release(0, exact)
    out = topdown_like(release, "tract").values
    noisy = {own.query.parts[0].keep: own.values for own in release.measurements}
    assert (out.dtype, out.min() >= 0) == (np.int64, True)
    # The country, from its ages; exact totals below make its own exact.
    equations, right = (TOTAL, np.array([truth.sum()])) if exact else (np.zeros((0, 3)), np.zeros(0))
    _check(out.sum(axis=0), AGES, noisy[("age",)], [1.0] * 3, equations, right)
    # Counties, whose order is that of the release, given the country.
    order = list(dict.fromkeys(TABLE["county"][1]))
    tables = np.array([out[COUNTIES[name]].sum(axis=0) for name in order])
    rows = np.vstack([np.kron(np.eye(2), AGES), np.kron(np.eye(2), GROWN)])
    values = np.concatenate([noisy[("county", "age")].reshape(-1), noisy[("county", "grown")].reshape(-1)])
    equations, right = np.kron(np.ones((1, 2)), AGES), out.sum(axis=0)
    if exact in ((("county",),), (("tract",),)):
        equations = np.vstack([equations, np.kron(np.eye(2), TOTAL)])
        right = np.concatenate([right, [truth[COUNTIES[name]].sum() for name in order]])
    _check(tables.reshape(-1), rows, values, [1.5] * 6 + [0.5] * 4, equations, right)
    # Tracts given their county.
    for members in COUNTIES.values():
        k = len(members)
        rows = np.vstack([np.kron(np.eye(k), AGES), np.kron(np.eye(k), TOTAL)])
        values = np.concatenate([noisy[("tract", "age")][members].reshape(-1), noisy[("tract",)][members]])
        equations, right = np.kron(np.ones((1, k)), AGES), out[members].sum(axis=0)
        if exact == (("tract",),):
            equations = np.vstack([equations, np.kron(np.eye(k), TOTAL)])
            right = np.concatenate([right, truth[members].sum(axis=1)])
        _check(out[members].reshape(-1), rows, values, [2.0] * 3 * k + [0.6] * k, equations, right)


def test_the_closed_form_is_the_general_one(monkeypatch):
    release, truth = _release(5, ((),), {("tract", "age"): 2.0, ("county", "age"): 3.0, ("age",): 1.0}, mean=9.0)
    # Of some cells there are second, precise answers, so that the children of a node differ in their weights.
    again = np.where(np.arange(15).reshape(5, 3) % 2, truth + 3.0, np.nan)
    second = bdp.Measured(_query("tract", "age"), again, law(0.5), unmeasured=np.isnan(again))
    release = bdp.Release.from_published(FRAME, [*release.measurements, second], release.exact)
    quick = topdown_like(release, "tract")
    monkeypatch.setattr(topdown, "_one_total_each", lambda *_: None)
    general = topdown_like(release, "tract")
    np.testing.assert_array_equal(quick.values.sum(axis=0), general.values.sum(axis=0))
    assert np.abs(quick.values - general.values).sum() <= 4  # of several roundings that are as near, each takes one


def test_what_is_exact_is_kept_limits_and_zeros_too():
    rng = np.random.default_rng(8)
    truth = rng.poisson(4.0, FRAME.shape)
    truth[2, 1] = truth[4, 0] = 0
    zeros = bdp.LinearQuery(FRAME, np.eye(15, dtype=int)[[7, 12]], names=["c mid", "e young"])
    grown, tract = _query("county", "grown"), _query("tract")
    most, least = (tract.apply(truth) + 1, "<="), ((tract.apply(truth) - 1).clip(0), ">=")
    exact = [
        bdp.Exact(grown, grown.apply(truth)),
        bdp.Exact(tract, *most),
        bdp.Exact(tract, *least),
        bdp.Exact(zeros, [0, 0]),
    ]
    noisy = bdp.Measured(bdp.Identity(FRAME), truth + rng.integers(-4, 5, truth.shape), law(2.5))
    out = topdown_like(bdp.Release.from_published(FRAME, [noisy], exact), "tract").values
    np.testing.assert_array_equal(grown.apply(out), exact[0].values)
    assert np.abs(out.sum(axis=1) - truth.sum(axis=1)).max() <= 1
    assert out[2, 1] == out[4, 0] == 0
    assert out.min() >= 0


def test_answers_that_are_missing_come_from_elsewhere_and_children_that_cannot_keep_what_is_exact_are_named():
    """Ages of the country from tracts, where it has a total only; a cell without an answer from another measurement."""
    release, _ = _release(2, ((),), {("tract", "age"): 1.0, (): 1.0}, mean=50.0)
    out = topdown_like(release, "tract")
    assert np.abs(out.sum("tract").values - release.measurements[0].values.sum(axis=0)).max() < 15
    values = np.array([[4.0, 7.0], [np.nan, 9.0], [3.0, 3.0]])
    table = {"tract": ["a", "b", "c"], "age": ["young", "old"]}
    one = bdp.Measured(bdp.Identity(table), values, law(1.0), unmeasured=np.isnan(values))
    whole = bdp.Measured(bdp.Identity(table), [[9, 1], [5, 70], [-40, 3]], law(50.0))
    assert topdown_like(bdp.Release.from_published(table, [one, whole])).values.tolist() == [[4, 7], [5, 9], [3, 3]]
    with pytest.raises(ValueError, match="answers at every leaf that fix every cell"):
        topdown_like(bdp.Release.from_published(table, [one]))
    # The country is settled first: seven young. Tract b may have young ones only, five of them, and tract a old ones only.
    table = {"tract": ["a", "b"], "age": ["young", "old"]}
    zeros = bdp.LinearQuery(table, np.array([[1, 0, 0, 0], [0, 0, 0, 1]]), names=["a young", "b old"])
    answers = (bdp.Identity(table), [[1, 4], [3, -1]]), (bdp.Margins(table, ["age"]), [9, 1])
    measured = [bdp.Measured(query, values, law(1.0)) for query, values in answers]
    exact = [bdp.Exact(bdp.Margins(table, ["tract"]), [3, 5]), bdp.Exact(zeros, [0, 0])]
    with pytest.raises(ValueError, match="the tables of tract a, b cannot keep what is exact: no nonnegative table"):
        topdown_like(bdp.Release.from_published(table, measured, exact), "tract")


# Simulated releases, one total each.


def test_releases_keep_totals_and_sign_favour_small_units_and_do_not_mix_groups():
    """A large unit and nine of zeros: clipping adds about b/2 to each zero cell, which the large one pays for."""
    truth = np.zeros((10, 3), dtype=np.int64)
    truth[0] = 1000
    for rounded in (False, True):
        found = topdown.simulate(truth, ["only"] * 10, 5.0, np.random.default_rng(5), 400, rounded=rounded)
        assert found.min() >= 0
        np.testing.assert_allclose(found.sum(axis=(1, 2)), 3000, rtol=1e-12)
        error = (found - truth).sum(axis=2)
        mean, deviation = error.mean(axis=0), error.std(axis=0, ddof=1) / 20
        # Five standard deviations: false alarms below 1e-5 for the ten cells together.
        assert mean[0] < -5 * deviation[0]
        assert np.all(mean[1:] > 5 * deviation[1:])
    # Groups do not mix.
    truth = np.array([[50, 10], [60, 0], [5, 5]])
    found = topdown.simulate(truth, ["A", "B", "A"], 3.0, np.random.default_rng(6), 30)
    np.testing.assert_array_equal(found[:, [0, 2]].sum(axis=(1, 2)), 70)
    np.testing.assert_array_equal(found[:, 1].sum(axis=1), 60)
    # Where nothing is clipped the simulation is the projected mechanism: errors of mean zero.
    truth = np.full((6, 2), 10_000)
    found = topdown.simulate(truth, ["only"] * 6, 5.0, np.random.default_rng(7), 2000, rounded=False)
    z = (found - truth).mean(axis=0) / ((found - truth).std(axis=0, ddof=1) / np.sqrt(2000))
    assert np.abs(z).max() < 4.5  # 12 cells: false alarm below 1e-4


@pytest.mark.parametrize("total", [0.5, 200.0])
def test_projection_agrees_with_enumeration(total):
    rng = np.random.default_rng(3)
    values = rng.normal(3.0, 10.0, (8, 5))
    for given in (None, rng.uniform(0.2, 5.0, 5), rng.uniform(0.2, 5.0, (8, 5))):
        found = topdown.onto_total(values, np.full(8, total), given)
        each = np.broadcast_to(1.0 if given is None else given, (8, 5))
        for row, own, x in zip(values, each, found, strict=True):
            np.testing.assert_allclose(x, by_enumeration(np.eye(5), row, own, np.ones((1, 5)), [total]), atol=1e-7)


def test_rounding_keeps_the_total_and_moves_no_cell_by_one():
    """What is rounded up has the largest remainders; a table that is right already does not move."""
    values = np.array([3.0, 0.0, 5.5])
    np.testing.assert_allclose(topdown.onto_total(values, 8.5), values, atol=1e-12)
    np.testing.assert_array_equal(topdown.onto_total([4.0, -2.0], 0.0), [0.0, 0.0])
    assert topdown.round_to_total([3.0 - 1e-12, 4.5, 2.5 + 1e-12], 10).tolist() == [3, 4, 3]
    values = np.random.default_rng(4).dirichlet(np.full(7, 0.3), 50) * 100
    whole = topdown.round_to_total(values, np.full(50, 100))
    assert whole.dtype == np.int64
    np.testing.assert_array_equal(whole.sum(axis=1), 100)
    assert np.abs(whole - values).max() < 1
    remainder = values - np.floor(values)
    largest_down = np.where(whole <= values, remainder, 0).max(axis=1)
    assert np.all(np.where(whole > values, remainder, 1).min(axis=1) >= largest_down)
    for call, message in (
        (lambda: topdown.round_to_total([1.0, 2.0], 7), "do not add up"),
        (lambda: topdown.onto_total([1.0, 2.0], -1.0), "at least 0"),
        (lambda: topdown.onto_total([1.0, 2.0], 1.0, [1.0, 0.0]), "2 positive numbers"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
