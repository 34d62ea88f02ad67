"""`fit_hierarchy` is not converged and wrong: random sparse structures, and starts that are far apart."""

from __future__ import annotations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies.priors import FixedNegativeBinomial, FixedPoisson
from bayesdp.hierarchies.structure import NoStructure
from tests.streaming.sparse_structures import structure

pytestmark = [
    pytest.mark.filterwarnings("ignore::bayesdp.consistency.post_processed.PostProcessedWarning"),
    pytest.mark.system,
]


def _judged(seed):
    """Whether a random structure is converged, and whether it is wrong by 5 standard errors of 400 draws; None where it is refused."""
    release, prior, mean, sd = structure(seed)
    given = {"draws": 1_000, "random_seed": seed, "quiet": True, "leaves": "leaf", "cores": 1, "chains": 2}
    try:
        tree = bdp.fit_hierarchy(release, prior, **given)
    except NoStructure:
        return None
    wrong = np.abs(tree["cells"]["mean"].values - mean) > 0.36 * sd + 0.02
    return bool(tree["diagnostics"].attrs["converged"]), bool(wrong.any())


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 200), marks=pytest.mark.slow)], ids=["few", "many"])
def test_random_sparse_structures_are_not_converged_and_wrong(seeds):
    """Two chains converge with 200 effective draws or more: 0.36 standard deviations are 5 standard errors."""
    found = {seed: _judged(seed) for seed in seeds}
    assert not [seed for seed, own in found.items() if own == (True, True)]
    known = [own for own in found.values() if own is not None]
    assert sum(converged for converged, _ in known) > len(known) / 3


@pytest.mark.parametrize(
    ("prior", "known"),
    [
        (FixedPoisson(8.0), (2, "agree")),
        (FixedNegativeBinomial(mean=8.0, shape=[[1.0, 2.0], [1.0, 1.0]]), (2, "agree")),
        (FixedNegativeBinomial(mean=8.0, shape=0.9), (4, "none found")),
    ],
    ids=["Poisson", "shapes of at least 1", "sparse"],
)
def test_where_one_mode_is_possible_two_chains_can_know(prior, known):
    frame, noise = bdp.Frame.of({"leaf": ["a", "b"], "k": ["u", "v"]}), bdp.noise.DiscreteGaussian(sigma=3.0)
    cells = bdp.Measured(bdp.Identity(frame), [[9, 4], [6, 12]], noise)
    release = bdp.Release.from_published(frame, [cells], [bdp.Exact(bdp.Totals(frame), 31)])
    tree = bdp.fit_hierarchy(release, prior, draws=600, random_seed=3, quiet=True, cores=1)
    assert (tree["cells"].sizes["chain"], tree["diagnostics"].attrs["missed_modes"]) == known
