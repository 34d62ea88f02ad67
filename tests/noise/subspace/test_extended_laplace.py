"""The extended Laplace law, against scipy in coordinates, its integral, and the published rule that fixes coordinates."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.stats import chi2, kstest, laplace

from bayesdp.invariants import Invariants
from bayesdp.noise import ExtendedLaplace, NoiseLaw, parse_law
from bayesdp.queries import LinearQuery, Margins, Totals
from tests.noise.oracles import all_margins, frame_of

WEIGHTED = Invariants(LinearQuery(frame_of(4), [[1, 2, 0, 0], [0, 1, 1, 0]], ["a", "b"]))
INVARIANTS = [
    all_margins(3, 4),
    Invariants(Totals(frame_of(5))),
    Invariants(Margins(frame_of(2, 3), ["d0"])),
    WEIGHTED,
    Invariants(None, frame_of(3)),
]


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_density_is_a_product_in_the_published_coordinates(invariants: Invariants) -> None:
    rng, shape = np.random.default_rng(3), invariants.frame.shape
    location = rng.integers(0, 30, shape)
    values = location + invariants.project(rng.normal(size=shape) * 3)
    expected = laplace.logpdf(invariants.coordinates(values - location), scale=1.7).sum()
    law = ExtendedLaplace(1.7, invariants.coordinate_rule)
    assert law.logp(values, location, invariants) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("invariants", [Invariants(Totals(frame_of(3))), all_margins(2, 3), WEIGHTED], ids=repr)
def test_density_integrates_to_one(invariants: Invariants) -> None:
    law = ExtendedLaplace(0.5, invariants.coordinate_rule)
    zero = np.zeros(invariants.frame.shape)
    assert invariants.dimension == 2

    # Gauss-Legendre on each quadrant, where the density is smooth.
    nodes, weights = np.polynomial.legendre.leggauss(16)
    sides, weights = np.concatenate([-4.0 * (nodes + 1), 4.0 * (nodes + 1)]), 4.0 * np.tile(weights, 2)
    points = [(a, b) for a in sides for b in sides]
    values = [math.exp(law.logp(invariants.from_coordinates(point), zero, invariants)) for point in points]
    assert float(np.outer(weights, weights).ravel() @ values) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("invariants", INVARIANTS, ids=repr)
def test_draws_and_variance(invariants: Invariants) -> None:
    shape, law, size = invariants.frame.shape, ExtendedLaplace(2.0, invariants.coordinate_rule), 40_000
    noise = law.draw(np.random.default_rng(5), shape, size, invariants, location=np.full(shape, 10.0)) - 10.0
    assert noise.shape == (size, *shape)
    assert np.max(np.abs(invariants.matrix @ noise.reshape(size, -1).T), initial=0.0) < 1e-10
    coordinates = invariants.coordinates(noise)
    # False-alarm rate 1e-4 each: twice the absolute values over b are chi-square of 2 degrees, and so are their sums.
    total = 2.0 * np.abs(coordinates).sum() / 2.0
    assert 5e-5 < chi2.cdf(total, 2 * size * invariants.dimension) < 1 - 5e-5
    assert kstest(coordinates.ravel(), laplace(scale=2.0).cdf).pvalue > 1e-4
    variance = law.variance(shape, invariants)
    assert variance is not None
    basis = invariants.from_coordinates(np.eye(invariants.dimension)).reshape(invariants.dimension, -1)
    assert variance.reshape(-1) == pytest.approx(8.0 * np.sum(basis**2, axis=0), rel=1e-12)
    # Squares of Laplace noise have variance 20 b**4, so five standard errors are 5 root(5 / size): below 1e-5 in all.
    assert np.all(np.abs(noise.var(axis=0) - variance) <= 5 * math.sqrt(5 / size) * variance)
    assert law.draw(np.random.default_rng(1), shape, invariants=invariants).shape == shape


def test_large_tables_have_variances_for_totals_only() -> None:
    total = Invariants(Totals(frame_of(3000)))
    assert ExtendedLaplace(1.0).variance((3000,), total) == pytest.approx(np.full(3000, 2.0 * (1 - 1 / 3000)))
    assert ExtendedLaplace(1.0).variance((60, 60), all_margins(60, 60)) is None


def test_off_the_subspace_there_is_no_density() -> None:
    law, invariants = ExtendedLaplace(1.0), Invariants(Totals(frame_of(2)))
    assert law.logp([6.0, 4.1], [5, 5], invariants) == -math.inf
    assert np.isfinite(law.logp([6e6, 4e6 + 1.0], [5e6, 5e6], invariants))  # rounding of what was published


def test_the_coordinates_are_part_of_the_law() -> None:
    # Of a single list of cells both rules give the same axes up to signs; of two by two cells they do not: the move from the
    # first cell to the second has length 0 + 1 + 1 by Helmert, and the square root of 2 by echelon, whose first axis it is.
    total = Invariants(Totals(frame_of(2, 2)))
    same = Invariants(LinearQuery(frame_of(2, 2), [[1, 1, 1, 1]], ["total"]))
    law = ExtendedLaplace(b=2.0, coordinates="echelon-1")
    again = NoiseLaw.from_description(json.loads(json.dumps(law.describe())))
    assert again == law
    assert law != ExtendedLaplace(b=2.0)
    assert parse_law(str(law)) == law
    move, zero = np.array([[-1.0, 1.0], [0.0, 0.0]]), np.zeros((2, 2))
    peak = -3 * math.log(4.0)  # three free dimensions of Laplace noise with b = 2
    assert law.logp(move, zero, same) == pytest.approx(peak - math.sqrt(2.0) / 2.0, abs=1e-12)
    assert ExtendedLaplace(2.0).logp(move, zero, total) == pytest.approx(peak - 1.0, abs=1e-12)
    for use in (
        lambda: law.logp(move, zero, total),
        lambda: law.draw(None, (2, 2), invariants=total),
        lambda: law.variance((2, 2), total),
    ):
        with pytest.raises(ValueError, match=r"stated in coordinates 'echelon-1', but these invariants .* 'helmert-1'"):
            use()
    unknown = {"law": "extended-laplace", "b": 1.0, "coordinates": "fourier-1"}
    with pytest.raises(ValueError, match="coordinates must be one of 'helmert-1', 'echelon-1', got 'fourier-1'"):
        NoiseLaw.from_description(unknown)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="the law 'extended-laplace' needs invariants"):
        ExtendedLaplace(1.0).draw(None, (2, 2))
    with pytest.raises(ValueError, match="shape must be that of the table"):
        ExtendedLaplace(1.0).draw(None, (4,), invariants=all_margins(2, 2))
    with pytest.raises(ValueError, match="b must be a finite number greater than 0"):
        ExtendedLaplace(0.0)
