"""Linear estimates of releases against dense least squares on the whole table."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import bayesdp as bdp
from bayesdp.hierarchies.linear import gls
from bayesdp.queries import Query, SumPart

TABLE = {
    "tract": ["a", "b", "c", "d", "e"],
    "county": ("tract", ["west", "east", "west", "east", "east"]),
    "kind": ["house", "prison", "college"],
    "group": ("kind", ["at home", "elsewhere", "elsewhere"]),
    "age": ["young", "old"],
}
FRAME = bdp.Frame.of(TABLE)
MEASURED = (
    (("tract", "kind", "age"), 2.0),
    (("tract", "age"), 1.0),
    (("county", "group"), 1.5),
    (("county", "kind", "age"), 3.0),
    (("age",), 0.7),
)


def _query(*keep):
    return Query(FRAME, (SumPart(FRAME, keep),))


@pytest.fixture(scope="module", params=[False, True], ids=["no total", "exact totals"])
def release(request):
    rng = np.random.default_rng(3)
    truth = rng.poisson(20.0, FRAME.shape)
    measured = []
    for keep, sigma in MEASURED:
        query = _query(*keep)
        noisy = query.apply(truth) + np.rint(rng.normal(0.0, sigma, query.shape)).astype(int)
        measured.append(bdp.Measured(query, noisy, bdp.noise.DiscreteGaussian(sigma=sigma)))
    exact = [bdp.Exact(_query("county"), _query("county").apply(truth))] if request.param else []
    return bdp.Release.from_published(FRAME, measured, exact)


def _dense(release):
    rows = sp.vstack([own.query.matrix for own in release.measurements]).toarray().astype(float)
    right = np.concatenate([own.values.reshape(-1) for own in release.measurements]).astype(float)
    weights = np.concatenate(
        [np.full(own.query.rows, 1.0 / float(own.law.variance(()))) for own in release.measurements]
    )
    covariance = np.linalg.inv(rows.T @ (weights[:, None] * rows))
    estimate = covariance @ rows.T @ (weights * right)
    for own in release.exact:
        a = own.query.matrix.toarray().astype(float)
        gain = covariance @ a.T @ np.linalg.inv(a @ covariance @ a.T)
        estimate = estimate + gain @ (own.values.reshape(-1) - a @ estimate)
        covariance = covariance - gain @ a @ covariance
    return estimate, covariance


def test_every_answer_is_that_of_dense_least_squares(release):
    estimate, covariance = _dense(release)
    found = gls(release)
    assert found.levels == ("tract", "county", "all")
    for keep in (("tract", "kind", "age"), ("tract",), ("county", "age"), ("group", "age"), ("kind",), ()):
        query = _query(*keep)
        a = query.matrix.toarray()
        np.testing.assert_allclose(found.mean(query).reshape(-1), a @ estimate, rtol=0, atol=1e-8)
        sd = np.sqrt(np.maximum(np.diag(a @ covariance @ a.T), 0.0))
        np.testing.assert_allclose(found.sd(query).reshape(-1), sd, rtol=0, atol=1e-7)
    low, high = found.interval(_query("tract"), 0.9)
    np.testing.assert_allclose(high - low, 2 * 1.6448536269514722 * found.sd(_query("tract")), rtol=1e-12)


def test_two_cells_and_an_exact_total():
    """Vacant and occupied units of a block: the estimate is (30 - 80 + 100) / 2, its variance half of 25."""
    table = {"block": ["1"], "units": ["vacant", "occupied"]}
    noise = bdp.noise.Gaussian(sigma=5.0)
    measured = [bdp.Measured(bdp.Identity(table), [[30, 80]], noise)]
    found = gls(bdp.Release.from_published(table, measured, [bdp.Exact(bdp.Totals(table), 100)]), leaves="block")
    np.testing.assert_allclose(found.mean(bdp.Identity(table)), [[25.0, 75.0]])
    np.testing.assert_allclose(found.sd(bdp.Identity(table)) ** 2, [[12.5, 12.5]])


def test_limits_and_zeros_are_not_used_and_it_says_so():
    noisy = 8 + np.random.default_rng(1).integers(-3, 4, FRAME.shape)
    measured = [bdp.Measured(bdp.Identity(FRAME), noisy, bdp.noise.DiscreteLaplace(b=2.0))]
    release = bdp.Release.from_published(FRAME, measured, [bdp.Exact(_query("county"), [50, 50], "<=")])
    found = gls(release)
    assert len(found.ignored) == 1
    np.testing.assert_allclose(
        found.sd(bdp.Identity(FRAME)), np.sqrt(float(bdp.noise.DiscreteLaplace(b=2.0).variance(())))
    )


def test_noise_of_lattices_is_refused():
    release = bdp.LatticeLaplace(bdp.Totals(FRAME), epsilon=1.0).release(np.ones(FRAME.shape, int), rng=1)
    with pytest.raises(ValueError, match=r"independent noise that is added, and 'lattice-laplace' of .* is none"):
        gls(release)
