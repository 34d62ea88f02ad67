"""zCDP: published numbers, a brute-force minimisation over alpha, and round trips."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayesdp.privacy import (
    gaussian_rho,
    gaussian_sigma_for_rho,
    rho_to_delta,
    rho_to_epsilon,
    rho_within,
)
from bayesdp.privacy.gaussian import _zcdp_log_delta

RHOS = [1e-6, 0.01, 0.3, 2.56, 40.0]
DELTAS = [1e-300, 1e-10, 1e-3, 0.4]


@pytest.mark.parametrize(("rho", "epsilon"), [(2.56, 17.91528), (10.24, 40.95057)])
def test_numbers_printed_by_cho_and_awan(rho: float, epsilon: float) -> None:
    assert rho_to_epsilon(rho, 1e-10, method="bun-steinke") == pytest.approx(epsilon, abs=5e-6)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 20.0])
def test_tight_delta_is_the_minimum_over_alpha(rho: float, epsilon: float) -> None:
    # The bound of Canonne, Kamath and Steinke as they print it, on a grid of alpha refined twice.
    def log_bound(h: np.ndarray) -> np.ndarray:  # h = alpha - 1
        return h * ((1 + h) * rho - epsilon) - np.log(h) + (1 + h) * (np.log(h) - np.log1p(h))

    low, high = -30.0, 30.0
    for _ in range(3):
        grid = np.linspace(low, high, 20_001)
        best = grid[np.argmin(log_bound(np.exp(grid)))]
        low, high = best - (high - low) / 5000, best + (high - low) / 5000
    brute = math.exp(min(log_bound(np.exp(best)), 0.0))
    assert rho_to_delta(rho, epsilon) == pytest.approx(brute, rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_and_delta_invert_each_other(rho: float, delta: float) -> None:
    epsilon = rho_to_epsilon(rho, delta)
    if epsilon > 0:
        assert math.log(rho_to_delta(rho, epsilon)) == pytest.approx(math.log(delta), rel=1e-9)
    else:
        assert rho_to_delta(rho, 0.0) <= delta


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_tight_is_never_worse_than_bun_and_steinke(rho: float, delta: float) -> None:
    assert rho_to_epsilon(rho, delta) <= rho_to_epsilon(rho, delta, method="bun-steinke")


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_rho_within_spends_all_and_not_more(epsilon: float, delta: float) -> None:
    rho = rho_within(epsilon, delta)
    assert rho_to_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-9)
    assert _zcdp_log_delta(rho, epsilon) <= math.log(delta)  # the bisection is on the safe side, to the last digit
    assert rho_to_delta(rho * 1.001, epsilon) > delta


def test_rho_within_at_epsilon_zero_bounds_total_variation() -> None:
    assert rho_to_delta(rho_within(0.0, 0.1), 0.0) == pytest.approx(0.1, rel=1e-9)


def test_no_loss_is_no_loss() -> None:
    assert rho_to_epsilon(0.0, 1e-9) == 0.0
    assert rho_to_delta(0.0, 0.0) == 0.0


def test_gaussian_scale_and_rho() -> None:
    assert gaussian_rho(5.0, math.sqrt(6.0)) == pytest.approx(6.0 / 50.0, rel=1e-15)
    assert gaussian_rho(gaussian_sigma_for_rho(0.37, 2.0), 2.0) == pytest.approx(0.37, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: rho_to_epsilon(-1.0, 0.1), "rho must be a finite number of at least 0, got -1.0"),
        (lambda: rho_to_epsilon(math.nan, 0.1), "rho must be a finite number of at least 0, got nan"),
        (lambda: rho_to_epsilon(1.0, 0.0), "delta must lie strictly between 0 and 1, got 0.0"),
        (lambda: rho_to_delta(1.0, math.inf), "epsilon must be a finite number of at least 0, got inf"),
        (lambda: rho_to_epsilon(1.0, 0.1, method="renyi"), "method must be one of 'tight', 'bun-steinke'"),
        (lambda: gaussian_rho(0.0), "sigma must be a finite number greater than 0, got 0.0"),
    ],
)
def test_bad_arguments_are_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_wrong_types_are_type_errors() -> None:
    with pytest.raises(TypeError, match="rho must be a real number"):
        rho_to_epsilon("1", 0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rho", "epsilon"), [(5000.0, 800.0), (2000.0, 0.0), (1e6, 1.0), (701.0, 0.5)])
def test_a_rho_far_above_epsilon_says_nothing(rho: float, epsilon: float) -> None:
    """At least 1 - exp(-(rho - epsilon)) by alpha -> 1, which floats round to 1."""
    assert rho_to_delta(rho, epsilon) == 1.0
