"""Covariance matrices with noise of one radius: sensitivity and loss by search, draws, density, posterior, files, bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import stats

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp._chains import ess_bulk
from bayesdp.composition import as_one
from bayesdp.papers import covariance_cone, subspace
from bayesdp.papers.models import observe_covariance
from bayesdp.privacy.caveats import GENERATOR_CAVEAT

NAMES = ["height", "weight"]
CELLS = {"a": [1, 2, 3]}
BOUNDS = [(-3.0, 3.0), (-4.5, 4.5)]
TRUTH = np.array([[1.0, 0.5], [0.5, 2.0]])
JOINT = covariance_cone.JointCovariance(3.0, 200, BOUNDS, NAMES)
RELEASED = JOINT.release(TRUTH, rng=1)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_the_loss_is_attained_and_never_exceeded_on_a_grid_of_data_sets(n: int) -> None:
    """All data sets of n records with both variables at a bound or in the middle, and all records in the place of the last.

    The largest log-ratio of the density of released matrices, over the data sets and over released matrices far beyond each
    pair, is epsilon: some pair attains it.
    """
    bounds = [(-1.0, 1.0), (2.0, 7.0)]
    mechanism = covariance_cone.JointCovariance(0.7, n, bounds)
    grid = [np.array(point) for point in product(*(np.linspace(*own, 3) for own in bounds))]
    rows, columns = np.triu_indices(2)

    def elements(records: Any) -> Any:
        return np.cov(np.array(records), rowvar=False)[rows, columns]

    largest, changes = 0.0, np.zeros(3)
    for others in combinations_with_replacement(grid, n - 1):
        found = np.array([elements([*others, own]) for own in grid])
        apart = found[:, None, :] - found[None, :, :]
        changes = np.maximum(changes, np.abs(apart).max(axis=(0, 1)))
        # log f(y | S) - log f(y | S') is largest at y = S, where it is the norm of S - S'.
        for i, j in [(0, 8), *np.argwhere(np.abs(apart[..., 1]) == np.abs(apart[..., 1]).max())[:2]]:
            zero = mechanism.law.logp(found[i], found[i]) - mechanism.law.logp(found[i], found[j])
            largest = max(largest, zero)
            for way in (-50.0, -1.0, 0.5, 2.0, 50.0):
                y = found[i] + way * (found[j] - found[i])
                ratio = mechanism.law.logp(y, found[i]) - mechanism.law.logp(y, found[j])
                assert abs(ratio) <= 0.7 + 1e-9
    assert np.all(changes <= mechanism.sensitivities[rows, columns] * (1.0 + 1e-12))
    assert changes == pytest.approx(mechanism.sensitivities[rows, columns])  # attained by each element
    assert largest == pytest.approx(0.7)
    assert mechanism.guarantee.parameters["epsilon"] == 0.7
    assert mechanism.guarantee.parameters["sensitivity"] == pytest.approx(mechanism.sensitivities.max())


def test_all_elements_can_change_by_their_sensitivity_at_once() -> None:
    """Others at a corner, one record at theirs or at the opposite one: what noise for each element must be prepared for."""
    n = 9
    mechanism = covariance_cone.JointCovariance(1.0, n, BOUNDS)
    low, high = (np.array([own[side] for own in BOUNDS]) for side in (0, 1))
    one, other = (np.cov(np.array([low] * (n - 1) + [last]), rowvar=False) for last in (low, high))
    assert other - one == pytest.approx(mechanism.sensitivities)


def test_draws_are_a_gamma_radius_times_a_uniform_point_of_the_box() -> None:
    """6,000 draws of ten elements (Kolmogorov-Smirnov, 12 comparisons, 1e-5 each), and the mean squared error of the docstring."""
    mechanism = covariance_cone.JointCovariance(0.5, 50, [(0.0, 1.0), (0.0, 2.0), (-1.0, 1.0), (0.0, 5.0)])
    law = mechanism.law
    noise = law.draw(5, (10,), 6000) / np.asarray(law.b)
    radius = np.abs(noise).max(axis=1)
    # The largest of ten uniform variables times a gamma variable of shape 11 is a gamma variable of shape 10.
    assert stats.kstest(radius, stats.gamma(10).cdf).pvalue > 1e-5
    inside = noise / radius[:, None]
    for k in range(10):
        others = inside[np.abs(inside[:, k]) < 1.0, k]
        assert 0.85 < len(others) / 6000 < 0.95
        assert stats.kstest(others, stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-5
    assert abs(stats.spearmanr(radius, np.abs(inside).sum(axis=1)).statistic) < 4.5 / np.sqrt(6000)
    squares = (noise**2).mean(axis=0)
    assert squares == pytest.approx(np.full(10, 11 * 12 / 3), rel=0.12)
    for p, error in (
        (2, 26.7),
        (3, 168.0),
        (5, 2266.7),
    ):  # docs/papers/covariance-cone.md, in units of 1 / (n epsilon)**2
        assert covariance_cone.JointCovariance(1.0, 10, [(0.0, 1.0)] * p).error * 100 == pytest.approx(error, rel=1e-2)
        d = p * (p + 1) // 2
        equal_parts = 2.0 * d**2 * p**2
        assert (d + 1) * (d + 2) * p**2 / 3 / equal_parts == pytest.approx((d + 1) * (d + 2) / (6 * d**2))


def test_one_variable_has_laplace_noise() -> None:
    law = covariance_cone.JointCovariance(0.5, 50, [(0.0, 2.0)]).law
    for noise in (-3.0, 0.0, 0.7):
        assert law.logp([noise], [0.0]) == pytest.approx(stats.laplace(scale=0.16).logpdf(noise))


def test_released_elements_are_around_the_confidential_ones() -> None:
    """600 releases: the largest distance in scales is a gamma variable of shape 3 (Kolmogorov-Smirnov at 1e-5)."""
    rng = np.random.default_rng(4)
    made = [JOINT.release(TRUTH, rng) for _ in range(600)]
    radius = [np.max(np.abs(own.matrix - TRUTH) / own.scales) for own in made]
    assert stats.kstest(radius, stats.gamma(3).cdf).pvalue > 1e-5
    assert np.allclose(RELEASED.scales, np.array([[36, 54], [54, 81]]) / (200 * 3.0))
    for own in made[:20]:
        grid = 2.0 ** (np.floor(np.log2(own.scales)) - 20)
        assert np.array_equal(own.matrix, np.rint(own.matrix / grid) * grid)
        assert float(own.log_likelihood(TRUTH)) == pytest.approx(
            -np.max(np.abs(own.matrix - TRUTH) / own.scales) - np.log(6 * 8 * np.prod(own.scales[np.triu_indices(2)]))
        )


def test_observed_likelihood_of_a_matrix_and_of_its_elements(tmp_path: Path) -> None:
    RELEASED.to_netcdf(tmp_path / "r.nc")
    again = bdp.Release.from_netcdf(tmp_path / "r.nc")
    for of_elements in (False, True):
        with pm.Model() as model:
            root = pm.Normal("root", shape=(2, 2))
            matrix = pt.sum(root[:, None, :] * root[None, :, :], axis=-1)
            bdp.observe(again, matrix[np.triu_indices(2)] if of_elements else matrix)
        point = {"root": np.array([[1.0, 0.3], [-0.2, 1.4]])}
        found = float(model.compile_logp(model.observed_RVs)(point))
        assert found == pytest.approx(float(RELEASED.log_likelihood(point["root"] @ point["root"].T)), rel=1e-9)
    with pm.Model() as model:
        observe_covariance(again, np.linalg.cholesky(TRUTH))
    assert [own.name for own in model.observed_RVs] == ["noisy"]
    with pm.Model(), pytest.raises(TypeError, match="CovarianceRelease or a JointCovarianceRelease"):
        observe_covariance("release", np.linalg.cholesky(TRUTH))  # type: ignore[arg-type]


def test_posterior_against_quadrature() -> None:
    """Flat in variances and correlation, within the cone; means within 4.2 standard errors (1e-4).

    The released matrix is outside of the cone: its second variance is negative.
    """
    mechanism = covariance_cone.JointCovariance(1.0, 100, [(-3.0, 3.0)] * 2)
    release = next(own for k in range(200) if (own := mechanism.release(TRUTH / 2.0, rng=k)).matrix[1, 1] < 0.0)
    top = 4.0
    with pm.Model():
        variances = pm.Uniform("variances", 0.0, top, shape=2)
        rho = pm.Uniform("rho", -1.0, 1.0)
        covariance = rho * pt.sqrt(variances[0] * variances[1])
        bdp.observe(release, pt.stack([pt.stack([variances[0], covariance]), pt.stack([covariance, variances[1]])]))
        tree = bdp.sample(draws=1000, tune=600, chains=2, cores=1, random_seed=4, progressbar=False, quiet=True)
    v, r = (np.arange(80) + 0.5) * top / 80, (np.arange(81) + 0.5) / 40.5 - 1.0
    first, second, correlation = np.meshgrid(v, v, r, indexing="ij")
    covariances = correlation * np.sqrt(first * second)
    matrices = np.stack([np.stack([first, covariances], -1), np.stack([covariances, second], -1)], -2)
    weight = np.exp(release.log_likelihood(matrices))
    weight /= weight.sum()
    drawn = tree["posterior"].to_dataset()
    for values, axis, draws in (
        (v, 0, drawn["variances"].values[..., 0]),
        (v, 1, drawn["variances"].values[..., 1]),
        (r, 2, drawn["rho"].values),
    ):
        mass = weight.sum(axis=tuple({0, 1, 2} - {axis}))
        mean = float(mass @ values)
        ess = ess_bulk(draws)
        assert ess > 150
        assert abs(draws.mean() - mean) < 4.2 * np.sqrt(float(mass @ (values - mean) ** 2) / ess), axis
    assert bdp.summary(tree).loc[("true_statistic", "element=statistic 2:statistic 2"), "published"] < 0.0


def test_files_and_descriptions(tmp_path: Path) -> None:
    RELEASED.to_netcdf(tmp_path / "r.nc")
    RELEASED.to_csv(tmp_path / "r")
    for again in (bdp.Release.from_netcdf(tmp_path / "r.nc"), bdp.Release.from_csv(tmp_path / "r")):
        assert type(again) is bdp.Release
        assert again == RELEASED
    for own in (
        covariance_cone.JointCovarianceRelease.from_netcdf(tmp_path / "r.nc"),
        covariance_cone.JointCovarianceRelease.from_csv(tmp_path / "r"),
    ):
        assert np.array_equal(own.matrix, RELEASED.matrix)
        assert (own.names, own.n) == (("height", "weight"), 200)
    assert covariance_cone.JointCovariance.from_description(JOINT.describe()) == JOINT
    assert json.loads(json.dumps(JOINT.describe())) == JOINT.describe()
    other = covariance_cone.CovarianceMatrix(1.0, 200, BOUNDS, NAMES).release(TRUTH, rng=1)
    other.to_netcdf(tmp_path / "other.nc")
    with pytest.raises(ValueError, match=r"needs a mechanism 'joint-covariance', got 'covariance-matrix'"):
        covariance_cone.JointCovarianceRelease.from_netcdf(tmp_path / "other.nc")
    with h5py.File(tmp_path / "r.nc", "r+") as file:
        [measured] = json.loads(file.attrs["measurements"])
        measured["law"]["b"][1] *= 1.01
        file.attrs["measurements"] = json.dumps([measured])
    with pytest.raises(ValueError, match="'joint-covariance' has noise of the law"):
        bdp.Release.from_netcdf(tmp_path / "r.nc")


def test_what_a_release_may_not_state() -> None:
    told = JOINT.describe()
    for changed, message in (
        ({"epsilon": 1.0}, "has noise of the law box-norm"),
        ({"n": 100}, "has noise of the law box-norm"),
        ({"data_bounds": [[0.0, 1.0], [0.0, 1.0]]}, "has noise of the law box-norm"),
        ({"names": ["height", "age"]}, "publishes statistics of names"),
        ({"extra": 1}, "has no parameter 'extra'"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(RELEASED, mechanism={**told, **changed})
    # Without a mechanism the law alone is known: a claim that no noise of these scales can keep is refused.
    frame, law, [own] = RELEASED.frame, JOINT.law, RELEASED.measurements
    scales = np.asarray(law.b)
    for unit, size in (("linf", scales.max()), ("l1", scales.sum()), ("l2", np.linalg.norm(scales))):
        for epsilon, fits in ((0.99, False), (1.0, True)):
            stated = m.StatisticGuarantee("pure", {"epsilon": epsilon, "sensitivity": float(size)}, unit)
            if fits:
                bdp.Release.from_published(frame, [own], guarantee=stated, about="statistics")
                continue
            with pytest.raises(ValueError, match=r"states epsilon = 0.99 .* loses at least epsilon = 1"):
                bdp.Release.from_published(frame, [own], guarantee=stated, about="statistics")
    with pytest.raises(ValueError, match=r"noise of a vector of statistics, which are no counts"):
        bdp.Release.from_published(frame, [own])
    with pytest.raises(ValueError, match="ties the noise of all cells together, so no cell can be unmeasured"):
        bdp.Measured(own.query, [np.nan, 1.0, 2.0], law, unmeasured=["element=height:height"])


def test_two_releases_add_up(tmp_path: Path) -> None:
    other = covariance_cone.JointCovariance(1.0, 200, BOUNDS, NAMES).release(TRUTH, rng=8)
    whole = as_one([RELEASED, other])
    assert whole.guarantee is not None
    assert whole.guarantee.parameters["epsilon"] == pytest.approx(4.0)
    whole.to_netcdf(tmp_path / "both.nc")
    assert bdp.Release.from_netcdf(tmp_path / "both.nc") == whole


def test_repaired_is_the_nearest_in_units_of_the_ranges() -> None:
    made = (JOINT.release(TRUTH / 10, rng=k) for k in range(100))
    release = next(own for own in made if not own.is_positive_definite)
    found, units = release.repaired(), np.sqrt(np.diag(release.scales))
    assert np.linalg.eigvalsh(found)[0] > -1e-12
    far = np.linalg.norm((found - release.matrix) / np.outer(units, units))
    rng = np.random.default_rng(1)
    for _ in range(300):  # no positive semidefinite matrix near it is nearer
        root = np.linalg.cholesky(found + 1e-9 * np.eye(2)) + 0.1 * rng.normal(size=(2, 2)) * units[:, None]
        assert np.linalg.norm((root @ root.T - release.matrix) / np.outer(units, units)) >= far - 1e-6
    assert np.linalg.eigvalsh(release.repaired(1.0) / np.outer(units, units))[0] == pytest.approx(1.0)
    positive = next(own for k in range(100) if (own := JOINT.release(TRUTH, rng=k)).is_positive_definite)
    assert np.array_equal(positive.repaired(), positive.matrix)


def test_the_guarantee_names_the_generator_and_the_public_number() -> None:
    for rng in (None, 1):
        guarantee = JOINT.release(TRUTH, rng=rng).guarantee
        assert guarantee is not None
        assert (GENERATOR_CAVEAT in guarantee.caveats) == (rng is None)
        assert guarantee.simulated == (rng is not None)
        assert "Nothing is stated about adding or removing one" in " ".join(str(guarantee).split())


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: covariance_cone.JointCovariance(0.0, 50, BOUNDS), ValueError, "epsilon"),
        (lambda: covariance_cone.JointCovariance(1.0, 1, BOUNDS), ValueError, "n must"),
        (lambda: covariance_cone.JointCovariance(1.0, 50.5, BOUNDS), TypeError, "n must"),
        (lambda: covariance_cone.JointCovariance(1.0, 50, [(3.0, -3.0)]), ValueError, "lower one first, got 3"),
        (lambda: covariance_cone.JointCovariance(1.0, 50, [(-np.inf, 3.0)]), ValueError, "data_bounds must be finite"),
        (lambda: covariance_cone.JointCovariance(1.0, 50, 3.0), TypeError, "data_bounds must be a pair"),
        (lambda: covariance_cone.JointCovariance(1.0, 50, []), TypeError, "data_bounds must be a pair"),
        (lambda: covariance_cone.JointCovariance(1.0, 50, BOUNDS, ["height"]), ValueError, "names"),
        (lambda: covariance_cone.JointCovariance(1.0, 50, BOUNDS, ["height", "height"]), ValueError, "names"),
        (lambda: JOINT.release(np.eye(3)), ValueError, r"of shape \(2, 2\)"),
        (lambda: JOINT.release([[1, 2], [2, 1]]), ValueError, "positive semidefinite"),
        (lambda: JOINT.release([[1, 2], [0, 1]]), ValueError, "symmetric"),
        (lambda: JOINT.release(np.eye(2) * 10), ValueError, "variance of height of at most 9.04523"),
        (lambda: RELEASED.log_likelihood(np.eye(3)), ValueError, "covariance must have shape"),
        (lambda: bdp.papers.covariance_cone.BoxNorm([1.0, 0.0]), ValueError, "b must be greater than 0"),
        (
            lambda: subspace.project(
                bdp.papers.covariance_cone.BoxNorm(1.0),
                bdp.Identity(CELLS),
                bdp.Totals(CELLS),
                loss={"epsilon": 1.0},
                additive=True,
            ),
            ValueError,
            "hand in a function",
        ),
    ],
)
def test_bad_input(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize("n", [2, 3, 6])
def test_three_variables_never_lose_more_than_epsilon(n: int) -> None:
    """Random data sets, half of them at the bounds, and one record replaced; released matrices along the change and beside it."""
    rng = np.random.default_rng(n)
    mechanism, scale = (
        covariance_cone.JointCovariance(1.3, n, [(0.0, 1.0), (-1.0, 1.0), (2.0, 5.0)]),
        np.array([1.0, 2.0, 3.0]),
    )
    upper, worst = np.triu_indices(3), 0.0
    for k in range(300):
        records = rng.integers(0, 2, (n, 3)) if k % 2 else rng.random((n, 3))
        other = records.astype(float)
        other[0] = rng.integers(0, 2, 3)
        one, two = (np.cov((own * scale).T)[upper] for own in (records, other))
        for released in (two + 3.0 * (two - one), two + 0.1 * rng.standard_normal(6)):
            loss = mechanism.law.logp(released, one) - mechanism.law.logp(released, two)
            worst = max(worst, abs(float(loss)))
    assert worst <= 1.3 * (1 + 1e-9)
    assert worst >= 0.9 * 1.3
