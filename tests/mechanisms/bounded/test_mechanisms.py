"""Mechanisms within bounds: releases of statistics and of counts, what they state, files, and what is refused."""

from __future__ import annotations

import copy
import json
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.mechanisms.base import AdditiveMechanism, Mechanism
from bayesdp.noise.bounded.laws import draw_bounded
from bayesdp.papers import subspace
from bayesdp.privacy import mean_sensitivity, proportion_sensitivity, split_budget, truncated_epsilon
from tests.comparison.chi_square import chi_square_pvalue

SHARES = ["a", "b", "c", "d"]
CELLS = {"county": ["Alpha", "Beta", "Gamma"]}


@pytest.mark.parametrize("kind", [bdp.TruncatedLaplace, bdp.BoundaryInflatedLaplace])
def test_release_of_a_vector(kind: Any, tmp_path: Path) -> None:
    mechanism = kind(0.5, proportion_sensitivity(50, 4), (0.0, 1.0), names=SHARES)
    truth = np.array([0.0, 0.2, 0.3, 0.5])
    release = mechanism.release(truth, rng=np.random.default_rng(5))
    assert release.simulated
    assert release.guarantee is not None
    assert "SIMULATED" in str(release.guarantee)
    assert release.labelled.coords["statistic"].values.tolist() == SHARES
    assert mechanism.logp(release.values, truth) == pytest.approx(release.law.logp(release.values, truth))
    assert release.guarantee.parameters["epsilon"] == pytest.approx(0.5, rel=1e-9)
    path = tmp_path / "shares.nc"
    release.to_netcdf(path)
    assert m.StatisticRelease.from_netcdf(path) == release
    again = kind.from_description(json.loads(json.dumps(release.mechanism, allow_nan=False)))
    assert again == mechanism
    assert pickle.loads(pickle.dumps(mechanism)).describe() == mechanism.describe()
    real = mechanism.release(truth)
    assert not real.simulated
    assert "operating system" in str(real.guarantee)
    assert not real.law.outside(real.values).any()


def test_values_stand_on_a_grid_and_atoms_stay_atoms() -> None:
    """20,000 clipped releases: the share of each bound within 4.5 standard errors (1e-5), the rest strictly between."""
    mechanism = bdp.BoundaryInflatedLaplace(1.0, [0.5] * 20_000, ([0.1] * 20_000, [0.9] * 20_000))
    # Not released: noise of another scale than that of the mechanism is refused.
    object.__setattr__(mechanism, "scale", 0.5)
    location = np.full(20_000, 0.3)
    drawn = mechanism._rounded(mechanism.law.draw(np.random.default_rng(8), (20_000,), location=location))
    expected = mechanism.law.atoms(np.full(20_000, 0.3))
    for edge, atom in ((0.1, expected[0][0]), (0.9, expected[1][0])):
        share = np.mean(drawn == edge)
        assert abs(share - atom) < 4.5 * np.sqrt(atom * (1 - atom) / drawn.size)
    inner = drawn[(drawn > 0.1) & (drawn < 0.9)]
    assert np.array_equal(inner / mechanism.grid, np.rint(inner / mechanism.grid))
    assert mechanism.grid <= 0.5 * 2.0**-20
    # Values that round onto a bound are moved off it, not onto the atom.
    near = mechanism._rounded(np.full(20_000, np.nextafter(0.9, 0.0)))
    assert np.all((near < 0.9) & (near > 0.9 - 2 * mechanism.grid))


def test_paper_convention_states_the_true_epsilon() -> None:
    scalar = bdp.TruncatedLaplace(1.0, mean_sensitivity(50, (0.0, 1.0)), (0.0, 1.0), convention="paper")
    assert scalar.scale == 1 / 50
    assert scalar.true_epsilon == pytest.approx(1.49, abs=0.005)
    text = " ".join(str(scalar.guarantee).split())
    assert "epsilon = 1.48" in text or "epsilon = 1.49" in text
    assert "states as epsilon = 1." in text
    vector = bdp.BoundaryInflatedLaplace(
        1.0, proportion_sensitivity(50, 4), (0.0, 1.0), names=SHARES, convention="paper"
    )
    assert vector.scale == 1 / 50
    assert vector.true_epsilon == 2.0
    both = bdp.TruncatedLaplace(1.0, proportion_sensitivity(50, 4), (0, 1), names=SHARES, convention="paper")
    expected = truncated_epsilon(np.full(4, 1 / 50), 1.0, 2 / 50, largest=1 / 50, changed=2)
    assert both.true_epsilon == pytest.approx(expected, rel=1e-12)
    assert both.true_epsilon == pytest.approx(2.98, abs=0.005)
    default = bdp.TruncatedLaplace(1.0, proportion_sensitivity(50, 4), (0, 1), names=SHARES)
    assert default.true_epsilon == pytest.approx(1.0, rel=1e-9)
    assert 2 / 50 < default.scale <= 4 / 50


