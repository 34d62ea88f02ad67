"""Margins of every leaf that are precise beside noisy cells: `fit_hierarchy` finds all modes, or says what stands in the way."""

from itertools import combinations

import numpy as np
import pytest

import bayesdp as bdp
from bayesdp.fibers import target
from bayesdp.fibers.moves.moves import PRODUCT
from bayesdp.hierarchies import chain
from bayesdp.hierarchies.kernel.sweeps import CROSSING
from bayesdp.hierarchies.priors import FixedNegativeBinomial
from bayesdp.hierarchies.released import target_of
from tests.noisy_sums import noisy_sums

PRIOR = FixedNegativeBinomial(mean=2.0, shape=0.1)  # sparse: three cells in four are 0


def _release(shape, keep):
    """Cells with variance 1,000, and all margins of `keep` axes of every leaf with variance 1."""
    dims = dict(zip(("leaf", "a", "b", "c", "d"), map(range, shape), strict=False))
    axes = [dim for dim in dims if dim != "leaf"]
    rng = np.random.default_rng(1)
    truth = rng.negative_binomial(0.1, 1.0 / 21.0, shape)
    queries = [(bdp.Identity(dims), 1_000.0**0.5)]
    queries += [(bdp.Margins(dims, ["leaf", *own]), 1.0) for own in combinations(axes, keep)]
    measured = noisy_sums(dims, truth, queries, rng)
    return bdp.Release.from_published(dims, measured, [bdp.Exact(bdp.Totals(dims), int(truth.sum()))])


def _fitted(shape, keep, draws=600):
    """Chains begin at different ends of every group that one of the margins ties: most in a wrong mode."""
    run = {"draws": draws, "tune": 200, "chains": 4, "cores": 1, "leaves": "leaf", "random_seed": 1, "quiet": True}
    tree = bdp.fit_hierarchy(_release(shape, keep), PRIOR, **run)
    return float(tree["cells"]["rhat"].max()), tree["diagnostics"].attrs


@pytest.mark.parametrize(("shape", "keep"), [((4, 5, 4, 3), 2), ((4, 8, 6), 1)])
def test_chains_that_start_in_different_modes_agree(shape, keep):
    rhat, told = _fitted(shape, keep, draws=1200)
    assert rhat < 1.1
    assert told["missed_modes"] != "disagree"
    assert "no move" not in told["message"]


def test_without_the_moves_they_do_not_and_it_is_said(monkeypatch):
    moves = chain.moves_of

    def fewer(structure):
        mix = moves(structure)
        mix[CROSSING] = 0
        return mix

    monkeypatch.setattr(chain, "moves_of", fewer)
    rhat, told = _fitted((4, 8, 6), 1)  # three margins have families of their own
    assert rhat > 2.0
    assert told["verdict"] == "not converged"


def test_four_margins_of_three_axes_are_kept_by_differences_along_all_four_and_what_no_move_keeps_is_named(monkeypatch):
    """And across leaves, which keep what is published of all of them."""
    found = target_of(_release((2, 3, 3, 2, 2), 3), "negbin").moves_keeping
    assert 4 in found.meta[found.meta[:, 0] == PRODUCT, 1]
    _, told = _fitted((2, 3, 3, 2, 2), 3, draws=40)
    assert "no move" not in told["message"]
    monkeypatch.setattr(target, "LARGEST", 0)
    _, told = _fitted((2, 3, 3, 2, 2), 3, draws=40)
    assert "a x b x c by leaf, a x b x d by leaf" in told["message"]
    assert "no move of the sampler keeps all of them" in told["message"]
