"""Covariance matrices on the cone, and that their release is one of statistics like any other: files, `observe`, report."""

import json
from dataclasses import replace

import h5py
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp._chains import ess_bulk
from bayesdp.mechanisms.composition import as_one
from bayesdp.papers.covariance_cone import CovarianceMatrix, CovarianceRelease, element_frame, variables_of
from bayesdp.privacy import truncated_epsilon
from tests.refusals import refused

BOUNDS = [(-3.0, 3.0), (-4.5, 4.5)]
TRUTH = np.array([[1.0, 0.7 * np.sqrt(2)], [0.7 * np.sqrt(2), 2.0]])
NAMES, OF_PEOPLE = ["height", "weight"], np.array([[1.0, 0.5], [0.5, 2.0]])


def test_bounds_and_scales_of_table_1():
    mechanism, rng = CovarianceMatrix(1.0, 50, BOUNDS), np.random.default_rng(3)
    releases = (mechanism.release(TRUTH, rng) for _ in range(50))
    release = next(r for r in releases if r.matrix[0, 0] > 0 and r.matrix[1, 1] > 0)
    assert np.allclose(release.scales, 3 * np.array([[36, 54], [54, 81]]) / 50)  # a third of the budget each
    assert np.allclose(release.largest, 50 * np.array([36, 81]) / (4 * 49))
    edge = np.sqrt(release.matrix[0, 0] * release.matrix[1, 1])
    assert release.bounds(0, 1) == pytest.approx((-edge, edge))
    assert release.guarantee.parameters == pytest.approx({"epsilon": 1.0, "sensitivity": (36 + 81 + 54) / 50})
    parts = [0.5, 0.2, 0.3]  # upper triangle: first variance, covariance, second variance
    mechanism = CovarianceMatrix(1.0, 80, BOUNDS, rule="truncated", parts=parts)
    release = mechanism.release(TRUTH, rng=np.random.default_rng(2))
    for (i, j), part, size in zip([(0, 0), (0, 1), (1, 1)], parts, [36, 54, 81], strict=True):
        low, high = release.bounds(i, j)
        assert truncated_epsilon(release.scales[i, j], high - low, size / 80) == pytest.approx(part, rel=1e-8)
    assert PAPER.release(TRUTH, rng=np.random.default_rng(2)).guarantee.parameters["epsilon"] > 1.05


@pytest.mark.parametrize("rule", ["boundary-inflated", "truncated"])
def test_covariance_is_drawn_given_the_released_variances(rule):
    """300 releases: the cdf of each element at its value is uniform (Kolmogorov-Smirnov, 1e-3), atoms spread out."""
    mechanism, rng = CovarianceMatrix(6.0, 200, BOUNDS, rule=rule), np.random.default_rng(5)
    uniform = [[], [], []]
    for _ in range(300):
        release = mechanism.release(TRUTH, rng)
        for k, (i, j) in enumerate([(0, 0), (0, 1), (1, 1)]):
            low, high = release.bounds(i, j)
            noise, y = stats.laplace(TRUTH[i, j], release.scales[i, j]), release.matrix[i, j]
            if rule == "truncated":
                share = (noise.cdf(y) - noise.cdf(low)) / (noise.cdf(high) - noise.cdf(low))
            elif low < y < high:
                share = noise.cdf(y)
            else:
                share = rng.uniform(0, noise.cdf(low)) if y <= low else rng.uniform(noise.cdf(high), 1)
            uniform[k].append(float(share))
        assert abs(release.correlation[0, 1]) <= 1.0
    for sample in uniform:
        assert stats.kstest(sample, "uniform").pvalue > 1e-3


def zero_variance():
    """A release whose first variance came out as 0, so that nothing is known of the covariance."""
    mechanism = CovarianceMatrix(0.001, 20, BOUNDS, NAMES)
    made = (mechanism.release(OF_PEOPLE, rng=k) for k in range(30))
    return next(own for own in made if own.matrix[0, 0] == 0.0 < own.matrix[1, 1])


INDEFINITE = np.array([[1.0, 0.9, -0.9], [0.9, 2.0, 0.9], [-0.9, 0.9, 1.0]])


def test_repair():
    """The nearest correlation matrix, found by constrained optimisation (scipy's SLSQP), to the threshold."""
    positive = CovarianceRelease(TRUTH, np.ones((2, 2)), [9.0, 9.0], 50, ("x", "y"))
    assert np.array_equal(positive.repaired(), TRUTH)
    release = CovarianceRelease(INDEFINITE, np.ones((3, 3)), [9.0] * 3, 50, ("x", "y", "z"))
    assert not release.is_positive_definite
    nothing = zero_variance()
    assert (nothing.matrix[0, 1], nothing.scales[0, 1]) == (0.0, 0.0)
    assert np.isnan(nothing.correlation[0, 1])
    with pytest.raises(ValueError, match="variance of height is 0"):
        nothing.repaired()
    pytest.importorskip("statsmodels")
    found = release.repaired()
    assert np.allclose(np.diag(found), [1, 2, 1])
    assert np.linalg.eigvalsh(found)[0] > 0
    nearest = np.array([0.42138447, -0.64487033, 0.42138447])
    assert np.allclose([found[0, 1] / np.sqrt(2), found[0, 2], found[1, 2] / np.sqrt(2)], nearest, atol=1e-5)


