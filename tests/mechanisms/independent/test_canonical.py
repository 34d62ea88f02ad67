"""The canonical noise mechanism: its loss is spent exactly, for one count and for two."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kstest

from bayesdp.mechanisms import CanonicalNoise
from bayesdp.noise import ProjectedGaussian, Tulap
from bayesdp.privacy import approximate_dp, gaussian_dp, tensor_product, tradeoff_delta
from bayesdp.queries import Identity, LinearQuery, Margins, Totals

TABLE = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
COUNTS = [[20, 10], [5, 1], [0, 7]]
GRID = np.linspace(0.0, 1.0, 201)


def exact_curve(mechanism: CanonicalNoise, shift: list[float]) -> np.ndarray:
    """Type II error of the best test between noise and shifted noise, from the densities on a grid, by sorting."""
    edges = np.arange(-40.0, 41.0) + 0.5
    law = mechanism.law
    assert isinstance(law, Tulap)
    cells = np.diff(law.standard.cdf(edges))  # the density is constant on each, and the shifts are whole
    null, other = np.ones(1), np.ones(1)
    for own in shift:
        null = np.outer(null, cells).ravel()
        other = np.outer(other, np.roll(cells, round(own))).ravel()
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(null > 0, other / null, np.inf), kind="stable")
    a, w = np.cumsum(null[order]), np.cumsum(other[order])
    return np.asarray(1.0 - np.interp(GRID, np.append(0.0, a), np.append(0.0, w)))


def test_one_count_spends_all_of_it() -> None:
    for query in (Totals(TABLE), Identity(TABLE), Margins(TABLE, ["county"])):
        mechanism = CanonicalNoise(query, epsilon=1.0, neighbours="add-remove")
        assert mechanism.law == Tulap(1.0)
        assert mechanism.sensitivity == 1.0
        assert mechanism.tradeoff == mechanism.count_tradeoff == approximate_dp(1.0)
        np.testing.assert_allclose(exact_curve(mechanism, [1.0]), mechanism.tradeoff(GRID), rtol=0, atol=1e-9)


def test_two_counts_have_the_tensor_product() -> None:
    mechanism = CanonicalNoise(TABLE, epsilon=1.0)
    assert mechanism.law == Tulap(0.5)
    assert mechanism.tradeoff(GRID) == pytest.approx(tensor_product(approximate_dp(0.5), approximate_dp(0.5))(GRID))
    np.testing.assert_allclose(exact_curve(mechanism, [1.0, -1.0]), mechanism.tradeoff(GRID), rtol=0, atol=1e-8)
    assert np.all(mechanism.tradeoff(GRID) >= approximate_dp(1.0)(GRID) - 1e-15)
    loose = CanonicalNoise(TABLE, epsilon=1.0, delta=0.01)
    assert tradeoff_delta(loose.tradeoff, 1.0) == pytest.approx(0.01, rel=1e-9)
    gaussian = CanonicalNoise(TABLE, mu=1.0).tradeoff
    np.testing.assert_allclose(gaussian(GRID), gaussian_dp(1.0)(GRID), rtol=1e-12)
    assert CanonicalNoise(TABLE, mu=1.0).law == ProjectedGaussian(math.sqrt(2.0))


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ({"epsilon": 0.5}, "pure"),
        ({"epsilon": 0.5, "delta": 0.02}, "approximate"),
        ({"mu": 0.7}, "gdp"),
        ({"epsilon": 0.5, "delta": 0.0}, "pure"),
    ],
)
def test_release_guarantee_and_description(stated: dict[str, float], kind: str) -> None:
    mechanism = CanonicalNoise(Margins(TABLE, ["county"]), **stated, neighbours="add-remove")
    release = mechanism.release(COUNTS, rng=np.random.default_rng(2))
    assert release.guarantee.kind == kind
    noisy = release.measurements[0].values
    assert mechanism.logp(noisy, COUNTS) == pytest.approx(
        sum(
            float(np.log(mechanism.count_tradeoff.canonical_noise().pdf(y - x)))
            for y, x in zip(noisy, [30, 6, 7], strict=True)
        )
    )
    published = mechanism.release(COUNTS)  # from the operating system's entropy
    assert not published.simulated
    assert published.guarantee is not None
    rounded = "no rounding" in str(published.guarantee)
    assert rounded == (kind == "pure")


@pytest.mark.parametrize("delta", [None, 0.05])
def test_noise_from_integers_has_the_law(delta: float | None) -> None:
    # Entropy of the operating system, so no seed: a false alarm in 1e9 runs.
    mechanism = CanonicalNoise(Identity(TABLE), epsilon=1.0, delta=delta, neighbours="add-remove")
    law = mechanism.law
    assert isinstance(law, Tulap)
    for rng in (None, np.random.default_rng(4)):
        draws = mechanism.noise(rng, size=150).ravel()
        assert kstest(draws, law.standard.cdf).pvalue > 1e-9
        assert np.all(np.abs(draws) <= law.standard.support()[1] + 2.0**-20)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: CanonicalNoise(TABLE), ValueError, "epsilon"),
        (lambda: CanonicalNoise(TABLE, epsilon=1.0, mu=1.0), ValueError, "mu"),
        (lambda: CanonicalNoise(TABLE, epsilon=0.0), ValueError, "epsilon must be"),
        (lambda: CanonicalNoise(TABLE, epsilon=1.0, delta=1.0), ValueError, "delta must lie strictly between 0 and 1"),
        (lambda: CanonicalNoise(TABLE, mu=-1.0), ValueError, "mu must be"),
        (lambda: CanonicalNoise(Totals(TABLE), epsilon=1.0), ValueError, "no two neighbouring tables"),
        (
            lambda: CanonicalNoise(Margins(TABLE, ["county"], ["education"]), epsilon=1.0),
            ValueError,
            "one set of sums of disjoint cells",
        ),
        (
            lambda: CanonicalNoise(
                LinearQuery(TABLE, np.ones((1, 6), dtype=int), ["all"]), 1.0, neighbours="add-remove"
            ),
            ValueError,
            "one set of sums",
        ),
        (lambda: CanonicalNoise(TABLE, 1.0).noise(method="mcmc"), ValueError, "always drawn exactly"),
    ],
)
def test_bad_arguments_are_named(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]
