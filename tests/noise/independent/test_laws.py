"""Independent noise: against SciPy's laws, 50-digit sums and tests of draws (false alarms 1e-4 each); and draws by integers only."""

import importlib.util

import numpy as np
import pytest
from scipy import stats
from scipy.stats import kstest, norm

from bayesdp.measurements import Measured
from bayesdp.noise import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, LatticeGaussian, Tulap, secure
from bayesdp.noise.secure import draw_independent, engine_for, statement
from bayesdp.queries import Identity
from tests.comparison.chi_square import elsewhere_pvalue
from tests.lattices.test_secure import fits
from tests.noise.oracles import DecimalLaw, chi_square_pvalue
from tests.refusals import refused

LAWS = {"laplace": (Laplace, stats.laplace), "gaussian": (Gaussian, stats.norm)}
Z = np.array([-80.0, -30.0, -5.0, -1.0, -1e-9, 0.0, 1e-9, 0.3, 2.0, 30.0, 80.0])


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize(("mu", "scale"), [(0.0, 1.0), (-3.25, 0.01), (1e6 + 0.125, 40.0)])
def test_density_tails_and_moments(kind, mu, scale):
    own, scipy_law = LAWS[kind]
    law, exact, y = own(scale), scipy_law(mu, scale), mu + scale * Z
    np.testing.assert_allclose(law.log_density(y, mu), exact.logpdf(y), rtol=1e-12)
    for found, tail in ((law.log_cdf(y, mu), exact.logcdf(y)), (law.log_sf(y, mu), exact.logsf(y))):
        np.testing.assert_allclose(found, tail, rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(law.cdf(y, mu), exact.cdf(y), rtol=1e-9)
    assert float(law.mean(mu)) == mu
    assert float(law.variance(())) == pytest.approx(exact.var(), rel=1e-13)
    assert law.logp(y, mu) == pytest.approx(exact.logpdf(y).sum(), rel=1e-12)


@pytest.mark.parametrize("kind", LAWS)
def test_draws_have_the_law_with_a_scale_a_cell(kind):
    own, scipy_law = LAWS[kind]
    law = own([0.5, 20.0])
    draws = law.draw(np.random.default_rng(3), (3, 2), 6000, location=np.full((3, 2), 7.25))
    assert (draws.shape, draws.dtype) == ((6000, 3, 2), np.float64)
    for column, scale in enumerate((0.5, 20.0)):
        assert stats.kstest(draws[..., column].ravel(), scipy_law(7.25, scale).cdf).pvalue > 1e-4
    assert abs(np.corrcoef(draws.reshape(-1, 6).T) - np.eye(6)).max() < 5 / np.sqrt(6000)
    assert not np.array_equal(law.draw(None, (2,)), law.draw(None, (2,)))  # without a generator every draw is new
    np.testing.assert_allclose(law.variance((3, 2))[0] / own(1.0).variance(()), [0.25, 400.0])


KINDS = {"laplace": DiscreteLaplace, "gaussian": DiscreteGaussian}


@pytest.mark.parametrize("scale", [1e-3, 0.4999, 0.5, 3.0, 10.0])
@pytest.mark.parametrize("mu", [0.0, 0.25, 0.5, -0.3, 123456789.625])
@pytest.mark.parametrize("kind", KINDS)
def test_mass_tails_and_moments(kind, mu, scale):
    law, exact = KINDS[kind](scale), DecimalLaw(kind, mu, scale)
    # Relative where the logarithm is large, absolute (a relative error of the mass) where it is small.
    assert np.all(np.abs(law.log_mass(exact.k, mu) - exact.log_mass) <= 1e-14 * np.maximum(1.0, np.abs(exact.log_mass)))
    # The oracle's own tails end at its window; in its inner half they are exact.
    inner = slice(len(exact.k) // 4, len(exact.k) - len(exact.k) // 4)
    for found, tail in ((law.log_cdf(exact.k, mu), exact.log_cdf), (law.log_sf(exact.k, mu), exact.log_sf)):
        assert np.all(np.abs(found - tail)[inner] <= 1e-13 * np.maximum(1.0, np.abs(tail[inner])))
    assert float(law.mean(mu)) == pytest.approx(exact.mean, rel=1e-15, abs=1e-15)
    assert float(law.variance((), location=mu)) == pytest.approx(exact.variance, rel=1e-13, abs=1e-300)


@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0), DiscreteGaussian(300.0)], ids=str)
def test_cdf_between_integers_and_far_out(law):
    assert np.array_equal(law.cdf([2.0, 2.7], 0.3), np.repeat(law.cdf(2.0, 0.3), 2))
    assert (law.cdf(1e6), law.cdf(-1e6)) == (1.0, 0.0)
    steps = np.diff(law.cdf(np.arange(-40, 41), 0.3))
    assert steps == pytest.approx(np.exp(law.log_mass(np.arange(-39, 41), 0.3)), rel=1e-9)


