"""How a loss grows over several steps: the sentences of a guarantee, against exact calculation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from bayesdp.privacy import (
    Guarantee,
    PairLoss,
    discrete_gaussian_delta,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_rho,
    gaussian_sigma,
    gaussian_sigma_for_rho,
    group_loss,
    rho_to_delta,
    rho_within,
)
from bayesdp.privacy.guarantee import GROWTH
from bayesdp.privacy.losses import stated_loss


def test_the_sum_over_the_steps_by_its_definition() -> None:
    for epsilon, delta, k in itertools.product((0.0, 0.01, 1.0, 3.0), (0.0, 1e-9, 1e-3), (1, 2, 3, 6)):
        found = group_loss({"epsilon": epsilon, "delta": delta}, k)
        expected = delta * math.fsum(math.exp(j * epsilon) for j in range(k))
        assert found == {"epsilon": k * epsilon, "delta": pytest.approx(min(expected, 1.0), rel=1e-12)}


@pytest.mark.parametrize(
    ("loss", "steps"),
    [
        ({"epsilon": 1.0, "delta": 0.2}, 3),  # 2.2
        ({"epsilon": 200.0, "delta": 1e-6}, 6),  # exp(1200) is no float
        ({"epsilon": 1e6, "delta": 1e-300}, 2),
        ({"epsilon": 0.0, "delta": 0.5}, 2),
        ({"epsilon": 1.0, "delta": 1.0}, 1),
    ],
)
def test_a_delta_above_one_is_one_and_says_nothing(loss: dict[str, float], steps: int) -> None:
    found = group_loss(loss, steps)
    assert found == {"epsilon": steps * loss["epsilon"], "delta": 1.0}
    assert stated_loss(found).says_nothing
    stated = Guarantee("approximate", loss, "l1", (PairLoss("some pair", 4.0, "l1", found),))
    assert "some pair; l1 distance 4: no protection by this bound, because its delta is 1 or more" in " ".join(
        str(stated).split()
    )


def test_a_stored_delta_above_one_is_read_and_said_in_words() -> None:
    # As `compose` wrote it in version 0.1.
    row = {"relation": "a move", "size": 4.0, "norm": "l1", "loss": {"epsilon": 4.0, "delta": 1.48731}}
    description = Guarantee("approximate", {"epsilon": 2.0, "delta": 0.4}, "l1").to_dict()
    old = Guarantee.from_dict({**description, "pairs": [row]})
    assert "a move; l1 distance 4: no protection by this bound" in " ".join(str(old).split())
    assert "1.48731" not in str(old)


def test_rho_grows_with_the_square_and_not_in_proportion() -> None:
    # The case of the guarantee that was false: rho = 0.1 a unit, and 0.8 at the root of 8.
    sigma = math.sqrt(5.0)
    assert gaussian_rho(sigma, 1.0) == pytest.approx(0.1)
    assert gaussian_rho(sigma, math.sqrt(8.0)) == pytest.approx(0.8)
    for k in (2, 3, 10):
        assert gaussian_rho(sigma, float(k)) == pytest.approx(group_loss({"rho": 0.1}, k)["rho"])
        assert gaussian_rho(sigma, float(k)) > 1.5 * k * 0.1


def test_epsilon_with_delta_is_not_in_proportion_and_within_the_bound() -> None:
    # The scale of `LatticeGaussian(epsilon=1, delta=1e-6)`, which comes from rho, and the smallest that has these.
    for sigma, stated in (
        (gaussian_sigma_for_rho(rho_within(1.0, 1e-6)), 1.11e-4),
        (gaussian_sigma(1.0, 1e-6), 4.77e-4),
    ):
        exact = gaussian_delta(10.0, sigma, 10.0)
        assert exact == pytest.approx(stated, rel=0.02)
        assert exact > 10 * 1e-6  # "per unit" would be exceeded
        assert exact <= group_loss({"epsilon": 1.0, "delta": 1e-6}, 10)["delta"]
    for epsilon, delta, k in itertools.product((0.1, 1.0, 3.0), (1e-9, 1e-6, 1e-2), (2, 3, 7)):
        own = gaussian_sigma(epsilon, delta)
        assert (
            gaussian_delta(k * epsilon, own, float(k)) <= group_loss({"epsilon": epsilon, "delta": delta}, k)["delta"]
        )
        # On the integers, by sums.
        one, many = discrete_gaussian_delta(epsilon, own), _shifted_delta(k * epsilon, own, k)
        assert many <= group_loss({"epsilon": epsilon, "delta": one}, k)["delta"] * (1.0 + 1e-9)


def test_epsilon_and_delta_that_come_from_rho_are_within_the_bound_too() -> None:
    # What `LatticeGaussian(epsilon, delta)` prints for longer differences is converted from rho at their length.
    for rho, epsilon, k in itertools.product((1e-3, 0.05, 0.5, 4.0), (0.5, 1.0, 5.0, 20.0), (2, 3, 10)):
        delta = rho_to_delta(rho, epsilon)
        if 0.0 < delta < 1.0:
            bound = group_loss({"epsilon": epsilon, "delta": delta}, k)["delta"]
            assert rho_to_delta(k**2 * rho, k * epsilon) <= bound * (1.0 + 1e-9)


def test_mu_and_epsilon_grow_in_proportion() -> None:
    assert group_loss({"mu": 0.5}, 3) == {"mu": 1.5}
    # A shift by 3 of N(0, 4) is that by 1 of a third of its scale, in epsilon at every delta.
    for delta in (1e-9, 1e-3):
        assert gaussian_epsilon(delta, 2.0, 3.0) == pytest.approx(
            gaussian_epsilon(delta, 1.0, group_loss({"mu": 0.5}, 3)["mu"])
        )
    # Laplace noise: the largest log ratio of a shift by k is k times that of one.
    x = np.linspace(-50.0, 50.0, 2001)
    ratio = [np.max(np.abs(x) - np.abs(x - k)) / 4.0 for k in (1, 5)]
    assert ratio[1] == pytest.approx(group_loss({"epsilon": ratio[0]}, 5)["epsilon"])


@pytest.mark.parametrize(
    ("kind", "loss", "words"),
    [
        ("pure", {"epsilon": 0.1}, "k times epsilon."),
        ("zcdp", {"rho": 0.1}, "k squared times rho."),
        ("gdp", {"mu": 0.1}, "k times mu."),
        ("approximate", {"epsilon": 1.0, "delta": 1e-6}, "delta times (exp(k epsilon) - 1) / (exp(epsilon) - 1)."),
    ],
)
def test_every_guarantee_states_its_law_of_growth(kind: str, loss: dict[str, float], words: str) -> None:
    text = " ".join(str(Guarantee(kind, loss, "l2")).split())
    assert GROWTH[kind] in text
    assert GROWTH[kind].endswith(words)
    assert "per unit" not in text
    assert "Loss at l2 distance 1 between two tables: " in text


def test_steps_are_checked() -> None:
    with pytest.raises(ValueError, match="steps must be an integer greater than 0"):
        group_loss({"mu": 1.0}, 0)


def _shifted_delta(epsilon: float, sigma: float, shift: int) -> float:
    """The exact delta of a discrete Gaussian that is shifted by so many integers, by a sum over all that matter."""
    far = int(40 * sigma) + shift + 10
    z = np.arange(-far, far + 1)
    log_mass = -0.5 * (z / sigma) ** 2
    mass = np.exp(log_mass - np.logaddexp.reduce(log_mass))
    moved = np.exp(-0.5 * ((z - shift) / sigma) ** 2 - np.logaddexp.reduce(log_mass))
    return float(np.sum(np.maximum(moved - math.exp(epsilon) * mass, 0.0)))
