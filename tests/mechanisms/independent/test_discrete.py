"""Discrete Laplace and discrete Gaussian mechanisms: what they protect, by enumeration, and what they publish."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import logsumexp

from bayesdp.frames import Frame
from bayesdp.invariants import Invariants
from bayesdp.mechanisms import DiscreteGaussian, DiscreteLaplace
from bayesdp.noise.secure import statement
from bayesdp.privacy import FLOATING_POINT_CAVEAT, discrete_gaussian_delta
from bayesdp.queries import LinearQuery, Margins, Totals

TABLE = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
X = np.array([[20, 10], [5, 1]])
COUNTY = Margins(TABLE, ["county"])
BOTH = Margins(TABLE, ["county"], ["education"])
WEIGHTED = LinearQuery(TABLE, [[1, 2, 0, 0]], ["weighted"])

MECHANISMS = [
    DiscreteLaplace(TABLE, 0.5),
    DiscreteLaplace(COUNTY, 0.5, neighbours="add-remove"),
    DiscreteLaplace(WEIGHTED, 0.3),
    DiscreteGaussian(BOTH, rho=0.1),
    DiscreteGaussian(TABLE, epsilon=1.0, delta=1e-6, neighbours="add-remove"),
    DiscreteGaussian(COUNTY, epsilon=1.0, delta=1e-6),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_what_is_said_of_a_release_and_of_a_simulation(mechanism):
    release, simulated = mechanism.release(X), mechanism.release(X, rng=1)
    assert release.exact == ()
    assert release.guarantee.certified
    assert release.guarantee.determined_cells == ()
    assert statement() in release.guarantee.caveats
    assert FLOATING_POINT_CAVEAT not in release.guarantee.caveats
    assert FLOATING_POINT_CAVEAT in simulated.guarantee.caveats
    # Before a release nothing is recorded of determined cells; without exact answers there are none.
    assert release.guarantee == replace(mechanism.guarantee, determined_complete=True)
    with pytest.raises(ValueError, match="always drawn exactly"):
        mechanism.release(X, method="mcmc")


def changes(query, neighbours: str) -> np.ndarray:
    """What neighbouring tables change of the answers, all of them."""
    unit = np.eye(4, dtype=np.int64)
    if neighbours == "add-remove":
        cells = [*unit, *-unit]
    else:
        cells = [a - b for a in unit for b in unit if (a != b).any()]
    return np.array([query.apply(u.reshape(2, 2)).ravel() for u in cells])


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("query", [Totals(TABLE), COUNTY, BOTH, WEIGHTED], ids=["total", "county", "both", "weighted"])
def test_laplace_keeps_its_epsilon_and_spends_all_of_it(query, neighbours):
    if query.rows == 1 and neighbours == "substitution" and query != WEIGHTED:
        with pytest.raises(ValueError, match="nothing for the noise to hide"):
            DiscreteLaplace(query, 0.7, neighbours=neighbours)
        return
    mechanism = DiscreteLaplace(query, 0.7, neighbours=neighbours)
    # The ratio of two such masses is largest far out on the side of the change: its logarithm is |u|_1 / b there.
    losses = [
        mechanism.law.logp(np.sign(u) * 50, np.zeros_like(u)) - mechanism.law.logp(np.sign(u) * 50, -u)
        for u in changes(query, neighbours)
    ]
    assert max(losses) == pytest.approx(0.7, abs=1e-12)
    assert Fraction(mechanism.law.b) * Fraction(0.7) >= Fraction(mechanism.sensitivity)  # exactly, not up to rounding


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1 / 3, 0.7, 1e-3, 3.3])
def test_the_scale_is_never_rounded_down(epsilon):
    b = DiscreteLaplace(TABLE, epsilon).law.b
    assert Fraction(2) <= Fraction(b) * Fraction(epsilon) <= Fraction(2) * (1 + Fraction(1, 2**51))


def renyi(sigma: float, u: np.ndarray, order: float) -> float:
    """Renyi divergence of two discrete Gaussian vectors shifted by u, by summation."""
    k = np.arange(-100, 101)
    normaliser = logsumexp(-(k**2) / (2 * sigma**2))
    total = 0.0
    for shift in u:
        own, other = -(k**2) / (2 * sigma**2) - normaliser, -((k - shift) ** 2) / (2 * sigma**2) - normaliser
        total += float(logsumexp(order * own + (1 - order) * other)) / (order - 1)
    return total


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("query", [COUNTY, BOTH, WEIGHTED], ids=["county", "both", "weighted"])
def test_gaussian_meets_its_renyi_divergences(query, neighbours):
    mechanism = DiscreteGaussian(query, rho=0.2, neighbours=neighbours)
    found = [renyi(mechanism.sigma, u, order) / order for u in changes(query, neighbours) for order in (1.5, 2.0, 4.0)]
    assert max(found) == pytest.approx(0.2, rel=1e-6)


def test_gaussian_with_the_exact_profile():
    mechanism = DiscreteGaussian(COUNTY, epsilon=1.0, delta=0.0072487768, neighbours="add-remove")
    assert mechanism.sigma == pytest.approx(2.0, abs=1e-8)  # checks.md
    assert discrete_gaussian_delta(1.0, mechanism.sigma) <= 0.0072487768 * (1.0 + 1e-14)  # up to rounding of the sums
    (row,) = mechanism.guarantee.pairs
    assert row.loss["epsilon"] <= 1.0
    assert row.loss["epsilon"] == pytest.approx(1.0)
    converted = DiscreteGaussian(COUNTY, epsilon=1.0, delta=1e-6)  # two answers change: by way of zCDP
    assert converted.guarantee.pairs[0].loss["epsilon"] <= 1.0 + 1e-9
    assert (
        converted.sigma
        > math.sqrt(2.0) * DiscreteGaussian(COUNTY, epsilon=1.0, delta=1e-6, neighbours="add-remove").sigma
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DiscreteLaplace(TABLE, 0.0), ValueError, "epsilon must be a finite number greater than 0"),
        (lambda: DiscreteLaplace(TABLE, 1.0, neighbours="swap"), ValueError, "neighbours must be"),
        (lambda: DiscreteLaplace(COUNTY, 1.0, query=BOTH), ValueError, "give the query once"),
        (lambda: DiscreteLaplace(TABLE, 1.0, query="county"), TypeError, "query must be Identity"),
        (lambda: DiscreteLaplace(TABLE, 1.0, query=Totals({"a": [1, 2]})), ValueError, "about the same table"),
        (lambda: DiscreteLaplace(Invariants(COUNTY), 1.0), ValueError, "for invariants there is LatticeLaplace"),
        (lambda: DiscreteGaussian(Invariants(COUNTY), 1.0), ValueError, "for invariants there is LatticeGaussian"),
        (lambda: DiscreteGaussian(TABLE, rho=1.0, delta=0.1), ValueError, "state the loss by rho"),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_labels_may_come_from_anything_that_has_them():
    assert (
        DiscreteLaplace(Frame.of(TABLE), 0.5)
        == DiscreteLaplace(TABLE, 0.5)
        == DiscreteLaplace(Frame.of(TABLE).data_array(X), 0.5)
    )