def made(matrix, scales=((1, 1), (1, 1))):
    return CovarianceRelease(matrix, scales, [9, 9], 50, ("x", "y"))


test_bad_input = refused(
    (lambda: CovarianceMatrix(1.0, 50, [(3.0, -3.0)]), "lower one first, got 3"),
    (lambda: CovarianceMatrix(1.0, 50, [(-np.inf, 3.0)]), "data_bounds must be finite"),
    (lambda: CovarianceMatrix(1.0, 50, BOUNDS, parts=[0.5, 0.5, 0.5]), "add up to epsilon"),
    (lambda: CovarianceMatrix(1.0, 50, BOUNDS, parts=[0.5, 0.5]), "one for each of 3 elements"),
    (lambda: CovarianceMatrix(1.0, 50, 3.0), "data_bounds must be a pair"),
    (lambda: CovarianceMatrix(1.0, 50, [(0.0, 1.0)] * 4, ["x", "y:z", "x:y", "z"]), "label of its own, but two pairs are 'x:y:z'"),
    (lambda: CovarianceMatrix(1.0, 50, BOUNDS).release(np.eye(3)), r"of shape \(2, 2\)"),
    (lambda: CovarianceMatrix(1.0, 50, BOUNDS).release([[1, 2], [2, 1]]), "positive semidefinite"),
    (lambda: CovarianceMatrix(1.0, 50, BOUNDS).release([[1, 2], [0, 1]]), "symmetric"),
    (lambda: CovarianceMatrix(1.0, 50, BOUNDS).release(np.eye(2) * 10), "variance of statistic 1 of at"),
    (lambda: made([[1, 1.1], [1.1, 1]]), "covariance of x and y"),
    (lambda: made([[1, 0], [0, 10]]), "that of y is 10"),
    (lambda: made([[0, 0], [0, 1]]), "positive where both variances are"),
    (lambda: made([[0, 0.5], [0.5, 1]], np.eye(2)), "correlations within -1 and 1"),
)  # fmt: skip
MATRIX = CovarianceMatrix(3.0, 200, BOUNDS, NAMES)
OF_PAPER = {"rule": "truncated", "parts": [0.5, 0.3, 0.2], "convention": "paper"}
PAPER = CovarianceMatrix(1.0, 200, [(-3.0, 3.0)] * 2, NAMES, **OF_PAPER)
ONE = CovarianceMatrix(2.0, 100, [(-3.0, 3.0)])
OF_THREE = [[1.0, 0.4, -0.2], [0.4, 2.0, 0.3], [-0.2, 0.3, 0.5]]
SCALES = [[0.1, 0.2, 0.15], [0.2, 0.3, 0.25], [0.15, 0.25, 0.4]]
BY_HAND = CovarianceRelease(OF_THREE, SCALES, [9.0, 9.0, 4.0], 200, [*NAMES, "age"])
RELEASES = {
    "truncated": lambda: PAPER.release(OF_PEOPLE, rng=2),
    "at a bound": lambda: CovarianceRelease([[0.9, 0.9], [0.9, 3.0]], [[0.2, 0.3], [0.3, 0.4]], [8.0, 3.0], 50, NAMES),
    "one variable": lambda: ONE.release([[1.0]], rng=3),
    "a variance of 0": zero_variance,
    "by hand": lambda: BY_HAND,
    "published": lambda: MATRIX.release(OF_PEOPLE),
}


@pytest.mark.parametrize("kind", ["truncated", "one variable", "a variance of 0", "published"])
def test_what_is_written_is_read(kind, tmp_path):
    release = RELEASES[kind]()
    read = [bdp.Release.from_dataset(release.to_dataset())]
    if kind == "truncated":
        release.to_netcdf(tmp_path / "r.nc")
        release.to_csv(tmp_path / "r")
        read = [bdp.Release.from_netcdf(tmp_path / "r.nc"), bdp.Release.from_csv(tmp_path / "r")]
    for again in read:
        assert again == release
        own = CovarianceRelease.of(again)
        for array in ("matrix", "scales", "largest"):
            assert np.array_equal(getattr(own, array), getattr(release, array)), array
        for word in ("names", "n", "rule", "guarantee", "simulated"):
            assert getattr(own, word) == getattr(release, word), word


