"""Lemma 3.4 of the paper: its scale where it is private, and a refusal with the exact delta where it is not."""

from __future__ import annotations

import math

import pytest
from scipy.stats import norm

from bayesdp.privacy import gaussian_delta, gaussian_sigma, lemma_3_4_sigma


def formula(epsilon: float, delta: float) -> float:
    return (1 + math.sqrt(1 + math.log(1 / delta))) / epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.192, 1e-10), (0.5, 0.01), (0.05, 0.3), (3.0, 1e-3)])
def test_the_scale_is_that_of_the_lemma_and_is_private(epsilon: float, delta: float) -> None:
    sigma = lemma_3_4_sigma(epsilon, delta, 3.0)
    assert sigma == pytest.approx(3.0 * formula(epsilon, delta), rel=1e-14)
    mu = 3.0 / sigma
    exact = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    assert exact <= delta
    assert sigma >= gaussian_sigma(epsilon, delta, 3.0)


@pytest.mark.parametrize(("epsilon", "delta", "printed"), [(2.0, 1e-10, "2.6"), (1.0, 1e-15, ""), (0.9, 1e-15, "")])
def test_it_is_refused_where_it_fails(epsilon: float, delta: float, printed: str) -> None:
    exact = gaussian_delta(epsilon, formula(epsilon, delta))
    assert exact > delta
    with pytest.raises(ValueError, match=r"Lemma 3\.4 does not hold") as refusal:
        lemma_3_4_sigma(epsilon, delta)
    assert f"exact delta {exact:.3g}" in str(refusal.value)
    assert f"{exact:.1e}".startswith(printed)
    assert f"{gaussian_sigma(epsilon, delta):.6g}" in str(refusal.value)


def test_it_is_given_just_where_the_exact_delta_allows() -> None:
    given = refused = 0
    for epsilon in (0.01, 0.1, 0.5, 1.0, 1.5, 2.0, 4.0):
        for exponent in range(-30, 0, 2):
            delta = 10.0**exponent
            if gaussian_delta(epsilon, formula(epsilon, delta)) <= delta:
                lemma_3_4_sigma(epsilon, delta)
                given += 1
            else:
                with pytest.raises(ValueError, match="does not hold"):
                    lemma_3_4_sigma(epsilon, delta)
                refused += 1
    assert given > 20
    assert refused > 20


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5])
def test_delta_outside_the_unit_interval(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must lie strictly between 0 and 1"):
        lemma_3_4_sigma(1.0, delta)


def test_epsilon_and_sensitivity_are_positive() -> None:
    with pytest.raises(ValueError, match="epsilon"):
        lemma_3_4_sigma(0.0, 1e-6)
    with pytest.raises(ValueError, match="sensitivity"):
        lemma_3_4_sigma(1.0, 1e-6, -1.0)
