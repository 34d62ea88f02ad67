"""Smooth privacy: the growth with the distance, and that noise on lattices has it; enumerated."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.privacy import Guarantee, group_loss, rho_to_delta, smooth_gaussian_delta, smooth_loss
from bayesdp.privacy.caveats import Smooth
from bayesdp.queries import Margins, Totals
from tests.comparison.enumeration import lattice_points
from tests.lattices.oracles import law_on

THREE = Totals({"cell": list("abc")})
TABLE = Margins({"row": list("abc"), "column": list("xyz")}, ["row"], ["column"])


def delta_at(points: np.ndarray, mass: np.ndarray, u: np.ndarray, epsilon: float) -> float:
    moved = {tuple(p): m for p, m in zip((points + u).tolist(), mass, strict=True)}
    pairs = ((m, moved.get(tuple(p), 0.0)) for p, m in zip(points.tolist(), mass, strict=True))
    return sum(max(m - math.exp(epsilon) * other, 0.0) for m, other in pairs)


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_at_whole_distances_it_is_group_privacy(delta: float) -> None:
    for k in (1, 2, 3, 7):
        own = smooth_loss(k, 0.5, delta)
        step = {"epsilon": 0.5, "delta": delta} if delta else {"epsilon": 0.5}
        assert dict(own) == pytest.approx(group_loss(step, k))
    assert smooth_loss(0.0, 0.5, delta)["epsilon"] == 0.0
    assert smooth_loss(1e6, 1.0, 0.5)["delta"] == 1.0


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.5, 2.0), (1.0, 3.0), (2.0, 1.0), (0.2, 4.0)])
def test_lattice_gaussians_are_smooth_at_every_distance(epsilon: float, sigma: float) -> None:
    """All differences up to 8 counts a cell, of three cells with a total."""
    delta = smooth_gaussian_delta(epsilon, sigma)
    invariants = bdp.Invariants(THREE)
    points = lattice_points(invariants.matrix.toarray(), math.ceil(9 * sigma) + 8)
    mass = law_on(points, "gaussian", sigma)
    for u in points[(np.abs(points).max(axis=1) <= 8) & (points[:, 0] > 0) & (points[:, 1] <= points[:, 2])][::3]:
        distance = float(np.linalg.norm(u))
        assert (
            delta_at(points, mass, u, epsilon * distance)
            <= smooth_loss(distance, epsilon, delta).get("delta", 0.0) * (1 + 1e-9) + 1e-14
        )


def test_lattice_laplace_is_smooth_and_no_better() -> None:
    mechanism = bdp.LatticeLaplace(THREE, epsilon=0.6, sensitivity=2.0)
    points = lattice_points(mechanism.invariants.matrix.toarray(), 40)
    log_mass = -0.3 * np.abs(points).sum(axis=1)
    for u in ([1, -1, 0], [2, -1, -1], [5, -3, -2]):
        moved = -0.3 * np.abs(points + np.array(u)).sum(axis=1)
        assert np.abs(log_mass - moved).max() == pytest.approx(smooth_loss(np.abs(u).sum(), mechanism.rate)["epsilon"])


def test_the_guarantee_prints_how_it_grows() -> None:
    text = " ".join(str(bdp.LatticeLaplace(THREE, epsilon=0.25).guarantee).split())
    assert "d = 2: epsilon = 0.5; d = 4: epsilon = 1; d = 8: epsilon = 2; d = 16: epsilon = 4." in text
    mechanism = bdp.LatticeGaussian(THREE, epsilon=1.0, delta=1e-6)
    [own] = [caveat for caveat in mechanism.guarantee.caveats if isinstance(caveat, Smooth)]
    assert (own.epsilon, own.delta, own.norm) == (1.0, pytest.approx(1e-6, rel=1e-6), "l2")
    assert not [1 for c in bdp.LatticeGaussian(THREE, rho=0.5).guarantee.caveats if isinstance(c, Smooth)]


def test_two_releases_compose_as_proposition_6_says() -> None:
    for d in (1.0, 2.0, 5.0):
        parts = dict(smooth_loss(d, 0.5, 1e-6).compose(smooth_loss(d, 0.25, 1e-7)))
        both = smooth_loss(d, 0.75, 1.1e-6)
        assert both["delta"] >= parts["delta"] * (1 - 1e-12)
        assert both["epsilon"] == pytest.approx(parts["epsilon"])


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1.0, "delta": 1.0}, "delta"),
        ({"distance": -1.0, "epsilon": 1.0}, "distance"),
    ],
)
def test_bad_parameters_are_named(given: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        smooth_loss(**{"distance": 2.0} | given)  # type: ignore[arg-type]


def test_files_may_not_claim_a_smaller_growth() -> None:
    release = bdp.LatticeLaplace(THREE, epsilon=0.5).release([3, 4, 5], rng=1)
    read = Guarantee.from_dict(json.loads(json.dumps(release.guarantee.to_dict())))
    assert [type(caveat) for caveat in read.caveats] == [type(caveat) for caveat in release.guarantee.caveats]
    replace(release, guarantee=read).check_stated()
    better = tuple(Smooth(0.1, 0.0, "l1") if isinstance(c, Smooth) else c for c in read.caveats)
    with pytest.raises(
        ValueError, match=r"caveats: the guarantee states .*epsilon = 0\.1 .*but the mechanism .*epsilon = 0\.5 "
    ):
        replace(release, guarantee=replace(read, caveats=better)).check_stated()


def test_rows_of_files_of_earlier_versions_are_read_and_smaller_losses_are_not() -> None:
    mechanism = bdp.LatticeGaussian(TABLE, epsilon=1.0, delta=1e-6)
    release = mechanism.release(np.full((3, 3), 5), rng=1)
    earlier = replace(release.guarantee, pairs=mechanism._earlier_rows())
    assert earlier.pairs[0].loss["epsilon"] > release.guarantee.pairs[0].loss["epsilon"]
    replace(release, guarantee=earlier).check_stated()
    row = release.guarantee.pairs[0]
    less = replace(row, loss={**dict(row.loss), "epsilon": 0.99 * row.loss["epsilon"]})
    with pytest.raises(ValueError, match="the guarantee states"):
        replace(release, guarantee=replace(release.guarantee, pairs=(less,))).check_stated()


@pytest.mark.parametrize(("epsilon", "sigma"), [(800.0, 0.01), (800.0, 0.03), (699.0, 0.03), (100.0, 0.1)])
def test_a_delta_where_exponentials_overflow_is_never_below_that_of_any_distance(epsilon: float, sigma: float) -> None:
    """exp(epsilon) is no float here; distances 1 and sqrt(2) by the conversion of their rho, weights in logarithms."""
    found = smooth_gaussian_delta(epsilon, sigma)
    for m in (1, 2, 3):
        own = rho_to_delta(m / (2 * sigma**2), epsilon * math.sqrt(m))
        assert found >= own * math.exp(epsilon * (1.0 - math.sqrt(m))) * (1 - 1e-9)
    if sigma == 0.01:
        assert found == 1.0  # rho = 5000 at epsilon = 800


@pytest.mark.parametrize(("epsilon", "sigma"), [(0.5, 2.0), (1.0, 3.0), (0.2, 4.0), (0.5, 10.0)])
def test_the_smooth_delta_is_the_largest_over_all_squared_distances(epsilon: float, sigma: float) -> None:
    """Over the first 3,000, from the definition."""
    each = [
        rho_to_delta(m / (2 * sigma**2), epsilon * math.sqrt(m))
        * math.expm1(epsilon)
        / math.expm1(epsilon * math.sqrt(m))
        for m in range(1, 3001)
    ]
    assert smooth_gaussian_delta(epsilon, sigma) == pytest.approx(max(each), rel=1e-12)


def test_distances_between_whole_numbers_and_where_nothing_is_said() -> None:
    loss = smooth_loss(1.5, 2.0, 0.1)
    assert loss["delta"] == pytest.approx(0.1 * (math.exp(3.0) - 1.0) / (math.exp(2.0) - 1.0), rel=1e-12)
    told = (
        str(Smooth(1.0, 0.5, "l2")).split("at most, ")[1].split(". ")[1].split("; ")
    )  # at distance 2 the delta would be 0.5 (e + 1)
    assert [own.split(":")[0] for own in told] == ["d = 1", "d = 2"]


@pytest.mark.parametrize(("epsilon", "sigma"), [(1.0, 30.0), (1.0, 200.0), (0.5, 200.0), (0.05, 700.0), (0.02, 1e4)])
def test_much_noise_has_a_small_delta_at_once(epsilon: float, sigma: float) -> None:
    """It used to be 1 after 200,000 distances where deltas underflow. Against the Gaussian tail bound at each distance."""
    found = smooth_gaussian_delta(epsilon, sigma)
    least = rho_to_delta(1 / (2 * sigma**2), epsilon)
    assert max(least, 1e-300) <= found <= max(1e-300, math.exp(-((epsilon * sigma - 0.5 / sigma) ** 2) / 2))
