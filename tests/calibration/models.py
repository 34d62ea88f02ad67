"""Small models with a simulator, for the tests of this folder: a prior, a mechanism, and posteriors right and wrong."""

import numpy as np
import pymc as pm

import bayesdp as bdp
from bayesdp.noise import DiscreteGaussian
from tests.inference.oracle import counts_model

LABELS = {"county": [f"County {k}" for k in range(1, 11)]}
MEANS = np.linspace(200.0, 1100.0, 10)  # a wide prior: the posterior's width is that of the noise
LAW = DiscreteGaussian(5.0)
CELLS, TOTAL = bdp.Identity(LABELS), bdp.Totals(LABELS)


def simulate(rng):
    """Independent noise in the cells, and an exact total, as agencies publish them."""
    x = rng.poisson(MEANS)
    noisy = x + LAW.draw(rng, x.shape)
    return {"x": x}, bdp.Release.from_published(
        LABELS, measured=[bdp.Measured(CELLS, noisy, LAW)], exact=[bdp.Exact(TOTAL, x.sum())]
    )


def build(release, law=None, exact=True):
    if law is not None or not exact:
        measured = release.measurements[0]
        swapped = bdp.Measured(measured.query, measured.values, law or measured.law)
        release = bdp.Release(release.frame, (swapped,), release.exact if exact else ())
    return counts_model(release, pm.Poisson.dist(MEANS))


def noise_ignored(release):
    return build(release, law=DiscreteGaussian(0.1), exact=False)


def narrow(factor):
    """A scale of the noise that is stated too small by a factor, or too large."""
    return lambda release: build(release, law=DiscreteGaussian(LAW.sigma / factor))


def forgetful(release):
    return build(release, exact=False)


PAIR = {"county": ["Alpha", "Beta"]}
PAIR_EPSILON = 0.5
PAIR_MECHANISM = bdp.LatticeLaplace(bdp.Totals(PAIR), epsilon=PAIR_EPSILON)


def simulate_pair(rng):
    x = rng.poisson(5.0, size=2)
    return {"x": x}, PAIR_MECHANISM.release(x, rng=rng)


def build_pair(release):
    return counts_model(release, pm.Poisson.dist(5.0))


def simulate_rates(rng):
    rate = rng.gamma(4.0, 5.0)
    x = rng.poisson(rate, size=2)
    return {"rate": rate, "x": x}, PAIR_MECHANISM.release(x, rng=rng)


def build_rates(release):
    with pm.Model(coords=release.coords) as model:
        rate = pm.Gamma("rate", 4.0, 0.2)
        x = bdp.ConfidentialCounts("x", pm.Poisson.dist(rate), dims=release.dims)
        bdp.observe(release, x)
    return model
