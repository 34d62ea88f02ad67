"""The TopDown-like table of a release, step by step against the definition of each step."""

from __future__ import annotations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.queries import Query, SumPart
from notebooks import topdown
from notebooks.topdown import topdown_like
from tests.notebooks.test_topdown_constrained import by_enumeration, nearest

TABLE = {
    "tract": ["a", "b", "c", "d", "e"],
    "county": ("tract", ["west", "east", "west", "east", "east"]),
    "age": ["young", "mid", "old"],
    "grown": ("age", ["no", "yes", "yes"]),
}
FRAME = bdp.Frame.of(TABLE)
COUNTIES = {"west": [0, 2], "east": [1, 3, 4]}
MEASURED = (
    (("tract", "age"), 2.0),
    (("tract",), 0.6),
    (("county", "age"), 1.5),
    (("county", "grown"), 0.5),
    (("age",), 1.0),
)


def _query(*keep):
    return Query(FRAME, (SumPart(FRAME, keep),))


def _release(seed, exact=(), measured=MEASURED, mean=1.0):
    rng = np.random.default_rng(seed)
    truth = rng.poisson(mean, FRAME.shape)
    noisy = [
        bdp.Measured(
            _query(*keep),
            _query(*keep).apply(truth) + np.rint(rng.normal(0.0, sigma, _query(*keep).shape)).astype(int),
            bdp.noise.DiscreteGaussian(sigma=sigma),
        )
        for keep, sigma in measured
    ]
    return bdp.Release.from_published(
        FRAME, noisy, [bdp.Exact(_query(*keep), _query(*keep).apply(truth)) for keep in exact]
    ), truth


def _weight(sigma):
    return 1.0 / float(bdp.noise.DiscreteGaussian(sigma=sigma).variance(()))


AGES = np.eye(3)
GROWN = np.array([[1.0, 0, 0], [0, 1, 1]])
TOTAL = np.ones((1, 3))


def _check(children, out, rows, values, weights, equations, right):
    """The output is a best rounding of the best real table."""
    best = by_enumeration(rows, np.array(values, float), np.array(weights), equations, right)
    assert best is not None
    assert np.abs(out - best).max() < 1
    np.testing.assert_array_equal(equations @ out, right)
    assert np.abs(out - best).sum() == pytest.approx(nearest(best, equations, right, right), abs=1e-4), children


@pytest.mark.parametrize(
    "exact", [(), ((),), (("county",),), (("tract",),)], ids=["none", "country", "counties", "tracts"]
)
@pytest.mark.parametrize("seed", range(3))
def test_every_step_is_that_of_its_definition(seed, exact):
    release, truth = _release(seed, exact)
    out = topdown_like(release, "tract").values
    noisy = {own.query.parts[0].keep: own.values for own in release.measurements}
    assert out.dtype == np.int64
    assert out.min() >= 0
    totals = {(): [truth.sum()] if exact else None}
    # The country, from its ages; exact totals below make its own exact.
    equations, right = (TOTAL, np.array(totals[()])) if exact else (np.zeros((0, 3)), np.zeros(0))
    _check("country", out.sum(axis=0), AGES, noisy[("age",)], [_weight(1.0)] * 3, equations, right)
    # Counties, whose order is that of the release, given the country.
    order = list(dict.fromkeys(TABLE["county"][1]))
    tables = np.array([out[COUNTIES[name]].sum(axis=0) for name in order])
    rows = np.vstack([np.kron(np.eye(2), AGES), np.kron(np.eye(2), GROWN)])
    values = np.concatenate([noisy[("county", "age")].reshape(-1), noisy[("county", "grown")].reshape(-1)])
    equations, right = np.kron(np.ones((1, 2)), AGES), out.sum(axis=0)
    if exact in ((("county",),), (("tract",),)):
        equations = np.vstack([equations, np.kron(np.eye(2), TOTAL)])
        right = np.concatenate([right, [truth[COUNTIES[name]].sum() for name in order]])
    _check("counties", tables.reshape(-1), rows, values, [_weight(1.5)] * 6 + [_weight(0.5)] * 4, equations, right)
    # Tracts given their county.
    for name, members in COUNTIES.items():
        k = len(members)
        rows = np.vstack([np.kron(np.eye(k), AGES), np.kron(np.eye(k), TOTAL)])
        values = np.concatenate([noisy[("tract", "age")][members].reshape(-1), noisy[("tract",)][members]])
        equations, right = np.kron(np.ones((1, k)), AGES), out[members].sum(axis=0)
        if exact == (("tract",),):
            equations = np.vstack([equations, np.kron(np.eye(k), TOTAL)])
            right = np.concatenate([right, truth[members].sum(axis=1)])
        weights = [_weight(2.0)] * 3 * k + [_weight(0.6)] * k
        _check(name, out[members].reshape(-1), rows, values, weights, equations, right)


