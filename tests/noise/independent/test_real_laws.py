"""The Laplace and Gaussian laws on the real line, against SciPy's laws and tests of draws.

False-alarm rate of the tests with draws: 1e-4 each, with fixed seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bayesdp.measurements import Measured
from bayesdp.noise import DiscreteLaplace, Gaussian, Laplace
from bayesdp.queries import Identity, Margins

LAWS = {"laplace": (Laplace, stats.laplace), "gaussian": (Gaussian, stats.norm)}
Z = np.array([-80.0, -30.0, -5.0, -1.0, -1e-9, 0.0, 1e-9, 0.3, 2.0, 30.0, 80.0])


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize(("mu", "scale"), [(0.0, 1.0), (-3.25, 0.01), (1e6 + 0.125, 40.0)])
def test_density_tails_and_moments(kind: str, mu: float, scale: float) -> None:
    own, scipy_law = LAWS[kind]
    law, exact = own(scale), scipy_law(mu, scale)
    y = mu + scale * Z
    np.testing.assert_allclose(law.log_density(y, mu), exact.logpdf(y), rtol=1e-12)
    np.testing.assert_allclose(law.log_cdf(y, mu), exact.logcdf(y), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(law.log_sf(y, mu), exact.logsf(y), rtol=1e-9, atol=1e-15)
    np.testing.assert_allclose(law.cdf(y, mu), exact.cdf(y), rtol=1e-9)
    assert float(law.mean(mu)) == mu
    assert float(law.variance(())) == pytest.approx(exact.var(), rel=1e-13)
    assert law.logp(y, mu) == pytest.approx(exact.logpdf(y).sum(), rel=1e-12)


@pytest.mark.parametrize("kind", LAWS)
def test_draws_have_the_law_with_a_scale_a_cell(kind: str) -> None:
    own, scipy_law = LAWS[kind]
    law = own([0.5, 20.0])
    draws = law.draw(np.random.default_rng(3), (3, 2), 20_000, location=np.full((3, 2), 7.25))
    assert draws.shape == (20_000, 3, 2)
    assert draws.dtype == np.float64
    for column, scale in enumerate((0.5, 20.0)):
        assert stats.kstest(draws[..., column].ravel(), scipy_law(7.25, scale).cdf).pvalue > 1e-4
    assert abs(np.corrcoef(draws.reshape(-1, 6).T) - np.eye(6)).max() < 5 / np.sqrt(20_000)
    assert law.draw(None, (2,)).shape == (2,)
    np.testing.assert_allclose(law.variance((3, 2))[0] / own(1.0).variance(()), [0.25, 400.0])


def test_a_discrete_laplace_is_the_laplace_law_in_unit_cells() -> None:
    # P(k - 1/2 < Z < k + 1/2) falls by exp(-1/b) a step, as the discrete law does.
    k = np.arange(1, 30)
    inside = Laplace(4.0).cdf(k + 0.5) - Laplace(4.0).cdf(k - 0.5)
    mass = np.exp(DiscreteLaplace(4.0).log_mass(k))
    np.testing.assert_allclose(inside[1:] / inside[:-1], mass[1:] / mass[:-1], rtol=1e-10)


def test_measurements_of_real_numbers_and_with_gaps() -> None:
    table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    both = Margins(table, ["county"], ["education"])
    assert Measured(both, [1.5, 2.5, -3.5, 4.5], Laplace(1.0)).noise_invariants is None
    gap = [("Alpha", "High")]
    measured = Measured(
        Identity(table), [[1.5, np.nan], [2.0, 3.25]], Gaussian([[1.0, 2.0], [3.0, 4.0]]), unmeasured=gap
    )
    assert measured.values.dtype == np.float64
    with pytest.raises(ValueError, match=r"sigma of the law 'gaussian' has shape \(3,\)"):
        Measured(Identity(table), np.zeros((2, 2)), Gaussian([1.0, 2.0, 3.0]))
