"""Precise sums beside noisy cells in a model: the step method takes directions that keep them, of large tables as hierarchies."""

from itertools import combinations

import numpy as np
import pymc as pm
import pytest

import bayesdp as bdp
from bayesdp.distributions.confidential_counts import answers
from bayesdp.fibers.moves.moves import PRODUCT
from bayesdp.hierarchies.chain import TreeChain
from bayesdp.steps.fiber_gibbs import FiberGibbs
from bayesdp.steps.reading import movement
from tests.inference.oracle import counts_model, sample
from tests.noisy_sums import noisy_sums

FRAME = {"a": ["p", "q"], "b": ["x", "y", "z"]}
TRUTH = np.array([[20, 0, 0], [0, 20, 0]])
# Noise of the cells in units of their sigma: neither more nor less than their law says.
NOISE = np.array([[-0.8, 0.9, 1.0], [0.7, -0.8, -1.0]])
MARGINS = bdp.Margins(FRAME, ["a"], ["b"])


def _release(margins=0.5, cells=16.0):
    identity, law = bdp.Identity(FRAME), bdp.noise.DiscreteGaussian
    measured = [bdp.Measured(identity, TRUTH + np.rint(cells * NOISE).astype(int), law(cells))] if cells else []
    measured += [bdp.Measured(MARGINS, MARGINS.apply(TRUTH), law(margins))] if margins else []
    return bdp.Release.from_published(FRAME, measured, [bdp.Exact(bdp.Totals(FRAME), 40)])


def _prior():
    return pm.NegativeBinomial.dist(mu=7.0, alpha=0.05, shape=(2, 3))


def _families(model, point=None):
    target = FiberGibbs(model=model, initial_point=point).tables[0].target
    extra = len(target.moves.meta) - len(target.fiber_moves.meta)
    assert extra >= 0
    return extra


def test_precise_margins_get_directions_and_no_other_claim_and_others_none():
    model = counts_model(_release(), _prior())
    step = FiberGibbs(model=model)
    target = step.tables[0].target
    kept = target.moves.meta[len(target.fiber_moves.meta) :]
    assert kept[:, 1].tolist() == [2]  # squares: products of two differences
    assert step.connectivity["x"] == {"proved": True, "claim": target.fiber.claim}
    said = movement(model, model.rvs_to_values[model["x"]])
    assert (said.proved, said.claim) == (True, target.fiber.claim)
    for release in (_release(margins=None), _release(margins=40.0, cells=1.0)):
        target = FiberGibbs(model=counts_model(release, _prior())).tables[0].target
        assert target.moves is target.fiber.moves
    # Each cell is in three answers: two cells change one margin only, four change none.
    moves = FiberGibbs(model=counts_model(_release(margins=14.0, cells=14.0), _prior())).tables[0].target.moves
    assert moves.meta[:, :2].tolist() == [[PRODUCT, 1], [PRODUCT, 2], [PRODUCT, 1], [PRODUCT, 1]]


def test_the_spread_of_the_prior_and_scales_in_the_model_decide_where_cells_are_not_published():
    margins = _release(cells=None, margins=6.0)
    # Cells of mean 40 / 6 by the margins; negative binomial cells of shape 0.05 spread over many times their mean.
    assert _families(counts_model(margins, pm.Poisson.dist(7.0, shape=(2, 3)))) == 0
    assert _families(counts_model(margins, _prior())) == 1
    with pm.Model(coords=FRAME) as model:
        sigma = pm.LogNormal("sigma", np.log(20.0), 1.0)
        x = bdp.ConfidentialCounts("x", _prior(), dims=("a", "b"))
        bdp.observe(_release(cells=None), x)
        bdp.distributions.DiscreteGaussian("y", mu=x, sigma=sigma, observed=TRUTH + 3)
    point = model.initial_point()
    for start, families in ((20.0, 1), (0.6, 3)):
        assert _families(model, {**point, "sigma_log__": np.array(np.log(start))}) == families


def test_a_chain_started_in_the_wrong_mode_finds_the_other():
    """The counts of the two rows change columns: no other table is likely. Two chains of 200 draws."""
    tree = sample(counts_model(_release(), _prior()), 200, tune=0, seed=4, initvals={"x": TRUTH[::-1]})
    first = np.asarray(tree["posterior"]["x"])[:, :, 0, 0]
    assert np.all(first.min(axis=1) <= 2)
    assert np.all(first.max(axis=1) >= 18)


def _large(shape, margins=0.5, prior=None, keep=2):
    """A sparse table, noisy cells, and its margins of `keep` dimensions with noise, of a scale in the model if it is None."""
    dims = {"abc"[i]: range(n) for i, n in enumerate(shape)}
    truth = np.random.default_rng(1).negative_binomial(0.1, 0.02, shape)
    rng = np.random.default_rng(2)
    sums = bdp.Margins(dims, *(list(own) for own in combinations(dims, keep)))
    measured = noisy_sums(dims, truth, ((bdp.Identity(dims), 16.0), (sums, margins or 0.5)), rng)
    exact = [bdp.Exact(bdp.Totals(dims), int(truth.sum()))]
    with pm.Model(coords=dims) as model:
        base = pm.NegativeBinomial.dist(mu=5.0, alpha=0.1, shape=shape) if prior is None else prior(shape)
        x = bdp.ConfidentialCounts("x", base, dims=tuple(dims))
        bdp.observe(bdp.Release.from_published(dims, measured if margins else measured[:1], exact), x)
        if margins is None:
            sigma = pm.LogNormal("sigma", np.log(0.5), 0.2)
            bdp.distributions.DiscreteGaussian("y", mu=answers(sums, x), sigma=sigma, observed=measured[1].values)
    return model


def _random_prior(shape):
    mu, alpha = pm.LogNormal("mu", 1.6, 0.2), pm.LogNormal("alpha", -2.3, 0.2)
    return pm.NegativeBinomial.dist(mu=mu, alpha=alpha, shape=shape)


@pytest.mark.system
def test_moves_along_several_axes_where_precise_margins_overlap_in_three_ways():
    for given, crosses in (
        ({"shape": (10, 4, 6)}, True),
        ({"shape": (10, 4, 6), "prior": _random_prior}, True),
        ({"shape": (5, 4, 5), "margins": None}, True),  # the scale is a variable
        ({"shape": (5, 4, 5), "margins": 16.0}, False),  # not precise
        ({"shape": (5, 4, 5), "keep": 1}, False),  # three margins that squares keep
    ):
        model = _large(**given)
        step = FiberGibbs([model["x"]], model=model)
        said = movement(model, model.rvs_to_values[model["x"]])
        assert step.connectivity["x"] == {"proved": said.proved, "claim": said.claim}
        chain = step.tables[0].chain
        assert isinstance(chain, TreeChain)
        assert bool(len(chain.families)) == crosses