def test_the_closed_form_is_the_general_one(monkeypatch):
    release, truth = _release(5, ((),), ((("tract", "age"), 2.0), (("county", "age"), 3.0), (("age",), 1.0)), mean=9.0)
    # Of some cells there are second, precise answers, so that the children of a node differ in their weights.
    again = np.where(np.arange(15).reshape(5, 3) % 2, truth + 3.0, np.nan)
    second = bdp.Measured(
        _query("tract", "age"), again, bdp.noise.DiscreteGaussian(sigma=0.5), unmeasured=np.isnan(again)
    )
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
    cells = np.zeros((2, truth.size))
    cells[0, 2 * 3 + 1] = cells[1, 4 * 3] = 1
    zeros = bdp.LinearQuery(FRAME, cells.astype(int), names=["c mid", "e young"])
    noisy = truth + rng.integers(-4, 5, truth.shape)
    exact = [
        bdp.Exact(_query("county", "grown"), _query("county", "grown").apply(truth)),
        bdp.Exact(_query("tract"), _query("tract").apply(truth) + 1, "<="),
        bdp.Exact(_query("tract"), (_query("tract").apply(truth) - 1).clip(0), ">="),
        bdp.Exact(zeros, [0, 0]),
    ]
    release = bdp.Release.from_published(
        FRAME, [bdp.Measured(bdp.Identity(FRAME), noisy, bdp.noise.DiscreteGaussian(sigma=2.5))], exact
    )
    out = topdown_like(release, "tract").values
    np.testing.assert_array_equal(_query("county", "grown").apply(out), exact[0].values)
    assert np.abs(out.sum(axis=1) - truth.sum(axis=1)).max() <= 1
    assert out[2, 1] == out[4, 0] == 0
    assert out.min() >= 0


def test_a_level_whose_answers_leave_cells_open_takes_those_below():
    # The country has a total only: its ages come from the tracts' answers, added up.
    release, _ = _release(2, ((),), ((("tract", "age"), 1.0), ((), 1.0)), mean=50.0)
    out = topdown_like(release, "tract")
    assert np.abs(out.sum("tract").values - release.measurements[0].values.sum(axis=0)).max() < 15


def test_answers_that_were_not_published_are_not_used():
    values = np.array([[4.0, 7.0], [np.nan, 9.0], [3.0, 3.0]])
    table = {"tract": ["a", "b", "c"], "age": ["young", "old"]}
    noise = bdp.noise.DiscreteGaussian(sigma=1.0)
    one = bdp.Measured(bdp.Identity(table), values, noise, unmeasured=np.isnan(values))
    whole = bdp.Measured(bdp.Identity(table), [[9, 1], [5, 70], [-40, 3]], bdp.noise.DiscreteGaussian(sigma=50.0))
    assert topdown_like(bdp.Release.from_published(table, [one, whole])).values.tolist() == [[4, 7], [5, 9], [3, 3]]
    with pytest.raises(ValueError, match="answers at every leaf that fix every cell"):
        topdown_like(bdp.Release.from_published(table, [one]))


def test_it_is_biased_as_its_docstring_says():
    """One large tract and many empty ones: clipping adds to the empty ones, and the large one pays, as the total is kept."""
    table = {"tract": [str(i) for i in range(30)]}
    truth = np.zeros(30, dtype=np.int64)
    truth[0] = 1000
    law, rng = bdp.noise.DiscreteGaussian(sigma=5.0), np.random.default_rng(3)
    errors = []
    for _ in range(60):
        measured = bdp.Measured(bdp.Identity(table), truth + law.draw(rng, truth.shape), law)
        errors.append(
            topdown_like(bdp.Release.from_published(table, [measured], [bdp.Exact(bdp.Totals(table), 1000)])) - truth
        )
    error = np.array(errors)
    small = error[:, 1:].mean(axis=1)
    # Means of 60 independent releases, against five of their standard errors: false alarm below 1e-6.
    assert small.mean() > 5 * small.std(ddof=1) / np.sqrt(60)
    assert error[:, 0].mean() < -5 * error[:, 0].std(ddof=1) / np.sqrt(60)


def test_what_is_exact_must_be_sums_over_labels_or_cells_that_are_0():
    noisy = 5 + np.random.default_rng(1).integers(-2, 3, FRAME.shape)
    measured = [bdp.Measured(bdp.Identity(FRAME), noisy, bdp.noise.DiscreteGaussian(sigma=2.0))]
    one = bdp.LinearQuery(FRAME, np.eye(15, dtype=int)[:1], names=["one"])
    with pytest.raises(NotImplementedError, match="is exact in another way"):
        topdown_like(bdp.Release.from_published(FRAME, measured, [bdp.Exact(one, [3])]))


def test_noise_of_lattices_is_refused():
    release = bdp.LatticeLaplace(bdp.Totals(FRAME), epsilon=1.0).release(np.ones(FRAME.shape, int), rng=1)
    with pytest.raises(ValueError, match="independent noise"):
        topdown_like(release)


def test_children_that_cannot_keep_what_is_exact_are_named():
    """The country is settled first: seven young. Tract b may have young ones only, five of them, and tract a old ones only."""
    table = {"tract": ["a", "b"], "age": ["young", "old"]}
    zeros = bdp.LinearQuery(table, np.array([[1, 0, 0, 0], [0, 0, 0, 1]]), names=["a young", "b old"])
    law = bdp.noise.DiscreteGaussian(sigma=1.0)
    measured = [
        bdp.Measured(bdp.Identity(table), [[1, 4], [3, -1]], law),
        bdp.Measured(bdp.Margins(table, ["age"]), [9, 1], law),
    ]
    exact = [bdp.Exact(bdp.Margins(table, ["tract"]), [3, 5]), bdp.Exact(zeros, [0, 0])]
    release = bdp.Release.from_published(table, measured, exact)
    with pytest.raises(ValueError, match="the tables of tract a, b cannot keep what is exact: no nonnegative table"):
        topdown_like(release, "tract")
