"""A covariance matrix is a release of statistics like any other: files, `observe`, report, composition, what it may state."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp._chains import ess_bulk
from bayesdp.composition import as_one
from bayesdp.papers import covariance_cone
from bayesdp.papers.covariance_cone import element_frame, variables_of
from bayesdp.privacy.caveats import GENERATOR_CAVEAT
from bayesdp.report.page import page

NAMES = ["height", "weight"]
TRUTH = np.array([[1.0, 0.5], [0.5, 2.0]])
MATRIX = covariance_cone.CovarianceMatrix(3.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], NAMES)
PAPER = covariance_cone.CovarianceMatrix(
    1.0, 200, [(-3.0, 3.0)] * 2, NAMES, rule="truncated", parts=[0.5, 0.3, 0.2], convention="paper"
)
ONE = covariance_cone.CovarianceMatrix(2.0, 100, [(-3.0, 3.0)])
BY_HAND = covariance_cone.CovarianceRelease(
    [[1.0, 0.4, -0.2], [0.4, 2.0, 0.3], [-0.2, 0.3, 0.5]],
    [[0.1, 0.2, 0.15], [0.2, 0.3, 0.25], [0.15, 0.25, 0.4]],
    [9.0, 9.0, 4.0],
    200,
    [*NAMES, "age"],
)


def without_variance() -> covariance_cone.CovarianceRelease:
    """A release whose first variance came out as 0, so that nothing is known of the covariance."""
    mechanism = covariance_cone.CovarianceMatrix(0.001, 20, [(-3.0, 3.0), (-4.5, 4.5)], NAMES)
    made = (mechanism.release(TRUTH, rng=k) for k in range(30))
    return next(own for own in made if own.matrix[0, 0] == 0.0 < own.matrix[1, 1])


RELEASES = {
    "clipped": lambda: MATRIX.release(TRUTH, rng=1),
    "truncated": lambda: PAPER.release(TRUTH, rng=2),
    "one variable": lambda: ONE.release([[1.0]], rng=3),
    "a variance of 0": without_variance,
    "by hand": lambda: BY_HAND,
    "published": lambda: MATRIX.release(TRUTH),
}


@pytest.mark.parametrize("kind", RELEASES)
def test_what_is_written_is_read(kind: str, tmp_path: Path) -> None:
    release = RELEASES[kind]()
    assert isinstance(release, bdp.Release)
    release.to_netcdf(tmp_path / "r.nc")
    release.to_csv(tmp_path / "r")
    for again in (bdp.Release.from_netcdf(tmp_path / "r.nc"), bdp.Release.from_csv(tmp_path / "r")):
        assert type(again) is bdp.Release
        assert again == release
    for own in (
        covariance_cone.CovarianceRelease.from_netcdf(tmp_path / "r.nc"),
        covariance_cone.CovarianceRelease.from_csv(tmp_path / "r"),
        covariance_cone.CovarianceRelease.of(bdp.Release.from_dataset(release.to_dataset())),
    ):
        for array in ("matrix", "scales", "largest"):
            assert np.array_equal(getattr(own, array), getattr(release, array)), array
        for word in ("names", "n", "rule", "guarantee", "simulated"):
            assert getattr(own, word) == getattr(release, word), word


def test_elements_have_labels() -> None:
    release = MATRIX.release(TRUTH, rng=1)
    assert release.about == "statistics"
    assert release.coords == {"element": ["height:height", "height:weight", "weight:weight"]}
    assert float(release.values.sel(element="height:weight")) == release.matrix[0, 1] == release.matrix[1, 0]
    assert variables_of(element_frame(["a", "b:c", ":", "a:a"])) == ("a", "b:c", ":", "a:a")
    assert variables_of(bdp.Frame.of({"element": ["a:a", "a:b", "b:c"]})) is None
    assert variables_of(bdp.Frame.of({"element": [1, 2, 3]})) is None
    assert variables_of(bdp.Frame.of({"statistic": ["a:a"]})) is None
    with pytest.raises(ValueError, match="a label of its own, but two pairs are 'x:y:z'"):
        covariance_cone.CovarianceMatrix(1.0, 50, [(0.0, 1.0)] * 4, ["x", "y:z", "x:y", "z"])


def test_the_guarantee_names_the_generator() -> None:
    """Without a seed the entropy is the operating system's and the generator PCG64, as for other statistics."""
    for rng in (None, 1):
        guarantee = MATRIX.release(TRUTH, rng=rng).guarantee
        assert guarantee is not None
        assert (GENERATOR_CAVEAT in guarantee.caveats) == (rng is None)
    assert covariance_cone.CovarianceMatrix.from_description(MATRIX.describe()) == MATRIX


