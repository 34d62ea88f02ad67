"""Normal noise: its exact profile, that of the discrete law, zCDP, and Lemma 3.4 of Gao, Gong and Yu."""

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from bayesdp import privacy
from bayesdp.privacy.gaussian import _log_delta, _log_sum, _log_tail, _zcdp_log_delta
from tests.refusals import refused


def log_delta_by_quadrature(epsilon, mu):
    """delta = integral of (p - exp(epsilon) q)+, with p's density at the crossing point taken out."""
    x = epsilon / mu - mu / 2
    width = 1.0 / max(1.0, x)

    def integrand(u):
        t = u * width
        return math.exp(-t * x - t * t / 2) * -math.expm1(-mu * t) * width

    return norm.logpdf(x) + math.log(quad(integrand, 0, np.inf, epsabs=0, epsrel=1e-12, limit=500)[0])


@pytest.mark.parametrize("mu", [1e-5, 0.3, 4.5, 9.9, 10.3])
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 12.0])
def test_delta_keeps_its_digits_in_the_tails(epsilon, mu):
    assert _log_delta(epsilon, mu) == pytest.approx(log_delta_by_quadrature(epsilon, mu), rel=1e-11, abs=1e-13)


def printed_by_balle_and_wang(epsilon, mu):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def test_delta_is_the_difference_of_balle_and_wang_and_scales_invert_mu_and_rho():
    for epsilon, sigma, sensitivity in [(0.5, 1.0, 1.0), (1.0, 2.0, 3.0), (0.0, 0.7, 0.2)]:
        printed = printed_by_balle_and_wang(epsilon, sensitivity / sigma)
        assert privacy.gaussian_delta(epsilon, sigma, sensitivity) == pytest.approx(printed, rel=1e-12)
    assert privacy.gaussian_mu(privacy.gaussian_sigma_for_mu(0.8, 3.0), 3.0) == pytest.approx(0.8, rel=1e-15)
    assert privacy.gaussian_rho(5.0, math.sqrt(6.0)) == pytest.approx(6.0 / 50.0, rel=1e-15)
    assert privacy.gaussian_rho(privacy.gaussian_sigma_for_rho(0.37, 2.0), 2.0) == pytest.approx(0.37, rel=1e-15)
    assert privacy.rho_to_delta(privacy.rho_within(0.0, 0.1), 0.0) == pytest.approx(0.1, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 8.0])
@pytest.mark.parametrize("delta", [1e-200, 1e-5, 0.3])
def test_calibration_and_profile_invert_each_other(epsilon, delta):
    sigma = privacy.gaussian_sigma(epsilon, delta, sensitivity=2.0)
    assert math.log(privacy.gaussian_delta(epsilon, sigma, 2.0)) == pytest.approx(math.log(delta), rel=1e-10)
    assert privacy.gaussian_epsilon(delta, sigma, 2.0) == pytest.approx(epsilon, rel=1e-9, abs=1e-6)


def delta_in_decimals(epsilon, sigma, shift):
    """Sum of the positive parts of p(k) - exp(epsilon) p(k + shift) over all k that matter."""
    with localcontext(prec=60):
        eps, scale = Decimal(epsilon), Decimal(sigma)
        reach = int(30 * scale) + int(eps * scale * scale) + shift + 20
        factor = eps.exp()

        def mass(k):
            return (-(Decimal(k) ** 2) / (2 * scale * scale)).exp()

        total = sum(mass(k) for k in range(-reach, reach + 1))
        gain = (mass(k) - factor * mass(k + shift) for k in range(-reach, reach + 1))
        return float(sum(part for part in gain if part > 0) / total)


