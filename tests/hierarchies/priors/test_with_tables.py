"""Tables and hyperparameters in turn have the posterior that all tables there are have, hyperparameters integrated out."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, xlog1py, xlogy

from bayesdp.hierarchies.priors import AreaAndCell, FixedNegativeBinomial, FixedPoisson, VaryingShares
from tests.comparison.enumeration import probabilities
from tests.comparison.variation import assert_close_in_variation
from tests.hierarchies.cases import Case
from tests.noisy_sums import indices
from tests.refusals import refused

DRAWS = 12_000  # of the prior, for the oracle
NOISE = ((("tract", "age"), 1.5), (("county", "race"), 0.8))
CASE = Case((2, 2, 2), "AA", 4, zeros=((1, 0, 1),), noise=NOISE, seed=3)
"""Two tracts of four cells; four persons, one cell is a structural zero: 210 tables."""


def shares_by_hand(rng, draws, cells):
    """Means and shapes of the model of shares, from its formula."""
    m, q = np.exp(rng.normal(1.0, 0.7, draws)), np.exp(rng.normal(np.log(2.0), 0.75, draws))
    u = rng.beta((m * q)[:, None], q[:, None], (draws, 2))
    spread = np.sqrt(stats.invgamma.rvs(3.0, scale=2 * 0.6**2, size=draws, random_state=rng))
    centre = rng.normal(-0.5, 2.0, draws)
    a = np.exp(rng.normal(centre[:, None], spread[:, None], (draws, cells)))
    return np.repeat(a[:, None], 2, axis=1), 1.0 - np.repeat(u[:, :, None], cells, axis=2)


def effects_by_hand(rng, draws, cells):
    """The same of the model of area and cell effects."""
    areas, across, shapes = (stats.invgamma.rvs(3.0, 0, 2 * s**2, draws, random_state=rng) for s in (1.0, 2.0, 1.0))
    area = rng.normal(rng.normal(0.0, 2.0, draws)[:, None], np.sqrt(areas)[:, None], (draws, 2))
    mean = np.exp(area[:, :, None] + rng.normal(0.0, np.sqrt(across)[:, None], (draws, cells))[:, None])
    r = np.exp(rng.normal(rng.normal(0.0, 2.0, draws)[:, None], np.sqrt(shapes)[:, None], (draws, cells)))[:, None]
    return np.broadcast_to(r, mean.shape), r / (r + mean)


@pytest.mark.system
@pytest.mark.parametrize("name", ["varying shares", "area and cell"])
def test_tables_and_hyperparameters_in_turn(name):
    shares = VaryingShares(log_scale=1.0, scale_spread=0.7, log_shape=-0.5, spread=0.6), shares_by_hand
    prior, by_hand = shares if name == "varying shares" else (AreaAndCell(), effects_by_hand)
    rng, chain, (tables, _) = np.random.default_rng(7), CASE.chain(5), CASE.enumerate()
    tree = chain.structure
    n, p = by_hand(rng, DRAWS, 4)
    leaves = np.array([tree.leaves_by_cells(table) for table in tables])
    likely = np.ones((len(tables), DRAWS), dtype=np.float32)
    for t, c in zip(*np.nonzero(tree.free), strict=True):
        x, r, odds = np.arange(CASE.total + 1)[:, None], n[:, t, c], p[:, t, c]
        law = gammaln(x + r) - gammaln(r) - gammaln(x + 1) + xlogy(r, odds) + xlog1py(x, -odds)
        likely *= np.exp(law).astype(np.float32)[leaves[:, t, c]]
    posterior = np.log(likely.mean(axis=1, dtype=np.float64))
    for term in CASE.target.terms:
        residuals = term.values - tables @ term.matrix.T.toarray()
        posterior = posterior - (residuals**2 / (2.0 * term.scale**2)).sum(axis=1)
    found = np.empty((2, 2_500, tables.shape[1]), dtype=np.int64)
    for own in found:
        chain.load(tables[rng.integers(len(tables))])
        hyper = prior.start(tree, chain.state.counts)
        for table in own:
            weights = (np.ascontiguousarray(np.broadcast_to(w, tree.free.shape)) for w in prior.weights(tree, hyper))
            chain.set_prior(*map(tree.in_frame, weights))
            chain.sweep()
            hyper = prior.update(tree, chain.state.counts, hyper, rng)
            table[:] = chain.counts
    assert_close_in_variation(indices(tables, found), probabilities(posterior), rate=1e-5)


def test_fixed_priors():
    """Ratios of the law, as the kernel has them; numbers are in the order of the frame."""
    tree, rng = CASE.chain(1).structure, np.random.default_rng(1)
    for prior, family in ((FixedPoisson(2.0), "poisson"), (FixedNegativeBinomial(2.0, 0.5), "negbin")):
        assert (prior.family, prior.names) == (family, {})
        counts = np.zeros((2, 4), dtype=np.int64)
        assert prior.start(tree, counts) == prior.draw(tree, rng) == prior.update(tree, counts, {}, rng) == {}
    (theta,), (alpha,) = (own[:, 0] for own in FixedNegativeBinomial(3.0, 0.5).weights(tree, {}))
    x = np.arange(4)
    ratios = theta + np.log((alpha + x[:-1]) / (x[:-1] + 1))
    np.testing.assert_allclose(np.diff(stats.nbinom.logpmf(x, 0.5, 0.5 / 3.5)), ratios)
    assert np.diff(stats.poisson.logpmf(x, 2.0))[0] == pytest.approx(FixedPoisson(2.0).weights(tree, {})[0][0, 0])
    tree = TREE
    assert tree.order.tolist() == [0, 2, 1]
    theta, _ = FixedPoisson(MEAN).weights(tree, {})
    np.testing.assert_allclose(np.exp(theta), MEAN[[0, 2, 1]].reshape(3, 4))
    theta, alpha = FixedNegativeBinomial(MEAN, MEAN[0]).weights(tree, {})
    assert theta.shape == (3, 4)
    np.testing.assert_array_equal(alpha, MEAN[0].reshape(1, 4))


MEAN = np.arange(1.0, 13.0).reshape(3, 2, 2)


def _updated(counts):
    tree, rng = CASE.chain(1).structure, np.random.default_rng(1)
    return VaryingShares().update(tree, counts, VaryingShares().draw(tree, rng), rng)


TREE = Case((3, 2, 2), "ABA", 4).chain(1).structure
MEAN_SAID = r"mean must be one number, .*shape \(2, 2\).*shape \(3, 2, 2\), dimensions tract"
test_what_is_refused = refused(
    (lambda: VaryingShares(spread=0.0), "spread must be a finite number greater than 0"),
    (lambda: VaryingShares(log_scale=np.nan), "log_scale must be finite"),
    (lambda: VaryingShares(level=3), "level must be the name of a level"),
    (lambda: AreaAndCell(log_mean="2"), "log_mean must be a real number"),
    (lambda: AreaAndCell(cell_spread=True), "cell_spread must be a positive real number"),
    (lambda: FixedPoisson(MEAN.reshape(3, 4)).weights(TREE, {}), MEAN_SAID),
    (lambda: FixedNegativeBinomial(1.0, 0.0).weights(TREE, {}), "shape must be finite and greater than 0"),
    (lambda: _updated(np.zeros((4, 2), dtype=int)), r"leaves by cells, of shape \(2, 4\)"),
    (lambda: _updated(np.zeros((2, 4))), "integer type"),
    (lambda: _updated(np.full((2, 4), -1)), "negative"),
    (
        lambda: VaryingShares("state").draw(TREE, np.random.default_rng(1)),
        "level must be one of 'tract', .* got 'state'",
    ),
)
