"""The exact Gaussian mechanism, against quadrature of a positive integrand and facts from the design."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from bayesdp.privacy import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_sigma,
    gaussian_sigma_for_mu,
    rho_to_epsilon,
)
from bayesdp.privacy.gaussian import _log_delta


def log_delta_by_quadrature(epsilon: float, mu: float) -> float:
    """delta = integral of (p - exp(epsilon) q)+, with p's density at the crossing point taken out."""
    x = epsilon / mu - mu / 2
    width = 1.0 / max(1.0, x)

    def integrand(u: float) -> float:
        t = u * width
        return math.exp(-t * x - t * t / 2) * -math.expm1(-mu * t) * width

    value, _ = quad(integrand, 0, np.inf, epsabs=0, epsrel=1e-12, limit=500)
    return float(norm.logpdf(x)) + math.log(value)


@pytest.mark.parametrize("mu", [1e-5, 0.01, 0.3, 1.0, 4.5, 9.9, 10.3])
@pytest.mark.parametrize("epsilon", [0.0, 1e-3, 1.0, 12.0])
def test_delta_keeps_its_digits_in_the_tails(epsilon: float, mu: float) -> None:
    log_delta = _log_delta(epsilon, mu)
    assert log_delta == pytest.approx(log_delta_by_quadrature(epsilon, mu), rel=1e-11, abs=1e-13)


def test_delta_is_the_difference_of_balle_and_wang() -> None:
    for epsilon, sigma, sensitivity in [(0.5, 1.0, 1.0), (1.0, 2.0, 3.0), (0.0, 0.7, 0.2)]:
        mu = sensitivity / sigma
        printed = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert gaussian_delta(epsilon, sigma, sensitivity) == pytest.approx(printed, rel=1e-12)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0, 8.0])
@pytest.mark.parametrize("delta", [1e-200, 1e-15, 1e-5, 0.3])
def test_calibration_and_profile_invert_each_other(epsilon: float, delta: float) -> None:
    sigma = gaussian_sigma(epsilon, delta, sensitivity=2.0)
    assert math.log(gaussian_delta(epsilon, sigma, 2.0)) == pytest.approx(math.log(delta), rel=1e-10)
    assert gaussian_epsilon(delta, sigma, 2.0) == pytest.approx(epsilon, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(("epsilon", "delta", "true"), [(2.0, 1e-10, 2.6e-10), (1.0, 1e-15, None)])
def test_printed_lemma_fails_where_the_design_says(epsilon: float, delta: float, true: float | None) -> None:
    # Gao, Gong and Yu, Lemma 3.4: sigma = (1 + sqrt(1 + log(1 / delta))) / epsilon, said to hold for all.
    exact = gaussian_delta(epsilon, (1 + math.sqrt(1 + math.log(1 / delta))) / epsilon)
    assert exact > delta
    if true is not None:
        assert exact == pytest.approx(true, rel=0.02)


def test_exact_epsilon_is_below_that_of_zcdp() -> None:
    for sigma in [0.5, 2.0, 30.0]:
        assert gaussian_epsilon(1e-9, sigma) <= rho_to_epsilon(0.5 / sigma**2, 1e-9)


def test_enough_noise_needs_no_epsilon() -> None:
    assert gaussian_epsilon(0.5, sigma=100.0) == 0.0


def test_gaussian_dp() -> None:
    assert gaussian_mu(gaussian_sigma_for_mu(0.8, 3.0), 3.0) == pytest.approx(0.8, rel=1e-15)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: gaussian_delta(-0.1, 1.0), "epsilon must be a finite number of at least 0, got -0.1"),
        (lambda: gaussian_delta(1.0, math.nan), "sigma must be a finite number greater than 0, got nan"),
        (lambda: gaussian_sigma(1.0, 1.0), "delta must lie strictly between 0 and 1, got 1.0"),
        (lambda: gaussian_epsilon(0.1, 1.0, 0.0), "sensitivity must be a finite number greater than 0"),
    ],
)
def test_bad_arguments_are_named(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]
