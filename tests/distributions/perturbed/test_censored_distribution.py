"""`distributions.Censored` against the law in NumPy: scales that are variables, slopes, far tails, draws, and what is refused."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode

from bayesdp import noise
from bayesdp.distributions import Censored, distribution_of

PYTHON = Mode(linker="py", optimizer=None)
LAWS = [noise.DiscreteLaplace, noise.DiscreteGaussian, noise.Laplace, noise.Gaussian]
VALUES = np.array([4, 5, 7, 9, 10])


def _values(law):
    return VALUES if law.integer else VALUES.astype(float)


@pytest.mark.parametrize("law", LAWS, ids=lambda own: own.name)
def test_mass_with_a_scale_that_is_a_variable(law) -> None:
    mu, scale = pt.dscalar("mu"), pt.dscalar("scale")
    variable = Censored.dist(mu, law, 5, 9, **{law.scale_name: scale}, shape=5)
    logp = pm.logp(variable, _values(law))
    evaluate = pytensor.function([mu, scale], [logp, *pt.grad(logp.sum(), [mu, scale])], mode=PYTHON)
    for at, width in ((7.0, 2.0), (6.25, 0.7), (-60.3, 3.0), (80.4, 3.0)):
        found, by_mu, by_scale = evaluate(at, width)
        own = noise.Censored(law(width), 5, 9)
        np.testing.assert_allclose(found, own.log_each(VALUES, at), rtol=1e-10, atol=1e-12)
        step = 1e-5 * width
        if at == 7.0 and law in (noise.DiscreteLaplace, noise.Laplace):
            continue  # a kink
        slope = [own.logp(VALUES, at + step), own.logp(VALUES, at - step)]
        np.testing.assert_allclose(by_mu, (slope[0] - slope[1]) / (2 * step), rtol=2e-4, atol=1e-5)
        wide, narrow = (noise.Censored(law(width + d), 5, 9).logp(VALUES, at) for d in (step, -step))
        np.testing.assert_allclose(by_scale, (wide - narrow) / (2 * step), rtol=2e-4, atol=1e-5)


def test_without_thresholds_and_off_the_support() -> None:
    kind = noise.DiscreteLaplace
    inner = kind(2.0)
    free = pm.logp(Censored.dist(3, kind, b=2.0), np.array([-40, 3, 90])).eval(mode=PYTHON)
    np.testing.assert_allclose(free, inner.log_mass([-40, 3, 90], 3), rtol=1e-12)
    cut = pm.logp(Censored.dist(3, kind, b=2.0, below=2), np.array([0, -5])).eval(mode=PYTHON)
    assert np.all(np.isneginf(cut))
    fractions = pm.logp(Censored.dist(3.0, kind, b=2.0, below=2), pt.constant(np.array([2.5, 1.0]))).eval(mode=PYTHON)
    np.testing.assert_allclose(fractions, [-np.inf, inner.log_cdf(1, 3.0)])


def test_draws_and_starting_points() -> None:
    law = noise.Censored(noise.DiscreteGaussian(3.0), below=5)
    variable = Censored.dist(np.array([2, 20]), law=noise.DiscreteGaussian, sigma=3.0, below=5)
    drawn = pm.draw(variable, 4000, random_seed=1, mode=PYTHON)
    assert drawn.dtype == np.int64
    assert drawn.min() == 4
    share, expected = np.mean(drawn[:, 0] == 4), np.exp(law.log_each(4, 2))
    assert abs(share - expected) < 5 * np.sqrt(expected * (1 - expected) / 4000)  # 6e-7
    start = pm.distributions.distribution.support_point(variable).eval(mode=PYTHON)
    np.testing.assert_array_equal(start, [5, 20])


def test_the_law_may_have_its_scale() -> None:
    drawn = Censored.dist(3, law=noise.DiscreteLaplace(4.0), below=2)
    found = pm.logp(drawn, np.array([1, 2, 7])).eval(mode=PYTHON)
    np.testing.assert_allclose(found, noise.Censored(noise.DiscreteLaplace(4.0), 2).log_each([1, 2, 7], 3))


def test_what_is_refused() -> None:
    assert distribution_of(noise.Censored) is Censored
    for kwargs, words in (
        ({"law": noise.Tulap}, "law must be a type of noise law with a scale and tails"),
        ({"law": noise.DiscreteLaplace(2.0), "b": 2.0}, "law must be a type of noise law with a scale"),
        ({"law": noise.DiscreteLaplace}, "b of the law 'discrete-laplace' is missing"),
        ({"law": noise.DiscreteLaplace, "b": 2.0, "below": 5, "above": 4}, "below must be at most above"),
        ({"law": noise.DiscreteLaplace, "b": 2.0, "below": 2.5}, "below must be a whole number"),
        ({"law": noise.DiscreteLaplace, "b": -1.0}, "b must be finite and greater than 0"),
    ):
        with pytest.raises((TypeError, ValueError), match=words):
            Censored.dist(3, **kwargs)