def test_discrete_delta_against_decimal_sums_and_numbers_from_elsewhere_and_epsilon_inverts_it():
    for epsilon, sigma, shift in (("0", "0.3", 1), ("1", "1", 1), ("10", "1.7", 3), ("3", "0.2", 2), ("2", "10", 4)):
        delta = privacy.discrete_gaussian_delta(float(epsilon), float(sigma), shift)
        assert delta == pytest.approx(delta_in_decimals(epsilon, sigma, shift), rel=1e-13)
    assert privacy.discrete_gaussian_delta(1.0, 1.0) == pytest.approx(0.1413513394, abs=5e-11)
    assert privacy.discrete_gaussian_delta(1.0, 2.0) == pytest.approx(0.0072487768, abs=5e-11)
    for rho, epsilon in ((2.56, 17.91528), (10.24, 40.95057)):  # printed by Cho and Awan
        assert privacy.rho_to_epsilon(rho, 1e-10, method="bun-steinke") == pytest.approx(epsilon, abs=5e-6)
    for given in ((0.0, 1e-3), (0.0, 1.0, 10**9), (0.0, 6000.0, 10**6)):
        assert privacy.discrete_gaussian_delta(*given) == 1.0
    assert privacy.discrete_gaussian_delta(1e6, 1e5) == privacy.gaussian_epsilon(0.5, sigma=100.0) == 0.0
    assert privacy.rho_to_epsilon(0.0, 1e-9) == privacy.rho_to_delta(0.0, 0.0) == 0.0
    # At least 1 - exp(-(rho - epsilon)) by alpha -> 1, which floats round to 1.
    assert {privacy.rho_to_delta(*own) for own in ((5000.0, 800.0), (2000.0, 0.0), (1e6, 1.0), (701.0, 0.5))} == {1.0}
    for sigma, shift in [(0.4, 1), (1.0, 2), (25.0, 1), (1e5, 3)]:
        for delta in [1e-12, 1e-3, 0.2]:
            epsilon = privacy.discrete_gaussian_epsilon(delta, sigma, shift)
            if epsilon > 0:
                assert privacy.discrete_gaussian_delta(epsilon, sigma, shift) == pytest.approx(delta, rel=1e-8)
            else:
                assert privacy.discrete_gaussian_delta(0.0, sigma, shift) <= delta


@pytest.mark.parametrize("shift", [1, 3, 200_000])
@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 5e-3])
def test_both_ways_of_summing_agree(epsilon, shift):
    sigma = 5000.0
    start = math.floor(epsilon * sigma**2 / shift - shift / 2) + 1
    by_terms, by_formula = (f(start, epsilon, sigma, shift) for f in (_log_sum, _log_tail))
    assert by_formula == pytest.approx(by_terms, abs=1e-10)


RHOS, DELTAS = [1e-6, 0.3, 40.0], [1e-300, 1e-10, 0.4]


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("epsilon", [0.0, 1.0, 20.0])
def test_tight_delta_is_the_minimum_over_alpha(rho, epsilon):
    # The bound of Canonne, Kamath and Steinke as they print it, on a grid of alpha refined twice.
    def log_bound(h):  # h = alpha - 1
        return h * ((1 + h) * rho - epsilon) - np.log(h) + (1 + h) * (np.log(h) - np.log1p(h))

    low, high = -30.0, 30.0
    for _ in range(3):
        grid = np.linspace(low, high, 20_001)
        best = grid[np.argmin(log_bound(np.exp(grid)))]
        low, high = best - (high - low) / 5000, best + (high - low) / 5000
    brute = math.exp(min(log_bound(np.exp(best)), 0.0))
    assert privacy.rho_to_delta(rho, epsilon) == pytest.approx(brute, rel=1e-8, abs=1e-300)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_epsilon_and_delta_invert_each_other(rho, delta):
    epsilon = privacy.rho_to_epsilon(rho, delta)
    if epsilon > 0:
        assert math.log(privacy.rho_to_delta(rho, epsilon)) == pytest.approx(math.log(delta), rel=1e-9)
    else:
        assert privacy.rho_to_delta(rho, 0.0) <= delta
    assert epsilon <= privacy.rho_to_epsilon(rho, delta, method="bun-steinke")


