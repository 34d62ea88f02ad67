"""The exact profile of the discrete Gaussian, against sums in 60-digit decimal arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest

from bayesdp.privacy import discrete_gaussian_delta, discrete_gaussian_epsilon, gaussian_delta, rho_to_delta
from bayesdp.privacy.gaussian import _log_sum, _log_tail


def delta_in_decimals(epsilon: str, sigma: str, shift: int) -> float:
    """Sum of the positive parts of p(k) - exp(epsilon) p(k + shift) over all k that matter."""
    with localcontext() as context:
        context.prec = 60
        eps, scale = Decimal(epsilon), Decimal(sigma)
        reach = int(30 * scale) + int(eps * scale * scale) + shift + 20
        factor = eps.exp()

        def mass(k: int) -> Decimal:
            return (-(Decimal(k) ** 2) / (2 * scale * scale)).exp()

        total = sum(mass(k) for k in range(-reach, reach + 1))
        gain = (mass(k) - factor * mass(k + shift) for k in range(-reach, reach + 1))
        return float(sum(part for part in gain if part > 0) / total)


@pytest.mark.parametrize(("sigma", "delta"), [(1.0, 0.1413513394), (2.0, 0.0072487768)])
def test_numbers_from_elsewhere(sigma: float, delta: float) -> None:
    assert discrete_gaussian_delta(1.0, sigma) == pytest.approx(delta, abs=5e-11)


@pytest.mark.parametrize(
    ("epsilon", "sigma", "shift"),
    [
        ("0", "0.3", 1),
        ("1", "1", 1),
        ("5", "2.5", 1),
        ("10", "1.7", 3),
        ("3", "0.2", 2),
        ("0.25", "10", 1),
        ("2", "10", 4),
    ],
)
def test_against_decimal_sums(epsilon: str, sigma: str, shift: int) -> None:
    delta = discrete_gaussian_delta(float(epsilon), float(sigma), shift)
    assert delta == pytest.approx(delta_in_decimals(epsilon, sigma, shift), rel=1e-13)


@pytest.mark.parametrize("shift", [1, 3, 1000, 200_000])
@pytest.mark.parametrize("epsilon", [0.0, 1e-4, 1e-3, 5e-3])
def test_both_ways_of_summing_agree(epsilon: float, shift: int) -> None:
    sigma = 5000.0
    start = math.floor(epsilon * sigma**2 / shift - shift / 2) + 1
    by_terms, by_formula = (f(start, epsilon, sigma, shift) for f in (_log_sum, _log_tail))
    assert by_formula == pytest.approx(by_terms, abs=1e-10)


def test_large_scales_approach_the_continuous_gaussian() -> None:
    assert discrete_gaussian_delta(1e-6, 1e6) == pytest.approx(gaussian_delta(1e-6, 1e6), rel=1e-6)


def test_epsilon_inverts_delta() -> None:
    for sigma, shift in [(0.4, 1), (1.0, 2), (25.0, 1), (1e5, 3)]:
        for delta in [1e-12, 1e-3, 0.2]:
            epsilon = discrete_gaussian_epsilon(delta, sigma, shift)
            if epsilon > 0:
                assert discrete_gaussian_delta(epsilon, sigma, shift) == pytest.approx(delta, rel=1e-8)
            else:
                assert discrete_gaussian_delta(0.0, sigma, shift) <= delta


def test_zcdp_conversion_is_an_upper_bound() -> None:
    for sigma in [0.5, 1.0, 3.0, 50.0]:
        for epsilon in [0.0, 0.1, 2.0]:
            assert discrete_gaussian_delta(epsilon, sigma) <= rho_to_delta(0.5 / sigma**2, epsilon) * (1 + 1e-12)


def test_extremes_are_numbers() -> None:
    assert discrete_gaussian_delta(0.0, 1e-3) == 1.0
    assert discrete_gaussian_delta(1e6, 1e5) == 0.0
    assert discrete_gaussian_delta(0.0, 1.0, 10**9) == 1.0
    assert discrete_gaussian_delta(0.0, 6000.0, 10**6) == 1.0


def test_bad_arguments_are_named() -> None:
    with pytest.raises(TypeError, match=r"shift must be a positive integer, got 1\.5"):
        discrete_gaussian_delta(1.0, 1.0, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shift must be an integer greater than 0, got 0"):
        discrete_gaussian_delta(1.0, 1.0, 0)
