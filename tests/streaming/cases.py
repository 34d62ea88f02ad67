"""A small release of a hierarchy, and all tables that agree with a release with their posterior."""

import numpy as np
from scipy.stats import nbinom

import bayesdp as bdp
from bayesdp.fibers import enumerate_fiber
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from tests.comparison.enumeration import probabilities
from tests.noisy_sums import noisy_sums

LABELS = {"age": ["young", "old"], "tract": ["t1", "t2", "t3"], "race": ["a", "b"]}
FRAME = bdp.Frame.of(LABELS | {"county": ("tract", ["A", "B", "A"])})
"""The leaves are in the middle, and their order in the tree is another than in the frame."""

MEAN = np.array([[1.0, 0.6], [0.4, 2.0]])
SHAPE = np.array([[0.5, 0.8], [0.3, 1.2]])
PRIOR = FixedNegativeBinomial(MEAN, SHAPE)
TRUTH = np.array([[[2, 0], [0, 0], [1, 0]], [[0, 0], [1, 0], [0, 1]]])


def small_release(total=True, law=bdp.noise.DiscreteGaussian):
    """Noise at three levels, and an exact total."""
    noise = ((("tract", "age", "race"), 2.0), (("tract", "race"), 0.5), (("county", "age"), 1.5))
    measured = noisy_sums(FRAME, TRUTH, noise, np.random.default_rng(3), law)
    exact = [bdp.Exact(bdp.Totals(FRAME), int(TRUTH.sum()))] if total else []
    return bdp.Release.from_published(FRAME, measured, exact)


def posterior(release, mean=MEAN[:, None], shape=SHAPE[:, None]):
    """All tables, shape (n, *frame), and their probabilities."""
    tables = enumerate_fiber(release.fiber, 10**6).reshape(-1, *release.frame.shape)
    logs = nbinom.logpmf(tables, shape, shape / (shape + mean)).reshape(len(tables), -1).sum(axis=1)
    for measured in release.measurements:
        squares = (measured.values - measured.query.apply(tables)) ** 2
        logs = logs - squares.reshape(len(tables), -1).sum(axis=1) / (2.0 * measured.law.sigma**2)
    return tables, probabilities(logs)