def by_hand(release: covariance_cone.CovarianceRelease, truth: Any) -> float:
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
            total += (
                noise.logcdf(value) if value <= low else noise.logsf(value) if value >= high else noise.logpdf(value)
            )
    return float(total)


@pytest.mark.system
@pytest.mark.parametrize("kind", ["truncated", "a variance of 0", "by hand"])
def test_observed_likelihood(kind: str, tmp_path: Path) -> None:
    """From the file, which knows nothing but elements and their law, and of a matrix or of its elements."""
    release = RELEASES[kind]()
    size = len(release.names)
    release.to_netcdf(tmp_path / "r.nc")
    again = bdp.Release.from_netcdf(tmp_path / "r.nc")
    with pm.Model() as model:
        root = pm.Normal("root", shape=(size, size))
        matrix = pt.sum(root[:, None, :] * root[None, :, :], axis=-1)
        elements = matrix[np.triu_indices(size)]
        bdp.observe(again, pm.Deterministic("elements", elements) if kind == "truncated" else matrix)
    logp = model.compile_logp(model.observed_RVs)
    rng = np.random.default_rng(4)
    for _ in range(5):
        point = {"root": rng.normal(size=(size, size))}
        truth = point["root"] @ point["root"].T
        expected = by_hand(release, truth)
        assert float(release.log_likelihood(truth)) == pytest.approx(expected, rel=1e-9)
        assert float(logp(point)) == pytest.approx(expected, rel=1e-9)


RELEASED = MATRIX.release(TRUTH, rng=1)


@pytest.fixture(scope="module")
def posterior() -> xr.DataTree:
    with pm.Model():
        variances = pm.HalfNormal("variances", 2.0, shape=2)
        rho = pm.Uniform("rho", -1.0, 1.0)
        covariance = rho * pt.sqrt(variances[0] * variances[1])
        bdp.observe(RELEASED, pt.stack([pt.stack([variances[0], covariance]), pt.stack([covariance, variances[1]])]))
        return bdp.sample(draws=1000, tune=600, chains=2, cores=1, random_seed=4, progressbar=False, quiet=True)


@pytest.mark.system
def test_posterior_against_quadrature(posterior: xr.DataTree) -> None:
    """Means of both variances and the correlation, each within 4.2 standard errors (false alarm below 1e-4 in all)."""
    v, rho = (np.arange(300) + 0.5) * 0.02, (np.arange(201) + 0.5) / 100.5 - 1.0
    first, second = (
        stats.laplace(v, RELEASED.scales[k, k]).pdf(RELEASED.matrix[k, k]) * stats.halfnorm(scale=2.0).pdf(v)
        for k in (0, 1)
    )
    assert 0.0 < RELEASED.matrix[0, 0] < RELEASED.largest[0]
    assert 0.0 < RELEASED.matrix[1, 1] < RELEASED.largest[1]
    assert abs(RELEASED.matrix[0, 1]) < RELEASED.bounds(0, 1)[1]
    covariances = rho[:, None, None] * np.sqrt(np.outer(v, v))
    weight = first[:, None] * second * stats.laplace(covariances, RELEASED.scales[0, 1]).pdf(RELEASED.matrix[0, 1])
    weight /= weight.sum()
    drawn = posterior["posterior"].to_dataset()
    for values, axis, name in ((v, 1, "variances"), (v, 2, "variances"), (rho, 0, "rho")):
        mass = weight.sum(axis=tuple({0, 1, 2} - {axis}))
        mean = float(mass @ values)
        draws = drawn[name].values if name == "rho" else drawn[name].values[..., axis - 1]
        ess = ess_bulk(draws)
        assert ess > 200
        assert abs(draws.mean() - mean) < 4.2 * np.sqrt(float(mass @ (values - mean) ** 2) / ess), (name, axis)


@pytest.mark.system
def test_summary_and_report(posterior: xr.DataTree) -> None:
    table = bdp.summary(posterior)
    row = table.loc[("true_statistic", "element=height:weight")]
    assert row["published"] == RELEASED.matrix[0, 1]
    assert bdp.Release.from_dataset(posterior["release"].to_dataset()) == RELEASED
    text = re.sub(r"<style.*?</style>|<svg.*?</svg>|src=\"data:[^\"]*\"", "", page(posterior), flags=re.DOTALL)
    words = re.sub(r"<[^>]+>", " ", text)
    assert "3 confidential statistics of a data set" in words
    assert "height:weight" in words
    assert "boundary-inflated-laplace" in words
    assert "epsilon = 3" in words
    assert "confidential count" not in words