def test_tails_at_large_scales_follow_the_normal_law_and_both_sums_for_them_agree():
    # sigma = 1e7: with the continuity correction the difference is of the order of 1 / sigma**2.
    sigma, k = 1e7, np.array([-5e7, -1e7, 0.0, 3e7])
    assert DiscreteGaussian(sigma).log_cdf(k, 0.25) == pytest.approx(norm.logcdf((k + 0.5 - 0.25) / sigma), rel=1e-12)
    # Below a scale of 50 tails are summed, from there on they are a series: no step in between.
    k = np.arange(-1500, 1500, 37)
    below, above = (DiscreteGaussian(s).log_cdf(k, 0.3) for s in (50.0 * (1 - 1e-12), 50.0))
    assert below == pytest.approx(above, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("mu", [0.5, -3.2, 1e9 + 0.25])
@pytest.mark.parametrize("scale", [0.05, 0.4, 6.25])
@pytest.mark.parametrize("kind", KINDS)
def test_draws_have_the_law(kind, scale, mu):
    law, exact = KINDS[kind](scale), DecimalLaw(kind, mu, scale)
    draws, mass = law.draw(np.random.default_rng(7), (), 40_000, location=mu), np.exp(exact.log_mass)
    common = int(np.argmax(mass))
    others = np.delete(mass, common).sum()
    if others * draws.size < 10.0:  # a scale of 0.05: all values but one are rare
        assert elsewhere_pvalue(draws, exact.k[common], others) > 1e-4
    else:
        assert chi_square_pvalue(draws, exact.k, mass) > 1e-4


@pytest.mark.parametrize("law", [DiscreteLaplace(1e9), DiscreteGaussian(1e9)])
def test_draws_at_a_large_scale(law):
    draws = law.draw(np.random.default_rng(8), (6000,), location=1e12)
    assert kstest(draws, lambda k: law.cdf(k, 1e12)).pvalue > 1e-4


@pytest.mark.parametrize("scale", [1e-9, 1e-5, 1e-3])
def test_tails_of_a_narrow_discrete_laplace(scale):
    # P(K > 0) = 1 / (1 + exp((1 - 2 f) / b)) around f = 1/4; each further integer is exp(-1/b) times as likely.
    k = np.array([0.0, 1.0, 5.0])
    expected = -np.logaddexp(0.0, 0.5 / scale) - k / scale
    np.testing.assert_allclose(DiscreteLaplace(scale).log_sf(k, 0.25), expected, rtol=1e-13)
    np.testing.assert_allclose(DiscreteLaplace(scale).log_cdf(-k - 1.0, -0.25), expected, rtol=1e-13)


def test_tulap_by_hand_and_its_draws_and_variance():
    # Around 0, epsilon = log 2: centre of density (1 - b) / (1 + b) = 1/3, halved with every step of 1.
    law, wide = Tulap(np.log(2.0)), Tulap(np.log(2.0), sensitivity=2.0)
    density = np.exp(law.log_density([0.0, 0.49, 0.51, -1.4, 2.2], 0.0))
    np.testing.assert_allclose(density, np.array([1, 1, 1 / 2, 1 / 2, 1 / 4]) / 3, rtol=1e-13)
    np.testing.assert_allclose(np.exp(wide.log_density([3.9, 4.1], 3.0)), np.array([1 / 6, 1 / 12]), rtol=1e-13)
    assert law.logp([1.0, 7.3], [1, 8]) == pytest.approx(np.log(1 / 3) + np.log(1 / 6))
    assert Tulap(1.0, 0.1).logp([40.0], [0]) == -np.inf
    law = Tulap(0.5, 0.01, sensitivity=3.0)  # two false alarms of 1e-4 each; the seed is fixed
    draws = law.draw(np.random.default_rng(3), (2,), 20_000, location=[10, 20])
    for j, centre in enumerate((10, 20)):
        assert kstest((draws[:, j] - centre) / 3.0, law.standard.cdf).pvalue > 1e-4
    assert law.variance((2,)) == pytest.approx(np.var(draws, axis=0), rel=0.1)
    assert law.draw(None, (2, 2)).shape == (2, 2)


THREE = DiscreteGaussian(sigma=[1.0, 2.0, 3.0])
CELLS = Identity({"county": ["Alpha", "Beta"]})
test_bad_arguments_are_named = refused(
    (lambda: THREE.logp([1, 2], [1, 2]), ValueError, r"sigma has shape \(3,\), .* not fit values of shape \(2,\)"),
    (lambda: THREE.logp([1, 2], [1, 2, 3]), ValueError, r"values of shape \(2,\) do not fit location of shape \(3,\)"),
    (lambda: THREE.logp([1.0, np.nan, 2.0], [1, 2, 3]), ValueError, "values must be finite, but 1 is"),
    (lambda: DiscreteLaplace(1.0).logp([2**53], [0]), ValueError, r"values must be smaller than 2\*\*53"),
    (lambda: THREE.draw(None, (3,), location=[1.0, 2.0]), ValueError, r"location has shape \(2,\), .* the shape \(3,\)"),
    (lambda: THREE.draw(3.0, (3,)), TypeError, r"rng must be an integer seed, a numpy\.random\.Generator or None, got"),
    (lambda: THREE.draw(None, (3,), size=2.0), TypeError, r"size must be an integer >= 0, got 2\.0"),
    (lambda: THREE.draw(None, (3,), size=-1), ValueError, "size must be an integer of at least 0, got -1"),
    (lambda: Measured(CELLS, np.zeros(2), Gaussian([1.0, 2.0, 3.0])), ValueError, r"sigma of .* has shape \(3,\)"),
    (lambda: Tulap(0.0), ValueError, "epsilon must be"),
    (lambda: Tulap(1.0, 1.0), ValueError, "delta must be at least 0 and less than 1"),
    (lambda: Tulap(1.0, sensitivity=0.0), ValueError, "sensitivity must be"),
    (lambda: Tulap("1"), TypeError, "epsilon"),
    (lambda: draw_independent(LatticeGaussian(1.0), 3), TypeError, "law must be a DiscreteLaplace or a DiscreteGaussian"),
    (lambda: draw_independent(DiscreteLaplace([1.0, 2.0]), 2), TypeError, "one scale for all answers"),
    (lambda: draw_independent(DiscreteLaplace(1.0), 3, "numpy"), ValueError, "engine must be"),
)  # fmt: skip

NEEDED = pytest.mark.skipif(importlib.util.find_spec("opendp") is None, reason="needs the extra 'secure'")


@pytest.mark.parametrize("engine", ["integers", pytest.param("opendp", marks=NEEDED)])
def test_laws_of_engines_and_what_they_say(engine):
    # Entropy of the operating system has no seed: one run in five thousand fails by chance.
    for law in (DiscreteLaplace(2.5), DiscreteGaussian(1.7)):
        draws = draw_independent(law, 4000, engine)
        assert draws.dtype == np.int64
        assert fits(draws.tolist(), law.log_mass)
        assert draw_independent(law, 0, engine).shape == (0,)
    assert engine_for(engine) == engine
    assert ("OpenDP" in statement(engine).split(":")[0]) == (engine == "opendp")
    assert ("Nobody outside has vetted" in statement(engine)) == (engine == "integers")
    assert "no rounding" in statement(engine)


def test_without_opendp_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(secure, "find_spec", lambda name: None)
    assert engine_for() == "integers"
    with pytest.raises(ImportError, match=r"needs the extra 'secure': pip install 'bayesdp\[secure\]'"):
        draw_independent(DiscreteLaplace(2.5), 3, "opendp")


@NEEDED
def test_switches_of_opendp_are_left_alone():
    from opendp import mod

    mod.disable_features("contrib")
    draw_independent(DiscreteLaplace(2.5), 3, "opendp")
    assert "contrib" not in mod.GLOBAL_FEATURES


@pytest.mark.parametrize("law", [DiscreteLaplace(2.5), DiscreteGaussian(1.7)], ids=str)
def test_many_draws_have_the_mass_and_both_tails(law):
    draws, k = law.draw(np.random.default_rng(9), (), 200_000, location=0.0), np.arange(-6, 7)
    share, p = [np.mean(draws == own) for own in k], np.exp(law.log_mass(k, 0.0))
    for found, wanted in (
        *zip(share, p, strict=True),
        (np.mean(draws > 6), 1 - law.cdf(6)),
        (np.mean(draws < -6), law.cdf(-7)),
    ):
        assert abs(found - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / 200_000)
