"""`fit_hierarchy` is not converged and wrong: loops across leaves, random sparse structures, and starts that are far apart."""

from __future__ import annotations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.hierarchies import chain as chains
from bayesdp.hierarchies.kernel.sweeps import KEEPING
from bayesdp.hierarchies.priors import FixedNegativeBinomial, FixedPoisson
from bayesdp.hierarchies.structure import NoStructure
from tests.streaming.sparse_structures import structure

pytestmark = [
    pytest.mark.filterwarnings("ignore::bayesdp.consistency.post_processed.PostProcessedWarning"),
    pytest.mark.system,
]
"""The answers of the loop are what they are on average, without noise, which is unlikely."""


def loop(n, sigma=1.0, count=10):
    """Two modes, equal by symmetry, that are linked by a closed walk through all leaves only: its release, and one mode's cells."""
    frame = bdp.Frame.of({"leaf": [f"t{i}" for i in range(n)], "k": [f"k{i}" for i in range(n)]})
    one = np.eye(n, dtype=int)
    both = one + np.roll(one, 1, 1)
    zeros = np.flatnonzero(both.reshape(-1) == 0)
    precise, rough = bdp.noise.DiscreteGaussian(sigma=sigma), bdp.noise.DiscreteGaussian(sigma=20.0)
    measured = [bdp.Measured(bdp.Margins(frame, [dim]), [count] * n, precise) for dim in ("leaf", "k")]
    measured.append(bdp.Measured(bdp.Identity(frame), both * count // 2, rough))
    known = bdp.LinearQuery(frame, np.eye(n * n, dtype=int)[zeros], [f"z{i}" for i in zeros])
    exact = [bdp.Exact(known, [0] * len(zeros)), bdp.Exact(bdp.Totals(frame), n * count)]
    return bdp.Release.from_published(frame, measured, exact, adding_up="warn"), one == 1


def fitted(n, seed, sigma=1.0, **options):
    """The share of the counts in one mode's cells, and the diagnostics."""
    release, one = loop(n, sigma)
    given = {"draws": 1_000, "tune": 300, "cores": 1, "random_seed": seed, "quiet": True} | options
    tree = bdp.fit_hierarchy(release, FixedNegativeBinomial(mean=np.full((n, n), 2.0), shape=0.03), **given)
    mean = tree["cells"]["mean"].values
    return float(mean[one].sum() / mean.sum()), tree["diagnostics"].attrs


def test_both_modes_of_a_loop_across_leaves_and_without_the_moves_the_starts_show_it(monkeypatch):
    """25 counts of 50 are right: with 400 effective draws of two values the standard error of the share is below .025.

    Chains of a pair begin on opposite sides, so that they stay in different modes if no move crosses.
    """
    share, told = fitted(5, 1)
    assert told["converged"], told["message"]
    assert abs(share - 0.5) < 0.1
    assert told["missed_modes"] == "none found"
    assert "does not exclude" in told["missed_modes_message"]
    moves = chains.moves_of

    def fewer(structure):
        mix = moves(structure)
        mix[KEEPING] = 0
        return mix

    monkeypatch.setattr(chains, "moves_of", fewer)
    for seed in (1, 2):
        _, told = fitted(5, seed, draws=300)
        assert (told["verdict"], told["missed_modes"]) == ("not converged", "disagree")


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