def test_what_observe_refuses() -> None:
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
ALONE = {"mechanism": "covariance-matrix", "n": 50}
OTHER_LAW = "'covariance-matrix' has noise of the law boundary-inflated-laplace.*but the release says"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon": ({"guarantee": SMALLER}, "states epsilon = 2.0.*but the mechanism 'covariance-matrix' has.*= 3.0"),
    "law": ({"mechanism": {**TOLD, "n": 100}}, OTHER_LAW),
    "budget": ({"mechanism": {**TOLD, **BUDGET}}, OTHER_LAW),
    "rule": (
        {"mechanism": {**TOLD, "rule": "truncated"}},
        "of the law truncated-laplace.*says boundary-inflated-laplace",
    ),
    "names": ({"mechanism": {**TOLD, "names": ["height", "age"]}}, "are 'height', 'age', but .* of 'height', 'weight'"),
    "variables": ({"mechanism": ONE.describe()}, "variables are 'statistic 1', but released"),
    "unknown key": ({"mechanism": {**TOLD, "extra": 1}}, "'covariance-matrix' has no parameter 'extra'"),
    "missing": ({"mechanism": {"mechanism": "covariance-matrix", "epsilon": 3.0}}, "lacks 'n', 'data_bounds'"),
    "records": ({"mechanism": ALONE}, "the guarantee states epsilon = 3.0, .*but the mechanism"),
    "other": ({"mechanism": None}, "needs a mechanism 'covariance-matrix'"),
    "left out": ({"measurements": (WITHOUT_WEIGHT,)}, "element=height:weight must be left out: covariances of a"),
}


@pytest.mark.parametrize("claim", REFUSED)
def test_what_a_release_may_not_state(claim: str) -> None:
    changes, message = REFUSED[claim]
    with pytest.raises(ValueError, match=message):
        replace(RELEASED, **changes)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    other = m.TruncatedLaplace(1.0, 0.02, (0, 1)).release(0.3, rng=1)
    other.to_netcdf(tmp_path / "r.nc")
    with pytest.raises(ValueError, match=r"needs a mechanism 'covariance-matrix'.*got 'truncated-laplace'"):
        covariance_cone.CovarianceRelease.from_netcdf(tmp_path / "r.nc")
    frame = {"statistic": ["a", "b"]}
    law = bdp.noise.BoundaryInflatedLaplace(1.0, (0.0, 9.0))
    with pytest.raises(ValueError, match="publishes elements named a:a, a:b and so on"):
        bdp.Release.from_published(
            frame, [bdp.Measured(bdp.Identity(frame), [1.0, 2.0], law)], mechanism=MATRIX.describe(), about="statistics"
        )


def test_bounds_that_are_not_those_of_the_released_variances(tmp_path: Path) -> None:
    """A matrix that somebody else has published: the law of a covariance follows from the variances beside it."""
    BY_HAND.to_netcdf(tmp_path / "r.nc")
    with h5py.File(tmp_path / "r.nc", "r+") as file:
        [measured] = json.loads(file.attrs["measurements"])
        measured["law"]["bounds"][1][1] *= 1.01
        file.attrs["measurements"] = json.dumps([measured])
    with pytest.raises(ValueError, match="'covariance-matrix' has noise of the law"):
        bdp.Release.from_netcdf(tmp_path / "r.nc")


def test_two_releases_of_one_matrix(tmp_path: Path) -> None:
    """Epsilons add up; a file of both is checked part by part."""
    other = covariance_cone.CovarianceMatrix(1.0, 200, [(-3.0, 3.0), (-4.5, 4.5)], NAMES).release(TRUTH, rng=8)
    whole = as_one([RELEASED, other])
    assert whole.guarantee is not None
    assert whole.guarantee.parameters["epsilon"] == pytest.approx(4.0)
    whole.to_netcdf(tmp_path / "both.nc")
    assert bdp.Release.from_netcdf(tmp_path / "both.nc") == whole
    smaller = replace(whole.guarantee, parameters={**whole.guarantee.parameters, "epsilon": 3.5})
    with pytest.raises(ValueError, match=r"states epsilon = 3.5, .*but its first row is epsilon = 4"):
        replace(whole, guarantee=smaller).check_stated()
    swapped = replace(whole, mechanism={**(whole.mechanism or {}), "releases": [other.mechanism, RELEASED.mechanism]})
    with pytest.raises(ValueError, match="has noise of the law"):
        swapped.check_stated()