def test_elements_have_labels():
    release = MATRIX.release(OF_PEOPLE, rng=1)
    assert release.about == "statistics"
    assert release.coords == {"element": ["height:height", "height:weight", "weight:weight"]}
    assert float(release.values.sel(element="height:weight")) == release.matrix[0, 1] == release.matrix[1, 0]
    assert variables_of(element_frame(["a", "b:c", ":", "a:a"])) == ("a", "b:c", ":", "a:a")
    for labels in ({"element": ["a:a", "a:b", "b:c"]}, {"element": [1, 2, 3]}, {"statistic": ["a:a"]}):
        assert variables_of(bdp.Frame.of(labels)) is None


def by_hand(release, truth):
    """Log-likelihood from SciPy's Laplace law, with clipping or truncation written out."""
    total = 0.0
    for i, j in zip(*np.triu_indices(len(release.names)), strict=True):
        (low, high), value = release.bounds(int(i), int(j)), release.matrix[i, j]
        if low == high:
            continue
        noise = stats.laplace(truth[i, j], release.scales[i, j])
        if release.rule == "truncated":
            total += noise.logpdf(value) - np.log(noise.cdf(high) - noise.cdf(low))
        else:
            at_bound = noise.logcdf(value) if value <= low else noise.logsf(value)
            total += noise.logpdf(value) if low < value < high else at_bound
    return float(total)


@pytest.mark.parametrize("kind", ["truncated", "a variance of 0", "by hand", "at a bound"])
def test_likelihood_and_observed_likelihood(kind):
    """Of a matrix or of its elements: what is observed knows nothing but elements and their law."""
    release, rng = RELEASES[kind](), np.random.default_rng(4)
    size = len(release.names)
    roots = rng.normal(size=(5, size, size))
    expected = [by_hand(release, own @ own.T) for own in roots]
    np.testing.assert_allclose(release.log_likelihood(roots @ np.moveaxis(roots, 1, 2)), expected, rtol=1e-9)
    if kind in ("truncated", "by hand"):
        with pm.Model() as model:
            root = pm.Normal("root", shape=(size, size))
            matrix = pt.sum(root[:, None, :] * root[None, :, :], axis=-1)
            elements = pm.Deterministic("elements", matrix[np.triu_indices(size)])
            read = bdp.Release.from_dataset(release.to_dataset())
            bdp.observe(read, elements if kind == "truncated" else matrix)
        found = model.compile_logp(model.observed_RVs)({"root": roots[0]})
        assert float(found) == pytest.approx(expected[0], rel=1e-9)


RELEASED = MATRIX.release(OF_PEOPLE, rng=1)


@pytest.mark.system
def test_posterior_against_quadrature_and_summary():
    """Means of both variances and the correlation, each within 4.2 standard errors (false alarm below 1e-4 in all)."""
    v, rho = (np.arange(300) + 0.5) * 0.02, (np.arange(201) + 0.5) / 100.5 - 1.0
    laws = [stats.laplace(v, RELEASED.scales[k, k]).pdf(RELEASED.matrix[k, k]) for k in (0, 1)]
    first, second = (law * stats.halfnorm(scale=2.0).pdf(v) for law in laws)
    assert np.all((np.diag(RELEASED.matrix) > 0.0) & (np.diag(RELEASED.matrix) < RELEASED.largest))
    assert abs(RELEASED.matrix[0, 1]) < RELEASED.bounds(0, 1)[1]
    covariances = rho[:, None, None] * np.sqrt(np.outer(v, v))
    weight = first[:, None] * second * stats.laplace(covariances, RELEASED.scales[0, 1]).pdf(RELEASED.matrix[0, 1])
    weight /= weight.sum()
    with pm.Model():
        variances = pm.HalfNormal("variances", 2.0, shape=2)
        correlation = pm.Uniform("rho", -1.0, 1.0)
        covariance = correlation * pt.sqrt(variances[0] * variances[1])
        bdp.observe(RELEASED, pt.stack([pt.stack([variances[0], covariance]), pt.stack([covariance, variances[1]])]))
        posterior = bdp.sample(draws=500, tune=300, chains=2, cores=1, random_seed=4, progressbar=False, quiet=True)
    drawn = posterior["posterior"].to_dataset()
    for values, axis, name in ((v, 1, "variances"), (v, 2, "variances"), (rho, 0, "rho")):
        mass = weight.sum(axis=tuple({0, 1, 2} - {axis}))
        mean = float(mass @ values)
        draws = drawn[name].values if name == "rho" else drawn[name].values[..., axis - 1]
        ess = ess_bulk(draws)
        assert ess > 100
        assert abs(draws.mean() - mean) < 4.2 * np.sqrt(float(mass @ (values - mean) ** 2) / ess), (name, axis)
    row = bdp.summary(posterior).loc[("true_statistic", "element=height:weight")]
    assert row["published"] == RELEASED.matrix[0, 1]
    assert bdp.Release.from_dataset(posterior["release"].to_dataset()) == RELEASED


