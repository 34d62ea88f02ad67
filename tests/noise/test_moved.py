"""Trade-off functions of noise around two centres, against the probabilities of the law, written out or by quadrature."""

from __future__ import annotations

import math
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.integrate import quad

from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, NoiseLaw
from bayesdp.noise.base import law_names
from bayesdp.privacy.tradeoffs.profile import tradeoff_delta

INTEGER: list[NoiseLaw] = [DiscreteLaplace(b=2.0), DiscreteGaussian(sigma=1.7), DiscreteGaussian(sigma=0.3)]
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)


def masses(law: NoiseLaw, k: np.ndarray, centre: int) -> np.ndarray:
    return np.array([math.exp(law.logp([own], [centre])) for own in k])


@pytest.mark.parametrize("law", INTEGER, ids=str)
@pytest.mark.parametrize("by", [1, 2, 5])
def test_integer_noise_is_told_apart_as_its_masses_are(law: NoiseLaw, by: int) -> None:
    k = np.arange(-80, 90)
    p, q = masses(law, k, 0), masses(law, k, by)
    f = law.shift_tradeoff(float(by))
    assert f is not None
    for epsilon in EPSILONS:
        exact = float(np.maximum(q - math.exp(epsilon) * p, 0.0).sum())
        assert tradeoff_delta(f, epsilon) == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("by", [0.3, 2.0])
def test_laplace_noise_is_told_apart_as_its_density_is(by: float) -> None:
    law = Laplace(b=1.5)
    f = law.shift_tradeoff(by)
    assert f is not None

    def gain(x: float, epsilon: float) -> float:
        p, q = (math.exp(law.logp([x], [centre])) for centre in (0.0, by))
        return max(q - math.exp(epsilon) * p, 0.0)

    for epsilon in (0.0, 0.1, 0.5, 1.0):
        turn = 0.5 * (1.5 * epsilon + by)  # where the ratio of the densities is exp(epsilon)
        ends = [turn, by, 60.0] if turn < by else []
        exact = sum(quad(gain, low, high, (epsilon,), epsabs=1e-13)[0] for low, high in pairwise(ends))
        assert tradeoff_delta(f, epsilon) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("law", INTEGER, ids=str)
def test_no_changes_of_the_same_sum_are_easier_to_tell_apart(law: NoiseLaw) -> None:
    # What compositions take for answers that change by more than one: all of it in one answer.
    k = np.arange(-25, 30)
    p, moved = masses(law, k, 0), {by: masses(law, k, by) for by in (1, 2, 3)}
    for total in (2, 3):
        whole = law.shift_tradeoff(float(total))
        assert whole is not None
        for spread in product((0, 1, 2), repeat=3):
            if sum(spread) != total:
                continue
            ps, qs = np.array([1.0]), np.array([1.0])
            for by in spread:
                if by:
                    ps, qs = np.multiply.outer(ps, p).ravel(), np.multiply.outer(qs, moved[by]).ravel()
            for epsilon in EPSILONS:
                exact = float(np.maximum(qs - math.exp(epsilon) * ps, 0.0).sum())
                assert exact <= tradeoff_delta(whole, epsilon) + 1e-9


def test_which_laws_know_it() -> None:
    # A law that is added here needs a case above, and a proof that its best tests are thresholds.
    def all_of(law: type[NoiseLaw]) -> set[type[NoiseLaw]]:
        return {law}.union(*(all_of(own) for own in law.__subclasses__()))

    known = {
        law
        for law in all_of(NoiseLaw)
        if law.shift_tradeoff is not NoiseLaw.shift_tradeoff and law.__module__.startswith("bayesdp.")
    }
    assert known == {Laplace, DiscreteLaplace, DiscreteGaussian}
    assert "laplace" in law_names()
    assert Gaussian(sigma=1.0).shift_tradeoff(1.0) is None  # by its mu
    assert DiscreteLaplace(b=np.array([1.0, 2.0])).shift_tradeoff(1.0) is None
    assert DiscreteGaussian(sigma=1e6).shift_tradeoff(1.0) is None
    assert DiscreteLaplace(b=2.0).shift_tradeoff(1e6) is None
