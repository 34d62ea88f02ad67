"""Every door that takes randomness takes an integer, a generator or None (NumPy's SPEC 7), and asks once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import mechanisms, significance
from bayesdp.invariants import Invariants
from bayesdp.lattices import sample_noise
from bayesdp.noise import NoiseLaw
from bayesdp.papers import bounded_statistics, covariance_cone
from bayesdp.polytopes import SymmetricHull, sample_hull
from bayesdp.privacy import approximate_dp, mean_sensitivity
from bayesdp.queries import Margins, Totals

TABLE = {"row": ["a", "b"], "column": ["c", "d"]}
COUNTS = np.array([[6, 3], [2, 9]])
BOTH = Margins(TABLE, ["row"], ["column"])
TULAP = approximate_dp(1.0).canonical_noise()
PUBLISHED = bdp.LatticeLaplace(BOTH, epsilon=0.25).release(COUNTS, rng=1)


def released(mechanism: Any) -> Callable[[Any], Any]:
    """The values of a release."""
    return lambda rng: mechanism.release(COUNTS, rng=rng).values


DOORS: dict[str, Callable[[Any], Any]] = {
    "lattice noise": lambda rng: bdp.LatticeLaplace(BOTH, epsilon=0.25).noise(rng, size=20),
    "lattice release": released(bdp.LatticeLaplace(BOTH, epsilon=0.25)),
    "subspace release": released(bdp.ExtendedLaplace(Totals(TABLE), epsilon=0.5)),
    "K-norm release": released(bdp.KNorm(Totals(TABLE), epsilon=0.5)),
    "one of several releases": released(
        mechanisms.PublishedChoice(
            [bdp.ExtendedLaplace(Totals(TABLE), epsilon=0.5), bdp.KNorm(Totals(TABLE), epsilon=0.5)], [0.5, 0.5]
        )
    ),
    "Semi-DP release": released(bdp.SemiGaussian(BOTH, mu=0.5)),
    "Semi-DP integers": released(mechanisms.SemiLatticeLaplace(Totals(TABLE), epsilon=0.5)),
    "independent release": released(mechanisms.DiscreteLaplace(bdp.Identity(TABLE), epsilon=0.1)),
    "bounded statistic": lambda rng: (
        mechanisms.BoundaryInflatedLaplace(1.0, mean_sensitivity(50, (0.0, 1.0)), (0.0, 1.0))
        .release(0.4, rng=rng)
        .values
    ),
    "proportions": lambda rng: (
        bounded_statistics.RescaledProportions(1.0, 60, ["a", "b", "c"]).release([10, 20, 30], rng=rng).shares
    ),
    "sample_noise": lambda rng: sample_noise(Invariants(Totals(TABLE)), "l1", 0.2, rng, size=20),
    "sample_hull": lambda rng: sample_hull(SymmetricHull([[1, 1], [1, -1]]), 0.5, rng, 20),
    "canonical noise": lambda rng: TULAP.rvs(20, rng=rng),
    "a law": lambda rng: NoiseLaw.from_description({"law": "discrete-laplace", "b": 5.0}).draw(rng, (20,)),
    "p-value": lambda rng: significance.odds_ratio_test_from_release(PUBLISHED, rng=rng).uniform,
    "p-value of several": lambda rng: significance.odds_ratio_test_from_releases([PUBLISHED], rng=rng).uniform,
    "p-value of strata": lambda rng: significance.common_odds_ratio_test({"all": PUBLISHED}, rng=rng).uniform,
    "p-value by simulation": lambda rng: (
        significance.independence_test_from_releases(PUBLISHED, draws=999, rng=rng).statistic
    ),
}


@pytest.mark.parametrize("draw", DOORS.values(), ids=DOORS)
def test_an_integer_seeds_a_generator(draw: Callable[[Any], Any]) -> None:
    seeded = np.asarray(draw(5))
    np.testing.assert_array_equal(seeded, draw(np.random.default_rng(5)))
    np.testing.assert_array_equal(seeded, draw(np.int64(5)))
    assert not np.array_equal(seeded, draw(6)) or not np.array_equal(seeded, draw(7))
    assert np.asarray(draw(None)).shape == seeded.shape
    for wrong in (5.0, True, "5"):
        with pytest.raises(TypeError, match=r"rng must be an integer seed, a numpy\.random\.Generator or None, got"):
            draw(wrong)
    with pytest.raises(ValueError, match="rng must be a seed of at least 0"):
        draw(-1)


def test_a_release_made_with_a_seed_is_simulated() -> None:
    release = bdp.LatticeLaplace(BOTH, epsilon=0.25).release(COUNTS, rng=3)
    assert release.simulated
    assert release.guarantee is not None
    assert release.guarantee.simulated


def test_several_draws_of_one_seed_differ() -> None:
    """A seed that was asked for at each draw would publish the same noise several times: differences without noise."""
    several = bounded_statistics.MultipleSynthesis.split(
        bounded_statistics.RescaledProportions, 2.0, 60, ["a", "b", "c"], parts=5
    )
    shares = [release.shares for release in several.release([10, 20, 30], rng=1)]
    assert len({values.tobytes() for values in shares}) == 5
    bounds = [(0.0, 1.0), (0.0, 1.0)]
    matrix = covariance_cone.CovarianceMatrix(50.0, 1000, bounds).release([[0.08, 0.03], [0.03, 0.08]], rng=1).matrix
    assert abs(matrix[0, 0] - matrix[1, 1]) > 1e-9
