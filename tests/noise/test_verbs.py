"""What laws say of themselves to the rest of the package: losses, trade-off functions around two centres, pictures, ends."""

import math
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from bayesdp import Invariants, Margins, noise
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from bayesdp.privacy import gaussian_dp
from bayesdp.privacy.tradeoffs.profile import tradeoff_delta
from bayesdp.queries import Identity


def test_losses_and_tradeoffs_are_unknown_where_they_are():
    table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "High"]}
    own, cells = Invariants(Margins(table, ["county"], ["education"])), Identity(table)
    for law in (noise.SubspaceNorm(0.7, "linf"), noise.Tulap(1.0), noise.SemiKNorm(1.0, 2), noise.Laplace([1.0, 2.0])):
        assert law.pair_loss(cells, own) is None
    for law in (
        Gaussian(1.0),
        DiscreteLaplace(b=np.array([1.0, 2.0])),
        DiscreteGaussian(1e6),
    ):  # the first is told by its mu
        assert law.shift_tradeoff(1.0) is None
    assert DiscreteLaplace(2.0).shift_tradeoff(1e6) is None


@pytest.mark.parametrize(
    ("law", "exact"),
    [
        (noise.Laplace(2.0), stats.laplace(scale=2.0).pdf),
        (noise.Gaussian(2.0), stats.norm(scale=2.0).pdf),
        (noise.Tulap(0.8, 0.01), noise.Tulap(0.8, 0.01).standard.pdf),
        (noise.Canonical(gaussian_dp(0.5)), stats.norm(scale=2.0).pdf),
        (noise.ProjectedGaussian(2.0), stats.norm(scale=1.3).pdf),
        (noise.DiscreteLaplace(2.0), stats.dlaplace(0.5).pmf),
    ],
)
def test_pictures_of_one_answer(law, exact):
    at = np.array([-3.0, 0.0, 1.0, 2.0])
    np.testing.assert_allclose(law.picture(at, 1.3), exact(at), rtol=1e-8)


def test_the_law_of_one_answer_parameters_and_ends():
    law = noise.Laplace([1.0, 2.5])
    assert law.of_answer(3, (2, 2)) == noise.Laplace(2.5)
    assert noise.Laplace(2.0).of_answer(3, (2, 2)) == noise.Laplace(2.0)
    some = np.array([[3], [0]])  # the laws of some answers as one
    assert law.of_answer(some, (2, 2)) == noise.Laplace([[2.5], [1.0]])
    censored = noise.Censored(noise.Gaussian([1.0, 2.5]), below=[[4.0], [5.0]])
    assert censored.of_answer(some, (2, 2)) == noise.Censored(noise.Gaussian([[2.5], [1.0]]), [[5.0], [4.0]])
    assert noise.Rounded(law, 2).of_answer(some, (2, 2)) == noise.Rounded(noise.Laplace([[2.5], [1.0]]), 2)
    assert noise.LatticeLaplace(0.3).of_answer(1, (3, 2)) == noise.LatticeLaplace(0.3)
    law = noise.BoundaryInflatedDiscreteGaussian(2.5, (0, 9))
    assert law.limits == (0.0, 9.0)
    assert law.model_parameters() == {"sigma": 2.5, "lower": 0.0, "upper": 9.0}


INTEGER = [DiscreteLaplace(b=2.0), DiscreteGaussian(sigma=1.7), DiscreteGaussian(sigma=0.3)]
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.0)


def masses(law, k, centre):
    return np.array([math.exp(law.logp([own], [centre])) for own in k])


@pytest.mark.parametrize("law", INTEGER, ids=str)
@pytest.mark.parametrize("by", [1, 2, 5])
def test_integer_noise_is_told_apart_as_its_masses_are(law, by):
    k = np.arange(-80, 90)
    p, q, f = masses(law, k, 0), masses(law, k, by), law.shift_tradeoff(float(by))
    for epsilon in EPSILONS:
        exact = float(np.maximum(q - math.exp(epsilon) * p, 0.0).sum())
        assert tradeoff_delta(f, epsilon) == pytest.approx(exact, abs=1e-13)


@pytest.mark.parametrize("by", [0.3, 2.0])
def test_laplace_noise_is_told_apart_as_its_density_is(by):
    law = Laplace(b=1.5)
    f = law.shift_tradeoff(by)

    def gain(x, epsilon):
        p, q = (math.exp(law.logp([x], [centre])) for centre in (0.0, by))
        return max(q - math.exp(epsilon) * p, 0.0)

    for epsilon in (0.0, 0.1, 0.5, 1.0):
        turn = 0.5 * (1.5 * epsilon + by)  # where the ratio of the densities is exp(epsilon)
        ends = [turn, by, 60.0] if turn < by else []
        exact = sum(quad(gain, low, high, (epsilon,), epsabs=1e-13)[0] for low, high in pairwise(ends))
        assert tradeoff_delta(f, epsilon) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize("law", INTEGER, ids=str)
def test_no_changes_of_the_same_sum_are_easier_to_tell_apart(law):
    # What compositions take for answers that change by more than one: all of it in one answer.
    k = np.arange(-25, 30)
    p, moved = masses(law, k, 0), {by: masses(law, k, by) for by in (1, 2, 3)}
    for total in (2, 3):
        whole = law.shift_tradeoff(float(total))
        for spread in (own for own in product((0, 1, 2), repeat=3) if sum(own) == total):
            ps, qs = np.array([1.0]), np.array([1.0])
            for by in spread:
                if by:
                    ps, qs = np.multiply.outer(ps, p).ravel(), np.multiply.outer(qs, moved[by]).ravel()
            for epsilon in EPSILONS:
                exact = float(np.maximum(qs - math.exp(epsilon) * ps, 0.0).sum())
                assert exact <= tradeoff_delta(whole, epsilon) + 1e-9
