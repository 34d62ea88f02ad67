"""The discrete Laplace and discrete Gaussian laws, against 50-digit sums and chi-square tests of draws.

False-alarm rate of the tests with draws: 1e-4 each, with fixed seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, norm

from bayesdp.noise import DiscreteGaussian, DiscreteLaplace
from tests.comparison.chi_square import elsewhere_pvalue
from tests.noise.oracles import DecimalLaw, chi_square_pvalue

MUS = [0.0, 0.25, 0.4999, 0.5, -0.3, -7.5, 123456789.625]
SCALES = [1e-3, 0.2, 0.4999, 0.5, 0.7, 3.0, 10.0]
KINDS = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}


def close_logs(ours: np.ndarray, exact: np.ndarray, tolerance: float) -> None:
    """Relative where the logarithm is large, absolute (a relative error of the mass) where it is small."""
    assert np.all(np.abs(ours - exact) <= tolerance * np.maximum(1.0, np.abs(exact)))


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("mu", MUS)
@pytest.mark.parametrize("kind", KINDS)
def test_mass_tails_and_moments(kind: str, mu: float, scale: float) -> None:
    law, exact = KINDS[kind](scale), DecimalLaw(kind, mu, scale)
    close_logs(law.log_mass(exact.k, mu), exact.log_mass, 1e-14)
    # The oracle's own tails end at its window; in its inner half they are exact.
    inner = slice(len(exact.k) // 4, len(exact.k) - len(exact.k) // 4)
    close_logs(law.log_cdf(exact.k, mu)[inner], exact.log_cdf[inner], 1e-13)
    close_logs(law.log_sf(exact.k, mu)[inner], exact.log_sf[inner], 1e-13)
    assert float(law.mean(mu)) == pytest.approx(exact.mean, rel=1e-15, abs=1e-15)
    assert float(law.variance((), location=mu)) == pytest.approx(exact.variance, rel=1e-13, abs=1e-300)


def test_numbers_from_elsewhere() -> None:
    masses = np.exp(DiscreteGaussian(6.25).log_mass([0, 1, 2, 3]))
    assert masses == pytest.approx([0.06383076486, 0.06301893785, 0.06064488418, 0.05688520456], abs=5e-12)


@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0), DiscreteGaussian(300.0)], ids=str)
def test_cdf_between_integers_and_far_out(law: DiscreteLaplace | DiscreteGaussian) -> None:
    assert np.array_equal(law.cdf([2.0, 2.7], 0.3), np.repeat(law.cdf(2.0, 0.3), 2))
    assert law.cdf(1e6) == 1.0
    assert law.cdf(-1e6) == 0.0
    steps = np.diff(law.cdf(np.arange(-40, 41), 0.3))
    assert steps == pytest.approx(np.exp(law.log_mass(np.arange(-39, 41), 0.3)), rel=1e-9)


def test_tails_at_large_scales_follow_the_normal_law() -> None:
    # sigma = 1e7: with the continuity correction the difference is of the order of 1 / sigma**2.
    sigma, k = 1e7, np.array([-5e7, -1e7, 0.0, 3e7])
    assert DiscreteGaussian(sigma).log_cdf(k, 0.25) == pytest.approx(norm.logcdf((k + 0.5 - 0.25) / sigma), rel=1e-12)


def test_both_sums_for_gaussian_tails_agree() -> None:
    # Below a scale of 50 tails are summed, from there on they are a series: no step in between.
    k = np.arange(-1500, 1500, 37)
    below, above = (DiscreteGaussian(s).log_cdf(k, 0.3) for s in (50.0 * (1 - 1e-12), 50.0))
    assert below == pytest.approx(above, rel=1e-9, abs=1e-15)


def test_joint_mass_adds_up_and_needs_integers() -> None:
    law = DiscreteGaussian(sigma=np.array([[1.0, 2.0, 3.0]]))
    values, location = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[0.5, 2.0, 3.0], [4.0, 5.5, 6.0]])
    cells = [DiscreteGaussian(s).log_mass(v, m) for v, m, s in zip(values.T, location.T, [1.0, 2.0, 3.0], strict=True)]
    assert law.logp(values, location) == pytest.approx(np.sum(cells), rel=1e-14)
    assert law.logp(values + 0.5, location) == -np.inf
    assert np.array_equal(DiscreteLaplace(1.0).log_mass([0.5, 1.0]) == -np.inf, [True, False])


@pytest.mark.parametrize("mu", [0.0, 0.5, -3.2, 1e9 + 0.25])
@pytest.mark.parametrize("scale", [0.05, 0.4, 1.0, 6.25])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_law(kind: str, scale: float, mu: float) -> None:
    draws = KINDS[kind](scale).draw(np.random.default_rng(7), (), size=200_000, location=mu)
    exact = DecimalLaw(kind, mu, scale)
    mass = np.exp(exact.log_mass)
    common = int(np.argmax(mass))
    others = np.delete(mass, common).sum()
    if others * draws.size < 10.0:  # a scale of 0.05: all values but one are rare
        assert elsewhere_pvalue(draws, exact.k[common], others) > 1e-4
    else:
        assert chi_square_pvalue(draws, exact.k, mass) > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_many_draws_have_the_law_closely(kind: str) -> None:
    # Sees a distortion of one per cent in the odds of neighbouring integers.
    draws = KINDS[kind](6.25).draw(np.random.default_rng(9), (), size=4_000_000, location=0.3)
    exact = DecimalLaw(kind, 0.3, 6.25)
    assert chi_square_pvalue(draws, exact.k, np.exp(exact.log_mass)) > 1e-4


@pytest.mark.parametrize("law", [DiscreteLaplace(1e9), DiscreteGaussian(1e9)], ids=str)
def test_draws_at_a_large_scale(law: DiscreteLaplace | DiscreteGaussian) -> None:
    draws = law.draw(np.random.default_rng(8), (20_000,), location=1e12)
    assert kstest(draws, lambda k: law.cdf(k, 1e12)).pvalue > 1e-4


def test_shapes_and_scales_of_draws() -> None:
    law = DiscreteGaussian(sigma=[0.01, 1e6])
    draws = law.draw(np.random.default_rng(1), (3, 2), size=50, location=np.full((3, 2), 4.0))
    assert draws.shape == (50, 3, 2)
    assert draws.dtype == np.int64
    assert np.all(draws[..., 0] == 4)
    assert np.all(np.abs(draws[..., 1].std(axis=0)) > 1e5)
    assert law.draw(np.random.default_rng(1), (3, 2)).shape == (3, 2)
    assert law.draw(np.random.default_rng(1), (3, 2), size=0).shape == (0, 3, 2)
    assert law.variance((3, 2)).shape == (3, 2)


def test_without_a_generator_every_draw_is_new() -> None:
    law = DiscreteLaplace(1e6)
    assert not np.array_equal(law.draw(None, (10,)), law.draw(None, (10,)))


def test_bad_arguments_are_named() -> None:
    law = DiscreteGaussian(sigma=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"sigma has shape \(3,\), which does not fit values of shape \(2,\)"):
        law.logp([1, 2], [1, 2])
    with pytest.raises(ValueError, match=r"location has shape \(2,\), which does not fit the shape \(3,\)"):
        law.draw(None, (3,), location=[1.0, 2.0])
    with pytest.raises(ValueError, match=r"values of shape \(2,\) do not fit location of shape \(3,\)"):
        law.logp([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="values must be finite, but 1 is"):
        law.logp([1.0, np.nan, 2.0], [1, 2, 3])
    with pytest.raises(ValueError, match=r"values must be smaller than 2\*\*53"):
        DiscreteLaplace(1.0).logp([2**53], [0])
    with pytest.raises(TypeError, match=r"rng must be an integer seed, a numpy\.random\.Generator or None, got"):
        law.draw(3.0, (3,))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"size must be an integer >= 0, got 2\.0"):
        law.draw(None, (3,), size=2.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="size must be an integer of at least 0, got -1"):
        law.draw(None, (3,), size=-1)


@pytest.mark.parametrize("scale", [1e-9, 1e-5, 1e-3])
def test_tails_of_a_narrow_discrete_laplace(scale: float) -> None:
    # P(K > 0) = 1 / (1 + exp((1 - 2 f) / b)) around f = 1/4; each further integer is exp(-1/b) times as likely.
    k = np.array([0.0, 1.0, 5.0])
    expected = -np.logaddexp(0.0, 0.5 / scale) - k / scale
    np.testing.assert_allclose(DiscreteLaplace(scale).log_sf(k, 0.25), expected, rtol=1e-13)
    np.testing.assert_allclose(DiscreteLaplace(scale).log_cdf(-k - 1.0, -0.25), expected, rtol=1e-13)
