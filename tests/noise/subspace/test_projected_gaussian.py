"""The projected Gaussian law, against the normal law in orthonormal coordinates and against conditioning."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2, multivariate_normal

from bayesdp.invariants import Invariants
from bayesdp.noise import ProjectedGaussian
from bayesdp.noise.subspace.laws import TOLERANCE
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.noise.oracles import all_margins, frame_of

INVARIANTS = [
    all_margins(3, 4),
    Invariants(Totals(frame_of(5))),
    Invariants(Margins(frame_of(2, 3), ["d0"])),
    Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [0, 1, 1, 0]], ["a", "b"])),
    Invariants(None, frame_of(3)),
]


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_density_in_orthonormal_coordinates(invariants: Invariants) -> None:
    rng, shape, sigma = np.random.default_rng(3), invariants.frame.shape, 1.7
    location = rng.integers(0, 30, shape)
    values = location + invariants.project(rng.normal(size=shape) * 3)
    expected = multivariate_normal.logpdf(
        invariants.coordinates(values - location), cov=sigma**2 * np.eye(invariants.dimension)
    )
    assert ProjectedGaussian(sigma).logp(values, location, invariants) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("invariants", INVARIANTS[:-1], ids=repr)
def test_it_is_the_unprojected_law_given_the_invariants(invariants: Invariants) -> None:
    # Gao, Gong and Yu, Theorem 4.2: the log-densities differ by a constant over the subspace.
    rng, shape = np.random.default_rng(4), invariants.frame.shape
    law, zero = ProjectedGaussian(2.0), np.zeros(shape)
    points = [invariants.project(rng.normal(size=shape) * 4) for _ in range(3)]
    ratios = [law.logp(point, zero, invariants) + np.sum(point**2) / 8 for point in points]
    assert ratios == pytest.approx([ratios[0]] * 3, rel=1e-12)


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_draws_and_variance(invariants: Invariants) -> None:
    shape, law, size = invariants.frame.shape, ProjectedGaussian(2.0), 4000
    draws = law.draw(np.random.default_rng(5), shape, size, invariants, location=np.full(shape, 10.0))
    noise = draws - 10.0
    assert noise.shape == (size, *shape)
    assert np.max(np.abs(invariants.matrix @ noise.reshape(size, -1).T), initial=0.0) < 1e-10
    # False-alarm rate 1e-4: squared lengths in units of sigma are chi-square, and so is their sum.
    length = np.sum((noise / 2.0) ** 2)
    assert 5e-5 < chi2.cdf(length, size * invariants.dimension) < 1 - 5e-5
    variance = law.variance(shape, invariants)
    assert variance is not None
    basis = invariants.from_coordinates(np.eye(invariants.dimension)).reshape(invariants.dimension, -1)
    assert variance.reshape(-1) == pytest.approx(4.0 * np.sum(basis**2, axis=0), rel=1e-12)
    # Five standard errors for each of at most 12 cells: below 1e-5.
    assert np.all(np.abs(noise.var(axis=0) / variance - 1) < 5 * math.sqrt(2 / size))


def test_campus_margins_of_the_first_paper() -> None:
    # design.md, 4.5: every cell of 14 x 24 x 20 with its 740 constraints has variance 0.8899, not sd 0.88.
    invariants = Invariants(Margins(frame_of(14, 24, 2), ["d0", "d2"], ["d1", "d2"]))
    variance = ProjectedGaussian(1.0).variance((14, 24, 2), invariants)
    assert variance == pytest.approx(np.full((14, 24, 2), (1 - 1 / 24) * (1 - 1 / 14)), rel=1e-12)
    assert ProjectedGaussian(1.0).variance((60, 60), all_margins(60, 60)) is None


def test_off_the_subspace_there_is_no_density() -> None:
    law, invariants = ProjectedGaussian(1.0), Invariants(Totals(frame_of(2)))
    assert law.logp([6.0, 4.1], [5, 5], invariants) == -math.inf
    # Rounding of what was published is allowed for, relative to the largest entry.
    assert np.isfinite(law.logp([6e6, 4e6 + TOLERANCE * 1e6], [5e6, 5e6], invariants))
    assert law.logp([6e6, 4e6 + TOLERANCE * 1e8], [5e6, 5e6], invariants) == -math.inf


def test_bad_arguments_are_named() -> None:
    invariants = all_margins(2, 2)
    with pytest.raises(TypeError, match="the law 'projected-gaussian' needs invariants"):
        ProjectedGaussian(1.0).draw(None, (2, 2))
    with pytest.raises(ValueError, match="shape must be that of the table"):
        ProjectedGaussian(1.0).draw(None, (4,), invariants=invariants)
    with pytest.raises(ValueError, match="sigma must be a finite number greater than 0"):
        ProjectedGaussian(-1.0)