def test_sensitivities_of_several_statistics_add_up() -> None:
    parts = split_budget(1.0, 2)
    one = bdp.TruncatedLaplace(parts[0], [0.1, 0.3], ([0.0, None], [1.0, 2.0]), names=["low", "high"])
    assert one.sensitivity == pytest.approx(0.4)
    assert one.largest == (0.1, 0.3)
    assert one.true_epsilon == pytest.approx(0.5, rel=1e-9)
    assert one.release([0.5, 1.9], rng=np.random.default_rng(1)).values.shape == (2,)
    assert m.StatisticMechanism.from_description(json.loads(json.dumps(one.describe()))) == one


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: bdp.TruncatedLaplace(1.0, 0.1, (1.0, 0.0)), ValueError, "bounds must .*reversed: 1 and 0"),
        (lambda: bdp.TruncatedLaplace(1.0, 0.1, (1.0, 1.0)), ValueError, "equal: 1 and 1"),
        (lambda: bdp.BoundaryInflatedLaplace(1.0, 0.1, (None, None)), ValueError, "both are infinite"),
        (lambda: bdp.TruncatedLaplace(0.0, 0.1, (0, 1)), ValueError, "epsilon must be a finite number greater than 0"),
        (lambda: bdp.TruncatedLaplace(1.0, 0.0, (0, 1)), ValueError, "sensitivity must be a finite number greater"),
        (lambda: bdp.TruncatedLaplace(1.0, 0.1, (0, 1), convention="loose"), ValueError, "convention must be one of"),
        (lambda: bdp.TruncatedLaplace(1.0, 0.1, (0, 1), names=["a", "a"]), ValueError, "2 different strings"),
        (lambda: bdp.TruncatedLaplace(1.0, [0.1] * 3, (0, 1), names=["a", "b"]), ValueError, "do not fit one another"),
        (lambda: bdp.TruncatedLaplace(1.0, 0.1, (0, 1)).release(1.2), ValueError, "within its bounds, 0 to 1"),
        (lambda: bdp.TruncatedLaplace(1.0, 0.1, (0, 1)).release([0.2, 0.3]), ValueError, r"must have shape \(\)"),
        (lambda: bdp.TruncatedLaplace(1.0, 0.1, (0, 1)).release(float("nan")), ValueError, "statistic must be finite"),
        (
            lambda: m.StatisticRelease(1.5, bdp.noise.TruncatedLaplace(1.0, (0, 1))),
            ValueError,
            "bounds of the law 'truncated-laplace', 0 to 1, but statistic=single is 1.5",
        ),
        (lambda: m.StatisticMechanism.from_description({"mechanism": "other"}), ValueError, "one of boundary-inflated"),
        (
            lambda: m.StatisticMechanism.from_description({"mechanism": "truncated-laplace", "epsilon": 1.0}),
            ValueError,
            "lacks 'sensitivity', 'bounds'",
        ),
    ],
)
def test_bad_input(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


COUNTS = [
    m.TruncatedDiscreteLaplace(CELLS, 0.5, (0, 50)),
    m.BoundaryInflatedDiscreteLaplace(CELLS, 0.5, (0, 50)),
    m.BoundaryInflatedDiscreteGaussian(CELLS, (0, 50), rho=0.1),
    m.TruncatedDiscreteGaussian(CELLS, (0, 50), 1.0, 1e-5, neighbours="add-remove"),
]


def test_statistics_have_no_additive_noise() -> None:
    assert not hasattr(bdp.TruncatedLaplace(1.0, 0.1, (0, 1)), "noise")


@pytest.mark.parametrize("mechanism", COUNTS, ids=lambda own: own.name)
def test_counts_within_bounds_promise_no_additive_noise(mechanism: Any) -> None:
    """They are no `AdditiveMechanism`, and say why to those who ask; agents refuse them when they are made."""
    assert not isinstance(mechanism, AdditiveMechanism)
    assert not hasattr(mechanism, "noise")
    with pytest.raises(
        AttributeError, match="depends on how far an answer is from its bounds; draw around answers with"
    ):
        mechanism.noise()
    with pytest.raises(AttributeError, match="no attribute 'nose'"):
        _ = mechanism.nose
    with pytest.raises(ValueError, match=f"mechanism '{mechanism.name}' adds none that is independent of the counts"):
        subspace.Agent(mechanism.describe(), mechanism.frame, 2**100, ("a",))
    copied = pickle.loads(pickle.dumps(mechanism))
    assert copied == copy.deepcopy(mechanism) == mechanism


def test_noise_is_what_additive_mechanisms_have() -> None:
    """No other class of the registry has `noise`, and none of them takes it away again."""
    known = [own for own in vars(m).values() if isinstance(own, type) and issubclass(own, Mechanism)]
    assert len(known) > 20
    for own in known:
        assert hasattr(own, "noise") == issubclass(own, AdditiveMechanism)
        assert own is AdditiveMechanism or "noise" not in vars(own)


def test_wrong_statements_of_the_loss_are_refused_as_without_bounds() -> None:
    for wrong in ({}, {"rho": 0.1, "epsilon": 1.0}, {"rho": "x"}, {"rho": -1.0}):
        with pytest.raises((TypeError, ValueError)) as free:
            m.DiscreteGaussian(CELLS, **wrong)
        with pytest.raises(free.type, match=re.escape(str(free.value))):
            m.BoundaryInflatedDiscreteGaussian(CELLS, (0, 50), **wrong)


@pytest.mark.parametrize("mechanism", COUNTS, ids=lambda own: own.name)
def test_releases_of_counts(mechanism: Any, tmp_path: Path) -> None:
    for rng in (np.random.default_rng(2), None):
        release = mechanism.release([0, 12, 38], rng=rng)
        assert isinstance(release, bdp.Release)
        assert release.values.min() >= 0
        assert release.values.max() <= 50
        assert [(part.sign, part.values.tolist()) for part in release.exact] == [("<=", [50, 50, 50])]
        path = tmp_path / f"{rng is None}.nc"
        release.to_netcdf(path)
        assert bdp.Release.from_netcdf(path) == release
        assert Mechanism.from_description(release.mechanism, CELLS) == mechanism
    assert "bounds must be public" in " ".join(str(mechanism.guarantee).split())
    expected = float(np.sum(mechanism.law.log_mass([1, 13, 50], [0, 12, 38])))
    assert mechanism.logp([1, 13, 50], [0, 12, 38]) == pytest.approx(expected)
    with pytest.raises(ValueError, match="county=Gamma does not"):
        mechanism.release([0, 12, 51])
    with pytest.raises(ValueError, match=r"within the bounds of the law .* county=Beta is 51"):
        bdp.Measured(bdp.Identity(CELLS), [0, 51, 3], mechanism.law)


def _pairs(neighbours: str, n: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Neighbouring tables of two cells with counts up to n."""
    tables = [(a, b) for a in range(n + 1) for b in range(n + 1)]
    found = []
    for s in tables:
        for t in tables:
            change = (t[0] - s[0], t[1] - s[1])
            if change in ([(1, -1), (-1, 1)] if neighbours == "substitution" else [(1, 0), (-1, 0), (0, 1), (0, -1)]):
                found.append((s, t))
    return found


@pytest.mark.parametrize("neighbours", ["substitution", "add-remove"])
@pytest.mark.parametrize("convention", ["exact", "paper"])
def test_true_epsilon_of_counts_by_enumeration(neighbours: str, convention: str) -> None:
    n, table = 4, {"county": ["Alpha", "Beta"]}
    own = m.TruncatedDiscreteLaplace(table, 0.8, (0, n), neighbours=neighbours, convention=convention)
    outputs = [(a, b) for a in range(n + 1) for b in range(n + 1)]
    mass = {s: np.array([own.logp(y, s) for y in outputs]) for s in outputs}
    worst = max(float(np.max(mass[s] - mass[t])) for s, t in _pairs(neighbours, n))
    assert own.true_epsilon == pytest.approx(worst, rel=1e-10)
    stated = own.guarantee.parameters["epsilon"]
    assert stated == pytest.approx(worst, rel=1e-10)
    assert stated == pytest.approx(0.8, rel=1e-9) if convention == "exact" else stated > 0.85
    assert ("true epsilon" in str(own.guarantee)) == (convention == "paper")


def test_loss_of_clipped_counts_by_enumeration() -> None:
    n, table = 4, {"county": ["Alpha", "Beta"]}
    own = m.BoundaryInflatedDiscreteLaplace(table, 0.8, (0, n))
    outputs = [(a, b) for a in range(n + 1) for b in range(n + 1)]
    mass = {s: np.array([own.logp(y, s) for y in outputs]) for s in outputs}
    worst = max(float(np.max(mass[s] - mass[t])) for s, t in _pairs("substitution", n))
    assert worst == pytest.approx(0.8, rel=1e-9)


def test_delta_of_truncated_gaussian_counts_by_enumeration() -> None:
    n, table = 5, {"county": ["Alpha", "Beta"]}
    own = m.TruncatedDiscreteGaussian(table, (0, n), 0.6, 0.01, neighbours="add-remove")
    outputs = [(a, b) for a in range(n + 1) for b in range(n + 1)]
    mass = {s: np.exp([own.logp(y, s) for y in outputs]) for s in outputs}
    worst = max(float(np.maximum(mass[s] - np.exp(0.6) * mass[t], 0).sum()) for s, t in _pairs("add-remove", n))
    assert worst <= 0.01
    assert worst == pytest.approx(0.01, rel=1e-6)
    with pytest.raises(NotImplementedError, match="BoundaryInflatedDiscreteGaussian clips instead"):
        m.TruncatedDiscreteGaussian(table, (0, n), 0.6, 0.01)
    with pytest.raises(NotImplementedError, match="two finite bounds"):
        m.TruncatedDiscreteGaussian(table, (0, None), 0.6, 0.01, neighbours="add-remove")


@pytest.mark.parametrize(
    "law",
    [
        bdp.noise.TruncatedDiscreteLaplace(6.0, (0, 8)),
        bdp.noise.TruncatedDiscreteLaplace(1.5, (0, 8)),
        bdp.noise.BoundaryInflatedDiscreteGaussian(3.0, (0, 8)),
        bdp.noise.TruncatedDiscreteGaussian(5.0, (0, 8)),
        bdp.noise.TruncatedDiscreteGaussian(1.5, (0, 8)),
    ],
    ids=str,
)
def test_secure_draws_follow_the_law(law: Any) -> None:
    """Chi-square of 1,500 draws with integers only: five tests that cannot be seeded, a false alarm in 10**7 each."""
    drawn = draw_bounded(law, np.full(1500, 7))
    observed = np.bincount(drawn, minlength=9)
    expected = np.exp(law.log_mass(np.arange(9), np.full(9, 7.0))) * drawn.size
    assert chi_square_pvalue(observed, expected, least=5.0, fewest=4) > 1e-7


def test_counts_with_bounds_of_their_own() -> None:
    own = m.TruncatedDiscreteLaplace(CELLS, 0.5, ([0, 5, 0], [9, 50, 20]))
    release = own.release([3, 20, 20], rng=np.random.default_rng(3))
    assert [part.sign for part in release.exact] == ["<=", ">="]
    with pytest.raises(ValueError, match=r"one for each answer, of shape \(3,\)"):
        m.TruncatedDiscreteLaplace(CELLS, 0.5, ([0, 5], [9, 50]))
    with pytest.raises(ValueError, match="whole number"):
        m.BoundaryInflatedDiscreteLaplace(CELLS, 0.5, (0, 9.5))
    with pytest.raises(ValueError, match="publishes nothing exactly"):
        m.TruncatedDiscreteLaplace(bdp.Invariants(bdp.Totals(CELLS)), 0.5, (0, 9))
