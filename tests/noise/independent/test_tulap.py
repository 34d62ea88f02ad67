"""Tulap noise as a law of releases: density, draws and description."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from bayesdp.measurements import Measured
from bayesdp.noise import NoiseLaw, Tulap, parse_law
from bayesdp.queries import Identity, Margins

TABLE = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}


def test_density_by_hand() -> None:
    # Around 0, epsilon = log 2: centre of density (1 - b) / (1 + b) = 1/3, halved with every step of 1.
    law = Tulap(np.log(2.0))
    density = np.exp(law.log_density([0.0, 0.49, 0.51, -1.4, 2.2], 0.0))
    np.testing.assert_allclose(density, np.array([1, 1, 1 / 2, 1 / 2, 1 / 4]) / 3, rtol=1e-13)
    wide = Tulap(np.log(2.0), sensitivity=2.0)
    np.testing.assert_allclose(np.exp(wide.log_density([3.9, 4.1], 3.0)), np.array([1 / 6, 1 / 12]), rtol=1e-13)
    assert law.logp([1.0, 7.3], [1, 8]) == pytest.approx(np.log(1 / 3) + np.log(1 / 6))
    assert Tulap(1.0, 0.1).logp([40.0], [0]) == -np.inf


def test_draws_and_variance() -> None:
    # Two false alarms of 1e-4 each; the seed is fixed.
    law = Tulap(0.5, 0.01, sensitivity=3.0)
    draws = law.draw(np.random.default_rng(3), (2,), 20_000, location=[10, 20])
    assert draws.shape == (20_000, 2)
    for j, centre in enumerate((10, 20)):
        assert kstest((draws[:, j] - centre) / 3.0, law.standard.cdf).pvalue > 1e-4
    assert law.variance((2,)) == pytest.approx(np.var(draws, axis=0), rel=0.1)
    assert law.draw(None, (2, 2)).shape == (2, 2)


def test_description_and_text() -> None:
    law = Tulap(0.5, 1e-6)
    assert NoiseLaw.from_description(law.describe()) == law
    assert parse_law("tulap epsilon=0.5 delta=1e-6") == law
    assert law.independent
    assert not law.integer


def test_measurements_of_overlapping_sums_and_with_gaps() -> None:
    # Independent noise: sums that are related have it each, and cells may be unpublished.
    both = Margins(TABLE, ["county"], ["education"])
    measured = Measured(both, [1.5, 2.5, 3.5, 4.5], Tulap(1.0))
    assert measured.noise_invariants is None
    gap = np.array([[False, True], [False, False]])
    assert Measured(Identity(TABLE), [[1.5, np.nan], [2.0, 3.0]], Tulap(1.0), unmeasured=gap).unmeasured.sum() == 1


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Tulap(0.0), ValueError, "epsilon must be"),
        (lambda: Tulap(1.0, 1.0), ValueError, "delta must be at least 0 and less than 1"),
        (lambda: Tulap(1.0, sensitivity=0.0), ValueError, "sensitivity must be"),
        (lambda: Tulap("1"), TypeError, "epsilon"),  # type: ignore[arg-type]
        (lambda: parse_law("tulap delta=0.1"), ValueError, "lacks parameter"),
    ],
)
def test_bad_arguments_are_named(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]
