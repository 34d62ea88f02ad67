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
    options = {"draws": 1_000, "tune": 300, "cores": 1} | options
    tree = bdp.fit_hierarchy(
        release, FixedNegativeBinomial(mean=np.full((n, n), 2.0), shape=0.03), random_seed=seed, quiet=True, **options
    )
    mean = tree["cells"]["mean"].values
    return float(mean[one].sum() / mean.sum()), tree["diagnostics"].attrs


def converged_and_wrong(found, tolerance=0.1):
    share, told = found
    return bool(told["converged"]) and abs(share - 0.5) > tolerance


@pytest.mark.parametrize("seed", [1, 2])
def test_both_modes_of_a_loop_across_leaves(seed):
    """25 counts of 50 are right: with 400 effective draws of two values the standard error of the share is below .025."""
    share, told = fitted(5, seed)
    assert told["converged"], told["message"]
    assert abs(share - 0.5) < 0.1
    assert told["missed_modes"] == "none found"
    assert "does not exclude" in told["missed_modes_message"]


RUNS = [
    (n, sigma, seed) for seed, (n, sigma) in enumerate([(5, 0.8), (5, 1.0), (6, 0.8), (6, 1.0), (7, 0.8), (7, 1.0)])
]
RUNS += [(n, sigma, seed + 6) for n, sigma, seed in RUNS] + [(5, 0.9, 12), (7, 0.9, 13)]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "sigma", "seed"), RUNS)
def test_two_chains_are_not_converged_and_wrong(n, sigma, seed):
    found = fitted(n, seed, sigma, chains=2, draws=4_000, tune=1_000)
    assert not converged_and_wrong(found), found


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_without_the_moves_the_starts_show_it(seed, monkeypatch):
    """Chains of a pair begin on opposite sides, so that they stay in different modes."""
    moves = chains.moves_of

    def fewer(structure):
        mix = moves(structure)
        mix[KEEPING] = 0
        return mix

    monkeypatch.setattr(chains, "moves_of", fewer)
    _, told = fitted(5, seed, draws=300)
    assert told["verdict"] == "not converged"
    assert told["missed_modes"] == "disagree"


def _judged(seed):
    """Whether a random structure is converged, and whether it is wrong by 5 standard errors of 400 draws; None where it is refused."""
    release, prior, mean, sd = structure(seed)
    try:
        tree = bdp.fit_hierarchy(
            release, prior, draws=1_000, random_seed=seed, quiet=True, leaves="leaf", cores=1, chains=2
        )
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


def test_where_one_mode_is_possible_two_chains_can_know():
    frame = bdp.Frame.of({"leaf": ["a", "b"], "k": ["u", "v"]})
    noise = bdp.noise.DiscreteGaussian(sigma=3.0)
    release = bdp.Release.from_published(
        frame, [bdp.Measured(bdp.Identity(frame), [[9, 4], [6, 12]], noise)], [bdp.Exact(bdp.Totals(frame), 31)]
    )
    verdicts = {}
    for name, prior in (
        ("poisson", FixedPoisson(8.0)),
        ("shape 1", FixedNegativeBinomial(mean=8.0, shape=[[1.0, 2.0], [1.0, 1.0]])),
        ("sparse", FixedNegativeBinomial(mean=8.0, shape=0.9)),
    ):
        tree = bdp.fit_hierarchy(release, prior, draws=600, random_seed=3, quiet=True, cores=1)
        verdicts[name] = tree["cells"].sizes["chain"], tree["diagnostics"].attrs["missed_modes"]
    assert verdicts == {"poisson": (2, "agree"), "shape 1": (2, "agree"), "sparse": (4, "none found")}
