"""The harness rejects a law that is shifted or scaled, accepts the right one, and refuses what shows nothing."""

import numpy as np
import pytest
from scipy import stats

from tests.comparison.chi_square import TooFewBinsError, chi_square_pvalue, draws_pvalue, elsewhere_pvalue
from tests.comparison.enumeration import box, lattice_points, probabilities
from tests.comparison.means import assert_mean, assert_moments
from tests.comparison.variation import assert_close_in_variation, effective_size, total_variation, variation_limit

K = np.arange(-30, 31)
MASS = probabilities(-np.abs(K) / 2.0)
RNG_DRAWS = np.random.default_rng(1).choice(K, 4000, p=MASS)


def test_p_values_of_a_right_sampler_are_uniform():
    """400 samples of 300 draws by either way of pooling; a false alarm in 1,000, the seed is fixed."""
    rng = np.random.default_rng(2)
    numbers = rng.multinomial(300, MASS, size=400)
    assert stats.kstest([chi_square_pvalue(own, 300 * MASS) for own in numbers], "uniform").pvalue > 1e-3
    near = [chi_square_pvalue(own, 300 * MASS, pool="neighbours") for own in numbers]
    assert stats.kstest(near, "uniform").pvalue > 1e-3


def test_a_shifted_or_wider_law_is_noticed_also_of_vectors():
    assert draws_pvalue(RNG_DRAWS, K, MASS) > 1e-4
    assert draws_pvalue(RNG_DRAWS, K, MASS, complete=True) > 1e-4
    for wrong in (np.roll(MASS, 1), probabilities(-np.abs(K) / 2.5), probabilities(-(K**2) / 12.0)):
        assert draws_pvalue(RNG_DRAWS, K, wrong) < 1e-9
        counts = np.bincount(RNG_DRAWS + 30, minlength=61)
        assert chi_square_pvalue(counts, 4000 * wrong, pool="neighbours") < 1e-9
    assert draws_pvalue(np.append(RNG_DRAWS, 99), K, MASS, complete=True) == 0.0
    assert draws_pvalue(np.append(RNG_DRAWS, [99] * 80), K, MASS) < 1e-9  # 80 draws elsewhere, next to none expected
    assert box(1, 2).tolist() == [[a, b] for a in (-1, 0, 1) for b in (-1, 0, 1)]
    tried = [own for own in box(3, 3).tolist() if own[0] + own[1] + 2 * own[2] == 0]
    found = [own for own in lattice_points(np.array([[1, 1, 2]]), 3).tolist() if max(map(abs, own)) <= 3]
    assert sorted(found) == sorted(tried)
    np.testing.assert_allclose(probabilities(np.log([1.0, 3.0]) + 900.0), [0.25, 0.75])
    points = lattice_points(np.ones((1, 3), dtype=np.int64), 12)
    mass = probabilities(-0.7 * np.abs(points).sum(axis=1))
    drawn = points[np.random.default_rng(3).choice(len(points), 4000, p=mass)]
    assert draws_pvalue(drawn, points, mass) > 1e-4
    assert draws_pvalue(drawn[:, [0, 1, 1]], points, mass) < 1e-9
    assert draws_pvalue(drawn, points, probabilities(-0.8 * np.abs(points).sum(axis=1))) < 1e-4


def test_one_bin_is_an_error_and_a_law_that_is_nearly_certain_is_compared_elsewhere():
    assert elsewhere_pvalue(np.zeros(1000), 0.0, 1e-6) == 1.0
    assert elsewhere_pvalue([0.0] * 999 + [1.0], 0.0, 1e-6) == pytest.approx(2e-3, rel=1e-3)
    assert elsewhere_pvalue(np.ones(1000), 0.0, 1e-6) == 0.0
    assert elsewhere_pvalue(np.zeros(4000), 0.0, 0.005) < 1e-8  # 20 are expected
    with pytest.raises(TooFewBinsError):
        draws_pvalue(np.zeros(1000), [0, 1], [1.0 - 1e-6, 1e-6], complete=True)
    for pool in ("rest", "neighbours"):
        with pytest.raises(TooFewBinsError, match="1 bins of 3 are left"):
            chi_square_pvalue([8, 1, 1], [8.0, 1.0, 1.0], pool=pool)
        with pytest.raises(TooFewBinsError, match="1 bins of 1"):
            chi_square_pvalue([500], [500.0], pool=pool)
        with pytest.raises(TooFewBinsError, match="at least 5 are needed"):
            chi_square_pvalue([50, 50], [50.0, 50.0], pool=pool, fewest=5)
        with pytest.raises(TooFewBinsError):
            draws_pvalue([0] * 9, [0, 1], [0.5, 0.5])
        with pytest.raises(ValueError, match="90 expected"):
            chi_square_pvalue([50, 50], [45.0, 45.0], pool=pool)


def test_total_variation_keeps_its_rate_by_effective_draws_and_means_and_variances_are_compared():
    """The limit is on the safe side: at a stated rate of 5%, 2,000 samples have no more alarms than 5%."""
    rng, law = np.random.default_rng(4), np.array([0.5, 0.3, 0.15, 0.05])
    limit = variation_limit(law, 200, 0.05)
    found = np.array([total_variation(rng.choice(4, 200, p=law), law) for _ in range(2000)])
    assert np.mean(found > limit) <= 0.05
    assert limit < 4.0 * np.median(found)
    index = rng.choice(4, 4000, p=law)
    assert_close_in_variation(index, law, rate=1e-6)
    with pytest.raises(AssertionError, match="total variation"):
        assert_close_in_variation(index, law[[1, 0, 2, 3]], rate=1e-6)
    with pytest.raises(AssertionError, match="shows nothing"):
        assert_close_in_variation(index[:10], law, rate=1e-6)
    with pytest.raises(TooFewBinsError):
        assert_close_in_variation(np.zeros(4000, dtype=int), np.array([1.0, 0.0]), rate=1e-6)
    rng, law = np.random.default_rng(5), np.full(4, 0.25)
    sticky = np.repeat(rng.choice(4, (2, 200)), 20, axis=1)
    assert effective_size(sticky, law) < 800
    assert effective_size(sticky.reshape(-1), law) == 8000
    assert_close_in_variation(sticky, law, rate=1e-4, largest=0.3)
    rng = np.random.default_rng(6)
    draws = rng.laplace(size=(20_000, 3))
    assert_moments(draws, 0.0, 2.0, rate=1e-6)
    for mean, variance in ((0.1, 2.0), (0.0, 2.3), ([0.0, 0.0, 0.1], None)):
        with pytest.raises(AssertionError, match="standard errors"):
            assert_moments(draws, mean, variance, rate=1e-6)
    with pytest.raises(AssertionError, match="too few"):
        assert_moments(draws[:999], 0.0, None, rate=1e-6)
    chains = draws[:4000, 0].reshape(2, 2000)
    assert_mean(chains, 0.0, np.sqrt(2.0), "x")
    with pytest.raises(AssertionError, match=r"exactly 0\.2"):
        assert_mean(chains, 0.2, np.sqrt(2.0), "x")
    with pytest.raises(AssertionError, match="effective draws"):
        assert_mean(np.repeat(rng.normal(size=(2, 20)), 100, axis=1), 0.0, 1.0, "x")
