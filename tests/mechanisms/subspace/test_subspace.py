"""Mechanisms of subspace differential privacy: calibration, losses worked out from the densities, and Theorem 4.2."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

import bayesdp as bdp
from bayesdp.privacy import gaussian_delta, lemma_3_4_sigma

LINE = {"county": ["p", "q", "r"], "state": ("county", ["N", "N", "S"])}
GRID = {"row": ["p", "q", "r"], "column": ["low", "high"]}
BOTH = bdp.Margins(GRID, ["row"], ["column"])
TABLE = np.array([[3, 1], [0, 4], [2, 2]])
STACKED = bdp.Identity(GRID) + bdp.Margins(GRID, ["row"])

GAUSSIAN = (bdp.ProjectedGaussian, bdp.ExtendedGaussian, bdp.CorrelatedGaussian)
PURE = (bdp.ProjectedLaplace, bdp.ExtendedLaplace, bdp.KNorm)


def neighbours_of(table):
    """Every table in which one record changes its cell."""
    for i, j in itertools.permutations(range(table.size), 2):
        if table.reshape(-1)[i] > 0:
            other = table.reshape(-1).copy()
            other[i] -= 1
            other[j] += 1
            yield other.reshape(table.shape)


def _shown(mechanism, table):
    """What the noise hides: the answers on the noise space."""
    return mechanism.answer_invariants.coordinates(
        mechanism.released_query.apply(table).reshape(mechanism.answer_invariants.frame.shape)
    )


@pytest.mark.parametrize("kind", GAUSSIAN)
@pytest.mark.parametrize("query", [None, STACKED, bdp.Margins(GRID, ["column"])])
def test_delta_of_every_neighbour_is_the_stated_one_at_most(kind, query):
    invariants = bdp.Totals(GRID) if query is not None else BOTH
    mechanism = kind(invariants, epsilon=0.7, delta=1e-4, query=query)
    covariance = np.eye(mechanism.answer_invariants.dimension)
    covariance = mechanism.law.covariance if kind is bdp.CorrelatedGaussian else mechanism.sigma**2 * covariance
    found = []
    for other in neighbours_of(TABLE):
        shift = _shown(mechanism, other) - _shown(mechanism, TABLE)
        mu = math.sqrt(shift @ np.linalg.solve(covariance, shift))
        found.append(gaussian_delta(0.7, 1.0, mu) if mu > 0 else 0.0)
    assert max(found) <= 1e-4 * (1 + 1e-6)
    if kind is not bdp.ProjectedGaussian:
        assert max(found) == pytest.approx(1e-4, rel=1e-5)


@pytest.mark.parametrize("kind", PURE)
@pytest.mark.parametrize("invariants", [bdp.Totals(LINE), bdp.Totals(LINE, "state")])
def test_largest_log_ratio_of_neighbours_is_the_stated_one_at_most(kind, invariants):
    neighbours = "add-remove" if kind is bdp.KNorm and len(invariants.names) > 1 else "substitution"
    mechanism = kind(invariants, epsilon=0.6, neighbours=neighbours)
    rng = np.random.default_rng(1)
    law, relations = mechanism.law, mechanism.answer_invariants
    worst = 0.0
    differences = [np.eye(3)[i] - np.eye(3)[j] for i, j in itertools.permutations(range(3), 2)]
    differences = list(np.eye(3)) if neighbours == "add-remove" else differences
    points = relations.project(rng.laplace(scale=6.0, size=(300, 3)))
    for point, u in itertools.product(points, differences):
        shift = relations.project(u)
        worst = max(worst, abs(law.logp(point, np.zeros(3), relations) - law.logp(point, shift, relations)))
    assert worst <= 0.6 + 1e-9
    assert worst > 0.55


def test_extended_noise_is_never_larger_than_projected_gaussian_noise():
    for invariants, query in ((BOTH, None), (bdp.Totals(GRID), STACKED), (bdp.Margins(GRID, ["row"]), None)):
        projected = bdp.ProjectedGaussian(invariants, mu=1.0, query=query)
        extended = bdp.ExtendedGaussian(invariants, mu=1.0, query=query)
        correlated = bdp.CorrelatedGaussian(invariants, mu=1.0, query=query)
        assert extended.error <= projected.error * (1 + 1e-12)
        assert correlated.error <= extended.error * (1 + 1e-9)


def test_projected_laplace_noise_is_not_laplace_noise_given_the_invariants():
    # Two cells with a known sum. Projected: (e1 - e2) / 2 in the first cell. Given e1 + e2 = 0: density exp(-2 |z| / b) / b.
    relations = bdp.Invariants(bdp.Totals({"county": ["p", "q"]}))
    law, b = bdp.noise.ProjectedLaplace(b=1.0), 1.0

    def density(z):  # of the first cell; the orthonormal coordinate is the root of 2 times it
        return math.sqrt(2.0) * math.exp(law.logp([z, -z], [0.0, 0.0], relations))

    def conditional(z):
        return math.exp(-2 * abs(z) / b) / b

    assert integrate.quad(density, -30, 30, points=[0])[0] == pytest.approx(1.0, abs=1e-8)
    variance = integrate.quad(lambda z: z * z * density(z), -40, 40, points=[0])[0]
    assert variance == pytest.approx(b**2, rel=1e-7)  # 2 b^2 times 2 / 4
    given = integrate.quad(lambda z: z * z * conditional(z), -40, 40, points=[0])[0]
    assert given == pytest.approx(b**2 / 2, rel=1e-7)
    assert abs(density(0.0) - conditional(0.0)) > 0.4


def test_the_scale_is_below_that_of_lemma_3_4_and_files_may_say_how_it_was_found():
    mechanism = bdp.ProjectedGaussian(bdp.Totals(LINE), epsilon=0.5, delta=1e-5)
    assert mechanism.sigma < lemma_3_4_sigma(0.5, 1e-5, mechanism.sensitivity)
    earlier = mechanism.describe() | {"calibration": "analytic"}
    assert type(mechanism).from_description(earlier, LINE) == mechanism
    with pytest.raises(ValueError, match=r"calibration of the mechanism .* must be 'analytic'"):
        type(mechanism).from_description(earlier | {"calibration": "lemma 3.4"}, LINE)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="determine every answer"):
        bdp.ProjectedLaplace(bdp.Margins(GRID, ["row"]), 1.0, query=bdp.Totals(GRID))
    with pytest.raises(ValueError, match="about the table of the invariants"):
        bdp.ExtendedLaplace(bdp.Totals(GRID), 1.0, query=bdp.Totals(LINE))
    with pytest.raises(TypeError, match="query must be Identity"):
        bdp.ExtendedGaussian(bdp.Totals(GRID), mu=1.0, query="row")
    with pytest.raises(ValueError, match="delta"):
        bdp.ExtendedGaussian(bdp.Totals(GRID), epsilon=1.0, delta=1.5)
    with pytest.raises(ValueError, match="epsilon"):
        bdp.ProjectedLaplace(bdp.Totals(GRID), 0.0)
    with pytest.raises(ValueError, match="neighbours"):
        bdp.ProjectedLaplace(bdp.Totals(GRID), 1.0, neighbours="friends")
    released = bdp.ProjectedLaplace(bdp.Totals(GRID), 1.0).release(TABLE, rng=np.random.default_rng(1))
    moved = bdp.Measured(bdp.Identity(GRID), released.values.values + 0.5, released.measurements[0].law)
    with pytest.raises(ValueError, match="keeps its invariants"):
        bdp.Release.from_published(GRID, measured=[moved], exact=released.exact)
