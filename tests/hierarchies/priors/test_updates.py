"""One update of hyperparameters, and one of slice sampling, from exact draws leaves the law as it is; and what is drawn exactly."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from bayesdp.frames import Frame
from bayesdp.hierarchies.priors import AreaAndCell, VaryingShares, simulate_counts
from bayesdp.hierarchies.priors.base import draw_centre, draw_variance, free_cells, gamma_terms, gather, slice_draws
from bayesdp.hierarchies.structure import levels_of, structure_of, tree_of
from bayesdp.queries import SumPart
from tests.hierarchies.cases import CASES

REPLICATIONS, RATE = 500, 1e-5  # false alarms of a test, shared by its comparisons
FRAME = Frame.of({"tract": list("abcd"), "age": ["y", "m", "o"], "county": ("tract", list("ABAB"))})
TREES = {
    "counties": tree_of(FRAME, 0, levels_of(FRAME, 0, [SumPart(FRAME, ("county",))])),
    "structural zeros": structure_of(CASES["structural zeros"].target, "tract"),
}
PRIORS = {
    "varying shares": VaryingShares(log_scale=2.0, scale_spread=1.0, log_shape=-0.5, spread=0.8),
    "by county": VaryingShares("county", log_scale=2.0, scale_spread=1.0, log_shape=-0.5, spread=0.8),
    "area and cell": AreaAndCell(log_mean=-1.0, cell_spread=3.0),
}
UPDATES = {"varying shares": 1, "by county": 1, "area and cell": 2}
"""One is enough where all is drawn in one update; a wrong level of the areas shows after several."""


def flat(hyper):
    """All hyperparameters in one row, positive ones as logarithms."""
    positive = {name for name in hyper if name in ("typical_scale", "scale_shape") or name.endswith("_variance")}
    return np.concatenate([np.reshape(np.log(own) if k in positive else own, -1) for k, own in sorted(hyper.items())])


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("name", PRIORS)
def test_an_update_keeps_the_joint_law(name, tree):
    """Functions of hyperparameters and table, bounded, have the same means before and after: paired z statistics."""
    prior, tree, rng = PRIORS[name], TREES[tree], np.random.default_rng(1)
    free = free_cells(tree)
    before, after, tables = [], [], []
    for _ in range(REPLICATIONS):
        hyper = prior.draw(tree, rng)
        counts = simulate_counts(prior, tree, hyper, rng)
        counts[~free] = 5  # what is not free is outside of the prior, whatever is there
        before.append(flat(hyper))
        for _ in range(UPDATES[name]):
            hyper = prior.update(tree, counts, hyper, rng)
        after.append(flat(hyper))
        tables.append(np.log1p(counts[free]))
    first, second = np.array(before), np.array(after)
    assert np.mean(first != second) > 0.99
    scales = np.tanh(np.array(tables) - np.mean(tables, axis=0))
    centre, spread = first.mean(axis=0), first.std(axis=0)

    def functions(own):
        own = np.tanh((own - centre) / spread)
        crossed = [(own[:, :, None] * other[:, None, :]).reshape(len(own), -1) for other in (own, scales)]
        return np.concatenate([own, *crossed], axis=1)

    difference = functions(second) - functions(first)
    z = difference.mean(axis=0) / (difference.std(axis=0) / np.sqrt(REPLICATIONS))
    assert np.abs(z).max() < stats.norm.isf(RATE / len(z) / 2)


def _drawn(prior, tree, rng):
    own = [prior.draw(tree, rng) for _ in range(3_000)]
    assert {name: np.ndim(draw) for name, draw in own[0].items()} == {k: len(d) for k, d in prior.names.items()}
    return {name: np.array([draw[name] for draw in own]) for name in own[0]}


def test_draws_of_hyperparameters_weights_and_terms_are_as_the_formulas_say():
    rng, tree = np.random.default_rng(2), TREES["counties"]
    shares = VaryingShares("county", log_scale=1.0, scale_spread=0.5, log_shape=-1.0, spread=0.7, within=0.4)
    h = _drawn(shares, tree, rng)
    m, q, u = h["typical_scale"], h["scale_shape"], 1.0 / (1.0 + np.exp(-h["log_scale"]))
    uniform = {
        "m": stats.norm.cdf(np.log(m), 1.0, 0.5),
        "q": stats.norm.cdf(np.log(q), np.log(2.0), 0.75),
        "u": stats.beta.cdf(u[:, 2], m * q, q),
        "mu": stats.norm.cdf(h["shape_centre"], -1.0, 2.0),
        "sigma2": stats.invgamma.cdf(h["shape_variance"], 3.0, scale=2 * 0.7**2),
        "a": stats.norm.cdf(h["cell_centre"][:, 1], h["shape_centre"], np.sqrt(h["shape_variance"])),
        "tau2": stats.invgamma.cdf(h["within_variance"], 3.0, scale=2 * 0.4**2),
        "a of node": stats.norm.cdf(h["log_shape"][:, 1, 2], h["cell_centre"][:, 2], np.sqrt(h["within_variance"])),
    }
    h = _drawn(AreaAndCell(log_mean=0.5, area_spread=0.3, cell_spread=1.2), tree, rng)
    uniform |= {
        "area mean": stats.norm.cdf(h["area_mean"], 0.5, 2.0),
        "area": stats.norm.cdf(h["area"][:, 3], h["area_mean"], np.sqrt(h["area_variance"])),
        "cell": stats.norm.cdf(h["cell"][:, 0], 0.0, np.sqrt(h["cell_variance"])),
        "areas": stats.invgamma.cdf(h["area_variance"], 3.0, scale=2 * 0.3**2),
        "cells": stats.invgamma.cdf(h["cell_variance"], 3.0, scale=2 * 1.2**2),
        "rho": stats.norm.cdf(h["shape_centre"], 0.0, 2.0),
        "r": stats.norm.cdf(h["log_shape"][:, 1], h["shape_centre"], np.sqrt(h["shape_variance"])),
        "shapes": stats.invgamma.cdf(h["shape_variance"], 3.0, scale=2.0),
    }
    for name, values in uniform.items():
        assert stats.kstest(values, "uniform").pvalue > RATE / len(uniform), name
    tree, rng = TREES["counties"], np.random.default_rng(4)
    hyper = AreaAndCell().draw(tree, rng)
    theta, alpha = AreaAndCell().weights(tree, hyper)
    mean = np.exp(hyper["area"][:, None] + hyper["cell"])
    np.testing.assert_allclose(alpha * np.exp(theta) / (1 - np.exp(theta)), mean)
    shares = VaryingShares("county")
    hyper = shares.draw(tree, rng)
    theta, alpha = shares.weights(tree, hyper)
    assert tree.order.tolist() == [0, 2, 1, 3]  # leaves a, c of county A, then b, d of B
    np.testing.assert_allclose(alpha, np.exp(hyper["log_shape"])[[0, 0, 1, 1]])
    b = np.exp(hyper["log_scale"])
    np.testing.assert_allclose(np.exp(theta), np.repeat(b / (1 + b), 3).reshape(4, 3))
    rng, effects = np.random.default_rng(5), np.array([[0.3, 2.0], [1.5, -1.0], [0.2, 0.4]])

    def compare(drawn, grid, *logs):
        cumulated = np.cumsum(np.exp(sum(logs) - sum(logs).max()))
        assert stats.kstest(np.interp(drawn, grid, cumulated / cumulated[-1]), "uniform").pvalue > 1e-6

    drawn, grid = np.array([draw_centre(effects, 0.7, 0.5, 2.0, rng) for _ in range(4_000)]), np.linspace(-6, 6, 4_001)
    for own, of_cell in zip(drawn.T, effects.T, strict=True):
        logs = stats.norm.logpdf(of_cell[:, None], grid, np.sqrt(0.7)).sum(axis=0)
        compare(own, grid, logs, stats.norm.logpdf(grid, 0.5, np.sqrt(2.0)))
    drawn, grid = np.array([draw_variance(effects, 0.8, rng) for _ in range(4_000)]), np.linspace(1e-3, 60, 60_001)
    logs = stats.norm.logpdf(effects.reshape(-1, 1), 0.0, np.sqrt(grid)).sum(axis=0)
    compare(drawn, grid, logs, stats.invgamma.logpdf(grid, 3.0, scale=2 * 0.8**2))
    # Against sums of log gamma functions, with counts on both sides of the limit.
    rng = np.random.default_rng(6)
    counts = rng.integers(0, 3, (30, 4)) * rng.integers(1, 40_000, (30, 4)) ** rng.integers(0, 2, (30, 4))
    counts[:3, 0] = 15, 16, 17
    free = rng.random(counts.shape) < 0.8
    terms = gather(np.where(free, counts, 0), np.repeat([0, 4], 15), np.arange(4), 8)
    which = np.arange(8)
    for log_shape in (-9.0, -1.0, 3.0):
        a = np.exp(log_shape)
        cells = np.where(free, gammaln(counts + a) - gammaln(a), 0.0)
        expected = np.concatenate([cells[:15].sum(axis=0), cells[15:].sum(axis=0)])
        np.testing.assert_allclose(gamma_terms(np.full(8, log_shape), which, terms), expected, rtol=1e-10, atol=1e-9)


DRAWS = 60_000


def two_modes(x):
    return np.log(0.8 * stats.norm.pdf(x, 0.0, 0.5) + 0.2 * stats.norm.pdf(x, 3.0, 0.3))


def draws_of_two(rng):
    return np.where(rng.random(DRAWS) < 0.8, rng.normal(0, 0.5, DRAWS), rng.normal(3, 0.3, DRAWS))


@pytest.mark.parametrize("width", [0.4, 3.0])
@pytest.mark.parametrize(
    ("log_density", "draws"),
    [(two_modes, draws_of_two), (stats.expon.logpdf, lambda rng: rng.exponential(size=DRAWS))],
)
def test_one_update_from_exact_draws(log_density, draws, width):
    rng = np.random.default_rng(4)
    start = draws(rng)
    after = slice_draws(lambda value, _: log_density(value), start, np.full(DRAWS, width), rng)
    assert np.mean(after != start) == 1.0
    assert stats.ks_2samp(after, draws(rng)).pvalue > 1e-6
    # Pairs are as likely as the reversed pairs.
    assert stats.ks_2samp((start - after)[: DRAWS // 2], (after - start)[DRAWS // 2 :]).pvalue > 1e-6
