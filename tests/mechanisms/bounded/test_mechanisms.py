"""Mechanisms within bounds: releases of statistics, what they state, files, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp import mechanisms as m
from bayesdp.mechanisms.base import AdditiveMechanism, Mechanism
from bayesdp.privacy import mean_sensitivity, proportion_sensitivity, split_budget, truncated_epsilon

SHARES = ["a", "b", "c", "d"]


@pytest.mark.parametrize("kind", [bdp.TruncatedLaplace, bdp.BoundaryInflatedLaplace])
def test_release_of_a_vector(kind: Any, tmp_path: Path) -> None:
    mechanism = kind(0.5, proportion_sensitivity(50, 4), (0.0, 1.0), names=SHARES)
    truth = np.array([0.0, 0.2, 0.3, 0.5])
    release = mechanism.release(truth, rng=np.random.default_rng(5))
    assert release.simulated
    assert release.guarantee is not None
    assert "SIMULATED" in str(release.guarantee)
    assert release.values.coords["statistic"].values.tolist() == SHARES
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
    assert np.all((real.values >= 0.0) & (real.values <= 1.0))


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


def test_statistics_have_no_additive_noise() -> None:
    assert not hasattr(bdp.TruncatedLaplace(1.0, 0.1, (0, 1)), "noise")


def test_noise_is_what_additive_mechanisms_have() -> None:
    """No other class of the registry has `noise`, and none of them takes it away again."""
    known = [own for own in vars(m).values() if isinstance(own, type) and issubclass(own, Mechanism)]
    assert len(known) > 18
    for own in known:
        assert hasattr(own, "noise") == issubclass(own, AdditiveMechanism)
        assert own is AdditiveMechanism or "noise" not in vars(own)