@pytest.mark.parametrize("epsilon", [0.01, 30.0])
@pytest.mark.parametrize("delta", DELTAS)
def test_rho_within_spends_all_and_not_more(epsilon, delta):
    rho = privacy.rho_within(epsilon, delta)
    assert privacy.rho_to_epsilon(rho, delta) == pytest.approx(epsilon, rel=1e-9)
    assert _zcdp_log_delta(rho, epsilon) <= math.log(delta)  # the bisection is on the safe side, to the last digit
    assert privacy.rho_to_delta(rho * 1.001, epsilon) > delta


def formula(epsilon, delta):
    return (1 + math.sqrt(1 + math.log(1 / delta))) / epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.192, 1e-10), (0.5, 0.01), (0.05, 0.3), (3.0, 1e-3)])
def test_the_scale_is_that_of_the_lemma_and_is_private(epsilon, delta):
    sigma = privacy.lemma_3_4_sigma(epsilon, delta, 3.0)
    assert sigma == pytest.approx(3.0 * formula(epsilon, delta), rel=1e-14)
    assert printed_by_balle_and_wang(epsilon, 3.0 / sigma) <= delta
    assert sigma >= privacy.gaussian_sigma(epsilon, delta, 3.0)


@pytest.mark.parametrize(("epsilon", "delta", "printed"), [(2.0, 1e-10, "2.6"), (0.9, 1e-15, "")])
def test_it_is_refused_where_it_fails(epsilon, delta, printed):
    exact = privacy.gaussian_delta(epsilon, formula(epsilon, delta))
    assert exact > delta
    with pytest.raises(ValueError, match=r"Lemma 3\.4 does not hold") as refusal:
        privacy.lemma_3_4_sigma(epsilon, delta)
    assert f"{exact:.1e}".startswith(printed)
    for words in (f"exact delta {exact:.3g}", f"{privacy.gaussian_sigma(epsilon, delta):.6g}"):
        assert words in str(refusal.value)


test_bad_arguments_are_named = refused(
    (lambda: privacy.gaussian_delta(-0.1, 1.0), "epsilon must be a finite number of at least 0, got -0.1"),
    (lambda: privacy.gaussian_delta(1.0, math.nan), "sigma must be a finite number greater than 0, got nan"),
    (lambda: privacy.gaussian_sigma(1.0, 1.0), "delta must lie strictly between 0 and 1, got 1.0"),
    (lambda: privacy.gaussian_epsilon(0.1, 1.0, 0.0), "sensitivity must be a finite number greater than 0"),
    (lambda: privacy.discrete_gaussian_delta(1.0, 1.0, 1.5), r"shift must be a positive integer, got 1\.5"),
    (lambda: privacy.discrete_gaussian_delta(1.0, 1.0, 0), "shift must be an integer greater than 0, got 0"),
    (lambda: privacy.rho_to_epsilon(-1.0, 0.1), "rho must be a finite number of at least 0, got -1.0"),
    (lambda: privacy.rho_to_epsilon("1", 0.1), "rho must be a real number"),
    (lambda: privacy.rho_to_epsilon(1.0, 0.0), "delta must lie strictly between 0 and 1, got 0.0"),
    (lambda: privacy.rho_to_delta(1.0, math.inf), "epsilon must be a finite number of at least 0, got inf"),
    (lambda: privacy.rho_to_epsilon(1.0, 0.1, method="renyi"), "method must be one of 'tight', 'bun-steinke'"),
    (lambda: privacy.gaussian_rho(0.0), "sigma must be a finite number greater than 0, got 0.0"),
    (lambda: privacy.lemma_3_4_sigma(1.0, 1.0), "delta must lie strictly between 0 and 1"),
    (lambda: privacy.lemma_3_4_sigma(0.0, 1e-6), "epsilon"),
    (lambda: privacy.lemma_3_4_sigma(1.0, 1e-6, -1.0), "sensitivity"),
)