def test_what_observe_refuses():
    with pm.Model():
        rate = pm.HalfNormal("rate")
        with pytest.raises(ValueError, match=r"must have shape \(3,\) or \(2, 2\), .* 3 statistics, got \(3, 3\)"):
            bdp.observe(RELEASED, rate * pt.eye(3))
        bdp.observe(RELEASED, rate * pt.eye(2))
        with pytest.raises(ValueError, match="observed already"):
            bdp.observe(RELEASED, rate * pt.eye(2))


STATED = RELEASED.guarantee or m.StatisticGuarantee("pure", {"epsilon": 1.0}, "l1")
SMALLER = replace(STATED, parameters={**STATED.parameters, "epsilon": 2.0}, pairs=())
TOLD = MATRIX.describe()
[OWN] = RELEASED.measurements
WITHOUT_WEIGHT = bdp.Measured(OWN.query, [*OWN.values[:2], np.nan], OWN.law, unmeasured=["element=weight:weight"])
BUDGET = {"epsilon": 4.0, "parts": [1.0, 2.0, 1.0]}
OTHER_LAW = "'covariance-matrix' has noise of the law boundary-inflated-laplace.*but the release says"
test_what_a_release_may_not_state = refused(
    ({"guarantee": SMALLER}, "states epsilon = 2.0.*but the mechanism 'covariance-matrix' has.*= 3.0"),
    ({"mechanism": {**TOLD, "n": 100}}, OTHER_LAW),
    ({"mechanism": {**TOLD, **BUDGET}}, OTHER_LAW),
    ({"mechanism": {**TOLD, "rule": "truncated"}}, "of the law truncated-laplace.*says boundary-inflated-laplace"),
    ({"mechanism": {**TOLD, "names": ["height", "age"]}}, "are 'height', 'age', but .* of 'height', 'weight'"),
    ({"mechanism": ONE.describe()}, "variables are 'statistic 1', but released"),
    ({"mechanism": {**TOLD, "extra": 1}}, "'covariance-matrix' has no parameter 'extra'"),
    ({"mechanism": {"mechanism": "covariance-matrix", "epsilon": 3.0}}, "lacks 'n', 'data_bounds'"),
    ({"mechanism": {"mechanism": "covariance-matrix", "n": 50}}, "the guarantee states epsilon = 3.0, .*but the mechanism"),
    ({"mechanism": None}, "needs a mechanism 'covariance-matrix'"),
    ({"measurements": (WITHOUT_WEIGHT,)}, "element=height:weight must be left out: covariances of a"),
    of=lambda changes: replace(RELEASED, **changes),
)  # fmt: skip


def test_files_of_something_else_and_bounds_that_are_not_those_of_the_released_variances(tmp_path):
    """Somebody else may publish a matrix; the law of a covariance follows from the variances beside it."""
    m.TruncatedLaplace(1.0, 0.02, (0, 1)).release(0.3, rng=1).to_netcdf(tmp_path / "other.nc")
    with pytest.raises(ValueError, match=r"needs a mechanism 'covariance-matrix'.*got 'truncated-laplace'"):
        CovarianceRelease.from_netcdf(tmp_path / "other.nc")
    BY_HAND.to_netcdf(tmp_path / "r.nc")
    with h5py.File(tmp_path / "r.nc", "r+") as file:
        [measured] = json.loads(file.attrs["measurements"])
        measured["law"]["bounds"][1][1] *= 1.01
        file.attrs["measurements"] = json.dumps([measured])
    with pytest.raises(ValueError, match="'covariance-matrix' has noise of the law"):
        bdp.Release.from_netcdf(tmp_path / "r.nc")


def test_two_releases_of_one_matrix(tmp_path):
    """Epsilons add up; a file of both is checked part by part."""
    other = CovarianceMatrix(1.0, 200, BOUNDS, NAMES).release(OF_PEOPLE, rng=8)
    whole = as_one([RELEASED, other])
    assert whole.guarantee.parameters["epsilon"] == pytest.approx(4.0)
    whole.to_netcdf(tmp_path / "both.nc")
    assert bdp.Release.from_netcdf(tmp_path / "both.nc") == whole
    smaller = replace(whole.guarantee, parameters={**whole.guarantee.parameters, "epsilon": 3.5})
    with pytest.raises(ValueError, match=r"states epsilon = 3.5, .*but its first row is epsilon = 4"):
        replace(whole, guarantee=smaller).check_stated()
    swapped = replace(whole, mechanism={**(whole.mechanism or {}), "releases": [other.mechanism, RELEASED.mechanism]})
    with pytest.raises(ValueError, match="has noise of the law"):
        swapped.check_stated()
