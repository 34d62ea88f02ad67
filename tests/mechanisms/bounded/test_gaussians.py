"""Mechanisms with Gaussian noise on statistics within bounds: scales, losses, releases, files, posteriors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.composition import as_one
from bayesdp.privacy import (
    StatisticGuarantee,
    gaussian_delta,
    gaussian_sigma,
    mean_sensitivity,
    proportion_sensitivity,
    variance_sensitivity,
)

KINDS = [m.TruncatedGaussian, m.BoundaryInflatedGaussian]
UNIT = (0.0, 1.0)
SHARE = proportion_sensitivity(50)
N = 50


@pytest.mark.parametrize("kind", KINDS)
def test_sigma_is_for_the_l2_sensitivity(kind: Any) -> None:
    """Three means that a record changes by 0.2 each: 0.2 times the root of 3; proportions: two of them, by 1/n."""
    mean = mean_sensitivity(50, (0.0, 10.0))
    three = kind([mean] * 3, (0.0, 10.0), rho=0.5)
    assert three.sensitivity == pytest.approx(0.2 * np.sqrt(3))
    assert three.sigma == pytest.approx(three.sensitivity)
    assert three.names == ("statistic 1", "statistic 2", "statistic 3")
    shares = kind(proportion_sensitivity(50, 4), UNIT, epsilon=1.0, delta=1e-6)
    assert shares.sensitivity == pytest.approx(np.sqrt(2) / 50)
    assert shares.sigma == pytest.approx(gaussian_sigma(1.0, 1e-6, np.sqrt(2) / 50))
    added = kind(proportion_sensitivity(50, 4, "add-remove"), UNIT, rho=0.5)
    assert (added.sensitivity, added.neighbours) == (pytest.approx(np.sqrt(2) / 50), "add-remove")
    mixed = kind([proportion_sensitivity(50, 3), variance_sensitivity(50, (0.0, 2.0))], (0.0, [1, 1, 1, 1.1]), rho=0.5)
    assert mixed.sensitivity == pytest.approx(np.sqrt(2 / 50**2 + (4 / 50) ** 2))
    assert kind([3.0, 4.0], (0.0, 9.0), rho=0.5).sensitivity == pytest.approx(5.0)
    assert kind(5.0, (0.0, 9.0), rho=0.5, names=["a", "b"]).sensitivity == 5.0


def _masses(law: Any, s: float, points: int = 4001) -> np.ndarray:
    """Atoms, and probabilities of small intervals by the distribution function."""
    edges = np.linspace(*law.bounds, points)
    at = law.cdf(edges, np.full(points, s))
    last = 1.0 - float(np.exp(law.log_cdf(np.nextafter(law.upper, -1.0), s)))
    first = float(law.cdf(law.lower, s))
    inner = np.diff(at)
    inner[-1] -= last if law.has_atoms else 0.0
    return np.concatenate([[first, last if law.has_atoms else 0.0], inner])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("sensitivity", "epsilon", "delta"), [(0.02, 1.0, 1e-3), (0.3, 0.5, 0.01), (1.0, 1.0, 1e-3)])
def test_the_stated_delta_is_true_for_all_pairs(kind: Any, sensitivity: float, epsilon: float, delta: float) -> None:
    """The delta of pairs of values, by masses of 4,000 intervals, which can only be too small."""
    own = kind(sensitivity, UNIT, epsilon=epsilon, delta=delta)
    worst = 0.0
    for s in np.linspace(0.0, 1.0 - sensitivity, 21):
        one, two = _masses(own.law, s), _masses(own.law, s + sensitivity)
        assert one.sum() == pytest.approx(1.0, abs=1e-9)
        for p, q in ((one, two), (two, one)):
            worst = max(worst, float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum()))
    assert worst <= delta * (1 + 1e-9)
    if kind is m.TruncatedGaussian:
        assert worst > 0.9 * delta  # not more noise than needed
    assert own.guarantee.parameters == {"epsilon": epsilon, "delta": delta, "sensitivity": sensitivity}
    assert own.guarantee.pairs[0].loss["rho"] == pytest.approx(sensitivity**2 / (2 * own.sigma**2))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sigma", [0.1, 0.5, 3.0])
def test_rho_is_true_for_all_orders(kind: Any, sigma: float) -> None:
    """Renyi divergences of order 1.01 to 50 of pairs 0.2 apart, by quadrature: never above rho times the order."""
    own = kind(0.2, UNIT, rho=0.5 * (0.2 / sigma) ** 2)
    assert own.sigma == pytest.approx(sigma)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    y, weights = 0.5 * (1.0 + nodes), np.log(0.5 * weights)
    edges = np.array([0.0, 1.0] if own.law.has_atoms else [])

    def logs(s: float) -> np.ndarray:
        inner = own.law.log_each(y, np.full(y.shape, s)) + weights
        return np.concatenate([own.law.log_each(edges, np.full(edges.shape, s)), inner])

    largest = 0.0
    for s in np.linspace(0.0, 0.8, 17):
        for p, q in ((logs(s), logs(s + 0.2)), (logs(s + 0.2), logs(s))):
            assert logsumexp(p) == pytest.approx(0.0, abs=1e-9)
            for order in (1.01, 1.5, 2.0, 5.0, 50.0):
                found = logsumexp(order * p + (1.0 - order) * q) / (order - 1.0) / order
                largest = max(largest, found / own.rho)
    assert 0.005 < largest <= 1.0 + 1e-9


def test_narrow_bounds_need_less_noise_when_truncated() -> None:
    """A number of one person within 0 and 1: a sixth of the noise, and nearly pure differential privacy."""
    own = m.TruncatedGaussian(1.0, UNIT, epsilon=1.0, delta=1e-6)
    assert own.sigma == pytest.approx(
        1 / np.sqrt(2), rel=1e-3
    )  # w**2 / (2 sigma**2) is the pure epsilon of a whole interval
    assert gaussian_sigma(1.0, 1e-6) / own.sigma > 5.9
    assert gaussian_delta(1.0, own.sigma) > 0.2
    # Truncated Laplace noise has no such gain; one bound has none either.
    assert m.TruncatedGaussian(1.0, (0.0, None), epsilon=1.0, delta=1e-6).sigma == gaussian_sigma(1.0, 1e-6)
    assert m.TruncatedGaussian(SHARE, UNIT, epsilon=1.0, delta=1e-6).sigma == gaussian_sigma(1.0, 1e-6, 1 / 50)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", [{"rho": 0.125}, {"epsilon": 1.0, "delta": 1e-6}], ids=["rho", "epsilon and delta"])
def test_files_keep_what_is_true_and_refuse_less(kind: Any, loss: dict[str, float], tmp_path: Path) -> None:
    one = kind(SHARE, UNIT, **loss)
    release = one.release(0.3, rng=1)
    assert release.guarantee is not None
    release.to_netcdf(tmp_path / "r.nc")
    again = m.StatisticRelease.from_netcdf(tmp_path / "r.nc")
    assert again == release
    assert again.guarantee == release.guarantee
    assert m.StatisticMechanism.from_description(one.describe()) == one
    for name in loss:
        less = replace(release.guarantee, parameters={**release.guarantee.parameters, name: 0.9 * loss[name]})
        with pytest.raises(ValueError, match=f"the guarantee states .*{name}"):
            replace(release, guarantee=less)
        changed = {**dict(release.mechanism or {}), name: 0.5 * loss[name]}
        with pytest.raises(ValueError, match="has noise of the law"):
            replace(release, mechanism=changed)


@pytest.mark.parametrize("kind", [bdp.noise.TruncatedGaussian, bdp.noise.BoundaryInflatedGaussian])
def test_the_law_alone_bounds_what_may_be_stated(kind: Any) -> None:
    """Wide bounds: rho is that of Gaussian noise, (0.1 / 0.05)**2 / 2 = 2, and delta its delta at values in the middle."""
    law = kind(0.05, UNIT)

    def stated(which: str, **numbers: float) -> StatisticGuarantee:
        return StatisticGuarantee(which, {**numbers, "sensitivity": 0.1}, "l2")

    delta = gaussian_delta(1.0, 0.05, 0.1)
    for which, true, less in (
        ("zcdp", {"rho": 2.0}, {"rho": 1.9}),
        ("gdp", {"mu": 2.0}, {"mu": 1.9}),
        ("approximate", {"epsilon": 1.0, "delta": 1.01 * delta}, {"epsilon": 1.0, "delta": 0.9 * delta}),
    ):
        m.StatisticRelease(0.4, law, guarantee=stated(which, **true))
        with pytest.raises(ValueError, match=r"for statistics that are 0.1 apart, but noise of the law .* at least"):
            m.StatisticRelease(0.4, law, guarantee=stated(which, **less))
    with pytest.raises(ValueError, match=r"delta = 0.0 at epsilon = 2.0 .* at least delta = 0\.\d"):
        m.StatisticRelease(0.4, law, guarantee=stated("pure", epsilon=2.0))
    half = kind(0.05, (0.0, None))
    with pytest.raises(ValueError, match=r"states rho = 1\.9"):
        m.StatisticRelease(0.4, half, guarantee=stated("zcdp", rho=1.9))


def test_losses_of_several_releases_add_up(tmp_path: Path) -> None:
    one, two = m.TruncatedGaussian(SHARE, UNIT, rho=0.1), m.BoundaryInflatedGaussian(SHARE, UNIT, rho=0.05)
    releases = [one.release(0.3, rng=1), two.release(0.3, rng=2)]
    whole = as_one(releases)
    assert whole.guarantee is not None
    assert whole.guarantee.parameters["rho"] == pytest.approx(0.15)
    whole.to_netcdf(tmp_path / "both.nc")
    assert bdp.Release.from_netcdf(tmp_path / "both.nc") == whole
    less = replace(whole.guarantee, parameters={"rho": 0.12, "sensitivity": 1 / 50})
    with pytest.raises(ValueError, match=r"states rho = 0.12, .*but its first row is rho = 0.15"):
        replace(whole, guarantee=less).check_stated()
    pairs = [m.TruncatedGaussian(SHARE, UNIT, epsilon=0.5, delta=d).release(0.3, rng=3) for d in (1e-6, 1e-5)]
    found = bdp.compose(*pairs).guarantee
    assert found is not None
    assert found.parameters["epsilon"] == pytest.approx(1.0)
    assert found.parameters["delta"] == pytest.approx(1.1e-5)
    assert bdp.compose(releases[0], bdp.TruncatedLaplace(0.5, SHARE, UNIT).release(0.3, rng=3)).guarantee is None


def test_posterior_of_a_proportion_against_enumeration() -> None:
    """Two releases of the number of successes among 50, one at a bound; false alarm in one of 10,000 seeds."""
    cut, clipped = (kind(SHARE, UNIT, rho=0.02) for kind in KINDS)
    releases = [cut.release(0.06, rng=1), m.StatisticRelease(0.0, clipped.law)]
    with pm.Model():
        successes = pm.BetaBinomial("successes", 1.0, 1.0, N)
        for own in releases:
            bdp.observe(own, successes / N)
        tree = bdp.sample(draws=800, tune=400, chains=2, cores=1, random_seed=4, progressbar=False, quiet=True)
    k = np.arange(N + 1)
    sigma, value = cut.sigma, float(releases[0].values)
    logs = stats.truncnorm((0 - k / N) / sigma, (1 - k / N) / sigma, k / N, sigma).logpdf(value)
    logs = logs + stats.norm.logcdf(0.0, k / N, sigma) + stats.betabinom(N, 1, 1).logpmf(k)
    exact = np.exp(logs - logsumexp(logs))
    mean = float(exact @ k)
    sd = float(np.sqrt(exact @ (k - mean) ** 2))
    ess = float(tree["diagnostics"]["successes_ess_bulk"])
    assert abs(tree["posterior"]["successes"].values.mean() - mean) < 3.9 * sd / np.sqrt(ess)


@pytest.mark.parametrize("kind", KINDS)
def test_releases_follow_the_law_and_say_what_they_are(kind: Any) -> None:
    """Kolmogorov and Smirnov on 300 releases; false alarm in one of 10,000 seeds."""
    own = kind(0.1, UNIT, rho=0.02)
    rng = np.random.default_rng(5)
    drawn = np.sort([float(own.release(0.1, rng=rng).values) for _ in range(300)])
    upper = own.law.cdf(drawn, np.full(300, 0.1))
    below = np.arange(1, 301) / 300
    last = np.append(drawn[1:] != drawn[:-1], True)
    assert np.max(np.abs(upper - below)[last]) < stats.kstwobign.isf(1e-4) / np.sqrt(300)
    text = " ".join(str(own.guarantee).split())
    assert text.startswith(
        "Privacy guarantee: zero-concentrated differential privacy (rho) Changing one person's record"
    )
    assert "computed from the data they would publish something about them without noise" in text
    published = own.release(0.1)
    assert not published.simulated
    assert published.values.shape == ()


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input(kind: Any) -> None:
    for wrong, error, message in (
        (lambda: kind(0.1, UNIT), ValueError, "state the loss by rho= or epsilon= and delta="),
        (lambda: kind(0.1, UNIT, rho=0.1, epsilon=1.0), ValueError, "one of these only"),
        (lambda: kind(0.1, UNIT, rho=-1.0), ValueError, "rho must be"),
        (lambda: kind(0.1, UNIT, epsilon=1.0, delta=1.0), ValueError, "delta must"),
        (lambda: kind(0.0, UNIT, rho=0.1), ValueError, "sensitivity must be"),
        (lambda: kind([0.1, 0.0], UNIT, rho=0.1), ValueError, "sensitivity must be greater than 0 for every"),
        (lambda: kind(0.1, (1.0, 0.0), rho=0.1), ValueError, "reversed"),
        (lambda: kind(0.1, (None, None), rho=0.1), ValueError, "both are infinite"),
        (lambda: kind(SHARE, UNIT, rho=0.1, names=["a", "b"]), ValueError, "is that of one statistic, but there are 2"),
        (lambda: kind(0.1, UNIT, rho=0.1, neighbours="both"), ValueError, "neighbours must be one of"),
        (lambda: kind(0.1, UNIT, rho=0.1).release(1.2), ValueError, "within its bounds, 0 to 1"),
    ):
        with pytest.raises(error, match=message):
            wrong()
