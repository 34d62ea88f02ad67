"""`fit_hierarchy` is not converged and wrong: random sparse structures by enumeration, and starts that are far apart."""

from itertools import chain, combinations
from math import comb

import numpy as np
import pytest
from scipy.special import gammaln

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial, FixedPoisson
from bayesdp.hierarchies.structure import NoStructure
from tests.comparison.enumeration import probabilities
from tests.fibers.cases import zeros_at

POST_PROCESSED = "ignore::bayesdp.measurements.consistency.post_processed.PostProcessedWarning"
pytestmark = [pytest.mark.filterwarnings(POST_PROCESSED), pytest.mark.system]

MOST = 200_000  # tables that are enumerated


def _divisions(n, cells):
    """All ways to divide n counts among cells."""
    bars = np.array(list(combinations(range(n + cells - 1), cells - 1)), dtype=np.int64).reshape(-1, cells - 1)
    ends = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1, n + cells - 1)))
    return np.diff(ends, axis=1) - 1


def _shape_and_free(rng):
    if rng.random() < 0.4:  # a closed walk through leaves and cells
        n = int(rng.integers(3, 6))
        grid = np.eye(n, dtype=int)
        return (n, n), np.flatnonzero((grid + np.roll(grid, 1, 1)).reshape(-1))
    while True:
        axes = int(rng.integers(1, 3))
        shape = (int(rng.integers(2, 6)), *map(int, rng.integers(2, 5 if axes == 1 else 4, size=axes)))
        free = int(rng.integers(5, 11))
        if np.prod(shape) >= free:
            return shape, np.sort(rng.choice(int(np.prod(shape)), free, replace=False))


def structure(seed):
    """A release, a sparse prior, and the exact means and standard deviations of the cells."""
    rng = np.random.default_rng([7, seed])
    while True:
        shape, free = _shape_and_free(rng)
        n = int(rng.integers(4, 25))
        if comb(n + len(free) - 1, len(free) - 1) <= MOST:
            break
    dims = ["leaf", "k", "l"][: len(shape)]
    labels = {dim: [f"{dim}{i}" for i in range(size)] for dim, size in zip(dims, shape, strict=True)}
    if county := rng.random() < 0.3:
        labels["county"] = ("leaf", [f"c{i}" for i in np.sort(rng.integers(0, 2, shape[0]))])
    frame = bdp.Frame.of(labels)
    weights = rng.dirichlet(np.full(len(free), rng.choice([0.1, 0.5, 3.0])))
    truth = np.bincount(rng.choice(free, n, p=weights), minlength=frame.size).reshape(shape)
    kinds = list(chain.from_iterable(combinations(dims[1:], r) for r in range(len(dims))))
    keeps = [[*level, *kind] for level in ([["leaf"]] + [["county"]] * county + [[]]) for kind in kinds]
    keeps = [keep for keep in keeps if keep and keep != dims]
    chosen = [keeps[i] for i in rng.choice(len(keeps), int(rng.integers(1, min(4, len(keeps)) + 1)), replace=False)]
    sigmas = [float(rng.choice([0.2, 0.5, 1.0, 2.0])) for _ in chosen]
    queries = [*(bdp.Margins(frame, keep) for keep in chosen), bdp.Identity(frame)]
    tables = np.zeros((comb(n + len(free) - 1, len(free) - 1), frame.size), dtype=np.int64)
    tables[:, free] = _divisions(n, len(free))
    size = float(rng.choice([0.003, 0.01, 0.03, 0.1]))
    logs = (gammaln(tables[:, free] + size) - gammaln(tables[:, free] + 1)).sum(axis=1)
    measured = []
    for query, sigma in zip(queries, [*sigmas, float(rng.choice([5.0, 20.0]))], strict=True):
        law = bdp.noise.DiscreteGaussian(sigma=sigma)
        noisy = query.apply(truth) + law.draw(rng, query.shape)
        measured.append(bdp.Measured(query, noisy, law))
        logs -= np.square(tables @ query.matrix.T.toarray() - noisy.reshape(-1)).sum(axis=1) / (2.0 * sigma**2)
    exact = [bdp.Exact(bdp.Totals(frame), n)]
    if (zeros := np.setdiff1d(np.arange(frame.size), free)).size:
        exact.append(zeros_at(frame, zeros))
    release = bdp.Release.from_published(frame, measured, exact, adding_up="warn")
    probability = probabilities(logs)
    mean = probability @ tables
    sd = np.sqrt(np.maximum(probability @ tables**2 - mean**2, 0.0))
    return release, FixedNegativeBinomial(mean=2.0, shape=size), mean.reshape(shape), sd.reshape(shape)


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 200), marks=pytest.mark.slow)])
def test_random_sparse_structures_are_not_converged_and_wrong(seeds):
    """Two chains converge with 200 effective draws or more: 0.36 standard deviations are 5 standard errors."""
    found = []
    for seed in seeds:
        release, prior, mean, sd = structure(seed)
        run = {"draws": 1_000, "random_seed": seed, "quiet": True, "leaves": "leaf", "cores": 1, "chains": 2}
        try:
            tree = bdp.fit_hierarchy(release, prior, **run)
        except NoStructure:
            continue
        found.append(bool(tree["diagnostics"].attrs["converged"]))
        assert not (found[-1] and np.any(np.abs(tree["cells"]["mean"].values - mean) > 0.36 * sd + 0.02)), seed
    assert np.mean(found) > 1 / 3


PRIORS = (FixedPoisson(8.0), FixedNegativeBinomial(8.0, [[1.0, 2.0], [1.0, 1.0]]), FixedNegativeBinomial(8.0, 0.9))


@pytest.mark.parametrize("prior", PRIORS)
def test_where_one_mode_is_possible_two_chains_can_know(prior):
    known = (4, "none found") if prior is PRIORS[2] else (2, "agree")
    frame, noise = bdp.Frame.of({"leaf": ["a", "b"], "k": ["u", "v"]}), bdp.noise.DiscreteGaussian(sigma=3.0)
    cells = bdp.Measured(bdp.Identity(frame), [[9, 4], [6, 12]], noise)
    release = bdp.Release.from_published(frame, [cells], [bdp.Exact(bdp.Totals(frame), 31)])
    tree = bdp.fit_hierarchy(release, prior, draws=600, random_seed=3, quiet=True, cores=1)
    assert (tree["cells"].sizes["chain"], tree["diagnostics"].attrs["missed_modes"]) == known
